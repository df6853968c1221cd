package fix

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// BaseChange is another variant of the public image that an image is built on, of the same
// release and for the same distribution, with the libraries that a snippet copies.
type BaseChange struct {
	From string `json:"from"` // as the image's variables and history say
	To   string `json:"to"`
}

// baseChange returns the variant whose libraries make all lines of a snippet unnecessary, or nil: if
// the lines do more than copy libraries of one image and set variables, if the image does not
// name its base, if no such variant is known, or if its libraries do not resolve the same in the
// replay. Of the variant, the replay has the copied libraries alone, empty and in the variant's
// directories.
func (p *planner) baseChange(ctx context.Context, steps []Step, s *Snippet) (*BaseChange, error) {
	to := onlySource(s)
	from, row := p.maker.builtOn(), provide.BaseImageNamed(to)
	if from == "" || row == nil || row.CUDA != getVar(environment(p.base), "CUDA_VERSION") || !strings.HasSuffix(to, from[strings.LastIndex(from, "-"):]) {
		return nil, nil
	}
	w := &writer{m: &p.maker}
	g := group{text: to}
	for _, step := range steps {
		if step.Variable != "" {
			continue
		}
		image, paths := w.public(&step)
		if image != to || !step.StandIn {
			return nil, nil
		}
		in := Step{Kind: "install", Path: path.Dir(paths[0]), StandIn: true}
		for _, f := range step.files {
			in.files = append(in.files, file{File: patch.File{Path: path.Join(in.Path, path.Base(f.Path)), Mode: 0o644, Size: f.Size}, object: f.object})
		}
		g.steps = append(g.steps, in)
	}
	if p.unwritableAlone(g) != nil {
		return nil, nil
	}
	after, err := p.simulate(ctx, []group{g})
	if err != nil {
		return nil, err
	}
	stays := func(cause string) bool { return after.ledger.trouble[cause] != nil }
	comes := func(cause string) bool { return !slices.Contains(s.Shows, cause) }
	if slices.ContainsFunc(s.Resolved, stays) || slices.ContainsFunc(after.ledger.since(p.first), comes) {
		return nil, nil
	}
	return &BaseChange{From: from, To: to}, nil
}

// onlySource returns the image that all lines of a snippet copy from which set no variable, or "" if
// there are several, or lines that do something else.
func onlySource(s *Snippet) string {
	only := ""
	for _, l := range s.Lines {
		instruction, rest, _ := strings.Cut(l, " ")
		from, _, _ := strings.Cut(strings.TrimPrefix(rest, "--from="), " ")
		switch {
		case instruction == "ENV":
		case instruction != "COPY" || only != "" && only != from:
			return ""
		default:
			only = from
		}
	}
	return only
}

// unwritableAlone returns an error if no layer can hold the files of a group by itself.
func (p *planner) unwritableAlone(g group) error {
	var files []patch.File
	for _, s := range g.steps {
		for _, f := range s.files {
			files = append(files, f.File)
		}
	}
	return patch.Writable(p.base.FS, files)
}

// builtOn returns the image of NVIDIA's that an image is built on, without cuDNN and compilers:
// "nvidia/cuda:12.4.1-runtime-ubuntu22.04". It returns "" if the image does not say so: by the
// variables that NVIDIA's Dockerfiles set, the instructions that use them, and os-release
// (https://gitlab.com/nvidia/container-images/cuda, dist).
func (m *maker) builtOn() string {
	vars, d := environment(m.base), m.inventory.Distribution
	cuda := getVar(vars, "CUDA_VERSION")
	if !wholeRelease.MatchString(cuda) || getVar(vars, "NV_CUDA_CUDART_VERSION") == "" || d == nil || d.ID != "ubuntu" || d.Version == "" {
		return ""
	}
	says := func(name string) bool {
		return getVar(vars, name) != "" || slices.ContainsFunc(m.base.FS.Layers, func(l source.Layer) bool { return strings.Contains(l.CreatedBy, "${"+name+"}") })
	}
	variant := "base"
	switch {
	case says("NV_CUDNN_VERSION"), says("NV_CUDNN_PACKAGE"), says("NV_CUDA_CUDART_DEV_VERSION"):
		return ""
	case says("NV_CUDA_LIB_VERSION"):
		variant = "runtime"
	}
	return "nvidia/cuda:" + cuda + "-" + variant + "-ubuntu" + d.Version
}

// wholeRelease matches a release of CUDA as the tags of NVIDIA's images have it.
var wholeRelease = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
