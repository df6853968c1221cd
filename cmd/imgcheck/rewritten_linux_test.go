package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sys/unix"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// capable returns ctranslate2-execstack with a mode, an owner and capabilities for its
// library.
func capable(t *testing.T) string {
	t.Helper()
	data, err := images.Text("ctranslate2-execstack.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const line = "elf x86_64 execstack soname=libctranslate2-bc15bf3f.so.4.5.0"
	text := strings.Replace(string(data), line, line+" mode=0710 uid=7 gid=8 cap", 1)
	if text == string(data) {
		t.Fatal("ctranslate2-execstack has another library")
	}
	return text
}

const rewritten = "usr/local/lib/python3.11/dist-packages/ctranslate2.libs/libctranslate2-bc15bf3f.so.4.5.0"

// attributes formats the header of a file in a layer.
func attributes(t *testing.T, layer io.Reader, file, record string) string {
	t.Helper()
	tr := tar.NewReader(layer)
	for {
		h, err := tr.Next()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if h.Name == file {
			return fmt.Sprintf("%04o %d:%d %q", h.Mode, h.Uid, h.Gid, h.PAXRecords["SCHILY.xattr."+record])
		}
	}
}

// A file of the image that is rewritten keeps its mode, owner and capabilities. Without
// the capabilities its program would lose rights.
func TestRewrittenFileKeepsAttributes(t *testing.T) {
	server := imagetest.Serve(t)
	img := imagetest.V1(t, capable(t))
	ref, err := server.Push("app:1", img)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"imgcheck", "patch", ref, "-t", ref + "-fixed"}, &out, &errs); status != exitOK {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	tag, err := name.ParseReference(ref + "-fixed")
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := remote.Image(tag)
	if err != nil {
		t.Fatal(err)
	}
	before, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	after, err := fixed.Layers()
	if err != nil {
		t.Fatal(err)
	}
	old, err := before[1].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	now, err := after[len(after)-1].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	want, got := attributes(t, old, rewritten, "security.capability"), attributes(t, now, rewritten, "security.capability")
	if got != want || !strings.HasPrefix(want, "0710 7:8 ") || strings.HasSuffix(want, `""`) {
		t.Errorf("the file has %s, had %s", got, want)
	}

	// LLB cannot set capabilities.
	out.Reset()
	if status := run(context.Background(), []string{"imgcheck", "patch", ref, "--emit", "llb"}, &out, &errs); status != exitFailed || out.Len() > 0 || !strings.Contains(errs.String(), "LLB cannot express extended attributes") {
		t.Errorf("exit status %d: %s", status, errs.String())
	}
}

// The same for a root file system, with capabilities of the system.
func TestRewrittenFileOfRoot(t *testing.T) {
	parsed, err := imagetest.Parse([]byte(capable(t)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := parsed.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, rewritten)
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	owner, record := st.Sys().(*syscall.Stat_t), "user.imgcheck" // the owner of a file may set it
	if os.Geteuid() == 0 {
		owner, record = &syscall.Stat_t{Uid: 7, Gid: 8}, "security.capability"
	}
	if err := os.Chown(file, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o710); err != nil {
		t.Fatal(err)
	}
	// vfs_cap_data of version 2: cap_net_bind_service, in effect (capabilities(7))
	value := "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	if err := unix.Setxattr(file, record, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
	layer := filepath.Join(t.TempDir(), "fix.tar")
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"imgcheck", "patch", "dir:" + dir, "-t", "layer:" + layer}, &out, &errs); status != exitOK {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	f, err := os.Open(layer)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := fmt.Sprintf("0710 %d:%d %q", owner.Uid, owner.Gid, value)
	if got := attributes(t, f, rewritten, record); got != want {
		t.Errorf("the file has %s, want %s", got, want)
	}
}

// A file that replaces another has the other's owner and mode. A file with capabilities
// is not replaced, since it would lose them: the plan finds another way.
func TestReplacedFileKeepsOwner(t *testing.T) {
	server := imagetest.Serve(t)
	data, err := images.Text("path-shadows.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const line = "-- 0/etc/ld.so.cache --\nsize 0"
	for attributed, want := range map[string]string{" mode=0664 uid=7 gid=8": `0664 7:8 ""`, " mode=0600": `0644 0:0 ""`, " cap": ""} {
		text := strings.Replace(string(data), line, line+attributed, 1)
		if text == string(data) {
			t.Fatal("path-shadows has another cache")
		}
		ref, err := server.Push("cache:1", imagetest.V1(t, text))
		if err != nil {
			t.Fatal(err)
		}
		layer := filepath.Join(t.TempDir(), "fix.tar")
		var out, errs bytes.Buffer
		status := run(context.Background(), []string{"imgcheck", "patch", ref, "-t", "layer:" + layer}, &out, &errs)
		if want == "" {
			if reason := "/etc/ld.so.cache: the file has capabilities, which its replacement would lose"; status != exitOK || !strings.Contains(errs.String(), reason) {
				t.Errorf("%s: exit status %d: %s", attributed, status, errs.String())
			}
			continue
		}
		if status != exitOK {
			t.Fatalf("%s: exit status %d: %s", attributed, status, errs.String())
		}
		f, err := os.Open(layer)
		if err != nil {
			t.Fatal(err)
		}
		if got := attributes(t, f, "etc/ld.so.cache", "security.capability"); got != want {
			t.Errorf("%s: the file has %s, want %s", attributed, got, want)
		}
		f.Close()
	}
}
