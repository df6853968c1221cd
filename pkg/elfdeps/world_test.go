package elfdeps

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// loaderRoot is the root of the real loaders, if not this machine's.
var loaderRoot = flag.String("loaderroot", "/", "root of the `directory` with the real loaders to compare with")

// machine has the properties of one kind of processor.
type machine struct {
	name        string // in the text form of ELF files
	other       string // a machine whose files it passes over
	triplet     string
	glibc, musl string // paths of the loaders
	cc          string
	emulator    string // runs its programs on another machine
}

var machines = []machine{
	{"x86_64", "aarch64", "x86_64-linux-gnu", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1", "gcc", ""},
	{"aarch64", "x86_64", "aarch64-linux-gnu", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1", "aarch64-linux-gnu-gcc", "qemu-aarch64-static"},
}

// here is the machine of the real loaders.
var here = machines[0]

// glibcInterp and muslInterp are its interpreters.
var glibcInterp, muslInterp = here.glibc, here.musl

// findMachine sets the variables that depend on loaderRoot.
func findMachine() {
	for _, m := range machines {
		if _, err := os.Stat(filepath.Join(*loaderRoot, m.glibc)); err == nil {
			here, glibcInterp, muslInterp = m, m.glibc, m.musl
			return
		}
	}
}

// enterVar makes the test binary a helper that runs a program in a root.
const enterVar = "ELFDEPS_TEST_ENTER"

// uidVar has the user that the program runs as.
const uidVar = "ELFDEPS_TEST_UID"

func TestMain(m *testing.M) {
	if root := os.Getenv(enterVar); root != "" {
		fmt.Fprintln(os.Stderr, "enter:", enter(root, os.Args[1], os.Args[2:]))
		os.Exit(98)
	}
	flag.Parse()
	findMachine()
	var err error
	if copyDir, err = os.MkdirTemp("", "elfdeps"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(copyDir)
	os.Exit(status)
}

// enter mounts /proc, which loaders read for $ORIGIN, and executes the program. args are the
// environment of the program, "--", and its arguments.
func enter(root, cwd string, args []string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: 2, Max: 2}); err != nil {
		return fmt.Errorf("limiting processor time: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := syscall.Mount("proc", root+"/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := syscall.Chroot(root); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	if err := os.Chdir(cwd); err != nil {
		return err
	}
	if uid, err := strconv.Atoi(os.Getenv(uidVar)); err == nil && uid != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)); err != nil {
			return err
		}
	}
	i := slices.Index(args, "--")
	return syscall.Exec(args[i+1], args[i+1:], args[:i])
}

// world is a root, and how a program in it is started.
type world struct {
	interp string
	files  []worldFile // in the text form of imagetest, after "0/"
	env    []string
	cwd    string
	uid    int
	conf   string // ld.so.conf; ldconfig runs if it is set
	// byHand are the loader's arguments; if it is empty the program is started directly.
	byHand []string
}

type worldFile struct{ name, body string }

func (w *world) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# env %q cwd %q\n", w.env, w.cwd)
	if w.byHand != nil {
		fmt.Fprintf(&b, "# loader called with %q\n", w.byHand)
	}
	if w.conf != "" {
		fmt.Fprintf(&b, "# ldconfig with %q\n", w.conf)
	}
	for _, f := range w.files {
		fmt.Fprintf(&b, "-- 0%s --\n%s", f.name, f.body)
	}
	return b.String()
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test runs the real loader in a chroot and must be run as root: sudo go test ./pkg/elfdeps")
	}
}

