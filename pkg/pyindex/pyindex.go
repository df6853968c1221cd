// Package pyindex asks a Python package index what a release requires and how large its wheels
// are, without the wheels: from the index page (PEP 691, or HTML as PEP 503 says) and the metadata beside it (PEP 658),
// or from the end of the wheel by range requests.
//
// It chooses the highest release that a requirement allows, for Linux on x86-64, and does not
// resolve requirements against one another. [Index.Wheel] chooses the wheel that pip takes for a
// Python and a C library, and [Wheel.Open] reads it by ranges, for callers that may do so. Pages and metadata are bounded; metadata is kept
// by its digest. The caller decides which index may be asked.
package pyindex

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// PyPI is the index that pip asks by default.
const PyPI = "https://pypi.org/simple"

// Limits: the bytes of a page, of metadata and of the parts of one wheel that has no metadata
// beside it, and the requests of an Index.
const (
	maxPage     = 64 << 20
	maxMetadata = 4 << 20
	maxParts    = 8 << 20
	maxRequests = 300
	// maxRanges limits the requests for parts of wheels.
	maxRanges = 5000
	// maxPages limits the bytes of all pages of an Index.
	maxPages = 256 << 20
)

// Release is a release of a distribution.
type Release struct {
	Name, Version string
	Requires      []string // Requires-Dist lines
	// Largest is the size of its largest wheel for Linux in bytes, 0 if it is not known. Pure
	// is set if its wheels are for any platform.
	Largest int64
	Pure    bool
}

// Cache keeps documents by keys.
type Cache interface {
	Document(key string) ([]byte, bool)
	PutDocument(key string, doc []byte) error
}

// Options are the settings of an Index.
type Options struct {
	Client   *http.Client // nil: imgcheck's own
	Insecure bool         // plain HTTP and certificates that are not verified
	Cache    Cache        // nil: none
	// Timeout, if not 0, limits each request; after an index could not be reached, it is not
	// asked again.
	Timeout time.Duration
}

// Index is a package index. Its methods may be called at the same time.
type Index struct {
	base     *url.URL
	client   *http.Client
	cache    Cache
	insecure bool

	mu       sync.Mutex
	pages    map[string]*page
	requests int
	ranges   int // requests for parts
	read     int // bytes of pages
	once     bool
	failed   error // why it could not be reached, if once is set
}

// New returns the index at an address, https://pypi.org/simple.
func New(address string, o Options) (*Index, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%q is no address of a package index: write it like %s", plain.Masked(address), PyPI)
	}
	x := &Index{base: u, cache: o.Cache, insecure: o.Insecure, pages: map[string]*page{}, client: &http.Client{}}
	if o.Client != nil {
		*x.client = *o.Client
	} else {
		x.client.Transport = source.Patient(source.Transport(o.Insecure), source.Options{})
	}
	if o.Timeout > 0 {
		x.client.Timeout, x.once = o.Timeout, true
	}
	x.client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("redirects without end")
		}
		return x.allowed(req.URL)
	}
	return x, x.allowed(u)
}

func (x *Index) allowed(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && (x.insecure || source.IsLoopback(u.Hostname())) {
		return nil
	}
	return fmt.Errorf("%s is not asked over plain HTTP", u.Host)
}

// page is a project's page.
type page struct {
	Files []file `json:"files"`
	from  *url.URL
	err   error
}

type file struct {
	Name   string `json:"filename"`
	URL    string `json:"url"`
	Size   int64  `json:"size"`
	Yanked any    `json:"yanked"`
	Python string `json:"requires-python"`
	// Hashes are digests by the names of their algorithms.
	Hashes map[string]string `json:"hashes"`
	Core   any               `json:"core-metadata"`      // true, or hashes
	Old    any               `json:"dist-info-metadata"` // its name before PEP 714
}

var wheelName = regexp.MustCompile(`^([A-Za-z0-9_.]+)-([^-]+)(?:-\d[^-]*)?-([^-]+)-([^-]+)-([^-]+)\.whl$`)

