package dockerline

import (
	"path"
	"slices"
	"strings"
)

// Source is a stage that COPY --from has brought a file from.
type Source struct {
	// Stage is its name, or empty if it has none.
	Stage string `json:"stage,omitempty"`
	// Path is the file in the stage; empty if that is not known, because the copy has a
	// pattern, or may have copied a file or a directory.
	Path string `json:"path,omitempty"`
	// Lines are the instructions that may have made the file there, the last one first: those
	// of the stage and of the stages below it, and the FROM of an image. The only one has made
	// it.
	Lines []Line `json:"lines"`
	// More counts the instructions that are not in Lines.
	More int `json:"more,omitempty"`
}

const (
	maxSources = 20 // stages that a file is followed through
	maxMakers  = 20 // instructions of a Source
)

// operation is a step of a build as LLB has it, as far as it is read:
// https://github.com/moby/buildkit/blob/v0.33.0/solver/pb/ops.proto
type operation struct {
	ID     string   `json:"id"`
	Inputs []string `json:"inputs"` // step:output
	Op     struct {
		Op struct {
			Exec   *execution `json:"exec"`
			File   *files     `json:"file"`
			Source *struct{}  `json:"source"`
			Merge  *struct {
				Inputs []struct {
					Input int `json:"input"`
				} `json:"inputs"`
			} `json:"merge"`
		} `json:"Op"`
	} `json:"op"`
}

type execution struct {
	Mounts []struct {
		Dest  string `json:"dest"`
		Input int    `json:"input"`
	} `json:"mounts"`
}

// files are changes of files. An input is that of the step, or from their number on the
// result of an action; -1 is an empty file system.
type files struct {
	Actions []change `json:"actions"`
}

type change struct {
	Input     int `json:"input"`
	Secondary int `json:"secondaryInput"`
	Output    int `json:"output"`
	Action    struct {
		Copy   *copying `json:"copy"`
		Mkfile *struct {
			Path string `json:"path"`
		} `json:"mkfile"`
	} `json:"Action"`
}

type copying struct {
	Src     string   `json:"src"`
	Dest    string   `json:"dest"`
	Include []string `json:"include_patterns"`
}

// place is a file of a step's result: path, or that or any file below it.
type place struct {
	path string
	area bool
}

// within reports whether a directory has the place.
func (p place) within(dir string) bool {
	dir = path.Clean("/" + dir)
	return p.path == dir || dir == "/" || strings.HasPrefix(p.path, dir+"/")
}

