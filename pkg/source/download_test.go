package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// answer answers one request.
type answer func(*http.Request) (*http.Response, error)

// server answers requests one after the other, without a network: the clock of a
// synctest bubble stands still while something is read from a socket.
type server struct {
	answers []answer
	asked   []string // Range of each request
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, req.Header.Get("Range"))
	if len(s.answers) == 0 {
		return nil, errors.New("asked once too often")
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a(req)
}

func respond(code int, header string, body io.Reader) answer {
	return func(req *http.Request) (*http.Response, error) {
		if b, ok := body.(*silence); ok {
			b.ctx = req.Context()
		}
		h := http.Header{}
		if key, value, ok := strings.Cut(header, ": "); ok {
			h.Set(key, value)
		}
		return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(body), ContentLength: -1, Request: req}, nil
	}
}

func fails(err error) answer {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// givenUp answers only after the request was given up.
func givenUp(then answer) answer {
	return func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return then(req)
	}
}

// silence is a body that blocks until its request is given up, and then continues with
// another.
type silence struct {
	ctx  context.Context
	then io.Reader
}

func (s *silence) Read(p []byte) (int, error) {
	<-s.ctx.Done()
	return s.then.Read(p)
}

// silent is a body that ends with silence.
type silent struct {
	io.Reader
	*silence
}

func (s silent) Read(p []byte) (int, error) {
	if n, err := s.Reader.Read(p); err != io.EOF {
		return n, err
	}
	return s.silence.Read(p)
}

// broken is an end with an error.
type broken struct{ error }

func (b broken) Read([]byte) (int, error) { return 0, b.error }

