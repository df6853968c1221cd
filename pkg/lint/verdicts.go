package lint

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// judge returns the verdict on a miss of an object that is loaded by itself.
func judge(pass *Pass, o *replay.Object, e *elfdeps.Error) packs.Verdict {
	if pkg, asked, ok := pass.Evidence.Unseen.Fails(o, e); ok {
		return judgeUnseen(pass, pkg, asked)
	}
	if pass.Packs.Family(e.Name) == nil {
		if v, is := judgeCalled(pass, o, e); is {
			return v
		}
		if v, is := judgeBackend(pass, o, e); is {
			return v
		}
	}
	switch {
	case replay.IsVersion(e):
		return judgeVersion(pass, o, e)
	case replay.IsStack(e):
		return judgeStack(pass, o)
	case pass.Packs.Family(e.Name) == nil && onlyForGlibc(pass, o, e):
		return pass.Packs.Verdict("other-c-library", nil)
	case replay.IsProgram(o.ELF) && pass.Packs.Family(e.Name) == nil:
		return pass.Packs.Unproved("not-started")
	case pass.Packs.Family(e.Name) == nil, !pass.Files.IsRoot(o):
		return pass.Packs.Unproved("others-may-load")
	case e.Unknown:
		return pass.Packs.Verdict("library-unexamined", nil)
	}
	return judgeRoot(pass, o, e)
}

// nugetNative ends the directory in which a .NET program has a package's native library for
// Linux on x86-64 or ARM64. With musl, the host takes that for linux-musl-x64 before it.
// (https://learn.microsoft.com/dotnet/core/rid-catalog)
var nugetNative = regexp.MustCompile(`/runtimes/linux-(x64|arm64)/native$`)

// onlyForGlibc reports whether an object is the native library of a .NET package in an image of
// musl, asks for the loader of glibc, which no process of the image can have loaded, and has
// no twin that can be loaded: one for musl, or one beside it (alpine-librdkafka.so).
func onlyForGlibc(pass *Pass, o *replay.Object, e *elfdeps.Error) bool {
	dir, stem := path.Dir(o.Path), strings.TrimSuffix(path.Base(o.Path), ".so")
	m := nugetNative.FindStringSubmatch(dir)
	if m == nil || !e.Musl || !e.Missing() || !strings.HasPrefix(e.Name, "ld-linux-") || len(pass.Files.Present(e.Name)) > 0 {
		return false
	}
	forMusl := strings.TrimSuffix(dir, "/linux-"+m[1]+"/native") + "/linux-musl-" + m[1] + "/native"
	return !slices.ContainsFunc(pass.Files.Objects, func(other *replay.Object) bool {
		in := path.Dir(other.Path)
		return (in == dir || in == forMusl) && strings.Contains(path.Base(other.Path), stem) && len(pass.Files.Real(other.Misses)) == 0
	})
}

// onlyForNewer reports whether an object is the native library of a .NET package, needs a newer
// glibc or libstdc++ than the image's, which are those of each of its processes, and has no
// twin below the same directory that can be loaded (LLamaSharp has one for each generation of
// processors).
func onlyForNewer(pass *Pass, o *replay.Object, e *elfdeps.Error) bool {
	dir, below, ok := strings.Cut(o.Path, "/native/")
	if !ok || !nugetNative.MatchString(dir+"/native") || e.By == nil || e.By.Real() != o.Path ||
		!slices.ContainsFunc([]string{"GLIBC_", "GLIBCXX_", "CXXABI_"}, func(p string) bool { return strings.HasPrefix(e.Name, p) }) {
		return false
	}
	stem := strings.TrimSuffix(path.Base(below), ".so")
	return !slices.ContainsFunc(pass.Files.Objects, func(other *replay.Object) bool {
		return strings.HasPrefix(other.Path, dir+"/native/") && strings.Contains(path.Base(other.Path), stem) && len(pass.Files.Real(other.Misses)) == 0
	})
}

// judgeUnseen returns the verdict on a file that a package must load, without source that
// says so.
func judgeUnseen(pass *Pass, pkg string, asked inventory.Answer) packs.Verdict {
	switch v := (packs.Values{"package": pkg}); asked {
	case inventory.Yes:
		return packs.Grave
	case inventory.No:
		return pass.Packs.Verdict("package-of-others", v)
	default:
		return pass.Packs.Verdict("package-perhaps", v)
	}
}

// judgeRoot returns the verdict on a GPU library that a root misses.
func judgeRoot(pass *Pass, o *replay.Object, e *elfdeps.Error) packs.Verdict {
	by := o.Path
	if e.By != nil && e.By.Real() != "" {
		by = e.By.Real()
	}
	if by == o.Path && pass.Evidence.Served(o.Path, e.Name) {
		return pass.Packs.Verdict("served", nil)
	}
	if pass.Packs.Family(o.Path) != nil && len(pass.Files.Present(e.Name))+len(pass.Files.Otherwise(e.Name)) > 0 {
		return pass.Packs.Verdict("part-of-libraries", nil)
	}
	for _, p := range []string{o.Path, by} {
		if x := pass.Packs.Optional.For(p); x != nil {
			return pass.Packs.Excepted(x)
		}
	}
	if why, known := pass.Packages.NotChosen(o.Path); known && why != "" {
		return pass.Packs.Verdict("excepted", packs.Values{"why": why})
	} else if x := pass.Packs.AnyOf.For(o.Path); !known && x != nil && anyServes(pass, x, o.Path) {
		return pass.Packs.Excepted(x)
	}
	if in := pass.Evidence.InstallOf(o.Path); in != nil && in.Help != nil {
		return pass.Packs.Helped(in.Help, in.Begun)
	}
	if at := goesOnWithout(pass, o.Path); at != "" {
		return pass.Packs.Verdict("caught-open", packs.Values{"at": at})
	}
	return packs.Grave
}