// Find returns the highest release of a distribution that specifiers allow ("==2.9.0",
// ">=2,<3"; empty: any) and that has a wheel for Linux on x86-64.
func (x *Index) Find(ctx context.Context, name, specifiers string) (*Release, error) {
	name = inventory.Normalize(name)
	if !projectName.MatchString(name) {
		return nil, fmt.Errorf("%q is no name of a distribution", name)
	}
	p := x.page(ctx, name)
	if p.err != nil {
		return nil, p.err
	}
	best, wheels := highest(p.Files, name, specifiers)
	if best == "" {
		return nil, &noWheelError{fmt.Sprintf("%s has no wheel of %s%s for Linux on x86-64", x.base.Host, name, specifiers)}
	}
	r := &Release{Name: name, Version: best, Pure: true}
	for _, f := range wheels {
		if !strings.HasSuffix(f.Name, "-any.whl") {
			r.Pure = false
		}
		if f.Size <= 0 || r.Largest < 0 {
			r.Largest = -1
		} else {
			r.Largest = max(r.Largest, f.Size)
		}
	}
	r.Largest = max(r.Largest, 0)
	meta, err := x.metadata(ctx, p, wheels[len(wheels)-1])
	if err != nil {
		return nil, err
	}
	r.Requires = requires(meta)
	return r, nil
}

var projectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// highest returns the highest release that is allowed, with its wheels.
func highest(files []file, name, specifiers string) (best string, wheels []file) {
	var high version.Version
	for _, f := range files {
		m := wheelName.FindStringSubmatch(f.Name)
		if m == nil || inventory.Normalize(m[1]) != name || !forLinux(m[5]) || yanked(f.Yanked) && !strings.HasPrefix(specifiers, "==") {
			continue
		}
		v, err := version.Parse(m[2])
		if err != nil {
			continue
		}
		if v.IsPreRelease() && !strings.HasPrefix(specifiers, "==") {
			continue
		}
		if ok, err := version.Satisfies(m[2], specifiers); specifiers != "" && (err != nil || !ok) {
			continue
		}
		switch {
		case best == "" || v.Compare(high) > 0: // the zero version has no order
			best, high, wheels = m[2], v, []file{f}
		case v.Compare(high) == 0:
			wheels = append(wheels, f)
		}
	}
	return best, wheels
}

func yanked(v any) bool {
	s, ok := v.(string)
	return v == true || ok && s != ""
}

func forLinux(platform string) bool {
	return platform == "any" || strings.Contains(platform, "linux") && strings.Contains(platform, "x86_64")
}

// page returns the page of a project, which is fetched once.
func (x *Index) page(ctx context.Context, name string) *page {
	x.mu.Lock()
	p, ok := x.pages[name]
	x.mu.Unlock()
	if ok {
		return p
	}
	p = new(page)
	if p.err = x.readPage(ctx, name, p); p.err != nil {
		p.Files = nil
	}
	x.mu.Lock()
	x.pages[name] = p
	x.mu.Unlock()
	return p
}

// readPage fetches the page of a project, as JSON if the index has it so.
func (x *Index) readPage(ctx context.Context, name string, p *page) error {
	body, kind, from, err := x.get(ctx, x.base.JoinPath(name, "/"), accepted, maxPage)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.read += len(body)
	beyond := x.read > maxPages
	x.mu.Unlock()
	if beyond {
		return fmt.Errorf("the pages of %s have more than %d MiB", x.base.Host, maxPages>>20)
	}
	p.from = from
	switch kind {
	case simpleJSON, "application/json":
		if bytes.Count(body, []byte(",")) > maxCommas {
			return fmt.Errorf("the page of %s has more than %d elements", name, maxCommas)
		}
		if err := json.Unmarshal(body, p); err != nil {
			return fmt.Errorf("the page of %s is no JSON of PEP 691", name)
		}
	case simpleHTML, "text/html":
		if p.Files, p.from, err = htmlFiles(body, from); err != nil {
			return fmt.Errorf("%s of %s: %w", x.base.Host, name, err)
		}
	default:
		return fmt.Errorf("%s answers with neither JSON (PEP 691) nor HTML (PEP 503)", x.base.Host)
	}
	return nil
}

