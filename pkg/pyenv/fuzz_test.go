package pyenv

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// FuzzVenv: a pyvenv.cfg that is written from what was read is read as the same.
func FuzzVenv(f *testing.F) {
	f.Add([]byte("home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n"))
	f.Add([]byte("HOME=/a\nhome=/b\r\nversion_info = 3.12.1.final.0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := parseVenv(b)
		text := fmt.Sprintf("include-system-site-packages = %t\nversion = %s\nhome = %s\n", c.system, c.version, c.home)
		if again := parseVenv([]byte(text)); again != c && len(c.home) < maxLine-16 && len(c.version) < maxLine-16 {
			t.Errorf("%q: %+v, and then %+v", b, c, again)
		}
	})
}

// FuzzPth: whatever a .pth file says, the result is the same again, entries of sys.path
// are there unless a line that Python runs has added them, and Python's own stay.
func FuzzPth(f *testing.F) {
	f.Add([]byte("/opt/a\nb\n# x\nimport os; d = '/opt/c'; d in sys.path or sys.path.append(d)\n"))
	f.Add([]byte(nspkg("a.b") + "import _virtualenv\nimport __editable___a_finder; __editable___a_finder.install()"))
	f.Add([]byte("import sys; sys.__plen = len(sys.path)\n./b\nimport sys; new=sys.path[sys.__plen:]; del sys.path[sys.__plen:]; p=getattr(sys,'__egginsert',0); sys.path[p:p]=new; sys.__egginsert = p+len(new)\n"))
	files := base + `/opt/a/x.py
/usr/lib/python3.11/site-packages/b/y.py
/usr/lib/python3.11/site-packages/__editable___a_finder.py = MAPPING = {'a': '/opt/a'}\nNAMESPACES = {'n': ['/opt/a']}\nPATH_PLACEHOLDER = 'a' + ".__path_hook__"
/usr/lib/python3.11/site-packages/x.pth = x`
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := textFS(t, files)
		e, _, _ := fsys.Lookup("/usr/lib/python3.11/site-packages/x.pth")
		e.Content, e.Size = b, int64(len(b))
		in, err := Open(fsys, "/usr/bin/python3.11", Options{User: "/root"})
		again, err2 := Open(fsys, "/usr/bin/python3.11", Options{User: "/root"})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if d := cmp.Diff([][]string{in.SysPath, in.Unknown}, [][]string{again.SysPath, again.Unknown}); d != "" {
			t.Errorf("differs from itself:\n%s", d)
		}
		if !slices.Contains(in.SysPath, "/usr/lib/python3.11") || len(in.SysPath) > maxEntries {
			t.Errorf("sys.path has lost the library or has no bound: %d", len(in.SysPath))
		}
		for _, p := range in.SysPath {
			if _, _, there := fsys.Lookup(p); !there && len(in.PthImports) == 0 && !strings.HasSuffix(p, ".zip") {
				t.Errorf("%q is not there", p)
			}
		}
	})
}

// FuzzEditable: the tables of a finder that are written as repr does are read as the same.
func FuzzEditable(f *testing.F) {
	f.Add([]byte("MAPPING: dict[str, str] = {'a': '/src/a', \"it's\": '/b'}\nNAMESPACES: dict[str, list[str]] = {'n': ['/x', '/y'], 'm': []}\nPATH_PLACEHOLDER = '__editable__.a-1.finder' + \".__path_hook__\"\n"))
	f.Add([]byte("F.map_module('a', '/src/a/__init__.py')\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := parseEditable(b)
		if e == nil {
			return
		}
		repr := func(s string) string {
			return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
		}
		var maps1, spaces []string
		for _, k := range slices.Sorted(maps.Keys(e.mapping)) {
			maps1 = append(maps1, repr(k)+": "+repr(e.mapping[k]))
		}
		for _, k := range slices.Sorted(maps.Keys(e.namespaces)) {
			var dirs []string
			for _, d := range e.namespaces[k] {
				dirs = append(dirs, repr(d))
			}
			spaces = append(spaces, repr(k)+": ["+strings.Join(dirs, ", ")+"]")
		}
		text := "MAPPING = {" + strings.Join(maps1, ", ") + "}\nNAMESPACES = {" + strings.Join(spaces, ", ") + "}\n"
		if name, ok := strings.CutSuffix(e.placeholder, ".__path_hook__"); ok {
			text += "PATH_PLACEHOLDER = " + repr(name) + ` + ".__path_hook__"` + "\n"
		}
		again := parseEditable([]byte(text))
		if len(text) > maxText || len(e.mapping)+len(e.namespaces) >= maxEntries {
			return
		}
		if again == nil || !maps.Equal(again.mapping, e.mapping) || again.placeholder != e.placeholder || !maps.EqualFunc(again.namespaces, e.namespaces, slices.Equal[[]string]) {
			t.Errorf("%q: %+v, and then %+v", text, e, again)
		}
	})
}

// FuzzEntryPoints: entry points that are written are read as the same.
func FuzzEntryPoints(f *testing.F) {
	f.Add([]byte("[console_scripts]\na = pkg.mod:main\nb=pkg [x]\n# c\n[g.h]\nn = m:a.b [extra]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		groups := parseEntryPoints(b)
		var text strings.Builder
		for _, g := range slices.Sorted(maps.Keys(groups)) {
			fmt.Fprintf(&text, "[%s]\n", g)
			for _, p := range groups[g] {
				fmt.Fprintf(&text, "%s = %s", p.Name, p.Module)
				if p.Attr != "" {
					text.WriteString(":" + p.Attr)
				}
				text.WriteString("\n")
			}
		}
		if text.Len() > maxText {
			return
		}
		if d := cmp.Diff(groups, parseEntryPoints([]byte(text.String()))); d != "" {
			t.Errorf("%q:\n%s", text.String(), d)
		}
	})
}

// FuzzZip: what Extract keeps of a zip file has the names and sources that the whole file has.
func FuzzZip(f *testing.F) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"a.py", "b/__init__.py", "b/c.py", "d/"} {
		w, _ := z.Create(name)
		w.Write([]byte("import x"))
	}
	z.Close()
	f.Add(b.Bytes())
	f.Add([]byte("no zip file, but long enough to be one"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.HasPrefix(b, []byte(zipHeading)) {
			return // as if it were kept already
		}
		kept, err := extractZip(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		entry := func(content []byte) *layers.Entry { return &layers.Entry{Size: int64(len(b)), Content: content} }
		names, why := zipNames(entry(kept))
		wholeNames, wholeWhy := zipNames(entry(b))
		if !slices.Equal(names, wholeNames) || (names == nil) != (wholeNames == nil) || why != wholeWhy {
			t.Errorf("kept: %q, %q; whole: %q, %q", names, why, wholeNames, wholeWhy)
		}
		for _, n := range names {
			source, ok := Member(entry(kept), n)
			whole, wholeOK := Member(entry(b), n)
			if !bytes.Equal(source, whole) || ok != wholeOK {
				t.Errorf("of %q is kept %q, %t; of the whole %q, %t", n, source, ok, whole, wholeOK)
			}
		}
	})
}
