package policy

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Limits of the policies that a policy extends: how many in all, and in how many steps.
const (
	maxExtended = 20
	maxSteps    = 5
)

// MaxSize limits a policy, in bytes.
const MaxSize = maxFile

// extended is an entry of extends: the policy that another one builds on.
type extended struct {
	name string // a path, or a reference that fetch knows
	line int
}

// pinned matches a reference to a policy elsewhere: by HTTPS or in a registry, with its digest.
var pinned = regexp.MustCompile(`^(https|oci)://[^@\s]+@sha256:[0-9a-f]{64}$`)

// addExtended reads an entry of extends.
func (p *Policy) addExtended(n *yaml.Node) error {
	var e extended
	if err := text(n, &e.name); err != nil {
		return err
	}
	e.line = n.Line
	switch {
	case pinned.MatchString(e.name):
	case strings.Contains(e.name, "://"):
		return bad(n, "extends %s: write https://HOST/FILE@sha256:DIGEST or oci://REPOSITORY@sha256:DIGEST: without its digest somebody else decides about scans", e.name)
	case p.elsewhere:
		return bad(n, "extends %s: a policy from elsewhere has no files beside it", e.name)
	default:
		if !filepath.IsAbs(e.name) {
			e.name = filepath.Join(filepath.Dir(p.File), e.name)
		}
	}
	p.extends = append(p.extends, e)
	return nil
}

// Fetch returns the text of a policy elsewhere by its reference, whose form is
// https://HOST/FILE@sha256:DIGEST or oci://REPOSITORY@sha256:DIGEST. It verifies the digest.
type Fetch func(ref string) ([]byte, error)

// Resolve returns a policy with those that it extends. The keys of a policy count more than
// those that it extends, and of these the later ones: its images, fail-on, rules,
// targets, from, indexes and baseline take the place of theirs, its severities and ignores come on top.
// A file that is extended is trusted as this one is.
func (p *Policy) Resolve(fetch Fetch) (*Policy, error) {
	r := &resolver{fetch: fetch, within: []string{p.File}}
	return r.resolve(p)
}

type resolver struct {
	fetch  Fetch
	within []string // the files that are being resolved, the outermost first
	n      int
}

func (r *resolver) resolve(p *Policy) (*Policy, error) {
	if len(p.extends) == 0 {
		return p, nil
	}
	out := &Policy{}
	for _, e := range p.extends {
		base, err := r.read(p, e)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: extends: %w", p.File, e.line, err)
		}
		out.add(base)
	}
	out.add(p)
	out.File, out.found = p.File, p.found
	return out, nil
}

// read reads a policy that another one extends, and resolves it.
func (r *resolver) read(p *Policy, e extended) (*Policy, error) {
	r.n++
	switch {
	case slices.Contains(r.within, e.name):
		return nil, fmt.Errorf("%s extends itself", e.name)
	case len(r.within) > maxSteps:
		return nil, fmt.Errorf("%s: more than %d policies extend one another", e.name, maxSteps)
	case r.n > maxExtended:
		return nil, fmt.Errorf("more than %d policies are extended", maxExtended)
	}
	base, err := r.load(p, e.name)
	if err != nil {
		return nil, err
	}
	r.within = append(r.within, e.name)
	base, err = r.resolve(base)
	r.within = r.within[:len(r.within)-1]
	return base, err
}

func (r *resolver) load(p *Policy, name string) (*Policy, error) {
	if !pinned.MatchString(name) {
		if p.found {
			return LoadFound(name)
		}
		return loadRegular(name)
	}
	if r.fetch == nil {
		return nil, errors.New(name + " is not read here")
	}
	b, err := r.fetch(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	base := &Policy{File: name, elsewhere: true}
	return base, base.parse(b)
}

// add puts what a policy says over what is there.
func (p *Policy) add(over *Policy) {
	if len(over.Images) > 0 {
		p.Images = over.Images
	}
	if over.FailOn != "" {
		p.FailOn = over.FailOn
	}
	for _, s := range over.Severities {
		p.Severities = slices.DeleteFunc(p.Severities, func(o Severity) bool { return o.Rule == s.Rule })
		p.Severities = append(p.Severities, s)
	}
	p.Ignores = append(p.Ignores, over.Ignores...)
	if over.Rules != "" {
		p.Rules = over.Rules
	}
	if len(over.Targets) > 0 {
		p.Targets = over.Targets
	}
	if len(over.From) > 0 {
		p.From = over.From
	}
	p.Indexes = over.Indexes.over(p.Indexes)
	if over.Baseline != "" {
		p.Baseline = over.Baseline
	}
}

// beside returns an error for a policy from elsewhere: its key names a file beside it.
func (p *Policy) beside(n *yaml.Node, key string) error {
	if p.elsewhere {
		return bad(n, "%s: a policy from elsewhere has no files beside it", key)
	}
	return nil
}
