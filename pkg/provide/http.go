package provide

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/internal/trust"
	"github.com/imgcheck/imgcheck/pkg/source"
)

const (
	maxPage     = 64 << 20 // bytes of an index page; PyPI's longest has 30 MB
	maxDownload = 16 << 30 // bytes of a file whose length is not known; TensorRT's archive has 6 GB
	maxPages    = 4        // attempts at a page whose connection breaks
)

// maxCommas bounds the elements of a page: a parser makes 100 bytes of the two of "{},", and
// of 64 MiB of them gigabytes. PyPI's longest page has 0.4 million.
const maxCommas = 1 << 21

// checkElements returns an error for a page that would take far more memory when it is
// parsed.
func checkElements(page []byte) error {
	if bytes.Count(page, []byte(",")) > maxCommas {
		return fmt.Errorf("has more than %d elements", maxCommas)
	}
	return nil
}

// answer is a page that a server gave.
type answer struct {
	body []byte
	kind string   // its media type, without parameters
	from *url.URL // after redirects
}

// newClient returns the client for all requests. A redirect from HTTPS to plain HTTP is
// not followed.
func (e *env) newClient(given *http.Client) *http.Client {
	c := &http.Client{}
	if given != nil {
		*c = *given
	} else {
		c.Transport = source.Transport(e.insecure)
	}
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	c.Transport = source.Patient(c.Transport, source.Options{Sleep: e.wait})
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("redirects without end")
		}
		return e.allowed(req.URL)
	}
	return c
}

// wait waits before another attempt.
func (e *env) wait(ctx context.Context, d time.Duration) error {
	if e.sleep != nil {
		return e.sleep(ctx, d)
	}
	return source.Sleep(ctx, d)
}

// allowed refuses plain HTTP, which anybody on the way can change, and URLs of other
// schemes.
func (e *env) allowed(u *url.URL) error {
	switch {
	case u.Scheme == "https" && u.Host != "":
		return nil
	case u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("%s is no web address: write it like https://HOST/simple", safe(u))
	case e.insecure || source.IsLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s is plain HTTP: add --insecure if that is meant", safe(u))
}

// safe returns a URL as it may be shown: without a login, and without a query, which
// may hold one.
func safe(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.Fragment, v.RawFragment = nil, "", "", ""
	return v.String()
}

// parseURL parses a URL that a user or a server gave.
func (e *env) parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%q is no web address", plain.MaskedURL(s))
	}
	return u, e.allowed(u)
}

// statusError is the error of an answer that is not the file.
type statusError struct {
	url  string
	code int
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.url, e.code, http.StatusText(e.code))
	if e.code == http.StatusUnauthorized || e.code == http.StatusForbidden {
		text += ": give the login in the URL (https://USER:PASSWORD@HOST/…)"
	}
	return text
}

// gone reports whether a server says that it does not have something.
func gone(err error) bool {
	var s *statusError
	return errors.As(err, &s) && (s.code == http.StatusNotFound || s.code == http.StatusGone)
}

// page returns a document. It is fetched once.
func (e *env) page(ctx context.Context, u *url.URL, accept string) (answer, error) {
	key := u.String() + " " + accept
	e.mu.Lock()
	a, ok := e.pages[key]
	e.mu.Unlock()
	if ok {
		return a, nil
	}
	for attempt := 1; ; attempt++ {
		var broke bool
		var err error
		if a, broke, err = e.fetch(ctx, u, accept); err == nil {
			break
		}
		if !broke || attempt == maxPages {
			return answer{}, webError(u, err)
		}
		if err := e.wait(ctx, time.Second); err != nil {
			return answer{}, err
		}
	}
	e.mu.Lock()
	e.pages[key] = a
	e.mu.Unlock()
	return a, nil
}

