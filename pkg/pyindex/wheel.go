package pyindex

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// Platform is a Python on Linux for x86-64, for which wheels are chosen.
type Platform struct {
	Python string // "3.10", CPython's
	// Glibc and Musl are the releases of the C library, of which it has one.
	Glibc, Musl string
}

// Wheel is one wheel of an index.
type Wheel struct {
	Name, Version string
	File          string // its name
	Size          int64  // in bytes
	// SHA256 is its digest in hexadecimal, or "" if the index does not say it.
	SHA256 string

	url *url.URL
	x   *Index
}

// Wheel returns the wheel that pip installs of a distribution: of the highest release that
// specifiers allow and that has one for the platform, the most specific
// (https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/). It does
// not know wheels that only source distributions make.
func (x *Index) Wheel(ctx context.Context, name, specifiers string, on Platform) (*Wheel, error) {
	name = inventory.Normalize(name)
	if !projectName.MatchString(name) {
		return nil, fmt.Errorf("%q is no name of a distribution", name)
	}
	p := x.page(ctx, name)
	if p.err != nil {
		return nil, p.err
	}
	var fit []file
	for _, f := range p.Files {
		if m := wheelName.FindStringSubmatch(f.Name); m != nil && on.rank(m[3], m[4], m[5]) > 0 && on.allowed(f.Python) {
			fit = append(fit, f)
		}
	}
	best, wheels := highest(fit, name, specifiers)
	if best == "" {
		return nil, &noWheelError{fmt.Sprintf("%s has no wheel of %s%s for this Python and C library", x.base.Host, name, specifiers)}
	}
	f := slices.MaxFunc(wheels, func(a, b file) int {
		m, n := wheelName.FindStringSubmatch(a.Name), wheelName.FindStringSubmatch(b.Name)
		return cmp.Or(on.rank(m[3], m[4], m[5])-on.rank(n[3], n[4], n[5]), cmp.Compare(b.Name, a.Name))
	})
	u, err := x.address(p, f)
	if err != nil {
		return nil, err
	}
	w := &Wheel{Name: name, Version: best, File: f.Name, Size: f.Size, url: u, x: x}
	if digest.MatchString(f.Hashes["sha256"]) {
		w.SHA256 = f.Hashes["sha256"]
	}
	return w, nil
}

var (
	digest    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	manylinux = regexp.MustCompile(`^(manylinux|musllinux)_(\d{1,3})_(\d{1,3})_x86_64$`)
)

// oldManylinux are the names of PEP 513, 571 and 599 in those of PEP 600.
var oldManylinux = map[string]string{"manylinux1_x86_64": "manylinux_2_5_x86_64", "manylinux2010_x86_64": "manylinux_2_12_x86_64", "manylinux2014_x86_64": "manylinux_2_17_x86_64"}

// rank says how well the tags of a wheel fit: 0 for not at all. The tags of the interpreter
// count first, then those of the platform, as packaging.tags orders them, about.
func (p Platform) rank(pythons, abis, platforms string) int {
	minor, ok := strings.CutPrefix(p.Python, "3.")
	if !ok {
		return 0
	}
	own, best := "cp3"+minor, 0
	for _, py := range strings.Split(pythons, ".") {
		for _, abi := range strings.Split(abis, ".") {
			n := 0
			switch {
			case py == own && abi == own:
				n = 5
			case abi == "abi3" && older(py, minor):
				n = 4
			case py == own && abi == "none":
				n = 3
			case abi == "none" && (py == "py3"+minor || py == "py3"):
				n = 2
			}
			if n > best {
				best = n
			}
		}
	}
	where := 0
	for _, tag := range strings.Split(platforms, ".") {
		where = max(where, p.platform(tag))
	}
	if best == 0 || where == 0 {
		return 0
	}
	return best*100_000 + where
}

// allowed reports whether a file's Requires-Python holds, for the last release of the Python. One
// that is not understood holds, as in pip.
func (p Platform) allowed(requires string) bool {
	if requires == "" || p.Python == "" {
		return true
	}
	ok, err := version.Satisfies(p.Python+".99", requires)
	return ok || err != nil
}

// older reports whether a tag cp3N is of Python 3.minor or one before it.
func older(tag, minor string) bool {
	n, ok := strings.CutPrefix(tag, "cp3")
	return ok && n != "" && version.Compare("3."+n, "3."+minor) <= 0
}

// platform returns how well a tag of a platform fits: the newest C library is the best.
func (p Platform) platform(tag string) int {
	if tag == "any" {
		return 1
	}
	if tag == "linux_x86_64" {
		return 2
	}
	m := manylinux.FindStringSubmatch(cmp.Or(oldManylinux[tag], tag))
	if m == nil {
		return 0
	}
	has := p.Glibc
	if m[1] == "musllinux" {
		has = p.Musl
	}
	if has == "" || version.Compare(m[2]+"."+m[3], has) > 0 {
		return 0
	}
	n := 0
	fmt.Sscanf(m[2]+m[3], "%d", &n)
	return 3 + n
}

// Parts reads a wheel by ranges.
type Parts struct{ p *parts }

// Open returns the parts of a wheel. Reading fetches at most most bytes. It asks the server for a
// size that the index does not say, and sets it.
func (w *Wheel) Open(ctx context.Context, most int64) (*Parts, error) {
	if w.Size <= 0 {
		var err error
		if w.Size, err = w.x.sizeOf(ctx, w.url, w.File); err != nil {
			return nil, err
		}
	}
	return &Parts{&parts{ctx: ctx, x: w.x, u: w.url, size: w.Size, most: most, ahead: true}}, nil
}

// ReadAt reads a range, for one goroutine at a time. It returns an error beyond the limit.
func (p *Parts) ReadAt(b []byte, off int64) (int, error) { return p.p.ReadAt(b, off) }

// Fetched returns the bytes that were asked for.
func (p *Parts) Fetched() int64 { return p.p.read }

var _ io.ReaderAt = (*Parts)(nil)

// Fits reports whether a wheel with a name is for the platform.
func (p Platform) Fits(name string) bool {
	m := wheelName.FindStringSubmatch(name)
	return m != nil && p.rank(m[3], m[4], m[5]) > 0
}

// Metadata returns the version and the Requires-Dist lines of a METADATA.
func Metadata(text []byte) (release string, lines []string) {
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == "" {
			break
		}
		if v, ok := strings.CutPrefix(line, "Version:"); ok && release == "" {
			release = strings.TrimSpace(v)
		}
	}
	return release, requires(text)
}
