// Package gpu compares the findings of imgcheck with the behaviour of real GPU
// processes.
//
// faults.yaml lists faults of a machine. `go run ./test/gpu/run/main.go` makes each of
// them in an overlay on a machine with a GPU, runs the programs of programs/ and
// imgcheck there, and records the results of both (testdata/record.json). The tests
// make the same faults in testdata/machine.txtar, the loader's view of that machine as
// text, and compare today's imgcheck with the record of the real programs.
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

// Fault is a change to a machine. Paths are absolute. Those in Remove, Empty and Cut
// are patterns of [path.Match]; "/**" at the end matches all files below.
type Fault struct {
	Name        string            `yaml:"name"`
	Remove      []string          `yaml:"remove"`
	Empty       []string          `yaml:"empty"`       // each becomes a file of no bytes
	Cut         []string          `yaml:"cut"`         // each keeps its first half
	Move        map[string]string `yaml:"move"`        // path → new path; its directory is made
	Copy        map[string]string `yaml:"copy"`        // path → the file that replaces it
	Link        map[string]string `yaml:"link"`        // path → target of a symbolic link
	Write       map[string]string `yaml:"write"`       // path → text
	Runpath     []string          `yaml:"runpath"`     // ELF files whose RPATH becomes a RUNPATH
	Machine     []string          `yaml:"machine"`     // ELF files whose machine becomes aarch64
	Short       []string          `yaml:"short"`       // each loses its last 4096 bytes
	Sectionless []string          `yaml:"sectionless"` // ELF files that lose their section headers
	Directory   []string          `yaml:"directory"`   // each becomes a directory
	Ldconfig    bool              `yaml:"ldconfig"`    // run ldconfig afterwards
	Retarget    []Retarget        `yaml:"retarget"`    // GPU code that says to be for another architecture
	Zstd        []string          `yaml:"zstd"`        // GPU code that does not say that it is compressed
	PTX         []PTX             `yaml:"ptx"`         // PTX of another version
	Env         map[string]string `yaml:"env"`
	Also        []string          `yaml:"also"`    // programs to run besides those of the plan
	Differs     map[string]string `yaml:"differs"` // program → why imgcheck foretells another end than the real one
	Sources     []string          `yaml:"sources"` // reports of such a fault
}

// Feature is a step of a program, and the effects by which imgcheck foretells its failure.
type Feature struct {
	Program string `yaml:"program"`
	Step    string `yaml:"step"`
	// Effects are regular expressions for the effects of findings that foretell its failure.
	Effects []string `yaml:"effects"`

	effects []*regexp.Regexp
}

// Plan is faults.yaml.
type Plan struct {
	Env      map[string]string `yaml:"env"`      // for every program
	Programs []string          `yaml:"programs"` // run after every fault
	Features []*Feature        `yaml:"features"`
	Faults   []*Fault          `yaml:"faults"`
	Patches  []*Patch          `yaml:"patches"`
}

// Patch names a fault that imgcheck patches, and the sources of libraries for that.
type Patch struct {
	Fault string   `yaml:"fault"`
	From  []string `yaml:"from"` // directories of the unbroken machine with the libraries
}

// Fault returns the fault of a name, or nil if there is none.
func (p *Plan) Fault(name string) *Fault {
	i := slices.IndexFunc(p.Faults, func(f *Fault) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return p.Faults[i]
}

//go:embed faults.yaml
var faultsYAML []byte

//go:embed targets.yaml
var targetsYAML []byte

// Load reads faults.yaml.
func Load() (*Plan, error) { return load(faultsYAML) }

// LoadTargets reads targets.yaml, the faults in GPU code.
func LoadTargets() (*Plan, error) { return load(targetsYAML) }

func load(text []byte) (*Plan, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
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

// Outcome is the behaviour of one program: its steps until it ended.
type Outcome struct {
	Steps []Step `json:"steps"`
	// End says how the process ended: a signal, a status, a time limit. It is empty
	// for exit status 0.
	End string `json:"end,omitempty"`
	// Log is the end of its standard error.
	Log string `json:"log,omitempty"`
	// Mapped lists the libraries that it had mapped at its end.
	Mapped []string `json:"mapped,omitempty"`
}

// Step is the result of one feature.
type Step struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"` // empty if it worked
}

// Said is a report of imgcheck: its findings, and the libraries that it foretells each
// framework to map.
type Said struct {
	Findings []Finding           `json:"findings"`
	Mapped   map[string][]string `json:"mapped,omitempty"` // by title
}

// Finding is a finding in imgcheck's JSON.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity string   `json:"severity"`
	Message  string   `json:"message"`
	Effects  []Effect `json:"effects,omitempty"`
	Because  string   `json:"because,omitempty"`
}

