//go:build linux

package imports

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/test/gpu"
)

// Where a fault puts another libstdc++ in front of the root's.
const frontDir = "/opt/front"

// fault is a change of the root, and the modules that are imported after it: each has
// mapped or read the changed file before.
type fault struct {
	gpu.Fault
	modules []string
}

// generator makes random faults.
type generator struct {
	*rand.Rand
	users     map[string][]string // modules that use a file
	elf       []string            // mapped files, sorted
	python    []string            // sources of imported modules, sorted
	libstdcxx string              // a file to put in front, or ""
}

// newGenerator prepares faults in what the records of successful imports use. The same
// records and seed give the same faults.
func newGenerator(list []*Record, base *Record, seed uint64, libstdcxx string) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), users: map[string][]string{}, libstdcxx: libstdcxx}
	for _, r := range list {
		if r.Outcome != OK {
			continue
		}
		for _, f := range without(r.Mapped, base.Mapped) {
			g.users[f] = append(g.users[f], r.Module)
		}
		for _, name := range slices.Sorted(maps.Keys(r.Origins)) {
			o := r.Origins[name]
			if _, was := base.Origins[name]; !was && strings.HasSuffix(o, ".py") && !slices.Contains(g.users[o], r.Module) {
				g.users[o] = append(g.users[o], r.Module)
			}
		}
	}
	for _, f := range slices.Sorted(maps.Keys(g.users)) {
		if strings.HasSuffix(f, ".py") {
			g.python = append(g.python, f)
		} else {
			g.elf = append(g.elf, f)
		}
	}
	return g
}

func (g *generator) one(list []string) string { return list[g.IntN(len(list))] }

// next returns a random fault and up to three modules that it may concern.
func (g *generator) next(i int) *fault {
	file := g.one(g.elf)
	f := &fault{}
	what := ""
	switch g.IntN(12) {
	case 0, 1, 2:
		what, f.Remove = "no", []string{file}
	case 3, 4:
		what, f.Empty = "no bytes in", []string{file}
	case 5:
		what, f.Cut = "half of", []string{file}
	case 6:
		what, f.Short = "all but the last 4096 bytes of", []string{file}
	case 7:
		what, f.Machine = "aarch64 in", []string{file}
	case 8, 9:
		other := g.one(g.elf)
		what, f.Copy = path.Base(other)+" in place of", map[string]string{file: other}
	case 10:
		if g.libstdcxx == "" {
			what, f.Remove = "no", []string{file}
			break
		}
		file = g.libstdc()
		what = "another libstdc++ in front of"
		f.Env = map[string]string{"LD_LIBRARY_PATH": frontDir}
	case 11:
		file = g.one(g.python)
		what, f.Remove = "no", []string{file}
	}
	f.Name = fmt.Sprintf("%d, %s %s", i, what, file)
	users := slices.Clone(g.users[file])
	g.Shuffle(len(users), func(i, j int) { users[i], users[j] = users[j], users[i] })
	f.modules = users[:min(len(users), 3)]
	slices.Sort(f.modules)
	return f
}

// libstdc returns the root's libstdc++, which many modules map.
func (g *generator) libstdc() string {
	for _, f := range g.elf {
		if strings.HasPrefix(path.Base(f), "libstdc++.so.6") {
			return f
		}
	}
	return g.elf[0]
}

// apply makes a fault in the root, and leaves its changes in the directory upper.
func (g *generator) apply(f *fault, root, upper string) (err error) {
	merged, work := upper+".root", upper+".work"
	for _, d := range []string{upper, merged, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,redirect_dir=off,metacopy=off,index=off", root, upper, work)
	if err := syscall.Mount("imports", merged, "overlay", 0, options); err != nil {
		return fmt.Errorf("an overlay over %s: %w", root, err)
	}
	defer func() { err = errors.Join(err, syscall.Unmount(merged, 0), os.RemoveAll(work), os.Remove(merged)) }()
	if f.Env != nil {
		if err := putInFront(g.libstdcxx, merged); err != nil {
			return err
		}
	}
	return f.Apply(merged)
}

// putInFront copies a libstdc++ into a directory of the root.
func putInFront(file, root string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root+frontDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(root+frontDir+"/libstdc++.so.6", b, 0o644)
}

// layerOf returns the layer of the changes in the upper directory of an overlay.
func (c *comparison) layerOf(upper string) (*layers.Layer, error) {
	if c.cache == "" || c.keep == "" {
		return readLayer(upper)
	}
	cache, err := layers.OpenCache(c.cache, 1<<40)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%d %s", c.seed, filepath.Base(upper))
	if l, ok := cache.Layer(key, replay.WantsID); ok {
		return l, nil
	}
	l, err := readLayer(upper)
	if err != nil {
		return nil, err
	}
	return l, cache.PutLayer(key, replay.WantsID, l)
}

// readLayer returns the changes of an overlay as a layer.
func readLayer(upper string) (*layers.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := filepath.WalkDir(upper, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == upper {
			return err
		}
		return addToTar(w, strings.TrimPrefix(p, upper+"/"), p)
	})
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return layers.ReadLayer(&b, replay.Wants)
}

