package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/githook"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Limits of a run: images that are scanned at a time, and lines about images that are
// not scanned.
const (
	hookAtOnce  = 4
	hookNotices = 50
)

// errTimeout is the cause of a context that --timeout has ended.
var errTimeout = errors.New("the time is over")

// hookRun scans the images that a push concerns. Findings stop the push, and so do
// errors of git and of the policy; an image out of reach, a limit or the timeout do not.
func hookRun(c *cli.Context) error {
	if os.Getenv("IMGCHECK_SKIP") == "1" {
		return nil
	}
	limit, err := time.ParseDuration(c.String("timeout"))
	if err != nil || limit < 0 {
		return fmt.Errorf("--timeout %q: write it like 90s or 5m; 0 sets no limit", c.String("timeout"))
	}
	ctx := c.Context
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer cancel()
	}
	changes, notices, err := pushedFiles(ctx, c)
	if late(ctx) {
		fmt.Fprintf(c.App.ErrWriter, "imgcheck: no image was scanned: reading the push took more than %s (--timeout, IMGCHECK_TIMEOUT); it goes on\n", limit)
		return nil
	}
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		tell(c.App.ErrWriter, notices)
		return nil
	}
	r, err := newHookRun(c)
	if err != nil {
		return err
	}
	images, more := githook.Images(changes, r.own())
	tell(r.stderr, append(notices, more...))
	if images, err = r.byPolicy(images); err != nil {
		return err
	}
	stops, err := r.lint(ctx, changes)
	if err != nil {
		return err
	}
	if err := r.scan(ctx, images, limit, r.one); err != nil || !stops {
		return err
	}
	fmt.Fprintln(r.stderr, "imgcheck: the push is stopped: a Dockerfile of it would make an image that fails; to push anyway: IMGCHECK_SKIP=1 git push")
	return errFindings
}

// late reports whether --timeout has ended ctx.
func late(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTimeout) }

// pushedFiles returns the files of the push that may concern an image.
func pushedFiles(ctx context.Context, c *cli.Context) (changes []githook.Change, notices []string, err error) {
	remote, updates, left, err := pushed(c)
	if err != nil {
		return nil, nil, err
	}
	if left > 0 {
		notices = append(notices, fmt.Sprintf("%d refs of the push were not read: it has too many", left))
	}
	changes, left, err = githook.Changes(ctx, remote, updates)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the push: %w", err)
	}
	if left > 0 {
		notices = append(notices, fmt.Sprintf("%d files of the push that may name images were not read: it changes too many", left))
	}
	return changes, notices, nil
}

// pushed returns the refs that git pushes and the remote, from the hook's arguments and
// lines, or from pre-commit's variables (https://pre-commit.com/#pre-push).
func pushed(c *cli.Context) (remote string, updates []githook.Update, left int, err error) {
	remote = cmp.Or(c.Args().Get(1), os.Getenv("PRE_COMMIT_REMOTE_NAME"), "origin")
	branch := os.Getenv("PRE_COMMIT_LOCAL_BRANCH") // set without TO_REF if a root commit is pushed
	if to := cmp.Or(os.Getenv("PRE_COMMIT_TO_REF"), branch); to != "" {
		return remote, []githook.Update{{
			LocalRef: branch, Local: to,
			RemoteRef: os.Getenv("PRE_COMMIT_REMOTE_BRANCH"), Remote: os.Getenv("PRE_COMMIT_FROM_REF"),
		}}, 0, nil
	}
	if isTerminal(c.App.Reader) {
		return "", nil, 0, fmt.Errorf("git runs `imgcheck hook run` and writes lines to its standard input: see `imgcheck hook --help`")
	}
	updates, left, err = githook.ReadUpdates(c.App.Reader)
	return remote, updates, left, err
}

// tell prints why images are not scanned.
func tell(w io.Writer, notices []string) {
	for i, n := range notices {
		if i == hookNotices {
			fmt.Fprintf(w, "imgcheck: and %d more that were not scanned\n", len(notices)-i)
			return
		}
		fmt.Fprintln(w, "imgcheck: "+bounded(oneLine(n)))
	}
}

// pushScan scans the images of a push.
type pushScan struct {
	decided        *decisions
	nearest        *policies
	options        scan.Options
	failOnFor      func(*decisions) (packs.Severity, error)
	progress       *progress
	stdout, stderr io.Writer
	// dockerfiles are those of the checkout, which are read once.
	dockerfiles []scan.Dockerfile
	reading     sync.Once
}

