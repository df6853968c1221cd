package inventory

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// rpmDatabase returns a database that rpm made (testdata/rpm/make.sh).
func rpmDatabase(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open("testdata/rpm/" + name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRPM: a database of each kind, and its reduced form, has the packages that `rpm -qa`
// prints, without the signing key that it also lists, and without a package that was
// erased.
func TestRPM(t *testing.T) {
	for made, name := range map[string]string{
		"Packages": "var/lib/rpm/Packages", "Packages.big-endian": "var/lib/rpm/Packages",
		"Packages.db": "usr/lib/sysimage/rpm/Packages.db", "rpmdb.sqlite": "usr/share/rpm/rpmdb.sqlite",
	} {
		b := rpmDatabase(t, made)
		kept, err := new(Extractor).Extract(name, int64(len(b)))(bytes.NewReader(b))
		if err != nil || len(kept) > 400 {
			t.Errorf("%s: %d bytes are kept, %v", name, len(kept), err)
		}
		for _, content := range [][]byte{b, kept} {
			inv := read(t, fstest.MapFS{name: {Data: content}})
			var want []*Package
			for _, p := range [][2]string{{"cuda-cudart-12-4", "12.4.127-1"}, {"glibc", "2.34-125.el9"}, {"libcudnn9-cuda-12", "9.1.0.70-1"}, {"openssl-libs", "1:3.2.2-6.el9"}} {
				want = append(want, &Package{Kind: RPM, Name: p[0], Version: p[1], Path: "/" + name})
			}
			if d := cmp.Diff(&Inventory{Packages: want}, inv, same); d != "" {
				t.Error(d)
			}
		}
	}
}

// TestRPMTooLarge: a database that exceeds the limit is Unread, and one that is shorter
// than its size is a damaged image.
func TestRPMTooLarge(t *testing.T) {
	const name = "var/lib/rpm/Packages"
	if Wants(name, maxRPM+1) || new(Extractor).Extract(name, maxRPM+1) != nil || new(Extractor).Extract("srv/var/lib/rpm/Packages", 1) != nil || new(Extractor).Extract("var/lib/dpkg/status", 1) != nil {
		t.Error("it is wanted")
	}
	if b, err := new(Extractor).Extract(name, 10)(strings.NewReader("x")); err == nil {
		t.Errorf("%q", b)
	}
}

// TestRPMHostile: pages of a database that lead to the same bytes are not read more often
// than the database is large.
func TestRPMHostile(t *testing.T) {
	slots := rpmDatabase(t, "Packages.db")
	first := bytes.Index(slots, []byte("Slot\x02"))
	for at := 32; at < 4096; at += 16 {
		copy(slots[at:], slots[first:first+16])
	}
	tree := make([]byte, 3*4096) // each page is a hundred times the parent of the next
	copy(tree, "SQLite format 3\x00\x10\x00")
	for n, head := range []int{100, 4096} {
		copy(tree[head:], []byte{pageInner, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, byte(n + 2)})
		for i := range 100 {
			copy(tree[head+12+2*i:], []byte{500 >> 8, 500 & 255})
		}
		tree[n*4096+503] = byte(n + 2)
	}
	tree[2*4096] = pageLeaf
	for want, b := range map[string][]byte{
		"not all of the rpm packages are known: its packages take more bytes than it has": slots,
		"not all of the rpm packages are known: page 3 is used twice, or too deep":        tree,
		"not all of the rpm packages are known: its pages have 0 bytes":                   append([]byte("SQLite format 3\x00"), make([]byte, 600)...),
	} {
		if list := rpmPackages(b); list.Why != want || len(list.Packages) > 250 {
			t.Errorf("got %d packages, %q, want %q", len(list.Packages), list.Why, want)
		}
	}
}

// FuzzRPM states of databases that rpm made, with bytes changed in three places, that the
// reduced form gives the same packages as the database, and no more bytes than it has;
// and that a truncated database gives the first packages of the whole, and says that some
// are missing.
func FuzzRPM(f *testing.F) {
	var made [][]byte
	for i, name := range []string{"Packages", "Packages.db", "rpmdb.sqlite", "Packages.big-endian"} {
		b := rpmDatabase(f, name)
		made = append(made, b)
		f.Add(byte(i), uint32(0), uint32(0), uint32(0), []byte(nil), uint32(len(b)/2))
		f.Add(byte(i), uint32(16), uint32(4096), uint32(4100), []byte("\x00\x01"), uint32(len(b)-1))
		f.Add(byte(i), uint32(8192), uint32(32), uint32(36), []byte("\xff\x00\x0d"), uint32(512))
	}
	f.Fuzz(func(t *testing.T, kind byte, at1, at2, at3 uint32, change []byte, cut uint32) {
		b := bytes.Clone(made[int(kind)%len(made)])
		for i, at := range []uint32{at1, at2, at3} {
			third := len(change) / 3
			copy(b[int(at)%len(b):], change[i*third:(i+1)*third])
		}
		const name = "var/lib/rpm/Packages"
		whole := rpmPackages(b)
		told := 0
		for _, p := range whole.Packages {
			told += len(p.Name)
			if p.Name == "" || !strings.Contains(p.Version, "-") {
				t.Errorf("the package %+v", p)
			}
		}
		if told > 3*len(b) { // a byte that is not UTF-8 becomes three
			t.Errorf("%d bytes give %d bytes of names", len(b), told)
		}
		kept, err := new(Extractor).Extract(name, int64(len(b)))(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b, []byte(rpmExtract)) {
			direct, list := new(Inventory), new(Inventory)
			err, err2 := readRPM(direct, name, b), readRPM(list, name, kept)
			if d := cmp.Diff(direct, list, same); d != "" || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
				t.Errorf("%v, %v: %s", err, err2, d)
			}
		}
		part := rpmPackages(b[:min(int(cut), len(b))])
		n := len(part.Packages)
		if n > len(whole.Packages) || !slices.Equal(part.Packages, whole.Packages[:n]) || n < len(whole.Packages) && part.Why == "" {
			t.Errorf("of %s it has, cut at %d, %s", text(whole), cut, text(part))
		}
	})
}

func text(list rpmList) string {
	b, _ := json.Marshal(list)
	return string(b)
}
