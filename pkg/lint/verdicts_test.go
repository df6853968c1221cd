package lint

import (
	"slices"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// TestVerdictOver checks that a cause keeps the gravest verdict, and of several one with its
// own reason, in any order of the files.
func TestVerdictOver(t *testing.T) {
	pass := &Pass{Packs: embedded(t)}
	silent := packs.Verdict{Severity: packs.Note}
	general := pass.Packs.Unproved("others-may-load")
	served, row := pass.Packs.Verdict("served", nil), packs.Verdict{Severity: packs.Warning}
	for _, x := range []struct {
		name string
		met  []packs.Verdict
		want packs.Verdict
	}{
		{"a reason of its own replaces a general one", []packs.Verdict{general, served}, served},
		{"a general reason replaces none of its own", []packs.Verdict{served, general}, served},
		{"a general reason is not that of a row", []packs.Verdict{silent, general}, silent},
		{"a graver verdict replaces a reason", []packs.Verdict{served, row}, row},
		{"a lighter verdict replaces nothing", []packs.Verdict{packs.Grave, row, served}, packs.Grave},
	} {
		c := &cause{packs: pass.Packs, needers: map[string]bool{}, affected: map[string]bool{}}
		for _, v := range x.met {
			c.meet(&elfdeps.Error{Name: "libx.so.1", Subject: "libx.so.1"}, "/usr/bin/x", v)
		}
		if c.verdict.Severity != x.want.Severity || c.verdict.Clause != x.want.Clause {
			t.Errorf("%s: got %q %q, want %q %q", x.name, c.verdict.Severity, c.verdict.Clause, x.want.Severity, x.want.Clause)
		}
	}
}

// TestVerdictAtMost checks that a verdict is lowered and keeps its reason.
func TestVerdictAtMost(t *testing.T) {
	pass := &Pass{Packs: embedded(t)}
	without, excepted := pass.Packs.Verdict("without-gpu", nil), pass.Packs.Excepted(&packs.Exception{Why: "x"})
	if v := packs.Grave.AtMost(without); v.Severity != packs.Warning || v.Clause != "without-gpu" {
		t.Errorf("an error without a reason becomes %q %q", v.Severity, v.Clause)
	}
	if v := excepted.AtMost(without); v.Severity != packs.Note || v.Clause != "excepted" {
		t.Errorf("a note with a reason becomes %q %q", v.Severity, v.Clause)
	}
}

// TestJudgeStep checks the verdicts on misses of a framework's step, with those that no text
// image has.
func TestJudgeStep(t *testing.T) {
	pass := passOf(t, textImage(t, "-- 0/a --\n", false))
	plain, aside := &replay.Install{Framework: &packs.Framework{}, Home: "/opt/x"}, &replay.Install{Framework: &packs.Framework{Aside: true}, Home: "/opt/x"}
	helped := &replay.Install{Framework: &packs.Framework{}, Help: &packs.Help{Why: "it works"}}
	first := &replay.Install{Framework: &packs.Framework{}, Help: &packs.Help{Why: "it works"}, Begun: true}
	gpu, other := &elfdeps.Error{Name: "libcublas.so.12"}, &elfdeps.Error{Name: "libz.so.1"}
	for _, x := range []struct {
		name     string
		in       *replay.Install
		err      *elfdeps.Error
		severity packs.Severity
		clause   string
	}{
		{"a GPU library", plain, gpu, packs.Error, ""},
		{"a GPU library of what is installed aside", aside, gpu, packs.Error, ""},
		{"another library, without a Python", plain, other, packs.Warning, "step-without-python"},
		{"another library of a framework of Node.js", &replay.Install{Framework: &packs.Framework{Host: "node"}, Home: "/opt/x"}, other, packs.Warning, "step-unseen"},
		{"another library of what is installed aside", aside, other, packs.Warning, "step-aside"},
		{"a library that could not be examined", plain, &elfdeps.Error{Name: "libcublas.so.12", Unknown: true}, packs.Warning, "step-unexamined"},
		{"a version", aside, versionError("GLIBC_2.38"), packs.Error, ""},
		{"a GPU library that another framework loads", helped, gpu, packs.Warning, "helped"},
		{"a GPU library that another framework loads first", first, gpu, packs.Note, "helped-first"},
	} {
		v := judgeStep(pass, x.in, x.err)
		if v.Severity != x.severity || v.Clause != x.clause {
			t.Errorf("%s: got %q %q, want %q %q", x.name, v.Severity, v.Clause, x.severity, x.clause)
		}
	}
}

// TestStubFix checks that each way to a stub has its fix.
func TestStubFix(t *testing.T) {
	pass := &Pass{Packs: embedded(t)}
	rule := pass.Packs.Rule("stub-driver")
	var got []string
	for _, x := range []struct{ path, how string }{
		{"/usr/local/cuda/lib64/stubs/libcuda.so.1", "LD_LIBRARY_PATH"},
		{"/usr/local/cuda/lib64/stubs/libcuda.so.1", "RUNPATH of /app/x"},
		{"/usr/local/cuda/lib64/stubs/libcuda.so.1", ""},
		{"/usr/lib/libcuda.so.1", "/etc/ld.so.cache"},
	} {
		m := replay.Loaded{How: x.how, Module: &elfdeps.Module{Path: x.path, File: &elfdeps.File{Path: x.path}}}
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
