//go:build linux

// Package run makes the faults of test/gpu/faults.yaml on a machine with a GPU, one at
// a time, runs real programs and imgcheck after each, and records the results of both.
// Package gpu reads the record.
//
// It needs root: it makes each fault in an overlay over /, into which it binds the
// mounts of the kernel and the driver. It does not change the machine itself.
//
//	go build -o /tmp/imgcheck ./cmd/imgcheck && go run ./test/gpu/run/main.go -imgcheck /tmp/imgcheck -o test/gpu/testdata/record.json
package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/test/gpu"
)

// Main runs the program.
func Main() {
	r := &runner{}
	flag.StringVar(&r.imgcheck, "imgcheck", "", "the program, built without cgo")
	flag.StringVar(&r.programs, "programs", "test/gpu/programs", "the directory of the Python programs")
	flag.StringVar(&r.python, "python", "/opt/torch/.venv/bin/python3", "the interpreter of the programs")
	flag.StringVar(&r.out, "o", "record.json", "the file to write")
	only := flag.String("only", "", "the faults to do, as a regular expression")
	flag.IntVar(&r.jobs, "j", 5, "how many faults are tried at a time")
	flag.DurationVar(&r.limit, "limit", 2*time.Minute, "how long a program may take")
	within := flag.Duration("within", time.Hour, "begin no fault later than that")
	flag.BoolVar(&r.patches, "patches", false, "also patch the faults under patches, and run the programs after each")
	flag.IntVar(&r.random, "random", 0, "make so many random faults in place of those of faults.yaml")
	flag.Uint64Var(&r.seed, "seed", 1, "what the random faults hang on")
	targets := flag.Bool("targets", false, "make the faults in GPU code, those of targets.yaml, and scan for the machine's GPU and driver")
	flag.BoolVar(&r.all, "maps", false, "keep the mapped files of every fault, not of the first alone")
	flag.Parse()
	r.until = time.Now().Add(*within)
	r.load = gpu.Load
	if *targets {
		r.load, r.extra = gpu.LoadTargets, gpuAndDriver(context.Background())
	}
	if err := r.run(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// runner holds the values of the flags.
type runner struct {
	imgcheck, programs, python, out string
	jobs                            int
	limit                           time.Duration
	until                           time.Time
	patches, all                    bool
	random                          int
	seed                            uint64

	load  func() (*gpu.Plan, error)
	extra []string // arguments of a scan
	plan  *gpu.Plan
	work  string // a tmpfs for the upper directories of the overlays
	mu    sync.Mutex
}

// tools is the directory of a root where imgcheck and the programs are mounted.
const tools = "/mnt"

func (r *runner) run(ctx context.Context, only string) error {
	var err error
	if r.plan, err = r.load(); err != nil {
		return err
	}
	if r.random > 0 {
		mapped, err := gpu.Mapped()
		if err != nil {
			return err
		}
		r.plan.Faults, r.all = append(r.plan.Faults[:1], gpu.Random("", mapped, r.seed, r.random)...), false
	}
	which, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("/run", "imgcheck-gpu-"); err != nil {
		return err
	}
	defer os.Remove(r.work)
	if err := syscall.Mount("tmpfs", r.work, "tmpfs", 0, "size=60g,mode=755"); err != nil {
		return fmt.Errorf("a tmpfs at %s: %w", r.work, err)
	}
	defer unmount(r.work)
	share := filepath.Join(r.work, "tools")
	if out, err := exec.CommandContext(ctx, "sh", "-c", `mkdir "$1" && cp -r "$2"/. "$1" && cp "$3" "$1"/imgcheck && chmod -R a+rX "$1"`, "sh", share, r.programs, r.imgcheck).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	record := &gpu.Record{Machine: machine(ctx), Faults: make([]gpu.RecordedFault, len(r.plan.Faults))}
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(r.jobs)
	for i, f := range r.plan.Faults {
		if !which.MatchString(f.Name) {
			continue
		}
		g.Go(func() error {
			begin := time.Now()
			if begin.After(r.until) {
				fmt.Fprintf(os.Stderr, "not begun: %s\n", f.Name)
				return nil
			}
			one, err := r.try(each, i, f)
			if err != nil && (r.random > 0 || len(r.extra) > 0) && each.Err() == nil {
				fmt.Fprintf(os.Stderr, "cannot be made: %s: %v\n", f.Name, err)
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			record.Faults[i] = *one
			if err := write(r.out, record); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%5.1f s  %s\n", time.Since(begin).Seconds(), f.Name)
			return nil
		})
	}
	if err = g.Wait(); err == nil && r.patches {
		err = r.patchAll(ctx, record, which)
	}
	record.Faults = slices.DeleteFunc(record.Faults, func(f gpu.RecordedFault) bool { return f.Name == "" })
	fmt.Print(r.plan.Table(record))
	return err
}

// write writes the record as far as it is complete.
func write(file string, record *gpu.Record) error {
	done := *record
	done.Faults = slices.DeleteFunc(slices.Clone(record.Faults), func(f gpu.RecordedFault) bool { return f.Name == "" })
	b, err := json.MarshalIndent(&done, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// machine returns the names of the GPU and its driver.
func machine(ctx context.Context) string {
	out, _ := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").Output()
	return strings.TrimSpace(string(out))
}

// gpuAndDriver returns the arguments by which a scan judges for the machine's first GPU.
func gpuAndDriver(ctx context.Context) []string {
	out, _ := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=compute_cap,driver_version", "--format=csv,noheader").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	gpu, driver, ok := strings.Cut(line, ", ")
	if !ok {
		return nil
	}
	return []string{"--gpu", gpu, "--driver", driver}
}

// try makes one fault in an overlay.
func (r *runner) try(ctx context.Context, i int, f *gpu.Fault) (_ *gpu.RecordedFault, err error) {
	root, err := r.overlay(fmt.Sprint("f", i))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unmount(filepath.Dir(root))) }()
	if err := f.Apply(root); err != nil {
		return nil, err
	}
	env := r.plan.Environment(f)
	if f.Ldconfig {
		if out, err := r.command(ctx, root, env, "/sbin/ldconfig").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ldconfig: %w: %s", err, out)
		}
	}
	one := &gpu.RecordedFault{Name: f.Name, Programs: map[string]*gpu.Outcome{}}
	if one.Said, err = r.scan(ctx, root, env); err != nil {
		return nil, err
	}
	if err := bindMounts(root, r.work); err != nil {
		return nil, err
	}
	g, each := errgroup.WithContext(ctx)
	for _, p := range slices.Concat(r.plan.Programs, f.Also) {
		o := &gpu.Outcome{}
		one.Programs[p] = o
		g.Go(func() error {
			done, err := r.real(each, root, env, p)
			if err != nil {
				return err
			}
			if *o = *done; i > 0 && !r.all {
				o.Mapped = nil
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if i > 0 && !r.all {
		one.Said.Mapped = nil
	}
	return one, nil
}

// patchAll patches the faults under "patches" with imgcheck, and runs the programs after each.
func (r *runner) patchAll(ctx context.Context, record *gpu.Record, which *regexp.Regexp) error {
	record.Patches = make([]gpu.RecordedPatch, len(r.plan.Patches))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.jobs)
	for i, c := range r.plan.Patches {
		if !which.MatchString(c.Fault) {
			continue
		}
		g.Go(func() error {
			one, err := r.patch(ctx, fmt.Sprint("c", i), c)
			if err != nil {
				return fmt.Errorf("patching %s: %w", c.Fault, err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			record.Patches[i] = *one
			return write(r.out, record)
		})
	}
	err := g.Wait()
	record.Patches = slices.DeleteFunc(record.Patches, func(c gpu.RecordedPatch) bool { return c.Name == "" })
	return err
}

// patch makes a fault, lays the layer of imgcheck's patch over it, and runs the
// programs with the variables of the patch.
func (r *runner) patch(ctx context.Context, name string, c *gpu.Patch) (_ *gpu.RecordedPatch, err error) {
	f := r.plan.Fault(c.Fault)
	if f == nil {
		return nil, errors.New("faults.yaml has no such fault")
	}
	root, err := r.overlay(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unmount(filepath.Dir(root))) }()
	if err := f.Apply(root); err != nil {
		return nil, err
	}
	env := r.plan.Environment(f)
	layer := filepath.Join(r.work, name, "fix.tar")
	args := []string{"patch", "dir:" + root, "--no-cache", "--quiet", "--config", "none", "--accept-nvidia-license"}
	for _, v := range env {
		args = append(args, "--env", v)
	}
	for _, dir := range c.From {
		args = append(args, "--from", "dir:"+dir)
	}
	one := &gpu.RecordedPatch{Name: c.Fault, Programs: map[string]*gpu.Outcome{}}
	plan, err := r.imgcheckHere(ctx, append(args, "--dry-run"))
	one.Plan = strings.ReplaceAll(plan, root, "")
	if err != nil {
		one.Plan += err.Error()
		return one, nil
	}
	out, err := r.imgcheckHere(ctx, append(args, "-t", "layer:"+layer))
	if err != nil {
		one.Plan += err.Error()
		return one, nil
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	env = append(env, lines[1:]...) // the last value of a name counts
	// To tar, a whiteout is a file like any other.
	over := exec.CommandContext(ctx, "sh", "-c", `tar -tf "$1" | sed -n 's|^\(.*/\)*\.wh\.|\1|p' | while IFS= read -r gone; do rm -rf "$2/$gone"; done && tar -C "$2" --exclude='.wh.*' -xf "$1"`, "sh", layer, root)
	if out, err := over.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the layer over the root: %w: %s", err, out)
	}
	if err := bindMounts(root, r.work); err != nil {
		return nil, err
	}
	for _, p := range r.plan.Programs {
		if one.Programs[p], err = r.real(ctx, root, env, p); err != nil {
			return nil, err
		}
		one.Programs[p].Mapped = nil
	}
	fmt.Fprintf(os.Stderr, "cured: %s\n", c.Fault)
	return one, nil
}

// imgcheckHere runs imgcheck on this machine, outside the overlays.
func (r *runner) imgcheckHere(ctx context.Context, args []string) (string, error) {
	c := exec.CommandContext(ctx, filepath.Join(r.work, "tools", "imgcheck"), args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("imgcheck %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return stdout.String(), nil
}

// overlay mounts a root directory over /, with the tools in it.
func (r *runner) overlay(name string) (string, error) {
	dir := filepath.Join(r.work, name)
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return "", err
		}
	}
	root := filepath.Join(dir, "root")
	if err := syscall.Mount("overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=/,upperdir=%s/upper,workdir=%s/work", dir, dir)); err != nil {
		return "", fmt.Errorf("an overlay over /: %w", err)
	}
	return root, syscall.Mount(filepath.Join(r.work, "tools"), root+tools, "", syscall.MS_BIND, "")
}

// bindMounts binds the machine's mounts into a root: the kernel's file systems,
// devices, the driver.
func bindMounts(root, work string) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		at := fields[4]
		if at == "/" || at == tools || strings.HasPrefix(at+"/", work+"/") || strings.HasPrefix(at, "/run") {
			continue
		}
		if st, err := os.Stat(at); err == nil && !st.IsDir() {
			_ = os.WriteFile(root+at, nil, 0o644) // if the mount point does not exist
		} else {
			_ = os.MkdirAll(root+at, 0o755)
		}
		if err := syscall.Mount(at, root+at, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s in the overlay: %w", at, err)
		}
	}
	return nil
}

// unmount removes all mounts at and below a directory, the last one first.
func unmount(dir string) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	lines := strings.Split(string(b), "\n")
	for _, line := range slices.Backward(lines) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4]+"/", dir+"/") {
			if err := syscall.Unmount(fields[4], syscall.MNT_DETACH); err != nil {
				return fmt.Errorf("%s: %w", fields[4], err)
			}
		}
	}
	return nil
}

