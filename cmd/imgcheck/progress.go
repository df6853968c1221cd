package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/imgcheck/imgcheck/internal/size"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// progressFlags returns the flags of every command that shows progress.
func progressFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress; scan without --all prints only a line for each problem"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "show how each layer is read, and whether the cache has it"},
	}
}

// progress shows how much of an image and of libraries was read: on a terminal a bar for
// each layer and each file, elsewhere a line now and then.
type progress struct {
	w       io.Writer
	verbose bool
	bars    bool

	mu     sync.Mutex
	layers []*reading // by number
	others []*reading // in the order of their first bytes
	before int64      // bytes of earlier images
	pool   *mpb.Progress
	ended  bool

	once sync.Once
	stop chan struct{}
	idle sync.WaitGroup
}

// reading is a layer or a file that is being read.
type reading struct {
	name       string
	done, size int64 // in bytes; the size is 0 if unknown
	bar        *mpb.Bar
}

// Without a terminal, a line is printed at this interval, once this much was read.
const (
	lineEvery = 15 * time.Second
	lineFrom  = 64 << 20 // bytes
)

// watch shows the progress of reading with o, as the flags say, until done is called.
func watch(c *cli.Context, o *layers.Options) *progress {
	if o.Indexes != nil {
		borrowing()
	}
	p := newProgress(c.App.ErrWriter, c.Bool("quiet"), c.Bool("verbose"))
	o.Begin, o.Progress = p.begin, p.add
	if p.verbose {
		o.Note = p.note
	}
	activityOf(c.Context).shows(p)
	return p
}

func newProgress(w io.Writer, quiet, verbose bool) *progress {
	p := &progress{w: w, verbose: verbose, stop: make(chan struct{})}
	switch {
	case quiet:
	case isTerminal(w) && os.Getenv("TERM") != "dumb":
		p.bars = true
	default:
		p.idle.Go(p.lines)
	}
	return p
}

// begin adds the layers that are about to be read.
func (p *progress) begin(list []source.Layer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.layers {
		p.before += r.done // of another image
	}
	p.layers = nil
	for i, l := range list {
		p.layers = append(p.layers, &reading{name: fmt.Sprintf("layer %d", i+1), size: l.Size})
	}
}

// layer returns the layer with the number n; the layers of a stream are not announced to
// begin.
func (p *progress) layer(n int) *reading {
	for len(p.layers) <= n {
		p.layers = append(p.layers, &reading{name: "image"})
	}
	return p.layers[n]
}

// add counts bytes of a layer.
func (p *progress) add(layer, n int) {
	layerRead()
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.layer(layer)
	p.show(r, r.done+int64(n))
}

// told records the progress of anything else: a library that is downloaded.
func (p *progress) told(what string, done, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what = oneLine(what)
	for _, r := range p.others {
		if r.name == what {
			p.show(r, done)
			return
		}
	}
	r := &reading{name: what, size: size}
	p.others = append(p.others, r)
	p.show(r, done)
}

// over ends the progress of something that told has recorded.
func (p *progress) over(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what = oneLine(what)
	for _, r := range p.others {
		if r.name == what {
			r.size = r.done // the rest came from the cache
			if r.bar != nil {
				r.bar.Abort(true)
				r.bar = nil
			}
		}
	}
}

// show records and shows the progress of r.
func (p *progress) show(r *reading, done int64) {
	r.done = done
	if !p.bars || p.ended {
		return
	}
	if r.bar == nil {
		if r.size > 0 && done >= r.size {
			return
		}
		if p.pool == nil {
			p.pool = mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(60))
		}
		r.bar = r.newBar(p.pool)
	}
	r.bar.SetCurrent(done)
}

// newBar returns a bar: how much was read, how fast, and how long the rest takes. Its
// line begins with a carriage return: the terminal may have echoed ^C there.
func (r *reading) newBar(pool *mpb.Progress) *mpb.Bar {
	if r.size <= 0 {
		return pool.AddSpinner(0, mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name("\r"+r.name+" ")),
			mpb.AppendDecorators(decor.CurrentKiloByte(" % .1f"), decor.AverageSpeed(decor.SizeB1000(0), " % .0f")))
	}
	return pool.AddBar(r.size, mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name("\r"+r.name, decor.WCSyncWidthR)),
		mpb.AppendDecorators(decor.CountersKiloByte("% .1f / % .1f"), decor.AverageSpeed(decor.SizeB1000(0), "  % .0f"), decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 7})))
}

// note prints a line about a layer, or about the image if layer is -1.
func (p *progress) note(layer int, text string) {
	line := fmt.Sprintf("imgcheck: %s\n", oneLine(text))
	if layer >= 0 {
		line = fmt.Sprintf("imgcheck: layer %d: %s\n", layer+1, oneLine(text))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool != nil {
		io.WriteString(p.pool, line) // above the bars
		return
	}
	io.WriteString(p.w, line)
}

// lines prints the progress at intervals.
func (p *progress) lines() {
	tick := time.NewTicker(lineEvery)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			if text := p.line(); text != last {
				fmt.Fprintln(p.w, text)
				last = text
			}
		}
	}
}

// line returns how much was read, and how far each layer and file is; "" for little.
func (p *progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	read := p.before
	for _, list := range [][]*reading{p.layers, p.others} {
		for _, r := range list {
			read += r.done
		}
	}
	if read < lineFrom {
		return ""
	}
	text := "imgcheck: read " + size.Text(read)
	if at := p.unfinished(); at != "" {
		text += ", " + at
	}
	return text
}

// unfinished returns how far each layer and file is that is being read.
func (p *progress) unfinished() string {
	var at []string
	for _, list := range [][]*reading{p.layers, p.others} {
		for _, r := range list {
			if r.done > 0 && r.done < r.size {
				at = append(at, fmt.Sprintf("%s is at %d %%", r.name, 100*r.done/r.size))
			}
		}
	}
	return strings.Join(at, ", ")
}

// at returns how far each layer and file is that is being read, "" if none is.
func (p *progress) at() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unfinished()
}

// pause removes the bars so that something else can be printed. Later progress draws new
// ones.
func (p *progress) pause() {
	p.mu.Lock()
	pool := p.pool
	p.pool = nil
	for _, list := range [][]*reading{p.layers, p.others} {
		for _, r := range list {
			if r.bar != nil {
				r.bar.Abort(true)
				r.bar = nil
			}
		}
	}
	p.mu.Unlock()
	if pool != nil {
		pool.Wait()
		io.WriteString(p.w, "\r\x1b[K") // the rest of a bar before the echo of a key
	}
}

// done ends the display and leaves no bar behind.
func (p *progress) done() {
	p.once.Do(func() {
		close(p.stop)
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.pause()
	})
	p.idle.Wait()
}