// from returns where a file of a copy's result is in its source. may is false if the copy
// cannot have made it, and sure is true if it has.
func (c *copying) from(p place) (src place, may, sure bool) {
	dest, source := path.Clean("/"+c.Dest), path.Clean("/"+c.Src)
	wild := strings.ContainsAny(c.Src, `*?[\`)
	switch {
	case !p.within(dest):
		return place{}, p.area && place{path: dest}.within(p.path), false
	case len(c.Include) > 0: // --parents keeps directories above the files
		return place{"/", true}, true, false
	case wild:
		dir := source[:strings.IndexAny(source, `*?[\`)]
		return place{path.Clean(dir[:strings.LastIndex(dir, "/")+1]), true}, true, false
	case p.area:
		return place{source, true}, true, false
	case p.path == dest:
		return place{path: source}, true, !strings.HasSuffix(c.Dest, "/")
	}
	below := strings.TrimPrefix(strings.TrimPrefix(p.path, dest), "/")
	if below == path.Base(source) { // the file, or one in a directory of its name
		return place{source, true}, true, false
	}
	return place{path: path.Join(source, below)}, true, false
}

// maker is an instruction that may have made a file: if it is a copy, from where.
type maker struct {
	line *Line
	from string // step:output, or empty
	at   place
}

// search looks for the instructions that may have made a file.
type search struct {
	*Provenance
	ships func(*Line) bool // of the stages that the file system is made of
	seen  map[string]bool
	found []maker
	more  int
}

// add adds the instruction of a step.
func (s *search) add(step, from string, at place) {
	for _, l := range s.places(step) {
		if !s.ships(l) {
			continue
		}
		if !slices.ContainsFunc(s.found, func(m maker) bool { return *m.line == *l }) {
			if len(s.found) == maxMakers {
				s.more++
			} else {
				s.found = append(s.found, maker{l, from, at})
			}
		}
		return
	}
}

// result looks through the steps that made the result of one, the last one first. end is
// true if nothing below can have made the file; known is false if a step is of an unknown
// kind.
func (s *search) result(key string, p place) (end, known bool) {
	for key != "" {
		id, output, _ := strings.Cut(key, ":")
		op := s.operations[id]
		if op == nil || output != "0" || s.seen[key] {
			return false, false
		}
		s.seen[key] = true
		switch do := &op.Op.Op; {
		case do.Exec != nil:
			root, hidden := -1, false
			for _, m := range do.Exec.Mounts {
				if path.Clean(m.Dest) == "/" {
					root = m.Input
				} else if p.within(m.Dest) {
					hidden = true // the mount's file system has what is written there
				}
			}
			if !hidden {
				s.add(id, "", place{})
			}
			key = op.input(root)
		case do.File != nil:
			if key, end = s.actions(op, p); end {
				return true, true
			}
		case do.Merge != nil:
			for i, in := range slices.Backward(do.Merge.Inputs) {
				key = op.input(in.Input)
				if i == 0 {
					break
				}
				if end, known := s.result(key, p); end || !known {
					return end, known
				}
			}
		case do.Source != nil:
			s.add(id, "", place{})
			return true, true
		default:
			return false, false
		}
	}
	return false, true
}

// input returns an input of a step, or "" if there is none.
func (o *operation) input(i int) string {
	if i < 0 || i >= len(o.Inputs) {
		return ""
	}
	return o.Inputs[i]
}

// actions looks through the changes of a step's first result. It returns the step that the
// first change builds on, and whether a change has surely made the file.
func (s *search) actions(op *operation, p place) (below string, end bool) {
	for i := range op.chain() {
		a := &op.Op.Op.File.Actions[i]
		below = op.input(a.Input)
		switch {
		case a.Action.Copy != nil:
			src, may, sure := a.Action.Copy.from(p)
			if may {
				s.add(op.ID, op.input(a.Secondary), src)
			}
			if sure && !p.area {
				return "", true
			}
		case a.Action.Mkfile != nil:
			made := path.Clean("/" + a.Action.Mkfile.Path)
			if made == p.path || p.area && (place{path: made}).within(p.path) {
				s.add(op.ID, "", place{})
			}
			if made == p.path && !p.area {
				return "", true
			}
		}
	}
	return below, false
}

// chain yields the numbers of the changes that make a step's first result, the last one
// first.
func (o *operation) chain() func(yield func(int) bool) {
	actions := o.Op.Op.File.Actions
	return func(yield func(int) bool) {
		i := slices.IndexFunc(actions, func(a change) bool { return a.Output == 0 })
		for i >= 0 && i < len(actions) && yield(i) {
			next := actions[i].Input - len(o.Inputs)
			if next >= i {
				return
			}
			i = next
		}
	}
}

// Follow returns the stages that a file of a layer was copied through, the nearest first:
// the layer's instruction is a COPY --from, and so is each one that alone can have made the
// file in a stage. It returns nil if the layer was made in another way, or the provenance
// does not say how. Layers count from 0, and the path is absolute.
func (p *Provenance) Follow(layer int, file string) (list []Source) {
	if layer < 0 || layer >= len(p.Lines) || p.Lines[layer] == nil || !path.IsAbs(file) {
		return nil
	}
	m := p.copied(p.made[layer], p.Lines[layer], place{path: path.Clean(file)})
	for m != nil && len(list) < maxSources {
		t, stage := p.sourceOf(m.line)
		if t == nil {
			break
		}
		of := t.file.Chain(stage)
		s := &search{Provenance: p, seen: map[string]bool{}, ships: func(l *Line) bool {
			return l.File == t.name && slices.Contains(of, t.stage(l.Line))
		}}
		if _, known := s.result(m.from, m.at); !known {
			break
		}
		src := Source{Stage: t.file.Stages[stage].Name, Lines: []Line{}, More: s.more}
		if !m.at.area {
			src.Path = m.at.path
		}
		for _, o := range s.found {
			src.Lines = append(src.Lines, *o.line)
		}
		list = append(list, src)
		m = nil
		if len(s.found) == 1 && s.more == 0 {
			m = &s.found[0]
		}
	}
	return list
}

// copied returns the copy of the steps of a line that has brought a file, or nil if there is
// none, or several are from different places.
func (p *Provenance) copied(keys []string, line *Line, file place) (found *maker) {
	for _, key := range keys {
		op := p.linked(key)
		if op == nil || op.Op.Op.File == nil || !slices.ContainsFunc(p.places(op.ID), func(l *Line) bool { return *l == *line }) {
			continue
		}
		s := &search{Provenance: p, seen: map[string]bool{}, ships: func(l *Line) bool { return *l == *line }}
		s.actions(op, file)
		for _, m := range s.found {
			if found != nil && (found.from != m.from || found.at != m.at) {
				return nil
			}
			found = &m
		}
	}
	return found
}

// linked returns a step, or of COPY --link, which merges what it copies with the files
// below, the copy.
func (p *Provenance) linked(key string) *operation {
	for range maxSources {
		id, _, _ := strings.Cut(key, ":")
		op := p.operations[id]
		if op == nil || op.Op.Op.Merge == nil || len(op.Op.Op.Merge.Inputs) == 0 {
			return op
		}
		key = op.input(op.Op.Op.Merge.Inputs[len(op.Op.Op.Merge.Inputs)-1].Input)
	}
	return nil
}

// sourceOf returns the file and the number of the stage that the COPY of a line has in
// --from, or nil.
func (p *Provenance) sourceOf(line *Line) (*text, int) {
	for _, t := range p.texts {
		if t == nil || t.name != line.File {
			continue
		}
		if i := t.stage(line.Line); i >= 0 {
			for _, s := range t.file.Stages[i].Steps {
				if s.Line == line.Line && s.From >= 0 {
					return t, s.From
				}
			}
		}
	}
	return nil, 0
}
