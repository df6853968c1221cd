package source

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// A reader says that it waits, and all waits together are bounded: a server may be silent, slow, or ask for patience at
// each of hundreds of requests.
const (
	tellAfter = 10 * time.Second // of waiting
	tellEvery = time.Minute
	maxWaits  = 5 * time.Minute // for one server without progress, besides the wait that exceeds it
)

// waits are the waits of one client for its servers. Any number of goroutines may use it.
type waits struct {
	mu    sync.Mutex
	total time.Duration // of waits of tellAfter and more; parallel ones count once
	until time.Time     // the end of the last one
	told  time.Time     // when the last line was written
	got   int           // bytes since total was reset
}

// waitedError is the error of a server for which all waits together were too long.
type waitedError time.Duration

func (e waitedError) Error() string {
	return fmt.Sprintf("it was waited for %v in all", time.Duration(e).Round(time.Second))
}

// over returns an error if more than maxWaits have passed, or would with another wait.
func (w *waits) over(more time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total > 0 && w.total+more > maxWaits {
		return waitedError(w.total)
	}
	return nil
}

// waited counts the time from start to now.
func (w *waits) waited(start time.Time) {
	now := time.Now()
	if now.Sub(start) < tellAfter {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if start.Before(w.until) {
		start = w.until
	}
	w.total += max(0, now.Sub(start))
	w.until = now
}

// read counts bytes that have come. Enough of them are progress, after which waiting begins
// anew.
func (w *waits) read(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.got += n; w.got >= progress {
		w.total, w.got = 0, 0
	}
}

// tell writes a line about a server, unless one was written a while ago.
func (w *waits) tell(ctx context.Context, host, text string) {
	w.mu.Lock()
	now := time.Now()
	quiet := !w.told.IsZero() && now.Sub(w.told) < tellEvery
	if !quiet {
		w.told = now
	}
	w.mu.Unlock()
	if !quiet {
		noticeOf(ctx)("waiting for " + plain.Name(host) + ": " + text)
	}
}

// silenceTimer says from time to time that a server sends nothing.
type silenceTimer struct {
	mu      sync.Mutex
	waiting bool
	timer   *time.Timer
}

// silence returns a timer that has not begun.
func (w *waits) silence(ctx context.Context, host string) *silenceTimer {
	s := &silenceTimer{}
	s.timer = time.AfterFunc(tellAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting {
			w.tell(ctx, host, fmt.Sprintf("it has sent nothing for more than %v", tellAfter))
			s.timer.Reset(tellEvery)
		}
	})
	s.timer.Stop()
	return s
}

// begin says so after a while, and then each minute, until end is called.
func (s *silenceTimer) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = true
	s.timer.Reset(tellAfter)
}

func (s *silenceTimer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = false
	s.timer.Stop()
}

// pause waits before another attempt, within the bound. It returns an error if the attempt
// is not to be made.
func (p *patient) pause(req *http.Request, d time.Duration, why string) error {
	if err := p.waits.over(d); err != nil {
		return err
	}
	if d >= tellAfter {
		p.waits.tell(req.Context(), req.URL.Host, fmt.Sprintf("%s; it is asked again in %v", why, d))
	}
	start := time.Now()
	defer p.waits.waited(start)
	return p.sleep(req.Context(), d)
}
