package layers

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// TestSeveral: processors are used for a layer only if there are enough of them.
func TestSeveral(t *testing.T) {
	processors := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	for _, c := range []struct {
		size, all  int64
		processors int
		want       bool
	}{
		{3 << 30, 3 << 30, 16, true},
		{3 << 30, 50 << 30, 16, true}, // four layers at a time
		{3 << 30, 3 << 30, 4, true},
		{3 << 30, 5 << 30, 4, true},
		{3 << 30, 9 << 30, 4, false}, // a third layer has no second processor
		{3 << 30, 3 << 30, 2, false},
		{3 << 30, 3 << 30, 1, false},
		{minSeveral - 1, 3 << 30, 16, false},
		{0, 0, 16, false}, // not known
	} {
		runtime.GOMAXPROCS(c.processors)
		if got := several(c.size, c.all, c.processors); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestOnSeveralProcessors: a layer, and its error, do not depend on the processors that
// decode it. The layer has some chunks.
func TestOnSeveralProcessors(t *testing.T) {
	least, processors := minSeveral, runtime.GOMAXPROCS(0)
	t.Cleanup(func() {
		minSeveral = least
		runtime.GOMAXPROCS(processors)
	})
	minSeveral = 0

	r := rand.New(rand.NewPCG(9, 10))
	var entries []tarEntry
	for i := range 3000 {
		e := tarEntry{}
		for range 100 {
			e.content += fmt.Sprintf("%x ", r.Uint64())
		}
		e.Name, e.Mode = fmt.Sprint("d/", i), 0o644
		entries = append(entries, e)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(tarOf(t, entries...))
	z.Close()
	whole := packed.Bytes()
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 0xff
	sum := bytes.Clone(whole)
	sum[len(sum)-8] ^= 1

	scan := func(ref string, processors int) (string, []string, error) {
		runtime.GOMAXPROCS(processors)
		return indexed(t, ref)
	}
	for name, blob := range map[string][]byte{
		"whole": whole, "cut": whole[:len(whole)*2/3], "flipped": flipped, "with a wrong sum": sum,
	} {
		ref := "oci:" + gzipLayout(t, blob)
		want, _, wantErr := scan(ref, 2)
		got, notes, err := scan(ref, 4)
		if (wantErr == nil) != (name == "whole") || got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%s: %v, on one processor %v; the layer is the same: %v", name, err, wantErr, got == want)
		}
		if want := "read, gzip by imgcheck's inflate on several processors"; name == "whole" && notes[len(notes)-1] != want {
			t.Errorf("told %q", notes)
		}
	}
}