// A download survives broken connections, and ends after too many.
func TestDownload(t *testing.T) {
	blob := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(blob)
	const half = 3 << 19
	from := func(n int) io.Reader { return bytes.NewReader(blob[n:]) }
	until := func(n int, then io.Reader) io.Reader { return io.MultiReader(bytes.NewReader(blob[:n]), then) }
	stops := func(req *http.Request, b []byte) (*http.Response, error) {
		body := silent{bytes.NewReader(b), &silence{req.Context(), broken{context.Canceled}}}
		return &http.Response{StatusCode: 200, Body: io.NopCloser(body), ContentLength: -1, Request: req}, nil
	}
	reset := broken{&net.OpError{Op: "read", Err: syscall.ECONNRESET}}
	rangeOf := func(n int) string { return fmt.Sprintf("bytes=%d-", n) }
	partial := func(n int) string { return fmt.Sprintf("Content-Range: bytes %d-%d/%d", n, len(blob)-1, len(blob)) }
	nothing := func() io.Reader { return strings.NewReader("") }
	tests := []struct {
		name    string
		answers []answer
		asked   []string
		took    time.Duration
		err     string
	}{
		{"all at once", []answer{respond(200, "", from(0))}, []string{""}, 0, ""},
		{
			"broken off",
			[]answer{respond(200, "", until(half, reset)), respond(206, partial(half), from(half))},
			[]string{"", rangeOf(half)},
			time.Second, "",
		},
		{
			"ends too early",
			[]answer{respond(200, "", bytes.NewReader(blob[:half])), respond(206, partial(half), from(half))},
			[]string{"", rangeOf(half)},
			time.Second, "",
		},
		{
			"a server that knows no ranges",
			[]answer{respond(200, "", until(half, reset)), respond(200, "", until(half+9, reset)), respond(200, "", from(0))},
			[]string{"", rangeOf(half), rangeOf(half + 9)},
			3 * time.Second, "",
		},
		{
			"a server that refuses the range",
			[]answer{respond(200, "", until(half, reset)), respond(416, "", nothing()), respond(200, "", until(half+9, reset)), respond(200, "", from(0))},
			[]string{"", rangeOf(half), "", ""},
			(1 + 2 + 4) * time.Second, "",
		},
		{
			"a range that begins earlier",
			[]answer{respond(200, "", until(half, reset)), respond(206, partial(half-5), from(half-5))},
			[]string{"", rangeOf(half)},
			time.Second, "",
		},
		{
			"a range that leaves a gap",
			[]answer{respond(200, "", until(half, reset)), respond(206, partial(half+5), from(half+5)), respond(200, "", from(0))},
			[]string{"", rangeOf(half), ""},
			3 * time.Second, "",
		},
		{
			"a range that is not told",
			[]answer{respond(200, "", until(half, reset)), respond(206, "", from(half)), respond(200, "", from(0))},
			[]string{"", rangeOf(half), ""},
			3 * time.Second, "",
		},
		{
			"nothing comes any more",
			[]answer{func(req *http.Request) (*http.Response, error) { return stops(req, blob[:half]) }, respond(206, partial(half), from(half))},
			[]string{"", rangeOf(half)},
			time.Minute + time.Second, "",
		},
		{
			"no answer comes",
			[]answer{givenUp(fails(context.Canceled)), respond(200, "", from(0))},
			[]string{"", ""},
			time.Minute + time.Second, "",
		},
		{
			"an answer that comes too late",
			[]answer{givenUp(respond(404, "", nothing())), givenUp(respond(200, "", bytes.NewReader(blob[9:]))), respond(200, "", from(0))},
			[]string{"", "", ""},
			2*time.Minute + 3*time.Second, "",
		},
		{
			"a range refused too late",
			[]answer{respond(200, "", until(half, reset)), givenUp(respond(416, "", nothing())), respond(206, partial(half), from(half))},
			[]string{"", rangeOf(half), rangeOf(half)},
			time.Second + time.Minute + time.Second, "",
		},
		{
			"bytes that come too late",
			[]answer{respond(200, "", &silence{then: strings.NewReader("something else")}), respond(200, "", from(0))},
			[]string{"", ""},
			time.Minute + time.Second, "",
		},
		{
			"busy",
			[]answer{respond(503, "", nothing()), respond(429, "Retry-After: 30", nothing()), respond(502, "Retry-After: 9999", nothing()), respond(200, "", from(0))},
			[]string{"", "", "", ""},
			time.Second + 30*time.Second + 2*time.Minute, "",
		},
		{
			"it is started again meanwhile",
			[]answer{respond(200, "", until(half, reset)), fails(syscall.ECONNREFUSED), respond(206, partial(half), from(half))},
			[]string{"", rangeOf(half), rangeOf(half)},
			2 * time.Second, "",
		},
		{"nobody is there", []answer{fails(syscall.ECONNREFUSED)}, []string{""}, 0, `Get "http://registry/blob": connection refused`},
		{"nobody answers", []answer{fails(&net.OpError{Op: "dial", Err: context.DeadlineExceeded})}, []string{""}, 0, `Get "http://registry/blob": dial: context deadline exceeded`},
		{
			"the network is gone for a while",
			[]answer{respond(200, "", until(half, reset)), fails(&net.DNSError{Err: "no such host"}), respond(206, partial(half), from(half))},
			[]string{"", rangeOf(half), rangeOf(half)},
			2 * time.Second, "",
		},
		{"not there", []answer{respond(404, "", nothing())}, []string{""}, 0, "GET http://registry/blob: unexpected status code 404 Not Found"},
		{
			"longer than it should be",
			[]answer{respond(200, "", bytes.NewReader(append(bytes.Clone(blob), 'x')))},
			[]string{""},
			0, "",
		},
		{
			"again and again",
			[]answer{
				respond(200, "", until(half, reset)), respond(206, partial(half), reset), respond(206, partial(half), reset),
				respond(206, partial(half), reset), respond(206, partial(half), reset), respond(206, partial(half), reset),
			},
			[]string{"", rangeOf(half), rangeOf(half), rangeOf(half), rangeOf(half), rangeOf(half)},
			(1 + 2 + 4 + 8 + 16) * time.Second, "read: connection reset by peer",
		},
		{
			"again and again, but it goes on",
			[]answer{
				respond(200, "", reset), respond(200, "", reset), respond(200, "", reset), respond(200, "", reset),
				respond(200, "", until(half, reset)), respond(206, partial(half), until(0, reset)), respond(206, partial(half), from(half)),
			},
			[]string{"", "", "", "", "", rangeOf(half), rangeOf(half)},
			(1 + 2 + 4 + 8 + 1 + 2) * time.Second, "",
		},
		{
			"always busy",
			[]answer{
				respond(503, "", nothing()), respond(503, "", nothing()), respond(503, "", nothing()),
				respond(503, "", nothing()), respond(503, "", nothing()), respond(503, "", nothing()),
			},
			[]string{"", "", "", "", "", ""},
			(1 + 2 + 4 + 8 + 16) * time.Second, "GET http://registry/blob: unexpected status code 503 Service Unavailable",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answers: tt.answers}
				d := &Download{
					Context: t.Context(), Client: &http.Client{Transport: newPatient(s, time.Minute, Sleep)}, URL: "http://registry/blob",
					Size: int64(len(blob)), Sleep: Sleep,
				}
				start := time.Now()
				got, err := io.ReadAll(d)
				if took := time.Since(start); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				if msg := fmt.Sprint(err); err != nil && msg != tt.err || err == nil && tt.err != "" {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				if err == nil && !bytes.Equal(got, blob) {
					t.Errorf("got %d other bytes", len(got))
				}
				if diff := cmp.Diff(tt.asked, s.asked); diff != "" || len(s.answers) > 0 {
					t.Errorf("-want +asked, %d not asked:\n%s", len(s.answers), diff)
				}
				d.Close()
			})
		})
	}
}

// An interrupted download ends at once.
func TestDownloadInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, a := range map[string]answer{
			"while it waits for an answer": givenUp(fails(context.Canceled)),
			"while it waits to ask again":  respond(503, "Retry-After: 100", strings.NewReader("")),
			"while nothing comes":          respond(200, "", &silence{then: broken{context.Canceled}}),
		} {
			ctx, cancel := context.WithCancel(t.Context())
			s := &server{answers: []answer{a}}
			d := &Download{
				Context: ctx, Client: &http.Client{Transport: newPatient(s, time.Minute, Sleep)}, URL: "http://registry/blob",
				Size: 5, Sleep: Sleep,
			}
			start := time.Now()
			time.AfterFunc(10*time.Second, cancel)
			if _, err := io.ReadAll(d); !errors.Is(err, context.Canceled) || time.Since(start) != 10*time.Second {
				t.Errorf("%s: error %v after %v", name, err, time.Since(start))
			}
			d.Close()
		}
	})
}

