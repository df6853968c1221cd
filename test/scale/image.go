//go:build unix

package scale

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// image writes an OCI layout layer by layer. It keeps the first error, which finish
// returns.
type image struct {
	dir      string
	config   v1.ConfigFile
	manifest v1.Manifest
	err      error

	file   *os.File
	buffer *bufio.Writer
	zip    *gzip.Writer
	tar    *tar.Writer
	hashes [2]interface{ Sum([]byte) []byte }
}

func newImage(dir string) *image {
	im := &image{dir: dir}
	im.config = v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers"}}
	im.manifest = v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	im.check(os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755))
	return im
}

func (im *image) check(err error) {
	if im.err == nil {
		im.err = err
	}
}

// base writes the files that a program needs to start, with Debian's glibc 2.36.
func (im *image) base() {
	const lib = "usr/lib/x86_64-linux-gnu/"
	for _, l := range []string{"lib", "lib64", "bin"} {
		im.link(l, "usr/"+l)
	}
	im.link("usr/lib64/ld-linux-x86-64.so.2", "../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
	im.elf(lib+"ld-linux-x86-64.so.2", "elf x86_64 soname=ld-linux-x86-64.so.2",
		`rodata "ld.so (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.\x00"`,
		`rodata "/lib/x86_64-linux-gnu/\x00/usr/lib/x86_64-linux-gnu/\x00/lib/\x00/usr/lib/\x00"`)
	im.elf(lib+"libc.so.6", "elf x86_64 soname=libc.so.6", "needed ld-linux-x86-64.so.2")
	im.program("usr/bin/app", "needed libc.so.6")
	im.program("usr/bin/python3.10", "needed libc.so.6")
	im.link("usr/bin/python3", "python3.10")
	im.config.Config.Entrypoint = []string{"/usr/bin/app"}
}

// layer begins a layer.
func (im *image) layer() {
	im.endLayer()
	if im.err != nil {
		return
	}
	var err error
	im.file, err = os.Create(filepath.Join(im.dir, "layer"))
	im.check(err)
	packed, plain := sha256.New(), sha256.New()
	im.hashes[0], im.hashes[1] = packed, plain
	im.buffer = bufio.NewWriter(io.MultiWriter(im.file, packed))
	im.zip, err = gzip.NewWriterLevel(im.buffer, gzip.BestSpeed)
	im.check(err)
	im.tar = tar.NewWriter(io.MultiWriter(im.zip, plain))
}

func (im *image) endLayer() {
	if im.tar == nil || im.err != nil {
		return
	}
	im.check(errors.Join(im.tar.Close(), im.zip.Close(), im.buffer.Flush()))
	st, err := im.file.Stat()
	im.check(err)
	im.check(im.file.Close())
	if im.err != nil {
		return
	}
	var sums [2]v1.Hash
	for i, h := range im.hashes {
		sums[i] = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
	}
	im.check(os.Rename(im.file.Name(), filepath.Join(im.dir, "blobs", "sha256", sums[0].Hex)))
	im.manifest.Layers = append(im.manifest.Layers, v1.Descriptor{MediaType: types.OCILayer, Digest: sums[0], Size: st.Size()})
	im.config.RootFS.DiffIDs = append(im.config.RootFS.DiffIDs, sums[1])
	im.config.History = append(im.config.History, v1.History{CreatedBy: "COPY . /"})
	im.tar = nil
}

// put writes an entry into the current layer.
func (im *image) put(h *tar.Header, data string) {
	if im.tar == nil {
		im.layer()
	}
	if im.err != nil {
		return
	}
	h.Size = int64(len(data))
	im.check(im.tar.WriteHeader(h))
	_, err := io.WriteString(im.tar, data)
	im.check(err)
}

func (im *image) text(name, data string) {
	im.put(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, data)
}

func (im *image) link(name, to string) {
	im.put(&tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}, "")
}

func (im *image) hardlink(name, to string) {
	im.put(&tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to, Mode: 0o644}, "")
}

// elf writes an ELF file from the lines of its text; see [imagetest.ParseELF].
func (im *image) elf(name string, lines ...string) {
	e, err := imagetest.ParseELF(strings.Join(lines, "\n"))
	if err != nil {
		im.check(err)
		return
	}
	im.put(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755}, string(e.Bytes()))
}

// lib writes a library under its SONAME.
func (im *image) lib(dir, soname string, lines ...string) {
	im.elf(dir+"/"+soname, append([]string{"elf x86_64 soname=" + soname}, lines...)...)
}

func (im *image) program(name string, lines ...string) {
	im.elf(name, append([]string{"elf x86_64 interp=/lib64/ld-linux-x86-64.so.2", "flags1 pie"}, lines...)...)
}

// rpm writes rpm's database from lines NAME VERSION-RELEASE.
func (im *image) rpm(packages string) {
	m, err := imagetest.Parse([]byte("-- 0/db --\nrpmdb\n" + packages))
	if err != nil {
		im.check(err)
		return
	}
	var b strings.Builder
	_, err = m.Layers[0].Files[0].WriteTo(&b)
	im.check(err)
	im.text("usr/lib/sysimage/rpm/Packages.db", b.String())
}

// beside writes a file beside the image, such as a policy.
func (im *image) beside(name, data string) {
	p := filepath.Join(im.dir, name)
	im.check(os.MkdirAll(filepath.Dir(p), 0o755))
	im.check(os.WriteFile(p, []byte(data), 0o644))
}

// finish writes the layout.
func (im *image) finish() error {
	im.endLayer()
	im.manifest.Config = im.json(im.config, types.OCIConfigJSON)
	d := im.json(im.manifest, types.OCIManifestSchema1)
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
	im.check(err)
	im.check(os.WriteFile(filepath.Join(im.dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644))
	im.check(os.WriteFile(filepath.Join(im.dir, "index.json"), index, 0o644))
	return im.err
}

// json writes a document as a blob.
func (im *image) json(v any, kind types.MediaType) v1.Descriptor {
	b, err := json.Marshal(v)
	im.check(err)
	sum := sha256.Sum256(b)
	d := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
	im.check(os.WriteFile(filepath.Join(im.dir, "blobs", "sha256", d.Hex), b, 0o644))
	return v1.Descriptor{MediaType: kind, Digest: d, Size: int64(len(b))}
}
