package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// Without a terminal, a line is printed now and then, but not for a small image.
func TestProgressLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, false, false)
		p.begin([]source.Layer{{Size: 50e6}, {Size: 400e6}, {Size: 9}})
		p.add(0, 50e6)
		p.add(1, 1e6)
		wait := func() { time.Sleep(lineEvery); synctest.Wait() }
		wait()
		p.add(1, 99e6)
		wait()
		wait() // nothing new
		p.add(1, 300e6)
		wait()
		p.told("a\nwheel", 25e6, 100e6)
		p.pause() // affects bars only
		wait()
		p.told("a\nwheel", 100e6, 100e6)
		p.begin([]source.Layer{{Size: 100e6}}) // of the next image
		p.add(0, 50e6)
		wait()
		p.done()
		p.add(0, 1)
		p.told("a\nwheel", 1, 2)
		p.done()
		want := "imgcheck: read 150.0 MB, layer 2 is at 25 %\nimgcheck: read 450.0 MB\nimgcheck: read 475.0 MB, a wheel is at 25 %\nimgcheck: read 600.0 MB, layer 1 is at 50 %\n"
		if got := out.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, true, false)
		p.add(0, 1<<30)
		p.told("wheel", 1<<30, 1<<31)
		time.Sleep(10 * lineEvery)
		p.note(0, "is in\nthe cache")
		p.note(-1, "no cache")
		p.done()
		if got, want := out.String(), "imgcheck: layer 1: is in the cache\nimgcheck: no cache\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
