package lint

import (
	"debug/elf"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/tooltest"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// TestNewer checks pairs of an older and a newer version whose number only the packs know.
// internal/version tests the others.
func TestNewer(t *testing.T) {
	p := embedded(t)
	for _, pair := range [][2]string{
		{"GLIBC_2.2.5", "GLIBC_2.34"},
		{"GLIBC_2.34", "GLIBC_ABI_DT_RELR"}, // 2.36
		{"GLIBC_ABI_DT_RELR", "GLIBC_2.38"},
		{"GLIBC_2.41", "GLIBC_ABI_GNU2_TLS"}, // 2.42
		{"GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR"},
	} {
		if !p.IsNewerVersion(pair[1], pair[0]) || p.IsNewerVersion(pair[0], pair[1]) {
			t.Errorf("%s is not newer than %s", pair[1], pair[0])
		}
	}
}

// TestNewerOfLibc checks that each version of this machine's glibc is newer than the one that
// it inherits from. GLIBC_ABI_DT_RELR inherits from GLIBC_2.36.
func TestNewerOfLibc(t *testing.T) {
	p := embedded(t)
	file := strings.TrimSpace(tooltest.Output(t, tooltest.Need(t, "gcc", "gcc"), "-print-file-name=libc.so.6"))
	f, err := elf.Open(file)
	if err != nil {
		t.Fatalf("%v: install Debian's package libc6", err)
	}
	defer f.Close()
	versions, err := f.DynamicVersions()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, v := range versions {
		for _, parent := range v.Deps {
			if !p.IsNewerVersion(v.Name, parent) {
				t.Errorf("%s is not newer than %s", v.Name, parent)
			}
			compared++
		}
	}
	if compared < 20 {
		t.Errorf("%s has only %d versions that inherit from others", file, compared)
	}
}

// TestVersionAdvice checks the fixes for a missing version.
func TestVersionAdvice(t *testing.T) {
	pass := passOf(t, textImage(t, "-- 0/a --\n", false))
	for name, want := range map[string]string{
		"GLIBC_2.38":              "glibc 2.38 or later",
		"GLIBC_ABI_DT_RELR":       "glibc 2.36 or later",
		"GLIBC_ABI_DT_X86_64_PLT": "glibc 2.42 or later (Debian 13's 2.41 has GLIBC_ABI_DT_X86_64_PLT as well",
		"GLIBC_PRIVATE":           "the image's own build of glibc",
		"GLIBCXX_3.4.32":          "newer libstdc++.so.6",
		"LIBJPEG_8.0":             "a release of libx.so.1 that has the version LIBJPEG_8.0",
	} {
		f := versionFinding(pass, &cause{first: versionError(name), verdict: packs.Grave})
		if len(f.Advice) != 1 || !strings.Contains(f.Advice[0].String(), want) || strings.Contains(f.Advice[0].String(), "{") {
			t.Errorf("%s: %q, want %q", name, f.Advice, want)
		}
	}
}

func versionError(version string) *elfdeps.Error {
	return &elfdeps.Error{Kind: elfdeps.VersionError, Name: version, Subject: "/lib/libx.so.1"}
}
