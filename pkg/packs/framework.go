package packs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Framework describes how a framework is found in an image, and how it loads its libraries.
type Framework struct {
	ID    string `yaml:"id"`
	Title string `yaml:"title"`
	// Package is the directory of the installation, if it is not the marker's own.
	Package string `yaml:"package"`
	// Marker is a file that every installation has.
	Marker string `yaml:"marker"`
	// Host is the name of the program that opens the framework and defines symbols that it
	// uses (node); symbols are not bound if the image does not have it. If Host is empty,
	// that is Python in Python's directories, and elsewhere any program, which defines
	// none.
	Host string `yaml:"host"`
	// Without is a pattern of files below that directory. If one is there, it is another
	// framework.
	Without string `yaml:"without"`
	// Dist are the names of its distributions, as dist-info directories and conda-meta have
	// them. Their version is the framework's.
	Dist []string `yaml:"dist"`
	// OnlyDist excludes installations of other distributions, such as a build for the CPU.
	OnlyDist bool `yaml:"only_dist"`
	// CPUToo marks frameworks that are often used without a GPU. If one opens none of its
	// GPU libraries, that is a note, or a warning in an image whose environment is for a
	// GPU; an error if the image's program imports it there, or somebody asked for the library.
	CPUToo bool `yaml:"cpu_too"`
	// Aside marks frameworks that are often installed for another package's sake and never
	// imported. A miss, but for GPU libraries, is a warning.
	Aside   bool      `yaml:"aside"`
	Preload []Preload `yaml:"preload"`
	// Steps are the files that the framework opens when it is imported, in order, in one
	// process.
	Steps []Step `yaml:"steps"`
	// Later are the libraries that it opens by name when a program uses a feature.
	Later   []Open    `yaml:"later"`
	Uses    []Use     `yaml:"uses"`
	Refuses []Refusal `yaml:"refuses"`
	Mixed   []Mixed   `yaml:"mixed"`
	Helped  []Help    `yaml:"helped"`
	// Serves are patterns of its libraries that other files need, and Followers patterns of
	// packages that import it. Such files are loaded after it.
	Serves    []string `yaml:"serves"`
	Followers []string `yaml:"followers"`
	Sources   []string `yaml:"sources"`
}

// Step is one file that a framework opens when it is imported.
type Step struct {
	Open     string `yaml:"open"`
	Versions string `yaml:"versions"` // of the framework; empty: all. An unknown version fits.
	// Flags are those of dlopen, as in [Open]. PreloadFlags are for Preload and Optional.
	Flags        []string `yaml:"flags"`
	PreloadFlags []string `yaml:"preload_flags"`
	// Preload are patterns, below the directory that holds the framework, of files that it
	// opens by their full path before this one. If one cannot be loaded, the step fails.
	Preload []string `yaml:"preload"`
	// Optional are such patterns of files that it opens before those, if it can.
	Optional []string `yaml:"optional"`
	// Unusable is the framework's message if the file itself is at fault: {path} is the
	// file.
	Unusable string `yaml:"unusable"`
	// Feature marks a step that the framework goes on without if it fails.
	Feature bool `yaml:"feature"`
	// Import marks a step whose effect is that an import fails. That is also true of a file
	// that kills the process.
	Import bool   `yaml:"import"`
	Effect string `yaml:"effect"`
	// Error is the framework's message: {error} is the loader's, {stem} the name of the
	// missing library without its version (libcublas.so).
	Error string `yaml:"error"`
	// Absent is the message if the file itself is missing; empty: Python's for a module
	// that it does not find.
	Absent string `yaml:"absent"`
}

// Also is one more effect of a miss.
type Also struct {
	Effect string `yaml:"effect"`
	Error  string `yaml:"error"`
}

// Use says what a framework does with a part of a library.
type Use struct {
	Part  string `yaml:"part"` // ID of the [Dlopens], a slash, the part
	Never bool   `yaml:"never"`
	// Optional marks a part that the framework opens and works without.
	Optional bool     `yaml:"optional"`
	Severity Severity `yaml:"severity"`
	// Own is the reason for which a miss is only a note if the framework's own copy of the
	// library opens the part; empty: it is as severe as elsewhere.
	Own string `yaml:"own"`
	// AskedBy are patterns of the distributions whose use of the framework opens the part. If none
	// of them is installed beside it, a miss is only a note, for the reason Why.
	AskedBy []string `yaml:"asked_by"`
	Why     string   `yaml:"why"`
	Effect  string   `yaml:"effect"`
	Error   string   `yaml:"error"`
	Also    []Also   `yaml:"also"`
}

// Refusal is a framework's check that fails if a library is older than the one that its
// distribution brings. For distributions that bring none, the inventory has the required
// versions.
type Refusal struct {
	Library string `yaml:"library"` // pattern of the SONAME whose version the check reads
	Own     string `yaml:"own"`     // pattern of the distribution's own copy
	// Numbers is how many numbers of the version are compared: 2 for 9.19.
	Numbers int    `yaml:"numbers"`
	Effect  string `yaml:"effect"`
	Error   string `yaml:"error"` // {own} and {found} are (9, 19, 0)
}