// addToTar writes a file of an upper directory. overlayfs marks what is removed by a
// character device 0/0, a layer by the prefix .wh.
func addToTar(w *tar.Writer, name, file string) error {
	st, err := os.Lstat(file)
	if err != nil {
		return err
	}
	if st.Mode()&fs.ModeCharDevice != 0 {
		return w.WriteHeader(&tar.Header{Name: path.Join(path.Dir(name), ".wh."+path.Base(name)), Mode: 0o644})
	}
	link := ""
	if st.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(st, link)
	if err != nil {
		return err
	}
	h.Name = name
	if err := w.WriteHeader(h); err != nil || !st.Mode().IsRegular() {
		return err
	}
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(w, in)
	return err
}

// tried is a fault, and the comparisons of its modules.
type tried struct {
	*fault
	verdicts []*verdict
}

// tryFaults makes n random faults, one after the other, and compares the imports of their
// modules with the predictions.
func (c *comparison) tryFaults(ctx context.Context, fsys *layers.FS, root string, list []*Record, base *Record) ([]*tried, error) {
	g := newGenerator(list, base, c.seed, c.libstdcxx)
	dir := c.keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "imports-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
	}
	var all []*tried
	var failed error
	for i := 0; len(all) < c.faults; i++ {
		if i > c.faults+c.faults/8+2 {
			return nil, failed
		}
		f := g.next(i)
		one, err := c.try(ctx, g, fsys, f, root, filepath.Join(dir, fmt.Sprint(i)), base)
		switch {
		case errors.Is(err, errRecorder):
			failed = fmt.Errorf("%s: %w", f.Name, err)
			fmt.Fprintln(os.Stderr, "passed over, since the recorder needs the file:", f.Name)
			continue
		case err != nil:
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// errRecorder says that the recorder did not run: it is written in Python, too.
var errRecorder = errors.New("the recorder fails")

// try makes one fault.
func (c *comparison) try(ctx context.Context, g *generator, fsys *layers.FS, f *fault, root, upper string, base *Record) (*tried, error) {
	really, err := readRecord(upper + ".jsonl")
	if errors.Is(err, fs.ErrNotExist) {
		if err = g.apply(f, root, upper); err == nil {
			really, err = c.record(ctx, root, upper, f)
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(upper))
	}
	l, err := c.layerOf(upper)
	if err != nil {
		return nil, err
	}
	if c.keep == "" {
		defer os.RemoveAll(upper)
	}
	really = slices.DeleteFunc(really, func(r *Record) bool { return r.Outcome == Timeout })
	verdicts, err := compareSome(ctx, fsys.With(l, source.Layer{}), f.Env, really, base)
	return &tried{f, verdicts}, err
}

// record imports the modules of a fault really.
func (c *comparison) record(ctx context.Context, root, upper string, f *fault) ([]*Record, error) {
	args := []string{root, upper, upper + ".new"}
	for _, k := range slices.Sorted(maps.Keys(f.Env)) {
		args = append(args, "-e", k+"="+f.Env[k])
	}
	cmd := exec.CommandContext(ctx, c.recorder, append(args, f.modules...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w: %s", errRecorder, c.recorder, err, out)
	}
	if err := os.Rename(upper+".new", upper+".jsonl"); err != nil {
		return nil, err
	}
	return readRecord(upper + ".jsonl")
}

// readRecord reads the records of a fault.
func readRecord(file string) ([]*Record, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	list, _, err := readRecords(in)
	return list, err
}
