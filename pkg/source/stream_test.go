package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// An archive that is a stream may have no end (docker-archive:/dev/zero); its reader can
// give up.
func TestEndlessStream(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	endless := readerFunc(func(b []byte) (int, error) {
		cancel() // it is being read
		clear(b)
		return len(b), nil
	})
	if _, err := ReadSaved(ctx, endless, "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The names of an archive are bounded.
func TestManyNames(t *testing.T) {
	defer func(names int64) { maxArchiveNames = names }(maxArchiveNames)
	maxArchiveNames = 300
	_, err := ReadSaved(t.Context(), bytes.NewReader(dockerTar(t, appImage)), "", nil)
	if err == nil || !strings.Contains(err.Error(), "the archive has more than 0 MiB of names") {
		t.Errorf("got %v", err)
	}
}

// A file that follows another one of its name replaces it, be it of another kind.
func TestLastOfAName(t *testing.T) {
	good := savedFiles(t, appImage, true)
	var twice []tarEntry
	for _, f := range good {
		for _, before := range []string{"{}", strings.Repeat("\x00", 1024), "text"} {
			if f.Name != "manifest.json" {
				twice = append(twice, fileOf(f.Name, before))
			}
		}
		twice = append(twice, f)
	}
	wantApp(t, "docker-archive:"+writeFile(t, "a.tar", tarOf(t, twice...)), Options{})
	wantApp(t, "docker-archive:"+writeFile(t, "a.tgz", gzipped(t, tarOf(t, twice...))), Options{})
}

// nested is a store of indexes in which others lie, without end.
type nested struct{ asked int }

func (n *nested) Manifest(context.Context, v1.Hash) (*Document, error) {
	n.asked++
	return &Document{[]byte(`{"manifests":[{"mediaType":"` + string(types.OCIImageIndex) + `","digest":"sha256:` + strings.Repeat("0", 64) + `"}]}`), types.OCIImageIndex}, nil
}

func (n *nested) Blob(context.Context, v1.Descriptor, func(string)) (io.ReadCloser, error) {
	return nil, errors.New("is not asked for")
}

func (n *nested) Name() string { return "" }

func TestNestedIndexes(t *testing.T) {
	n := &nested{}
	_, _, err := choose(t.Context(), n, []v1.Descriptor{{MediaType: types.OCIImageIndex}}, nil, 1)
	if err == nil || !strings.Contains(err.Error(), "name the image by its digest") || n.asked > maxNested {
		t.Errorf("after %d indexes: %v", n.asked, err)
	}
}

// An archive is refused in one line, or is an image whose layers are those of its
// config, whichever way it is read.
func FuzzReadSaved(f *testing.F) {
	f.Add(tarOf(f, fileOf("c.json", `{"rootfs":{"diff_ids":[]}}`), fileOf("manifest.json", `[{"Config":"c.json","Layers":[]}]`)))
	f.Add(tarOf(f, fileOf("c", `{"rootfs":{"diff_ids":["sha256:`+strings.Repeat("0", 64)+`"]}}`), fileOf("l", "x"), fileOf("manifest.json", `[{"Config":"./c","Layers":["l"],"RepoTags":["a:1"]}]`)))
	f.Add(dockerTar(f, appImage))
	f.Fuzz(func(t *testing.T, b []byte) {
		img := &Image{}
		taken := map[int]bool{}
		s, err := img.readSaved(t.Context(), bytes.NewReader(b), "", func(f TarFile, r io.Reader) error {
			taken[f.Entry] = true
			return nil
		})
		if err != nil {
			if s != nil || strings.ContainsAny(err.Error(), "\n\x1b\x00") {
				t.Errorf("%v beside the error %q", s, err)
			}
			return
		}
		if len(s.Layers) != len(img.Config.RootFS.DiffIDs) || len(s.Layers) != len(img.Layers) || !bytes.Equal(s.RawConfig, img.RawConfig) {
			t.Errorf("%+v, %+v", s, img)
		}
		for _, f := range s.Layers {
			if !taken[f.Entry] {
				t.Errorf("%+v was not given", f)
			}
		}
		if _, err := ReadSaved(t.Context(), bytes.NewReader(b), "", nil); err != nil {
			t.Errorf("without reading its layers: %v", err)
		}
	})
}
