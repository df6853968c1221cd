package provide

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// nvidia is the URL of NVIDIA's archives; {product} is the library's.
const nvidia = "https://developer.download.nvidia.com/compute/{product}/redist/"

// maxReleases bounds the redistrib_*.json that are read for one library. NVIDIA has 70 for
// CUDA.
const maxReleases = 128

// redistSource is NVIDIA's redistributable archives, or a mirror of them.
type redistSource struct {
	*env
	url string // of one redistrib_*.json, or of the directory; {product} is filled in
}

func (e *env) openRedist(rest string) (provider, error) {
	rest = cmp.Or(rest, nvidia)
	_, err := e.parseURL(strings.ReplaceAll(rest, "{product}", "cuda"))
	if err != nil {
		return nil, err
	}
	return &redistSource{e, rest}, nil
}

func (s *redistSource) close() error { return nil }

func (s *redistSource) find(ctx context.Context, r *request) (*Found, error) {
	if r.lib == nil || r.lib.Redist.Component == "" {
		return nil, absent("no archive is known that has it")
	}
	u, err := s.parseURL(strings.ReplaceAll(s.url, "{product}", r.lib.Redist.Product))
	if err != nil {
		return nil, err
	}
	pages, err := s.releases(ctx, r, u)
	if err != nil {
		return nil, err
	}
	why, fetched := "has no release of "+r.lib.Redist.Component+" that fits", 0
	for _, p := range pages[:min(len(pages), maxReleases)] {
		a, version, reason, err := s.archive(ctx, r, p)
		if err != nil {
			return nil, err
		}
		if a == nil {
			why = cmp.Or(reason, why)
			continue
		}
		f, err := s.take(ctx, r, a, version)
		var none *absentError
		if fetched++; !errors.As(err, &none) || fetched == maxFetched {
			return f, err
		}
		why = fmt.Sprintf("%s: %v", a.name, err)
	}
	return nil, absent("%s", why)
}

// releases returns the redistrib_*.json that may have a release which fits, the newest
// first: the one that the source names, those that its directory lists, or, if it lists
// none, those in rules/provide.
func (s *redistSource) releases(ctx context.Context, r *request, u *url.URL) ([]*url.URL, error) {
	if strings.HasSuffix(u.Path, ".json") {
		return []*url.URL{u}, nil
	}
	u = u.JoinPath("/")
	a, err := s.page(ctx, u, "text/html")
	var status *statusError
	if err != nil && !errors.As(err, &status) {
		return nil, err
	}
	labels := map[string]*url.URL{}
	if err == nil {
		a.kind = "text/html"
		links, err := parseSimple(a)
		if err != nil {
			return nil, fmt.Errorf("its directory: %w", err)
		}
		for _, l := range links {
			if label := labelOf(base(l.url)); label != "" {
				labels[label] = l.url
			}
		}
	}
	if len(labels) == 0 {
		for _, k := range known().Releases {
			if k.Product == r.lib.Redist.Product {
				labels[k.Label] = u.JoinPath("redistrib_" + k.Label + ".json")
			}
		}
	}
	var list []*url.URL
	for _, label := range slices.SortedFunc(maps.Keys(labels), func(a, b string) int { return version.Compare(b, a) }) {
		if r.mayBeIn(label) {
			list = append(list, labels[label])
		}
	}
	return list, nil
}

// labelOf returns the release in the name of a redistrib_*.json.
func labelOf(file string) string {
	label, ok := strings.CutPrefix(file, "redistrib_")
	label, isJSON := strings.CutSuffix(label, ".json")
	if _, err := version.Parse(label); !ok || !isJSON || err != nil {
		return ""
	}
	return label
}

// mayBeIn reports whether a release may be in the redistrib_*.json of a label. The label
// is CUDA's release, or the library's own without its last number.
func (r *request) mayBeIn(label string) bool {
	if r.lib.Redist.Label == "cuda" {
		major, _, _ := strings.Cut(label, ".")
		return r.CUDA == "" || major == r.CUDA
	}
	return r.spec.allowCoarse(label)
}

