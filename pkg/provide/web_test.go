package provide

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// web is a server on the loopback interface.
type web struct {
	*httptest.Server
	mu       sync.Mutex
	files    map[string][]byte
	handlers map[string]http.HandlerFunc
	asked    map[string]int
}

func serve(t *testing.T) *web {
	w := &web{files: map[string][]byte{}, handlers: map[string]http.HandlerFunc{}, asked: map[string]int{}}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked[r.URL.Path]++
	file, ok := w.files[r.URL.Path]
	handler := w.handlers[r.URL.Path]
	w.mu.Unlock()
	switch {
	case handler != nil:
		handler(rw, r)
	case ok:
		http.ServeContent(rw, r, r.URL.Path, time.Time{}, bytes.NewReader(file))
	default:
		http.NotFound(rw, r)
	}
}

func (w *web) times(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[path]
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// part is a file of an archive; link is set for a symbolic link.
type part struct{ name, data, link string }

func zipped(t *testing.T, parts ...part) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, p := range parts {
		h := &zip.FileHeader{Name: p.name, Method: zip.Deflate}
		h.SetMode(0o644)
		if p.link != "" {
			h.SetMode(0o777 | os.ModeSymlink)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, p.data+p.link)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t *testing.T, parts ...part) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, p := range parts {
		h := &tar.Header{Name: p.name, Mode: 0o644, Size: int64(len(p.data)), Typeflag: tar.TypeReg}
		if target, ok := strings.CutPrefix(p.link, "hard:"); ok {
			h.Typeflag, h.Linkname = tar.TypeLink, target
		} else if p.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, p.link
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, p.data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// packed compresses; how is what stands after ".tar".
func packed(t *testing.T, how string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch how {
	case "":
		return b
	case ".gz":
		w = gzip.NewWriter(&out)
	case ".zst":
		w, err = zstd.NewWriter(&out)
	case ".xz":
		w, err = xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&out) // a larger one takes long to make
	}
	if err == nil {
		_, err = w.Write(b)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// cudnnWheel returns a wheel of cuDNN as NVIDIA makes them: names that are SONAMEs, no
// links, the licence in the .dist-info.
func cudnnWheel(t *testing.T, machine, version string) []byte {
	t.Helper()
	major, _, _ := strings.Cut(version, ".")
	var parts []part
	for _, name := range []string{"libcudnn", "libcudnn_graph", "libcudnn_ops"} {
		soname := name + ".so." + major
		parts = append(parts, part{name: "nvidia/cudnn/lib/" + soname, data: string(lib(t, machine+" soname="+soname+"\nrodata \""+version+"\""))})
	}
	return zipped(t, append(parts,
		part{name: "nvidia/cudnn/include/cudnn.h", data: "int x;"},
		part{name: "nvidia_cudnn_cu12-" + version + ".dist-info/License.txt", data: "licence of " + version},
	)...)
}

// file is a row of an index page.
type file struct {
	name, url, sum string
	size           int
	yanked         any
}

// index serves a distribution's page in the form that is asked for, and the
// wheels beside it.
func (w *web) index(t *testing.T, dist string, json bool, wheels map[string][]byte) {
	t.Helper()
	var rows []file
	for _, name := range sorted(wheels) {
		w.files["/files/"+name] = wheels[name]
		rows = append(rows, file{name: name, url: "../../files/" + name, sum: sum(wheels[name]), size: len(wheels[name])})
	}
	w.page(t, dist, json, rows)
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *web) page(t *testing.T, dist string, asJSON bool, rows []file) {
	t.Helper()
	body, kind := htmlPage(rows), "text/html; charset=utf-8"
	if asJSON {
		body, kind = jsonPage(t, rows), "application/vnd.pypi.simple.v1+json"
	}
	w.handlers["/simple/"+dist+"/"] = func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", kind)
		rw.Write(body)
	}
}

func jsonPage(t *testing.T, rows []file) []byte {
	t.Helper()
	files := []map[string]any{}
	for _, f := range rows {
		row := map[string]any{"filename": f.name, "url": f.url, "hashes": map[string]string{}}
		if f.sum != "" {
			row["hashes"] = map[string]string{"sha256": f.sum}
		}
		if f.size > 0 {
			row["size"] = f.size
		}
		if f.yanked != nil {
			row["yanked"] = f.yanked
		}
		files = append(files, row)
	}
	b, err := json.Marshal(map[string]any{"meta": map[string]string{"api-version": "1.1"}, "files": files})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func htmlPage(rows []file) []byte {
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html><html><head><title>Links</title></head><body>\n")
	for _, f := range rows {
		yanked := ""
		if f.yanked != nil {
			yanked = ` data-yanked="bad"`
		}
		fragment := ""
		if f.sum != "" {
			fragment = "#sha256=" + f.sum
		}
		fmt.Fprintf(&b, "<a href=\"%s%s\"%s data-requires-python=\"&gt;=3\">%s</a><br/>\n", f.url, fragment, yanked, f.name)
	}
	return append(b.Bytes(), "</body></html>"...)
}

// wheelsOf returns some releases for two machines.
func wheelsOf(t *testing.T) map[string][]byte {
	return map[string][]byte{
		"nvidia_cudnn_cu12-9.1.0.70-py3-none-manylinux2014_x86_64.whl":   cudnnWheel(t, "x86_64", "9.1.0.70"),
		"nvidia_cudnn_cu12-9.5.1.17-py3-none-manylinux_2_28_x86_64.whl":  cudnnWheel(t, "x86_64", "9.5.1.17"),
		"nvidia_cudnn_cu12-9.5.1.17-py3-none-manylinux_2_28_aarch64.whl": cudnnWheel(t, "aarch64", "9.5.1.17"),
		"nvidia_cudnn_cu12-10.0.0.1rc1-py3-none-manylinux1_x86_64.whl":   cudnnWheel(t, "x86_64", "10.0.0.1rc1"),
		"nvidia_cudnn_cu12-8.9.7.29-py3-none-manylinux1_x86_64.whl":      cudnnWheel(t, "x86_64", "8.9.7.29"),
		"nvidia_cudnn_cu12-9.9.0.1-py3-none-win_amd64.whl":               cudnnWheel(t, "x86_64", "9.9.0.1"),
		"nvidia_cudnn_cu12-9.9.0.1.tar.gz":                               []byte("a source archive"),
	}
}

func TestIndexTakesTheNewestThatFits(t *testing.T) {
	tests := map[string]struct {
		want Want
		got  string // release and machine, or the error
	}{
		"newest":             {Want{}, "9.5.1.17"},
		"SONAME":             {Want{Names: []string{"libcudnn.so.8"}}, "8.9.7.29"},
		"two sets":           {Want{Versions: []string{">=9.0", "<9.5"}}, "9.1.0.70"},
		"equal":              {Want{Versions: []string{"==9.1.0.70"}}, "9.1.0.70"},
		"prefix":             {Want{Versions: []string{"==9.1.*"}}, "9.1.0.70"},
		"pinned":             {Want{Pin: "9.1.0.70"}, "9.1.0.70"},
		"pinned in part":     {Want{Pin: "9.1"}, "9.1.0.70"},
		"pinned pre-release": {Want{Pin: "10.0.0.1rc1"}, "10.0.0.1rc1"},
		"old glibc":          {Want{Glibc: "2.27", Names: []string{"libcudnn.so.9"}}, "9.1.0.70"},
		"unknown glibc":      {Want{Glibc: "?"}, "9.5.1.17"},
		"arm64":              {Want{Arch: "arm64"}, "9.5.1.17"},
		"none":               {Want{Pin: "9.7.0.1"}, "no source has cudnn (==9.7.0.1): pypi:URL/simple: has no release of nvidia-cudnn-cu12 that fits"},
		"name in none":       {Want{Names: []string{"libcudnn_adv.so.8"}}, "no source has libcudnn_adv.so.8: pypi:URL/simple: nvidia_cudnn_cu12-8.9.7.29-py3-none-manylinux1_x86_64.whl: 8.9.7.29 has no libcudnn_adv.so.8"},
		"other CUDA":         {Want{CUDA: "13"}, "no source has cudnn: pypi:URL/simple: has no nvidia-cudnn-cu13"},
	}
	for _, asJSON := range []bool{true, false} {
		w := serve(t)
		w.index(t, "nvidia-cudnn-cu12", asJSON, wheelsOf(t))
		s := open(t, "pypi:"+w.URL+"/simple")
		for name, tt := range tests {
			t.Run(fmt.Sprintf("%s/json=%t", name, asJSON), func(t *testing.T) {
				want := tt.want
				if want.CUDA == "" {
					want.CUDA = "12"
				}
				want.Library = "cudnn"
				f, err := s.Find(t.Context(), want)
				if err != nil {
					if got := strings.ReplaceAll(err.Error(), w.URL, "URL"); got != tt.got {
						t.Errorf("got  %s\nwant %s", got, tt.got)
					}
					return
				}
				if f.Version != tt.got {
					t.Errorf("got %s, want %s", f.Version, tt.got)
				}
				if f.License.Text != "licence of "+f.Version || !strings.Contains(f.Source, "nvidia_cudnn_cu12-"+f.Version) {
					t.Errorf("licence %q, source %q", f.License.Text, f.Source)
				}
				major, _, _ := strings.Cut(f.Version, ".")
				if diff := cmp.Diff([]string{"libcudnn.so." + major, "libcudnn_graph.so." + major, "libcudnn_ops.so." + major}, shape(f)); diff != "" {
					t.Error(diff)
				}
				for _, file := range f.Files {
					if b := read(t, &file); !strings.Contains(b, f.Version) || file.Digest != "sha256:"+sum([]byte(b)) || file.Size != int64(len(b)) {
						t.Errorf("%s has other bytes than it says", file.Name)
					}
				}
			})
		}
	}
}

func TestIndexLeavesOutWhatWasWithdrawn(t *testing.T) {
	for _, asJSON := range []bool{true, false} {
		w := serve(t)
		name := "nvidia_cudnn_cu12-9.1.0.70-py3-none-manylinux1_x86_64.whl"
		b := cudnnWheel(t, "x86_64", "9.1.0.70")
		w.files["/f/"+name] = b
		w.page(t, "nvidia-cudnn-cu12", asJSON, []file{{name: name, url: "/f/" + name, sum: sum(b), yanked: "broken"}})
		s := open(t, "pypi:"+w.URL+"/simple")
		_, err := s.Find(t.Context(), Want{Library: "cudnn", CUDA: "12"})
		if err == nil || !strings.Contains(err.Error(), "has withdrawn nvidia-cudnn-cu12 9.1.0.70") {
			t.Errorf("got %v", err)
		}
		if f, err := s.Find(t.Context(), Want{Library: "cudnn", CUDA: "12", Pin: "9.1.0.70"}); err != nil || f.Version != "9.1.0.70" {
			t.Errorf("pinned: got %v, %v", f, err)
		}
	}
}

// one serves one wheel whose page says what row says, and gives its URL path.
func one(t *testing.T, w *web, row func(*file)) string {
	t.Helper()
	name := "nvidia_cudnn_cu12-9.1.0.70-py3-none-manylinux1_x86_64.whl"
	b := cudnnWheel(t, "x86_64", "9.1.0.70")
	f := file{name: name, url: "/f/" + name, sum: sum(b), size: len(b)}
	w.files[f.url] = b
	row(&f)
	w.page(t, "nvidia-cudnn-cu12", true, []file{f})
	return "/f/" + name
}

var cudnn12 = Want{Library: "cudnn", CUDA: "12"}

func TestWhatIsNotTheFileThatWasMeantIsRefused(t *testing.T) {
	other := strings.Repeat("0", 64)
	tests := map[string]struct {
		row func(*file)
		err string
	}{
		"another hash": {func(f *file) { f.sum = other }, "should have " + other + ": it is not the file that was meant"},
		"no hash":      {func(f *file) { f.sum = "" }, "the source gives no sha256"},
		"too long":     {func(f *file) { f.size = 100 }, "it should have 100 bytes, and has "},
		"not there":    {func(f *file) { f.url = "/nothing" }, "/nothing answered 404 Not Found"},
		"plain HTTP":   {func(f *file) { f.url = "http://192.0.2.1/x.whl" }, "http://192.0.2.1/x.whl is plain HTTP: add --insecure"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := serve(t)
			one(t, w, tt.row)
			s := open(t, "pypi:"+w.URL+"/simple")
			_, err := s.Find(t.Context(), cudnn12)
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %s", err, tt.err)
			}
			var missing *NotFoundError
			if errors.As(err, &missing) {
				t.Error("it reads as if the library were not there")
			}
			if list, _ := filepath.Glob(filepath.Join(s.env.cache, "sha256", "*")); len(list) > 0 {
				t.Errorf("the cache has %v", list)
			}
		})
	}
}

func TestSourcesAreAskedInOrder(t *testing.T) {
	w := serve(t)
	one(t, w, func(*file) {})
	dir := tree(t, map[string]string{"libcudnn.so.9.0.0": string(lib(t, "x86_64 soname=libcudnn.so.9"))})
	empty := t.TempDir()
	for _, tt := range []struct {
		specs []string
		got   string
	}{
		{[]string{"dir:" + dir, "pypi:" + w.URL + "/simple"}, "9.0.0"},
		{[]string{"pypi:" + w.URL + "/simple", "dir:" + dir}, "9.1.0.70"},
		{[]string{"dir:" + empty, "pypi:" + w.URL + "/nothing", "pypi:" + w.URL + "/simple"}, "9.1.0.70"},
	} {
		f, err := open(t, tt.specs...).Find(t.Context(), cudnn12)
		if err != nil || f.Version != tt.got {
			t.Errorf("%v: got %v, %v", tt.specs, f, err)
		}
	}
	// A source that cannot be asked is no reason to take another's.
	w.handlers["/broken/nvidia-cudnn-cu12/"] = func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(http.StatusBadGateway) }
	_, err := open(t, "pypi:"+w.URL+"/broken", "dir:"+dir).Find(t.Context(), cudnn12)
	if err == nil || !strings.Contains(err.Error(), "answered 502 Bad Gateway") {
		t.Errorf("got %v", err)
	}
	_, err = open(t).Find(t.Context(), cudnn12)
	if err == nil || !strings.Contains(err.Error(), "name a source with --from") {
		t.Errorf("got %v", err)
	}
}

