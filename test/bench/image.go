//go:build linux

package bench

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
)

// content is the source of a layer.
type content struct {
	name     string
	packages []string // of Debian bookworm: main, contrib, non-free
	under    string   // the directory that all files are put into
	text     string   // an application's file, for a layer without packages
}

// The full image has 5.2 GB in twelve layers, with one shared library of half a
// gigabyte, layers of ten thousand small files, and as much Python as an environment
// for machine learning: 25,000 files with 390 MB, half of them in a second environment.
// The small one serves to try the benchmark itself.
var (
	python = strings.Fields(`python3-astropy python3-biopython python3-dask python3-fonttools python3-matplotlib python3-mypy python3-networkx
		python3-numba python3-numpy python3-pandas python3-pandas-lib python3-pygments python3-scipy python3-setuptools python3-skimage
		python3-skimage-lib python3-sklearn python3-sklearn-lib python3-sqlalchemy python3-statsmodels python3-statsmodels-lib python3-sympy
		python3-torchvision python3-twisted python3-xarray`)
	// needed is what the program needs besides.
	needed = strings.Fields(`python3-contourpy python3-cycler python3-dateutil python3-decorator python3-distutils python3-greenlet python3-imageio
		python3-joblib python3-kiwisolver python3-mpmath python3-packaging python3-patsy python3-pil python3-pkg-resources python3-pyparsing
		python3-pywt python3-six python3-threadpoolctl python3-tifffile python3-typing-extensions python3-tz python3-yaml python-matplotlib-data
		libblas3 libbrotli1 libbsd0 libbz2-1.0 libcrypt1 libdb5.3 libdeflate0 libexpat1 libfreetype6 libfribidi0 libgfortran5 libglib2.0-0 libgomp1
		libgraphite2-3 libharfbuzz0b libimagequant0 libjbig0 libjpeg62-turbo liblapack3 liblbfgsb0 liblcms2-2 liblerc4 liblzma5 libmd0
		libncursesw6 libnsl2 libopenjp2-7 libpcre2-8-0 libpng16-16 libqhull-r8.0 libquadmath0 libraqm0 libreadline8 libsqlite3-0 libtiff6
		libtinfo6 libtirpc3 libuuid1 libwebp7 libwebpdemux2 libwebpmux3 libxau6 libxcb1 libxdmcp6 libyaml-0-2 libzstd1`)
	// program is the imports of a service. The last fails: torch needs more libraries.
	program = "import pandas, sklearn.linear_model, skimage.io, statsmodels.api, matplotlib.pyplot, sqlalchemy, xarray, sympy, torch\n"
	full    = []content{
		{name: "base", packages: strings.Fields("libc6 libstdc++6 libgcc-s1 zlib1g libssl3 libffi8 bash coreutils libpython3.11-minimal libpython3.11-stdlib python3.11-minimal")},
		{name: "cublaslt", packages: []string{"libcublaslt11", "libcudart11.0"}},
		{name: "cublas", packages: []string{"libcublas11", "libcusparse11"}},
		{name: "cusolver", packages: []string{"libcusolver11", "libcusolvermg11", "libcufft10", "libcurand10"}},
		{name: "npp", packages: strings.Fields("libnppial11 libnppicc11 libnppidei11 libnppif11 libnppig11 libnppim11 libnppist11 libnppisu11 libnppitc11 libnpps11 libnppc11 libcupti11.8 libnvrtc11.2")},
		{name: "torch", packages: []string{"libtorch1.13", "libtorch-test", "python3-torch"}},
		{name: "python", packages: slices.Concat(needed, python)},
		{name: "environment", packages: python, under: "opt/env"},
		{name: "llvm", packages: strings.Fields("libllvm14 libllvm15 libllvm16 libclang-cpp14 libclang-cpp15 libclang-cpp16")},
		{name: "languages", packages: []string{"golang-1.19-go", "golang-1.19-src", "libstd-rust-dev"}},
		{name: "browsers", packages: []string{"chromium", "firefox-esr", "thunderbird"}},
		{name: "app", text: program + "print('one')\n"},
	}
	small = []content{
		{name: "base", packages: full[0].packages},
		{name: "torch", packages: []string{"libtorch1.13"}},
		{name: "llvm", packages: []string{"libllvm14"}},
		{name: "clang", packages: []string{"libclang-cpp14"}},
		{name: "source", packages: []string{"golang-1.19-src"}},
		{name: "ssl", packages: []string{"libssl3", "libcurl4"}},
		{name: "stdc++", packages: []string{"libstdc++6", "libgfortran5"}},
		{name: "app", text: "print('one')\n"},
	}
)

// renamed returns the same contents below another directory: as many bytes, in
// different blobs.
func renamed(list []content, under string) []content {
	out := make([]content, len(list))
	for i, c := range list {
		c.under = path.Join(under, c.under)
		out[i] = c
	}
	return out
}

