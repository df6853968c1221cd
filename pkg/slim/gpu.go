package slim

import (
	"bufio"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// The classes of GPU code, whose files do not go, and of caches, which no installer lists.
const (
	codeClass  = "gpu-code"
	cacheClass = "package-cache"
)

// Needs reports which entries of a container must stay, as [gpucode.Strip] asks.
type Needs = func(entries []gpucode.Entry) []bool

// stripping is a file whose GPU code for other GPUs goes, and what its new bytes are like.
type stripping struct {
	paths    []string // all names
	needs    Needs
	old, new sums
}

// sums are the digests of a file by which installers know it.
type sums struct{ sha256, md5 []byte }

// Strip plans to overwrite the GPU code that needs does not need in the files that containers
// have. leave returns the reason why a file must stay as it is, by its path with a leading slash, or
// "". img is the image that the plan was made for; each of its layers with such files is read
// once. [Plan.Correct] follows.
func (p *Plan) Strip(ctx context.Context, img *layers.Image, needs Needs, leave func(path string) string) error {
	byLayer := map[int][]*layers.Entry{}
	names := map[inode][]string{}
	for e, layer := range p.fsys.All() {
		if e.Type != layers.Regular || p.gone[layer][e.Path] || e.GPU().Spare(needs) == 0 {
			continue
		}
		id := inode{layer, e.Inode}
		if names[id] = append(names[id], e.Path); len(names[id]) == 1 {
			byLayer[layer] = append(byLayer[layer], e)
		}
	}
	for layer := range p.read {
		list := slices.DeleteFunc(byLayer[layer], func(e *layers.Entry) bool {
			for _, name := range names[inode{layer, e.Inode}] {
				if why := leave("/" + name); why != "" {
					p.Kept = append(p.Kept, Kept{p.codeFile(e, layer, 0), why})
					return true
				}
			}
			return false
		})
		if len(list) == 0 {
			continue
		}
		err := img.ReadFiles(ctx, layer, list, func(e *layers.Entry, r io.Reader) error {
			return p.foresee(layer, e, names[inode{layer, e.Inode}], r, needs)
		})
		if err != nil {
			return fmt.Errorf("layer %d: %w", layer+1, err)
		}
	}
	slices.SortFunc(p.Stripped, func(a, b File) int { return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Path, b.Path)) })
	return nil
}

// inode is a file's identity: hard links of one layer share it.
type inode struct{ layer, number int }

func (p *Plan) codeFile(e *layers.Entry, layer int, zeros int64) File {
	f := File{Class: codeClass}
	f.Path, f.Layer, f.Bytes = "/"+e.Path, layer, cmp.Or(zeros, e.Size)
	return f
}

// foresee plans to strip a file, whose bytes r has.
func (p *Plan) foresee(layer int, e *layers.Entry, names []string, r io.Reader, needs Needs) error {
	old, now := newHashes(), newHashes()
	read, feed := io.Pipe()
	code := make(chan *gpucode.Code, 1)
	var g errgroup.Group
	g.Go(func() error {
		c, err := codeOf(read, e)
		if err == nil {
			_, err = io.Copy(io.Discard, read)
		}
		read.CloseWithError(err)
		code <- c
		return err
	})
	zeros, err := stripFile(io.MultiWriter(now, feed), io.TeeReader(r, old), e.Size, needs)
	feed.CloseWithError(err)
	if read := g.Wait(); err == nil {
		err = read
	}
	if err != nil || zeros == 0 {
		return err
	}
	s := &stripping{names, needs, old.sums(), now.sums()}
	after := <-code
	for _, name := range names {
		changed := *find(p.read[layer], name)
		if changed.Object != nil {
			o := *changed.Object
			after.Compiles, after.Claims = o.GPU.Compiles, o.GPU.Claims
			o.GPU, changed.Object = after, &o
		} else {
			changed.Fatbin = after
		}
		p.change(layer, name, &change{entry: &changed, strip: s})
	}
	p.stripped = append(p.stripped, s)
	p.Stripped = append(p.Stripped, p.codeFile(e, layer, zeros))
	return nil
}

// codeOf reads the GPU code of a file like e.
func codeOf(r io.Reader, e *layers.Entry) (*gpucode.Code, error) {
	if e.Object == nil {
		return gpucode.ReadFatbin(r, e.Size)
	}
	o, err := elfdeps.ReadSymbols(r, e.Size)
	if err != nil {
		return nil, err
	}
	return o.GPU, nil
}

// stripFile copies a file of size bytes without the code that is not needed.
func stripFile(w io.Writer, r io.Reader, size int64, needs Needs) (int64, error) {
	const headers = 64 << 10 // program headers stand at the start of all files that were met
	b := bufio.NewReaderSize(r, headers)
	head, err := b.Peek(int(min(headers, size)))
	if err != nil && err != io.EOF {
		return 0, err
	}
	areas := elfdeps.CodeAreas(head, size)
	if gpucode.IsFatbin(head) {
		areas = []gpucode.Area{{Off: 0, End: size}}
	}
	return gpucode.Strip(w, b, areas, needs)
}

// hashes computes sums.
type hashes struct{ sha256, md5 hash.Hash }

func newHashes() *hashes { return &hashes{sha256.New(), md5.New()} }

// Write implements [io.Writer] and returns no error.
func (h *hashes) Write(b []byte) (int, error) {
	h.sha256.Write(b)
	h.md5.Write(b)
	return len(b), nil
}

func (h *hashes) sums() sums { return sums{h.sha256.Sum(nil), h.md5.Sum(nil)} }

// change is a file that gets other bytes.
type change struct {
	entry   *layers.Entry // as it will be
	strip   *stripping    // nil for a list
	content []byte        // of a list
}

func (p *Plan) change(layer int, name string, c *change) {
	if p.changed[layer] == nil {
		p.changed[layer] = map[string]*change{}
	}
	p.changed[layer][name] = c
}

// write writes a stripped file with its old bytes.
func (s *stripping) write(w io.Writer, old io.Reader, size int64) error {
	sum := newHashes()
	if _, err := stripFile(io.MultiWriter(w, sum), old, size, s.needs); err != nil {
		return err
	}
	if string(sum.sums().sha256) != string(s.new.sha256) {
		return fmt.Errorf("%w: /%s has other bytes", errForetold, plain.Name(s.paths[0]))
	}
	return nil
}
