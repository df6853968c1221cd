// Package image writes the container image of imgcheck itself as an OCI layout,
// without a daemon: an index with an image for each Linux program in DIST. The
// same programs give the same bytes.
//
// The image holds the program, a user without rights and a home for the cache, but
// no shell and no libraries: the program is static and includes root certificates
// for systems that have none.
package image

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user of distroless images, so that rules for those images fit:
// https://github.com/GoogleContainerTools/distroless/blob/main/common/variables.bzl
const user = 65532

// Main runs the program.
func Main() {
	dist := flag.String("dist", "dist", "where the programs are, and where the layout goes, as imgcheck.oci")
	version := flag.String("version", "devel", "for the labels")
	commit := flag.String("commit", "", "for the labels")
	flag.Parse()
	if err := run(*dist, *version, *commit); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(dist, version, commit string) error {
	programs, err := filepath.Glob(filepath.Join(dist, "imgcheck_linux_*"))
	if err != nil {
		return err
	}
	if len(programs) == 0 {
		return fmt.Errorf("no program for Linux in %s: `make release` builds them", dist)
	}
	labels := map[string]string{
		"org.opencontainers.image.title": "imgcheck", "org.opencontainers.image.version": version,
		"org.opencontainers.image.source": "https://github.com/imgcheck/imgcheck", "org.opencontainers.image.licenses": "Apache-2.0",
	}
	if commit != "" {
		labels["org.opencontainers.image.revision"] = commit
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		_, arch, _ := strings.Cut(filepath.Base(p), "_linux_")
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		img, err := imageOf(text, arch, labels)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	part, err := os.MkdirTemp(dist, ".imgcheck.oci-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(part)
	l, err := layout.Write(part, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	// One entry for the image of all platforms: skopeo takes no other index.
	if err := l.AppendIndex(index); err != nil {
		return err
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dist, "imgcheck.oci")
	if err := os.RemoveAll(name); err != nil {
		return err
	}
	return os.Rename(part, name)
}

func imageOf(program []byte, arch string, labels map[string]string) (v1.Image, error) {
	text, err := layerText(program)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "imgcheck: make image"}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user), Entrypoint: []string{"/usr/local/bin/imgcheck"}, WorkingDir: "/work", Labels: labels,
		Env: []string{"PATH=/usr/local/bin", "HOME=/home/imgcheck"},
	}
	return mutate.ConfigFile(img, config)
}

// layerText returns the tar of the only layer.
func layerText(program []byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	passwd := fmt.Sprintf("root:x:0:0::/:/nonexistent\nimgcheck:x:%d:%d::/home/imgcheck:/nonexistent\n", user, user)
	for _, f := range []struct {
		name string
		mode int64
		own  int
		text []byte
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/passwd", 0o644, 0, []byte(passwd)},
		{"home/", 0o755, 0, nil},
		{"home/imgcheck/", 0o700, user, nil},
		{"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil},
		{"usr/local/", 0o755, 0, nil},
		{"usr/local/bin/", 0o755, 0, nil},
		{"usr/local/bin/imgcheck", 0o755, 0, program},
		{"work/", 0o755, user, nil},
	} {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Uid: f.own, Gid: f.own, Size: int64(len(f.text)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
