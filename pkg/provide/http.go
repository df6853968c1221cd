package provide

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	maxPage     = 64 << 20 // bytes of an index page; PyPI's longest has 30 MB
	maxDownload = 16 << 30 // bytes of a file whose length is not told; TensorRT's archive has 6 GB
	maxTries    = 20       // requests for one file, and
	maxInVain   = 4        // those in a row that bring nothing
	stall       = 2 * time.Minute
)

// answer is a page that a server gave.
type answer struct {
	body []byte
	kind string   // its media type, without parameters
	from *url.URL // after redirects
}

// newClient is the client for all requests. What is asked for by HTTPS is not
// fetched by plain HTTP because a server says so.
func (e *env) newClient(given *http.Client) *http.Client {
	c := &http.Client{}
	if given != nil {
		*c = *given
	} else {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // a range of compressed bytes is none of the file's
		t.ResponseHeaderTimeout = stall
		if e.insecure {
			t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // which the user has asked for
		}
		c.Transport = t
	}
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("redirects without end")
		}
		return e.allowed(req.URL)
	}
	return c
}

// allowed refuses what anybody on the way could change, or what is no web
// address.
func (e *env) allowed(u *url.URL) error {
	switch {
	case u.Scheme == "https" && u.Host != "":
		return nil
	case u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("%s is no web address: write it like https://HOST/simple", safe(u))
	case e.insecure || loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s is plain HTTP: add --insecure if that is meant", safe(u))
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// safe is a URL as it may be shown: without a login, and without a query, which
// may be one.
func safe(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.Fragment, v.RawFragment = nil, "", "", ""
	return v.String()
}

// parseURL reads a URL that a user or a server gave.
func (e *env) parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%q is no web address", s)
	}
	return u, e.allowed(u)
}

// statusError is an answer that is none.
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

// gone reports whether a server has said that it has no such thing.
func gone(err error) bool {
	var s *statusError
	return errors.As(err, &s) && (s.code == http.StatusNotFound || s.code == http.StatusGone)
}

// again reports whether it makes sense to ask once more.
func again(err error) bool {
	var s *statusError
	if errors.As(err, &s) {
		return s.code >= 500 || s.code == http.StatusTooManyRequests || s.code == http.StatusRequestTimeout
	}
	var op *net.OpError
	for _, text := range []string{"stream error:", "http2:"} { // net/http keeps these types to itself
		if err != nil && strings.Contains(err.Error(), text) {
			return true
		}
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, errStalled) || errors.As(err, &op) && op.Op != "dial"
}

var errStalled = fmt.Errorf("no byte came for %s", stall)

