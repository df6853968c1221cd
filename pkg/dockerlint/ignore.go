package dockerlint

import (
	"regexp"
	"slices"
	"strings"
)

// ignoring matches the comment that ignores rules: `# imgcheck ignore=RULE[,RULE] reason`.
var ignoring = regexp.MustCompile(`^\s*#\s*imgcheck\s+ignore=([A-Za-z0-9,_-]+)\s*(.*)$`)

// comment is a comment that ignores rules for the first line below it that is no comment,
// and for the instruction that begins there.
type comment struct {
	line   int // of the comment
	of     int // the line below
	rules  []string
	reason string
	used   bool
}

func (l *linter) comments() (list []*comment) {
	for i, text := range l.lines {
		m := ignoring.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		c := &comment{line: i + 1, rules: strings.Split(m[1], ","), reason: strings.TrimSpace(m[2])}
		for k := i + 1; k < len(l.lines) && c.of == 0; k++ {
			if t := strings.TrimSpace(l.lines[k]); t != "" && !strings.HasPrefix(t, "#") {
				c.of = k + 1
			}
		}
		list = append(list, c)
	}
	return list
}

// ignore sets those findings apart that a comment ignores. A comment without a reason, or
// that ignores nothing, is a finding itself.
func (l *linter) ignore() {
	comments := l.comments()
	if len(comments) == 0 {
		return
	}
	var left []Finding
	for _, f := range l.file.Findings {
		if c := l.ignoredBy(comments, f); c != nil {
			l.file.Ignored = append(l.file.Ignored, Ignored{f, c.reason})
		} else {
			left = append(left, f)
		}
	}
	l.file.Findings = append([]Finding{}, left...)
	for _, c := range comments {
		switch {
		case c.reason == "":
			l.say("ignore-comment", "no-reason", c.line, nil)
		case !c.used:
			l.say("ignore-comment", "unused", c.line, map[string]string{"rules": strings.Join(c.rules, ", ")})
		}
	}
}

// ignoredBy returns the comment that ignores a finding, or nil.
func (l *linter) ignoredBy(comments []*comment, f Finding) *comment {
	start := f.Line
	if l.parsed != nil {
		for _, s := range l.parsed.Stages {
			for i := range s.Steps {
				if st := &s.Steps[i]; st.Line <= f.Line && f.Line <= st.EndLine {
					start = st.Line
				}
			}
		}
	}
	for _, c := range comments {
		if (c.of == f.Line || c.of == start) && c.reason != "" && slices.Contains(c.rules, f.Rule) {
			c.used = true
			return c
		}
	}
	return nil
}
