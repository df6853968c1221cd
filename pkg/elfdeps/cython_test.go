package elfdeps

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCythonStrings: the read-only data of testdata/cython/m.pyx, which two releases of Cython
// translated and gcc -O2 compiled with each compression (-DCYTHON_COMPRESS_STRINGS), has the names
// of its imports.
func TestCythonStrings(t *testing.T) {
	files, err := filepath.Glob("testdata/cython/*.rodata")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list := cythonStrings([][]byte{data})
		for _, want := range []string{"os", "json", "collections.abc", "_sibling", "pkg.other", "numpy.linalg", "late.module_name", "__main__"} {
			if !slices.ContainsFunc(list, func(s []byte) bool { return string(s) == want }) {
				t.Errorf("%s: no %s in %q", file, want, list)
			}
		}
	}
}

// cythonData returns read-only data as Cython lays it out: the lengths of strings and the text.
func cythonData(list []string, compressed bool) []byte {
	var data, text []byte
	for _, s := range list {
		data = binary.LittleEndian.AppendUint32(data, uint32(len(s)))
		text = append(text, s...)
	}
	data = append(data, 0xff, 0xff, 0xff, 0xff, 0) // no length, and the end of another text
	if !compressed {
		return append(append(data, text...), 0)
	}
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	w.Write(text)
	w.Close()
	return append(data, b.Bytes()...)
}

// TestCythonPlaces: lengths that fit a text at very many places, at each of which it splits into
// very many strings, cost no more than the bound.
func TestCythonPlaces(t *testing.T) {
	anchors := bytes.Repeat(cythonAnchors[0], 2) // fewer than there are names
	text := slices.Concat([]byte{0}, anchors, bytes.Repeat([]byte("a"), maxCythonText/2), []byte("_"), cythonAnchors[1], cythonAnchors[2])
	var lengths []byte
	for range maxCythonRun {
		lengths = binary.LittleEndian.AppendUint32(lengths, 8)
	}
	s := cythonSearch{areas: [][]byte{lengths, text}, left: maxCythonWork}
	if list := s.plain(text); list != nil {
		t.Errorf("%d strings", len(list))
	}
	if s.parts < maxCythonParts || s.parts > maxCythonParts+maxCythonSplits*maxCythonRun {
		t.Errorf("%d places and strings, want %d", s.parts, maxCythonParts)
	}
}

// FuzzCythonStrings: the search ends for any data, and finds the strings of data that is laid out
// as Cython does.
func FuzzCythonStrings(f *testing.F) {
	f.Add([]byte("a\x00bb\x00ccc"), true)
	f.Add([]byte("__name__\x00"+string(lzssMark)+"\x00\xff\x07abc\x00\x00"), false)
	f.Add([]byte("BZh91AY&SY\x28\xb5\x2f\xfd\x78\xda"), false)
	f.Fuzz(func(t *testing.T, b []byte, compressed bool) {
		for _, s := range cythonStrings([][]byte{b, append(bytes.Clone(b), lzssMark...)}) {
			if len(s) > maxCythonString {
				t.Fatalf("a string of %d bytes", len(s))
			}
		}
		var list []string
		for _, s := range bytes.Split(b, []byte{0}) {
			if dots, ok := dottedName(s); ok && dots < 5 {
				list = append(list, string(s))
			}
		}
		for _, anchor := range cythonAnchors {
			list = append(list, string(anchor))
		}
		slices.Sort(list)
		list = slices.Compact(list)
		var got []string
		for _, s := range cythonStrings([][]byte{cythonData(list, compressed)}) {
			got = append(got, string(s))
		}
		if len(got) < len(list) || !slices.Equal(got[len(got)-len(list):], list) {
			t.Fatalf("laid out %q, found %q", list, got)
		}
	})
}
