package packs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Limits on packs, which users may take from anywhere (--rules).
const (
	maxPackFiles = 256     // of a file system
	maxPackSize  = 1 << 20 // bytes
	maxPacksSize = 4 << 20 // bytes of all packs of a file system
	maxRules     = 2000    // of all packs: each is compared with all others
	maxKeys      = 1 << 10 // of a mapping: yaml.v3 compares each key with all others
	maxOpens     = 2000    // names and patterns of the files that frameworks and libraries of all packs open
	fastKeys     = 1 << 14 // of a file: so few keys take no time, in however many mappings
)

// LoadPacks reads and validates every *.yaml file of the file systems. The error for a
// pack with an unknown field, a missing text or a pattern that does not parse is one line
// with its file, its line and the reason.
func LoadPacks(list ...fs.FS) (*Packs, error) {
	p := new(Packs)
	var err error
	p.ID, err = eachPack(list, func(name string, b []byte) error {
		if err := p.add(b); err != nil {
			return fmt.Errorf("rule pack %s:%w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// PacksID returns the ID that LoadPacks would give the packs. It does not parse them, which
// would take much longer than reading them.
func PacksID(list ...fs.FS) (string, error) {
	return eachPack(list, func(string, []byte) error { return nil })
}

// eachPack calls f with every pack and returns a digest of all of them.
func eachPack(list []fs.FS, f func(name string, b []byte) error) (id string, err error) {
	sum := sha256.New()
	for _, fsys := range list {
		names, err := fs.Glob(fsys, "*.yaml")
		if err != nil {
			return "", err
		}
		if len(names) > maxPackFiles {
			return "", fmt.Errorf("there are %d rule packs, more than the limit of %d", len(names), maxPackFiles)
		}
		size := 0
		for _, name := range names {
			b, err := readPack(fsys, name)
			if size += len(b); err == nil && size > maxPacksSize {
				err = fmt.Errorf("the rule packs of its directory are together longer than the limit of %d bytes", maxPacksSize)
			}
			if err != nil {
				return "", fmt.Errorf("rule pack %s: %w", name, err)
			}
			if err := f(name, b); err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%q %d\n", name, len(b))
			sum.Write(b)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func readPack(fsys fs.FS, name string) ([]byte, error) {
	if st, err := fs.Stat(fsys, name); err == nil && !st.Mode().IsRegular() {
		return nil, errors.New("is not a regular file") // opening a FIFO would wait
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPackSize+1))
	if err == nil && len(b) > maxPackSize {
		err = fmt.Errorf("is longer than the limit of %d bytes", maxPackSize)
	}
	return b, err
}

// add parses, validates and adds a pack. Its errors begin with a line number: "3: ".
func (p *Packs) add(b []byte) error {
	one, err := decode(b)
	if err != nil {
		return err
	}
	if err := one.validate(b); err != nil {
		return err
	}
	if err := p.checkRules(one, b); err != nil {
		return err
	}
	if err := p.addClauses(one, b); err != nil {
		return err
	}
	p.Driver.Libraries = append(p.Driver.Libraries, one.Driver.Libraries...)
	p.Driver.Library = cmp.Or(p.Driver.Library, one.Driver.Library)
	p.Driver.Stubs = append(p.Driver.Stubs, one.Driver.Stubs...)
	p.Driver.Compute = append(p.Driver.Compute, one.Driver.Compute...)
	p.Driver.BaseVariables = append(p.Driver.BaseVariables, one.Driver.BaseVariables...)
	p.Driver.Symbols = append(p.Driver.Symbols, one.Driver.Symbols...)
	p.Driver.Sources = append(p.Driver.Sources, one.Driver.Sources...)
	p.Sections.add(one)
	if n := opens(&p.Sections); n > maxOpens {
		return fmt.Errorf("1: frameworks and dlopens have %d names and patterns with this pack, more than the limit of %d", n, maxOpens)
	}
	return p.weigh(one, b)
}

// opens returns how many names and patterns a process may be asked to open.
func opens(p *Sections) int {
	n := 0
	names := func(list []Open) {
		for _, o := range list {
			n += len(o.Names)
		}
	}
	for _, d := range p.Dlopens {
		n += len(d.By)
		names(d.Opens)
	}
	for _, f := range p.Frameworks {
		names(f.Later)
		for _, s := range f.Steps {
			n += 1 + len(s.Preload) + len(s.Optional)
		}
		for _, l := range f.Preload {
			n += max(1, len(l.Dirs))*max(1, len(l.Files)) + len(l.Optional)
		}
	}
	return n
}

// checkRules returns the error of a rule that another pack, or this one, has already.
func (p *Packs) checkRules(one *Sections, b []byte) error {
	if n := len(p.Rules) + len(one.Rules); n > maxRules {
		return fmt.Errorf("%d: there are %d rules with this pack, more than the limit of %d", lineOf(b, "rules", 0), n, maxRules)
	}
	for i, r := range one.Rules {
		same := func(o *Rule) bool { return o.ID == r.ID }
		if p.Rule(r.ID) != nil || slices.ContainsFunc(one.Rules[:i], same) {
			return fmt.Errorf("%d: rule %q is there twice", lineOf(b, "rules", i), r.ID)
		}
	}
	return nil
}

// addClauses validates and adds the clauses that rules share.
func (p *Packs) addClauses(one *Sections, b []byte) error {
	for _, id := range slices.Sorted(maps.Keys(one.Clauses)) {
		if err := one.Clauses[id].validate(id); err != nil {
			return fmt.Errorf("%d: %w", lineOf(b, "clauses", 0), err)
		}
		if p.Clauses[id] != nil {
			return fmt.Errorf("%d: clause %q is there twice", lineOf(b, "clauses", 0), id)
		}
	}
	if p.Clauses == nil {
		p.Clauses = map[string]*Clause{}
	}
	maps.Copy(p.Clauses, one.Clauses)
	return nil
}

// decode parses a pack.
func decode(b []byte) (*Sections, error) {
	if err := checkKeys(b); err != nil {
		return nil, err
	}
	one := new(Sections)
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(one); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlError(err)
	}
	var more yaml.Node
	switch err := d.Decode(&more); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, yamlError(err)
	default:
		return nil, fmt.Errorf("%d: has a second document, which would not count: make one of them, or two files", more.Line)
	}
	return one, nil
}

// checkKeys refuses a pack with a mapping of more than maxKeys keys. A file of maxPackSize
// bytes has room for a mapping that takes minutes to decode.
func checkKeys(b []byte) error {
	marks := 0
	for _, c := range []string{":", ",", "?", "\n"} { // each key has one
		marks += bytes.Count(b, []byte(c))
	}
	if marks <= fastKeys {
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return yamlError(err)
	}
	for list := []*yaml.Node{&doc}; len(list) > 0; {
		n := list[len(list)-1]
		if n.Kind == yaml.MappingNode && len(n.Content) > 2*maxKeys {
			return fmt.Errorf("%d: has more than %d keys in one mapping", n.Line, maxKeys)
		}
		list = append(list[:len(list)-1], n.Content...)
	}
	return nil
}

// lineOf returns the line of entry i of a section of a pack, or of the section if it has no
// such entry. It parses b once more, which only errors need.
func lineOf(b []byte, section string, i int) int {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil || len(doc.Content) == 0 {
		return 1
	}
	top := doc.Content[0]
	for k := 0; k+1 < len(top.Content); k += 2 {
		if top.Content[k].Value != section {
			continue
		}
		if list := top.Content[k+1]; list.Kind == yaml.SequenceNode && i >= 0 && i < len(list.Content) {
			return list.Content[i].Line
		}
		return top.Content[k].Line
	}
	return top.Line
}

var yamlLine = regexp.MustCompile(`line (\d+): (?s:(.*))`)

// yamlError returns the first error of a YAML decoder's, with its line in front.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var types *yaml.TypeError
	if errors.As(err, &types) && len(types.Errors) > 0 {
		text = types.Errors[0]
	}
	line := "1"
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, text = m[1], m[2]
	}
	text, _, _ = strings.Cut(text, " in type packs.")
	text, _, _ = strings.Cut(text, " into packs.")
	return fmt.Errorf("%s: %s", line, strings.Join(strings.Fields(text), " "))
}