// Effect is an effect of a finding.
type Effect struct {
	Text  string `json:"text"`
	Error string `json:"error,omitempty"`
}

// Record holds the results of a run on a machine.
type Record struct {
	Machine string          `json:"machine"`
	Faults  []RecordedFault `json:"faults"`
	Patches []RecordedPatch `json:"patches,omitempty"`
}

// RecordedFault holds the outcomes of the real programs after a fault, and the report of imgcheck at that time.
type RecordedFault struct {
	Name     string              `json:"name"`
	Programs map[string]*Outcome `json:"programs"`
	Said     *Said               `json:"said,omitempty"`
}

// RecordedPatch is a plan of imgcheck patch, and what the real programs did after it.
type RecordedPatch struct {
	Name     string              `json:"name"`
	Plan     string              `json:"plan"` // as imgcheck printed it
	Programs map[string]*Outcome `json:"programs"`
}

// Apply makes the fault in a root directory.
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
		// mv, because an overlay cannot rename a directory of its lower layer.
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
	return f.applyGPU(root)
}

// each calls a function for each file that matches a pattern. It is an error if none does.
func each(root, pattern string, f func(string) error) error {
	files, err := filepath.Glob(root + pattern)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no such file", pattern)
	}
	if err != nil {
		return err
	}
	for _, file := range files {
		// An absolute link in the root leads to the machine itself.
		if real, err := filepath.EvalSymlinks(file); err != nil || !strings.HasPrefix(real, root+"/") {
			return fmt.Errorf("%s leads to %s, out of the root (%v)", pattern, real, err)
		}
		if err := f(file); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom makes the directory of a file, and removes the file itself.
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

// makeRunpath changes the RPATH of a 64-bit ELF file to a RUNPATH.
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

// Environment returns the variables for the programs after a fault, sorted.
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

// ReadOutcome reads Steps and Mapped of an Outcome from the output of a program.
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
			continue // another line of the program
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

// Verdict compares one feature of one program after a fault with the findings about
// it.
type Verdict struct {
	Program, Step string
	Real          string // the error, or empty if it worked
	Foretold      []Foretold
}

// Foretold is a finding with an effect by which a feature fails.
type Foretold struct {
	Finding Finding
	Effect  Effect
}

// Agrees reports whether imgcheck is right about a feature: it failed and a finding
// foretold it, or it worked and no finding above a note did.
func (v *Verdict) Agrees() bool {
	warned := slices.ContainsFunc(v.Foretold, func(f Foretold) bool { return f.Finding.Severity != "note" })
	return v.Real != "" && len(v.Foretold) > 0 || v.Real == "" && !warned
}

// SaysText reports whether the real error contains the foretold one.
func (v *Verdict) SaysText(log string) bool {
	return slices.ContainsFunc(v.Foretold, func(f Foretold) bool {
		return f.Effect.Error != "" && (strings.Contains(plain(v.Real), plain(f.Effect.Error)) || strings.Contains(plain(log), plain(f.Effect.Error)))
	})
}

// plain normalizes blanks and case, and removes the mention of a core dump.
func plain(s string) string {
	return strings.TrimSuffix(strings.ToLower(strings.Join(strings.Fields(s), " ")), " (core dumped)")
}

// Judge compares a report of imgcheck with the outcomes of programs. The second result
// are the findings, other than notes, that concern no feature.
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
		case len(o.Steps) == 0 && !begun[f.Program]: // it did not reach its first step
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

// First returns the first failure of an outcome, or "" if all steps worked.
func (o *Outcome) First() (step, text string) {
	for _, s := range o.Steps {
		if s.Error != "" {
			return s.Name, cmp.Or(o.End, s.Error)
		}
	}
	return "", o.End
}