// wait waits before the next try.
func (e *env) wait(ctx context.Context, attempt int) error {
	t := time.NewTimer(e.pause(attempt))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// page fetches a document, once for all who ask.
func (e *env) page(ctx context.Context, u *url.URL, accept string) (answer, error) {
	key := u.String() + " " + accept
	e.mu.Lock()
	a, ok := e.pages[key]
	e.mu.Unlock()
	if ok {
		return a, nil
	}
	var err error
	for attempt := 1; ; attempt++ {
		a, err = e.fetch(ctx, u, accept)
		if err == nil || !again(err) || attempt == maxInVain {
			break
		}
		if err := e.wait(ctx, attempt); err != nil {
			return answer{}, err
		}
	}
	if err != nil {
		return answer{}, webError(u, err)
	}
	e.mu.Lock()
	e.pages[key] = a
	e.mu.Unlock()
	return a, nil
}

func (e *env) fetch(ctx context.Context, u *url.URL, accept string) (answer, error) {
	resp, done, err := e.get(ctx, u, http.Header{"Accept": {accept}})
	if err != nil {
		return answer{}, err
	}
	defer done()
	if resp.StatusCode != http.StatusOK {
		return answer{}, &statusError{safe(u), resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err != nil {
		return answer{}, err
	}
	if len(body) > maxPage {
		return answer{}, fmt.Errorf("is longer than %d MiB", maxPage>>20)
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return answer{body, strings.ToLower(strings.TrimSpace(kind)), resp.Request.URL}, nil
}

// get sends a request. The body ends with an error when nothing comes for long.
func (e *env) get(ctx context.Context, u *url.URL, h http.Header) (*http.Response, func(), error) {
	if err := e.allowed(u); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	req.Header = h
	req.Header.Set("User-Agent", "imgcheck")
	resp, err := e.client.Do(req)
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	timer := time.AfterFunc(stall, func() { cancel(errStalled) })
	resp.Body = &watched{resp.Body, ctx, timer}
	return resp, func() { timer.Stop(); resp.Body.Close(); cancel(nil) }, nil
}

// watched is a body that must go on.
type watched struct {
	io.ReadCloser
	ctx   context.Context
	timer *time.Timer
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	w.timer.Reset(stall)
	if err != nil && errors.Is(context.Cause(w.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

// webError makes one line of what went wrong, with what to do.
func webError(u *url.URL, err error) error {
	var status *statusError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	var ue *url.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &status):
		return err
	case errors.As(err, &dns):
		return fmt.Errorf("cannot reach %s: no such host %q: check the name and the network", u.Host, dns.Name)
	case errors.As(err, &cert):
		return fmt.Errorf("%s: its TLS certificate is not trusted (%w): install its CA, or add --insecure", u.Host, cert.Err)
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return fmt.Errorf("cannot reach the proxy that the environment names for %s: %w: check HTTPS_PROXY and NO_PROXY", u.Host, op.Err)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("cannot reach %s: %w: check the name, the port and the network", u.Host, op.Err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the connection to %s breaks off: try again", u.Host)
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

// download brings a file to the cache and gives its path. What has come is kept
// when the connection breaks, also for the next run; nothing gets its final name
// before its hash was right.
func (e *env) download(ctx context.Context, a *artifact) (string, error) {
	if !isSum(a.sum) {
		return "", errNoSum
	}
	if p, ok := e.cached(a.sum); ok {
		return p, nil
	}
	f, err := e.partial(a.sum)
	if err != nil {
		return "", fmt.Errorf("making the cache: %w", err)
	}
	e.use(f.Name())
	if filepath.Base(f.Name()) != a.sum {
		defer os.Remove(f.Name())
	}
	defer f.Close()
	if p, ok := e.cached(a.sum); ok { // somebody else was faster
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

// partial opens what was already got of a file. Who comes second, while another
// process is at it, starts a file of its own.
func (e *env) partial(sum string) (*os.File, error) {
	dir := filepath.Join(e.cache, "partial")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, sum), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		f.Close()
		return os.CreateTemp(dir, unfinished)
	}
	return f, nil
}

// download is a file that is on its way.
type download struct {
	*env
	*artifact
	file  *os.File
	limit int64
	have  int64 // bytes in file, and
	sum   hash.Hash
}

// run gets the whole file, in as many requests as it takes. A file that turns
// out wrong and was begun earlier is begun anew, once.
func (d *download) run(ctx context.Context) error {
	if err := d.resume(); err != nil {
		return err
	}
	begun := d.have > 0
	vain := 0
	for range maxTries {
		before := d.have
		whole, err := d.more(ctx)
		if whole {
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
			continue
		}
		if !again(err) {
			return err
		}
		vain++
		if d.have > before {
			vain = 0
		}
		if vain == maxInVain {
			return err
		}
		if err := d.wait(ctx, vain); err != nil {
			return err
		}
	}
	return fmt.Errorf("the connection to %s breaks off again and again: try again later, what has come is kept", d.url.Host)
}

// resume takes what an earlier run has left.
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

// more makes one request and reports whether the file is whole.
func (d *download) more(ctx context.Context) (whole bool, err error) {
	if d.size > 0 && d.have == d.size {
		return true, nil
	}
	h := http.Header{}
	if d.have > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
	}
	resp, done, err := d.get(ctx, d.url, h)
	if err != nil {
		return false, err
	}
	defer done()
	switch {
	case resp.StatusCode == http.StatusPartialContent && startsAt(resp) == d.have:
	case resp.StatusCode == http.StatusOK:
		if err := d.restart(); err != nil { // it does not do ranges
			return false, err
		}
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return true, nil // as long as the server's, or longer: the hash tells
	case resp.StatusCode == http.StatusPartialContent:
		return false, fmt.Errorf("%s sends another range than was asked for", d.url.Host)
	default:
		return false, &statusError{safe(d.url), resp.StatusCode}
	}
	return d.copy(resp)
}

// copy takes a body. Its end is the file's end when the server says no more.
func (d *download) copy(resp *http.Response) (bool, error) {
	buf := make([]byte, 256<<10)
	for {
		n, err := resp.Body.Read(buf)
		if d.have+int64(n) > d.limit {
			return false, fmt.Errorf("it is longer than the %d bytes that it should have", d.limit)
		}
		if _, werr := d.file.Write(buf[:n]); werr != nil {
			return false, werr
		}
		d.sum.Write(buf[:n])
		d.have += int64(n)
		d.progress(d.name, d.have, d.size)
		if err == io.EOF {
			return d.size == 0 || d.have >= d.size, io.ErrUnexpectedEOF
		}
		if err != nil {
			return false, err
		}
	}
}

// startsAt is where a partial answer begins, -1 when it does not say.
func startsAt(resp *http.Response) int64 {
	rest, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes ")
	if !ok {
		return -1
	}
	from, _, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
