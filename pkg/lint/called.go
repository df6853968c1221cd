package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// copied matches the build step of a layer that copies files into the image, as BuildKit and
// as the builder before it write it.
var copied = regexp.MustCompile(`^(/bin/sh -c #\(nop\) )?(COPY|ADD) `)

// isCalled reports whether users of the image call a program by its name, as far as an image
// shows that: the image starts a shell that waits for commands, and the program is in a
// directory of the shell's PATH, where the author of the image has put it himself. It is not
// called if another program of the same layer and directory starts: an image whose converter
// of videos works may do without its player.
func isCalled(pass *Pass, o *replay.Object) bool {
	file := pass.Image.File(o.Path)
	if !replay.IsProgram(o.ELF) || file.Layer == nil || file.Layer.Index == 1 || !onShellsPath(pass, path.Dir(o.Path)) {
		return false
	}
	local := path.Dir(o.Path) == "/usr/local/bin" || path.Dir(o.Path) == "/usr/local/sbin"
	if !local && !copied.MatchString(file.Layer.CreatedBy) {
		return false
	}
	ofWheel := func(p *inventory.Package) bool { _, has := p.Files[o.Path]; return has }
	if slices.ContainsFunc(pass.Inventory.Packages, ofWheel) {
		return false
	}
	return !slices.ContainsFunc(pass.Files.Objects, func(other *replay.Object) bool {
		return path.Dir(other.Path) == path.Dir(o.Path) && replay.IsProgram(other.ELF) && len(pass.Files.Real(other.Misses)) == 0 &&
			pass.Image.File(other.Path).Layer.Index == file.Layer.Index
	})
}

// onShellsPath reports whether the image starts only shells that wait for commands, and one of
// them looks for programs in dir, which is no directory of the distribution's programs.
func onShellsPath(pass *Pass, dir string) bool {
	if slices.Contains([]string{"/usr/bin", "/usr/sbin", "/bin", "/sbin"}, dir) {
		return false
	}
	on, shells := false, 0
	for _, p := range pass.Evidence.Started.Programs {
		switch {
		case p.Service:
			return false
		case !p.Main, p.Kind == startup.KindShell && p.File != "": // what a script runs is in the list
			continue
		case !waits(p):
			return false
		}
		shells++
		on = on || slices.ContainsFunc(strings.Split(p.Env["PATH"], ":"), func(d string) bool {
			return path.IsAbs(d) && startup.Known(d) && replay.RealPath(pass.Image.FS, d) == dir
		})
	}
	return on && shells > 0
}

// waits reports whether a program is a shell that takes its commands from its user.
func waits(p startup.Program) bool {
	isOption := func(a string) bool { return slices.Contains([]string{"-i", "-l", "-il", "-li", "--login"}, a) }
	return p.Kind == startup.KindShell && len(p.Args) > 0 && !slices.ContainsFunc(p.Args[1:], func(a string) bool { return !isOption(a) })
}

// cannotBeMet reports whether no environment that a user's shell sets can meet a miss: no file
// of the image is the library, or it is a version of glibc or libstdc++ that no copy has.
func cannotBeMet(pass *Pass, e *elfdeps.Error) bool {
	switch {
	case e.Unknown, pass.Files.OnJetson():
		return false
	case replay.IsVersion(e):
		ofSystem := func(p string) bool { return strings.HasPrefix(e.Name, p) }
		return slices.ContainsFunc([]string{"GLIBC_", "GLIBCXX_", "CXXABI_"}, ofSystem) && len(pass.Files.NewerCopies(e.Subject, e.Name)) == 0
	case !e.Missing():
		return false
	}
	name := path.Base(e.Name)
	return len(pass.Files.Named[name])+len(pass.Files.Sonames[name])+len(pass.Files.Otherwise(name)) == 0
}

// calledEffects returns the effects of a miss on a program that users call, or on a back end, by
// the clause of the verdict.
func calledEffects(pass *Pass, o *replay.Object, e *elfdeps.Error, clause string) []packs.Effect {
	switch clause {
	case called:
		v := packs.Values{"program": path.Base(o.Path), "error": e.Error()}
		var list []packs.Effect
		for _, x := range pass.Packs.Effects(startClause(e), v) {
			list = append(list, packs.Effect{Text: pass.Packs.Phrase("called-program", v), Error: x.Error})
		}
		return list
	case backend:
		b, name := backendOf(pass, o), path.Base(path.Dir(o.Path))
		v := packs.Values{"name": name}
		return []packs.Effect{{Text: packs.Fill(b.Effect, v), Error: pass.Packs.Reads(packs.Fill(b.Error, v), e)}}
	}
	return nil
}

// judgeCalled returns the verdict on a miss of a program that users of the image call by its
// name, and whether it is one.
func judgeCalled(pass *Pass, o *replay.Object, e *elfdeps.Error) (packs.Verdict, bool) {
	if !cannotBeMet(pass, e) || !isCalled(pass, o) {
		return packs.Verdict{}, false
	}
	return pass.Packs.Verdict(called, nil), true
}

// The shared clauses of a program that users of the image call by its name, and of a back end
// of the image's program.
const (
	called  = "called-in-shell"
	backend = "asked-back-end"
)

// backendOf returns the row of the packs for a back end that the author of the image has added
// to a program of it, in a layer above the program's; else nil. A program comes with many back
// ends, of which an image needs those of its models.
func backendOf(pass *Pass, o *replay.Object) *packs.Backend {
	for _, b := range pass.Packs.Backends {
		if !packs.MatchAny(b.Files, path.Base(o.Path)) {
			continue
		}
		if host, ok := pass.Config.Executable(b.Host); ok {
			h, f := pass.Image.File(host), pass.Image.File(o.Path)
			if h.Layer != nil && f.Layer != nil && h.Layer.Index < f.Layer.Index {
				return b
			}
		}
	}
	return nil
}

// judgeBackend returns the verdict on a miss of a back end that the author of the image has added,
// and whether it is one.
func judgeBackend(pass *Pass, o *replay.Object, e *elfdeps.Error) (packs.Verdict, bool) {
	if backendOf(pass, o) == nil || !cannotBeMet(pass, e) {
		return packs.Verdict{}, false
	}
	return pass.Packs.Verdict(backend, nil), true
}
