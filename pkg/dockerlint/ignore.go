package dockerlint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ignoring matches the comment that ignores rules: `# imgcheck ignore=RULE[,RULE] reason`.
var ignoring = regexp.MustCompile(`^\s*#\s*imgcheck\s+ignore=([A-Za-z0-9,_-]+)\s*(.*)$`)

// maxComments limits the comments of a file that ignore rules: each finding is compared with
// all of them.
const maxComments = 1000

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
	of := make([]int, len(l.lines)) // by line from 0: the first one below it that is no comment
	for i := len(l.lines) - 2; i >= 0; i-- {
		of[i] = of[i+1]
		if t := strings.TrimSpace(l.lines[i+1]); t != "" && !strings.HasPrefix(t, "#") {
			of[i] = i + 2
		}
	}
	for i, text := range l.lines {
		m := ignoring.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		if len(list) == maxComments {
			l.file.Unknown = append(l.file.Unknown, Unknown{i + 1, fmt.Sprintf("the comments that ignore rules from here on: the file has more than %d", maxComments)})
			break
		}
		list = append(list, &comment{line: i + 1, of: of[i], rules: strings.Split(m[1], ","), reason: strings.TrimSpace(m[2])})
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
