// Package gpu holds what imgcheck foretells against what real GPU processes do.
//
// faults.yaml says what is done to a machine, one thing at a time. `go run
// ./test/gpu/run/main.go` does it on a machine with a GPU, each in an overlay, runs the
// programs of programs/ and imgcheck there, and writes both down
// (testdata/record.json). The tests do the same to testdata/machine.txtar, the
// loader's view of that machine as text, and hold today's imgcheck against what the
// real programs did.
package gpu

import (
	"bytes"
	"cmp"
	"debug/elf"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Fault is what is done to a machine. Paths are absolute, and those to remove,
// empty and cut are patterns of [path.Match], with "/**" for all that is below.
type Fault struct {
	Name        string            `yaml:"name"`
	Remove      []string          `yaml:"remove"`
	Empty       []string          `yaml:"empty"`       // files of no bytes are left
	Cut         []string          `yaml:"cut"`         // the first half of each is left
	Move        map[string]string `yaml:"move"`        // path → new path, in a directory that is made
	Copy        map[string]string `yaml:"copy"`        // path → the file that takes its place
	Link        map[string]string `yaml:"link"`        // path → target of a symbolic link
	Write       map[string]string `yaml:"write"`       // path → text
	Runpath     []string          `yaml:"runpath"`     // ELF files whose RPATH is made a RUNPATH
	Machine     []string          `yaml:"machine"`     // ELF files that are made for aarch64
	Short       []string          `yaml:"short"`       // the last 4096 bytes of each are gone
	Sectionless []string          `yaml:"sectionless"` // ELF files whose section headers are gone
	Directory   []string          `yaml:"directory"`   // directories take their places
	Ldconfig    bool              `yaml:"ldconfig"`    // ldconfig is run afterwards
	Env         map[string]string `yaml:"env"`
	Also        []string          `yaml:"also"`    // programs that are run besides those of the plan
	Differs     map[string]string `yaml:"differs"` // programs of which another end is foretold, and why
	Sources     []string          `yaml:"sources"` // where such a fault was reported, if it was
}

// Feature is a step of a program, and how imgcheck names its failing.
type Feature struct {
	Program string `yaml:"program"`
	Step    string `yaml:"step"`
	// Effects are patterns (regexp) of the texts that foretell that it fails.
	Effects []string `yaml:"effects"`

	effects []*regexp.Regexp
}

// Plan is faults.yaml.
type Plan struct {
	Env      map[string]string `yaml:"env"`      // of every program
	Programs []string          `yaml:"programs"` // those that are run after every fault
	Features []*Feature        `yaml:"features"`
	Faults   []*Fault          `yaml:"faults"`
	Cures    []*Cure           `yaml:"cures"`
}

// Cure is a fault that imgcheck patches.
type Cure struct {
	Fault string   `yaml:"fault"`
	From  []string `yaml:"from"` // directories of the unbroken machine that have the libraries
}

// Fault is the fault of a name, nil when there is none.
func (p *Plan) Fault(name string) *Fault {
	i := slices.IndexFunc(p.Faults, func(f *Fault) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return p.Faults[i]
}

//go:embed faults.yaml
var faultsYAML []byte

// Load reads the plan.
func Load() (*Plan, error) {
	d := yaml.NewDecoder(bytes.NewReader(faultsYAML))
	d.KnownFields(true)
	p := &Plan{}
	if err := d.Decode(p); err != nil {
		return nil, err
	}
	for _, f := range p.Features {
		for _, e := range f.Effects {
			re, err := regexp.Compile(e)
			if err != nil {
				return nil, err
			}
			f.effects = append(f.effects, re)
		}
	}
	return p, nil
}

// Outcome is what one program did: its steps up to where it ended.
type Outcome struct {
	Steps []Step `json:"steps"`
	// End is how the process ended, where it did not come to its own end: a signal,
	// a status, a limit of time.
	End string `json:"end,omitempty"`
	// Log is the end of what it wrote to its standard error.
	Log string `json:"log,omitempty"`
	// Mapped are the libraries that it had mapped at its end.
	Mapped []string `json:"mapped,omitempty"`
}

// Step is a feature that was tried.
type Step struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"` // empty: it worked
}

// Said is what imgcheck says: its findings, and the libraries that each framework is
// foretold to map.
type Said struct {
	Findings []Finding           `json:"findings"`
	Mapped   map[string][]string `json:"mapped,omitempty"` // by title
}

// Finding is a finding of imgcheck, as its JSON has it.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity string   `json:"severity"`
	Message  string   `json:"message"`
	Effects  []Effect `json:"effects,omitempty"`
	Because  string   `json:"because,omitempty"`
}