// build makes the root, with the real loader and its C library.
func (w *world) build(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	im, err := imagetest.Parse([]byte(w.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, w)
	}
	if err := im.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"/proc", "/etc", w.cwd} {
		if err := os.MkdirAll(dir+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copyReal(t, dir, w.interp)
	if w.interp == glibcInterp {
		for _, lib := range realLibs() {
			copyReal(t, dir, lib)
		}
	}
	if here.emulator != "" {
		copyReal(t, dir, emulatorPath)
	}
	if w.conf != "" {
		if err := os.WriteFile(dir+"/etc/ld.so.conf", []byte(w.conf), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{realFile("/sbin/ldconfig"), "-r", dir}
		if here.emulator != "" {
			args = append([]string{here.emulator}, args...)
		}
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("ldconfig: %v\n%s", err, out)
		}
	}
	return dir
}

// emulatorPath is the path of the emulator in a world that needs one.
const emulatorPath = "/.emulator"

// realLibs returns the libraries of a glibc world: the C library, and the library of dlopen
// before glibc 2.34.
var realLibs = sync.OnceValue(func() []string {
	dir := "/lib/" + here.triplet
	if _, err := os.Stat(filepath.Join(*loaderRoot, "/lib64/libc.so.6")); err == nil {
		dir = "/lib64"
	}
	libs := []string{dir + "/libc.so.6"}
	if dl := dir + "/libdl.so.2"; definesDlopen(realFile(dl)) {
		libs = append(libs, dl)
	}
	return libs
})

// hereRelease returns the release of the real glibc, 236 for 2.36.
var hereRelease = sync.OnceValue(func() int {
	f, err := os.Open(realFile(realLibs()[0]))
	if err != nil {
		return 0
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0
	}
	o, err := Read(f, st.Size())
	if err != nil || o.Libc == nil {
		return 0
	}
	return releaseNumber(o.Libc.Release)
})

// compile makes a program of C source for the loader at interp. It links the C library of
// loaderRoot and only a call of main as its start, since the start files of this machine's
// compiler need this machine's release.
func compile(t testing.TB, source, interp string, flags ...string) string {
	t.Helper()
	f, err := os.CreateTemp(copyDir, "probe")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	args := append(flags, "-O1", "-w", "-fno-stack-protector", "-ffreestanding", "-nostdlib", "-nostdinc", "-o", f.Name(), "-Wl,--dynamic-linker="+interp, "-Wl,--allow-shlib-undefined", source)
	if interp == muslInterp {
		args = append(args, realFile(interp))
	} else {
		args = append(args, "-DGLIBC")
		for _, lib := range realLibs() {
			args = append(args, realFile(lib))
		}
	}
	if out, err := exec.Command(here.cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("compiling a program needs %s: %v\n%s", here.cc, err, out)
	}
	return f.Name()
}

// definesDlopen reports whether a library defines dlopen, rather than only versions for it.
func definesDlopen(file string) bool {
	f, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	symbols, _ := f.DynamicSymbols()
	return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == "dlopen" && s.Section != elf.SHN_UNDEF })
}

// realFile returns the path of a file of the real loaders.
func realFile(p string) string {
	if p == emulatorPath {
		p, _ = exec.LookPath(here.emulator)
		return p
	}
	for _, try := range []string{filepath.Join(*loaderRoot, "/lib", here.triplet, filepath.Base(p)), filepath.Join(*loaderRoot, p), filepath.Join(*loaderRoot, "..", filepath.Base(p))} {
		if st, err := os.Stat(try); err == nil && st.Mode().IsRegular() {
			return try
		}
	}
	return filepath.Join(*loaderRoot, p)
}

