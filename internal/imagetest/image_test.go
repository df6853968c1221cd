package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/klauspost/compress/zstd"
)

const example = `# a small machine, and a layer that changes it
platform linux/arm64/v8
env LD_LIBRARY_PATH=/opt/lib
env EMPTY=
user 1000:1000
workdir /srv
entrypoint ["/usr/bin/python3", "-c"]
cmd ["print(1)"]
label org.example.title=a = b
layer 1 RUN pip install torch # buildkit
empty ENV A=b
scan --format json --gpu H200
-- 0/usr/bin/python3 --
elf x86_64 interp=/lib64/ld-linux-x86-64.so.2
needed libc.so.6
-- 0/usr/lib/libx.so --
elf x86_64 mode=0755 soname=libx.so uid=12
-- 0/lib --
symlink usr/lib
-- 0/etc/hostname --
verbatim
content
-- 0/etc/hosts --
text mode=0600 uid=1 gid=2 cap
dir is the first word of the content
-- 0/usr/bin/python --
hardlink /usr/bin/python3
-- 0/srv/old --
dir mode=1777
-- 0/srv/old/a --
text
-- 0/srv/gone --
text
gone
-- 0/srv/twice --
first
-- 0/srv/twice --
second
-- 0/dev/null --
char 1,3 mode=0666
-- 0/run/pipe --
fifo
-- 0/srv/hex --
hex 00 01
fe ff
-- 0/srv/big --
size 1MiB
-- 0/srv/hole --
sparse 3MiB mode=0640
-- 1/lib/liby.so --
copy 0/usr/lib/libx.so
-- 1/srv/old/b --
new
-- 1/srv/old/.wh..wh..opq --
-- 1/srv/.wh.gone --
-- 1/etc/hosts --
dir
-- 3/srv/hex --
symlink /absolute
-- want --
error  something
`

