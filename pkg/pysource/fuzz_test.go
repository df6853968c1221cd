package pysource

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// seeds are sources with what is hard to read.
var seeds = []string{
	"import a\r\nfrom .b import (c as d,\n e)\rif x: import f; import g\n",
	"try:\n\timport a\nexcept (ImportError, OSError) as e:\n\tpass\nelse:\n\timport b\nfinally:\n\tc()\n",
	"def f(a, *b: int, c=d(1), **e) -> 'x':\n  '''doc'''\n  if a:\n    return 1\n  import g\n  return h\nf(1)\n",
	"@a.b(c)\n@d\nasync def e[T](f): yield\nclass G(H, metaclass=I):\n  j: int = k()\n  def l(self): self.m()\n  def m(self):\n    import n\n",
	"match a:\n  case [b, *c] if d: import e\n  case _:\n    f()\nmatch = 1\n",
	"x = f\"{a[\"b\"]!r:>{c}} {{ }} \\N{DASH}\" rb'''d\n''' t'{e}'\nprint x\nexec 'y'\n`z`\n",
	"import ctypes\nn = 'x' * 3\nctypes.CDLL(n + '" + strings.Repeat("y", 100) + "')\nm = [" + strings.Repeat("1,", 100) + "]\n",
	"while a():\n  for b in c:\n    break\n  else:\n    raise d\nwith (e as f, g()): pass\ndel f\nglobal h\n",
	"if a:\n  b\n c\n\td\n", "for 00in 0:\n  00\n else:raise", "(\n[}", "'''", "\\", "\\\n", "a\n\\\n\nb", "f'{", "a\\\n", "\xef\xbb\xbfa", "# coding: latin-1\nimport \xe9\n",
	reducedMark + "\nimport a#7\nf(?)\n#: x y\n", reducedMark + ": it is too long\nimport a\n",
}

// FuzzParse: parsing ends, whatever the text is.
func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dump(Parse(b))
		Modules(b)
	})
}

// FuzzReduce: a reduction ends, within its bound; a second one changes nothing; a source
// that is cut short says so; and all of a reduced text can be read if all of its source
// can. TestReduceReal says what it has.
func FuzzReduce(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		reduced := Reduce(b)
		if len(reduced) > maxReduced {
			t.Errorf("%d bytes of %d are kept", len(reduced), len(b))
		}
		if !bytes.Equal(Reduce(reduced), reduced) {
			t.Errorf("the reduction of the reduced text is another: %q", reduced)
		}
		p, r := Parse(b), Parse(reduced)
		if !utf8.Valid(b) {
			return // Python reads no such source
		}
		if isCut(p) && r.Partial == "" {
			t.Errorf("the reduced text does not say that it is cut short: %q", reduced)
		}
		if isClean(p) && hasBad(r) && !bytes.HasPrefix(b, []byte(reducedMark)) {
			t.Errorf("it cannot be read: %q", reduced)
		}
	})
}

func isCut(f *File) bool { return f.Partial == "a string is not closed" }

// isClean reports whether all of a file could be read.
func isClean(f *File) bool { return f.Partial == "" && !hasBad(f) }

func hasBad(f *File) bool {
	return slices.ContainsFunc(dump(f), func(line string) bool {
		return strings.Contains(line, "BAD") || strings.Contains(line, "if bad")
	})
}
