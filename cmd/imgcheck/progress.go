package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// progress shows on a terminal how much has been read. Anywhere else it is
// silent.
type progress struct {
	w     io.Writer
	bytes atomic.Int64
	stop  chan struct{}
	once  sync.Once
	idle  sync.WaitGroup
}

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, stop: make(chan struct{})}
	if !quiet && isTerminal(w) {
		p.idle.Add(1)
		go p.show()
	}
	return p
}

// add counts bytes of a layer.
func (p *progress) add(_, n int) { p.bytes.Add(int64(n)) }

func (p *progress) show() {
	defer p.idle.Done()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			fmt.Fprint(p.w, "\r\x1b[K")
			return
		case <-tick.C:
			text := "reading the image"
			if n := p.bytes.Load(); n > 0 {
				text = fmt.Sprintf("reading layers: %.1f MB", float64(n)/1e6)
			}
			fmt.Fprint(p.w, "\r\x1b[K"+text)
		}
	}
}

// done ends the display and leaves the line empty.
func (p *progress) done() {
	p.once.Do(func() { close(p.stop) })
	p.idle.Wait()
}
