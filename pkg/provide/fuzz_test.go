package provide

import (
	"bytes"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/internal/version"
)

// FuzzSimple: an index page gives files with names, web addresses and hashes
// that are well-formed, and a page that is written of them gives them again, in
// either form.
func FuzzSimple(f *testing.F) {
	rows := []file{
		{name: "a-1-py3-none-any.whl", url: "../a.whl", sum: strings.Repeat("0f", 32), size: 3},
		{name: "b-1.tar.gz", url: "https://other/b?x=1", yanked: "bad"},
	}
	f.Add(htmlPage(rows), false)
	f.Add([]byte(`{"meta":{"api-version":"1.0"},"files":[{"filename":"a.whl","url":"/a.whl","hashes":{"sha256":"`+strings.Repeat("0F", 32)+`"},"yanked":true,"size":-1}]}`), true)
	f.Add([]byte(`<base href="//x/"><a href=y#sha256=00&x>y</a><a href="javascript:z">z</a><a href=1>n<a href=2>m`), false)
	f.Add([]byte(`{"meta":{"api-version":"2.0"}}`), true)
	from, err := url.Parse("https://host/simple/x/")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, asJSON bool) {
		kinds := map[bool]string{true: "application/vnd.pypi.simple.v1+json", false: "text/html"}
		list, err := parseSimple(answer{body, kinds[asJSON], from})
		if err != nil {
			if list != nil {
				t.Error("there are files beside an error")
			}
			return
		}
		var rows []file
		for _, l := range list {
			if !goodName(l.name) || !webURL(l.url) || !l.url.IsAbs() || l.url.Fragment != "" || l.sum != "" && !isSum(l.sum) || l.size < 0 {
				t.Errorf("%+v is not well-formed", l)
			}
			row := file{name: l.name, url: l.url.String(), sum: l.sum, size: int(l.size)}
			if l.yanked {
				row.yanked = "why"
			}
			rows = append(rows, row)
		}
		again, err := parseSimple(answer{jsonPage(t, rows), kinds[true], from})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(flat(list), flat(again), cmp.AllowUnexported(file{})); diff != "" {
			t.Error(diff)
		}
	})
}

// flat returns a list of links as rows to compare.
func flat(list []*link) []file {
	var rows []file
	for _, l := range list {
		rows = append(rows, file{name: l.name, url: l.url.String(), sum: l.sum, size: int(l.size), yanked: l.yanked})
	}
	return rows
}

// FuzzRedist: what is read of a redistrib_*.json stays below its directory and
// has a hash; nothing comes beside an error.
func FuzzRedist(f *testing.F) {
	f.Add([]byte(`{"release_label":"9","cudnn":{"version":"9.1.0.70","linux-x86_64":{"cuda12":{"relative_path":"a/b.tar.xz","sha256":"` + strings.Repeat("a", 64) + `","size":"12"}}},"libx":{"version":"1","linux-sbsa":{"relative_path":"c","sha256":"` + strings.Repeat("B", 64) + `","size":3}}}`))
	f.Add([]byte(`{"a":{"version":"1","p":{"relative_path":"..","sha256":""}}}`))
	root, err := url.Parse("https://host/redist/redistrib_1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseRedist(b)
		if err != nil {
			if all != nil {
				t.Error("there are components beside an error")
			}
			return
		}
		for _, c := range all {
			for _, variants := range c.platforms {
				for _, a := range variants {
					u := root.JoinPath("..", a.path)
					if a.sum != "" && !isSum(a.sum) || a.size < 0 || u.Host != "host" || u.Path != path.Join("/redist", a.path) || u.RawQuery != "" {
						t.Errorf("%+v at %s", a, u)
					}
				}
			}
		}
	})
}

// FuzzWheelName: a name that reads as a wheel's is one in all its parts.
func FuzzWheelName(f *testing.F) {
	f.Add("nvidia_cudnn_cu12-9.1.0.70-1abc-py2.py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl")
	f.Fuzz(func(t *testing.T, name string) {
		w, err := parseWheel(name)
		if err != nil {
			return
		}
		if w.name != normalize(w.name) || len(w.python) == 0 || len(w.abi) == 0 || len(w.platforms) == 0 {
			t.Errorf("%q: %+v", name, w)
		}
		if least, ok := w.glibc("amd64"); ok {
			if _, err := version.Parse(least); err != nil {
				t.Errorf("%q is for glibc %q", name, least)
			}
		}
	})
}

// FuzzUnpack: whatever an archive is, what is taken out of it has names without
// directories and is in the cache by its hash, and nothing half-written is left.
func FuzzUnpack(f *testing.F) {
	t := &testing.T{} // for helpers that cannot fail here
	elf := string(lib(t, "x86_64 soname=libcudnn.so.9"))
	parts := []part{{name: "a/libcudnn.so.9.1.0", data: elf}, {name: "a/libcudnn.so", link: "libcudnn.so.9.1.0"}, {name: "a/LICENSE", data: "x"}}
	f.Add(zipped(t, parts...))
	for _, how := range []string{"", ".gz", ".xz", ".zst"} {
		f.Add(packed(t, how, tarred(t, parts...)))
	}
	defer func(a int, b, c int64) { maxMembers, maxUnpacked, maxMember = a, b, c }(maxMembers, maxUnpacked, maxMember)
	maxMembers, maxUnpacked, maxMember, maxXZDict = 1000, 1<<20, 1<<20, 1<<24
	f.Fuzz(func(t *testing.T, b []byte) {
		cache := t.TempDir()
		e, err := newEnv(Options{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRequest(Want{Library: "cudnn"})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
		found, err := e.found(t.Context(), r, func() (string, error) { return file, nil }, sum(b), "", "x")
		if left, _ := filepath.Glob(filepath.Join(cache, "partial", "*")); len(left) > 0 {
			t.Errorf("there is left %v", left)
		}
		if err != nil {
			return
		}
		for _, file := range found.Files {
			if !goodName(file.Name) || !goodName(file.Soname) && file.Soname != "" && bytes.ContainsRune([]byte(file.Soname), 0) {
				t.Errorf("a file is named %q", file.Name)
			}
			for _, l := range file.Links {
				if !goodName(l) || l == file.Name {
					t.Errorf("%q has a link named %q", file.Name, l)
				}
			}
			if got := sum([]byte(read(t, &file))); "sha256:"+got != file.Digest {
				t.Errorf("%q has the digest %s, and says %s", file.Name, got, file.Digest)
			}
		}
	})
}