// archive returns the archive of one redistrib_*.json that fits, or nil and the reason.
func (s *redistSource) archive(ctx context.Context, r *request, u *url.URL) (*artifact, string, string, error) {
	b, err := s.manifest(ctx, r.lib.Redist.Product, u)
	if gone(err) {
		return nil, "", fmt.Sprintf("has no %s", base(u)), nil
	}
	if err != nil {
		return nil, "", "", err
	}
	components, err := parseRedist(b)
	if err != nil {
		return nil, "", "", fmt.Errorf("%s: %w", base(u), err)
	}
	c := components[r.lib.Redist.Component]
	if c == nil {
		return nil, "", fmt.Sprintf("%s has no %s", base(u), r.lib.Redist.Component), nil
	}
	v, err := version.Parse(c.version)
	if err != nil {
		return nil, "", "", fmt.Errorf("%s: %w", base(u), err)
	}
	if !r.spec.allow(v) || !r.mayHave(v) {
		return nil, "", fmt.Sprintf("%s has %s %s, which does not fit", base(u), r.lib.Redist.Component, c.version), nil
	}
	for _, platform := range machines[r.Arch].redist {
		variants := c.platforms[platform]
		a, ok := variants[""]
		if !ok && r.CUDA != "" {
			a, ok = variants["cuda"+r.CUDA]
		}
		if !ok && r.CUDA == "" && len(variants) == 1 {
			for _, a = range variants {
				ok = true
			}
		}
		if !ok {
			continue
		}
		// u may have been redirected; the paths are relative to the original URL.
		return &artifact{url: u.JoinPath("..", a.path), name: path.Base(a.path), sum: a.sum, size: a.size}, c.version, "", nil
	}
	return nil, "", fmt.Sprintf("%s has %s %s, but not for %s%s", base(u), r.lib.Redist.Component, c.version, r.Arch, forCUDA(r.CUDA)), nil
}

func forCUDA(major string) string {
	if major == "" {
		return " and one CUDA: which one is not known"
	}
	return " and CUDA " + major
}

// manifest returns a redistrib_*.json. One whose hash is in rules/provide is verified.
func (s *redistSource) manifest(ctx context.Context, product string, u *url.URL) ([]byte, error) {
	for _, k := range known().Releases {
		if k.Product == product && k.Label == labelOf(base(u)) {
			file, err := s.download(ctx, &artifact{url: u, name: base(u), sum: k.SHA256, size: 0})
			if err != nil {
				return nil, err
			}
			return os.ReadFile(file)
		}
	}
	a, err := s.page(ctx, u, "application/json")
	return a.body, err
}

func (s *redistSource) take(ctx context.Context, r *request, a *artifact, version string) (*Found, error) {
	f, err := s.found(ctx, r, func() (string, error) { return s.download(ctx, a) }, a.sum, version, a.name)
	if f != nil {
		f.at(a.url)
	}
	return f, err
}

// component is a part of a redistrib_*.json.
type component struct {
	version   string
	platforms map[string]map[string]archived // by platform and variant ("cuda12", or "")
}

type archived struct {
	path string // below the directory of the JSON
	sum  string // empty if there is none
	size int64  // 0 if there is none
}

// parseRedist parses a redistrib_*.json. It ignores keys that are no components. It refuses
// a document with a path that leads out of the directory: that is not NVIDIA's.
func parseRedist(b []byte) (map[string]*component, error) {
	if err := checkElements(b); err != nil {
		return nil, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(b, &top); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	all := map[string]*component{}
	for name, raw := range top {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			continue // release_date, release_label
		}
		c := &component{platforms: map[string]map[string]archived{}}
		if json.Unmarshal(fields["version"], &c.version) != nil || c.version == "" {
			continue
		}
		for platform, raw := range fields {
			variants, err := parseVariants(raw)
			if err != nil {
				return nil, fmt.Errorf("%s for %s: %w", name, platform, err)
			}
			if len(variants) > 0 {
				c.platforms[platform] = variants
			}
		}
		all[name] = c
	}
	return all, nil
}

// parseVariants parses the value of a platform: an archive, or one for each CUDA.
func parseVariants(raw json.RawMessage) (map[string]archived, error) {
	var direct map[string]json.RawMessage
	if json.Unmarshal(raw, &direct) != nil {
		return nil, nil
	}
	if a, ok, err := parseArchived(raw); ok || err != nil {
		return map[string]archived{"": a}, err
	}
	variants := map[string]archived{}
	for name, raw := range direct {
		a, ok, err := parseArchived(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if ok && name != "" {
			variants[name] = a
		}
	}
	return variants, nil
}

func parseArchived(raw json.RawMessage) (a archived, ok bool, err error) {
	var f struct {
		Path string          `json:"relative_path"`
		Sum  string          `json:"sha256"`
		Size json.RawMessage `json:"size"` // a number in quotes
	}
	if json.Unmarshal(raw, &f) != nil || f.Path == "" {
		return a, false, nil
	}
	if f.Path != path.Clean(f.Path) || path.IsAbs(f.Path) || f.Path == "." || f.Path == ".." || strings.HasPrefix(f.Path, "../") || strings.ContainsAny(f.Path, "\\?#%\x00") {
		return a, false, fmt.Errorf("the path %q leads elsewhere", f.Path)
	}
	sum := strings.ToLower(f.Sum)
	if !isSum(sum) {
		sum = ""
	}
	size, err := strconv.ParseInt(strings.Trim(string(f.Size), `"`), 10, 64)
	if err != nil || size < 0 {
		size = 0
	}
	return archived{f.Path, sum, size}, true, nil
}
