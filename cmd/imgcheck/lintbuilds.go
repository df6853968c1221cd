package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/builds"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/githook"
	"github.com/imgcheck/imgcheck/pkg/imagerefs"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// maxAgain limits what is linted for more than one build of a Dockerfile: the bytes of its text,
// summed over all builds of a lint but the first of each text.
const maxAgain = 1 << 20

// lintJob is a Dockerfile to lint, as one build takes it.
type lintJob struct {
	path   string
	text   []byte
	target string
	args   map[string]string
	// context is the directory of the build context, or "" if no file says it.
	context string
	// adds says what is laid over the image and may bring libraries of CUDA's or a Python, or is empty.
	adds string
	// line is the first line of the text in the file, from 0.
	line int
}

// bringing matches features of dev containers that may bring libraries of CUDA's or a Python.
var bringing = regexp.MustCompile(`(?i)cuda|nvidia|cudnn|conda|mamba|python|nix`)

// jobs returns the Dockerfiles among some files and those that the others build. A Dockerfile
// that a file builds is linted as it does. more are results for builds that are not known.
func (l *linting) jobs(paths []string) (jobs []lintJob, more []*dockerlint.File, err error) {
	built, texts, again := map[string]bool{}, map[string]bool{}, 0
	for _, p := range paths {
		if p == "-" || !builds.Named(filepath.ToSlash(p)) {
			continue
		}
		text, err := l.read(p)
		if err != nil {
			return nil, nil, err
		}
		list, err := builds.OfValues(filepath.ToSlash(p), text, openBeside(p), variablesBeside(p))
		if err != nil {
			more = merged(more, &dockerlint.File{Path: p, Findings: []dockerlint.Finding{}, Unknown: []dockerlint.Unknown{{Line: 1, Why: "the builds of this file: " + err.Error()}}})
		}
		for _, b := range list {
			j, why := l.jobOf(p, b)
			if texts[string(j.text)] {
				again += len(j.text)
			}
			if texts[string(j.text)] = true; why == "" && again > maxAgain {
				why = fmt.Sprintf("its Dockerfile is not linted for it, because the Dockerfiles that several builds take have more than %d KiB together: lint the file by itself", maxAgain>>10)
			}
			if why != "" {
				more = merged(more, &dockerlint.File{Path: filepath.FromSlash(b.File), Findings: []dockerlint.Finding{}, Unknown: []dockerlint.Unknown{{Line: b.Line, Why: "the build of " + b.Name + ": " + why}}})
				continue
			}
			built[filepath.Clean(j.path)] = true
			jobs = append(jobs, j)
		}
	}
	for _, p := range paths {
		if p != "-" && (builds.Named(filepath.ToSlash(p)) || built[filepath.Clean(p)]) {
			continue
		}
		text, err := l.read(p)
		if err != nil {
			return nil, nil, err
		}
		jobs = append(jobs, lintJob{path: p, text: text})
	}
	return jobs, more, nil
}

// jobOf returns the Dockerfile of a build that a file says, or why it is not known.
func (l *linting) jobOf(file string, b builds.Build) (j lintJob, why string) {
	if b.Why != "" {
		return j, b.Why
	}
	dir, top := filepath.Dir(file), topOf(file)
	below := func(p string) (string, bool) { // a file of a repository names others of it alone
		rel, err := filepath.Rel(top, filepath.Join(dir, filepath.FromSlash(p)))
		return rel, err == nil && filepath.IsLocal(rel) && !filepath.IsAbs(p)
	}
	j = lintJob{target: b.Target, args: b.Args}
	for _, f := range b.Features {
		if bringing.MatchString(f) {
			j.adds = "the feature " + oneLine(f) + " of " + b.File
		}
	}
	rel, ok := below(b.Context)
	if !ok {
		return j, "its context " + b.Context + " is outside of the repository"
	}
	j.context = filepath.Join(top, rel)
	if b.Inline != "" {
		j.path, j.text, j.line = filepath.FromSlash(b.File), []byte(b.Inline), b.InlineLine-1
		return j, ""
	}
	if rel, ok = below(b.Dockerfile); !ok {
		return j, "its Dockerfile " + b.Dockerfile + " is outside of the repository"
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return j, oneLine(err.Error())
	}
	defer root.Close()
	j.path = filepath.Join(top, rel)
	if j.text, err = readIn(root, rel); err != nil {
		return j, "its Dockerfile " + j.path + " is not read: " + oneLine(source.PathError(err).Error())
	}
	if len(j.text) > lintSize {
		return j, fmt.Sprintf("its Dockerfile is larger than %d KiB", lintSize>>10)
	}
	return j, ""
}