// Effect is what follows from a finding.
type Effect struct {
	Text  string `json:"text"`
	Error string `json:"error,omitempty"`
}

// Record is what was seen on a machine.
type Record struct {
	Machine string          `json:"machine"`
	Faults  []RecordedFault `json:"faults"`
	Cures   []RecordedCure  `json:"cures,omitempty"`
}

// RecordedFault is what real programs, and imgcheck then, made of a fault.
type RecordedFault struct {
	Name     string              `json:"name"`
	Programs map[string]*Outcome `json:"programs"`
	Said     *Said               `json:"said,omitempty"`
}

// RecordedCure is what imgcheck patched, and what the real programs did then.
type RecordedCure struct {
	Name     string              `json:"name"`
	Plan     string              `json:"plan"` // what it printed
	Programs map[string]*Outcome `json:"programs"`
}

// Apply does a fault to a root directory.
func (f *Fault) Apply(root string) error {
	removed := 0
	for _, p := range f.Remove {
		files, err := filepath.Glob(root + strings.TrimSuffix(p, "/**"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := os.RemoveAll(file); err != nil {
				return err
			}
			removed++
		}
	}
	if len(f.Remove) > 0 && removed == 0 {
		return errors.New("none of the files to remove is there")
	}
	for _, p := range f.Empty {
		if err := each(root, p, func(file string) error { return os.Truncate(file, 0) }); err != nil {
			return err
		}
	}
	for _, p := range f.Cut {
		err := each(root, p, func(file string) error {
			st, err := os.Stat(file)
			if err != nil {
				return err
			}
			return os.Truncate(file, st.Size()/2)
		})
		if err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(f.Move)) {
		if err := os.MkdirAll(path.Dir(root+f.Move[p]), 0o755); err != nil {
			return err
		}
		// mv, since an overlay cannot rename a directory of its lower layer.
		if out, err := exec.Command("mv", root+p, root+f.Move[p]).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(f.Copy)) {
		if err := copyFile(root+p, root+f.Copy[p]); err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(f.Link)) {
		if err := makeRoom(root + p); err != nil {
			return err
		}
		if err := os.Symlink(f.Link[p], root+p); err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(f.Write)) {
		if err := makeRoom(root + p); err != nil {
			return err
		}
		if err := os.WriteFile(root+p, []byte(f.Write[p]), 0o644); err != nil {
			return err
		}
	}
	for _, p := range f.Runpath {
		if err := each(root, p, makeRunpath); err != nil {
			return err
		}
	}
	for _, p := range f.Machine {
		err := each(root, p, func(file string) error {
			return overwrite(file, 18, binary.LittleEndian.AppendUint16(nil, uint16(elf.EM_AARCH64)))
		})
		if err != nil {
			return err
		}
	}
	for _, p := range f.Short {
		err := each(root, p, func(file string) error {
			st, err := os.Stat(file)
			if err != nil {
				return err
			}
			return os.Truncate(file, max(0, st.Size()-4096))
		})
		if err != nil {
			return err
		}
	}
	for _, p := range f.Sectionless {
		err := each(root, p, func(file string) error {
			// e_shoff, then e_shentsize, e_shnum and e_shstrndx.
			return errors.Join(overwrite(file, 40, make([]byte, 8)), overwrite(file, 58, make([]byte, 6)))
		})
		if err != nil {
			return err
		}
	}
	for _, p := range f.Directory {
		if err := makeRoom(root + p); err != nil {
			return err
		}
		if err := os.Mkdir(root+p, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// each calls a function for each file of a pattern, of which there must be one.
func each(root, pattern string, f func(string) error) error {
	files, err := filepath.Glob(root + pattern)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no such file", pattern)
	}
	if err != nil {
		return err
	}
	for _, file := range files {
		// An absolute link in the root leads out of it, to the machine itself.
		if real, err := filepath.EvalSymlinks(file); err != nil || !strings.HasPrefix(real, root+"/") {
			return fmt.Errorf("%s leads to %s, out of the root (%v)", pattern, real, err)
		}
		if err := f(file); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom makes room for a file: its directory, and nothing in its place.
func makeRoom(file string) error {
	if err := os.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := makeRoom(to); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// makeRunpath turns the RPATH of a 64-bit ELF file into a RUNPATH.
func makeRunpath(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	dynamic := f.SectionByType(elf.SHT_DYNAMIC)
	if dynamic == nil {
		return fmt.Errorf("%s: no dynamic section", file)
	}
	b, err := dynamic.Data()
	if err != nil {
		return err
	}
	for i := 0; i+16 <= len(b); i += 16 {
		if elf.DynTag(f.ByteOrder.Uint64(b[i:])) == elf.DT_RPATH {
			tag := make([]byte, 8)
			f.ByteOrder.PutUint64(tag, uint64(elf.DT_RUNPATH))
			return overwrite(file, int64(dynamic.Offset)+int64(i), tag)
		}
	}
	return fmt.Errorf("%s: no RPATH", file)
}

func overwrite(file string, offset int64, b []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, offset)
	return errors.Join(err, f.Close())
}

// Environment is that of a fault's programs, sorted.
func (p *Plan) Environment(f *Fault) []string {
	all := map[string]string{}
	maps.Copy(all, p.Env)
	maps.Copy(all, f.Env)
	var list []string
	for k, v := range all {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

// ReadOutcome reads what a program has told ([Outcome.Steps] and Mapped).
func ReadOutcome(r io.Reader) (*Outcome, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	o := &Outcome{}
	begun := ""
	for line := range strings.Lines(string(b)) {
		rest, ok := strings.CutPrefix(line, "@")
		if !ok {
			continue
		}
		var t struct {
			Begin, Worked, Failed, Error string
			Mapped                       []string
		}
		if err := json.Unmarshal([]byte(rest), &t); err != nil {
			continue // the program's own line
		}
		switch {
		case t.Begin != "":
			begun = t.Begin
		case t.Worked != "":
			begun, o.Steps = "", append(o.Steps, Step{Name: t.Worked})
		case t.Failed != "":
			begun, o.Steps = "", append(o.Steps, Step{Name: t.Failed, Error: t.Error})
		default:
			o.Mapped = t.Mapped
		}
	}
	if begun != "" {
		o.Steps = append(o.Steps, Step{Name: begun, Error: "the process ended"})
	}
	return o, nil
}

// Verdict is one feature of one program after a fault: what came of it, and what was
// foretold.
type Verdict struct {
	Program, Step string
	Real          string // the error; empty: it worked
	Foretold      []Foretold
}

// Foretold is a finding that says of a feature that it fails.
type Foretold struct {
	Finding Finding
	Effect  Effect
}

// Agrees reports whether a feature was foretold to fail that failed, or to work that
// worked: a note warns of nothing.
func (v *Verdict) Agrees() bool {
	warned := slices.ContainsFunc(v.Foretold, func(f Foretold) bool { return f.Finding.Severity != "note" })
	return v.Real != "" && len(v.Foretold) > 0 || v.Real == "" && !warned
}

// SaysText reports whether the error that the user met is the one that was foretold.
func (v *Verdict) SaysText(log string) bool {
	return slices.ContainsFunc(v.Foretold, func(f Foretold) bool {
		return f.Effect.Error != "" && (strings.Contains(plain(v.Real), plain(f.Effect.Error)) || strings.Contains(plain(log), plain(f.Effect.Error)))
	})
}

// plain is a text without what differs between two ways to print it, or to die.
func plain(s string) string {
	return strings.TrimSuffix(strings.ToLower(strings.Join(strings.Fields(s), " ")), " (core dumped)")
}

// Judge holds what imgcheck said against what the programs did. What it said that is
// about no feature is the second result.
func (p *Plan) Judge(programs map[string]*Outcome, said *Said) (list []Verdict, about []Finding) {
	used, begun := map[int]bool{}, map[string]bool{}
	for _, f := range p.Features {
		o := programs[f.Program]
		if o == nil {
			continue
		}
		i := slices.IndexFunc(o.Steps, func(s Step) bool { return s.Name == f.Step })
		v := Verdict{Program: f.Program, Step: f.Step}
		for n, finding := range said.Findings {
			for _, e := range finding.Effects {
				if slices.ContainsFunc(f.effects, func(re *regexp.Regexp) bool { return re.MatchString(e.Text) }) {
					v.Foretold = append(v.Foretold, Foretold{finding, e})
					used[n] = true
				}
			}
		}
		switch {
		case i >= 0:
			v.Real = o.Steps[i].Error
		case len(o.Steps) == 0 && !begun[f.Program]: // its first step, which it did not come to
			v.Real = cmp.Or(o.End, "it told of no step")
		default:
			continue // not reached
		}
		begun[f.Program] = true
		list = append(list, v)
	}
	for n, finding := range said.Findings {
		if !used[n] && finding.Severity != "note" {
			about = append(about, finding)
		}
	}
	return list, about
}

// First is the first failure of an outcome, empty when all worked.
func (o *Outcome) First() (step, text string) {
	for _, s := range o.Steps {
		if s.Error != "" {
			return s.Name, cmp.Or(o.End, s.Error)
		}
	}
	return "", o.End
}
