package pyindex_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/pyindex"
)

// simple is an index of HTML pages, as https://download.pytorch.org/whl/cu121/ has them. Every
// request is kept with its login.
type simple struct {
	*httptest.Server
	page  string // of app; "" for none
	code  int    // instead of a page
	asked []string
}

func newSimple(t *testing.T, page string, files map[string]string) *simple {
	s := &simple{page: page, code: http.StatusNotFound}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		s.asked = append(s.asked, user+" "+r.URL.Path)
		switch text, ok := files[r.URL.Path]; {
		case ok:
			fmt.Fprint(w, text)
		case r.URL.Path == "/whl/cu121/app/" && s.page != "":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, s.page)
		default:
			w.WriteHeader(s.code)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *simple) index(t *testing.T, login string) *pyindex.Index {
	t.Helper()
	x, err := pyindex.New(strings.Replace(s.URL, "://", "://"+login, 1)+"/whl/cu121/", pyindex.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

const cu121 = "-cp311-cp311-linux_x86_64.whl"

var on311 = pyindex.Platform{Python: "3.11", Glibc: "2.35"}

// A page of HTML says by its attributes what one of JSON says by its keys.
func TestHTML(t *testing.T) {
	meta := "Version: 2.1+cu121\nRequires-Dist: numpy\n\n"
	s := newSimple(t, `<!DOCTYPE html><html><body>
<a href="/files/app-2.1%2Bcu121`+cu121+`#sha256=`+strings.Repeat("a", 64)+`" data-core-metadata="sha256=`+fmt.Sprintf("%x", sha256.Sum256([]byte(meta)))+`">app</a><br/>
<A HREF='/files/app-2.3`+cu121+`' data-requires-python="`+html.EscapeString(">=3.12")+`">app</A>
<a href="/files/app-2.4`+cu121+`" data-yanked="">app</a>
<a href="%zz">none</a><a>none</a>`, map[string]string{"/files/app-2.1+cu121" + cu121 + ".metadata": meta})
	x := s.index(t, "")
	w, err := x.Wheel(context.Background(), "app", "", on311)
	if err != nil || w.Version != "2.1+cu121" || w.SHA256 != strings.Repeat("a", 64) {
		t.Errorf("%+v %v", w, err)
	}
	r, err := x.Find(context.Background(), "app", "==2.1")
	if err != nil || r.Version != "2.1+cu121" || len(r.Requires) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if w, err := x.Wheel(context.Background(), "app", "==2.4", on311); err != nil || w.Version != "2.4" {
		t.Errorf("a withdrawn release that is pinned: %+v %v", w, err)
	}
}

// The size that a page of HTML does not say is asked of the server.
func TestSizeOfHTML(t *testing.T) {
	s := newServer(t)
	s.add("app-1.0"+linux, "", "numpy")
	pages := newSimple(t, `<a href="`+s.URL+"/files/app-1.0"+linux+`">`, nil)
	x := pages.index(t, "")
	if r, err := x.Find(context.Background(), "app", ""); err != nil || len(r.Requires) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	w, err := x.Wheel(context.Background(), "app", "", on311)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Open(context.Background(), 1000); err != nil || w.Size < 1<<20 {
		t.Errorf("%d bytes: %v", w.Size, err)
	}
}

// pip takes the highest release of all indexes, and uv one of the first that has the package. An
// index that cannot be asked leaves the release unknown; one that does not have it does not.
func TestSeveral(t *testing.T) {
	page := func(v string) string { return `<a href="/app-` + v + cu121 + `">` }
	low, high, none := newSimple(t, page("1.0"), nil), newSimple(t, page("1.0+cu121"), nil), newSimple(t, "", nil)
	failing := newSimple(t, "", nil)
	failing.code = http.StatusUnauthorized
	for _, c := range []struct {
		of         []*simple
		first      bool
		spec, want string
	}{
		{[]*simple{low, none, high}, false, "", "1.0+cu121"},
		{[]*simple{high, low}, false, "==1.0", "1.0+cu121"},
		{[]*simple{none, low, high}, true, "", "1.0"},
		{[]*simple{low, high}, true, "==1.0+cu121", "no wheel"},
		{[]*simple{low, high}, false, "==1.0+cu121", "1.0+cu121"},
		{[]*simple{low, high}, false, ">2", "no wheel of app>2"},
		{[]*simple{low, failing}, false, "", "answered 401"},
		{[]*simple{low, failing}, true, "", "1.0"},
		{[]*simple{none, none}, false, "", "no index has app"},
		{[]*simple{none}, false, "", "answered 404"},
		{nil, false, "", "no index has app"},
	} {
		several := pyindex.Several{First: c.first}
		for _, s := range c.of {
			several.Indexes = append(several.Indexes, s.index(t, ""))
		}
		w, err := several.Wheel(context.Background(), "app", c.spec, on311)
		if err != nil && !strings.Contains(err.Error(), c.want) || err == nil && w.Version != c.want {
			t.Errorf("%+v: %+v %v", c, w, err)
		}
	}
}

// A login goes to the index's own host alone, and is in no message.
func TestLogin(t *testing.T) {
	other := newSimple(t, "", nil)
	s := newSimple(t, `<a href="`+strings.Replace(other.URL, "://", "://x:y@", 1)+`/app-2.0`+cu121+`" data-core-metadata="true"><a href="/app-1.0`+cu121+`" data-core-metadata="true">`, nil)
	x := s.index(t, "me:secret@")
	for _, spec := range []string{"==1.0", "==2.0"} {
		if _, err := x.Find(context.Background(), "app", spec); err == nil || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
	if got := strings.Join(append(s.asked, other.asked...), "\n"); got != "me /whl/cu121/app/\nme /app-1.0"+cu121+".metadata\n /app-2.0"+cu121+".metadata" {
		t.Errorf("asked:\n%s", got)
	}
	if _, err := pyindex.New("ftp://me:secret@host/", pyindex.Options{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// A page does not lead to a cloud's metadata service.
func TestLedToMetadata(t *testing.T) {
	s := newSimple(t, `<a href="https://169.254.169.254/app-1.0`+cu121+`" data-core-metadata="true">`, nil)
	if _, err := s.index(t, "").Find(context.Background(), "app", ""); err == nil || !strings.Contains(err.Error(), "169.254.169.254 is not asked") {
		t.Error(err)
	}
}

// Pages of very many files are refused.
func TestLargePages(t *testing.T) {
	s := newSimple(t, strings.Repeat("<a href=x>", 200_001), nil)
	if _, err := s.index(t, "").Find(context.Background(), "app", ""); err == nil || !strings.Contains(err.Error(), "more than 200000 files") {
		t.Error(err)
	}
	j := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
		fmt.Fprint(w, `{"files":[{}`+strings.Repeat(",{}", 2_097_153)+`]}`)
	}))
	defer j.Close()
	x, err := pyindex.New(j.URL, pyindex.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Find(context.Background(), "app", ""); err == nil || !strings.Contains(err.Error(), "more than 2097152 elements") {
		t.Error(err)
	}
}

// FuzzHTML states: a page of any bytes ends in a wheel of the project or an error.
func FuzzHTML(f *testing.F) {
	var page string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, page)
	}))
	defer s.Close()
	s.Config.SetKeepAlivesEnabled(false) // each run has a client of its own, whose connections would stay open
	f.Add(`<base href="/x"><a href="app-1.0` + cu121 + `#sha256=0" data-yanked data-core-metadata=true data-requires-python="&gt;=3">`)
	f.Fuzz(func(t *testing.T, text string) {
		page = text
		x, err := pyindex.New(s.URL, pyindex.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := x.Wheel(context.Background(), "app", "", on311)
		if err == nil && (w.Name != "app" || !on311.Fits(w.File)) {
			t.Errorf("%+v", w)
		}
	})
}
