package policy

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Dockerfiles gives the findings of lints the policy's severities, and sets those apart that
// it ignores: an entry's path is then that of the Dockerfile, and one for images or libraries
// ignores none. Findings of base images are left as they are: [Decisions.Apply] has judged
// them. The warnings name expired ignores that would have matched. today is the date,
// 2006-01-02.
func (p *Policy) Dockerfiles(files []*dockerlint.File, rules []*packs.Rule, today string) (warnings []string) {
	warned := map[*Ignore]bool{}
	for _, file := range files {
		left := []dockerlint.Finding{}
		for _, f := range file.Findings {
			if f.Base != "" {
				left = append(left, f)
				continue
			}
			f.Severity = p.weighed(f.Rule, f.Severity, rules)
			in, expired := p.ignoreIn(file.Path, f.Rule, today)
			if in != nil {
				file.Ignored = append(file.Ignored, dockerlint.Ignored{Finding: f, Reason: in.Reason})
				continue
			}
			if expired != nil && !warned[expired] {
				warned[expired] = true
				warnings = append(warnings, fmt.Sprintf("%s:%d: the ignore of %s expired on %s, so its findings count: %s", expired.File, expired.Line, expired.Rule, expired.Expires, expired.Reason))
			}
			left = append(left, f)
		}
		file.Findings = left
	}
	return warnings
}

// weighed returns the policy's severity of a finding; see weigh.
func (p *Policy) weighed(rule string, severity packs.Severity, rules []*packs.Rule) packs.Severity {
	i := slices.IndexFunc(p.Severities, func(s Severity) bool { return s.Rule == rule })
	k := slices.IndexFunc(rules, func(r *packs.Rule) bool { return r.ID == rule })
	if i < 0 || k < 0 {
		return severity
	}
	if wanted := p.Severities[i].Severity; severity.AtLeast(cmp.Or(rules[k].Usual, rules[k].Severity)) || severity.AtLeast(wanted) {
		return wanted
	}
	return severity
}

// ignoreIn returns the entry that ignores a rule's findings in a Dockerfile, else an expired
// one that would.
func (p *Policy) ignoreIn(file, rule, today string) (in, expired *Ignore) {
	for i := range p.Ignores {
		g := &p.Ignores[i]
		if g.Rule != rule || g.Image != "" || g.Library != "" || g.Path != "" && !match(strings.TrimPrefix(g.Path, "/"), strings.TrimPrefix(filepath.ToSlash(filepath.Clean(file)), "/")) {
			continue
		}
		if g.Expires == "" || today <= g.Expires {
			return g, nil
		}
		expired = g
	}
	return nil, expired
}
