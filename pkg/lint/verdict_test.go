package lint

import (
	"slices"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// TestVerdictOver checks that a cause keeps the gravest verdict, and of these one with a
// reason of its own, whatever the order in which files meet it.
func TestVerdictOver(t *testing.T) {
	w := &world{packs: packs(t)}
	silent := verdict{severity: Note}
	general := w.unproved("others-may-load")
	served, row := w.verdict("served", nil), verdict{severity: Warning}
	for _, x := range []struct {
		name string
		met  []verdict
		want verdict
	}{
		{"a reason of its own replaces a general one", []verdict{general, served}, served},
		{"a general reason replaces none of its own", []verdict{served, general}, served},
		{"a general reason is not that of a row", []verdict{silent, general}, silent},
		{"a graver verdict replaces a reason", []verdict{served, row}, row},
		{"a lighter verdict replaces nothing", []verdict{grave, row, served}, grave},
	} {
		c := &cause{packs: w.packs, needers: map[string]bool{}, affected: map[string]bool{}}
		for _, v := range x.met {
			c.meet(&elfdeps.Error{Name: "libx.so.1", Subject: "libx.so.1"}, "/usr/bin/x", v)
		}
		if c.verdict.severity != x.want.severity || c.verdict.clause != x.want.clause {
			t.Errorf("%s: got %q %q, want %q %q", x.name, c.verdict.severity, c.verdict.clause, x.want.severity, x.want.clause)
		}
	}
}

// TestVerdictAtMost checks that a verdict is lowered and keeps its reason.
func TestVerdictAtMost(t *testing.T) {
	w := &world{packs: packs(t)}
	without, excepted := w.verdict("without-gpu", nil), w.excepted(&Exception{Why: "x"})
	if v := grave.atMost(without); v.severity != Warning || v.clause != "without-gpu" {
		t.Errorf("an error without a reason becomes %q %q", v.severity, v.clause)
	}
	if v := excepted.atMost(without); v.severity != Note || v.clause != "excepted" {
		t.Errorf("a note with a reason becomes %q %q", v.severity, v.clause)
	}
}

// TestJudgeStep checks the verdicts on misses of a framework's step, those too that no
// text image shows.
func TestJudgeStep(t *testing.T) {
	w := &world{packs: packs(t), img: textImage(t, "-- 0/a --\n", false)}
	plain, aside := &install{Framework: &Framework{}, home: "/opt/x"}, &install{Framework: &Framework{Aside: true}, home: "/opt/x"}
	helped := &install{Framework: &Framework{}, help: &Help{Why: "it works"}}
	first := &install{Framework: &Framework{}, help: &Help{Why: "it works"}, begun: true}
	gpu, other := &elfdeps.Error{Name: "libcublas.so.12"}, &elfdeps.Error{Name: "libz.so.1"}
	for _, x := range []struct {
		name     string
		in       *install
		err      *elfdeps.Error
		severity Severity
		clause   string
	}{
		{"a GPU library", plain, gpu, Error, ""},
		{"a GPU library of what is installed aside", aside, gpu, Error, ""},
		{"another library, without a Python", plain, other, Warning, "step-without-python"},
		{"another library of what is installed aside", aside, other, Warning, "step-aside"},
		{"a library that could not be examined", plain, &elfdeps.Error{Name: "libcublas.so.12", Unknown: true}, Warning, "step-unexamined"},
		{"a version", aside, versionError("GLIBC_2.38"), Error, ""},
		{"a GPU library that another framework loads", helped, gpu, Warning, "helped"},
		{"a GPU library that another framework loads first", first, gpu, Note, "helped-first"},
	} {
		v := w.judgeStep(x.in, x.err)
		if v.severity != x.severity || v.clause != x.clause {
			t.Errorf("%s: got %q %q, want %q %q", x.name, v.severity, v.clause, x.severity, x.clause)
		}
	}
}

// TestCut checks what it means that a file is opened which is cut off: the process is
// killed, so that it is no optional part any more.
func TestCut(t *testing.T) {
	w := &world{packs: packs(t)}
	e := &elfdeps.Error{Kind: elfdeps.CutError, Subject: "/opt/libx.so.1"}
	for _, x := range []struct {
		name     string
		means    meaning
		severity Severity
		effect   string
	}{
		{"needed", meaning{verdict: grave, effect: "nothing works"}, Error, "the process is killed when it comes to it: nothing works"},
		{"optional", meaning{verdict: grave, optional: true}, Warning, "the process is killed when libx.so.1 is opened"},
		{"of no weight", meaning{verdict: verdict{severity: Note}, effect: "it is slow"}, Warning, "the process is killed when it comes to it: it is slow"},
		{"done without", meaning{verdict: w.verdict("own-copy", values{"why": "x"}), effect: "it is slow"}, Note, "the process is killed when it comes to it: it is slow"},
	} {
		w.cut(&x.means, e)
		if x.means.verdict.severity != x.severity || x.means.effect != x.effect || x.means.optional {
			t.Errorf("%s: got %q %q", x.name, x.means.verdict.severity, x.means.effect)
		}
	}
}

// TestStubFix checks that each way to a stub has its fix.
func TestStubFix(t *testing.T) {
	w := &world{packs: packs(t)}
	rule := w.packs.Rule("stub-driver")
	var got []string
	for _, x := range []struct{ path, how string }{
		{"/usr/local/cuda/lib64/stubs/libcuda.so.1", "LD_LIBRARY_PATH"},
		{"/usr/local/cuda/lib64/stubs/libcuda.so.1", "RUNPATH of /app/x"},
		{"/usr/local/cuda/lib64/stubs/libcuda.so.1", ""},
		{"/usr/lib/libcuda.so.1", "/etc/ld.so.cache"},
	} {
		m := loaded{how: x.how, Module: &elfdeps.Module{Path: x.path, File: &elfdeps.File{Path: x.path}}}
		clause := stubFix(m)
		got = append(got, clause)
		if c := rule.Clauses[clause]; c == nil || len(c.Fix) == 0 {
			t.Errorf("%s by %q: clause %q has no fix", x.path, x.how, clause)
		}
	}
	if want := []string{"searched", "by-runpath", "opened-by-path", "copied"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