// address returns the address of a file of a page. A login of the index is for its own host
// alone, as in pip.
func (x *Index) address(p *page, f file) (*url.URL, error) {
	u, err := p.from.Parse(f.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of %s is none", f.Name)
	}
	u.Fragment = ""
	if u.User = nil; u.Host == x.base.Host && u.Scheme == x.base.Scheme {
		u.User = x.base.User
	}
	return u, nil
}

// StatusError is the answer of a server that has no such page.
type StatusError struct {
	Host string
	Code int
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answered %d %s", e.Host, e.Code, http.StatusText(e.Code))
}

func (x *Index) get(ctx context.Context, u *url.URL, accept string, most int64) (body []byte, kind string, from *url.URL, err error) {
	resp, err := x.do(ctx, u, map[string]string{"Accept": accept})
	if err != nil {
		return nil, "", nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, "", nil, &StatusError{u.Host, resp.StatusCode}
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = fmt.Errorf("%s sends more than %d MiB", u.Host, most>>20)
	}
	kind, _, _ = strings.Cut(resp.Header.Get("Content-Type"), ";")
	return body, strings.ToLower(strings.TrimSpace(kind)), resp.Request.URL, err
}

func (x *Index) do(ctx context.Context, u *url.URL, headers map[string]string) (*http.Response, error) {
	n, most := &x.requests, maxRequests
	if headers["Range"] != "" {
		n, most = &x.ranges, maxRanges
	}
	x.mu.Lock()
	*n++
	beyond, failed := *n > most, x.failed
	x.mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	if beyond {
		return nil, fmt.Errorf("%s was asked %d times", x.base.Host, most)
	}
	if err := x.allowed(u); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if u.Host != x.base.Host { // the page led here, as a redirect would: the address is judged as one
		req.Response = &http.Response{Request: &http.Request{URL: x.base}}
	}
	req.Header.Set("User-Agent", "imgcheck")
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	resp, err := x.client.Do(req)
	if err != nil {
		err = unreached(u, err)
		if x.once && u.Host == x.base.Host {
			x.mu.Lock()
			x.failed = err
			x.mu.Unlock()
		}
		return nil, err
	}
	return resp, nil
}

// unreached says why a server gave no answer.
func unreached(u *url.URL, err error) error {
	if known := source.HostError(u.Host, err); known != nil {
		return known
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // its address may hold a login
	}
	return fmt.Errorf("asking %s: %w", u.Host, err)
}

// metadata returns the METADATA of a wheel.
func (x *Index) metadata(ctx context.Context, p *page, f file) ([]byte, error) {
	u, err := x.address(p, f)
	if err != nil {
		return nil, err
	}
	sum, beside := besideOf(f)
	if sum != "" && x.cache != nil {
		if doc, ok := x.cache.Document("python metadata sha256:" + sum); ok {
			return doc, nil
		}
	}
	if !beside {
		return x.tail(ctx, u, f)
	}
	u.Path += ".metadata"
	u.RawPath = ""
	doc, _, _, err := x.get(ctx, u, "*/*", maxMetadata)
	if err != nil {
		return nil, err
	}
	got := sha256.Sum256(doc)
	if sum != "" && hex.EncodeToString(got[:]) != sum {
		return nil, fmt.Errorf("the metadata of %s is not that of the index", f.Name)
	}
	if sum != "" && x.cache != nil {
		_ = x.cache.PutDocument("python metadata sha256:"+sum, doc) // a full disk must not stop a lint
	}
	return doc, nil
}

// besideOf returns whether the metadata of a wheel lies beside it, and its digest.
func besideOf(f file) (sum string, beside bool) {
	for _, v := range []any{f.Core, f.Old} {
		switch v := v.(type) {
		case bool:
			beside = beside || v
		case map[string]any:
			if s, ok := v["sha256"].(string); ok {
				return strings.ToLower(s), true
			}
			beside = true
		}
	}
	return "", beside
}

