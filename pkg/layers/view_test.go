package layers

import (
	"archive/tar"
	"bytes"
	"errors"
	"syscall"
	"testing"
)

// TestAs looks at files as users who may and may not.
func TestAs(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "open/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "open/all", Mode: 0o644},
		{Name: "open/owner", Mode: 0o600, Uid: 7, Gid: 8},
		{Name: "open/group", Mode: 0o640, Uid: 7, Gid: 8},
		{Name: "open/others", Mode: 0o004, Uid: 7, Gid: 8},
		{Name: "shut/", Typeflag: tar.TypeDir, Mode: 0o700},
		{Name: "shut/file", Mode: 0o644},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "shut/file", Mode: 0o777},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := ReadLayer(&b, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := Merge(l)
	for _, c := range []struct {
		uid, gid int
		path     string
		want     syscall.Errno
	}{
		{0, 0, "/open/owner", 0},
		{0, 0, "/shut/file", 0},
		{1, 1, "/open/all", 0},
		{1, 1, "/open/owner", syscall.EACCES},
		{7, 1, "/open/owner", 0},
		{1, 8, "/open/owner", syscall.EACCES},
		{1, 8, "/open/group", 0},
		{1, 1, "/open/others", 0},
		{7, 1, "/open/others", syscall.EACCES}, // the owner's bits alone count
		{1, 1, "/shut/file", syscall.EACCES},
		{1, 1, "/shut/none", syscall.EACCES},
		{1, 1, "/shut", 0},
		{1, 1, "/shut/..", syscall.EACCES},
		{1, 1, "/link", syscall.EACCES},
		{1, 1, "/none", syscall.ENOENT},
	} {
		_, err := f.As(c.uid, c.gid).Find(c.path)
		if c.want == 0 && err != nil || c.want != 0 && !errors.Is(err, c.want) {
			t.Errorf("%d:%d %s: got %v, want %v", c.uid, c.gid, c.path, err, c.want)
		}
	}
}
