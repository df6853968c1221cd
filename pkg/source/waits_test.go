package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// told collects the lines about waiting, with the minute of each.
type told struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (w *told) context(ctx context.Context) context.Context {
	w.start = time.Now()
	return WithNotice(ctx, func(text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lines = append(w.lines, fmt.Sprintf("%v %s", time.Since(w.start), text))
	})
}

// said returns the lines so far.
func (w *told) said() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lines)
}

// However a server makes a client wait, the client says so once and then each minute, and all waits
// together end. The clock is synctest's.
func TestWaitsAreToldAndBounded(t *testing.T) {
	silent := func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	busy := respond(429, "Retry-After: 100", http.NoBody)
	drip := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: dripping{}, Request: &http.Request{}}, nil
	}
	for _, tt := range []struct {
		name    string
		answer  answer
		request int // of so many requests
		most    time.Duration
		lines   []string
		err     string
	}{
		{"busy", busy, 50, maxWaits, []string{
			"0s waiting for host: it answered 429 Too Many Requests; it is asked again in 1m40s",
			"1m40s waiting for host: it answered 429 Too Many Requests; it is asked again in 1m40s",
			"3m20s waiting for host: it answered 429 Too Many Requests; it is asked again in 1m40s",
		}, "429"},
		{"silent", silent, 50, maxWaits + defaultStall + time.Minute, []string{
			"10s waiting for host: it has sent nothing for more than 10s",
			"1m11s waiting for host: it has sent nothing for more than 10s",
			"2m13s waiting for host: it has sent nothing for more than 10s",
			"3m17s waiting for host: it has sent nothing for more than 10s",
			"4m25s waiting for host: it has sent nothing for more than 10s",
		}, "no data for 1m0s"},
		{"a byte a second", drip, 50, maxWaits + slowFor*defaultStall, []string{
			"10s waiting for host: it sends less than 1 KiB a second",
			"1m10s waiting for host: it sends less than 1 KiB a second",
			"2m10s waiting for host: it sends less than 1 KiB a second",
			"3m10s waiting for host: it sends less than 1 KiB a second",
			"4m10s waiting for host: it sends less than 1 KiB a second",
		}, "fewer than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w told
				ctx := w.context(t.Context())
				answers := make([]answer, 1000)
				for i := range answers {
					answers[i] = tt.answer
				}
				p := newPatient(&server{answers: answers}, defaultStall, Sleep)
				start, first := time.Now(), ""
				for range tt.request {
					got := ask(ctx, t, p)
					if first == "" {
						first = got
					}
				}
				if took := time.Since(start); took > tt.most {
					t.Errorf("%d requests took %v, more than %v", tt.request, took, tt.most)
				}
				lines := w.said()
				if len(lines) > len(tt.lines) {
					lines = lines[:len(tt.lines)]
				}
				if diff := cmp.Diff(tt.lines, lines); diff != "" || !strings.Contains(first, tt.err) {
					t.Errorf("%s: -want +got\n%s", first, diff)
				}
			})
		})
	}
}

// ask sends a request and reads its answer. It returns the error, or the status.
func ask(ctx context.Context, t *testing.T, p *patient) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.RoundTrip(req)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(resp.StatusCode)
}

// dripping sends a byte a second, without end.
type dripping struct{}

func (dripping) Read(b []byte) (int, error) {
	time.Sleep(time.Second)
	b[0] = 'x'
	return 1, nil
}

func (dripping) Close() error { return nil }

// A line that is slow now and then, and goes on, is never given up.
func TestProgressEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hesitant := func(*http.Request) (*http.Response, error) {
			time.Sleep(50 * time.Second)
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(make([]byte, progress)))}, nil
		}
		answers := make([]answer, 100)
		for i := range answers {
			answers[i] = hesitant
		}
		p := newPatient(&server{answers: answers}, defaultStall, Sleep)
		for i := range answers {
			if got := ask(t.Context(), t, p); got != "200" {
				t.Fatalf("request %d: %s", i, got)
			}
		}
	})
}
