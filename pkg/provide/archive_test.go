package provide

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func archiveFile(t *testing.T, name string, b []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestArchiveInEveryForm(t *testing.T) {
	want := []string{
		"libcudnn.so.9.1.0 libcudnn.so libcudnn.so.9", "libcudnn_graph.so.9.1.0", "libcudnn_ops.so.9.1.0 libcudnn_ops.so libcudnn_ops.so.9",
	}
	for _, how := range []string{"", ".gz", ".zst", ".xz"} {
		p := archiveFile(t, "cudnn-linux-x86_64-9.1.0.70_cuda12-archive.tar"+how, packed(t, how, cudnnArchive(t, "x86_64", "9.1.0.70")))
		f, err := open(t, "archive:"+p).Find(t.Context(), Want{Names: []string{"libcudnn.so.9"}, Versions: []string{"==9.1.0.70"}})
		if err != nil {
			t.Errorf("%q: %v", how, err)
			continue
		}
		if diff := cmp.Diff(want, shape(f)); diff != "" || f.Version != "9.1.0.70" || f.License.Text != "licence of 9.1.0.70" {
			t.Errorf("%q: %s %q\n%s", how, f.Version, f.License.Text, diff)
		}
		_, err = open(t, "archive:"+p).Find(t.Context(), Want{Library: "cudnn", Pin: "9.1.1.17"})
		if err == nil || !strings.Contains(err.Error(), "is release 9.1.0.70, which does not fit") {
			t.Errorf("got %v", err)
		}
	}
	// A wheel by hand, and an archive whose name tells no release.
	p := archiveFile(t, "nvidia_cudnn_cu12-9.1.0.70-py3-none-manylinux1_x86_64.whl", cudnnWheel(t, "x86_64", "9.1.0.70"))
	if f, err := open(t, "archive:"+p).Find(t.Context(), Want{Library: "cudnn", Pin: "9.1.0.70"}); err != nil || f.Version != "9.1.0.70" {
		t.Errorf("got %v, %v", f, err)
	}
	p = archiveFile(t, "libs.zip", cudnnWheel(t, "x86_64", "9.1.0.70"))
	f, err := open(t, "archive:"+p).Find(t.Context(), Want{Library: "cudnn", Versions: []string{"==9.1.0.70"}})
	if err != nil || f.Version != "" || !strings.Contains(f.Doubt, "==9.1.0.70 could not be checked") {
		t.Errorf("got %+v, %v", f, err)
	}
	if _, err = open(t, "archive:"+p).Find(t.Context(), Want{Library: "cudnn", Pin: "9.1.0.70"}); err == nil {
		t.Error("a pinned release was taken on trust")
	}
	// A link in a zip.
	p = archiveFile(t, "links.zip", zipped(t,
		part{name: "lib/libx.so.1.2.3", data: string(lib(t, "x86_64 soname=libx.so.1"))},
		part{name: "lib/libx.so", link: "libx.so.1.2.3"},
		part{name: "lib/libx.so.0", link: "/etc/passwd"},
	))
	f, err = open(t, "archive:"+p).Find(t.Context(), Want{Names: []string{"libx.so.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"libx.so.1.2.3 libx.so libx.so.1"}, shape(f)); diff != "" {
		t.Error(diff)
	}
}

// bomb returns many zero bytes, small when compressed.
func bomb(t *testing.T, how string) []byte {
	return packed(t, how, tarred(t, part{name: "lib/libcudnn.so.9", data: string(make([]byte, 1<<20+1))}))
}

func TestHostileArchives(t *testing.T) {
	defer func(a int, b, c int64) { maxMembers, maxUnpacked, maxMember = a, b, c }(maxMembers, maxUnpacked, maxMember)
	maxMembers, maxUnpacked, maxMember = 50, 1<<20, 1<<19
	elf := string(lib(t, "x86_64 soname=libcudnn.so.9"))
	wheel := cudnnWheel(t, "x86_64", "9.1.0.70")
	var many []part
	for i := range 51 {
		many = append(many, part{name: fmt.Sprint("x", i)})
	}
	tests := map[string]struct {
		archive []byte
		err     string
	}{
		"bomb.zip":       {zipped(t, part{name: "lib/libcudnn.so.9", data: string(make([]byte, 1<<20+1))}), "unpacks to more than 1048576 bytes"},
		"bomb.tar.gz":    {bomb(t, ".gz"), "unpacks to more than 1048576 bytes"},
		"bomb.tar.xz":    {bomb(t, ".xz"), "unpacks to more than 1048576 bytes"},
		"bomb.tar.zst":   {bomb(t, ".zst"), "unpacks to more than 1048576 bytes"},
		"large":          {zipped(t, part{name: "libcudnn.so.9", data: string(make([]byte, 1<<19+1))}), `"libcudnn.so.9" in it is longer than 524288 bytes`},
		"many.zip":       {zipped(t, many...), "has more than 50 files"},
		"many.tar":       {tarred(t, many...), "has more than 50 files"},
		"twice":          {zipped(t, part{name: "libcudnn.so.9", data: elf}, part{name: "./libcudnn.so.9", data: elf}), `has "libcudnn.so.9" twice`},
		"cut off.zip":    {wheel[:len(wheel)-30], "reading zip"},
		"cut off.tar":    {tarred(t, part{name: "libcudnn.so.9", data: elf})[:700], "unexpected EOF"},
		"lies of size":   {lyingZip(t, elf), "in it: "},
		"wrong checksum": {wrongChecksum(t, elf), "checksum error"},
		"no archive":     {[]byte("hello, world"), "is neither a zip nor a tar"},
		"empty":          {nil, "has no such library"},
		"far link":       {tarred(t, part{name: "libcudnn.so.9", link: "hard:../../etc/passwd"}), "is a hard link to"},
		"wide xz":        {wideXZ(t), "wants a dictionary of more than 512 MiB"},
		"wide xz later":  {slices.Concat(packed(t, ".xz", cudnnArchive(t, "x86_64", "9.1.0.70")[:700]), wideXZ(t)), "wants a dictionary of more than 512 MiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := open(t, "archive:"+archiveFile(t, "x", tt.archive))
			f, err := s.Find(t.Context(), Want{Library: "cudnn"})
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, %v, want %s", f, err, tt.err)
			}
			if left, _ := filepath.Glob(filepath.Join(s.env.cache, "partial", "*")); len(left) > 0 {
				t.Errorf("there is left %v", left)
			}
		})
	}
}

// A path that leads out of the archive is a path in it.
func TestArchivePathsStayInside(t *testing.T) {
	elf := string(lib(t, "x86_64 soname=libcudnn.so.9"))
	for _, b := range [][]byte{zipped(t, part{name: "../../../libcudnn.so.9", data: elf}), tarred(t, part{name: "/../../libcudnn.so.9", data: elf})} {
		f, err := open(t, "archive:"+archiveFile(t, "x", b)).Find(t.Context(), Want{Library: "cudnn"})
		if err != nil || f.Files[0].Name != "libcudnn.so.9" {
			t.Errorf("got %v, %v", f, err)
		}
	}
}

// lyingZip says that its file is shorter than it is.
func lyingZip(t *testing.T, data string) []byte {
	b := zipped(t, part{name: "libcudnn.so.9", data: data})
	at := bytes.Index(b, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(b[at+24:], uint32(len(data)-100))
	return b
}

func wrongChecksum(t *testing.T, data string) []byte {
	b := zipped(t, part{name: "libcudnn.so.9", data: data})
	at := bytes.Index(b, []byte("PK\x01\x02"))
	b[at+16] ^= 1
	return b
}

// wideXZ asks for a dictionary of 4 GiB in the header of its only block.
func wideXZ(t *testing.T) []byte {
	t.Helper()
	full := packed(t, ".xz", []byte("x"))
	header := full[12 : 12+(int(full[12])+1)*4-4]
	at := bytes.Index(header, []byte{0x21, 1})
	header[at+2] = 40
	binary.LittleEndian.PutUint32(full[12+len(header):], crc32.ChecksumIEEE(header))
	return full
}