// A request with a body is sent whole again, or not again.
func TestPatientSendsBodiesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		reads := func(code int) answer {
			return func(req *http.Request) (*http.Response, error) {
				b, err := io.ReadAll(req.Body)
				sent = append(sent, string(b))
				return &http.Response{StatusCode: code, Body: http.NoBody, Request: req}, err
			}
		}
		p := newPatient(&server{answers: []answer{reads(503), reads(200)}}, time.Minute, Sleep)
		req, err := http.NewRequest("POST", "http://registry/token", strings.NewReader("grant"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := p.RoundTrip(req)
		if err != nil || resp.StatusCode != 200 || !cmp.Equal(sent, []string{"grant", "grant"}) {
			t.Errorf("%v, %v, sent %q", resp, err, sent)
		}
		resp.Body.Close()
		sent = nil
		p = newPatient(&server{answers: []answer{reads(503)}}, time.Minute, Sleep)
		req, err = http.NewRequest("POST", "http://registry/token", io.MultiReader(strings.NewReader("grant")))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err = p.RoundTrip(req); err != nil || resp.StatusCode != 503 || len(sent) != 1 {
			t.Errorf("%v, %v, sent %q", resp, err, sent)
		}
		resp.Body.Close()
	})
}

// A token that expires while a layer is being read is renewed, and the download
// continues.
func TestTokenExpires(t *testing.T) {
	var mu sync.Mutex
	tokens, expired, blobs, ranges := 0, 0, 0, 0
	ref := handled(t, false, func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/token" {
			tokens++
			fmt.Fprintf(w, `{"token": "t%d"}`, tokens)
			return true
		}
		// A token is good until it expires, whoever else has got a newer one.
		number, err := strconv.Atoi(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer t"))
		if err != nil || number <= expired {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		img := imagetest.V1(t, appImage)
		list, err := img.Layers()
		if err != nil {
			t.Error(err)
		}
		digest, _ := list[1].Digest()
		if r.Method != "GET" || !strings.HasSuffix(r.URL.Path, digest.Hex) {
			return false
		}
		rc, err := list[1].Compressed()
		if err != nil {
			t.Error(err)
		}
		b, err := io.ReadAll(rc)
		if err != nil {
			t.Error(err)
		}
		if r.Header.Get("Range") != "" {
			ranges++
		}
		if blobs++; blobs == 1 {
			expired = tokens
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			w.Write(b[:len(b)/2])
			return true // and the server closes the connection
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
		return true
	})
	wantApp(t, ref, Options{})
	if tokens < 2 || blobs != 2 || ranges != 1 {
		t.Errorf("%d tokens, the blob was asked for %d times, %d times from where it broke off", tokens, blobs, ranges)
	}
}

// A registry may redirect its clients, but not to an inner network.
func TestRedirects(t *testing.T) {
	s := newRegistry(t)
	push(t, s, "app:1", appImage)
	_, port, err := net.SplitHostPort(s.Host)
	if err != nil {
		t.Fatal(err)
	}
	to := func(host string) string {
		return handled(t, false, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != "GET" || !strings.Contains(r.URL.Path, "/blobs/") || strings.Contains(r.URL.Path, configOf(t)) {
				return false
			}
			http.Redirect(w, r, (&url.URL{Scheme: "http", Host: host, Path: r.URL.Path}).String(), http.StatusTemporaryRedirect)
			return true
		})
	}
	wantApp(t, to(s.Host), Options{})
	wantApp(t, to("localhost:"+port), Options{})
	img, err := Open(t.Context(), to("169.254.169.254"), Options{Sleep: noSleep})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	if _, err = read(t.Context(), img); err == nil || !strings.Contains(err.Error(), "it redirects to 169.254.169.254, an address of an inner network") {
		t.Errorf("error %v", err)
	}
}

func configOf(t *testing.T) string {
	t.Helper()
	h, err := imagetest.V1(t, appImage).ConfigName()
	if err != nil {
		t.Error(err)
	}
	return h.Hex
}

// The error of a silent server names the number of attempts.
func TestStopsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		for range maxTries {
			s.answers = append(s.answers, givenUp(fails(context.Canceled)))
		}
		d := &Download{Context: t.Context(), Client: &http.Client{Transport: newPatient(s, time.Minute, Sleep)}, URL: "http://registry/blob", Size: 5, Sleep: Sleep}
		_, err := io.ReadAll(d)
		const want = "registry stopped sending: no data for 1m0s in 5 attempts; try again later" // maxWaits
		if got := fmt.Sprint(HostError("registry", err)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
