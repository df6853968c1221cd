package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// newTestStarter returns a starter for a text image. read is called before a source is read.
func newTestStarter(t *testing.T, name string, read func(file string)) *starter {
	t.Helper()
	text, err := images.Text(name)
	if err != nil {
		t.Fatal(err)
	}
	re, err := newReplayer(&Image{FS: fsOf(t, string(text))}, embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	st := newStarter(re)
	st.sources = pyimport.NewSources(re.img.FS, nil, func(file string) ([]byte, bool) {
		read(file)
		e, _, ok := re.img.FS.Lookup(file)
		if !ok {
			return nil, false
		}
		return e.Content, true
	})
	return st
}

// TestBrokenStart checks that a panic of the evaluator ends the import that met it, and no
// other, and is said.
func TestBrokenStart(t *testing.T) {
	st := newTestStarter(t, "imports-asked.txtar", func(file string) {
		if strings.HasSuffix(file, "/needsmore/__init__.py") {
			panic("no such statement")
		}
	})
	starts, err := st.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range starts {
		got[s.Chain[0]] = s.Broken
		if len(s.Tree.Unknown) > 0 != (s.Broken != "") {
			t.Errorf("%s: broken %q, and not known is %q", s.Chain, s.Broken, s.Tree.Unknown)
		}
	}
	if why, ok := got["import needsmore"]; !ok || !strings.Contains(why, "no such statement") {
		t.Errorf("the import that panics is %q", why)
	}
	if why, ok := got["import oldabi"]; !ok || why != "" {
		t.Errorf("the other import is %q, %v", why, ok)
	}
}

// TestTooManyStarts checks that imports which are too many are remembered.
func TestTooManyStarts(t *testing.T) {
	st := newTestStarter(t, "imports-asked.txtar", func(string) {})
	var jobs []job
	for i := range 5 {
		jobs = append(jobs, st.importOf(&Start{Python: "/usr/bin/python3"}, fmt.Sprint("m", i)))
	}
	kept := st.first(jobs, 3)
	if len(kept) != 3 || !slices.EqualFunc(st.left, jobs[3:], func(s *Start, j job) bool { return s == j.start }) {
		t.Errorf("%d are kept, and %d are left out", len(kept), len(st.left))
	}
	if kept = st.first(jobs[:2], 3); len(kept) != 2 || len(st.left) != 2 {
		t.Errorf("of two, %d are kept, and %d are left out", len(kept), len(st.left))
	}
}

// TestSpan checks that programs are left out, and said, once all together have taken too many
// steps.
func TestSpan(t *testing.T) {
	follow := func() (followed, left int) {
		st := newTestStarter(t, "imports-asked.txtar", func(string) {})
		starts, err := st.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(starts), len(st.left)
	}
	if followed, left := follow(); followed == 0 || left > 0 {
		t.Fatalf("%d are followed, %d left out", followed, left)
	}
	defer func(n int64) { maxSpan = n }(maxSpan)
	maxSpan = -1
	if followed, left := follow(); followed > 0 || left == 0 {
		t.Errorf("with no steps left %d are followed, %d left out", followed, left)
	}
}

// TestSharedSpan checks that the imports that share one process share its steps.
func TestSharedSpan(t *testing.T) {
	spent := func() int64 {
		st := newTestStarter(t, "imports-asked.txtar", func(string) {})
		suspects, others := st.packages()
		if _, err := st.failing(t.Context(), append(suspects, others...)); err != nil {
			t.Fatal(err)
		}
		return st.spent.Load()
	}
	all := spent()
	defer func(n int) { maxShared = n }(maxShared)
	maxShared = 1
	if few := spent(); few >= all {
		t.Errorf("%d steps were taken, of %d without a limit", few, all)
	}
}

// TestSharedSources checks that the replays of an image and of its changed states parse a
// file once.
func TestSharedSources(t *testing.T) {
	text, err := images.Text("imports-asked.txtar")
	if err != nil {
		t.Fatal(err)
	}
	img := &Image{FS: fsOf(t, string(text))}
	if _, err := Run(t.Context(), img, embedded(t)); err != nil {
		t.Fatal(err)
	}
	n := img.Parsed.Len()
	changed := *img
	if _, err := Run(t.Context(), &changed, embedded(t)); err != nil {
		t.Fatal(err)
	}
	if n == 0 || changed.Parsed.Len() != n {
		t.Errorf("%d files were parsed, then %d", n, changed.Parsed.Len())
	}
}

// TestStepsOfAllStarts checks that the programs that begin after the steps of all are spent
// are remembered, the same in each run.
func TestStepsOfAllStarts(t *testing.T) {
	defer func(n int64) { maxSpan = n }(maxSpan)
	maxSpan = 1
	st := newTestStarter(t, "imports-asked.txtar", func(string) {})
	var jobs []job
	for i := range 3 * startsAtOnce {
		jobs = append(jobs, st.importOf(&Start{Python: "/usr/local/bin/python3.12"}, fmt.Sprint("m", i)))
	}
	starts, err := st.all(t.Context(), jobs)
	if err != nil || len(starts) != startsAtOnce || len(st.left) != 2*startsAtOnce {
		t.Errorf("%d are followed, and %d are left out: %v", len(starts), len(st.left), err)
	}
	if failing, err := st.failing(t.Context(), jobs[:1]); err != nil || len(failing) != 0 || len(st.left) != 2*startsAtOnce+1 {
		t.Errorf("%d fail, and %d are left out: %v", len(failing), len(st.left), err)
	}
}