// topOf returns the directory in which and below which a file may name others.
func topOf(file string) string {
	if filepath.IsLocal(file) {
		return "."
	}
	return filepath.Dir(filepath.Dir(file))
}

// openBeside returns a function that reads the files that a Compose file includes, extends or
// overrides.
func openBeside(file string) builds.Open {
	top := topOf(file)
	return func(name string) ([]byte, error) {
		rel, err := filepath.Rel(top, filepath.FromSlash(name))
		if err != nil || !filepath.IsLocal(rel) {
			return nil, errors.New("it is outside of the repository")
		}
		root, err := os.OpenRoot(top)
		if err != nil {
			return nil, errors.New(oneLine(err.Error()))
		}
		defer root.Close()
		text, err := readIn(root, rel)
		switch {
		case err != nil:
			return nil, errors.New(oneLine(source.PathError(err).Error()))
		case len(text) > lintSize:
			return nil, fmt.Errorf("it is larger than %d KiB", lintSize>>10)
		}
		return text, nil
	}
}

// variablesBeside returns the variables that a Compose file takes from the .env beside it.
func variablesBeside(file string) map[string]string {
	env := imagerefs.EnvFile(filepath.ToSlash(file))
	if env == "" {
		return nil
	}
	text, err := openBeside(file)(env)
	if err != nil {
		return nil // there is none
	}
	return githook.Variables(text)
}

// merged adds the result for a file to others: those of several builds of one file are one.
func merged(files []*dockerlint.File, file *dockerlint.File) []*dockerlint.File {
	i := slices.IndexFunc(files, func(f *dockerlint.File) bool { return f.Path == file.Path })
	if i < 0 {
		return append(files, file)
	}
	into := files[i]
	for _, f := range file.Findings {
		if !slices.ContainsFunc(into.Findings, func(o dockerlint.Finding) bool {
			return o.Rule == f.Rule && o.Line == f.Line && o.Message == f.Message
		}) {
			into.Findings = append(into.Findings, f)
		}
	}
	for _, g := range file.Ignored {
		if !slices.ContainsFunc(into.Ignored, func(o dockerlint.Ignored) bool {
			return o.Finding.Rule == g.Finding.Rule && o.Finding.Line == g.Finding.Line
		}) {
			into.Ignored = append(into.Ignored, g)
		}
	}
	for _, u := range file.Unknown {
		if !slices.Contains(into.Unknown, u) {
			into.Unknown = append(into.Unknown, u)
		}
	}
	slices.SortStableFunc(into.Findings, func(a, b dockerlint.Finding) int { return a.Line - b.Line })
	slices.SortStableFunc(into.Unknown, func(a, b dockerlint.Unknown) int { return a.Line - b.Line })
	return files
}

// shift moves the places of a text to where its first line is in the file.
func shift(f *dockerlint.File, lines int) *dockerlint.File {
	if lines == 0 {
		return f
	}
	for i := range f.Findings {
		f.Findings[i].Line += lines
		f.Findings[i].EndLine += lines
	}
	for i := range f.Ignored {
		f.Ignored[i].Finding.Line += lines
		f.Ignored[i].Finding.EndLine += lines
	}
	for i := range f.Unknown {
		f.Unknown[i].Line += lines
	}
	return f
}
