package pyindex_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/imgcheck/imgcheck/pkg/pyindex"
)

// server is a package index with the wheels of one project.
type server struct {
	*httptest.Server
	files []map[string]any
	serve map[string][]byte
	asked []string
	kind  string
}

func newServer(t *testing.T) *server {
	s := &server{serve: map[string][]byte{}, kind: "application/vnd.pypi.simple.v1+json"}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked = append(s.asked, r.URL.Path+" "+r.Header.Get("Range"))
		if r.URL.Path == "/simple/app/" {
			w.Header().Set("Content-Type", s.kind)
			_ = json.NewEncoder(w).Encode(map[string]any{"files": s.files, "meta": map[string]any{"api-version": "1.1"}})
			return
		}
		body, ok := s.serve[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}))
	t.Cleanup(s.Close)
	return s
}

// add adds a wheel whose metadata lies beside it ("beside"), beside it with its digest
// ("digest") or only in it.
func (s *server) add(name, how string, requires ...string) {
	meta := "Metadata-Version: 2.1\nName: app\n"
	for _, r := range requires {
		meta += "Requires-Dist: " + r + "\n"
	}
	meta += "\nRequires-Dist: of the description\n"
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range []struct{ name, text string }{{"app/data.bin", ""}, {"app-1.0.dist-info/METADATA", meta}} {
		h := &zip.FileHeader{Name: f.name, Method: zip.Store}
		w, err := z.CreateHeader(h)
		if err != nil {
			panic(err)
		}
		if f.text == "" {
			f.text = strings.Repeat("x", 1<<20)
		}
		fmt.Fprint(w, f.text)
	}
	z.Close()
	f := map[string]any{"filename": name, "url": "../../files/" + name + "#sha256=00", "size": b.Len(), "yanked": false}
	switch how {
	case "beside":
		f["dist-info-metadata"] = true
	case "digest":
		f["core-metadata"] = map[string]string{"sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(meta)))}
	case "wrong":
		f["core-metadata"] = map[string]string{"sha256": strings.Repeat("0", 64)}
	}
	if how != "" {
		s.serve["/files/"+name+".metadata"] = []byte(meta)
	}
	s.serve["/files/"+name] = b.Bytes()
	s.files = append(s.files, f)
}

type cache map[string][]byte

func (c cache) Document(key string) ([]byte, bool)     { b, ok := c[key]; return b, ok }
func (c cache) PutDocument(key string, b []byte) error { c[key] = b; return nil }

func find(t *testing.T, s *server, c pyindex.Cache, spec string) (*pyindex.Release, error) {
	t.Helper()
	x, err := pyindex.New(s.URL+"/simple", pyindex.Options{Client: s.Client(), Cache: c})
	if err != nil {
		t.Fatal(err)
	}
	return x.Find(context.Background(), "App", spec)
}

const linux = "-cp311-cp311-manylinux_2_28_x86_64.whl"

// The metadata is the same whether it lies beside the wheel or in it; of the wheel little is
// fetched.
func TestMetadata(t *testing.T) {
	for _, how := range []string{"beside", "digest", ""} {
		s := newServer(t)
		s.add("app-1.0"+linux, how, `numpy>=1.2`, `torch ; extra == "gpu"`)
		r, err := find(t, s, nil, "==1.0")
		if err != nil || r.Version != "1.0" || !slices.Equal(r.Requires, []string{`numpy>=1.2`, `torch ; extra == "gpu"`}) || r.Pure || r.Largest < 1<<20 {
			t.Errorf("%s: %+v %v", how, r, err)
		}
		for _, a := range s.asked {
			if strings.HasSuffix(a, ".whl ") {
				t.Errorf("%s: the whole wheel is fetched: %v", how, s.asked)
			}
		}
	}
}

func TestCached(t *testing.T) {
	s, c := newServer(t), cache{}
	s.add("app-1.0-py3-none-any.whl", "digest", "numpy")
	for range 2 {
		if r, err := find(t, s, c, ""); err != nil || !r.Pure || len(r.Requires) != 1 {
			t.Fatalf("%+v %v", r, err)
		}
	}
	if n := len(s.asked); n != 3 {
		t.Errorf("the metadata is fetched twice: %v", s.asked)
	}
}

func TestHighest(t *testing.T) {
	s := newServer(t)
	for _, v := range []string{"1.0", "1.10", "1.9", "2.0rc1"} {
		s.add("app-"+v+linux, "beside")
	}
	s.add("app-3.0-cp311-cp311-win_amd64.whl", "beside")
	s.add("app-2.5"+linux, "beside")
	s.files[5]["yanked"] = "broken"
	for spec, want := range map[string]string{"": "1.10", ">=1,<1.10": "1.9", "==2.0rc1": "2.0rc1", "==2.5": "2.5", "==3.0": ""} {
		r, err := find(t, s, nil, spec)
		if want == "" && err == nil || want != "" && (err != nil || r.Version != want) {
			t.Errorf("%q: %+v %v", spec, r, err)
		}
	}
}

func TestErrors(t *testing.T) {
	s := newServer(t)
	s.add("app-1.0"+linux, "wrong")
	if _, err := find(t, s, cache{}, ""); err == nil || !strings.Contains(err.Error(), "is not that of the index") {
		t.Errorf("metadata of another digest: %v", err)
	}
	s.kind = "text/plain"
	if _, err := find(t, s, nil, ""); err == nil || !strings.Contains(err.Error(), "PEP 691") {
		t.Errorf("a page of text: %v", err)
	}
	for _, address := range []string{"http://example.com/simple", "ftp://example.com", "x"} {
		if _, err := pyindex.New(address, pyindex.Options{}); err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
	x, err := pyindex.New(s.URL+"/simple", pyindex.Options{Client: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../app", "", "a b"} {
		if _, err := x.Find(context.Background(), name, ""); err == nil {
			t.Errorf("%q is asked for", name)
		}
	}
	if exists, known := x.Exists(context.Background(), "torch"); exists || !known {
		t.Error("a page that is not there exists")
	}
	if exists, known := x.Exists(context.Background(), "app"); !exists || !known {
		t.Error("a page does not exist")
	}
	for range 400 {
		x.Exists(context.Background(), "app")
	}
	if n := len(s.asked); n > 320 {
		t.Errorf("%d requests", n)
	}
}

// FuzzPage states: a page and a wheel of any bytes end in a release or an error, and the
// release is of the project and allowed.
func FuzzPage(f *testing.F) {
	var page, wheel []byte
	mux := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/simple/app/") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(page)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(wheel))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	s.Config.SetKeepAlivesEnabled(false) // each run has a client of its own, whose connections would stay open
	f.Add([]byte(`{"files":[{"filename":"app-1.0-py3-none-any.whl","url":"/app.whl","size":22}]}`), []byte("PK\x05\x06"+strings.Repeat("\x00", 18)))
	f.Add([]byte(`{"files":[{"filename":"app-1.0-py3-none-any.whl","url":"/app.whl","core-metadata":true}]}`), []byte("Requires-Dist: a\n"))
	f.Fuzz(func(t *testing.T, p, w []byte) {
		page, wheel = p, w
		x, err := pyindex.New(s.URL+"/simple", pyindex.Options{Client: s.Client()})
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Find(context.Background(), "app", ">=1")
		if err == nil && (r.Name != "app" || strings.HasPrefix(r.Version, "0.") || r.Largest < 0) {
			t.Errorf("%+v", r)
		}
	})
}
