package buildkit

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/session/auth"
	"github.com/moby/buildkit/solver/pb"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/patch"
)

// baseImage is the image that change patches.
const baseImage = `
env PATH=/bin
entrypoint ["/bin/app"]
layer 0 COPY base /
layer 1 COPY app /
-- 0/lib --
symlink usr/lib
-- 0/etc/keep --
keep
-- 0/usr/lib/libz.so.1 --
elf x86_64 soname=libz.so.1
-- 1/opt --
dir mode=751 uid=7 gid=8
-- 1/opt/old --
old
`

// change adds a file and links, one below a link, removes a file, sets a
// variable.
func change() patch.Change {
	content := "new\n"
	return patch.Change{
		Files: []patch.File{
			{Path: "opt/lib/new.so.1", Mode: 0o644, Size: int64(len(content)), UID: 3, Open: func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(content)), nil
			}},
			{Path: "opt/lib/new.so", Link: "new.so.1"},
			{Path: "lib/libz.so", Link: "libz.so.1"},
			{Path: "opt/old", Remove: true},
		},
		Env:       []patch.EnvEdit{{Name: "LD_LIBRARY_PATH", Value: "/opt/lib"}},
		CreatedBy: "imgcheck patch",
	}
}

// patched pushes an image to a registry and lays a change over it.
func patched(t *testing.T, text string, c patch.Change) (*imagetest.Server, string, *patch.Base, *patch.Patched) {
	t.Helper()
	return patchedAs(t, types.DockerManifestSchema2, text, c)
}

