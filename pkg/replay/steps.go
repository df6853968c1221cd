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

// steps are the framework's steps in its version. Where that is not known, the
// first of those that open the same counts.
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

// runSteps opens what the framework opens, its preloads when they come, and tells
// which steps fail.
func (re *replayer) runSteps(p *elfdeps.Process, in *Install) []Failure {
	return re.runStepsTelling(p, in, nil)
}

// runStepsTelling is runSteps, and calls told, where it is not nil, with the errors of
// a process that binds symbols.
func (re *replayer) runStepsTelling(p *elfdeps.Process, in *Install, told func(s packs.Step, file string, err error)) []Failure {
	if in.rescued != nil {
		if f := re.rescue(p, in, told); f != nil {
			re.openSteps(p, in, nil)
			return []Failure{*f}
		}
	}
	return re.openSteps(p, in, told)
}

// openSteps opens the files of the steps, and the preloads before and after the first.
func (re *replayer) openSteps(p *elfdeps.Process, in *Install, told func(s packs.Step, file string, err error)) []Failure {
	var failures []Failure
	// What is cut off among the preloads kills the process before the framework comes
	// to what it is for: its last step.
	early := re.openPreload(p, in.preloads["first"])
	last := "" // the file that it opens last
	steps := in.steps()
	for i, s := range steps {
		if i == 1 && in.rescued == nil && len(failures) == 0 {
			early = append(early, re.openEager(p, in.preloads["after-first-step"])...)
		}
		if failed := re.preloadStep(p, in, s, told); failed != nil {
			failures = append(failures, *failed)
			continue
		}
		for _, file := range re.files.Glob(in.Home, s.Open) {
			if !re.loadable(in, file) {
				continue
			}
			last = file
			had, checked, loaded := len(p.Misses), len(VersionsOf(p)), len(p.Objects)
			_, err := p.DlopenFlags(nil, file, packs.FlagsOf(s.Flags))
			if told != nil {
				told(s, file, err)
			}
			versions, ends := VersionsOf(p), re.files.cutOf(p.Objects, loaded)
			if misses := re.files.Real(slices.Concat(p.Misses[had:], versions[min(checked, len(versions)):], ends)); len(misses) > 0 {
				failures = append(failures, Failure{Step: s, Path: file, Misses: misses})
			}
		}
	}
	if len(early) > 0 && len(steps) > 0 {
		s := steps[len(steps)-1]
		if !s.Imports() {
			s.Effect = re.packs.Phrase("killed-by-preload", packs.Values{"framework": in.Title})
		}
		failures = append(failures, Failure{Step: s, Path: cmp.Or(last, early[0].Subject), Misses: early, Killed: true})
	}
	return failures
}

// preloadStep opens what a step opens by full path before its own files, and tells
// the first that cannot be: the step ends there.
func (re *replayer) preloadStep(p *elfdeps.Process, in *Install, s packs.Step, told func(s packs.Step, file string, err error)) *Failure {
	for i, pattern := range slices.Concat(s.Optional, s.Preload) {
		for _, file := range re.files.Glob(in.Site, pattern) {
			misses, err := re.loaders.openPathBound(p, file, packs.FlagsOf(s.PreloadFlags))
			if i < len(s.Optional) { // what is cut off ends the process all the same
				misses = slices.DeleteFunc(misses, func(e *elfdeps.Error) bool { return e.Kind != elfdeps.CutError })
			}
			if len(misses) == 0 && told != nil && i >= len(s.Optional) && symbolError(err) != nil {
				s.Error = cmp.Or(strings.ReplaceAll(s.Unusable, "{path}", file), s.Error)
				told(s, file, err)
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

// loadable reports whether a file is one that a framework's process would open: not
// an optional one, and not one that is for another machine by its name. One that is
// for another machine all the same is opened, in a directory of packages: elsewhere
// an application may carry its libraries for every platform, and choose.
func (re *replayer) loadable(in *Install, file string) bool {
	e, _, ok := re.img.FS.Lookup(file)
	if !ok || packs.ExceptionFor(re.packs.Optional, file) != nil {
		return false
	}
	tag := platformTag.FindStringSubmatch(path.Base(file))
	return e.Object == nil || e.Object.Machine == re.files.Machine || in.Package != "" && (tag == nil || tag[1] == platformTags[re.files.Machine])
}

// platformTag is the machine in the name of an extension module.
var platformTag = regexp.MustCompile(`-(\w+)-linux-(?:gnu|musl)\.so$`)

// platformTags are the machines as they are in such names.
var platformTags = map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}
