package packs

import (
	"fmt"
	"path"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Open is a library that a framework or another library opens by its name (dlopen) when a
// program uses a feature.
type Open struct {
	// Part names the open for [Use]; it is unique within its list.
	Part string `yaml:"part"`
	// By is the file of the framework that opens the library: its RPATH or RUNPATH
	// decides. If several files match, one that can open it is enough. Empty: the program.
	By string `yaml:"by"`
	// Names are tried in order until one opens. {release}, {minor} and {major} are the
	// version of the opener, {cuda} is the major version of CUDA in the process, and
	// {cudart}, {nvrtc} and so on are the numbers of its [Toolkit]. A pattern stands for
	// all matching names in the image.
	Names []string `yaml:"names"`
	// Function is a function that the opener asks dlsym for in the library, as far as
	// [elfdeps.Named] has it: an opener without its name does not open the library.
	Function string `yaml:"function"`
	// Variable is a variable of the environment that has the path in place of the names: they
	// are opened if it is not set, by an opener in which [elfdeps.Named] finds it. Since a
	// program may also name another path itself, a miss counts only if the image has no file
	// of the names, with whatever number.
	Variable string `yaml:"variable"`
	// Beside accepts a file of one of the names in the opener's directory as well.
	Beside bool `yaml:"beside"`
	// Flags are now, lazy and global; none means now.
	Flags []string `yaml:"flags"`
	// Versions are those of the opener; empty: all. An unknown version fits if the image
	// has one of the names, or had it.
	Versions string `yaml:"versions"`
	// Built are the versions of "cuda" and "cudnn" for which a build opens the library. The
	// framework's own record of its build decides by them, and Versions if it has none.
	Built map[string]string `yaml:"built"`
	// Optional marks an open whose failure has no effect.
	Optional bool `yaml:"optional"`
	// IfPresent marks an open of a library that many programs do without: a miss counts if
	// the image has the library under another name (libx.so.2 for libx.so).
	IfPresent bool     `yaml:"if_present"`
	Severity  Severity `yaml:"severity"` // of a miss; empty: error
	Effect    string   `yaml:"effect"`
	// Error is the message: {error} is the loader's, {name} the last of the names, {names}
	// all of them.
	Error string `yaml:"error"`
}

// openFlags are the values of [Open.Flags].
var openFlags = map[string]elfdeps.Flags{"now": elfdeps.Now, "lazy": elfdeps.Lazy, "global": elfdeps.Global}

func (o *Open) validate() error {
	if o.Part == "" || len(o.Names) == 0 || o.Effect == "" && !o.Optional {
		return fmt.Errorf("part %q: needs a part, names, and an effect unless it is optional", o.Part)
	}
	if o.Severity != "" && !o.Severity.known() {
		return fmt.Errorf("part %q: severity is %q, not error, warning or note", o.Part, o.Severity)
	}
	if err := checkFlags(o.Flags); err != nil {
		return fmt.Errorf("part %q: %w", o.Part, err)
	}
	if err := version.CheckRange(o.Versions); err != nil {
		return fmt.Errorf("part %q: %w", o.Part, err)
	}
	for of, versions := range o.Built {
		if of != "cuda" && of != "cudnn" {
			return fmt.Errorf("part %q: built has %q, not cuda or cudnn", o.Part, of)
		}
		if err := version.CheckRange(versions); err != nil {
			return fmt.Errorf("part %q: built: %w", o.Part, err)
		}
	}
	return checkPatterns("part "+o.Part, o.Names)
}

// checkFlags checks the names of dlopen's flags.
func checkFlags(names []string) error {
	for _, f := range names {
		if _, ok := openFlags[f]; !ok {
			return fmt.Errorf("flag is %q, not now, lazy or global", f)
		}
	}
	return nil
}

// FlagsOf returns dlopen's flags by their names: now if neither now nor lazy is among them.
func FlagsOf(names []string) elfdeps.Flags {
	var f elfdeps.Flags
	for _, name := range names {
		f |= openFlags[name]
	}
	if f&(elfdeps.Now|elfdeps.Lazy) == 0 {
		f |= elfdeps.Now
	}
	return f
}

// heaviest returns the heaviest severity that the opens set, or "".
func heaviest(opens []Open) Severity {
	var s Severity
	for _, o := range opens {
		s = heavier(s, o.Severity)
	}
	return s
}

// heavier returns the heavier of two severities, of which "" is the lightest.
func heavier(s, t Severity) Severity {
	if s == "" || t != "" && t.AtLeast(s) {
		return t
	}
	return s
}

// Dlopens lists the libraries that a library opens by name itself.
type Dlopens struct {
	ID string   `yaml:"id"`
	By []string `yaml:"by"` // patterns of the opener's SONAME or file name
	// Crate is the package of Cargo that the opener has compiled in, in place of By. Its
	// release is that of the versions of the opens.
	Crate   string   `yaml:"crate"`
	Opens   []Open   `yaml:"opens"`
	Sources []string `yaml:"sources"`
}

func (d *Dlopens) validate() error {
	if d.ID == "" || (len(d.By) == 0) == (d.Crate == "") || len(d.Opens) == 0 || len(d.Sources) == 0 {
		return fmt.Errorf("dlopens %q: needs an id, who opens (by), opens and sources", d.ID)
	}
	if err := checkPatterns("dlopens "+d.ID, d.By); err != nil {
		return err
	}
	for i := range d.Opens {
		if err := d.Opens[i].validate(); err != nil {
			return fmt.Errorf("dlopens %q: %w", d.ID, err)
		}
	}
	return nil
}

// CrateIn returns the release of the crate that an object has compiled in, the newest of
// several, and whether it has it.
func (d *Dlopens) CrateIn(o *elfdeps.Object) (r version.Release, ok bool) {
	if d.Crate == "" || o.Named == nil {
		return nil, false
	}
	for _, c := range o.Named.Crates {
		if name, v, _ := elfdeps.Crate(c); name == d.Crate {
			if this := version.ParseRelease(v); r == nil || r.Before(this) {
				r = this
			}
			ok = true
		}
	}
	return r, ok
}

// IsOpenedBy reports whether a module is the library that opens them.
func (d *Dlopens) IsOpenedBy(m *elfdeps.Module) bool {
	for _, name := range []string{m.Object.Soname, path.Base(m.Path)} {
		if name != "" && MatchAny(d.By, name) {
			return true
		}
	}
	return false
}
