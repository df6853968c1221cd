//go:build linux

// Package mkimage makes the images of test/real from directories, without a
// container engine.
//
//	mkimage OUT COMPRESSION NAME=VALUE... -- CREATED_BY=DIR...
//
// It writes an OCI layout whose layers are the upper directories of overlay
// mounts: a character device 0/0 becomes a whiteout, an opaque directory gets
// its marker. COMPRESSION is gzip or zstd.
package mkimage

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Main runs the program.
func Main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 2 {
		return makeImage(args[0], args[1], args[2:])
	}
	return fmt.Errorf("usage: mkimage OUT gzip|zstd NAME=VALUE… -- CREATED_BY=DIR…")
}

func makeImage(out, compression string, args []string) error {
	i := slices.Index(args, "--")
	if i < 0 {
		return fmt.Errorf("no -- before the layers")
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	cfg, err := img.ConfigFile()
	if err != nil {
		return err
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture, cfg.Config.Env, cfg.Config.Cmd = "linux", "amd64", args[:i], []string{"/bin/sh"}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return err
	}
	for _, l := range args[i+1:] {
		by, dir, ok := strings.Cut(l, "=")
		if !ok {
			return fmt.Errorf("%q is not CREATED_BY=DIR", l)
		}
		layer, err := writeLayer(dir, out+".layers", compression)
		if err != nil {
			return fmt.Errorf("layer %s: %w", dir, err)
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: by}, MediaType: layer.mediaType}); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	p, err := layout.Write(out, empty.Index)
	if err != nil {
		return err
	}
	if err := p.AppendImage(img); err != nil {
		return err
	}
	return os.RemoveAll(out + ".layers")
}

// fileLayer is a layer stored in a file.
type fileLayer struct {
	file           string
	digest, diffID v1.Hash
	size           int64
	mediaType      types.MediaType
}

func (l *fileLayer) Digest() (v1.Hash, error)             { return l.digest, nil }
func (l *fileLayer) DiffID() (v1.Hash, error)             { return l.diffID, nil }
func (l *fileLayer) Size() (int64, error)                 { return l.size, nil }
func (l *fileLayer) MediaType() (types.MediaType, error)  { return l.mediaType, nil }
func (l *fileLayer) Compressed() (io.ReadCloser, error)   { return os.Open(l.file) }
func (l *fileLayer) Uncompressed() (io.ReadCloser, error) { return nil, fmt.Errorf("not needed") }

func writeLayer(dir, into, compression string) (*fileLayer, error) {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(into, "layer-*")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := &fileLayer{file: f.Name(), mediaType: types.OCILayer}
	blob, plain := sha256.New(), sha256.New()
	var z io.WriteCloser
	if compression == "zstd" {
		l.mediaType = types.OCILayerZStd
		z, err = zstd.NewWriter(io.MultiWriter(f, blob), zstd.WithEncoderLevel(zstd.SpeedFastest))
	} else {
		z, err = gzip.NewWriterLevel(io.MultiWriter(f, blob), gzip.BestSpeed)
	}
	if err != nil {
		return nil, err
	}
	tw := tar.NewWriter(io.MultiWriter(z, plain))
	if err := addTree(tw, dir); err != nil {
		return nil, err
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if l.size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return nil, err
	}
	l.digest = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(blob.Sum(nil))}
	l.diffID = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(plain.Sum(nil))}
	return l, nil
}

// addTree writes the upper directory of an overlay as a layer.
func addTree(tw *tar.Writer, root string) error {
	links := map[uint64]string{}
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		switch {
		case info.Mode()&fs.ModeSocket != 0:
			return nil
		case info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0:
			return tw.WriteHeader(&tar.Header{Name: filepath.Join(filepath.Dir(name), ".wh."+filepath.Base(name)), Typeflag: tar.TypeReg, Mode: 0o600})
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(p); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name = name
		if info.IsDir() {
			h.Name += "/"
		}
		if info.Mode().IsRegular() && st.Nlink > 1 {
			if first, ok := links[st.Ino]; ok {
				h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
				return tw.WriteHeader(h)
			}
			links[st.Ino] = name
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if info.IsDir() && opaque(p) {
			return tw.WriteHeader(&tar.Header{Name: filepath.Join(name, ".wh..wh..opq"), Typeflag: tar.TypeReg, Mode: 0o600})
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(tw, f)
		return err
	})
}

func opaque(dir string) bool {
	b := make([]byte, 8)
	n, err := syscall.Getxattr(dir, "trusted.overlay.opaque", b)
	return err == nil && string(b[:n]) == "y"
}
