package replay

import (
	"cmp"
	"debug/elf"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// openFunc is called for each file that a step has opened, with the error of dlopen or nil.
type openFunc func(s packs.Step, file string, err error)

// steps returns the steps for the framework's release. If the release is not known, the
// first of the steps that open the same files counts.
func (in *Install) steps() []packs.Step {
	var list []packs.Step
	for _, s := range in.Steps {
		fits, known := in.release.Within(s.Versions)
		if fits || !known && !slices.ContainsFunc(list, func(o packs.Step) bool { return o.Open == s.Open }) {
			list = append(list, s)
		}
	}
	return list
}

// runSteps opens the files of a framework's steps and preloads, in order, and returns the
// steps that fail.
func (re *replayer) runSteps(p *elfdeps.Process, in *Install) []Failure {
	return re.runStepsWith(p, in, nil)
}

// runStepsWith is runSteps, and calls onOpen, unless it is nil, for the files in a process
// that binds symbols.
func (re *replayer) runStepsWith(p *elfdeps.Process, in *Install, onOpen openFunc) []Failure {
	if in.source != nil {
		return re.openSource(p, in, onOpen)
	}
	if in.rescued != nil {
		if f := re.rescue(p, in, onOpen); f != nil {
			re.openSteps(p, in, nil)
			return []Failure{*f}
		}
	}
	return re.openSteps(p, in, onOpen)
}

// openSteps opens the files of the steps, and the preloads before and after the first step.
func (re *replayer) openSteps(p *elfdeps.Process, in *Install, onOpen openFunc) []Failure {
	var failures []Failure
	cut := re.openPreload(p, in.preloads["first"])
	last := "" // the file that was opened last
	for i, s := range in.steps() {
		if i == 1 && in.rescued == nil && len(failures) == 0 {
			cut = append(cut, re.openEager(p, in.preloads["after-first-step"])...)
		}
		failed, file := re.openStep(p, in, s, onOpen)
		failures, last = append(failures, failed...), cmp.Or(file, last)
	}
	if len(cut) > 0 && len(in.steps()) > 0 {
		failures = append(failures, re.killed(in, cut, cmp.Or(last, cut[0].Subject)))
	}
	return failures
}

// openStep opens the files of a step. It returns those that fail, and the file that was
// opened last.
func (re *replayer) openStep(p *elfdeps.Process, in *Install, s packs.Step, onOpen openFunc) (failures []Failure, last string) {
	if failed := re.preloadStep(p, in, s, onOpen); failed != nil {
		return []Failure{*failed}, ""
	}
	for _, file := range re.files.Glob(in.Home, s.Open) {
		if !re.loadable(in, file) {
			continue
		}
		last = file
		if misses := re.openFile(p, s, file, onOpen); len(misses) > 0 {
			failures = append(failures, Failure{Step: s, Path: file, Misses: misses})
		}
	}
	return failures, last
}

// openFile opens one file of a step, and returns what the process misses since.
func (re *replayer) openFile(p *elfdeps.Process, s packs.Step, file string, onOpen openFunc) []*elfdeps.Error {
	had, checked, loaded := len(p.Misses), len(VersionsOf(p)), len(p.Objects)
	_, err := p.DlopenFlags(nil, file, packs.FlagsOf(s.Flags))
	if onOpen != nil {
		onOpen(s, file, err)
	}
	versions := VersionsOf(p)
	return re.files.Real(slices.Concat(p.Misses[had:], versions[min(checked, len(versions)):], re.files.cutOf(p.Objects, loaded)))
}

// killed returns the failure of a framework whose preloads are truncated. They kill the
// process before the framework reaches its purpose: its last step.
func (re *replayer) killed(in *Install, cut []*elfdeps.Error, file string) Failure {
	steps := in.steps()
	s := steps[len(steps)-1]
	if !s.Import {
		s.Effect = re.packs.Phrase("killed-by-preload", packs.Values{"framework": in.Title})
	}
	return Failure{Step: s, Path: file, Misses: cut, Killed: true}
}

// preloadStep opens the files that a step opens by full path before its own, and returns
// the failure of the first that cannot be opened, which ends the step, or nil.
func (re *replayer) preloadStep(p *elfdeps.Process, in *Install, s packs.Step, onOpen openFunc) *Failure {
	for i, pattern := range slices.Concat(s.Optional, s.Preload) {
		for _, file := range re.files.Glob(in.Site, pattern) {
			misses, err := re.loaders.openPathBound(p, file, packs.FlagsOf(s.PreloadFlags))
			if i < len(s.Optional) { // a truncated file kills the process nevertheless
				misses = cutIn(misses)
			}
			if len(misses) == 0 && onOpen != nil && i >= len(s.Optional) && symbolError(err) != nil {
				s.Error = cmp.Or(strings.ReplaceAll(s.Unusable, "{path}", file), s.Error)
				onOpen(s, file, err)
				return &Failure{Step: s, Path: file}
			}
			if len(misses) == 0 {
				continue
			}
			if e := misses[0]; e.Kind != elfdeps.CutError && (e.Subject == file || e.Name == file) {
				s.Error = strings.ReplaceAll(s.Unusable, "{path}", file)
			}
			return &Failure{Step: s, Path: file, Misses: misses}
		}
	}
	return nil
}

// loadable reports whether the process of a framework would open a file: not an optional
// one, and not one for another machine. In a package, only the name excludes a file for
// another machine. Elsewhere an application may have its libraries for every platform and
// choose by the machine.
func (re *replayer) loadable(in *Install, file string) bool {
	e, _, ok := re.img.FS.Lookup(file)
	if !ok || re.packs.Optional.For(file) != nil {
		return false
	}
	tag := platformTag.FindStringSubmatch(path.Base(file))
	return e.Object == nil || e.Object.Machine == re.files.Machine || in.Package != "" && (tag == nil || tag[1] == platformTags[re.files.Machine])
}

// platformTag matches the machine in the name of an extension module.
var platformTag = regexp.MustCompile(`-(\w+)-linux-(?:gnu|musl)\.so$`)

// platformTags are the machines in such names.
var platformTags = map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}