// newHookRun reads the flags and the policy.
func newHookRun(c *cli.Context) (*pushScan, error) {
	r := &pushScan{stdout: c.App.Writer, stderr: c.App.ErrWriter}
	var err error
	if r.decided, err = readDecisions(c); err != nil {
		return nil, err
	}
	r.nearest = newPolicies(c, r.decided)
	r.failOnFor = func(d *decisions) (packs.Severity, error) { return severityNamed(d.failOn(c)) }
	if _, err := r.failOnFor(r.decided); err != nil {
		return nil, err
	}
	r.options = r.decided.scanning()
	if r.options.Layers, err = imageOptions(c); err != nil {
		return nil, err
	}
	r.progress = newProgress(c.App.ErrWriter, c.Bool("quiet"), c.Bool("verbose"))
	return r, nil
}

// own returns the policy's images.
func (r *pushScan) own() (list []githook.Image) {
	for _, im := range r.decided.Policy.Images {
		list = append(list, githook.Image{Ref: im.Ref, Platform: im.Platform, Uses: []githook.Use{{Where: policy.FileName, File: policy.FileName}}})
	}
	return list
}

// byPolicy returns the images with the places that name each by the nearest policy of these: an
// image that files under two policies name is judged by either.
func (r *pushScan) byPolicy(images []githook.Image) ([]githook.Image, error) {
	var list []githook.Image
	for _, im := range images {
		if im.Own {
			list = append(list, im)
			continue
		}
		at := map[*decisions]int{}
		for _, use := range im.Uses {
			d, err := r.nearest.of(use.File)
			if err != nil {
				return nil, err
			}
			if i, ok := at[d]; ok {
				list[i].Uses = append(list[i].Uses, use)
				continue
			}
			at[d] = len(list)
			list = append(list, githook.Image{Ref: im.Ref, Platform: im.Platform, Uses: []githook.Use{use}})
		}
	}
	return list, nil
}

// decidedFor returns the decisions for an image that byPolicy has returned.
func (r *pushScan) decidedFor(im githook.Image) *decisions {
	if im.Own {
		return r.decided
	}
	if d, err := r.nearest.of(im.Uses[0].File); err == nil {
		return d
	}
	return r.decided
}

// scanned is the result of a scan.
type scanned struct {
	doc *report.Document
	err error
}

// scan scans images with one, several at a time, and prints the results in the order of
// images. It returns errFindings if a result stops the push.
func (r *pushScan) scan(ctx context.Context, images []githook.Image, limit time.Duration, one func(context.Context, githook.Image) scanned) error {
	defer r.progress.done()
	var over []string
	bad := 0
	for i, s := range inOrder(ctx, images, hookAtOnce, one) {
		im := images[i]
		switch {
		case s.err != nil && late(ctx):
			over = append(over, im.Ref)
			continue
		case s.err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		}
		r.progress.pause()
		stops, err := r.tell(im, s)
		if err != nil {
			return err
		}
		if stops {
			bad++
		}
	}
	r.progress.done()
	if len(over) > 0 {
		fmt.Fprintf(r.stderr, "imgcheck: timeout after %s (--timeout, IMGCHECK_TIMEOUT): %d of the %d images were not scanned, and do not stop the push: %s\n", limit, len(over), len(images), bounded(oneLine(someOf(over))))
	}
	if bad == 0 {
		return nil
	}
	all := "the image"
	if len(images) > 1 {
		all = fmt.Sprintf("%d of the %d images", bad, len(images))
	}
	fmt.Fprintf(r.stderr, "imgcheck: the push is stopped: %s that it concerns would fail; to push anyway: IMGCHECK_SKIP=1 git push\n", all)
	return errFindings
}

