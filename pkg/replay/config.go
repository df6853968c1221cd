package replay

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Config is the configuration of an image: its environment and the program that it
// starts.
type Config struct {
	img   *Image
	packs *packs.Packs
	work  elfdeps.Work // done by all processes
}

// NewConfig returns the configuration of an image. The image may have none.
func NewConfig(img *Image, set *packs.Packs) *Config { return &Config{img: img, packs: set} }

// Spent returns the error that the image takes more work than the limits allow, or nil.
// The evidence is not complete then.
func (co *Config) Spent() error { return cmp.Or(co.work.Err(), co.img.FS.Err()) }

// Env returns the environment of the processes of the image.
func (co *Config) Env() elfdeps.Env {
	if co.img.Config == nil {
		return elfdeps.Env{Work: &co.work}
	}
	return elfdeps.Env{Vars: co.img.Config.Config.Env, Cwd: co.img.Config.Config.WorkingDir, Work: &co.work}
}

// Getenv returns the value of a variable, and whether it is set. Of several entries with
// the name the last counts.
func (co *Config) Getenv(name string) (string, bool) {
	vars := co.Env().Vars
	for i := len(vars) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(vars[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// visibleDevices is the variable that names the GPUs of a container
// (https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html).
const visibleDevices = "NVIDIA_VISIBLE_DEVICES"

// wantsGPU reports whether the environment says that the image is for a GPU: it selects
// GPUs, or has the variables of NVIDIA's CUDA images.
func (co *Config) wantsGPU() bool {
	cuda := co.packs.Carrier("cuda").Variables
	return slices.ContainsFunc(co.Env().Vars, func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return value != "" && value != "void" && value != "none" && (name == visibleDevices || slices.Contains(cuda, name))
	})
}

// IsMount reports whether something is mounted to a directory when the container starts:
// the directory is one of the packs' mounts, or in a volume of the image.
func (co *Config) IsMount(dir string) bool {
	for _, m := range co.packs.Mounts {
		if packs.Match(m.Match, dir) {
			return true
		}
	}
	return co.inVolume(dir)
}

// inVolume reports whether a path is in a volume of the image.
func (co *Config) inVolume(p string) bool {
	if co.img.Config != nil {
		for v := range co.img.Config.Config.Volumes {
			if IsIn(path.Clean(p), path.Clean(v)) {
				return true
			}
		}
	}
	return false
}

// Volumes returns the paths of the image's volumes, in their order.
func (co *Config) Volumes() []string {
	if co.img.Config == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(co.img.Config.Config.Volumes))
}

// Healthcheck returns the command that asks whether the container is well, without its first word CMD
// or CMD-SHELL; nil if there is none.
func (co *Config) Healthcheck() []string {
	if co.img.Config == nil || co.img.Config.Config.Healthcheck == nil || len(co.img.Config.Config.Healthcheck.Test) < 2 {
		return nil
	}
	return co.img.Config.Config.Healthcheck.Test[1:]
}

// MayBeMounted reports whether a program that the image lacks at some paths may be mounted
// there: one of them is in a volume, or the only one in a directory of the root that has
// nothing in it.
func (co *Config) MayBeMounted(paths []string) bool {
	if slices.ContainsFunc(paths, co.inVolume) {
		return true
	}
	if len(paths) != 1 {
		return false
	}
	top, _, below := strings.Cut(strings.TrimPrefix(paths[0], "/"), "/")
	if !below {
		return false
	}
	for range co.img.FS.Below(top) {
		return co.IsMount(path.Dir(paths[0]))
	}
	return true
}

// Interactive reports whether the image starts a shell without a command, or names no
// program. The image must have a config.
func (co *Config) Interactive() bool {
	c := co.img.Config.Config
	argv := slices.Concat(c.Entrypoint, c.Cmd)
	return len(argv) == 0 || len(argv) == 1 && strings.HasSuffix(path.Base(argv[0]), "sh")
}

// Activates reports whether the command of the image runs through conda or a login shell,
// or may do so in a script. The image must have a config.
func (co *Config) Activates() bool {
	c := co.img.Config.Config
	for _, word := range slices.Concat(c.Entrypoint, c.Cmd) {
		base := path.Base(word)
		if slices.Contains([]string{"conda", "mamba", "micromamba", "-l", "--login", "-lc", "-ic", "-i", "_entrypoint.sh"}, base) || strings.Contains(word, "activate") {
			return true
		}
	}
	start := co.Entry()
	if start.Name == "" {
		return false
	}
	p, ok := co.Executable(start.Name)
	if !ok {
		return false
	}
	script, _, ok := co.img.FS.Lookup(p)
	return ok && script.Shebang != "" && strings.HasSuffix(path.Base(shebangProgram(script.Shebang)), "sh")
}
