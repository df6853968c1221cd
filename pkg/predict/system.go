package predict

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

var (
	pythonName = regexp.MustCompile(`^python(3\.\d+)$`)
	distInfo   = regexp.MustCompile(`^([A-Za-z0-9_.]+)-([^-/]+)\.dist-info$`)
	osField    = regexp.MustCompile(`(?m)^(ID|VERSION_ID)="?([^"\n]*)"?$`)
)

func normalize(name string) string { return inventory.Normalize(name) }

// minor returns the release of a Python that a command names, or "".
func minor(python string) string {
	if strings.HasPrefix(python, "3.") {
		return python
	}
	return ""
}

// libcOf returns the C library of a file system for x86-64.
func libcOf(fsys *layers.FS) (libc *elfdeps.Libc, machine string) {
	for _, name := range []string{"lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6", "usr/lib64/libc.so.6", "lib/ld-musl-x86_64.so.1"} {
		if e, _, ok := fsys.Lookup(name); ok && e.Object != nil && e.Object.Libc != nil && e.Object.Libc.Release != "" {
			return e.Object.Libc, "amd64"
		}
	}
	return nil, ""
}

// system lays down the Python that the distribution's package python3 installs: the program,
// which needs the C library alone as far as it counts here.
func (py *python) system(fsys *layers.FS, p dockerlint.Prospect) bool {
	e, _, ok := fsys.Lookup("etc/os-release")
	if !ok {
		return false
	}
	field := map[string]string{}
	for _, m := range osField.FindAllSubmatch(bytes.ReplaceAll(e.Content, []byte("\r"), nil), 20) {
		field[string(m[1])] = string(m[2])
	}
	py.release = p.System[field["ID"]+" "+field["VERSION_ID"]]
	libc, _, ok := fsys.Lookup("lib/x86_64-linux-gnu/libc.so.6")
	if py.release == "" || !ok || libc.Object == nil {
		return false
	}
	if p.Python != "" && minor(p.Python) != "" && minor(p.Python) != py.release {
		return false
	}
	program := "usr/bin/python" + py.release
	py.entries = append(py.entries,
		layers.Entry{Path: program, Type: layers.Regular, Mode: 0o755, Size: 1, Object: &elfdeps.Object{
			Ident: libc.Object.Ident, Type: elf.ET_DYN, Machine: libc.Object.Machine, Version: 1, Dynamic: true,
			Interp: "/lib64/ld-linux-x86-64.so.2", Needed: []string{"libm.so.6", "libc.so.6"}, Flags1: elf.DF_1_PIE,
		}},
		layers.Entry{Path: "usr/bin/python3", Type: layers.Symlink, Mode: fs.ModePerm, Link: path.Base(program)},
	)
	py.program = "usr/bin/python3"
	py.place(fsys, "usr")
	return true
}
