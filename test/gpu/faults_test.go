package gpu

import (
	"archive/tar"
	"debug/elf"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/targets"
	"github.com/imgcheck/imgcheck/rules"
)

// TestFaults makes each recorded fault in the text of the machine, and compares the
// findings of today's imgcheck with the behaviour of the real programs.
func TestFaults(t *testing.T) {
	plan, record := recorded(t)
	whole(t, plan, record)
	for i, f := range record.Faults {
		t.Run(f.Name, func(t *testing.T) {
			said := &Said{}
			record.Faults[i].Said = said
			res := judge(t, plan, f.Name)
			for _, finding := range res.Findings {
				one := Finding{Rule: finding.Rule, Severity: string(finding.Severity), Message: finding.Message, Because: finding.Because}
				for _, e := range finding.Effects {
					one.Effects = append(one.Effects, Effect{e.Text, e.Error})
				}
				said.Findings = append(said.Findings, one)
			}
			verdicts, _ := plan.Judge(f.Programs, said)
			known := plan.Fault(f.Name).Differs
			for program := range known {
				if !slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Program == program && !v.Agrees() }) {
					t.Errorf("%s is foretold now: it differs no more", program)
				}
			}
			for _, v := range verdicts {
				if known[v.Program] == "" && !v.Agrees() {
					t.Errorf("%s, %s: the real program says %q; foretold: %+v", v.Program, v.Step, v.Real, v.Foretold)
				}
			}
		})
	}
	document(t, "faults", plan.Table(record))
}

// whole fails the test if a fault or one of its programs has no record, or if a
// recorded step is no feature: these would not be compared.
func whole(t *testing.T, plan *Plan, record *Record) {
	t.Helper()
	for _, f := range plan.Faults {
		i := slices.IndexFunc(record.Faults, func(r RecordedFault) bool { return r.Name == f.Name })
		if i < 0 {
			t.Errorf("%s: no record", f.Name)
			continue
		}
		for _, program := range slices.Concat(plan.Programs, f.Also) {
			if record.Faults[i].Programs[program] == nil {
				t.Errorf("%s: %s has no record", f.Name, program)
			}
		}
		for program, o := range record.Faults[i].Programs {
			for _, s := range o.Steps {
				if !slices.ContainsFunc(plan.Features, func(f *Feature) bool { return f.Program == program && f.Step == s.Name }) {
					t.Errorf("%s: %s is no feature of %s", f.Name, s.Name, program)
				}
			}
		}
	}
}

// TestPatches checks that the programs were run after each patch, and that all their
// steps worked.
func TestPatches(t *testing.T) {
	plan, record := recorded(t)
	for _, c := range plan.Patches {
		i := slices.IndexFunc(record.Patches, func(r RecordedPatch) bool { return r.Name == c.Fault })
		if i < 0 {
			t.Errorf("%s: no record of a patch", c.Fault)
			continue
		}
		for _, program := range plan.Programs {
			o := record.Patches[i].Programs[program]
			if o == nil || len(o.Steps) < 5 {
				t.Errorf("%s: %s was not run", c.Fault, program)
			} else if step, text := o.First(); text != "" {
				t.Errorf("%s: %s, %s: %s", c.Fault, program, step, text)
			}
		}
	}
	document(t, "patches", PatchTable(record))
}

// recorded returns the faults and their record.
func recorded(t *testing.T) (*Plan, *Record) {
	t.Helper()
	plan, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	return plan, r
}

// judge makes a fault in the text of the machine and scans it.
func judge(t *testing.T, plan *Plan, name string) *lint.Result {
	t.Helper()
	f := plan.Fault(name)
	if f == nil {
		t.Fatalf("faults.yaml has no fault %q", name)
	}
	return f.judge(t, machine(t))
}