// write writes the content as a tar.
func (c content) write(w *tar.Writer, debs map[string]string) error {
	if c.text != "" {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(c.under, "app/main.py"), Mode: 0o644, Size: int64(len(c.text))}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.WriteString(w, c.text)
		return err
	}
	for _, name := range c.packages {
		if err := c.unpack(w, debs[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// unpack adds a package's files, as dpkg unpacks them.
func (c content) unpack(w *tar.Writer, deb string) error {
	cmd := exec.Command("dpkg-deb", "--fsys-tarfile", deb)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for r := tar.NewReader(out); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		h.Name = path.Join(c.under, h.Name)
		if h.Typeflag == tar.TypeLink {
			h.Linkname = path.Join(c.under, h.Linkname)
		}
		if h.Name == "." || h.Name == c.under {
			continue
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		return err
	}
	return cmd.Wait()
}

// blobs is an OCI layout in the making.
type blobs struct{ dir string }

func (b blobs) path(digest string) string {
	return filepath.Join(b.dir, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
}

// json stores a value as a blob.
func (b blobs) json(v any, kind types.MediaType) (v1.Descriptor, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return v1.Descriptor{}, err
	}
	h, n, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: kind, Digest: h, Size: n}, os.WriteFile(b.path(h.String()), raw, 0o644)
}

// stored describes a finished layer.
type stored struct {
	Blob   v1.Descriptor
	DiffID v1.Hash
	Size   int64 // unpacked, in bytes
}

// layer puts contents into the layout as one layer. It uses a blob that an earlier
// call left in the directory "made" beside the layout, for this image or another.
func (b blobs) layer(list []content, debs map[string]string, kind types.MediaType) (stored, error) {
	made := filepath.Join(filepath.Dir(b.dir), "made")
	if err := os.MkdirAll(made, 0o755); err != nil {
		return stored{}, err
	}
	file := filepath.Join(made, fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %+v", kind, list))))
	var l stored
	raw, err := os.ReadFile(file + ".json")
	if err == nil {
		err = json.Unmarshal(raw, &l)
	} else {
		l, err = makeLayer(file, list, debs, kind)
	}
	if err != nil {
		return l, err
	}
	return l, os.Link(file, b.path(l.Blob.Digest.String()))
}

// makeLayer writes a layer's blob to a file, and its description beside it.
func makeLayer(file string, list []content, debs map[string]string, kind types.MediaType) (l stored, err error) {
	f, err := os.Create(file)
	if err != nil {
		return l, err
	}
	defer f.Close()
	packed, plain := sha256.New(), sha256.New()
	counted := &counter{w: plain}
	z, err := compressor(io.MultiWriter(f, packed), kind)
	if err != nil {
		return l, err
	}
	w := tar.NewWriter(io.MultiWriter(z, counted))
	for _, c := range list {
		if err := c.write(w, debs); err != nil {
			return l, fmt.Errorf("layer %s: %w", c.name, err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return l, err
	}
	st, err := f.Stat()
	if err != nil {
		return l, err
	}
	sum := func(h hash.Hash) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))} }
	l = stored{Blob: v1.Descriptor{MediaType: kind, Digest: sum(packed), Size: st.Size()}, DiffID: sum(plain), Size: counted.n}
	raw, err := json.Marshal(l)
	if err != nil {
		return l, err
	}
	return l, os.WriteFile(file+".json", raw, 0o644)
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.w.Write(b)
}

// compressor returns a writer with the levels of docker build: gzip 6, zstd 3.
func compressor(w io.Writer, kind types.MediaType) (io.WriteCloser, error) {
	if kind == types.OCILayerZStd {
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return gzip.NewWriterLevel(w, 6)
}

// image is an OCI layout and the unpacked sizes of its layers.
type image struct {
	Dir   string
	Sizes []int64 // in bytes
}

func (i image) size() int64 {
	n := int64(0)
	for _, s := range i.Sizes {
		n += s
	}
	return n
}

// makeImage writes a layout with one layer for each list, unless an earlier run has
// left it.
func makeImage(dir string, kind types.MediaType, debs map[string]string, layers ...[]content) (image, error) {
	img := image{Dir: dir}
	if raw, err := os.ReadFile(filepath.Join(dir, "sizes.json")); err == nil {
		return img, json.Unmarshal(raw, &img.Sizes)
	}
	fmt.Fprintf(os.Stderr, "making %s\n", filepath.Base(dir))
	b := blobs{dir}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755)); err != nil {
		return img, err
	}
	img.Sizes = make([]int64, len(layers))
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Layers: make([]v1.Descriptor, len(layers))}
	cfg := v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers", DiffIDs: make([]v1.Hash, len(layers))}}
	cfg.Config.Cmd = []string{"/usr/bin/python3.11", "/app/main.py"}
	cfg.Config.Env = []string{"LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/blas:/usr/lib/x86_64-linux-gnu/lapack"} // Debian's alternatives
	var g errgroup.Group
	g.SetLimit(4)
	for i, list := range layers {
		cfg.History = append(cfg.History, v1.History{CreatedBy: "COPY " + list[0].name + " /"})
		g.Go(func() error {
			l, err := b.layer(list, debs, kind)
			m.Layers[i], cfg.RootFS.DiffIDs[i], img.Sizes[i] = l.Blob, l.DiffID, l.Size
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return img, err
	}
	return img, b.finish(&m, &cfg, img.Sizes)
}

func (b blobs) finish(m *v1.Manifest, cfg *v1.ConfigFile, sizes []int64) error {
	var err error
	if m.Config, err = b.json(cfg, types.OCIConfigJSON); err != nil {
		return err
	}
	d, err := b.json(m, types.OCIManifestSchema1)
	if err != nil {
		return err
	}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
	if err != nil {
		return err
	}
	done, err := json.Marshal(sizes)
	return errors.Join(err,
		os.WriteFile(filepath.Join(b.dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644),
		os.WriteFile(filepath.Join(b.dir, "index.json"), index, 0o644),
		os.WriteFile(filepath.Join(b.dir, "sizes.json"), done, 0o644))
}

type descriptor = v1.Descriptor

// manifest returns the manifest of a layout that makeImage wrote.
func manifest(dir string) (*v1.Manifest, error) {
	m, _, err := rawManifest(dir)
	return m, err
}

func rawManifest(dir string) (*v1.Manifest, []byte, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return nil, nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, err
	}
	if raw, err = os.ReadFile(blobs{dir}.path(index.Manifests[0].Digest.String())); err != nil {
		return nil, nil, err
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	return m, raw, err
}
