package packs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// PreloadTimes are what [Preload.When] may be.
var PreloadTimes = []string{"first", "after-first-step", "after-miss"}

// openFlags are what [Open.Flags] may be.
var openFlags = map[string]elfdeps.Flags{"now": elfdeps.Now, "lazy": elfdeps.Lazy, "global": elfdeps.Global}

func (f *Framework) validate() error {
	if f.ID == "" || f.Title == "" || f.Marker == "" || len(f.Sources) == 0 {
		return errors.New("needs an id, a title, a marker and sources")
	}
	if f.Package == "" && strings.Contains(f.Marker, "/") {
		return errors.New("without a package, the marker is a file name")
	}
	all := slices.Concat([]string{f.Marker, f.Without}, f.Serves, f.Followers)
	for _, p := range f.Preload {
		if !slices.Contains(PreloadTimes, p.When) {
			return fmt.Errorf("preload: when is %q, not one of %s", p.When, strings.Join(PreloadTimes, ", "))
		}
		if err := version.CheckRange(p.Versions); err != nil {
			return fmt.Errorf("preload: %w", err)
		}
		if err := p.validate(); err != nil {
			return fmt.Errorf("preload: %w", err)
		}
		all = slices.Concat(all, p.Files, p.Optional)
	}
	for _, s := range f.Steps {
		if err := version.CheckRange(s.Versions); err != nil {
			return fmt.Errorf("step %q: %w", s.Open, err)
		}
		if err := validFlags(slices.Concat(s.Flags, s.PreloadFlags)); err != nil {
			return fmt.Errorf("step %q: %w", s.Open, err)
		}
		all = slices.Concat(all, []string{s.Open}, s.Optional, s.Preload)
	}
	for _, h := range f.Helped {
		if h.Why == "" || (h.Framework == "") == (len(h.Files) == 0) {
			return errors.New("helped: needs a why, and a framework or files")
		}
		if err := version.CheckRange(h.Versions); err != nil {
			return fmt.Errorf("helped: %w", err)
		}
		all = append(all, h.Files...)
	}
	for _, u := range f.Uses {
		if !strings.Contains(u.Part, "/") || !u.Never && u.Severity != "" && !slices.Contains(Severities, u.Severity) {
			return fmt.Errorf("uses: %q: needs a part (id/part), and a severity that is error, warning or note", u.Part)
		}
	}
	for _, m := range f.Mixed {
		if m.Library == "" || m.Effect == "" || m.Severity != "" && m.Severity != Warning {
			return errors.New("mixed: needs a library and an effect; its severity is warning or none")
		}
		all = append(all, m.Library)
	}
	for _, r := range f.Refuses {
		if r.Library == "" || r.Own == "" || r.Numbers < 1 || r.Effect == "" {
			return errors.New("refuses: needs a library, its own, numbers and an effect")
		}
		all = append(all, r.Library, r.Own)
	}
	for i := range f.Later {
		o := &f.Later[i]
		if err := o.validate(); err != nil {
			return fmt.Errorf("later: %w", err)
		}
		all = append(all, o.By)
	}
	return patterns("", all)
}

// validate checks what a preload's directories ask for.
func (p *Preload) validate() error {
	for _, dir := range p.Dirs {
		if !strings.Contains(dir, "{folder}") && !strings.Contains(dir, "{cuda}") {
			return fmt.Errorf("dirs: %q has neither {folder} nor {cuda}", dir)
		}
	}
	for _, f := range slices.Concat(p.Files, p.Optional) {
		if len(p.Dirs) > 0 && strings.Count(f, "/") != 1 {
			return fmt.Errorf("files: %q is not FOLDER/NAME, as dirs ask for", f)
		}
	}
	if p.When != "after-miss" && p.Missing != "" || p.When != "after-first-step" && p.Mapped != "" {
		return errors.New("missing goes with after-miss, mapped with after-first-step")
	}
	return nil
}

func (o *Open) validate() error {
	if o.Part == "" || len(o.Names) == 0 || o.Effect == "" && !o.Optional {
		return fmt.Errorf("part %q: needs a part, names, and an effect unless it is optional", o.Part)
	}
	if o.Severity != "" && !slices.Contains(Severities, o.Severity) {
		return fmt.Errorf("part %q: severity is %q, not error, warning or note", o.Part, o.Severity)
	}
	if err := validFlags(o.Flags); err != nil {
		return fmt.Errorf("part %q: %w", o.Part, err)
	}
	if err := version.CheckRange(o.Versions); err != nil {
		return fmt.Errorf("part %q: %w", o.Part, err)
	}
	return patterns("part "+o.Part, o.Names)
}

// validFlags checks the names of dlopen's flags.
func validFlags(names []string) error {
	for _, f := range names {
		if _, ok := openFlags[f]; !ok {
			return fmt.Errorf("flag is %q, not now, lazy or global", f)
		}
	}
	return nil
}

// FlagsOf are dlopen's flags by their names: without now and lazy it is now.
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

// UseOf is what a framework says of a part, nil when it says nothing.
func (f *Framework) UseOf(part string) *Use {
	for i := range f.Uses {
		if f.Uses[i].Part == part {
			return &f.Uses[i]
		}
	}
	return nil
}

// IsOpener reports whether a module is one of those that open.
func (d *Dlopens) IsOpener(m *elfdeps.Module) bool {
	for _, name := range []string{m.Object.Soname, path.Base(m.Path)} {
		if name != "" && MatchAny(d.By, name) {
			return true
		}
	}
	return false
}