// machine returns the text of the machine.
func machine(t *testing.T) *imagetest.Image {
	t.Helper()
	text, err := os.ReadFile("testdata/machine.txtar")
	if err != nil {
		t.Fatal(err)
	}
	m, err := imagetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// before has the machine's ld.so.cache before any fault, which GPU code does not change.
var before struct {
	sync.Once
	cache string
}

// judge makes the fault in the text of a machine and scans it, for given GPUs and drivers.
func (f *Fault) judge(t *testing.T, m *imagetest.Image, on ...targets.Machine) *lint.Result {
	t.Helper()
	records(t, m)
	before.Do(func() { before.cache = ldconfig(t, m) })
	cache := before.cache
	put(m, "/etc/ld.so.cache", imagetest.File{Data: cache, Size: int64(len(cache)), Mode: 0o644})
	f.applyText(t, m)
	if f.Ldconfig {
		cache = ldconfig(t, m)
		put(m, "/etc/ld.so.cache", imagetest.File{Data: cache, Size: int64(len(cache)), Mode: 0o644})
	}
	for name, value := range f.Env {
		m.Config.Env = append(slices.DeleteFunc(m.Config.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") }), name+"="+value)
	}
	set, err := loadPacks()
	if err != nil {
		t.Fatal(err)
	}
	res, err := lint.Run(t.Context(), &replay.Image{FS: index(t, m), Config: &v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: m.Config}, Machines: on}, set)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

var loadPacks = sync.OnceValues(func() (*packs.Packs, error) { return packs.LoadPacks(rules.FS) })

// wheels maps distributions, to whose metadata records adds a RECORD, to their directories.
var wheels = map[string][]string{
	"nvidia_cudnn_cu13": {"nvidia/cudnn"}, "torch": {"torch"}, "torchvision": {"torchvision"}, "torchaudio": {"torchaudio"}, "cupy_cuda13x": {"cupy", "cupy_backends"},
	"jaxlib": {"jaxlib"}, "jax_cuda13_plugin": {"jax_cuda13_plugin"}, "numpy": {"numpy"}, "scipy": {"scipy"}, "numba": {"numba"}, "numba_cuda": {"numba_cuda"}, "cuda_core": {"cuda/core"}, "cuda_bindings": {"cuda/bindings"},
}

// records adds the RECORDs of wheels, with the sizes of their files in the text.
func records(t *testing.T, m *imagetest.Image) {
	t.Helper()
	for name, dirs := range wheels {
		info := ""
		var b strings.Builder
		for _, f := range m.Layers[0].Files {
			rel, ok := strings.CutPrefix("/"+f.Name, site)
			switch {
			case !ok:
			case strings.HasPrefix(rel, name+"-") && strings.HasSuffix(rel, ".dist-info/METADATA"):
				info = path.Dir(rel)
			case slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(rel, dir+"/") }):
				fmt.Fprintf(&b, "%s,,%d\n", rel, f.Size)
			}
		}
		if info == "" || b.Len() == 0 {
			t.Fatalf("the machine's text has no %s", name)
		}
		put(m, site+info+"/RECORD", imagetest.File{Data: b.String(), Size: int64(b.Len()), Mode: 0o644})
	}
}

// applyText makes a fault in the text of a machine, as [Fault.Apply] does in a root.
func (f *Fault) applyText(t *testing.T, m *imagetest.Image) {
	t.Helper()
	files := &m.Layers[0].Files
	before := len(*files)
	*files = slices.DeleteFunc(*files, func(file imagetest.File) bool {
		return slices.ContainsFunc(f.Remove, func(pattern string) bool { return matches(pattern, "/"+file.Name) })
	})
	if len(f.Remove) > 0 && len(*files) == before {
		t.Fatal("none of the files to remove is there")
	}
	for _, p := range f.Empty {
		file := get(t, m, p)
		*file = imagetest.File{Name: file.Name, Type: tar.TypeReg, Mode: file.Mode}
	}
	for _, p := range f.Cut {
		get(t, m, p).Halve()
	}
	for p, to := range f.Move {
		moved := false
		for i := range *files {
			file := &(*files)[i]
			if rest, ok := strings.CutPrefix("/"+file.Name, p); ok && (rest == "" || rest[0] == '/') {
				file.Name, moved = strings.TrimPrefix(to+rest, "/"), true
			}
		}
		if !moved {
			t.Fatalf("%s: no such file", p)
		}
	}
	for p, from := range f.Copy {
		put(m, p, *get(t, m, from))
	}
	for p, target := range f.Link {
		put(m, p, imagetest.File{Type: tar.TypeSymlink, Link: target, Mode: 0o777})
	}
	for p, text := range f.Write {
		put(m, p, imagetest.File{Data: text, Size: int64(len(text)), Mode: 0o644})
	}
	for _, p := range f.Runpath {
		e := get(t, m, p).ELF
		e.Runpath, e.Rpath = e.Rpath, nil
	}
	for _, p := range f.Short {
		get(t, m, p).Halve() // files in the text are smaller than the 4096 bytes
	}
	for _, p := range f.Directory {
		put(m, p, imagetest.File{Type: tar.TypeDir, Mode: 0o755})
	}
	for _, p := range f.Sectionless {
		file := get(t, m, p)
		file.ELF.NoSections = true
		file.Size = file.ELF.Size()
	}
	for _, p := range f.Machine {
		file := get(t, m, p)
		file.ELF.Machine = elf.EM_AARCH64
		file.Size = file.ELF.Size()
	}
}

// get returns the file of a path.
func get(t *testing.T, m *imagetest.Image, p string) *imagetest.File {
	t.Helper()
	files := m.Layers[0].Files
	i := slices.IndexFunc(files, func(f imagetest.File) bool { return "/"+f.Name == p })
	if i < 0 {
		t.Fatalf("%s: no such file", p)
	}
	return &files[i]
}

// put sets the file of a path.
func put(m *imagetest.Image, p string, f imagetest.File) {
	f.Name = strings.TrimPrefix(p, "/")
	if f.Type == 0 {
		f.Type = tar.TypeReg
	}
	files := &m.Layers[0].Files
	*files = append(slices.DeleteFunc(*files, func(old imagetest.File) bool { return old.Name == f.Name }), f)
}

var update = flag.Bool("update", false, "write the tables of docs/gpu.md")

// document compares the table between two marks of docs/gpu.md with the computed one.
func document(t *testing.T, name, table string) {
	t.Helper()
	const file = "../../docs/gpu.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(b), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks of %s", file, name)
	}
	if old == table {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the test finds: go test ./test/gpu -update", file)
	}
	if err := os.WriteFile(file, []byte(before+begin+table+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// matches reports whether a path matches a pattern of path.Match, or DIR/** and lies below DIR.
func matches(pattern, name string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/**"); ok {
		return strings.HasPrefix(name, dir+"/")
	}
	if ok, err := path.Match(pattern, name); ok && err == nil {
		return true
	}
	dir := path.Dir(name)
	return dir != "/" && matches(pattern, dir) // a directory that matches includes all files below
}

// index returns the machine's file system.
func index(t *testing.T, m *imagetest.Image) *layers.FS {
	t.Helper()
	r, w := io.Pipe() // its libraries are hundreds of megabytes of zeros
	defer r.Close()
	go func() { w.CloseWithError(m.LayerTar(0, w)) }()
	l, err := layers.ReadLayer(r, func(name string, size int64) bool {
		return strings.HasPrefix(name, "etc/ld.so") || replay.Wants(name, size)
	})
	if err != nil {
		t.Fatal(err)
	}
	return layers.Merge(l)
}

// ldconfig returns the ld.so.cache that the machine's ldconfig would write.
func ldconfig(t *testing.T, m *imagetest.Image) string {
	t.Helper()
	f := index(t, m)
	loader, err := elfdeps.NewLoader(f, "/lib64/ld-linux-x86-64.so.2", elfdeps.Env{})
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := elfdeps.Ldconfig(directories{f}, loader)
	if len(entries) < 20 {
		t.Fatalf("ldconfig finds %d libraries", len(entries))
	}
	return string(elfdeps.WriteCache(entries))
}

type directories struct{ *layers.FS }

func (d directories) List(dir string) ([]string, error) {
	e, _, ok := d.Lookup(dir)
	if !ok {
		return nil, fs.ErrNotExist
	}
	list, err := fs.ReadDir(d.FS, e.Path)
	var names []string
	for _, one := range list {
		names = append(names, one.Name())
	}
	return names, err
}
