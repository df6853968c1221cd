package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/imgcheck/imgcheck/internal/size"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// progressFlags are those of every command that shows progress.
func progressFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "say how each layer is read, and what the cache has of it"},
	}
}

// progress shows how the reading of an image goes on: on a terminal a bar for
// each layer that is being read, anywhere else a line now and then.
type progress struct {
	w       io.Writer
	verbose bool

	mu     sync.Mutex
	layers []layers.LayerInfo
	read   []int64       // bytes of each layer
	pool   *mpb.Progress // nil where there are no bars
	bars   map[int]*mpb.Bar
	ended  bool

	once sync.Once
	stop chan struct{}
	idle sync.WaitGroup
}

// Outside of a terminal a line appears so often, and none for an image that is
// small.
const (
	lineEvery = 15 * time.Second
	lineFrom  = 64 << 20 // bytes
)

// watch shows the progress of what is read with o, as the flags say, until done
// is called.
func watch(c *cli.Context, o *layers.Options) *progress {
	p := newProgress(c.App.ErrWriter, c.Bool("quiet"), c.Bool("verbose"))
	o.Begin, o.Progress = p.begin, p.add
	if p.verbose {
		o.Note = p.note
	}
	return p
}

func newProgress(w io.Writer, quiet, verbose bool) *progress {
	p := &progress{w: w, verbose: verbose, bars: map[int]*mpb.Bar{}, stop: make(chan struct{})}
	switch {
	case quiet:
	case isTerminal(w) && os.Getenv("TERM") != "dumb":
		p.pool = mpb.New(mpb.WithOutput(w), mpb.WithWidth(60))
	default:
		p.idle.Go(p.lines)
	}
	return p
}

// begin is told what is going to be read.
func (p *progress) begin(list []layers.LayerInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.layers = list
}

// add counts bytes of a layer.
func (p *progress) add(layer, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.read) <= layer {
		p.read = append(p.read, 0)
	}
	p.read[layer] += int64(n)
	if p.pool == nil || p.ended {
		return
	}
	if p.bars[layer] == nil {
		p.bars[layer] = p.bar(layer)
	}
	p.bars[layer].IncrBy(n)
}

// bar is the bar of a layer: how much of it was read, how fast, and how long the
// rest takes.
func (p *progress) bar(layer int) *mpb.Bar {
	total := int64(0) // of a stream it is not known
	name := "image"
	if layer < len(p.layers) {
		total = p.layers[layer].Size
		name = fmt.Sprintf("layer %d", layer+1)
	}
	if total <= 0 {
		return p.pool.AddSpinner(0, mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name(name+" ")),
			mpb.AppendDecorators(decor.CurrentKiloByte(" % .1f"), decor.AverageSpeed(decor.SizeB1000(0), " % .0f")))
	}
	return p.pool.AddBar(total, mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name(name, decor.WCSyncWidthR)),
		mpb.AppendDecorators(decor.CountersKiloByte("% .1f / % .1f"), decor.AverageSpeed(decor.SizeB1000(0), "  % .0f"), decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 7})))
}

// note tells something of a layer, or of the image.
func (p *progress) note(layer int, text string) {
	line := fmt.Sprintf("imgcheck: %s\n", oneLine(text))
	if layer >= 0 {
		line = fmt.Sprintf("imgcheck: layer %d: %s\n", layer+1, oneLine(text))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool != nil && !p.ended {
		io.WriteString(p.pool, line) // above the bars
		return
	}
	io.WriteString(p.w, line)
}

// lines writes how far it is, now and then.
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

// line says how much was read, and how far each layer is that is being read;
// empty while that is little.
func (p *progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	read, at := int64(0), ""
	for i, n := range p.read {
		read += n
		if i < len(p.layers) && n > 0 && n < p.layers[i].Size {
			at += fmt.Sprintf(", layer %d is at %d %%", i+1, 100*n/p.layers[i].Size)
		}
	}
	if read < lineFrom {
		return ""
	}
	return "imgcheck: read " + size.Text(read) + at
}

// done ends the display and leaves no bar behind.
func (p *progress) done() {
	p.once.Do(func() {
		close(p.stop)
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		for _, b := range p.bars {
			b.Abort(true)
		}
		if p.pool != nil {
			p.pool.Wait()
		}
	})
	p.idle.Wait()
}
