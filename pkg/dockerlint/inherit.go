package dockerlint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// BaseFinding is a finding of a scan of a base image.
type BaseFinding struct {
	Rule     string
	Severity packs.Severity
	Message  string
	Because  string
	Fixes    []string
	// Library is the library that the finding is about, and GPU is set if it is one of CUDA's.
	Library string
	GPU     bool
	// Paths are the files that the finding is about.
	Paths []string
	// Start is set if the finding says no more than that the image's program does not start.
	Start bool
}

// maxInherited limits the findings of one base image.
const maxInherited = 50

// inherited adds the errors and warnings of the base image that no instruction fixes, at the
// FROM. One that an instruction may fix is a note.
func (w *walk) inherited() {
	if w.base == nil {
		return
	}
	for i, f := range w.base.Findings {
		if i == maxInherited {
			w.unknown = append(w.unknown, Unknown{w.from.Line, fmt.Sprintf("%d more findings of the base image", len(w.base.Findings)-i)})
			return
		}
		if f.Severity == packs.Note {
			continue
		}
		x := Finding{Rule: f.Rule, Severity: f.Severity, Line: w.from.Line, Base: w.from.Ref, Message: "the base " + w.from.Ref + ": " + f.Message, Because: f.Because, Fixes: f.Fixes}
		if by := w.mayFix(&f); by != "" {
			x.Severity, x.Because = packs.Note, by
		}
		w.add(x)
	}
}

// mayFix names an instruction that may fix a finding of the base, or is empty.
func (w *walk) mayFix(f *BaseFinding) string {
	for _, find := range []func(*BaseFinding) string{w.fixedByPackage, w.fixedBySystem, w.fixedBySetting, w.fixedByFile} {
		if by := find(f); by != "" {
			return by
		}
	}
	for _, u := range w.unknown {
		if u.Line != w.from.Line {
			return fmt.Sprintf("line %d may fix it, which is not known: %s", u.Line, u.Why)
		}
	}
	return ""
}

// fixedByPackage looks for packages of Python that are named in the finding or its fixes, or
// that may change others.
func (w *walk) fixedByPackage(f *BaseFinding) string {
	words := wordsOf(f)
	for _, in := range w.installs {
		for i := range in.wheels {
			if x := &in.wheels[i]; words[x.name] || !x.plain && !listed(w.Plain, x.name) {
				return fmt.Sprintf("line %d installs %s, which may fix it", x.line, x.name)
			}
		}
	}
	for _, r := range w.uninstalls {
		if words[r.path] {
			return fmt.Sprintf("line %d uninstalls %s, which may fix it", r.line, r.path)
		}
	}
	return ""
}

// cudaPackage matches packages of the system that may bring a library of CUDA's.
var cudaPackage = regexp.MustCompile(`cuda|nvidia|cudnn|nccl|cublas|cufft|curand|cusolver|cusparse|nvinfer|tensorrt|npp|nvjpeg|cupti|\$|/`)

// fixedBySystem looks for packages of the system: any may bring a library that is none of
// CUDA's.
func (w *walk) fixedBySystem(f *BaseFinding) string {
	if len(w.condas) > 0 {
		return fmt.Sprintf("line %d installs %s, which may fix it", w.condas[0].line, w.condas[0].name)
	}
	for _, p := range w.adds {
		if !f.GPU || cudaPackage.MatchString(p.name) {
			return fmt.Sprintf("line %d installs %s, which may fix it", p.line, p.name)
		}
	}
	return ""
}

// fixedBySetting looks for variables that the finding names or the loader reads, and for a
// program of the Dockerfile's own.
func (w *walk) fixedBySetting(f *BaseFinding) string {
	words := wordsOf(f)
	for _, v := range w.variables {
		if words[v.value] || f.Library != "" && (strings.HasPrefix(v.value, "LD_") || v.value == "PYTHONPATH") {
			return fmt.Sprintf("line %d sets %s, which may fix it", v.line, v.value)
		}
	}
	if f.Start && w.starts > 0 {
		return fmt.Sprintf("line %d starts another program", w.starts)
	}
	return ""
}

var libraryDir = regexp.MustCompile(`^/(usr|lib|lib64|opt|etc)?(/|$)`)

// fixedByFile looks for copies to where the finding's files or the system's libraries are,
// and for files of the finding that are removed.
func (w *walk) fixedByFile(f *BaseFinding) string {
	for _, c := range w.copies {
		to := strings.TrimSuffix(c.to, "/")
		if c.to == "" || libraryDir.MatchString(to+"/") || slices.ContainsFunc(f.Paths, func(p string) bool { return strings.HasPrefix("/"+p, to+"/") }) {
			return "a COPY may fix it"
		}
	}
	for _, r := range w.removed {
		if slices.ContainsFunc(f.Paths, func(p string) bool { return strings.HasPrefix("/"+p+"/", strings.TrimRight(r.path, "/*")+"/") }) {
			return fmt.Sprintf("line %d removes %s", r.line, r.path)
		}
	}
	return ""
}

// wordsOf returns the words in the texts of a finding.
func wordsOf(f *BaseFinding) map[string]bool {
	words := map[string]bool{}
	for _, text := range append([]string{f.Message}, f.Fixes...) {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool {
			return r != '_' && r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			words[strings.TrimRight(word, ".")] = true
		}
	}
	return words
}

// keep takes what may fix a finding of the base from an instruction.
func (w *walk) keep(st *dockerfile.Step) {
	switch st.Name {
	case "ENV":
		for _, s := range st.Settings {
			w.variables = append(w.variables, setting{s.Name, st.Line})
			if s.Name == "PATH" {
				w.programs = s.Value
			}
		}
	case "CMD":
		w.starts, w.cmd = st.Line, st
	case "ENTRYPOINT": // it takes the base's CMD away
		w.starts, w.entry = st.Line, st
	}
}
