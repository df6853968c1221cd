package lint

import (
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/rules"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// ownPacks returns the packs of the program, for a test that changes them.
func ownPacks(t *testing.T) *packs.Packs {
	t.Helper()
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// findingsOf returns the findings of an image.
func findingsOf(t *testing.T, img *replay.Image, set *packs.Packs) []Finding {
	t.Helper()
	res, err := Run(t.Context(), img, set)
	if err != nil {
		t.Fatal(err)
	}
	return res.Findings
}

// TestSeveritiesDecide changes the severity of each rule and expects it of the rule's
// findings in all text images and variants, and of no other finding.
func TestSeveritiesDecide(t *testing.T) {
	set := ownPacks(t)
	all := slices.Concat(textImages(t), examinedVariants(t))
	for _, r := range set.Rules {
		restore := flip(r)
		changed := 0
		for _, im := range all {
			if !slices.ContainsFunc(im.findings, func(f Finding) bool { return f.Rule == r.ID }) {
				continue
			}
			old := severities(im.findings)
			for f, now := range severities(findingsOf(t, im.image, set)) {
				was, ok := old[f]
				switch {
				case f.rule == r.ID && now != r.Severity:
					t.Errorf("%s: the rule %s becomes %s, and its finding %q is %s", im.name, r.ID, r.Severity, f.message, now)
				case f.rule == r.ID && now != was:
					changed++
				case f.rule != r.ID && ok && now != was:
					t.Errorf("%s: the rule %s becomes %s, and the finding %v becomes %s", im.name, r.ID, r.Severity, f, now)
				}
			}
		}
		restore()
		if changed == 0 {
			t.Errorf("%s: no finding of the text images changes with the rule", r.ID)
		}
	}
}

// flip makes a note of a rule and its clauses, or an error if the rule is a note. It
// returns a function that restores them.
func flip(r *packs.Rule) (restore func()) {
	severity, clauses := r.Severity, map[string]packs.Severity{}
	to := packs.Note
	if severity == packs.Note {
		to = packs.Error
	}
	r.Severity = to
	for id, c := range r.Clauses {
		clauses[id] = c.Severity
		if c.Severity != "" {
			c.Severity = to
		}
	}
	return func() {
		r.Severity = severity
		for id, c := range r.Clauses {
			c.Severity = clauses[id]
		}
	}
}

// said identifies a finding by its rule and what it says.
type said struct{ rule, message string }

func severities(list []Finding) map[said]packs.Severity {
	all := map[said]packs.Severity{}
	for _, f := range list {
		all[said{f.Rule, f.Message}] = f.Severity
	}
	return all
}

// textKeys are the keys of packs whose values findings show.
var textKeys = []string{"message", "because", "effect", "text", "error", "cuda_error", "unusable", "absent", "missing", "fix", "build_fix", "why"}

// mark puts a mark in front of all texts of a value of the packs that findings show. The
// mark of a clause has its ID.
func mark(v reflect.Value, key, id string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			mark(v.Elem(), key, id)
		}
	case reflect.Slice:
		for i := range v.Len() {
			mark(v.Index(i), key, id)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if v.Type().Elem() == reflect.TypeFor[*packs.Clause]() {
				mark(v.MapIndex(k), key, strings.TrimPrefix(id+"/"+k.String(), "/"))
			}
		}
	case reflect.Struct:
		if r, ok := v.Addr().Interface().(*packs.Rule); ok {
			id = r.ID
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				mark(v.Field(i), f.Tag.Get("yaml"), id)
			}
		}
	case reflect.String:
		if v.Len() > 0 && slices.Contains(textKeys, key) {
			v.SetString("⟦" + id + "⟧" + v.String())
		}
	}
}

// marked returns the packs of the program with a mark in front of all texts that findings
// show. A clause that has a severity only gets its mark as reason.
func marked(t *testing.T) *packs.Packs {
	t.Helper()
	set := ownPacks(t)
	mark(reflect.ValueOf(set), "", "")
	for id, c := range clausesOf(set) {
		if c.Message+c.Because == "" && len(c.Effects)+len(c.Fix) == 0 {
			c.Because = "⟦" + id + "⟧"
		}
	}
	return set
}

