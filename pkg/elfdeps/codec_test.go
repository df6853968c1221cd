package elfdeps

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fill sets every field in v to a value other than zero, and lists to two elements; n counts
// up, so that no two values are equal.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString("s" + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	default:
		v.SetUint(*n % 251)
	}
}

// TestCodecKeepsEveryField: every field of an object is encoded, also one that is added later.
func TestCodecKeepsEveryField(t *testing.T) {
	var o Object
	var n uint64
	fill(reflect.ValueOf(&o).Elem(), &n)
	o.Symbols.Table = bytes.Repeat([]byte{3, 1, 4}, 2*symbolSize)
	o.Symbols.Refs = bytes.Repeat([]byte{9, 1, 2, 0}, 5)
	sameAgain(t, &o)
	sameAgain(t, &Object{})
	sameAgain(t, &Object{Symbols: &Symbols{}, Libc: &Libc{}, Rpath: new(""), Needed: []string{}, Flags: -1})
	for i := range reflect.TypeFor[Object]().NumField() { // one at a time
		var one Object
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(&o).Elem().Field(i))
		sameAgain(t, &one)
	}
}

func sameAgain(t *testing.T, o *Object) []byte {
	t.Helper()
	b, _ := o.AppendBinary([]byte("before"))
	b = b[len("before"):]
	var got Object
	if err := got.UnmarshalBinary(b); err != nil {
		t.Fatalf("%v of %+v", err, o)
	}
	if diff := cmp.Diff(o, &got); diff != "" {
		t.Fatalf("-stored +read:\n%s", diff)
	}
	return b
}

// stored has the encoded form of the objects below, by CodecVersion.
const stored = "17 cbb106e564f86a08"

// TestCodecVersion: a change of the encoded form changes CodecVersion, since stored bytes are
// decoded by the version that wrote them only.
func TestCodecVersion(t *testing.T) {
	sum := sha256.New()
	for _, text := range []string{
		full,
		"elf i386 soname=a\nneeded b\nrpath /x\n",
		"elf x86_64 soname=a\nneeded b\nverneed b W X?\nverdef a V1 V2\nundef f@W\nundef g@X data\nundef t tls\ndef h@@V1 called\ndef h@V2\ndef i object protected\nstatictls 8\n",
		"elf x86_64\nundef dlopen\nrodata \"\\x00libx.so.1\\x00\"\n",
		"elf x86_64\ngpu count=2 sm_75 compute_90@8.4/zstd\ngpu section=.ldata sm_90a\n",
		"elf x86_64\ndef PyInit_a\nrodata \"\\x00b.c\\x00cython_runtime\\x00\"\n",
	} {
		file := parseELF(t, text).Bytes()
		o, err := ReadSymbols(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(sameAgain(t, o))
	}
	if got := fmt.Sprintf("%d %.8x", CodecVersion, sum.Sum(nil)); got != stored {
		t.Errorf("the encoded form is now %q, not %q: raise CodecVersion, unless only the files of this test changed, and record the form here", got, stored)
	}
}

func TestCodecOfRealObjects(t *testing.T) {
	files, _ := filepath.Glob("/lib/x86_64-linux-gnu/lib[cms]*.so.?")
	if len(files) == 0 {
		t.Fatal("this machine has no libraries")
	}
	for _, name := range files {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		o, err := ReadSymbols(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		b := sameAgain(t, o)
		for cut := range min(len(b), 64) {
			if err := new(Object).UnmarshalBinary(b[:len(b)-1-cut]); err == nil {
				t.Errorf("%s: without its last %d bytes it is decoded without an error", name, cut+1)
			}
		}
	}
}

// FuzzCodec: for any bytes, decoding returns an error and changes nothing, or sets an object
// that is encoded as the same bytes.
func FuzzCodec(f *testing.F) {
	var o Object
	var n uint64
	fill(reflect.ValueOf(&o).Elem(), &n)
	for _, o := range []*Object{{}, {Symbols: &Symbols{}}, &o} {
		b, _ := o.AppendBinary(nil)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := slices.Clone(b)
		var o Object
		if err := o.UnmarshalBinary(b); err != nil {
			if diff := cmp.Diff(Object{}, o); diff != "" {
				t.Errorf("an object beside an error: %s", diff)
			}
			return
		}
		again, _ := o.AppendBinary(nil)
		if !bytes.Equal(again, b) || !bytes.Equal(before, b) {
			t.Errorf("decoded and encoded again:\n%x\n%x", b, again)
		}
	})
}

// FuzzCodecSymbols: for any bytes of the tables, decoding fails or returns symbols that are
// encoded as the same bytes and that packing preserves.
func FuzzCodecSymbols(f *testing.F) {
	var all Symbols
	var n uint64
	fill(reflect.ValueOf(&all).Elem(), &n)
	all.Table = bytes.Repeat([]byte{3, 1, 4}, 2*symbolSize)
	for _, s := range []*Symbols{{}, &all} {
		var e encoder
		e.symbols(s)
		f.Add(e.b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, s := decoder{b: b}, &Symbols{}
		d.symbols(s)
		if d.failed || len(d.b) > 0 {
			return
		}
		var e encoder
		if e.symbols(s); !bytes.Equal(e.b, b) {
			t.Errorf("decoded and encoded again:\n%x\n%x", b, e.b)
		}
		if !s.Pack().Equal(s) {
			t.Errorf("packing has changed\n%+v", s)
		}
	})
}

// TestPackedDamaged: an invalid stored form counts as unknown symbols, not as none.
func TestPackedDamaged(t *testing.T) {
	file := parseELF(t, full).Bytes()
	o, err := ReadSymbols(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	whole := o.Symbols.Pack()
	if first, again := whole.unpack(), whole.unpack(); first != again || !whole.Equal(o.Symbols) || whole.Len() == 0 {
		t.Error("packed symbols are not shared, or differ")
	}
	for i := range whole.packed.zstd {
		p := &packed{zstd: bytes.Clone(whole.packed.zstd[:i]), weight: whole.packed.weight}
		if s := whole.with(p); s.unpack() != nil || s.Defines("f") || s.Len() != 0 {
			t.Fatalf("%d bytes of %d are read", i, len(whole.packed.zstd))
		}
	}
	if s := whole.with(&packed{zstd: whole.packed.zstd, weight: 1}); s.unpack() != nil {
		t.Error("the symbols are larger than their weight")
	}
}