// tail reads the METADATA of a wheel by range requests: the directory at its end, and the file.
func (x *Index) tail(ctx context.Context, u *url.URL, f file) ([]byte, error) {
	if f.Size <= 0 {
		var err error
		if f.Size, err = x.sizeOf(ctx, u, f.Name); err != nil {
			return nil, err
		}
	}
	z, err := zip.NewReader(&parts{ctx: ctx, x: x, u: u, size: f.Size, most: maxParts}, f.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	for _, e := range z.File {
		if !strings.HasSuffix(e.Name, ".dist-info/METADATA") || strings.Count(e.Name, "/") != 1 {
			continue
		}
		r, err := e.Open()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		defer r.Close()
		doc, err := io.ReadAll(io.LimitReader(r, maxMetadata))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		return doc, nil
	}
	return nil, fmt.Errorf("%s has no METADATA", f.Name)
}

// sizeOf asks for the size of a file that the page does not say: pages of HTML say none.
func (x *Index) sizeOf(ctx context.Context, u *url.URL, name string) (int64, error) {
	resp, err := x.do(ctx, u, map[string]string{"Range": "bytes=0-0"})
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	_, total, _ := strings.Cut(resp.Header.Get("Content-Range"), "/")
	size, err := strconv.ParseInt(total, 10, 64)
	if resp.StatusCode != http.StatusPartialContent || err != nil || size <= 0 {
		return 0, fmt.Errorf("neither the index nor %s says the size of %s", u.Host, name)
	}
	return size, nil
}

// parts reads a file of a server by ranges.
type parts struct {
	ctx  context.Context
	x    *Index
	u    *url.URL
	size int64
	most int64 // bytes that may be read
	read int64
	at   int64 // of last
	last []byte
	// ahead asks for more at a time while the file is read in its order.
	ahead bool
	step  int64
}

// The bytes that are asked for at first and at most, and those of a wheel that is read with one
// request.
const (
	partSize  = 64 << 10
	maxStep   = 1 << 20
	wholeSize = 2 << 20
)

// ReadAt reads a range. It asks for at least 64 KiB, because the zip reader reads little at a
// time.
func (p *parts) ReadAt(b []byte, off int64) (int, error) {
	if off >= p.size {
		return 0, io.EOF
	}
	if off < p.at || off+int64(len(b)) > p.at+int64(len(p.last)) {
		if err := p.fetch(off, int64(len(b))); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.last[off-p.at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// fetch asks for a range that has n bytes from off on.
func (p *parts) fetch(off, n int64) error {
	end := p.at + int64(len(p.last))
	switch next := p.ahead && off <= end && off >= p.at && len(p.last) > 0; {
	case next && p.step > 0:
		p.step = min(2*p.step, maxStep)
	default:
		p.step = partSize
	}
	from := max(0, min(off, p.size-p.step))
	to := min(p.size, max(from+p.step, off+n))
	if p.ahead && p.size <= min(wholeSize, p.most-p.read) {
		from, to = 0, p.size
	}
	if p.read += to - from; p.read > p.most {
		return fmt.Errorf("more than %d MiB of it would be read", p.most>>20)
	}
	resp, err := p.x.do(p.ctx, p.u, map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", from, to-1)})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent {
		return errors.New("the server gives no parts of it")
	}
	p.at, p.last = from, make([]byte, to-from)
	if _, err := io.ReadFull(resp.Body, p.last); err != nil {
		p.last = nil
		return err
	}
	return nil
}

// requires returns the Requires-Dist lines of a METADATA.
func requires(text []byte) (list []string) {
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, 1<<20)
	for s.Scan() && s.Text() != "" {
		if v, ok := strings.CutPrefix(s.Text(), "Requires-Dist:"); ok {
			list = append(list, strings.TrimSpace(v))
		}
	}
	return list
}

// Exists reports whether the index has a page of a project, and whether that is known.
func (x *Index) Exists(ctx context.Context, project string) (exists, known bool) {
	resp, err := x.do(ctx, x.base.JoinPath(project, "/"), map[string]string{"Accept": "*/*"})
	if err != nil {
		return false, false
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return true, true
	case http.StatusNotFound, http.StatusForbidden:
		return false, true
	}
	return false, false
}
