//go:build buildkitd

package buildkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/patch"
)

// reads counts how often blobs of a repository were read.
func reads(reg *imagetest.Server, repo string) map[string]int {
	out := map[string]int{}
	for what, n := range reg.Requests() {
		if strings.HasPrefix(what, "GET /v2/"+repo+"/blobs/") {
			out[what] = n
		}
	}
	return out
}

func TestCarryPutsLayersWherePublishFindsThem(t *testing.T) {
	env := patch.Change{Env: []patch.EnvEdit{{Name: "A", Value: "b"}}, CreatedBy: "imgcheck patch"}
	for _, tt := range []struct {
		name, repo string
		mt         types.MediaType
		text       string
		change     patch.Change
	}{
		{"same repository", "app", types.DockerManifestSchema2, baseImage, change()},
		{"OCI", "app", types.OCIManifestSchema1, baseImage, change()},
		{"another repository", "other/app", types.DockerManifestSchema2, baseImage, change()},
		{"zstd", "other/app", types.OCIManifestSchema1, "compress zstd\n" + baseImage, change()},
		{"environment only", "other/app", types.DockerManifestSchema2, baseImage, env},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := tooltest.Buildkitd(t) // a new one, without the layers
			reg, ref, base, p := patchedAs(t, tt.mt, tt.text, tt.change)
			before := reads(reg, "app")
			to := reg.Host + "/" + tt.repo + ":patched"
			if err := Carry(t.Context(), addr, p, ref, to, Options{Insecure: true, Progress: func(l string) { t.Log(l) }}); err != nil {
				t.Fatal(err)
			}
			leftAlone(t, reg, ref, before)
			if p.Layer != nil {
				d, err := p.Layer.Digest()
				if err != nil {
					t.Fatal(err)
				}
				resp, err := http.Get("http://" + reg.Host + "/v2/" + tt.repo + "/blobs/" + d.String())
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("the new layer %s is not there: %s", d, resp.Status)
				}
			}
			if strings.Contains(fmt.Sprint(reg.Requests()), "/manifests/patched") {
				t.Error("there is a tag before Publish")
			}
			got, err := patch.Publish(t.Context(), base, []*patch.Patched{p}, to, patch.Options{Insecure: true})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(got, "@"+p.Digest) {
				t.Errorf("published %s, and %s was to be", got, p.Digest)
			}
			if p.Layer != nil {
				holds(t, to)
			}
		})
	}
}

// leftAlone checks that no layer of an image was read since.
func leftAlone(t *testing.T, reg *imagetest.Server, ref string, before map[string]int) {
	t.Helper()
	for blob, n := range reads(reg, "app") {
		if n > before[blob] && isLayer(t, ref, blob) {
			t.Errorf("%s was read, a layer of the base", blob)
		}
	}
}

// Layers of another registry are sent from there by the buildkitd.
func TestCarryFromAnotherRegistry(t *testing.T) {
	addr := tooltest.Buildkitd(t)
	_, ref, base, p := patched(t, baseImage, change())
	other := imagetest.Serve(t)
	to := other.Host + "/app:patched"
	var copied *patch.CopyError
	if _, err := patch.Publish(t.Context(), base, []*patch.Patched{p}, to, patch.Options{Insecure: true}); !errors.As(err, &copied) {
		t.Errorf("without BuildKit: got %v", err)
	}
	if err := Carry(t.Context(), addr, p, ref, to, Options{Insecure: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := patch.Publish(t.Context(), base, []*patch.Patched{p}, to, patch.Options{Insecure: true}); err != nil {
		t.Fatal(err)
	}
	holds(t, to)
}

// isLayer reports whether a request was for a layer of an image.
func isLayer(t *testing.T, ref, request string) bool {
	img, err := layers.Open(context.Background(), ref, layers.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	for _, l := range img.Layers {
		if strings.HasSuffix(request, l.Digest) {
			return true
		}
	}
	return false
}

// holds checks the result of change on baseImage.
func holds(t *testing.T, ref string) {
	t.Helper()
	img, err := layers.Open(t.Context(), ref, layers.Options{Insecure: true, Keep: func(string, int64) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	f, err := img.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range []string{"/opt/lib/new.so.1", "/opt/lib/new.so", "/opt/old", "/usr/lib/libz.so", "/etc/keep"} {
		e, _, ok := f.Lstat(p)
		switch {
		case !ok:
			got[p] = "gone"
		case e.Type == layers.Symlink:
			got[p] = "-> " + e.Link
		default:
			got[p] = strings.TrimSpace(string(e.Content))
		}
	}
	want := map[string]string{
		"/opt/lib/new.so.1": "new", "/opt/lib/new.so": "-> new.so.1", "/opt/old": "gone", "/usr/lib/libz.so": "-> libz.so.1", "/etc/keep": "keep",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if dir, _, ok := f.Lstat("/opt"); !ok || dir.Mode.Perm() != 0o751 || dir.UID != 7 {
		t.Errorf("/opt is %+v", dir)
	}
	if diff := cmp.Diff([]string{"PATH=/bin", "LD_LIBRARY_PATH=/opt/lib"}, img.Config.Config.Env); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/bin/app"}, img.Config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	if n := len(img.Layers); n != 3 {
		t.Errorf("it has %d layers", n)
	}
}

func TestBuildctlSolvesTheDefinition(t *testing.T) {
	addr := tooltest.Buildkitd(t)
	reg, ref, _, p := patched(t, baseImage, change())
	before := reads(reg, "app")
	def, err := Definition(t.Context(), p, ref, true)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "it's a fix.llb")
	if err := os.WriteFile(file, def, 0o644); err != nil {
		t.Fatal(err)
	}
	to := reg.Host + "/app:built"
	line, err := Command(p, to, file)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Env = append(os.Environ(), "BUILDKIT_HOST="+addr, "PATH="+os.Getenv("BUILDKIT")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	leftAlone(t, reg, ref, before)
	holds(t, to)
}

func TestADaemonThatIsNotThere(t *testing.T) {
	_, ref, _, p := patched(t, baseImage, change())
	err := Carry(t.Context(), "unix://"+filepath.Join(t.TempDir(), "none"), p, ref, ref, Options{Insecure: true})
	if err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v", err)
	}
}