// clausesOf returns all clauses of packs: RULE/CLAUSE, or CLAUSE for those that rules share.
func clausesOf(set *packs.Packs) map[string]*packs.Clause {
	all := maps.Clone(set.Clauses)
	for _, r := range set.Rules {
		for id, c := range r.Clauses {
			all[r.ID+"/"+id] = c
		}
	}
	return all
}

// TestTextsDecide puts a mark in front of every text of the packs and expects one in front
// of every text of the findings of all text images. A text without a mark is composed in Go.
func TestTextsDecide(t *testing.T) {
	set := marked(t)
	for _, im := range textImages(t) {
		var want, got []string
		for _, f := range im.findings {
			want = append(want, texts(f)...)
		}
		for _, f := range findingsOf(t, im.image, set) {
			for _, text := range texts(f) {
				if text != "" && !strings.HasPrefix(text, "⟦") {
					t.Errorf("%s: %s: %q is no text of the packs", im.name, f.Rule, text)
				}
				got = append(got, marks.ReplaceAllString(text, ""))
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: with marks in the packs, the findings differ in more than the marks (-without +with):\n%s", im.name, diff)
		}
	}
}

// notShown are the clauses that no image of TestClausesAreShown shows. The list may only get
// shorter.
var notShown = []string{
	"cut-and-optional",
	"import-fails/syntax", // of sources that are reduced, as a scan does
	"killed-when-opened",
	"mixed-releases/newer-parts",
	"one-release-by-order",
	"shadowed-library/newer",
	"shadowed-library/refused-as-required",
	"shadowed-library/unknown",
	"step-unexamined",            // see TestJudgeStep
	"stub-driver/opened-by-path", // see TestStubFix
	"unknown-release",
}

// TestClausesAreShown checks that images show all clauses of the packs but those of notShown.
func TestClausesAreShown(t *testing.T) {
	set := marked(t)
	all := clausesOf(set)
	show := func(img *replay.Image) (shown []string) {
		for _, f := range findingsOf(t, img, set) {
			said := texts(f)
			for _, s := range f.Searched {
				for _, place := range s.Places {
					said = append(said, place.String())
				}
			}
			for _, m := range marks.FindAllStringSubmatch(strings.Join(said, " "), -1) {
				delete(all, m[1])
				shown = append(shown, m[1])
			}
		}
		return shown
	}
	for _, im := range textImages(t) {
		show(im.image)
	}
	for _, c := range checkCases() {
		show(textImage(t, c.text, false))
	}
	for _, c := range clauseCases() {
		show(textImage(t, c.text, false))
	}
	for _, c := range moduleCases() {
		show(textImage(t, c.text, false))
	}
	show(textImage(t, elfText("usr/lib/libcuda.so.550.54"), true)) // a directory
	stacks, err := fs.Glob(images.FS, "stacks/*.broken.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stacks { // what fails when a program is followed
		text, err := images.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		show(textImage(t, string(text), false))
	}
	for _, im := range examinedVariants(t) {
		if !slices.Contains(show(im.image), im.name) {
			t.Errorf("the variant for the clause %s does not show it", im.name)
		}
	}
	if diff := cmp.Diff(notShown, slices.Sorted(maps.Keys(all))); diff != "" {
		t.Errorf("the clauses that no image shows (-expected +found):\n%s", diff)
	}
}

// marks matches the marks of texts.
var marks = regexp.MustCompile(`⟦([a-z0-9/-]*)⟧`)

// texts returns all texts of a finding that the packs have.
func texts(f Finding) []string {
	list := append([]string{f.Message, f.Because}, f.Fixes...)
	for _, e := range f.Effects {
		list = append(list, e.Text, e.Error)
	}
	return list
}