func copyReal(t testing.TB, dir, p string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(dir+p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(copied(t, p), dir+p); err != nil {
		t.Fatal(err)
	}
}

var copies = map[string]string{}

// copied returns a copy of a real file that can be linked into roots.
func copied(t testing.TB, p string) string {
	t.Helper()
	if copies[p] != "" {
		return copies[p]
	}
	b, err := os.ReadFile(realFile(p))
	if err != nil {
		t.Fatalf("the real %s is missing: install the packages libc6 and musl (%v)", p, err)
	}
	to := filepath.Join(copyDir, filepath.Base(p))
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	copies[p] = to
	return to
}

// copyDir holds the copies while the tests run.
var copyDir string

// worldOutcome has the results of the start and the trace of a world.
type worldOutcome struct {
	Exit, TraceExit     int
	Stderr, TraceStderr []string
	Trace               []string
}

var address = regexp.MustCompile(` \((0x[0-9a-f]+|0)\)`)

// real runs the world under the real loader.
func (w *world) real(t testing.TB, dir string) worldOutcome {
	t.Helper()
	var o worldOutcome
	if w.byHand != nil {
		_, o.Stderr, o.Exit = w.exec(t, dir, w.env, slices.Concat([]string{w.interp}, w.byHand)...)
		o.Trace, o.TraceStderr, o.TraceExit = w.exec(t, dir, w.env, slices.Concat([]string{w.interp, "--list"}, w.byHand)...)
		return o
	}
	_, o.Stderr, o.Exit = w.exec(t, dir, w.env, "/app/main")
	if strings.Contains(w.interp, "musl") {
		o.Trace, o.TraceStderr, o.TraceExit = w.exec(t, dir, w.env, w.interp, "--list", "/app/main")
		return o
	}
	o.Trace, o.TraceStderr, o.TraceExit = w.exec(t, dir, append([]string{"LD_TRACE_LOADED_OBJECTS=1"}, w.env...), "/app/main")
	return o
}

func (w *world) exec(t testing.TB, dir string, env []string, args ...string) (out, stderr []string, exit int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if here.emulator != "" {
		args = append([]string{emulatorPath}, args...)
	}
	cmd := exec.Command(self, slices.Concat([]string{w.cwd}, env, []string{"--"}, args)...)
	cmd.Env = []string{enterVar + "=" + dir, uidVar + "=" + strconv.Itoa(w.uid)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatalf("running the real loader needs root and mount namespaces: %v", err)
	}
	if cmd.ProcessState.ExitCode() == 98 {
		t.Fatal(e.String())
	}
	for line := range strings.Lines(o.String()) {
		line = address.ReplaceAllString(strings.TrimSpace(line), "")
		// Drop the vDSO, and the line of 2.36's --list on machines without one.
		if !strings.Contains(line, "linux-vdso") && !strings.HasPrefix(line, "(0x") {
			out = append(out, line)
		}
	}
	for line := range strings.Lines(e.String()) {
		stderr = append(stderr, strings.TrimSuffix(line, "\n"))
	}
	exit = cmd.ProcessState.ExitCode()
	if st, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && st.Signaled() && (st.Signal() == syscall.SIGXCPU || st.Signal() == syscall.SIGKILL) {
		exit = ranAway
	}
	return out, stderr, exit
}

// ranAway is the exit of a real loader that does not end, as for filtees that name each other.
// Such a world is not compared.
const ranAway = -100

// replayed returns the predicted outcome of the world.
func (w *world) replayed(t testing.TB, fsys FS) worldOutcome {
	t.Helper()
	l, err := NewLoader(fsys, w.interp, Env{Vars: w.env, Cwd: w.cwd, UID: w.uid, GID: w.uid, CPU: cpuLevel(t), Intel: cpuIsIntel(t)})
	if err != nil {
		t.Fatal(err)
	}
	var o worldOutcome
	start, trace := func() (*Process, error) { return l.Start("/app/main") }, func() (*Process, error) { return l.Trace("/app/main") }
	if w.byHand != nil {
		start = func() (*Process, error) { return l.Run(w.byHand) }
		trace = func() (*Process, error) { return l.Run(append([]string{"--list"}, w.byHand...)) }
	}
	p, err := start()
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	o.Exit, o.Stderr = p.Status(), p.Stderr()
	p, err = trace()
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	o.TraceExit, o.TraceStderr = p.Status(), p.Stderr()
	if o.TraceExit != 0 && !l.Libc.Musl {
		return o
	}
	for _, x := range p.List() {
		switch {
		case x.Module == nil:
			o.Trace = append(o.Trace, x.Name+" => not found")
		case x.Name == x.Module.Path && (!l.Libc.Musl || x.Module.isLoader):
			o.Trace = append(o.Trace, x.Name)
		default:
			o.Trace = append(o.Trace, x.Name+" => "+x.Module.Path)
		}
	}
	if !l.Libc.Musl && len(p.Program().Object.Needed) == 0 {
		o.Trace = []string{"statically linked"}
	}
	return o
}

// cpuIsIntel reports whether this machine's processor is by Intel.
func cpuIsIntel(t testing.TB) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(b, []byte("GenuineIntel"))
}

// supportedLevel matches a level of the processor in what glibc's loader says of itself.
var supportedLevel = regexp.MustCompile(`x86-64-v(\d) \(supported`)

// cpuLevel returns the x86-64 level of this machine: as its loader says (glibc 2.33 or later), else by
// the kernel's list of features, which is not complete on some virtual machines.
func cpuLevel(t testing.TB) int {
	t.Helper()
	if out, err := exec.Command(glibcInterp, "--help").Output(); err == nil && bytes.Contains(out, []byte("glibc-hwcaps directories")) {
		level := 1
		for _, m := range supportedLevel.FindAllSubmatch(out, -1) {
			level = max(level, int(m[1][0]-'0'))
		}
		return level
	}
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\nflags")
	line, _, _ := strings.Cut(rest, "\n")
	has := strings.Fields(line)
	level := 1
	for i, want := range []string{"cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3", "avx avx2 bmi1 bmi2 f16c fma abm movbe", "avx512f avx512bw avx512cd avx512dq avx512vl"} {
		for f := range strings.FieldsSeq(want) {
			if !slices.Contains(has, f) {
				return level
			}
		}
		level = i + 2
	}
	return level
}

