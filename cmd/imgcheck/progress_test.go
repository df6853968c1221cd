package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Where no terminal is, a line tells now and then how far it is, and nothing of
// a small image.
func TestProgressLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, false, false)
		p.begin([]layers.LayerInfo{{Size: 50e6}, {Size: 400e6}, {Size: 9}})
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
		p.pause() // which is of bars only
		wait()
		p.told("a\nwheel", 100e6, 100e6)
		p.begin([]layers.LayerInfo{{Size: 100e6}}) // of the next image
		p.add(0, 50e6)
		wait()
		p.done()
		p.add(0, 1)
		p.told("a\nwheel", 1, 2)
		p.done()
		want := "imgcheck: read 150MB, layer 2 is at 25 %\nimgcheck: read 450MB\nimgcheck: read 475MB, a wheel is at 25 %\nimgcheck: read 600MB, layer 1 is at 50 %\n"
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

// On a terminal each layer, and each library that is downloaded, has a bar while it
// is being read, also after something was written between, and none is left.
func TestProgressBars(t *testing.T) {
	primary, terminal := pty(t)
	t.Setenv("TERM", "xterm")
	shown, downloading, read := make(chan struct{}), make(chan struct{}), make(chan string)
	go func() {
		all, seen, later := "", false, false
		for buf := make([]byte, 4096); ; {
			n, err := primary.Read(buf) // an error when the terminal is closed
			all += string(buf[:n])
			if !seen && strings.Contains(all, "4.0 GB") {
				seen = true
				close(shown)
			}
			if !later && strings.Contains(all, "7.0 GB") && strings.Contains(all, "a_wheel.whl") {
				later = true
				close(downloading)
			}
			if err != nil {
				read <- all
				return
			}
		}
	}()
	p := newProgress(terminal, false, true)
	p.begin([]layers.LayerInfo{{Size: 5e6}, {Size: 4e9}})
	p.add(0, 1e6)
	p.add(1, 1e9)
	p.add(7, 1e6) // a layer that nobody told of
	<-shown
	p.note(1, "is told above the bars")
	p.add(0, 4e6)
	p.pause()
	p.told("a_wheel.whl", 2e9, 7e9)
	<-downloading
	p.done()
	p.add(1, 1e9)
	terminal.Close()
	got := <-read
	if want := "imgcheck: layer 2: is told above the bars"; !strings.Contains(got, want) {
		t.Errorf("no %q in %q", want, got)
	}
	if last := got[strings.LastIndex(got, "\n")+1:]; strings.Contains(last, "layer") || strings.Contains(last, "wheel") {
		t.Errorf("left behind: %q", last)
	}
}

// pty is a terminal of 100 columns, and its other end.
func pty(t *testing.T) (primary, terminal *os.File) {
	t.Helper()
	primary, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { primary.Close() })
	fd := int(primary.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100})); err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return primary, terminal
}