// patchedAs does as patched, for an image whose manifest has the media type mt.
func patchedAs(t *testing.T, mt types.MediaType, text string, c patch.Change) (*imagetest.Server, string, *patch.Base, *patch.Patched) {
	t.Helper()
	reg := imagetest.Serve(t)
	v := imagetest.V1(t, text)
	if mt == types.DockerManifestSchema2 {
		v = mutate.ConfigMediaType(mutate.MediaType(v, mt), types.DockerConfigJSON)
	}
	ref, err := reg.Push("app:1", v)
	if err != nil {
		t.Fatal(err)
	}
	base, err := patch.OpenBase(t.Context(), ref, patch.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	img, err := base.Images[0].Open(t.Context(), layers.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	f, err := img.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := patch.Apply(t.Context(), base.Images[0], f, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return reg, ref, base, p
}

func TestDefinitionIsTheSame(t *testing.T) {
	_, ref, _, p := patched(t, baseImage, change())
	var last []byte
	for range 5 {
		b, err := Definition(t.Context(), p, ref, true)
		if err != nil {
			t.Fatal(err)
		}
		if last != nil && !bytes.Equal(b, last) {
			t.Fatal("the same image gives other bytes")
		}
		last = b
	}
}

// ops returns the operations of a definition, in the order of the digraph's text.
func ops(t *testing.T, def []byte) []string {
	t.Helper()
	d, err := llb.ReadFrom(bytes.NewReader(def))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, dt := range d.Def {
		var op pb.Op
		if err := op.Unmarshal(dt); err != nil {
			t.Fatal(err)
		}
		switch o := op.Op.(type) {
		case *pb.Op_Source:
			list = append(list, "source "+o.Source.Identifier)
		case *pb.Op_File:
			list = append(list, fmt.Sprintf("file %d", len(o.File.Actions)))
		case *pb.Op_Merge:
			list = append(list, fmt.Sprintf("merge %d", len(o.Merge.Inputs)))
		case *pb.Op_Diff:
			list = append(list, "diff")
		}
	}
	slices.Sort(list)
	return list
}

// The base is named by its digest, and used in a merge only: another operation on it
// would make BuildKit pull all of it. The layer is one operation.
func TestDefinitionLeavesTheBaseAlone(t *testing.T) {
	only := func(files ...patch.File) patch.Change { return patch.Change{Files: files} }
	link, gone := patch.File{Path: "opt/x", Link: "y"}, patch.File{Path: "opt/old", Remove: true}
	for name, tt := range map[string]struct {
		change patch.Change
		want   []string
	}{
		"env":    {patch.Change{Env: []patch.EnvEdit{{Name: "A", Value: "b"}}}, nil},
		"links":  {only(link, patch.File{Path: "opt/z", Link: "y"}), []string{"file 3", "merge 2"}},
		"remove": {only(gone), []string{"diff", "file 1", "file 2", "merge 2"}},
		"both":   {only(link, gone), []string{"diff", "file 2", "file 2", "merge 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, ref, base, p := patched(t, baseImage, tt.change)
			def, err := Definition(t.Context(), p, ref, true)
			if err != nil {
				t.Fatal(err)
			}
			repo := strings.TrimSuffix(ref, ":1")
			want := append(slices.Clone(tt.want), "source docker-image://"+repo+"@"+base.Images[0].Digest)
			if diff := cmp.Diff(want, ops(t, def)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatLLBHasNoWordsFor(t *testing.T) {
	large := patch.File{Path: "opt/large", Mode: 0o644, Size: maxInline + 1, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(zeros{}, maxInline+1)), nil
	}}
	for name, tt := range map[string]struct {
		image string
		file  patch.File
		err   string
	}{
		"large":  {baseImage, large, "/opt/large: its files have more than 8 MiB: --buildkit ADDR takes it"},
		"set-id": {baseImage, patch.File{Path: "opt/s", Mode: 0o755 | fs.ModeSetuid, Open: large.Open, Size: maxInline + 1}, "/opt/s: LLB cannot express the mode 4755"},
		"sticky": {baseImage + "-- 1/tmp --\ndir mode=1777\n", patch.File{Path: "tmp/x", Link: "y"}, "/tmp: LLB cannot express the mode 1777"},
	} {
		t.Run(name, func(t *testing.T) {
			_, ref, _, p := patched(t, tt.image, patch.Change{Files: []patch.File{tt.file}})
			_, err := Definition(t.Context(), p, ref, true)
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %s", err, tt.err)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestOnlyRegistries(t *testing.T) {
	_, _, _, p := patched(t, baseImage, change())
	for _, ref := range []string{"oci:/x", "docker:app", "docker-archive:x.tar", "dir:/", "oci-archive:x"} {
		if _, err := Definition(t.Context(), p, ref, false); err == nil || !strings.Contains(err.Error(), "in registries only") {
			t.Errorf("%s: got %v", ref, err)
		}
		if err := Carry(t.Context(), "unix:///nowhere", p, "app:1", ref, Options{}); err == nil || !strings.Contains(err.Error(), "in registries only") {
			t.Errorf("%s: got %v", ref, err)
		}
	}
	for _, ref := range []string{"registry:host:5/app:1", "docker://host:5/app:1", "host:5/app:1"} {
		if got, err := reference(ref, false); err != nil || got.Name() != "host:5/app:1" {
			t.Errorf("%s: got %v, %v", ref, got, err)
		}
	}
}

// A shell and buildctl parse the command as it was meant.
func TestCommand(t *testing.T) {
	_, _, _, p := patched(t, baseImage, change())
	p.Config = []byte(`{"os":"linux","config":{"Env":["A=it's, \"quoted\"\n"]}}`)
	line, err := Command(p, "host/app:2", "a fix.llb")
	if err != nil {
		t.Fatal(err)
	}
	want := `buildctl build --output 'type=image,name=host/app:2,push=true,"containerimage.config={""os"":""linux"",""config"":{""Env"":[""A=it'\''s, \""quoted\""\n""]}}",oci-mediatypes=false' < 'a fix.llb'`
	if diff := cmp.Diff(want, line); diff != "" {
		t.Error(diff)
	}
}

// BuildKit reads parts, mostly in order.
func TestStoreGivesTheLayer(t *testing.T) {
	_, _, _, p := patched(t, baseImage, change())
	s, err := newStore(p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	rc, err := p.Layer.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	want, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.ReaderAt(t.Context(), s.layer)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := iotest.TestReader(io.NewSectionReader(r, 0, r.Size()), want); err != nil {
		t.Error(err)
	}
	b := make([]byte, 10)
	for _, off := range []int64{100, 3, 50, int64(len(want)) - 4, 0} {
		n, err := r.ReadAt(b, off)
		if !bytes.Equal(b[:n], want[off:min(off+10, int64(len(want)))]) || n < len(b) && err != io.EOF {
			t.Errorf("at %d: %d bytes, %v", off, n, err)
		}
	}
	if _, err := s.ReaderAt(t.Context(), ocispecs.Descriptor{Digest: "sha256:00"}); err == nil {
		t.Error("it has what it has not")
	}
}

// A buildkitd gets the logins of the registries that take part, and no others.
func TestLogins(t *testing.T) {
	dir := t.TempDir()
	config := `{"auths": {
		"inside.example": {"auth": "bWU6c2VjcmV0"},
		"other.example": {"auth": "bWU6c2VjcmV0"},
		"https://index.docker.io/v1/": {"auth": "bWU6c2VjcmV0"}}}` // me:secret
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_CONFIG", dir)
	got := map[string]string{}
	for _, host := range []string{"inside.example", "other.example", "registry-1.docker.io"} {
		for _, concerned := range []string{"inside.example", "index.docker.io"} {
			c, err := logins(concerned).(auth.AuthServer).Credentials(t.Context(), &auth.CredentialsRequest{Host: host})
			if err != nil {
				t.Fatal(err)
			}
			got[concerned+" asks for "+host] = c.Username + ":" + c.Secret
		}
	}
	want := map[string]string{
		"inside.example asks for inside.example": "me:secret", "inside.example asks for other.example": ":", "inside.example asks for registry-1.docker.io": ":",
		"index.docker.io asks for inside.example": ":", "index.docker.io asks for other.example": ":", "index.docker.io asks for registry-1.docker.io": "me:secret",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
