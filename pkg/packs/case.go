package packs

import (
	"fmt"
	"maps"
	"slices"
)

// Case is a possible cause of an error text. If it names a rule, it has the rule's title,
// doc, fixes and sources where it has none itself.
type Case struct {
	ID    string `yaml:"id"`
	Rule  string `yaml:"rule"`
	Class string `yaml:"class"` // of the taxonomy of reports
	Title string `yaml:"title"`
	Doc   string `yaml:"doc"`
	// Visible says whether an image shows it: yes, partly (together with facts about the
	// driver or the GPU) or no.
	Visible string `yaml:"visible"`
	// Causes are the usual ones, the most frequent first.
	Causes  []string `yaml:"causes"`
	Confirm string   `yaml:"confirm"` // how a user can find out that it is this case
	Fix     []string `yaml:"fix"`
	Sources []string `yaml:"sources"`
	// OwnFixes is set if Fix holds for every library. The packs' fixes for a single library then
	// do not take its place.
	OwnFixes bool `yaml:"own_fixes"`
}

func (c *Case) validate() error {
	if c.ID == "" || c.Class == "" || !slices.Contains([]string{"yes", "partly", "no"}, c.Visible) {
		return fmt.Errorf("case %q: needs an id, a class and a visible (yes, partly or no)", c.ID)
	}
	if c.Rule == "" && (c.Title == "" || c.Doc == "" || len(c.Sources) == 0) {
		return fmt.Errorf("case %q: needs a rule, or a title, a doc and sources", c.ID)
	}
	return nil
}

// ErrorText is a form of line with the cases that print it, the likeliest first.
type ErrorText struct {
	Patterns []string `yaml:"patterns"`
	// Words stand in place of patterns, for lines that no pattern of any text matches: a
	// line has a word of each list. They are in lower case, and may be parts of words;
	// short ones are the beginning of a word.
	Words [][]string `yaml:"words"`
	// Where limits captures of the patterns to text that matches one of the shell patterns.
	Where map[string][]string `yaml:"where"`
	// Differ names two captures whose major versions must differ.
	Differ []string `yaml:"differ"`
	Cases  []string `yaml:"cases"`
	// Certain is set if the first case is the only meaning, Symptom if the line follows
	// from another error.
	Certain bool `yaml:"certain"`
	Symptom bool `yaml:"symptom"`
	// Survives is set if the program goes on after the line, so that an error of another line is
	// likelier what ended it.
	Survives bool `yaml:"survives"`
	// Visible takes the place of the first case's Visible. It is set if an image shows less of the
	// cause of this text than of the case: a scan does not read the program that asks for the
	// library.
	Visible string `yaml:"visible"`
	// Line is set if the patterns are whole lines. They have no captures.
	Line bool `yaml:"line"`
}

func (t *ErrorText) validate() error {
	if (len(t.Patterns) == 0) == (len(t.Words) == 0) || len(t.Cases) == 0 {
		return fmt.Errorf("text %q: needs cases, and either patterns or words", t.Patterns)
	}
	if len(t.Words) > 0 && (t.Certain || len(t.Where) > 0) {
		return fmt.Errorf("text with the words %q: words are never certain, and have no captures", t.Words)
	}
	if !slices.Contains([]string{"", "partly", "no"}, t.Visible) {
		return fmt.Errorf("text %q: visible is partly or no", t.Patterns)
	}
	if len(t.Differ) != 0 && len(t.Differ) != 2 {
		return fmt.Errorf("text %q: differ needs two captures", t.Patterns)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Where)) {
		if err := checkPatterns("where "+name, t.Where[name]); err != nil {
			return err
		}
	}
	return nil
}

// Look tells cases apart that a text leaves open: one look, at the container or the host.
type Look struct {
	Among []string `yaml:"among"` // IDs of cases
	Look  string   `yaml:"look"`
}

func (l *Look) validate() error {
	if len(l.Among) < 2 || l.Look == "" {
		return fmt.Errorf("look %q: needs a look, and two cases or more", l.Look)
	}
	return nil
}

// Context says what the rest of a text tells about a line of it: the machine, or the step that
// failed. It puts one case first where another one would be.
type Context struct {
	// Words are as those of an ErrorText, for the whole text.
	Words [][]string `yaml:"words"`
	Over  []string   `yaml:"over"`  // IDs of cases in whose place First comes
	First string     `yaml:"first"` // ID of a case
	// Visible stands in place of First: the order stays, and an image shows less of the cases than
	// of others', as of those of a program whose libraries a scan does not read.
	Visible string `yaml:"visible"`
}

func (c *Context) validate() error {
	if len(c.Words) == 0 || len(c.Over) == 0 || slices.Contains(c.Over, c.First) || (c.First == "") == (c.Visible == "") || !slices.Contains([]string{"", "partly", "no"}, c.Visible) {
		return fmt.Errorf("context %q: needs words, a case to put first or a visible (partly or no), and the cases in whose place it comes", c.First)
	}
	return nil
}

// Surrounding is a machine, a container engine or a maker of GPUs that the words of a whole text
// tell. Cases and fixes that are possible only there come first then, and those of another
// surrounding of the same kind last, or not at all.
type Surrounding struct {
	ID   string `yaml:"id"`
	Kind string `yaml:"kind"`
	// Label stands before the fixes that hold only there: "in WSL".
	Label string `yaml:"label"`
	// Words are as those of an ErrorText, for the whole text. Unless are words that an error of
	// this surrounding does not have.
	Words  [][]string `yaml:"words"`
	Unless []string   `yaml:"unless"`
	// Only are the IDs of cases that are possible only there, and First of those that are also the
	// likeliest there.
	Only  []string `yaml:"only"`
	First []string `yaml:"first"`
	// Twins are the cases that stand in place of others, whose fixes do not help there.
	Twins map[string]string `yaml:"twins"`
	Fixes []*SharedFix      `yaml:"fixes"`
}

// SharedFix is a fix of several cases: one of a surrounding, or one that comes after the cases' own and
// after those for a single library or symbol, which take the place of the cases' own.
type SharedFix struct {
	Of []string `yaml:"of"` // IDs of cases
	// Words are as those of an ErrorText, for the whole text. A fix that has some comes second in a
	// text that has them, and not in others.
	Words   [][]string `yaml:"words"`
	Fix     string     `yaml:"fix"` // {owner} is the package whose file a traceback ends in
	Sources []string   `yaml:"sources"`
}

func (r *SharedFix) validate() error {
	if len(r.Of) == 0 || r.Fix == "" || len(r.Sources) == 0 {
		return fmt.Errorf("fix %q: needs the cases that it is of, and sources", r.Fix)
	}
	return nil
}

func (s *Surrounding) validate() error {
	if s.ID == "" || s.Kind == "" || s.Label == "" || len(s.Words) == 0 {
		return fmt.Errorf("surrounding %q: needs an id, a kind, a label and words", s.ID)
	}
	for _, f := range s.Fixes {
		if err := f.validate(); err != nil {
			return fmt.Errorf("surrounding %q: %w", s.ID, err)
		}
	}
	return nil
}

// Translation is a message of the C library, and how its catalogues say it in other languages.
type Translation struct {
	Text    string   `yaml:"text"` // in English, as patterns have it
	In      []string `yaml:"in"`
	Sources []string `yaml:"sources"`
}

func (t *Translation) validate() error {
	if t.Text == "" || len(t.In) == 0 || len(t.Sources) == 0 || slices.Contains(t.In, "") {
		return fmt.Errorf("translation %q: needs a text, how others say it, and a source", t.Text)
	}
	return nil
}
