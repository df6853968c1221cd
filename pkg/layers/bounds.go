package layers

import (
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
	maxRedirects = 10 // as net/http has it

	// pushStall is how long a registry may need to answer when it is written to:
	// some put a large blob together, or look at it, before they do.
	pushStall = 10 * time.Minute
)

var (
	errRedirects = errors.New("it redirects without end")
	errPlain     = errors.New("plain HTTP")
)

// bounded is a transport that lets a registry go only so far. go-containerregistry
// reads manifests of 100 MiB, drains what its ping gets to its end, follows
// redirects for ever, and speaks plain HTTP to whoever answers nothing else at an
// address of an inner network, login and all.
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
		return nil, errPlain
	}
	resp, err := b.base.RoundTrip(req)
	if err == nil && (resp.StatusCode >= 300 || !isBlob(first)) {
		resp.Body = &boundedBody{resp.Body, maxAnswer}
	}
	return resp, err
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

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("what the registry answers is larger than the %d bytes that are read", maxAnswer)
	}
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