// Mixed is the failure of a framework if a part of a library is of another release than the
// parts that are opened with it.
type Mixed struct {
	Library  string   `yaml:"library"`  // pattern of the part's SONAME
	Severity Severity `yaml:"severity"` // warning if few programs use the part; empty: error
	Effect   string   `yaml:"effect"`
	Error    string   `yaml:"error"`
}

// Help is an action of the program that makes a framework's steps succeed if it comes
// first.
type Help struct {
	Framework string   `yaml:"framework"` // imported first, from the same directory of packages
	Files     []string `yaml:"files"`     // or opened first, by their full paths
	Versions  string   `yaml:"versions"`  // of the framework; an unknown version does not fit
	Why       string   `yaml:"why"`
}

// UseOf returns the framework's use of a part, or nil if it says nothing of it.
func (f *Framework) UseOf(part string) *Use {
	for i := range f.Uses {
		if f.Uses[i].Part == part {
			return &f.Uses[i]
		}
	}
	return nil
}

// heaviestUse returns the heaviest severity that the framework sets for a failed open, or
// "".
func (f *Framework) heaviestUse() Severity {
	s := heaviest(f.Later)
	for _, u := range f.Uses {
		s = heavier(s, u.Severity)
	}
	return s
}

// heaviestMixed returns the heaviest severity that the framework sets for a mixture, or "".
func (f *Framework) heaviestMixed() Severity {
	var s Severity
	for _, m := range f.Mixed {
		s = heavier(s, m.Severity)
	}
	return s
}

func (f *Framework) validate() error {
	for _, check := range []func() error{f.checkFiles, f.checkPreload, f.checkSteps, f.checkHelped, f.checkUses, f.checkReleases, f.checkLater} {
		if err := check(); err != nil {
			return fmt.Errorf("framework %q: %w", f.ID, err)
		}
	}
	return nil
}

func (f *Framework) checkFiles() error {
	if f.ID == "" || f.Title == "" || f.Marker == "" || len(f.Sources) == 0 {
		return errors.New("needs an id, a title, a marker and sources")
	}
	if f.Package == "" && strings.Contains(f.Marker, "/") {
		return errors.New("without a package, the marker is a file name")
	}
	return checkPatterns("files", slices.Concat([]string{f.Marker, f.Without}, f.Serves, f.Followers))
}

func (f *Framework) checkPreload() error {
	for i := range f.Preload {
		if err := f.Preload[i].validate(); err != nil {
			return fmt.Errorf("preload: %w", err)
		}
	}
	return nil
}

func (f *Framework) checkSteps() error {
	for _, s := range f.Steps {
		if err := version.CheckRange(s.Versions); err != nil {
			return fmt.Errorf("step %q: %w", s.Open, err)
		}
		if err := checkFlags(slices.Concat(s.Flags, s.PreloadFlags)); err != nil {
			return fmt.Errorf("step %q: %w", s.Open, err)
		}
		if err := checkPatterns("step", slices.Concat([]string{s.Open}, s.Optional, s.Preload)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Framework) checkHelped() error {
	for _, h := range f.Helped {
		if h.Why == "" || (h.Framework == "") == (len(h.Files) == 0) {
			return errors.New("helped: needs a why, and a framework or files")
		}
		if err := version.CheckRange(h.Versions); err != nil {
			return fmt.Errorf("helped: %w", err)
		}
		if err := checkPatterns("helped", h.Files); err != nil {
			return err
		}
	}
	return nil
}

func (f *Framework) checkUses() error {
	for _, u := range f.Uses {
		if !strings.Contains(u.Part, "/") || !u.Never && u.Severity != "" && !u.Severity.known() {
			return fmt.Errorf("uses: %q: needs a part (id/part), and a severity that is error, warning or note", u.Part)
		}
		if (len(u.AskedBy) == 0) != (u.Why == "") {
			return fmt.Errorf("uses: %q: asked_by needs why", u.Part)
		}
		if err := checkPatterns("asked_by", u.AskedBy); err != nil {
			return err
		}
	}
	return nil
}

// checkReleases checks the rows about releases that do not fit.
func (f *Framework) checkReleases() error {
	var all []string
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
	return checkPatterns("releases", all)
}

func (f *Framework) checkLater() error {
	for i := range f.Later {
		o := &f.Later[i]
		if err := o.validate(); err != nil {
			return fmt.Errorf("later: %w", err)
		}
		if err := checkPatterns("later", []string{o.By}); err != nil {
			return err
		}
	}
	return nil
}

// Reads returns a framework's message about a loader's error. A truncated file
// kills the process, so that only the shell reports it.
func (p *Packs) Reads(text string, e *elfdeps.Error, values ...string) string {
	if e.Kind == elfdeps.CutError {
		return p.Phrase("bus-error", nil)
	}
	return Expand(text, append(values, "{error}", e.Error())...)
}
