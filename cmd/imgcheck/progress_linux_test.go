package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// On a terminal each layer and each download has a bar while it is read, also after
// other output, and no bar is left at the end.
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
	p.begin([]source.Layer{{Size: 5e6}, {Size: 4e9}})
	p.add(0, 1e6)
	p.add(1, 1e9)
	p.add(7, 1e6) // a layer that was not announced
	<-shown
	p.note(1, "is printed above the bars")
	p.add(0, 4e6)
	p.pause()
	p.told("a_wheel.whl", 2e9, 7e9)
	<-downloading
	p.done()
	p.add(1, 1e9)
	terminal.Close()
	got := <-read
	if want := "imgcheck: layer 2: is printed above the bars"; !strings.Contains(got, want) {
		t.Errorf("no %q in %q", want, got)
	}
	if last := got[strings.LastIndex(got, "\n")+1:]; strings.Contains(last, "layer") || strings.Contains(last, "wheel") {
		t.Errorf("left behind: %q", last)
	}
}

// pty returns both ends of a terminal of 100 columns.
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