// goesOnWithout returns the statement by which a program of the image's start opens a file, if the program catches
// the failure, and none ends by it; else "".
func goesOnWithout(pass *Pass, file string) (at string) {
	for _, s := range pass.Evidence.Starts {
		for _, f := range s.Failures {
			if f.File() != file {
				continue
			}
			if f.Ends || f.Caught == "" || f.Maybe != "" || s.Package != "" {
				return ""
			}
			at = f.Path[len(f.Path)-1].At
		}
	}
	return at
}

// judgeVersion returns the verdict on a version that an object misses. It is grave for a root
// that needs the version itself.
func judgeVersion(pass *Pass, o *replay.Object, e *elfdeps.Error) packs.Verdict {
	if onlyForNewer(pass, o, e) {
		return pass.Packs.Verdict("other-c-library", nil)
	}
	if !pass.Files.IsRoot(o) || pass.Packs.Family(o.Path) != nil || e.By == nil || e.By.Real() != o.Path {
		return pass.Packs.Unproved("not-root")
	}
	if x := leftOut(pass, o.Path); x != nil {
		return pass.Packs.Excepted(x)
	}
	return packs.Grave
}

// judgeStart returns the verdict on a miss that stops the image's program at its start.
func judgeStart(pass *Pass, e *elfdeps.Error) packs.Verdict {
	if e.Unknown {
		return pass.Packs.Verdict("library-unexamined", nil)
	}
	return packs.Grave
}

// judgeStep returns the verdict on a miss of a framework's step.
func judgeStep(pass *Pass, in *replay.Install, e *elfdeps.Error) packs.Verdict {
	switch {
	case in.Help != nil:
		return pass.Packs.Helped(in.Help, in.Begun)
	case replay.IsVersion(e), replay.IsStack(e):
		return packs.Grave
	case e.Unknown:
		return pass.Packs.Unproved("step-unexamined")
	case pass.Packs.Family(e.Name) != nil:
		return packs.Grave
	case in.Aside:
		return judgeAside(pass, in)
	case in.Framework.Host != "":
		return pass.Packs.Unproved("step-unseen")
	case !pass.Loaders.StartsPython(in.Home):
		return pass.Packs.Unproved("step-without-python")
	}
	return packs.Grave
}

// judgeAside returns the verdict on a framework that is often installed for another package's
// sake and never imported: by who asked for it, where no source of its own says what it opens.
func judgeAside(pass *Pass, in *replay.Install) packs.Verdict {
	asked, silent := pass.Evidence.Unseen.Asked(in)
	switch {
	case !silent || asked == inventory.Unknown:
		return pass.Packs.Unproved("step-aside")
	case !pass.Loaders.StartsPython(in.Home):
		return pass.Packs.Unproved("step-without-python")
	}
	return judgeUnseen(pass, path.Base(in.Home), asked)
}

// judgeStack returns the verdict on a library that cannot be opened because it asks for an
// executable stack. A library that a program needs is mapped at its start, when any stack is
// allowed.
func judgeStack(pass *Pass, o *replay.Object) packs.Verdict {
	if x := leftOut(pass, o.Path); x != nil {
		return pass.Packs.Excepted(x)
	}
	switch {
	case replay.IsPythonExtension(o.Path) && slices.ContainsFunc(pass.Loaders.Pythons(o.Path), pass.Image.IsFile):
		return packs.Grave
	case pass.Files.IsRoot(o), pass.Packs.Family(o.Path) != nil:
		return pass.Packs.Verdict("stack-if-opened", nil)
	}
	return pass.Packs.Unproved("not-root")
}

// leftOut returns the exception that allows a file to fail: it is optional, or one of
// several of which one is enough. It returns nil for other files.
func leftOut(pass *Pass, file string) *packs.Exception {
	return cmp.Or(pass.Packs.Optional.For(file), pass.Packs.AnyOf.For(file))
}

// anyServes reports whether a file that an any-of pattern names, the given one or one beside
// it, finds all its GPU libraries.
func anyServes(pass *Pass, x *packs.Exception, file string) bool {
	isGPU := func(e *elfdeps.Error) bool { return pass.Packs.Family(e.Name) != nil }
	return slices.ContainsFunc(pass.Files.Objects, func(o *replay.Object) bool {
		return x.Beside(o.Path) == x.Beside(file) && packs.Match(x.Match, o.Path) && !slices.ContainsFunc(pass.Files.Real(o.Misses), isGPU)
	})
}
