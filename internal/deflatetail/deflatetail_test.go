package deflatetail_test

import (
	"bytes"
	"compress/flate"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/imgcheck/imgcheck/internal/deflatetail"
)

func deflate(t testing.TB, text []byte, level int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, level)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// right reports how many bytes of a decoded end are known, and whether these are those of text.
func right(text []byte, out []int16) (known int, ok bool) {
	if len(out) > len(text) {
		return 0, false
	}
	for i, v := range out {
		if v == deflatetail.Unknown {
			continue
		}
		known++
		if byte(v) != text[len(text)-len(out)+i] {
			return known, false
		}
	}
	return known, true
}

// The end of this test's program and of random and repeated bytes, compressed in several ways, is
// what it was, as far as it is known; of the program most is known.
func TestDecode(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	program = program[:min(len(program), 4<<20)]
	random := make([]byte, 1<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(random)
	for name, text := range map[string][]byte{"program": program, "random": random, "repeated": bytes.Repeat([]byte("libcudnn.so.9\x00"), 100_000)} {
		for _, level := range []int{1, 6, 9, flate.HuffmanOnly} {
			packed := deflate(t, text, level)
			out := deflatetail.Decode(packed[max(0, len(packed)-256<<10):])
			known, ok := right(text, out)
			if !ok || len(out) == 0 || name != "repeated" && known < 100_000 {
				t.Errorf("%s, level %d: %d bytes, of which %d are known: %v", name, level, len(out), known, ok)
			}
		}
	}
	if out := deflatetail.Decode(random); out != nil {
		t.Errorf("%d bytes are decoded of what is no stream", len(out))
	}
}

// FuzzDecode: whatever is decoded of the end of a stream is what the whole stream has.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("a text, a text, and a text"), uint16(3), byte(9))
	f.Add(bytes.Repeat([]byte{0, 1, 2, 3, 4, 5}, 1000), uint16(10), byte(1))
	f.Fuzz(func(t *testing.T, text []byte, cut uint16, level byte) {
		packed := deflate(t, text, int(level%12)-2)
		part := packed[min(int(cut), len(packed)):]
		if out := deflatetail.Decode(part); len(part) > 2000 && len(out) > 0 {
			if _, ok := right(text, out); !ok {
				t.Errorf("%d bytes are not those of the text", len(out))
			}
		}
	})
}
