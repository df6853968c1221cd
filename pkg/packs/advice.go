package packs

import (
	"maps"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/envline"
)

// Advice is a fix of a finding before it is written as text.
type Advice struct {
	Template string
	Values   map[string]string
	// Path is the value of LD_LIBRARY_PATH that the fix sets; {env} in the template is the
	// instruction that sets it. It is nil if the fix does not set the variable.
	Path *string
	// Pip is the fix as data, if it installs wheels, with Values not filled in; else nil.
	Pip *Pip
	// Run is the fix as data, if it changes a file, with Values not filled in; else nil.
	Run *Run
	// Packages is the fix as data, if it installs packages of the distribution; else nil.
	Packages *Packages
	// NoLines says why no lines at the end of a Dockerfile make the fix, filled in; or it is empty.
	NoLines string
}

// Packages are packages of distributions, separated by blanks; empty if they have none that is
// known.
type Packages struct {
	Apt string `yaml:"apt"`
	Apk string `yaml:"apk"`
	Dnf string `yaml:"dnf"`
	// Brings are programs that they install, absolute.
	Brings []string `yaml:"brings"`
}

// Run says how a fix changes a file of the image, as templates.
type Run struct {
	// Does is the change: one of [RunKinds].
	Does string `yaml:"does"`
	Path string `yaml:"path"`
	// Target is that of the link that is made at Path, the words that take Path's place in the
	// image's command, the absent interpreter that a link at Path leads to, or the directory that
	// Path, a file of ld.so.conf, does not name any more.
	Target string `yaml:"target"`
}

// RunKinds are the changes: to make a file executable, to end its lines as Unix does, to make a
// link, to lead the link of a virtual environment to the image's Python of that release, to put a
// directory first on PATH or PYTHONPATH, to replace a word of the command in ENTRYPOINT or CMD, and to
// take a directory out of a file of ld.so.conf.
var RunKinds = []string{"executable", "unix-lines", "link", "python", "path", "python-path", "command", "unconfigure"}

// Change returns how a fix changes a file, filled in; ok is false if it changes none, or a value
// is not known.
func (a Advice) Change() (r Run, ok bool) {
	if a.Run == nil {
		return r, false
	}
	r = Run{a.Run.Does, Fill(a.Run.Path, a.Values), Fill(a.Run.Target, a.Values)}
	return r, r.Path != "" && (r.Does == "command" || strings.HasPrefix(r.Path, "/")) && !strings.ContainsAny(r.Path+r.Target, "{}")
}

// Pip says which wheels a fix installs, as templates.
type Pip struct {
	Install []string `yaml:"install"` // requirements (PEP 508) without markers
	// Index is the address of the package index that has them; empty: the usual one.
	Index string `yaml:"index"`
	// Remove has the names of wheels that are uninstalled before, separated by blanks.
	Remove string `yaml:"remove"`
	// Brings are files of the first wheel, below the directory of packages. With them the wheel
	// may be one that the image does not have.
	Brings []string `yaml:"brings"`
	// Find is the address of a page with links to the wheels, for their build alone; or empty.
	Find string `yaml:"find"`
	// Here is set if the setup of the first package takes the build for the packages that are
	// installed, or compiles it with them: pip's --no-build-isolation.
	Here bool `yaml:"here"`
	// Deps is set if pip also installs what the wheels require.
	Deps bool `yaml:"deps"`
}

// OfCUDA reports whether the names of the wheels depend on the release of CUDA.
func (p *Pip) OfCUDA() bool {
	return slices.ContainsFunc(slices.Concat(p.Install, p.Brings), func(t string) bool {
		return strings.Contains(t, "{-cu}") || strings.Contains(t, "{cuda}")
	})
}

// Wheels returns what a fix installs and removes, filled in, with the address of its index. ok
// is false if the fix installs no wheels, or a value is not known.
func (a Advice) Wheels() (install, remove []string, index string, ok bool) {
	if a.Pip == nil {
		return nil, nil, "", false
	}
	for _, t := range a.Pip.Install {
		install = append(install, Fill(t, a.Values))
	}
	index, remove = Fill(a.Pip.Index, a.Values), strings.Fields(Fill(a.Pip.Remove, a.Values))
	unknown := func(s string) bool { return strings.ContainsAny(s, "{} ") }
	ok = len(install) > 0 && !slices.ContainsFunc(slices.Concat(install, remove, []string{index}), unknown)
	return install, remove, index, ok
}

// Page returns the address of the page that a fix takes wheels from, filled in, or "".
func (a Advice) Page() string {
	if a.Pip == nil {
		return ""
	}
	return Fill(a.Pip.Find, a.Values)
}

// Brought returns the files that the first wheel of a fix brings, filled in.
func (a Advice) Brought() (list []string) {
	if a.Pip == nil {
		return nil
	}
	for _, t := range a.Pip.Brings {
		list = append(list, Fill(t, a.Values))
	}
	return list
}

// String returns the fix as text.
func (a Advice) String() string {
	if a.Path == nil {
		return Fill(a.Template, a.Values)
	}
	v := Values{"env": SearchPathLine(*a.Path)}
	maps.Copy(v, a.Values)
	return Fill(a.Template, v)
}

// SearchPathLine returns the instruction of a Dockerfile that sets LD_LIBRARY_PATH to a
// value, or words that say that a Dockerfile cannot state the value.
func SearchPathLine(value string) string {
	line, err := envline.Of("LD_LIBRARY_PATH", value)
	if err != nil {
		return "correct LD_LIBRARY_PATH: its value is one that no Dockerfile can say"
	}
	return line
}

// Row returns a fix of a row of the packs; a placeholder without a value stays.
func Row(template string, v Values) Advice { return Advice{Template: template, Values: v} }

// Rows returns the fixes of a row of the packs, for the major version of CUDA v["cuda"] if
// that is set.
func (p *Packs) Rows(templates []string, v Values) []Advice {
	var list []Advice
	templates, v = p.forCUDA(templates, v)
	for _, t := range templates {
		list = append(list, Row(t, v))
	}
	return list
}

// Texts returns fixes without placeholders.
func Texts(list []string) []Advice {
	var all []Advice
	for _, text := range list {
		all = append(all, Row(text, nil))
	}
	return all
}

// WheelCUDA stands before the major version of CUDA in the names of wheels:
// nvidia-cudnn-cu12.
const WheelCUDA = "-cu"

// forCUDA returns templates of fixes, and values with the ending of NVIDIA's wheels, {-cu},
// for the major version of CUDA v["cuda"]. If that is "", {cuda} becomes N, and the first
// template that uses it explains N. Without v["cuda"] it returns its arguments.
func (p *Packs) forCUDA(templates []string, v Values) ([]string, Values) {
	cuda, ok := v["cuda"]
	if !ok {
		return templates, v
	}
	v, templates = maps.Clone(v), slices.Clone(templates)
	v["-cu"] = p.Carrier("cuda").wheelEnding(cuda)
	if cuda != "" {
		return templates, v
	}
	v["cuda"], v["-cu"] = "N", WheelCUDA+"N"
	for i, t := range templates {
		note := ""
		switch {
		case strings.Contains(t, "{-cu}"):
			note = "cuda-unknown-wheel"
		case strings.Contains(t, "{cuda}"):
			note = "cuda-unknown"
		}
		if c := p.Clauses[note]; c != nil {
			templates[i] += c.Message
			break
		}
	}
	return templates, v
}
