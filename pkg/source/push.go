package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// pushStall limits the time until a registry answers a request that writes: some assemble
// or check a large blob first.
const pushStall = 10 * time.Minute

// PushTransport returns the transport to a registry for a client that repeats requests
// itself, as go-containerregistry does: an upload that broke begins with another
// request. The transport gives up a request if nothing comes for a while. It delays an
// answer that says when to come back (Retry-After) until then. A nil sleep waits.
func PushTransport(insecure bool, sleep func(context.Context, time.Duration) error) http.RoundTripper {
	o := Options{Sleep: sleep}
	return &calm{*newPatient(newBounded(insecure), defaultStall, o.sleeper())}
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
		err := p.pause(req, wait, fmt.Sprintf("it answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
		if errors.As(err, new(waitedError)) {
			return resp, nil
		}
		if err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp, nil
}

// again is the body of a request that is sent once more. It is opened when it is read.
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
