package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How long a server is waited for. Only silence is bounded, never the whole: ten
// gigabytes over a slow line take as long as they take.
const (
	defaultStall = time.Minute
	maxTries     = 6               // of a request, or of a download without progress
	progress     = 1 << 20         // after this many bytes the failure count is reset
	maxWait      = 2 * time.Minute // that a server may ask for (Retry-After)

	// A line of less than a kilobyte a second counts as silent, too: so few bytes
	// while they were waited for so many times as long as silence may last.
	slowBytes = 256 << 10
	slowFor   = 5
)

// stalledError is the error of a server that sent nothing for so long.
type stalledError time.Duration

func (e stalledError) Error() string { return "no data for " + time.Duration(e).String() }

// Temporary reports that the request may be sent again.
func (e stalledError) Temporary() bool { return true }

// slowError is the error of a server that sent next to nothing for so long.
type slowError time.Duration

func (e slowError) Error() string {
	return fmt.Sprintf("fewer than %d KiB in %v", slowBytes>>10, time.Duration(e))
}

// Temporary reports that the request may be sent again.
func (e slowError) Temporary() bool { return true }

// triedError is the last of several errors of a server that sent nothing.
type triedError struct {
	error
	times int
}

func (e *triedError) Unwrap() error { return e.error }

// tried returns the error of the last of several attempts. net/http looks at the types
// of other errors than a stalledError without unwrapping them.
func tried(err error, times int) error {
	if times > 1 && errors.As(err, new(stalledError)) {
		return &triedError{err, times}
	}
	return err
}

// Sleep waits, or returns the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// backoff returns how long to wait after so many failures.
func backoff(failures int) time.Duration { return time.Second << min(failures-1, 4) }

// Patient returns a transport that bounds the silence of a server and sends a request
// again where that may help.
func Patient(base http.RoundTripper, o Options) http.RoundTripper {
	return newPatient(base, o.stall(), o.sleeper())
}

func newPatient(base http.RoundTripper, stall time.Duration, sleep func(context.Context, time.Duration) error) *patient {
	return &patient{base, stall, sleep, new(waits)}
}

// patient is a transport that gives up a request only if nothing comes for a while,
// and sends it again if that may help.
type patient struct {
	base  http.RoundTripper
	stall time.Duration
	sleep func(context.Context, time.Duration) error
	waits *waits
}

// RoundTrip implements [http.RoundTripper].
func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	req = redirected(req)
	if err := p.waits.over(0); err != nil {
		return nil, err
	}
	for failures := 1; ; failures++ {
		resp, err := p.try(req)
		if failures == maxTries || !passing(req, resp, err) || req.Body != nil && req.GetBody == nil {
			return resp, tried(err, failures)
		}
		wait, why := backoff(failures), ""
		if resp != nil {
			wait, why = max(wait, retryAfter(resp)), fmt.Sprintf("it answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		} else {
			why = brief(err).Error()
		}
		switch over := p.pause(req, wait, why); {
		case errors.As(over, new(waitedError)) && resp != nil:
			return resp, nil // which says why
		case errors.As(over, new(waitedError)):
			return nil, tried(err, failures)
		case over != nil:
			if resp != nil {
				resp.Body.Close()
			}
			return nil, over
		}
		if resp != nil {
			resp.Body.Close()
		}
		if req.GetBody != nil {
			req = req.Clone(req.Context())
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// passing reports whether a failure may pass. After an interrupt an answer may as
// well: the wait for the next attempt returns the context's error, which the answer
// would hide.
func passing(req *http.Request, resp *http.Response, err error) bool {
	if err != nil && req.Context().Err() != nil {
		return false
	}
	if err == nil {
		switch resp.StatusCode {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	if req.Header.Get("Range") != "" {
		return true // a server that has sent half a blob exists, or is being restarted
	}
	var timeout net.Error
	var stalled stalledError
	var dial *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial", errors.As(err, &dns):
		return false // a wrong name, or no network: one such wait is long enough
	case errors.As(err, &stalled), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed), isReset(err.Error()):
		return true
	}
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isReset reports whether an error is that of an HTTP/2 stream or connection which the
// server has ended: net/http does not export its types (RFC 9113, 6.4 and 6.8).
func isReset(text string) bool {
	return strings.Contains(text, "stream error: ") || strings.Contains(text, "server sent GOAWAY")
}

// retryAfter returns how long a server asks not to be sent requests.
func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxWait)
}

// try sends a request once. It ignores an answer that comes after the request was given
// up: it may be incomplete, or caused by that (a proxy's 502).
func (p *patient) try(req *http.Request) (*http.Response, error) {
	asked := req.Context()
	ctx, cancel := context.WithCancel(asked)
	timer := time.AfterFunc(p.stall, cancel)
	req = req.WithContext(ctx)
	if again := req.GetBody; req.Body != nil && req.Body != http.NoBody {
		req.Body = sending{req.Body, timer, p.stall}
		if again != nil {
			req.GetBody = func() (io.ReadCloser, error) {
				b, err := again()
				return sending{b, timer, p.stall}, err
			}
		}
	}
	start, silence := time.Now(), p.waits.silence(asked, req.URL.Host)
	silence.begin()
	resp, err := p.base.RoundTrip(req)
	silence.end()
	p.waits.waited(start)
	if !timer.Stop() {
		if resp != nil {
			resp.Body.Close()
		}
		cancel()
		return nil, stalledError(p.stall)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = newBody(asked, resp.Body, req.URL.Host, p, timer, cancel)
	return resp, nil
}

// patientBody is a body that is given up if nothing, or next to nothing, comes while it
// is read. Time between its reads does not count.
type patientBody struct {
	io.ReadCloser
	asked  context.Context // of who asked for it
	timer  *time.Timer
	stall  time.Duration
	cancel func()
	waited time.Duration // for got
	got    int

	waits   *waits
	host    string
	silence *silenceTimer
}

// newBody returns the body of an answer. timer, which was stopped, calls cancel.
func newBody(asked context.Context, rc io.ReadCloser, host string, p *patient, timer *time.Timer, cancel func()) *patientBody {
	b := &patientBody{ReadCloser: rc, asked: asked, timer: timer, stall: p.stall, cancel: cancel, waits: p.waits, host: host}
	b.silence = p.waits.silence(asked, host)
	return b
}

func (b *patientBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.stall)
	b.silence.begin()
	start := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.silence.end()
	b.waits.waited(start)
	b.waits.read(n)
	if !b.timer.Stop() {
		return 0, stalledError(b.stall)
	}
	if gone := b.asked.Err(); err != nil && err != io.EOF && gone != nil {
		// net/http closes the connection, and a read may say only that.
		return n, gone
	}
	b.waited += time.Since(start)
	b.got += n
	if b.got >= slowBytes {
		b.waited, b.got = 0, 0
	}
	if b.waited >= tellAfter && b.got < int(b.waited/time.Second)<<10 {
		b.waits.tell(b.asked, b.host, "it sends less than 1 KiB a second")
	}
	if err == nil && b.waited >= slowFor*b.stall {
		b.waits.waited(start.Add(-b.waited))
		return n, slowError(slowFor * b.stall)
	}
	return n, err
}

func (b *patientBody) Close() error {
	b.silence.end()
	defer b.cancel()
	return b.ReadCloser.Close()
}

// sending is the body of a request. It resets the timer whenever the server takes some
// of it.
type sending struct {
	io.ReadCloser
	timer *time.Timer
	stall time.Duration
}

func (s sending) Read(p []byte) (int, error) {
	s.timer.Reset(s.stall)
	return s.ReadCloser.Read(p)
}
