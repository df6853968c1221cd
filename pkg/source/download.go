package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Download is a file as a server sends it: one stream of bytes, however many
// connections they come over. After a break it asks for the rest. Whether the bytes
// are the right ones is for the caller to verify.
type Download struct {
	Context context.Context
	Client  *http.Client // its transport is [Patient]
	URL     string
	// Size is the file's, in bytes; negative if it is not known.
	Size int64
	// Offset is where in the file the stream begins. It grows as the stream is read.
	Offset int64
	// Sleep is as in [Options]; Note as in [Image.Blob].
	Sleep func(context.Context, time.Duration) error
	Note  func(text string)

	body     io.ReadCloser // from Offset on; nil where there is no connection
	whole    bool          // the server refuses ranges
	ended    bool          // a file of unknown size has ended
	failures int           // since there was progress
	since    int64         // Offset at the last failure
}

// lengthError is the error of a file that has another size on the server than it
// should have, in bytes.
type lengthError struct{ want, got int64 }

func (e *lengthError) Error() string {
	return fmt.Sprintf("it should have %d bytes, and has %d on the server", e.want, e.got)
}

// Read implements [io.Reader].
func (d *Download) Read(p []byte) (int, error) {
	end := d.Size
	if end < 0 {
		end = math.MaxInt64
	}
	for !d.ended && d.Offset < end {
		if d.body == nil {
			if err := d.connect(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := d.body.Read(p[:min(int64(len(p)), end-d.Offset)])
		d.Offset += int64(n)
		switch {
		case err == io.EOF && d.Size < 0:
			d.ended = true // net/http has compared Content-Length
		case err != nil && d.Offset < end:
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
func (d *Download) Close() error {
	if d.body == nil {
		return nil
	}
	return d.body.Close()
}

// failed ends a connection that broke and waits before the next one. It returns an
// error if another connection is of no use.
func (d *Download) failed(err error) error {
	if d.body != nil {
		d.body.Close()
		d.body = nil
	}
	if d.Context.Err() != nil {
		return d.Context.Err()
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if d.Offset-d.since >= progress {
		d.failures = 0
	}
	d.since = d.Offset
	if d.failures++; d.failures == maxTries {
		return tried(err, maxTries)
	}
	if d.Note != nil {
		d.Note(fmt.Sprintf("broke off after %d of %d bytes (%v); it continues from there", d.Offset, d.Size, err))
	}
	return d.Sleep(d.Context, backoff(d.failures))
}

// connect asks for the rest. It leaves the body at Offset, or no body if another
// attempt may do better.
func (d *Download) connect() error {
	req, err := http.NewRequestWithContext(d.Context, http.MethodGet, d.URL, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "imgcheck")
	req.Header.Set("Accept-Encoding", "identity") // net/http would decompress
	ranged := d.Offset > 0 && !d.whole
	if ranged {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.Offset))
	}
	resp, err := d.Client.Do(req)
	if err != nil {
		return err // the transport has made several attempts
	}
	d.body = resp.Body
	at := int64(0)
	switch {
	case resp.StatusCode == http.StatusOK && d.Size >= 0 && resp.ContentLength >= 0 && resp.ContentLength != d.Size:
		return &lengthError{d.Size, resp.ContentLength}
	case resp.StatusCode == http.StatusOK:
		// also the answer of a server that does not know Range
	case ranged && resp.StatusCode == http.StatusPartialContent:
		var ok bool
		if at, ok = rangeStart(resp.Header.Get("Content-Range")); !ok || at > d.Offset {
			return d.refuse(fmt.Errorf("it answered bytes %q", resp.Header.Get("Content-Range")))
		}
	case ranged && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && d.Size < 0:
		d.ended = true // the file has no more bytes than there are
		return nil
	case ranged && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return d.refuse(errors.New("it refused the range"))
	default:
		defer d.Close()
		return transport.CheckError(resp, http.StatusOK)
	}
	if _, err := io.CopyN(io.Discard, d.body, d.Offset-at); err != nil {
		return d.failed(err)
	}
	return nil
}

// refuse asks for no ranges any more, which the server does not understand.
func (d *Download) refuse(err error) error {
	d.whole = true
	return d.failed(err)
}

// rangeStart returns where the range of a Content-Range begins (RFC 9110, 14.4).
func rangeStart(s string) (int64, bool) {
	rest, ok := strings.CutPrefix(s, "bytes ")
	first, _, dash := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return n, ok && dash && err == nil && n >= 0
}