func parseImage(t *testing.T, text string) *Image {
	t.Helper()
	im, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func TestParse(t *testing.T) {
	im := parseImage(t, example)
	equal(t, "platform", "linux/arm64/v8", im.Platform.String())
	equal(t, "config", v1.Config{
		Env: []string{"LD_LIBRARY_PATH=/opt/lib", "EMPTY="}, User: "1000:1000", WorkingDir: "/srv",
		Entrypoint: []string{"/usr/bin/python3", "-c"}, Cmd: []string{"print(1)"}, Labels: map[string]string{"org.example.title": "a = b"},
	}, im.Config)
	equal(t, "scan", []string{"--format", "json", "--gpu", "H200"}, im.ScanArgs)
	equal(t, "sections", map[string]string{"want": "error  something\n"}, im.Sections)
	equal(t, "layers", 4, len(im.Layers))
}

func TestLayerTar(t *testing.T) {
	im := parseImage(t, example)
	var b bytes.Buffer
	if err := im.LayerTar(0, &b); err != nil {
		t.Fatal(err)
	}
	headers, content := readTar(t, &b)
	equal(t, "verbatim", "verbatim\ncontent\n", content["etc/hostname"])
	equal(t, "text", "dir is the first word of the content\n", content["etc/hosts"])
	equal(t, "last of two", "second\n", content["srv/twice"])
	equal(t, "hex", "\x00\x01\xfe\xff", content["srv/hex"])
	equal(t, "big", 1<<20, len(content["srv/big"]))
	equal(t, "hole", 3<<20, len(content["srv/hole"]))
	equal(t, "number of entries", 16, len(headers))
	for i, want := range map[int]tar.Header{
		0:  {Typeflag: tar.TypeReg, Name: "usr/bin/python3", Mode: 0o755},
		1:  {Typeflag: tar.TypeReg, Name: "usr/lib/libx.so", Mode: 0o755, Uid: 12},
		2:  {Typeflag: tar.TypeSymlink, Name: "lib", Linkname: "usr/lib", Mode: 0o777},
		3:  {Typeflag: tar.TypeReg, Name: "etc/hostname", Mode: 0o644},
		4:  {Typeflag: tar.TypeReg, Name: "etc/hosts", Mode: 0o600, Uid: 1, Gid: 2, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": capability}},
		5:  {Typeflag: tar.TypeLink, Name: "usr/bin/python", Linkname: "usr/bin/python3", Mode: 0o644},
		6:  {Typeflag: tar.TypeDir, Name: "srv/old/", Mode: 0o1777},
		11: {Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3},
		12: {Typeflag: tar.TypeFifo, Name: "run/pipe", Mode: 0o644},
	} {
		got := headers[i]
		equal(t, want.Name, want, tar.Header{
			Typeflag: got.Typeflag, Name: got.Name, Linkname: got.Linkname, Mode: got.Mode, Uid: got.Uid, Gid: got.Gid,
			PAXRecords: got.PAXRecords, Devmajor: got.Devmajor, Devminor: got.Devminor,
		})
		equal(t, want.Name+": time", int64(0), got.ModTime.Unix())
	}
}

func readTar(t *testing.T, r io.Reader) ([]*tar.Header, map[string]string) {
	t.Helper()
	var headers []*tar.Header
	content := map[string]string{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return headers, content
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, h)
		content[h.Name] = string(data)
	}
}

func TestV1(t *testing.T) {
	for _, compression := range []string{"gzip", "zstd", "none"} {
		t.Run(compression, func(t *testing.T) {
			text := "compress " + compression + "\n" + example
			img := build(t, text)
			layers, err := img.Layers()
			equalOK(t, "number of layers", 4, len(layers), err)
			mediaType, err := layers[0].MediaType()
			equalOK(t, "media type", mediaTypes[compression], mediaType, err)
			for _, l := range layers {
				checkLayer(t, l)
			}
			config, err := img.ConfigFile()
			equalOK(t, "history", []string{"COPY layer 0 /", "RUN pip install torch # buildkit", "COPY layer 2 /", "COPY layer 3 /", "ENV A=b"}, createdBy(config), err)
			equal(t, "variant", "v8", config.Variant)
			equal(t, "user", "1000:1000", config.Config.User)
			first, err := img.Digest()
			if err != nil {
				t.Fatal(err)
			}
			second, err := build(t, text).Digest()
			equalOK(t, "digest of the same text", first, second, err)
		})
	}
}

// TestValidate runs go-containerregistry's validation, which reads gzip only and refuses a path that occurs twice in a layer.
func TestValidate(t *testing.T) {
	text := strings.Replace(example, "-- 0/srv/twice --", "-- 0/srv/once --", 1)
	if err := validate.Image(build(t, text)); err != nil {
		t.Error(err)
	}
}

// checkLayer reads both forms of a layer and compares them with its digests and size.
func checkLayer(t *testing.T, l v1.Layer) {
	t.Helper()
	digest, _ := l.Digest()
	diffID, _ := l.DiffID()
	size, _ := l.Size()
	blob := read(t, l.Compressed)
	got, n, err := v1.SHA256(bytes.NewReader(blob))
	equalOK(t, "digest", digest, got, err)
	equal(t, "size", size, n)
	got, _, err = v1.SHA256(bytes.NewReader(read(t, l.Uncompressed)))
	equalOK(t, "diff ID", diffID, got, err)
	got, _, err = v1.SHA256(unpacked(t, blob))
	equalOK(t, "diff ID of what the blob holds", diffID, got, err)
}

func read(t *testing.T, open func() (io.ReadCloser, error)) []byte {
	t.Helper()
	r, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// unpacked decompresses a blob by the format that its first bytes show.
func unpacked(t *testing.T, blob []byte) io.Reader {
	t.Helper()
	var r io.Reader = bytes.NewReader(blob)
	var err error
	switch {
	case bytes.HasPrefix(blob, []byte("\x1f\x8b")):
		r, err = gzip.NewReader(r)
	case bytes.HasPrefix(blob, []byte("\x28\xb5\x2f\xfd")):
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func build(t *testing.T, text string) v1.Image {
	t.Helper()
	img, err := parseImage(t, text).V1()
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func createdBy(c *v1.ConfigFile) []string {
	var out []string
	for _, h := range c.History {
		out = append(out, h.CreatedBy)
	}
	return out
}

func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	if err := parseImage(t, example).Unpack(dir); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		rel, _ := filepath.Rel(dir, path)
		got[rel] = info.Mode().String()
		if d.Type() == fs.ModeSymlink {
			got[rel], err = os.Readlink(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(got, ".")
	equal(t, "tree", map[string]string{
		"dev": "drwxr-xr-x", "etc": "drwxr-xr-x", "run": "drwxr-xr-x", "srv": "drwxr-xr-x", "usr": "drwxr-xr-x",
		"etc/hostname": "-rw-r--r--", "etc/hosts": "drwxr-xr-x", "lib": "usr/lib",
		"usr/bin": "drwxr-xr-x", "usr/bin/python": "-rwxr-xr-x", "usr/bin/python3": "-rwxr-xr-x",
		"usr/lib": "drwxr-xr-x", "usr/lib/libx.so": "-rwxr-xr-x", "usr/lib/liby.so": "-rw-r--r--",
		"srv/big": "-rw-r--r--", "srv/hex": "/absolute", "srv/hole": "-rw-r-----",
		"srv/old": "dtrwxrwxrwx", "srv/old/b": "-rw-r--r--", "srv/twice": "-rw-r--r--",
	}, got)
	twice, err := os.ReadFile(filepath.Join(dir, "srv/twice"))
	equalOK(t, "last of two", "second\n", string(twice), err)
}

// TestUnpackRuns starts a program in an unpacked image: a real loader accepts the files of the text.
func TestUnpackRuns(t *testing.T) {
	needLoader(t, glibc, "libc6")
	dir := t.TempDir()
	text := "-- 0/bin/exe --\n" + exeText + "-- 0/lib/liba.so.1.0 --\n" + liba + "-- 1/lib/liba.so.1 --\nsymlink liba.so.1.0\n-- 1/lib/libb.so --\n" + libb
	if err := parseImage(t, text).Unpack(dir); err != nil {
		t.Fatal(err)
	}
	out, code := run(t, dir, nil, dir+"/bin/exe")
	if out != "" || code != 0 {
		t.Errorf("exit status %d and output %q", code, out)
	}
}

func TestUnpackStaysInside(t *testing.T) {
	for _, text := range []string{
		"-- 0/../evil --\nx\n",
		"-- 0/out --\nsymlink /tmp\n-- 0/out/evil --\nx\n",
		"-- 0/out --\nsymlink ../..\n-- 1/out/evil --\ndir\n",
		"-- 0/out --\nsymlink ..\n-- 1/out/.wh.evil --\n",
		"-- 0/out --\nsymlink ..\n-- 1/out/.wh..wh..opq --\n",
		"-- 0/in --\nhardlink ../evil\n",
		"-- 0/.wh... --\n",
	} {
		dir := filepath.Join(t.TempDir(), "root")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := parseImage(t, text).Unpack(dir); err == nil {
			t.Errorf("unpacked without an error:\n%s", text)
		}
		if _, err := os.Lstat(filepath.Join(dir, "../evil")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("wrote outside of the directory:\n%s", text)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"env A=b\nfoo bar\n", `parsing image text: line 2: unknown directive "foo"; prose begins with #`},
		{"cmd ls\n", `parsing image text: line 1: cmd: ls is not a JSON list of strings: invalid character 'l' looking for beginning of value`},
		{"compress lzma\n", `parsing image text: line 1: compress: "lzma": want gzip, zstd or none`},
		{"-- 0/a --\nelf x86_64\nnedeed b\n", `parsing image text: 0/a: parsing ELF text: line 2: unknown directive "nedeed"`},
		{"-- 0/a --\nsize matters\n", `parsing image text: 0/a: size: "matters" is not a size like 4096, 64KiB, 17MiB or 1GiB, of at most 1024GiB (begin the body with a line "text" if it is the content itself)`},
		{"-- 0/a --\ncopy 0/b\n", `parsing image text: 0/a: copy: no earlier file "0/b" (begin the body with a line "text" if it is the content itself)`},
		{"-- 99999/a --\n", `parsing image text: 99999/a: layer 99999 is above the limit of 128 layers`},
		{"-- want --\n-- want --\n", `parsing image text: want: the section stands there twice`},
	} {
		if _, err := Parse([]byte(tt.text)); err == nil || err.Error() != tt.want {
			t.Errorf("Parse(%q)\n got %v\nwant %v", tt.text, err, tt.want)
		}
	}
}

func TestRegistry(t *testing.T) {
	s, err := Registry()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, compression := range []string{"gzip", "zstd", "none"} {
		img := build(t, "compress "+compression+"\n"+example)
		pushed, err := s.Push("team/example:"+compression, img)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "reference", s.Host+"/team/example:"+compression, pushed)
		ref, err := name.ParseReference(pushed)
		if err != nil {
			t.Fatal(err)
		}
		back, err := remote.Image(ref)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := img.Digest()
		got, err := back.Digest()
		equalOK(t, "digest", want, got, err)
	}
	path := "PUT /v2/team/example/manifests/zstd"
	if got := s.Requests()[path]; got != 1 {
		t.Errorf("%s was counted %d times, want 1", path, got)
	}
}

// FuzzParse checks that Parse and writing its result never panic.
func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Add("-- 0/a --\nelf i386\n-- 0/a --\nsparse 9\n-- 0/b --\ncopy 0/a\n-- 2/.wh.. --\n")
	f.Add("prose\n-- --") // the txtar of rogpeppe/go-internal 1.16.0 panics on such a line
	f.Add(strings.Repeat("layer 1 x\nempty y\n", 3))
	f.Fuzz(func(t *testing.T, text string) {
		im, err := Parse([]byte(text))
		if err != nil {
			if im != nil {
				t.Fatal("an image beside an error")
			}
			return
		}
		for n, l := range im.Layers {
			total := int64(0)
			for _, file := range l.Files {
				total += file.Size
			}
			if total < 1<<22 {
				im.LayerTar(n, io.Discard) // returns an error for a name that no tar can hold
			}
		}
	})
}
