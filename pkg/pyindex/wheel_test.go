package pyindex_test

import (
	"context"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/pyindex"
)

// The wheel is the one that pip takes: the newest release that fits, and of that the most
// specific wheel for the Python and the C library.
func TestWheel(t *testing.T) {
	s := newServer(t)
	for _, name := range []string{
		"app-1.0-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "app-1.0-cp310-cp310-manylinux_2_28_x86_64.whl", "app-1.0-cp310-abi3-manylinux_2_28_x86_64.whl",
		"app-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", "app-1.0-cp310-cp310-musllinux_1_2_x86_64.whl", "app-1.0-py3-none-any.whl", "app-1.0-cp310-cp310-win_amd64.whl",
		"app-0.9-py2.py3-none-manylinux1_x86_64.whl", "app-2.0-cp313-cp313-manylinux_2_39_x86_64.whl", "app-1.1-cp310-cp310-manylinux_2_28_aarch64.whl",
	} {
		s.add(name, "beside")
	}
	x, err := pyindex.New(s.URL+"/simple", pyindex.Options{Client: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		on         pyindex.Platform
		spec, want string
	}{
		{pyindex.Platform{Python: "3.10", Glibc: "2.35"}, "", "app-1.0-cp310-cp310-manylinux_2_28_x86_64.whl"},
		{pyindex.Platform{Python: "3.10", Glibc: "2.27"}, "", "app-1.0-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"},
		{pyindex.Platform{Python: "3.11", Glibc: "2.35"}, "", "app-1.0-cp310-abi3-manylinux_2_28_x86_64.whl"},
		{pyindex.Platform{Python: "3.9", Glibc: "2.35"}, "", "app-1.0-py3-none-any.whl"},
		{pyindex.Platform{Python: "3.13", Glibc: "2.41"}, "", "app-2.0-cp313-cp313-manylinux_2_39_x86_64.whl"},
		{pyindex.Platform{Python: "3.13", Glibc: "2.36"}, "", "app-1.0-cp310-abi3-manylinux_2_28_x86_64.whl"},
		{pyindex.Platform{Python: "3.10", Musl: "1.2.5"}, "", "app-1.0-cp310-cp310-musllinux_1_2_x86_64.whl"},
		{pyindex.Platform{Python: "3.10", Glibc: "2.35"}, "<1", "app-0.9-py2.py3-none-manylinux1_x86_64.whl"},
		{pyindex.Platform{Python: "2.7", Glibc: "2.35"}, "", ""},
	} {
		w, err := x.Wheel(context.Background(), "app", c.spec, c.on)
		switch {
		case c.want == "" && err == nil, c.want != "" && (err != nil || w.File != c.want):
			t.Errorf("%+v: %+v %v, want %s", c.on, w, err, c.want)
		}
	}
}

// Reading stops at the limit; a small wheel takes one request.
func TestOpen(t *testing.T) {
	s := newServer(t)
	s.add("app-1.0"+linux, "beside")
	x, err := pyindex.New(s.URL+"/simple", pyindex.Options{Client: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	w, err := x.Wheel(context.Background(), "app", "", pyindex.Platform{Python: "3.11", Glibc: "2.36"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Open(context.Background(), 300_000)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1000)
	var read int64
	for at := int64(0); err == nil; at += int64(len(b)) {
		if _, err = p.ReadAt(b, at); err == nil {
			read += int64(len(b))
		}
	}
	if read < 100_000 || read > 300_000 || p.Fetched() < read {
		t.Errorf("%d bytes were read, then %v", read, err)
	}
	if p, err = w.Open(context.Background(), 4<<20); err != nil {
		t.Fatal(err)
	}
	requests := len(s.asked)
	for at := int64(0); at < w.Size; at += 100_000 {
		if _, err := p.ReadAt(b[:1], w.Size-1-at); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.asked) != requests+1 || p.Fetched() != w.Size {
		t.Errorf("%d requests for %d of %d bytes", len(s.asked)-requests, p.Fetched(), w.Size)
	}
}
