package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/fleet"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Bounds of a scan of several images: their number, and the bytes of a list of them.
const (
	maxImages    = 1000
	maxImageList = 1 << 20
)

// Memory that a scan of several images may take for the indexes of layers, in bytes: of all
// images that are scanned at a time, and of the layers that are kept for other images. One
// image may take 1 GiB alone.
const (
	manyMemory = 2 << 30
	keptMemory = 512 << 20
)

// manyFlags returns the flags for several images.
func manyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "all-images", Usage: "scan all images in .imgcheck.yaml"},
		&cli.StringFlag{Name: "input", Aliases: []string{"i"}, Usage: "scan the images in `FILE`, one in a line, or - for the standard input"},
		&cli.StringFlag{Name: "jobs", Aliases: []string{"j"}, Usage: "scan `N` images at a time", DefaultText: "one for each processor, at most 4"},
		&cli.StringFlag{Name: "shard", Usage: "of the images, scan part `I/N` only: 0/16 is the first of 16 parts; imgcheck fleet merge joins their reports"},
		&cli.StringFlag{Name: "report-to", Usage: "store the JSON report in a registry as `REPOSITORY:TAG`, for imgcheck fleet merge"},
	}
}

// images returns the images to scan, each once: the arguments and those of --input and
// --all-images, or the policy's first. many is set if the user has asked for a report of
// several images.
func (d *decisions) images(c *cli.Context) (list []policy.Image, many bool, err error) {
	for _, ref := range c.Args().Slice() {
		list = append(list, policy.Image{Ref: ref})
	}
	if name := c.String("input"); name != "" {
		refs, err := listedImages(name, c.App.Reader)
		if err != nil {
			return nil, false, fmt.Errorf("--input: %w", err)
		}
		for _, ref := range refs {
			list = append(list, policy.Image{Ref: ref})
		}
	}
	if c.Bool("all-images") {
		if len(d.Policy.Images) == 0 {
			return nil, false, fmt.Errorf("--all-images: %s names no images: write it with `imgcheck init IMAGE...`", policy.FileName)
		}
		list = append(list, d.Policy.Images...)
	}
	list = eachOnce(list)
	many = len(list) > 1 || c.String("input") != "" || c.Bool("all-images")
	if len(list) == 0 && len(d.Policy.Images) > 0 && !many {
		if n := len(d.Policy.Images) - 1; n > 0 && !c.Bool("quiet") {
			fmt.Fprintf(d.stderr, "imgcheck: scans the first image of %s alone: --all-images scans all %d\n", policy.FileName, n+1)
		}
		return d.Policy.Images[:1], false, nil
	}
	switch {
	case len(list) == 0 && many:
		return nil, false, fmt.Errorf("--input: %s names no images: write one in a line", c.String("input"))
	case len(list) == 0:
		return nil, false, fmt.Errorf("scan takes an image: see `imgcheck scan --help`, or name one in %s (`imgcheck init`)", policy.FileName)
	}
	return list, many, nil
}

// eachPlatform returns each image once for each of its platforms with Linux. One whose platforms
// cannot be read, or that has but one, stays as it is: the scan reports what is wrong with it.
func eachPlatform(ctx context.Context, images []policy.Image, o layers.Options) []policy.Image {
	var list []policy.Image
	for _, im := range images {
		im.Platform = ""
		platforms := platformsOf(ctx, im.Ref, o)
		if len(platforms) < 2 {
			list = append(list, im)
			continue
		}
		for _, p := range platforms {
			im.Platform = p
			list = append(list, im)
		}
	}
	return eachOnce(list)
}

// platformsOf returns the platforms with Linux of an image in a registry or a layout. Other places
// have one for each image.
func platformsOf(ctx context.Context, ref string, o layers.Options) []string {
	for _, scheme := range []string{"docker:", "docker-archive:", "dir:"} {
		if strings.HasPrefix(ref, scheme) && !strings.HasPrefix(ref, "docker://") {
			return nil
		}
	}
	base, err := patch.OpenBase(ctx, ref, patch.Options{Insecure: o.Insecure})
	if err != nil {
		return nil
	}
	var list []string
	for _, img := range base.Images {
		if p := img.Platform.String(); img.Platform.OS == "linux" && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

// eachOnce returns the images without those that are the same for the same platform.
func eachOnce(images []policy.Image) []policy.Image {
	seen := map[[2]string]bool{}
	var list []policy.Image
	for _, im := range images {
		if k := [2]string{im.Ref, im.Platform}; !seen[k] {
			seen[k] = true
			list = append(list, im)
		}
	}
	return list
}

// listedImages reads the references in a file: one in a line, where it leaves out empty lines and
// those that begin with #, or those of pods as JSON.
func listedImages(name string, stdin io.Reader) ([]string, error) {
	from := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, source.PathError(err)
		}
		defer f.Close()
		from = f
	}
	refs, err := listOrPods(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", plain.Name(name), err)
	}
	return refs, nil
}

