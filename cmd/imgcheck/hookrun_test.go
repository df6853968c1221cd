package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgcheck/imgcheck/pkg/githook"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// A push that names 1,200 new images does not wait for all of them: several are scanned
// at a time, and the push goes on at the timeout. The clock is synctest's.
func TestPushTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var images []githook.Image
		for i := range 1200 {
			images = append(images, githook.Image{Ref: fmt.Sprintf("app:%d", i), Uses: []githook.Use{{Where: fmt.Sprintf("pod%d.yaml:1", i)}}})
		}
		var running, most atomic.Int64
		scanning := func(broken string) func(context.Context, githook.Image) scanned {
			return func(ctx context.Context, im githook.Image) scanned {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer running.Add(-1)
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return scanned{err: ctx.Err()}
				}
				doc := new(report.Document)
				if im.Ref == broken {
					doc.Findings = []lint.Finding{{Rule: "missing-library", Severity: packs.Error, Message: "libx.so"}}
				}
				return scanned{doc: doc}
			}
		}
		for broken, want := range map[string]string{
			"":         "imgcheck: timeout after 4m30s (--timeout, IMGCHECK_TIMEOUT): 1184 of the 1200 images were not scanned, and do not stop the push: app:16, app:17, app:18 and 1181 more\n",
			"app:3":    "imgcheck: the push is stopped: 1 of the 1200 images that it concerns would fail; to push anyway: IMGCHECK_SKIP=1 git push\n",
			"app:1199": "and 1181 more\n",
		} {
			var stderr bytes.Buffer
			r := undecided(&stderr)
			limit := 4*time.Minute + 30*time.Second
			ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errTimeout)
			defer cancel()
			began := time.Now()
			err := r.scan(ctx, images, limit, scanning(broken))
			if took := time.Since(began); took != limit || most.Load() != hookAtOnce {
				t.Errorf("%s: took %s, %d at a time", broken, took, most.Load())
			}
			if (err == errFindings) != (broken == "app:3") || !strings.HasSuffix(stderr.String(), want) {
				t.Errorf("%s: %v, %s", broken, err, &stderr)
			}
			if n := strings.Count(stderr.String(), "nothing stops the push"); n < 15 || !strings.HasPrefix(stderr.String(), "imgcheck: app:0 (pod0.yaml:1): nothing") {
				t.Errorf("%s: %d images are told of\n%s", broken, n, &stderr)
			}
		}
	})
}

// undecided returns a scan of a push without a policy.
func undecided(stderr io.Writer) *pushScan {
	d := &decisions{Decisions: policy.Decisions{Policy: new(policy.Policy)}, stderr: io.Discard}
	return &pushScan{
		stdout: io.Discard, stderr: stderr, decided: d, nearest: &policies{own: d, named: true}, progress: newProgress(io.Discard, true, false),
		failOnFor: func(*decisions) (packs.Severity, error) { return packs.Error, nil },
	}
}

// Ctrl-C stops the push.
func TestPushInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	images := []githook.Image{{Ref: "a", Uses: []githook.Use{{}}}, {Ref: "b", Uses: []githook.Use{{}}}}
	r := undecided(io.Discard)
	err := r.scan(ctx, images, time.Minute, func(ctx context.Context, _ githook.Image) scanned {
		cancel()
		return scanned{err: ctx.Err()}
	})
	if err != context.Canceled {
		t.Errorf("%v", err)
	}
}