func TestRedirectsAreFollowed(t *testing.T) {
	w := serve(t)
	p := one(t, w, func(f *file) { f.url = "/moved" })
	w.handlers["/moved"] = func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, p, http.StatusFound) }
	if _, err := open(t, "pypi:"+w.URL+"/simple").Find(t.Context(), cudnn12); err != nil {
		t.Error(err)
	}
	w.handlers["/moved"] = func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "http://192.0.2.1/x", http.StatusFound)
	}
	_, err := open(t, "pypi:"+w.URL+"/simple").Find(t.Context(), cudnn12)
	if err == nil || !strings.Contains(err.Error(), "http://192.0.2.1/x is plain HTTP") {
		t.Errorf("got %v", err)
	}
}

// A login goes to the host that it was given for, with the index and its files,
// to no other, and is never shown.
func TestLogin(t *testing.T) {
	w, other := serve(t), serve(t)
	b := cudnnWheel(t, "x86_64", "9.1.0.70")
	name := "nvidia_cudnn_cu12-9.1.0.70-py3-none-manylinux1_x86_64.whl"
	asked := func(to *web, path string, then http.HandlerFunc) *[]string {
		var logins []string
		to.handlers[path] = func(rw http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			logins = append(logins, user+":"+password)
			then(rw, r)
		}
		return &logins
	}
	wheel := func(rw http.ResponseWriter, r *http.Request) { rw.Write(b) }
	url := "/f/" + name
	page := asked(w, "/simple/nvidia-cudnn-cu12/", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		rw.Write(htmlPage([]file{{name: name, url: url, sum: sum(b)}}))
	})
	here, there := asked(w, "/f/"+name, wheel), asked(other, "/f/"+name, wheel)
	from := "pypi:" + strings.Replace(w.URL, "http://", "http://me:secret@", 1) + "/simple"
	f, err := open(t, from).Find(t.Context(), cudnn12)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(f.Source, "secret") {
		t.Errorf("the source is %s", f.Source)
	}
	url = other.URL + "/f/" + name
	if _, err := open(t, from).Find(t.Context(), cudnn12); err != nil {
		t.Fatal(err)
	}
	want := []string{"me:secret", "me:secret"}
	if diff := cmp.Diff([][]string{want, want[:1], {":"}}, [][]string{*page, *here, *there}); diff != "" {
		t.Error(diff)
	}
	for path, code := range map[string]int{"/simple/nvidia-cudnn-cu12/": http.StatusUnauthorized, "/f/" + name: http.StatusForbidden} {
		w, url = serve(t), "/f/"+name
		asked(w, "/simple/nvidia-cudnn-cu12/", func(rw http.ResponseWriter, r *http.Request) {
			rw.Write(htmlPage([]file{{name: name, url: url, sum: sum(b)}}))
		})
		w.handlers[path] = func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(code) }
		from := "pypi:" + strings.Replace(w.URL, "http://", "http://me:secret@", 1) + "/simple"
		_, err := open(t, from).Find(t.Context(), cudnn12)
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "give the login in the URL") {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if _, err := Open(t.Context(), []string{"pypi:http://me:secret@x.example/"}, Options{Cache: t.TempDir()}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// broken answers with a body that ends in the middle, for as long as there are
// places where to break; it does so in this process, so that what comes through
// does not hang on what the kernel does with a connection that is closed.
type broken struct {
	next   http.RoundTripper
	path   string
	places []int
	ranges []string // that were asked for
}

func (b *broken) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil || r.URL.Path != b.path {
		return resp, err
	}
	b.ranges = append(b.ranges, r.Header.Get("Range"))
	if len(b.places) == 0 {
		return resp, nil
	}
	n := b.places[0]
	b.places = b.places[1:]
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(resp.Body, int64(n)), failing{}), resp.Body}
	return resp, nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestDownloadsGoOnWhereTheyBroke(t *testing.T) {
	w := serve(t)
	p := one(t, w, func(*file) {})
	for _, tt := range []struct {
		name   string
		places []int
		ranges []string
		err    string
	}{
		{"once", []int{100}, []string{"", "bytes=100-"}, ""},
		{"thrice", []int{100, 1, 50}, []string{"", "bytes=100-", "bytes=101-", "bytes=151-"}, ""},
		{"at the start", []int{0}, []string{"", ""}, ""},
		{"for good", []int{10, 0, 0, 0, 0, 0}, []string{"", "bytes=10-", "bytes=10-", "bytes=10-", "bytes=10-", "bytes=10-"}, "broke off: try again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &broken{next: http.DefaultTransport, path: p, places: tt.places}
			s, err := Open(t.Context(), []string{"pypi:" + w.URL + "/simple"}, Options{Cache: t.TempDir(), Client: &http.Client{Transport: b}})
			if err != nil {
				t.Fatal(err)
			}
			s.env.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
			_, err = s.Find(t.Context(), cudnn12)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.ranges, b.ranges); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A run that was ended has left something; the next one takes it when it is
// right, and begins anew when it is not.
func TestDownloadsGoOnInTheNextRun(t *testing.T) {
	w := serve(t)
	p := one(t, w, func(*file) {})
	whole := w.files[p]
	for name, tt := range map[string]struct {
		left   []byte
		ranges []string
	}{
		"right":    {whole[:200], []string{"bytes=200-"}},
		"all":      {whole, nil},
		"wrong":    {bytes.Repeat([]byte("x"), 200), []string{"bytes=200-", ""}},
		"too long": {append(slices.Clone(whole), "more"...), []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			if err := os.MkdirAll(filepath.Join(cache, "partial"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(cache, "partial", sum(whole)), tt.left, 0o644); err != nil {
				t.Fatal(err)
			}
			b := &broken{next: http.DefaultTransport, path: p}
			s, err := Open(t.Context(), []string{"pypi:" + w.URL + "/simple"}, Options{Cache: cache, Client: &http.Client{Transport: b}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = s.Find(t.Context(), cudnn12); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.ranges, b.ranges); diff != "" {
				t.Error(diff)
			}
			if left, _ := filepath.Glob(filepath.Join(cache, "partial", "*")); len(left) > 0 {
				t.Errorf("there is left %v", left)
			}
		})
	}
}

// A server that closes connections in the middle, and one that knows no ranges.
func TestDownloadsFromServersThatBreakOff(t *testing.T) {
	for _, ranges := range []bool{true, false} {
		w := serve(t)
		p := one(t, w, func(*file) {})
		whole := w.files[p]
		var mu sync.Mutex
		broke := 0
		w.handlers[p] = func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			broke++
			now := broke <= 2
			mu.Unlock()
			if !ranges {
				r.Header.Del("Range")
			}
			if !now {
				if ranges {
					http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(whole))
				} else {
					rw.Write(whole)
				}
				return
			}
			rw.Header().Set("Content-Length", fmt.Sprint(len(whole)))
			rw.Write(whole[:100])
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		f, err := open(t, "pypi:"+w.URL+"/simple").Find(t.Context(), cudnn12)
		if err != nil || f.Version != "9.1.0.70" {
			t.Errorf("ranges %t: got %v, %v", ranges, f, err)
		}
	}
}

func TestCacheIsUsedAndChecked(t *testing.T) {
	w := serve(t)
	p := one(t, w, func(*file) {})
	cache := t.TempDir()
	find := func() *Found {
		t.Helper()
		s, err := Open(t.Context(), []string{"pypi:" + w.URL + "/simple"}, Options{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.Find(t.Context(), cudnn12)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := find()
	second := find()
	if diff := cmp.Diff(digests(first), digests(second)); diff != "" || w.times(p) != 1 {
		t.Errorf("fetched %d times\n%s", w.times(p), diff)
	}
	if n, size := Usage(cache); n != 6 || size < int64(len(w.files[p])) { // the wheel, what was taken out, and a list of it
		t.Errorf("the cache has %d files, %d bytes", n, size)
	}
	// The members are enough: the wheel itself may go.
	if err := os.Remove(filepath.Join(cache, "sha256", sum(w.files[p]))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(digests(first), digests(find())); diff != "" || w.times(p) != 1 {
		t.Errorf("fetched %d times\n%s", w.times(p), diff)
	}
	// A damaged file is fetched or taken out again.
	for _, name := range []string{sum(w.files[p]), strings.TrimPrefix(first.Files[0].Digest, "sha256:")} {
		if err := os.WriteFile(filepath.Join(cache, "sha256", name), []byte("damaged"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(digests(first), digests(find())); diff != "" || w.times(p) != 2 {
		t.Errorf("fetched %d times\n%s", w.times(p), diff)
	}
	n, _ := Usage(cache)
	if removed, _ := Clean(cache); removed != n {
		t.Errorf("removed %d of %d files", removed, n)
	}
	if n, size := Usage(cache); n != 0 || size != 0 {
		t.Errorf("%d files are left", n)
	}
}

func digests(f *Found) []string {
	var all []string
	for _, file := range f.Files {
		all = append(all, file.Name+" "+file.Digest)
	}
	return all
}

// A full cache removes its least recently used files, but none in use, however large.
func TestCacheIsBounded(t *testing.T) {
	w := serve(t)
	p := one(t, w, func(*file) {})
	cache := t.TempDir()
	old := filepath.Join(cache, "sha256", strings.Repeat("a", 64))
	if err := os.MkdirAll(filepath.Dir(old), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, make([]byte, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	past := time.Unix(0, 0)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), []string{"pypi:" + w.URL + "/simple"}, Options{Cache: cache, MaxCache: 10})
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Find(t.Context(), cudnn12)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the old file is there yet")
	}
	read(t, &f.Files[0])
	if _, err := os.Stat(filepath.Join(cache, "sha256", sum(w.files[p]))); err != nil {
		t.Error("the wheel that is in use is gone")
	}
}