// imageLines reads a list of references.
func imageLines(from io.Reader) ([]string, error) {
	limited := &io.LimitedReader{R: from, N: maxImageList + 1}
	var refs []string
	lines := bufio.NewScanner(limited)
	for lines.Scan() {
		ref := strings.TrimSpace(lines.Text())
		if ref == "" || strings.HasPrefix(ref, "#") {
			continue
		}
		if strings.ContainsAny(ref, " \t") {
			return nil, fmt.Errorf("%.200q: write one image in a line", ref)
		}
		refs = append(refs, ref)
	}
	switch {
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return nil, fmt.Errorf("has a line longer than %d KiB: it is no list of images", bufio.MaxScanTokenSize>>10)
	case lines.Err() != nil:
		return nil, source.PathError(lines.Err())
	case limited.N <= 0:
		return nil, fmt.Errorf("is larger than %d KiB: it is no list of images", maxImageList>>10)
	}
	return refs, nil
}

// jobs returns the number of images to scan at a time.
func jobs(c *cli.Context) (int, error) {
	s := c.String("jobs")
	if s == "" {
		return min(4, runtime.GOMAXPROCS(0)), nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 64 {
		return 0, fmt.Errorf("--jobs %q: say a number from 1 to 64", s)
	}
	return n, nil
}

// many is a scan of several images.
type many struct {
	*options
	shared *layers.Shared
	memory *semaphore.Weighted // of manyMemory
}

// scanMany scans several images, perhaps those of a shard, and writes one report. Images that cannot be scanned are in it,
// and make the command fail when all else is done.
func (o *options) scanMany(c *cli.Context, images []policy.Image) error {
	if len(images) > maxImages {
		return fmt.Errorf("scan takes at most %d images at once, not %d: scan them in parts", maxImages, len(images))
	}
	n, err := jobs(c)
	if err != nil {
		return err
	}
	scans := make([]imageScan, len(images))
	for i, im := range images { // before any is read
		if scans[i], err = o.forImage(c, im); err != nil {
			return err
		}
	}
	m := &many{options: o, shared: layers.NewShared(keptMemory), memory: semaphore.NewWeighted(manyMemory)}
	o.progress = newProgress(c.App.ErrWriter, c.Bool("quiet"), c.Bool("verbose"))
	activityOf(c.Context).shows(o.progress)
	out := make([]report.Scanned, len(images))
	var g errgroup.Group
	g.SetLimit(n)
	for i, im := range images {
		g.Go(func() error {
			out[i] = m.scan(c.Context, im, scans[i])
			return nil
		})
	}
	g.Wait()
	o.progress.done()
	if errors.Is(context.Cause(c.Context), context.Canceled) {
		return c.Context.Err() // interrupted: no report takes the place of an earlier one
	}
	for i, im := range out {
		if im.Report == nil {
			fmt.Fprintf(c.App.ErrWriter, "imgcheck: %s: %s\n", oneLine(im.Ref), im.Error)
			continue
		}
		out[i].Report = o.decide(im.Report, scans[i])
		o.indexTo.store(c, im.Ref, scans[i].Options)
	}
	set := report.NewSet(version(), out)
	set.Shard = o.shard
	if err := o.outputs.writeSet(c, set, o.shown()); err != nil {
		return err
	}
	if o.storeAs != "" {
		if err := fleet.Store(c.Context, o.storeAs, set, source.Options{Insecure: o.layers.Insecure}); err != nil {
			return fmt.Errorf("--report-to: %w", err)
		}
	}
	if left := set.Summary.NotScanned; left > 0 {
		return fmt.Errorf("%d of %d images could not be scanned", left, len(images))
	}
	for _, im := range out {
		if o.reaches(im.Report) {
			return errFindings
		}
	}
	return nil
}

// scan scans one image of several.
func (m *many) scan(ctx context.Context, im policy.Image, s imageScan) report.Scanned {
	out := report.Scanned{Ref: im.Ref, Platform: im.Platform}
	if p := s.Layers.Platform; p != nil {
		out.Platform = p.String()
	}
	release := m.watch(ctx, im.Ref, &s)
	defer release()
	var err error
	out.Report, err = scanImage(ctx, im.Ref, s.Options)
	switch {
	case err != nil && ctx.Err() != nil:
		out.Error = "the time of --timeout was over"
	case err != nil:
		out.Error = strings.TrimPrefix(oneLine(bounded(err.Error())), oneLine(im.Ref)+": ")
	}
	return out
}

// watch sets the options of the scan of one image of several: the layers and the memory that all
// of them share, and the progress. It returns a function that releases the memory.
func (m *many) watch(ctx context.Context, ref string, s *imageScan) (release func()) {
	var mu sync.Mutex
	var took, size, done int64
	s.Layers.Shared = m.shared
	s.Admit = func(stored int64) error {
		n := scan.Memory(stored)
		err := m.memory.Acquire(ctx, n)
		if err == nil {
			took = n
		}
		return err
	}
	s.Layers.Begin = func(list []source.Layer) {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range list {
			size += l.Size
		}
	}
	if s.Layers.Indexes != nil {
		borrowing()
	}
	s.Layers.Progress = func(_, n int) {
		layerRead()
		mu.Lock()
		defer mu.Unlock()
		done += int64(n)
		m.progress.told(ref, done, size)
	}
	if m.progress.verbose {
		s.Layers.Note = func(layer int, text string) {
			if layer >= 0 {
				text = fmt.Sprintf("layer %d: %s", layer+1, text)
			}
			m.progress.note(-1, ref+": "+text)
		}
	}
	return func() {
		m.progress.over(ref)
		if took > 0 {
			m.memory.Release(took)
		}
	}
}