// diff returns the difference between the predicted outcome and the real one, or "".
func (w *world) diff(t testing.TB) string {
	t.Helper()
	dir := w.build(t)
	want := w.real(t, dir)
	if want.Exit < 0 || want.TraceExit < 0 { // it crashed or did not end
		return ""
	}
	return cmp.Diff(want, w.replayed(t, dirTree(t, dir)))
}

// interps returns the real loaders: this machine's two, or those of loaderRoot.
func interps() []string {
	list := []string{glibcInterp, muslInterp}
	if *loaderRoot == "/" {
		return list
	}
	return slices.DeleteFunc(list, func(p string) bool {
		_, err := os.Stat(realFile(p))
		return err != nil
	})
}

// TestWorlds replays the worlds of testdata/worlds with the package's loader and with the real
// one, which must agree on every name, path and message.
func TestWorlds(t *testing.T) {
	needRoot(t)
	eachText(t, "testdata/worlds", func(t *testing.T, file string) {
		w := readWorld(t, file)
		diff := w.diff(t)
		if strings.Contains(file, "symbols") {
			diff += w.symbolDiff(t)
		}
		if diff != "" {
			t.Errorf("-real +ours:\n%s", diff)
		}
	})
}

// eachText runs a subtest for each image text of a directory.
func eachText(t *testing.T, dir string, test func(t *testing.T, file string)) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no image texts in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { test(t, file) })
	}
}

// readImage returns an image text and its image.
func readImage(t *testing.T, file string) ([]byte, *imagetest.Image) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	im, err := imagetest.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return b, im
}

func readWorld(t *testing.T, file string) *world {
	t.Helper()
	b, im := readImage(t, file)
	w := &world{interp: glibcInterp, env: im.Config.Env, cwd: "/", conf: im.Sections["ld.so.conf"]}
	if im.Config.WorkingDir != "" {
		w.cwd = im.Config.WorkingDir
	}
	text := string(b)
	for _, part := range strings.Split(text, "\n-- 0")[1:] {
		name, body, _ := strings.Cut(part, " --\n")
		body, _, _ = strings.Cut(body, "\n-- ")
		w.files = append(w.files, worldFile{name, strings.TrimSuffix(body, "\n") + "\n"})
		if strings.Contains(body, "interp="+muslInterp) {
			w.interp = muslInterp
		}
	}
	return w
}

// TestSecureMode starts a set-user-ID program as another user.
func TestSecureMode(t *testing.T) {
	needRoot(t)
	for _, c := range []struct{ main, lib, needs string }{
		{"needed liba.so\nrunpath $ORIGIN/../lib/sub\n", "/usr/lib/sub/liba.so", ""},
		{"needed liba.so\nrunpath $ORIGIN/../../opt\n", "/opt/liba.so", ""}, // not below a built-in directory
		{"needed liba.so\nrunpath /$ORIGIN/../lib/sub\n", "/usr/lib/sub/liba.so", ""},
		{"needed liba.so\nrunpath /opt\n", "/opt/liba.so", "needed libb.so\nrunpath $ORIGIN/x\n"},
		{"needed $ORIGIN/liba.so\n", "/app/liba.so", ""},
		{"needed liba.so\n", "/env/liba.so", ""},
	} {
		w := &world{
			interp: glibcInterp, cwd: "/", uid: 65534, env: []string{"LD_LIBRARY_PATH=/env", "LD_PRELOAD=/env/liba.so libp.so"},
			files: []worldFile{
				{"/usr/bin/main", "elf " + here.name + " interp=" + glibcInterp + "\n" + c.main},
				{"/app/main", "hardlink /usr/bin/main\n"},
				{c.lib, "elf " + here.name + " soname=liba.so\n" + c.needs},
				{"/opt/x/libb.so", "elf " + here.name + " soname=libb.so\n"},
				{"/usr/lib/libp.so", "elf " + here.name + "\n"},
			},
		}
		dir := w.build(t)
		if err := os.Chmod(dir+"/usr/bin/main", 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
		exe := func(w worldOutcome) worldOutcome { w.Trace, w.TraceStderr, w.TraceExit = nil, nil, 0; return w }
		if diff := cmp.Diff(exe(w.real(t, dir)), exe(w.replayed(t, dirTree(t, dir)))); diff != "" {
			t.Errorf("%s-real +ours:\n%s", c.main, diff)
		}
	}
}
