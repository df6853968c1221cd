package githook

import (
	"testing"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// A finding stops a push, unless an instruction after the FROM, or the build that follows
// the push, may fix it. The scripts of cmd/imgcheck judge real images.
func TestJudge(t *testing.T) {
	missing := lint.Finding{Rule: "missing-library", Severity: packs.Error, Library: "libx.so.1", Effects: []packs.Effect{{Name: lint.NotStarted}}}
	more := missing
	more.Effects = append([]packs.Effect{{Text: "`import x` fails"}}, more.Effects...)
	driver := lint.Finding{Rule: "driver", Kind: packs.Setting, Severity: packs.Error, Message: "NVIDIA_DRIVER_CAPABILITIES lacks compute", Effects: missing.Effects}
	note := lint.Finding{Rule: "missing-library", Severity: packs.Note, Library: "libx.so.1"}
	does := func(list ...dockerfile.Instruction) []Use {
		return []Use{{Where: "FROM in Dockerfile:1", File: "Dockerfile", Does: list}}
	}
	env := func(name string) dockerfile.Instruction {
		return dockerfile.Instruction{Name: "ENV", Line: 2, Variables: []string{name}}
	}
	run := dockerfile.Instruction{Name: "RUN", Line: 3}
	cmd := dockerfile.Instruction{Name: "CMD", Line: 4}
	for name, tt := range map[string]struct {
		image    Image
		findings []lint.Finding
		failOn   packs.Severity
		want     string // "", "stops", or what fixes the finding
	}{
		"no finding":                {Image{Uses: does()}, nil, packs.Error, ""},
		"a finding below":           {Image{Uses: does()}, []lint.Finding{note}, packs.Error, ""},
		"never":                     {Image{Uses: does()}, []lint.Finding{missing}, "", ""},
		"nothing follows":           {Image{Uses: does()}, []lint.Finding{missing}, packs.Error, "stops"},
		"RUN":                       {Image{Uses: does(run)}, []lint.Finding{missing}, packs.Error, "RUN in Dockerfile:3"},
		"the loader's variable":     {Image{Uses: does(env("LD_LIBRARY_PATH"))}, []lint.Finding{missing}, packs.Error, "ENV in Dockerfile:2"},
		"another variable":          {Image{Uses: does(env("LANG"))}, []lint.Finding{missing}, packs.Error, "stops"},
		"the finding's variable":    {Image{Uses: does(env("NVIDIA_DRIVER_CAPABILITIES"))}, []lint.Finding{driver}, packs.Error, "ENV in Dockerfile:2"},
		"a variable, two findings":  {Image{Uses: does(env("LD_PRELOAD"))}, []lint.Finding{missing, driver}, packs.Error, "stops"},
		"another program":           {Image{Uses: does(cmd)}, []lint.Finding{missing}, packs.Error, "CMD in Dockerfile:4"},
		"another program, more":     {Image{Uses: does(cmd)}, []lint.Finding{more}, packs.Error, "stops"},
		"another program, variable": {Image{Uses: does(cmd)}, []lint.Finding{driver}, packs.Error, "stops"},
		"two uses":                  {Image{Uses: append(does(run), does()...)}, []lint.Finding{missing}, packs.Error, "stops"},
		"the registry's own":        {Image{Ref: "app:1", Own: true, Uses: []Use{{Input: "poetry.lock"}}}, []lint.Finding{missing}, packs.Error, "poetry.lock, from which it is built anew,"},
		"this machine's own":        {Image{Ref: "oci:app", Own: true, Uses: []Use{{Input: "poetry.lock"}}}, []lint.Finding{missing}, packs.Error, "stops"},
	} {
		v := Judge(tt.image, tt.findings, nil, tt.failOn)
		got := v.Fixed
		if v.Use != nil && got == "" {
			got = "stops"
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