// command returns the command that runs a program in a root.
func (r *runner) command(ctx context.Context, root string, env []string, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Path, c.Err = name, nil // a path in the root, not on this machine
	c.Dir, c.Env = "/", env
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	return c
}

// scan runs imgcheck in a root, as in a step of a container build.
func (r *runner) scan(ctx context.Context, root string, env []string) (*gpu.Said, error) {
	args := append([]string{"scan", "--format", "json", "--no-cache", "--no-fixes", "--quiet", "--config", "none"}, r.extra...)
	c := r.command(ctx, root, env, tools+"/imgcheck", append(args, "dir:/")...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil && c.ProcessState.ExitCode() != 1 {
		return nil, fmt.Errorf("imgcheck: %w: %s", err, stderr.Bytes())
	}
	return gpu.ReadReport(stdout.Bytes())
}

// real runs a program in a root, and returns its outcome.
func (r *runner) real(ctx context.Context, root string, env []string, program string) (*gpu.Outcome, error) {
	limited, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	c := r.command(limited, root, env, r.python, tools+"/use_"+program+".py")
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	o, rerr := gpu.ReadOutcome(&stdout)
	if rerr != nil {
		return nil, rerr
	}
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		o.End = "it did not end within " + r.limit.String()
	case err != nil:
		o.End = err.Error()
	}
	log := bytes.TrimSpace(stderr.Bytes())
	o.Log = string(log[max(0, len(log)-1200):])
	return o, nil
}
