package patch

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ociLayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// distribution starts the registry that most people run, behind a server that
// counts. more is added to its configuration.
func distribution(t *testing.T, more ...string) *server {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: startDistribution(t, more...)})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	return serve(t, proxy)
}

// startDistribution gives the registry's host and port.
func startDistribution(t testing.TB, more ...string) string {
	t.Helper()
	host, end, err := imagetest.Distribution(t.TempDir(), strings.Join(more, ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return host
}

// Docker's registry, the most common one, knows which repository has a blob, and mounts
// blobs.
func TestDistribution(t *testing.T) {
	s := distribution(t)
	t.Run("publish", func(t *testing.T) { onDistribution(t, s) })
	t.Run("interrupted", func(t *testing.T) { interrupted(t, s, "interrupted:1", false, faults[3]) })
	t.Run("without mounts", func(t *testing.T) { withoutMounts(t, s) })
}

func onDistribution(t *testing.T, s *server) {
	ref := s.push(t, "app:1", imagetest.V1(t, app))
	first := s.digest(t, "app:1")
	b := open(t, ref, quick())
	p := patchAll(t, b, change())
	for _, to := range []string{"app:fixed", "a/b/other:1"} {
		s.reset(nil)
		if _, err := Publish(t.Context(), b, p, s.host+"/"+to, quick()); err != nil {
			t.Fatal(err)
		}
		s.whole(t, to)
		s.validated(t, to)
		wantPatched(t, s.host+"/"+to)
	}
	mounts := 0
	for _, r := range s.requests {
		if r == "POST /v2/a/b/other/blobs/uploads/" {
			mounts++
		}
	}
	if mounts == 0 {
		t.Errorf("nothing was mounted: %q", s.requests)
	}
	for _, to := range []string{"app:fixed", "a/b/other:1"} {
		if _, err := Undo(t.Context(), s.host+"/"+to, quick()); err != nil || s.digest(t, to) != first {
			t.Errorf("undo %s: %v", to, err)
		}
		s.whole(t, to)
	}

	o := quick()
	arm := s.push(t, "multi:1", platforms(t))
	do(t, arm, s.host+"/new/multi:1", o)
	s.whole(t, "new/multi:1")
	if _, err := Undo(t.Context(), s.host+"/new/multi:1", o); err != nil {
		t.Error(err)
	}
	s.whole(t, "new/multi:1")
}

func withoutMounts(t *testing.T, s *server) {
	ref := s.push(t, "app:1", imagetest.V1(t, app))
	b := open(t, ref, quick())
	p := patchAll(t, b, change())
	s.reset(func(_ int, _ http.ResponseWriter, r *http.Request) bool {
		r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, "mount=", "ignored=")
		return false
	})
	_, err := Publish(t.Context(), b, p, s.host+"/other:1", quick())
	var ce *CopyError
	if !errors.As(err, &ce) || s.in > 0 {
		t.Errorf("error %v, %d bytes sent", err, s.in)
	}
	s.reset(nil)
	if got := s.digest(t, "other:1"); got != "" {
		t.Errorf("the tag has %s", got)
	}
}

// writeLayout writes an image as an OCI layout with the tag 1.
func writeLayout(t *testing.T, add func(p ociLayout.Path) error) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := ociLayout.Write(dir, empty.Index)
	if err == nil {
		err = add(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func appLayout(t *testing.T) string {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "")
	return writeLayout(t, func(p ociLayout.Path) error {
		return p.AppendImage(imagetest.V1(t, app), ociLayout.WithAnnotations(map[string]string{source.RefName: "1", "x": "kept"}))
	})
}

func TestLayout(t *testing.T) {
	skopeo, umoci := tooltest.Need(t, "skopeo", "skopeo"), tooltest.Need(t, "umoci", "umoci")
	dir := appLayout(t)
	first := open(t, "oci:"+dir+":1", Options{}).Digest
	// Beside it, in its place, and in another directory.
	other := filepath.Join(t.TempDir(), "new")
	for _, to := range []string{"oci:" + dir + ":2", "oci:" + dir + ":1", "oci:" + other, "oci:" + other + ":x"} {
		got := do(t, "oci:"+dir+":1", to, Options{})
		if !strings.HasPrefix(got, to+"@sha256:") {
			t.Errorf("got %s", got)
		}
		if to == "oci:"+other+":x" { // beside the one without a tag
			continue
		}
		wantPatched(t, to)
	}
	after, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(after), `"x": "kept"`) && !strings.Contains(string(after), `"x":"kept"`) {
		t.Errorf("index.json: %s", after)
	}
	for _, l := range []string{dir + ":2", dir + ":1", other + ":x"} {
		tooltest.Output(t, skopeo, "inspect", "--raw", "oci:"+l)
		tooltest.Output(t, skopeo, "copy", "oci:"+l, "dir:"+t.TempDir())
	}
	rootfs := filepath.Join(t.TempDir(), "bundle")
	tooltest.Output(t, umoci, "unpack", "--rootless", "--image", dir+":2", rootfs)
	if _, err := os.Lstat(filepath.Join(rootfs, "rootfs/opt/old/libstub.so")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the whiteout did nothing: %v", err)
	}
	if link, err := os.Readlink(filepath.Join(rootfs, "rootfs/lib/libcudnn.so")); link != "libcudnn.so.8" {
		t.Errorf("the link is %q, %v", link, err)
	}
	if b := open(t, "oci:"+dir+":1", Options{}); b.Images[0].Digest != first || b.Digest == first {
		t.Errorf("origin %s, want %s", b.Images[0].Digest, first)
	}
	if _, err := Undo(t.Context(), "oci:"+dir+":1", Options{}); err != nil {
		t.Fatal(err)
	}
	if got := open(t, "oci:"+dir+":1", Options{}).Digest; got != first {
		t.Errorf("undone to %s, want %s", got, first)
	}
	if _, err := Undo(t.Context(), "oci:"+other+":x", Options{}); err != nil {
		t.Error(err)
	}
	if got := open(t, "oci:"+other+":x", Options{}).Digest; got != first {
		t.Errorf("in another layout undone to %s, want %s", got, first)
	}
	noTemporary(t, dir)
	noTemporary(t, other)
}

func noTemporary(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if strings.Contains(p, ".imgcheck") {
			t.Errorf("left: %s", p)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A layout is what it was while a part of the base is damaged or missing.
func TestLayoutDamaged(t *testing.T) {
	dir := appLayout(t)
	b := open(t, "oci:"+dir+":1", Options{})
	p := patchAll(t, b, change())
	blob := filepath.Join(dir, source.BlobPath(b.Images[0].manifest.Layers[1].Digest))
	raw, err := os.ReadFile(blob)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "new")
	for _, damage := range []struct {
		data []byte
		want string
	}{
		{append(slices.Clone(raw), 'x'), "oci:TMP/new: the blob sha256:HEX has 117 bytes, not 116: the image is damaged"},
		{raw[:len(raw)-1], "oci:TMP/new: the blob sha256:HEX has 115 bytes, not 116: the image is damaged"},
		{append(slices.Clone(raw[1:]), 'x'), "oci:TMP/new: the bytes of sha256:HEX are not those that the manifest names: the image is damaged"},
		{nil, "oci:TMP/new: the blob sha256:HEX is not in it: the image is damaged, or was saved without it"},
	} {
		if damage.data == nil {
			err = os.Remove(blob)
		} else {
			err = os.WriteFile(blob, damage.data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err := Publish(t.Context(), b, p, "oci:"+other, Options{})
		wantError(t, err, damage.want)
		if _, err := os.Stat(filepath.Join(other, "index.json")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("index.json: %v", err)
		}
		noTemporary(t, other)
	}
}

// An index in a layout; and a layout to a registry and back.
func TestLayoutIndex(t *testing.T) {
	s := newServer(t)
	dir := writeLayout(t, func(p ociLayout.Path) error {
		return p.AppendIndex(platforms(t), ociLayout.WithAnnotations(map[string]string{source.RefName: "1"}))
	})
	_, err := Publish(t.Context(), open(t, "oci:"+dir+":1", Options{}), patchAll(t, open(t, "oci:"+dir+":1", Options{}), change()), s.host+"/app:1", quick())
	var ce *CopyError
	if !errors.As(err, &ce) {
		t.Errorf("error %v", err)
	}
	o := quick()
	o.AllowCopy = true
	do(t, "oci:"+dir+":1", s.host+"/app:1", o)
	s.whole(t, "app:1")
	do(t, "oci:"+dir+":1", "oci:"+dir+":fixed", Options{})
	if got, want := open(t, "oci:"+dir+":fixed", Options{}).Digest, s.digest(t, "app:1"); got != want {
		t.Errorf("the layout has %s, the registry %s", got, want)
	}
	if _, err := Undo(t.Context(), "oci:"+dir+":fixed", Options{}); err != nil {
		t.Error(err)
	}
	b := open(t, "oci:"+dir+":1", Options{})
	if _, err := Publish(t.Context(), b, patchAll(t, b, change()), "docker-archive:"+dir+".tar", o); err == nil || !strings.Contains(err.Error(), "choose one with --platform") {
		t.Errorf("error %v", err)
	}
	ref := s.push(t, "plain:1", imagetest.V1(t, app))
	to := filepath.Join(t.TempDir(), "from-registry")
	b = open(t, ref, quick())
	p := patchAll(t, b, change())
	if _, err := Publish(t.Context(), b, p, "oci:"+to+":1", quick()); !errors.As(err, &ce) {
		t.Errorf("error %v", err)
	}
	do(t, ref, "oci:"+to+":1", o)
	wantPatched(t, "oci:"+to+":1")
}

// archiveOf writes images as `docker save` does.
func archiveOf(t *testing.T, compress bool) string {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "")
	file := filepath.Join(t.TempDir(), "app.tar")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var w io.Writer = f
	if compress {
		z := gzip.NewWriter(f)
		defer z.Close()
		w = z
	}
	s := newServer(t)
	if err := tarball.Write(s.ref(t, "app:1"), docker(t, imagetest.V1(t, app)), w); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestArchive(t *testing.T) {
	skopeo := tooltest.Need(t, "skopeo", "skopeo")
	for _, compress := range []bool{false, true} {
		file := archiveOf(t, compress)
		first := open(t, "docker-archive:"+file, Options{}).Digest
		to := filepath.Join(t.TempDir(), "fixed.tar")
		got := do(t, "docker-archive:"+file, "docker-archive:"+to+":new/name", Options{})
		wantPatched(t, "docker-archive:"+to)
		if cfg := open(t, "docker-archive:"+to, Options{}); !strings.HasSuffix(got, cfg.Digest) {
			t.Errorf("got %s, the config has %s", got, cfg.Digest)
		}
		tooltest.Output(t, skopeo, "copy", "docker-archive:"+to, "dir:"+t.TempDir())
		if img, err := tarball.ImageFromPath(to, nil); err != nil {
			t.Error(err)
		} else if cfg, err := img.ConfigFile(); err != nil || cfg.Config.Labels[keyOrigin] != first {
			t.Errorf("labels %v, %v; the origin is %s", cfg.Config.Labels, err, first)
		}
		if m := manifestJSON(t, to); !cmp.Equal(m[0].RepoTags, []string{"new/name:latest"}) {
			t.Errorf("manifest.json %+v", m)
		}
		// Twice the same gives the same bytes.
		again := filepath.Join(t.TempDir(), "again.tar")
		do(t, "docker-archive:"+file, "docker-archive:"+again+":new/name", Options{})
		if !bytes.Equal(readFile(t, to), readFile(t, again)) {
			t.Error("the same patch gave other bytes")
		}
		// In its own place.
		do(t, "docker-archive:"+file, "docker-archive:"+file, Options{})
		wantPatched(t, "docker-archive:"+file)
		noTemporary(t, filepath.Dir(file))
		_, err := Undo(t.Context(), "docker-archive:"+file, Options{})
		wantError(t, err, "docker-archive:TMP/app.tar: an archive does not keep the origin (sha256:HEX): use the one that the patch was made of")
		b := open(t, "docker-archive:"+file, Options{})
		_, err = Publish(t.Context(), b, patchAll(t, b, Change{Env: []EnvEdit{{Name: "A", Value: "1"}}}), "example.com/app:1", Options{})
		wantError(t, err, "example.com/app:1: an image of a docker archive or a daemon has no manifest: publish it to docker-archive:FILE or docker:NAME, and push it from there")
	}
	_, err := OpenBase(t.Context(), "docker-archive:"+filepath.Join(t.TempDir(), "none.tar"), Options{})
	wantError(t, err, "docker-archive:TMP/none.tar: TMP/none.tar: no such file or directory")
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func manifestJSON(t *testing.T, file string) (list []archiveEntry) {
	t.Helper()
	tr := tar.NewReader(bytes.NewReader(readFile(t, file)))
	for {
		h, err := tr.Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "manifest.json" {
			if err := json.NewDecoder(tr).Decode(&list); err != nil {
				t.Fatal(err)
			}
			return list
		}
	}
}

// A write that fails leaves the file that was there.
func TestArchiveFails(t *testing.T) {
	file := archiveOf(t, false)
	before := readFile(t, file)
	b := open(t, "docker-archive:"+file, Options{})
	p := patchAll(t, b, change())
	if err := os.WriteFile(file, before[:len(before)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "there.tar")
	if err := os.WriteFile(to, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(t.Context(), b, p, "docker-archive:"+to, Options{}); err == nil {
		t.Error("no error")
	}
	if got := string(readFile(t, to)); got != "old" {
		t.Errorf("it has %d bytes", len(got))
	}
	noTemporary(t, filepath.Dir(to))
}

// From a registry an archive needs all layers, which is a copy.
func TestRegistryToArchive(t *testing.T) {
	s := newServer(t)
	ref := s.push(t, "app:1", imagetest.V1(t, app))
	b := open(t, ref, quick())
	p := patchAll(t, b, change())
	to := filepath.Join(t.TempDir(), "app.tar")
	_, err := Publish(t.Context(), b, p, "docker-archive:"+to+":app:1", quick())
	var ce *CopyError
	if !errors.As(err, &ce) {
		t.Errorf("error %v", err)
	}
	noTemporary(t, filepath.Dir(to))
	o := quick()
	o.AllowCopy = true
	if _, err := Publish(t.Context(), b, p, "docker-archive:"+to+":app:1", o); err != nil {
		t.Fatal(err)
	}
	wantPatched(t, "docker-archive:"+to)
	tooltest.Output(t, tooltest.Need(t, "skopeo", "skopeo"), "copy", "docker-archive:"+to, "dir:"+t.TempDir())
}

// fakeDaemon serves as a daemon that has the image app:1 and all images that are loaded,
// by name.
func fakeDaemon(t *testing.T, images map[string][]byte, fail string) {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "")
	socket := filepath.Join(t.TempDir(), "docker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		w.Header().Set("Ostype", "linux")
		w.Header().Set("Content-Type", "application/json")
		p := r.URL.Path
		if _, rest, ok := strings.Cut(p, "/images/"); ok {
			p = rest
		}
		name := r.URL.Query().Get("names")
		switch {
		case strings.HasSuffix(p, "_ping"):
			w.Write([]byte("OK"))
		case p == "load":
			if fail != "" {
				io.Copy(io.Discard, r.Body)
				w.Write([]byte(`{"error": "` + fail + `"}`))
				return
			}
			b, err := io.ReadAll(r.Body)
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			file := filepath.Join(t.TempDir(), "loaded.tar")
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Error(err)
			}
			for _, e := range manifestJSON(t, file) {
				for _, tag := range e.RepoTags {
					images[tag] = b
				}
			}
			w.Write([]byte(`{"stream": "Loaded image"}`))
		case strings.HasSuffix(p, "/tag"):
			from, to := strings.TrimSuffix(p, "/tag"), strings.TrimPrefix(r.URL.Query().Get("repo"), "docker.io/library/")+":"+r.URL.Query().Get("tag")
			if images[from] == nil {
				w.WriteHeader(http.StatusNotFound)
				w.Write([]byte(`{"message": "No such image: ` + from + `"}`))
				return
			}
			images[to] = images[from]
			w.WriteHeader(http.StatusCreated)
		case strings.HasSuffix(p, "/json") && images[strings.TrimSuffix(p, "/json")] != nil:
			w.Write([]byte(`{"Id": "sha256:1", "Os": "linux", "Architecture": "amd64"}`))
		case strings.HasSuffix(p, "/get"), p == "get" && images[name] != nil:
			if n, ok := strings.CutSuffix(p, "/get"); ok {
				name = n
			}
			w.Header().Set("Content-Type", "application/x-tar")
			w.Write(images[name])
		case strings.HasSuffix(p, "/json"):
			w.WriteHeader(http.StatusNotFound)
			w.Write([]byte(`{"message": "No such image"}`))
		default:
			t.Errorf("asked for %s", r.URL)
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	s := &http.Server{Handler: http.HandlerFunc(answer)}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	t.Setenv("DOCKER_HOST", "unix://"+socket)
}

func TestDaemon(t *testing.T) {
	saved := readFile(t, archiveOf(t, false))
	images := map[string][]byte{"app:1": saved}
	fakeDaemon(t, images, "")
	b := open(t, "docker:app:1", Options{})
	images[b.Digest] = saved // the ID
	got := do(t, "docker:app:1", "docker:app:fixed", Options{})
	wantPatched(t, "docker:app:fixed")
	if want := "docker:app:fixed@" + open(t, "docker:app:fixed", Options{}).Digest; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if back, err := Undo(t.Context(), "docker:app:fixed", Options{}); err != nil || back != "docker:app:fixed@"+b.Digest {
		t.Errorf("undo: %s, %v", back, err)
	}
	if !bytes.Equal(images["app:fixed"], saved) {
		t.Error("the name has not its origin")
	}
	_, err := OpenBase(t.Context(), "docker:none:1", Options{})
	wantError(t, err, "docker:none:1: the daemon has no such image: pull or build it, or leave `docker:` out to read it from its registry")

	fakeDaemon(t, images, "no space left on device")
	_, err = Publish(t.Context(), b, patchAll(t, open(t, "docker:app:1", Options{}), change()), "docker:app:2", Options{})
	wantError(t, err, "docker:app:2: the daemon could not load it: no space left on device")
	if names := slices.Sorted(maps.Keys(images)); !cmp.Equal(names, []string{"app:1", "app:fixed", b.Digest}) {
		t.Errorf("names %q", names)
	}
}
