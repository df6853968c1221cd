package layers

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

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// How long a registry is waited for. Only silence is bounded, never the whole:
// ten gigabytes over a slow line take as long as they take.
const (
	defaultStall = time.Minute
	maxTries     = 6               // of a request, or of a download without progress
	progress     = 1 << 20         // bytes that make up for the failures before them
	maxWait      = 2 * time.Minute // that a server may ask for (Retry-After)

	// A line of less than a kilobyte a second is silent as well: so few bytes, while
	// they were waited for so many times as long as silence may last.
	slowBytes = 256 << 10
	slowFor   = 5
)

// stalledError says that a server sent nothing for so long.
type stalledError time.Duration

func (e stalledError) Error() string {
	return "nothing came for " + time.Duration(e).String()
}

// Temporary says so to whoever may ask again.
func (e stalledError) Temporary() bool { return true }

// slowError says that a server sent next to nothing for so long.
type slowError time.Duration

func (e slowError) Error() string {
	return fmt.Sprintf("fewer than %d KiB came in %v", slowBytes>>10, time.Duration(e))
}

// Temporary says so to whoever may ask again.
func (e slowError) Temporary() bool { return true }

// patient is a transport that gives up a request only when nothing comes for a
// while, and asks again when that may help.
type patient struct {
	base  http.RoundTripper
	stall time.Duration
	sleep func(context.Context, time.Duration) error
}

// sleep waits, or gives the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// backoff is how long to wait after so many failures.
func backoff(failures int) time.Duration {
	return time.Second << min(failures-1, 4)
}

// RoundTrip implements [http.RoundTripper].
func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	for failures := 1; ; failures++ {
		resp, err := p.try(req)
		if failures == maxTries || !passing(req, resp, err) || req.Body != nil && req.GetBody == nil {
			return resp, err
		}
		wait := backoff(failures)
		if resp != nil {
			wait = max(wait, retryAfter(resp))
			resp.Body.Close()
		}
		if err := p.sleep(req.Context(), wait); err != nil {
			return nil, err
		}
		if req.GetBody != nil {
			req = req.Clone(req.Context())
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// passing reports whether a failure may pass. After an interrupt an answer may as well:
// the wait for the next attempt gives the context's error, which the answer would hide.
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
		return true // who has sent half a blob is there, or starting again
	}
	var timeout net.Error
	var stalled stalledError
	var dial *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial", errors.As(err, &dns):
		return false // a wrong name, or no network: waiting for that takes long enough once
	case errors.As(err, &stalled), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed), isReset(err.Error()):
		return true
	}
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isReset reports whether an error says that HTTP/2 has ended a stream or a
// connection: net/http keeps its types to itself (RFC 9113, 6.4 and 6.8).
func isReset(text string) bool {
	return strings.Contains(text, "stream error: ") || strings.Contains(text, "server sent GOAWAY")
}

// retryAfter is how long a server asks to be left alone.
func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxWait)
}

// try sends a request once. What comes after it was given up is not believed: an
// answer then may be to the giving up (a proxy's 502), and half of something.
func (p *patient) try(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
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
	resp, err := p.base.RoundTrip(req)
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
	resp.Body = &patientBody{ReadCloser: resp.Body, timer: timer, stall: p.stall, cancel: cancel}
	return resp, nil
}

// patientBody is a body that is given up when nothing, or next to nothing, comes
// while it is read. What its reader does in between does not count.
type patientBody struct {
	io.ReadCloser
	timer  *time.Timer
	stall  time.Duration
	cancel func()
	waited time.Duration // for got
	got    int
}

func (b *patientBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.stall)
	start := time.Now()
	n, err := b.ReadCloser.Read(p)
	if !b.timer.Stop() {
		return 0, stalledError(b.stall)
	}
	b.waited += time.Since(start)
	b.got += n
	if b.got >= slowBytes {
		b.waited, b.got = 0, 0
	}
	if err == nil && b.waited >= slowFor*b.stall {
		return n, slowError(slowFor * b.stall)
	}
	return n, err
}

func (b *patientBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// download is a blob as it comes from a registry: one stream of bytes, however
// many connections they come over. What breaks off is asked for from where it
// broke off; whether the bytes are the right ones is for whoever reads them to
// verify.
type download struct {
	ctx    context.Context
	client *http.Client
	url    string
	size   int64 // of the blob
	sleep  func(context.Context, time.Duration) error
	note   func(string)

	off      int64         // bytes that were given
	body     io.ReadCloser // from off on; nil when there is no connection
	whole    bool          // the server refuses ranges
	failures int           // since there was progress
	since    int64         // off at the last failure
}

// Read implements [io.Reader].
func (d *download) Read(p []byte) (int, error) {
	for d.off < d.size {
		if d.body == nil {
			if err := d.connect(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := d.body.Read(p[:min(int64(len(p)), d.size-d.off)])
		d.off += int64(n)
		if err != nil && d.off < d.size {
			if err := d.failed(err); err != nil {
				return n, err
			}
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

// Close ends the download.
func (d *download) Close() error {
	if d.body == nil {
		return nil
	}
	return d.body.Close()
}

// failed ends a connection that broke off, and waits; or it says why there is no
// use in another one.
func (d *download) failed(err error) error {
	if d.body != nil {
		d.body.Close()
		d.body = nil
	}
	if d.ctx.Err() != nil {
		return d.ctx.Err()
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if d.off-d.since >= progress {
		d.failures = 0
	}
	d.since = d.off
	if d.failures++; d.failures == maxTries {
		return err
	}
	d.note(fmt.Sprintf("broke off after %d of %d bytes (%v): it goes on from there", d.off, d.size, err))
	return d.sleep(d.ctx, backoff(d.failures))
}

// connect asks for what is left. It leaves the body at the offset, or none when
// another attempt may do better.
func (d *download) connect() error {
	req, err := http.NewRequestWithContext(d.ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "identity") // net/http would decompress
	ranged := d.off > 0 && !d.whole
	if ranged {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.off))
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return err // the transport has asked more than once
	}
	d.body = resp.Body
	at := int64(0)
	switch {
	case resp.StatusCode == http.StatusOK && resp.ContentLength >= 0 && resp.ContentLength != d.size:
		return fmt.Errorf("the manifest says that it has %d bytes, the registry that it has %d: the image is damaged, or a proxy has changed it", d.size, resp.ContentLength)
	case resp.StatusCode == http.StatusOK:
		// also the answer of a server that does not know Range
	case ranged && resp.StatusCode == http.StatusPartialContent:
		var ok bool
		if at, ok = rangeStart(resp.Header.Get("Content-Range")); !ok || at > d.off {
			return d.refuse(fmt.Errorf("it answered bytes %q", resp.Header.Get("Content-Range")))
		}
	case ranged && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return d.refuse(errors.New("it refused the range"))
	default:
		defer d.Close()
		return transport.CheckError(resp, http.StatusOK)
	}
	if _, err := io.CopyN(io.Discard, d.body, d.off-at); err != nil {
		return d.failed(err)
	}
	return nil
}

// refuse asks for no ranges any more: the server makes no sense of them.
func (d *download) refuse(err error) error {
	d.whole = true
	return d.failed(err)
}

// rangeStart is where the range of a Content-Range begins (RFC 9110, 14.4).
func rangeStart(s string) (int64, bool) {
	rest, ok := strings.CutPrefix(s, "bytes ")
	first, _, dash := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return n, ok && dash && err == nil && n >= 0
}
