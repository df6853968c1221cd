package layers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

const (
	// maxAnswer bounds what a registry answers, blobs excepted, in bytes.
	// Registries take manifests of 4 MiB (distribution-spec, "Pushing Manifests").
	maxAnswer    = 8 << 20
	maxComplaint = 32 << 10 // of an answer that is an error; what follows is not read
	maxRedirects = 10       // as net/http has it

	// maxCommas bounds the elements of a manifest or config: of each a descriptor of
	// 136 bytes may be made, and of 8 MiB of "{}," more than a gigabyte.
	maxCommas = 1 << 18

	// pushStall is how long a registry may need to answer when it is written to:
	// some put a large blob together, or look at it, before they do.
	pushStall = 10 * time.Minute
)

var errRedirects = errors.New("it redirects without end")

// plainError names a host that would be told a login by plain HTTP.
type plainError string

func (e plainError) Error() string { return "plain HTTP to " + string(e) }

// elsewhereError says to where a registry redirects, and why nobody follows.
type elsewhereError struct{ to, why string }

func (e *elsewhereError) Error() string {
	return "it redirects to " + printable(e.to) + ", " + e.why
}

// bounded is a transport that lets a registry go only so far. go-containerregistry
// reads manifests of 100 MiB, drains what its ping gets to its end, follows
// redirects for ever and from TLS to plain HTTP, and speaks plain HTTP to whoever
// answers nothing else at an address of an inner network, login and all.
type bounded struct {
	base  http.RoundTripper
	plain bool // allows plain HTTP
}

func newBounded(insecure bool) bounded { return bounded{Transport(insecure), insecure} }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	first, n := req, 0
	for ; first.Response != nil && first.Response.Request != nil; n++ { // what redirected to here
		first = first.Response.Request
	}
	switch {
	case n >= maxRedirects:
		return nil, errRedirects
	case n == 0 && req.URL.Scheme == "http" && !b.plain && !isLoopback(req.URL.Hostname()):
		return nil, plainError(req.URL.Host)
	case n > 0:
		if err := b.follow(first, req); err != nil {
			return nil, err
		}
	}
	resp, err := b.base.RoundTrip(req)
	switch {
	case err != nil:
	case resp.StatusCode >= 300:
		resp.Body = &cutBody{resp.Body, maxComplaint}
	case !isBlob(first):
		resp.Body = &boundedBody{resp.Body, maxAnswer, maxCommas}
	}
	return resp, err
}

// follow reports why a request does not follow a redirect. Blobs may lie anywhere:
// their digests are known, and nobody logs in there. A manifest that a tag names
// comes by TLS or not at all, and what was said to a token server is for it alone.
func (b bounded) follow(first, req *http.Request) error {
	switch form := first.Header.Get("Content-Type") == "application/x-www-form-urlencoded"; {
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return &elsewhereError{req.URL.Scheme + ":", "which is no place of a registry"}
	case first.URL.Scheme == "https" && req.URL.Scheme == "http" && !b.plain && !strings.Contains(first.URL.Path, "/blobs/"):
		return &elsewhereError{"http://" + req.URL.Host, "which anybody on the way can change"}
	case form && first.Method == http.MethodPost && req.Method == http.MethodPost && req.URL.Host != first.URL.Host:
		return &elsewhereError{req.URL.Host, "which is not to be told the login"}
	}
	return inward(first, req)
}

// inward refuses to go from a registry to an address of an inner network that it
// has no business to name: a cloud's metadata service answers anybody on its
// machine.
func inward(first, req *http.Request) error {
	from, to := first.URL.Hostname(), req.URL.Hostname()
	addr, err := netip.ParseAddr(to)
	addr = addr.Unmap()
	switch {
	case to == from:
		return nil
	case err != nil && (!isLoopback(to) || isLoopback(from)):
		return nil
	case err == nil && !(addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsUnspecified()):
		return nil
	}
	return &elsewhereError{to, "an address of an inner network"}
}

// isLoopback reports whether a host is this machine, by its name.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.IsLoopback()
}

// isBlob reports whether a request is for a blob, whose size the manifest bounds.
func isBlob(req *http.Request) bool {
	return req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/blobs/")
}

// boundedBody is a document: so many bytes, and so many elements.
type boundedBody struct {
	io.ReadCloser
	left, commas int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("its answer is larger than the %d bytes that are read", maxAnswer)
	}
	if b.commas -= bytes.Count(p[:n], []byte(",")); b.commas < 0 {
		return 0, errElements
	}
	return n, err
}

var errElements = fmt.Errorf("it has more than the %d elements that are read of a manifest or config", maxCommas)

// checkElements refuses a document that would become far more when it is parsed.
func checkElements(doc []byte) error {
	if bytes.Count(doc, []byte(",")) > maxCommas {
		return errElements
	}
	return nil
}

// cutBody is a text for people, of which the beginning is enough.
type cutBody struct {
	io.ReadCloser
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// PushTransport is the transport to a registry for one who asks again himself, as
// go-containerregistry does: an upload that broke off begins with another question.
// It gives up a request when nothing comes for a while, and hands on an answer that
// says when to come back (Retry-After) only then. A nil sleep waits.
func PushTransport(insecure bool, sleep func(context.Context, time.Duration) error) http.RoundTripper {
	return &calm{patient{newBounded(insecure), defaultStall, (&Options{sleep: sleep}).sleeper()}}
}

type calm struct{ patient }

// RoundTrip implements [http.RoundTripper].
func (c *calm) RoundTrip(req *http.Request) (*http.Response, error) {
	p := c.patient
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		p.stall = pushStall
	}
	if req.URL.Query().Has("mount") {
		return p.RoundTrip(req) // go-containerregistry takes any failure for a refusal, and would copy
	}
	resp, err := p.try(req)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && req.GetBody != nil {
		req.Body = &again{open: req.GetBody} // go-containerregistry sends it again with a new token, and would send nothing
	}
	if err != nil || !passing(req, resp, nil) {
		return resp, err
	}
	if wait := retryAfter(resp); wait > 0 {
		if err := p.sleep(req.Context(), wait); err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp, nil
}

// sending is the body of a request, which goes on as long as somebody takes it.
type sending struct {
	io.ReadCloser
	timer *time.Timer
	stall time.Duration
}

func (s sending) Read(p []byte) (int, error) {
	s.timer.Reset(s.stall)
	return s.ReadCloser.Read(p)
}

// again is the body of a request that is sent once more, opened when it is.
type again struct {
	open func() (io.ReadCloser, error)
	rc   io.ReadCloser
}

func (a *again) Read(p []byte) (int, error) {
	if a.rc == nil {
		var err error
		if a.rc, err = a.open(); err != nil {
			return 0, err
		}
	}
	return a.rc.Read(p)
}

func (a *again) Close() error {
	if a.rc == nil {
		return nil
	}
	return a.rc.Close()
}
