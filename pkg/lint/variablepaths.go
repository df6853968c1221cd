package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// libraryFile matches the file name of a shared library.
var libraryFile = regexp.MustCompile(`^[\w.+-]+\.so(\.\d+)*$`)

// librariesOfVariables returns a finding for each variable of the image's config that holds the
// path of a library which does not exist, if a program of the image's start names the variable:
// onnxruntime_go's ONNXRUNTIME_LIB_PATH, ort's ORT_DYLIB_PATH. The variables of loaders have
// rules of their own.
func librariesOfVariables(pass *Pass) []Finding {
	var list []Finding
	seen := map[string]bool{}
	for _, v := range pass.Config.Env().Vars {
		name, _, _ := strings.Cut(v, "=")
		value, _ := pass.Config.Getenv(name)
		if seen[name] || strings.HasPrefix(name, "LD_") || !namesNoLibrary(pass, value) {
			continue
		}
		seen[name] = true
		program := readerOf(pass, name, value)
		if program == "" {
			continue
		}
		v := packs.Values{"variable": name, "path": value, "program": path.Base(program)}
		f := pass.say("unresolved-library", "by-variable", v)
		f.Library, f.Subject, f.Kind, f.Cause = path.Base(value), name, packs.Missing, "missing "+value
		f.NeededBy, f.Affected = pass.Image.FilesOf([]string{program}), []string{program}
		f.Removed = pass.Image.Removed(path.Base(value))
		f.Present = pass.Image.FilesOf(likeLibrary(pass, value))
		clause := "at-variable"
		if len(f.Present) > 0 {
			clause, v["present"] = "other-than-variable", f.Present[0].Path
		}
		f.advise(pass.advice(clause, v)...)
		list = append(list, f)
	}
	return list
}

// ofImages are the beginnings of paths below which images have their own files.
var ofImages = []string{"/usr/", "/opt/", "/lib"}

// namesNoLibrary reports whether a value is the path of a library that the image does not have,
// and that no mount is known to bring. A directory that the image does not have either is likely
// a mount's (/models, /mnt), but for those of images.
func namesNoLibrary(pass *Pass, value string) bool {
	if !path.IsAbs(value) || path.Clean(value) != value || !libraryFile.MatchString(path.Base(value)) {
		return false
	}
	_, _, exists := pass.Image.FS.Lookup(value)
	own := isDirIn(pass, path.Dir(value)) || slices.ContainsFunc(ofImages, func(dir string) bool { return strings.HasPrefix(value, dir) })
	return !exists && own && !pass.Packs.FromDriver(path.Base(value)) && !pass.Config.IsMount(path.Dir(value)) && !pass.Image.MayBeSkipped(value) && !pass.Files.OnJetson()
}

// readerOf returns the first program of the image's start that runs with a value of a variable
// and has the variable's name in its read-only data, or "".
func readerOf(pass *Pass, name, value string) string {
	for _, p := range pass.Evidence.Started.Programs {
		o := pass.Files.ByPath[replay.RealPath(pass.Image.FS, p.Path)]
		if p.Path == "" || p.Env[name] != value || o == nil || !asksFor(o.ELF, name) {
			continue
		}
		return o.Path
	}
	return ""
}

// certain is the length from which on the name of a variable is no end of another one's: Go and
// Rust may have put other capitals before it.
const certain = 16

// asksFor reports whether an object has the name of a variable in its read-only data.
func asksFor(o *elfdeps.Object, name string) bool {
	return o.Named != nil && slices.ContainsFunc(o.Named.Variables, func(run string) bool {
		return run == name || len(name) >= certain && strings.Contains(run, name)
	})
}

// likeLibrary returns the files of the image that a missing library may be: of its name, or
// beside it with another number or for another system.
func likeLibrary(pass *Pass, value string) []string {
	if list := pass.Files.Present(path.Base(value)); len(list) > 0 {
		return list
	}
	stem, _, _ := strings.Cut(path.Base(value), ".so")
	return pass.Files.Glob(path.Dir(value), stem+".{so.*,dylib,*.dylib,dll}")
}
