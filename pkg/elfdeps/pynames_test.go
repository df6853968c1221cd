package elfdeps

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModules(t *testing.T) {
	const head = "elf x86_64 soname=liba.so.1\ndef PyInit_a\n"
	const rodata = `rodata "x\x00numpy.core.multiarray\x00p.a\x00p.a.f\x00p.a.C.g\x00_common\x001a.b\x00a..b\x00a.b.\x00an error: a.b\x00os.path\x00numpy.core.multiarray\x00`
	cython := `cython_runtime\x00zlib\x00"` + "\n"
	names := []string{"numpy.core.multiarray", "p.a", "os.path"}
	for _, c := range []struct {
		name, text string
		want       *Modules
	}{
		{"an extension module", head + rodata + "\"\n", &Modules{Names: names, Idents: []string{"_common"}}},
		{"by Cython", head + rodata + cython, &Modules{Names: names, Idents: []string{"_common", "cython_runtime", "zlib"}}},
		{"imports by name", head + "undef PyImport_ImportModule\n" + rodata + `uuid\x00zlib\x00"` + "\n", &Modules{Names: names, Idents: []string{"_common", "uuid"}}},
		{"has such a word", head + rodata + `uuid\x00"` + "\n", &Modules{Names: names, Idents: []string{"_common"}}},
		{"in a package of its name", head + `rodata "x\x00p.a.b\x00p.a.a\x00p.a.a.f\x00"` + "\n", &Modules{Names: []string{"p.a.b", "p.a.a"}}},
		{"no extension module", "elf x86_64 soname=liba.so.1\ndef f\n" + rodata + "\"\n", nil},
		{"imports such a name", "elf x86_64 soname=liba.so.1\nundef PyInit_a\n" + rodata + "\"\n", nil},
		{"no names", head, &Modules{}},
		{"large", head + "rodata \"x\\x00" + strings.Repeat(`k.b\x00`, maxModulesText) + "c.d\\x00\"\npad 20MiB\n", &Modules{Names: []string{"k.b", "c.d"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := parseELF(t, c.text).Bytes()
			o, err := ReadSymbols(bytes.NewReader(file), int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, o.Modules); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestModulesBound: more names than the limits allow set Partial.
func TestModulesBound(t *testing.T) {
	e := parseELF(t, "elf x86_64 soname=liba.so.1\ndef PyInit_a\n")
	var b strings.Builder
	b.WriteByte(0)
	for i := range maxModulesText / 3 {
		b.WriteString("k.b" + strings.Repeat("x", i%7) + strings.Repeat("y", i%11) + strings.Repeat("z", i%13) + "\x00")
	}
	e.Rodata = b.String()
	file := e.Bytes()
	o, err := ReadSymbols(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	text := 0
	for _, n := range o.Modules.Names {
		text += len(n)
	}
	if text > maxModulesText {
		t.Errorf("kept %d bytes of names", text)
	}
}
