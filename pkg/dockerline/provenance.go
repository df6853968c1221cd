package dockerline

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// statement is the part of an in-toto statement that is read: SLSA provenance of BuildKit,
// v0.2 and v1
// (https://github.com/moby/buildkit/blob/master/docs/attestations/slsa-definitions.md).
type statement struct {
	PredicateType string `json:"predicateType"`
	Predicate     struct {
		// v0.2
		Config   buildConfig `json:"buildConfig"`
		Metadata struct {
			BuildKit metadata `json:"https://mobyproject.org/buildkit@v1#metadata"`
		} `json:"metadata"`
		Invocation struct {
			ConfigSource struct {
				URI  string `json:"uri"`
				Path string `json:"entryPoint"`
			} `json:"configSource"`
			Parameters request `json:"parameters"`
		} `json:"invocation"`
		// v1
		BuildDefinition struct {
			External struct {
				ConfigSource struct {
					URI  string `json:"uri"`
					Path string `json:"path"`
				} `json:"configSource"`
				Request request `json:"request"`
			} `json:"externalParameters"`
			Internal struct {
				Config buildConfig `json:"buildConfig"`
			} `json:"internalParameters"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Metadata struct {
				BuildKit metadata `json:"buildkit_metadata"`
			} `json:"metadata"`
		} `json:"runDetails"`
	} `json:"predicate"`
}

// buildConfig has the steps of the build, of all stages that its target needs. Lines do not
// need them: they may be of a form that is not known.
type buildConfig struct {
	Steps json.RawMessage `json:"llbDefinition"` // a list of operation
}

type request struct {
	Args map[string]string `json:"args"`
}

// metadata is BuildKit's own part. Keys of Layers are step:output, and values chains of
// layers, the lowest first, of which the step made the last.
type metadata struct {
	VCS    map[string]string `json:"vcs"`
	Source struct {
		Locations map[string]locations `json:"locations"`
		Infos     []struct {
			Filename string `json:"filename"`
			Language string `json:"language"`
			Data     []byte `json:"data"`
		} `json:"infos"`
	} `json:"source"`
	Layers map[string][][]descriptor `json:"layers"`
}

type descriptor struct {
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
}

// uncompressed is the annotation with a layer's diff ID.
const uncompressed = "containerd.io/uncompressed"

// locations are the places of a step. BuildKit leaves out fields that are 0.
type locations struct {
	Locations []struct {
		SourceIndex int `json:"sourceIndex"`
		Ranges      []struct {
			Start position `json:"start"`
			End   position `json:"end"`
		} `json:"ranges"`
	} `json:"locations"`
}

type position struct {
	Line int `json:"line"`
}

const (
	maxStatement = 8 << 20 // bytes
	maxInfos     = 100     // sources of a build
)

// Errors of statements that say nothing about lines.
var (
	errMin       = errors.New("its provenance has no map of layers: build with --provenance=mode=max")
	errOther     = errors.New("its provenance is not BuildKit's")
	errUnmatched = errors.New("its provenance is about layers of other digests: they were written again after the build")
)

// Provenance is a build as its provenance describes it.
type Provenance struct {
	// Lines has the instruction that made each of the image's layers; nil for a layer that the
	// provenance does not map, or maps to several instructions.
	Lines []*Line
	// End is the end of the image's stage, or nil if that is not known.
	End *End

	meta       *metadata
	texts      []*text // by source index; nil for another language's
	target     string
	operations map[string]*operation  // by their IDs
	made       [][]string             // by layer: the step:output that have made it
	placed     map[string][]*Line     // results of places
	located    int                    // places that were looked up
	shipped    map[*text]map[int]bool // results of stages
}

// FromProvenance reads an image's provenance. The error says why no layer has a line.
func FromProvenance(raw []byte, layers []source.Layer) (*Provenance, error) {
	if len(raw) > maxStatement {
		return nil, fmt.Errorf("its provenance is larger than %d MiB", maxStatement>>20)
	}
	var s statement
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("its provenance cannot be read: %w", err)
	}
	p, err := s.build()
	if err != nil {
		return nil, err
	}
	if err := p.locate(layers); err != nil {
		return nil, err
	}
	return p, nil
}

func (s *statement) build() (*Provenance, error) {
	p := &s.Predicate
	b := &Provenance{meta: &p.RunDetails.Metadata.BuildKit, operations: map[string]*operation{}, placed: map[string][]*Line{}, shipped: map[*text]map[int]bool{}}
	uri, file, args := p.BuildDefinition.External.ConfigSource.URI, p.BuildDefinition.External.ConfigSource.Path, p.BuildDefinition.External.Request.Args
	raw := p.BuildDefinition.Internal.Config.Steps
	switch {
	case strings.HasSuffix(s.PredicateType, "/provenance/v0.2"):
		b.meta, raw = &p.Metadata.BuildKit, p.Config.Steps
		uri, file, args = p.Invocation.ConfigSource.URI, p.Invocation.ConfigSource.Path, p.Invocation.Parameters.Args
	case !strings.HasSuffix(s.PredicateType, "/provenance/v1"):
		return nil, errOther
	}
	var steps []operation
	if json.Unmarshal(raw, &steps) == nil {
		for i := range steps {
			b.operations[steps[i].ID] = &steps[i]
		}
	}
	src := &b.meta.Source
	if len(src.Infos) == 0 || len(b.meta.Layers) == 0 {
		return nil, errMin
	}
	if len(src.Infos) > maxInfos {
		return nil, fmt.Errorf("its provenance has %d sources, more than the %d that are read", len(src.Infos), maxInfos)
	}
	b.target = args["target"]
	for _, info := range src.Infos {
		if info.Language != "" && info.Language != "Dockerfile" {
			b.texts = append(b.texts, nil)
			continue
		}
		name := info.Filename
		if len(src.Infos) == 1 && file != "" && uri != "" { // a build from git
			name = file
		}
		b.texts = append(b.texts, newText(inRepository(directory(b.meta.VCS, uri), name), info.Data))
	}
	return b, nil
}

// directory returns the directory of the Dockerfile in its repository: buildx says it of a
// local build, and the address of a git context has it as #REF:DIRECTORY.
func directory(vcs map[string]string, uri string) string {
	if dir := vcs["localdir:dockerfile"]; dir != "" {
		return dir
	}
	_, fragment, _ := strings.Cut(uri, "#")
	_, dir, _ := strings.Cut(fragment, ":")
	return dir
}

// candidates are the instructions that may have made one layer.
type candidates struct {
	whole set // the step's chain of layers is that of the image
	last  set // its last layer is

	wholeKeys, lastKeys []string // the step:output of these
}

// set has different instructions, and none if there are more than maxPlaces.
type set struct {
	list []*Line
	many bool
}

func (s *set) add(lines []*Line) {
	for _, l := range lines {
		if !s.many && !slices.ContainsFunc(s.list, func(o *Line) bool { return *o == *l }) {
			s.list = append(s.list, l)
		}
		if len(s.list) > maxPlaces {
			*s = set{many: true}
		}
	}
}

// locate finds the instruction of each layer.
func (p *Provenance) locate(layers []source.Layer) error {
	layers = p.stack(layers)
	found := make([]candidates, len(layers))
	at := positions(layers)
	matched := false
	for _, key := range slices.Sorted(maps.Keys(p.meta.Layers)) {
		chains := p.meta.Layers[key]
		step, _, _ := strings.Cut(key, ":")
		lines := p.bases(step, p.places(step))
		for _, chain := range chains {
			n := len(chain)
			if n == 0 {
				continue
			}
			if begins(layers, chain) {
				matched = true
				found[n-1].whole.add(lines)
				found[n-1].wholeKeys = append(found[n-1].wholeKeys, key)
			} else if i, ok := last(chain[n-1], at); ok {
				matched = true
				found[i].last.add(lines)
				found[i].lastKeys = append(found[i].lastKeys, key)
			}
		}
	}
	switch {
	case p.located > maxLocated:
		return fmt.Errorf("the steps of its provenance have more than %d places", maxLocated)
	case !matched:
		return errUnmatched
	}
	p.Lines, p.made = make([]*Line, len(layers)), make([][]string, len(layers))
	for i, c := range found {
		p.Lines[i], p.made[i] = p.only(c.whole.list), c.wholeKeys
		if len(c.whole.list) == 0 && !c.whole.many {
			p.Lines[i], p.made[i] = p.only(c.last.list), c.lastKeys
		}
	}
	p.End = p.end()
	below(p.Lines)
	return nil
}

// end returns the end of the target, if it has made the highest layer with a line or builds
// on the stage that has.
func (p *Provenance) end() *End {
	for _, l := range slices.Backward(p.Lines) {
		if l == nil {
			continue
		}
		for _, t := range p.texts {
			if t != nil && t.name == l.File && p.ships(l) {
				return t.end(t.target(p.target))
			}
		}
		return nil
	}
	return nil
}

// bases returns the FROMs of a step that is an image, if it has some: a COPY --from of the
// same image makes another layer.
func (p *Provenance) bases(step string, lines []*Line) []*Line {
	op := p.operations[step]
	isBase := func(l *Line) bool { return l.Base }
	if op == nil || op.Op.Op.Source == nil || !slices.ContainsFunc(lines, isBase) {
		return lines
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l *Line) bool { return !l.Base })
}

// stack returns the image's layers with the digests that they have in the provenance.
// BuildKit may have compressed those below the last one again for the image: a chain of as
// many layers with the same last one has their other digests, unless two chains differ.
func (p *Provenance) stack(layers []source.Layer) []source.Layer {
	n := len(layers)
	var known []source.Layer
	for _, chains := range p.meta.Layers {
		for _, chain := range chains {
			if n == 0 || len(chain) != n || chain[n-1].Digest == "" || chain[n-1].Digest != layers[n-1].Digest {
				continue
			}
			list := slices.Clone(layers)
			for i, d := range chain {
				list[i].Digest = d.Digest
			}
			if known != nil && !slices.Equal(known, list) {
				return layers
			}
			known = list
		}
	}
	if known == nil {
		return layers
	}
	return known
}

// below gives the layers of a base image, of which BuildKit maps the highest, its FROM.
func below(lines []*Line) {
	for i := len(lines) - 1; i > 0; i-- {
		if l := lines[i]; l != nil && l.Base && lines[i-1] == nil {
			lines[i-1] = l
		}
	}
}

// positions returns the place of each layer by its digests, without those that occur twice.
func positions(layers []source.Layer) map[string]int {
	at, twice := map[string]int{}, map[string]bool{"": true}
	for i, l := range layers {
		for _, d := range []string{l.Digest, l.DiffID} {
			if before, ok := at[d]; ok && before != i {
				twice[d] = true
			}
			at[d] = i
		}
	}
	maps.DeleteFunc(at, func(d string, _ int) bool { return twice[d] })
	return at
}

// last returns the place of a layer, and whether the image has it once.
func last(d descriptor, at map[string]int) (int, bool) {
	if i, ok := at[d.Digest]; ok {
		return i, true
	}
	i, ok := at[d.Annotations[uncompressed]]
	return i, ok
}

// begins reports whether the image's layers begin with a chain.
func begins(layers []source.Layer, chain []descriptor) bool {
	if len(chain) > len(layers) {
		return false
	}
	for i, d := range chain {
		id := d.Annotations[uncompressed]
		if (d.Digest == "" || d.Digest != layers[i].Digest) && (id == "" || id != layers[i].DiffID) {
			return false
		}
	}
	return true
}

// maxPlaces bounds the places of one step: it has one for each instruction that means the
// same.
const maxPlaces = 100

// maxLocated bounds the places of all steps of a build that are looked up. A build has some
// hundred.
const maxLocated = 10_000

// places returns the instructions of a step, which the caller does not change.
func (p *Provenance) places(step string) []*Line {
	list, ok := p.placed[step]
	if !ok {
		list = p.place(step)
		p.placed[step] = list
	}
	return list
}

func (p *Provenance) place(step string) (list []*Line) {
	for _, l := range p.meta.Source.Locations[step].Locations {
		if p.located++; p.located > maxLocated {
			return nil
		}
		if l.SourceIndex < 0 || l.SourceIndex >= len(p.texts) || p.texts[l.SourceIndex] == nil || len(l.Ranges) == 0 || len(list) == maxPlaces {
			continue
		}
		start, end := l.Ranges[0].Start.Line, l.Ranges[0].End.Line
		for _, r := range l.Ranges {
			start, end = min(start, r.Start.Line), max(end, r.End.Line)
		}
		if line := p.texts[l.SourceIndex].at(start, end); line != nil {
			list = append(list, line)
		}
	}
	return list
}

// only returns the instruction of a list that has no other one. Stages that begin alike
// share their first steps: of those the target's count.
func (p *Provenance) only(list []*Line) *Line {
	if l := same(list); l != nil || len(list) == 0 {
		return l
	}
	var of []*Line
	for _, l := range list {
		if p.ships(l) {
			of = append(of, l)
		}
	}
	return same(of)
}

// same returns the instruction that all of a list are, or nil.
func same(list []*Line) *Line {
	for _, l := range list {
		if *l != *list[0] {
			return nil
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// ships reports whether an instruction is of the target, or of a stage that it builds on.
func (p *Provenance) ships(l *Line) bool {
	for _, t := range p.texts {
		if t == nil || t.name != l.File {
			continue
		}
		if p.stages(t)[t.stage(l.Line)] {
			return true
		}
	}
	return false
}

// stages returns the stages of a text that the target is built on, with its own.
func (p *Provenance) stages(t *text) map[int]bool {
	if of, ok := p.shipped[t]; ok {
		return of
	}
	of := map[int]bool{}
	if target := t.target(p.target); target >= 0 {
		for _, i := range t.file.Chain(target) {
			of[i] = true
		}
	}
	p.shipped[t] = of
	return of
}