// someOf returns the first names of a list.
func someOf(list []string) string {
	const most = 3
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// one scans one image. A reference in a file names an image of a registry, whatever
// scheme it begins with.
func (r *pushScan) one(ctx context.Context, im githook.Image) scanned {
	if ctx.Err() != nil {
		return scanned{err: ctx.Err()}
	}
	ref, o := im.Ref, r.options
	if !im.Own {
		ref = source.InRegistry(ref)
	}
	if o.Layers.Platform == nil {
		var err error
		if o.Layers.Platform, err = platformNamed(im.Platform); err != nil {
			return scanned{err: err}
		}
	}
	d := r.decidedFor(im)
	if d != r.decided {
		of := d.scanning()
		o.Rules, o.Policy = of.Rules, of.Policy
	}
	o.Machines = d.Policy.MachinesOf(policy.Image{Ref: im.Ref})
	switch { // git runs hooks at the root of the checkout; without a line, the layer is named
	case im.Own:
		if files, _, err := dockerfilesFor(".", r.decided.Policy, policy.Image{Ref: im.Ref}); err == nil {
			o.Dockerfiles = files
		}
	case !im.Base(): // the repository may have built what its manifests name
		o.Dockerfiles = r.checkout()
	}
	over := r.progress.image(im.Ref, &o.Layers)
	defer over()
	doc, err := scanImage(ctx, ref, o)
	return scanned{doc, err}
}

// checkout returns the Dockerfiles of the checkout.
func (r *pushScan) checkout() []scan.Dockerfile {
	r.reading.Do(func() {
		r.dockerfiles, _, _ = dockerfilesFor(".", nil, policy.Image{})
	})
	return r.dockerfiles
}

// tell prints the result of a scan, and reports whether it stops the push.
func (r *pushScan) tell(im githook.Image, s scanned) (stops bool, err error) {
	if s.err != nil {
		fmt.Fprintf(r.stderr, "imgcheck: %s was not scanned, and does not stop the push: %s\n", named(im, im.Uses[0]), bounded(oneLine(s.err.Error())))
		return false, nil
	}
	d := r.decidedFor(im)
	failOn, err := r.failOnFor(d)
	if err != nil {
		return false, err
	}
	doc := d.apply(s.doc)
	v := githook.Judge(im, doc.Findings, doc.Rules, failOn)
	switch {
	case v.Use == nil:
		fmt.Fprintf(r.stderr, "imgcheck: %s: nothing stops the push\n", named(im, im.Uses[0]))
		r.warn(im.Ref, doc)
		return false, nil
	case v.Fixed != "":
		fmt.Fprintf(r.stderr, "imgcheck: %s would fail as it is; %s may fix that, and the push goes on:\n", named(im, *v.Use), oneLine(v.Fixed))
	default:
		fmt.Fprintf(r.stderr, "imgcheck: %s:\n", named(im, *v.Use))
	}
	return v.Fixed == "", report.Text(r.stdout, doc, fitted(r.stdout, report.Options{}))
}

// shownWarnings limits the lines about an image that does not stop the push.
const shownWarnings = 8

// warn prints a line for each problem of an image that does not stop the push.
func (r *pushScan) warn(ref string, doc *report.Document) {
	for i, p := range doc.Problems {
		if i == shownWarnings {
			fmt.Fprintf(r.stderr, "imgcheck:   and %d more: imgcheck scan %s\n", len(doc.Problems)-i, oneLine(ref))
			return
		}
		fmt.Fprintf(r.stderr, "imgcheck:   %s: %s\n", p.Severity, bounded(oneLine(p.Headline)))
	}
}

func named(im githook.Image, u githook.Use) string {
	return oneLine(fmt.Sprintf("%s (%s)", im.Ref, u.Where))
}

// image shows the progress of one of several images that are read at a time, until over
// is called.
func (p *progress) image(name string, o *layers.Options) (over func()) {
	var done, size atomic.Int64
	o.Begin = func(list []source.Layer) {
		for _, l := range list {
			size.Add(l.Size)
		}
	}
	o.Progress = func(_, n int) { p.told(name, done.Add(int64(n)), size.Load()) }
	if p.verbose {
		o.Note = func(layer int, text string) {
			if layer >= 0 {
				text = fmt.Sprintf("layer %d: %s", layer+1, text)
			}
			p.note(-1, name+": "+text)
		}
	}
	return func() { p.over(name) }
}

// inOrder calls do for the elements of list, atOnce at a time, and yields the results in
// the order of list. If the caller stops early, ctx ends for the rest.
func inOrder[T, R any](ctx context.Context, list []T, atOnce int, do func(context.Context, T) R) iter.Seq2[int, R] {
	return func(yield func(int, R) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		results := make([]chan R, len(list))
		for i := range results {
			results[i] = make(chan R, 1)
		}
		var next atomic.Int64
		for range min(atOnce, len(list)) {
			go func() {
				for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
					results[i] <- do(ctx, list[i])
				}
			}()
		}
		for i := range list {
			if !yield(i, <-results[i]) {
				return
			}
		}
	}
}
