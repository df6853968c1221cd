package packs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// Preload lists files that a framework opens by their full path, in order.
type Preload struct {
	Versions string `yaml:"versions"` // of the framework; empty: all
	// When is one of [PreloadTimes]:
	//   - first: before the first step. Files that cannot be loaded are passed over.
	//   - after-first-step: when the first step has succeeded. The first of Files that is
	//     missing or cannot be loaded ends the preload, and the framework goes on.
	//   - after-miss: when the first step has failed with an error that names one of Files.
	//     Then the step is tried once more. The first of Files that is missing (see
	//     Missing) or cannot be loaded ends the import.
	When string `yaml:"when"`
	// Files are patterns below the directory that holds the framework; with Dirs, each
	// is FOLDER/NAME.
	Files []string `yaml:"files"`
	// Dirs are the directories, below those of sys.path, in which the framework looks for
	// the FOLDER/NAME of Files: {folder} is FOLDER, {cuda} the major version of CUDA that
	// the framework is built for. It opens the first file that it finds in the first
	// directory of sys.path that has one.
	Dirs []string `yaml:"dirs"`
	// Optional are patterns of files that are opened after Files, if they are there.
	Optional []string `yaml:"optional"`
	// Mapped is a part of a loaded file's path. Without such a file there is no preload
	// after the first step.
	Mapped string `yaml:"mapped"`
	// Missing is the framework's message if one of Files is missing after a miss: {name} is
	// NAME. If Missing is empty, the framework goes on without the file.
	Missing string `yaml:"missing"`
}

// PreloadTimes are the values of [Preload.When].
var PreloadTimes = []string{"first", "after-first-step", "after-miss"}

func (p *Preload) validate() error {
	if !slices.Contains(PreloadTimes, p.When) {
		return fmt.Errorf("when is %q, not one of %s", p.When, strings.Join(PreloadTimes, ", "))
	}
	if err := version.CheckRange(p.Versions); err != nil {
		return err
	}
	for _, dir := range p.Dirs {
		if !strings.Contains(dir, "{folder}") && !strings.Contains(dir, "{cuda}") {
			return fmt.Errorf("dirs: %q has neither {folder} nor {cuda}", dir)
		}
	}
	files := slices.Concat(p.Files, p.Optional)
	for _, f := range files {
		if len(p.Dirs) > 0 && strings.Count(f, "/") != 1 {
			return fmt.Errorf("files: %q is not FOLDER/NAME, which dirs need", f)
		}
	}
	if p.When != "after-miss" && p.Missing != "" || p.When != "after-first-step" && p.Mapped != "" {
		return errors.New("missing goes with after-miss, mapped with after-first-step")
	}
	return checkPatterns("files", files)
}