// fetch fetches a document. broke is set if its connection broke.
func (e *env) fetch(ctx context.Context, u *url.URL, accept string) (a answer, broke bool, err error) {
	if err := e.allowed(u); err != nil {
		return answer{}, false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return answer{}, false, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "imgcheck")
	resp, err := e.client.Do(req)
	if err != nil {
		return answer{}, false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answer{}, false, &statusError{safe(u), resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err != nil {
		return answer{}, ctx.Err() == nil, err
	}
	if len(body) > maxPage {
		return answer{}, false, fmt.Errorf("is longer than %d MiB", maxPage>>20)
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return answer{body, strings.ToLower(strings.TrimSpace(kind)), resp.Request.URL}, false, nil
}

// webError explains an error in one line, and says what to do.
func webError(u *url.URL, err error) error {
	var status *statusError
	var refused *transport.Error
	var ue *url.Error
	if known := source.HostError(u.Host, err); known != nil {
		return known
	}
	switch {
	case errors.As(err, &status):
		return err
	case errors.As(err, &refused):
		return &statusError{safe(u), refused.StatusCode}
	case errors.As(err, &ue):
		err = ue.Err // its URL may hold a login
	}
	return fmt.Errorf("fetching %s: %w", safe(u), err)
}

// artifact is a file on a server, with what is known of it.
type artifact struct {
	url  *url.URL
	name string // for people
	sum  string // sha256 in hex
	size int64  // in bytes, 0 when not known
}

// download fetches a file into the cache and returns its path. A part that was fetched
// before the connection broke is kept, also for the next run. A file gets its final name
// once its hash is known to be right.
func (e *env) download(ctx context.Context, a *artifact) (string, error) {
	if !isSum(a.sum) {
		return "", errNoSum
	}
	if p, ok := e.cached(a.sum); ok {
		return p, nil
	}
	f, err := e.partial(a.sum)
	if err != nil {
		return "", err
	}
	e.use(f.Name())
	if filepath.Base(f.Name()) != a.sum {
		defer os.Remove(f.Name())
	}
	defer f.Close()
	if p, ok := e.cached(a.sum); ok { // another process was faster
		return p, nil
	}
	d := &download{env: e, artifact: a, file: f, limit: cmp.Or(a.size, maxDownload)}
	if err := d.run(ctx); err != nil {
		return "", webError(a.url, err)
	}
	if err := f.Close(); err != nil { // Windows renames no open file
		return "", err
	}
	return e.keep(f.Name(), a.sum)
}

// partial opens the part of a file that was fetched before. A process that finds another
// one at it, or a link or a file of another user, starts a file of its own.
func (e *env) partial(sum string) (*os.File, error) {
	dir, err := e.dir("partial")
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, sum), os.O_RDWR|os.O_CREATE|trust.NoFollow|trust.Nonblocking, 0o600)
	if err != nil {
		return os.CreateTemp(dir, unfinished)
	}
	st, err := f.Stat()
	if err == nil {
		err = trust.Sole(st)
	}
	if err == nil {
		err = tryLock(f)
	}
	if err != nil {
		f.Close()
		return os.CreateTemp(dir, unfinished)
	}
	return f, nil
}

// download is a file on its way into the cache.
type download struct {
	*env
	*artifact
	file  *os.File
	limit int64
	have  int64 // bytes in file
	sum   hash.Hash
}

// run fetches the whole file. A file that turns out wrong and was begun by an earlier
// run is begun again, once.
func (d *download) run(ctx context.Context) error {
	if err := d.resume(); err != nil {
		return err
	}
	begun := d.have > 0
	for {
		if err := d.rest(ctx); err != nil {
			return err
		}
		got := hexOf(d.sum)
		if got == d.artifact.sum {
			return nil
		}
		if err := d.restart(); err != nil {
			return err
		}
		if !begun {
			os.Remove(d.file.Name())
			return fmt.Errorf("it has the sha256 %s, and should have %s: it is not the file that was meant", got, d.artifact.sum)
		}
		begun = false
	}
}

// resume takes the part that an earlier run has left.
func (d *download) resume() error {
	d.sum = sha256.New()
	n, err := io.Copy(d.sum, d.file)
	d.have = n
	if err == nil && n > d.limit {
		err = d.restart()
	}
	return err
}

func (d *download) restart() error {
	d.sum, d.have = sha256.New(), 0
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return d.file.Truncate(0)
}

// rest fetches the rest of the file.
func (d *download) rest(ctx context.Context) error {
	if err := d.allowed(d.url); err != nil {
		return err
	}
	from := &source.Download{Context: ctx, Client: d.client, URL: d.url.String(), Size: cmp.Or(d.size, -1), Offset: d.have, Sleep: d.wait}
	defer from.Close()
	_, err := io.CopyBuffer(d, from, make([]byte, 256<<10))
	return err
}

// Write implements [io.Writer].
func (d *download) Write(b []byte) (int, error) {
	if d.have+int64(len(b)) > d.limit {
		return 0, fmt.Errorf("it is longer than the %d bytes that it should have", d.limit)
	}
	n, err := d.file.Write(b)
	d.sum.Write(b[:n])
	d.have += int64(n)
	d.progress(d.name, d.have, d.size)
	return n, err
}
