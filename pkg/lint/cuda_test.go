package lint

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/rules"
	"github.com/imgcheck/imgcheck/testdata/images"
	"gopkg.in/yaml.v3"
)

// realSonames returns the major versions of CUDA that have each library, from the
// distributions' packages.
func realSonames(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile("testdata/sonames.txt")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		release, name, ok := strings.Cut(line, " ")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		major, _, dotted := strings.Cut(release, ".")
		if !ok || !dotted {
			t.Fatalf("testdata/sonames.txt: %q is not a release and a name", line)
		}
		if !slices.Contains(has[name], major) {
			has[name] = append(has[name], major)
		}
	}
	return has
}

// namedCUDA matches a release of CUDA in a text: by itself, or in the name of an image, of a
// Debian package or of a wheel.
var namedCUDA = regexp.MustCompile(`(?:CUDA |nvidia/cuda:|-cuda-|\+cuda|-cupti-|-cu)(\d+)`)

// adviceFor returns the releases of CUDA that the fixes name for a library that an image lacks.
func adviceFor(t *testing.T, p *packs.Packs, library, config string, more ...string) []string {
	t.Helper()
	text := config + elfText("lib64/ld-linux-x86-64.so.2", "soname=ld-linux-x86-64.so.2", `rodata "ld.so (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.\x00"`, `rodata "/usr/lib/\x00"`) +
		elfText("opt/app", append([]string{"interp=/lib64/ld-linux-x86-64.so.2", "needed " + library}, more...)...)
	r, err := Run(context.Background(), textImage(t, text, false), p)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	found := false
	for _, f := range r.Findings {
		if f.Library != library {
			continue
		}
		found = true
		for _, fix := range f.Fixes {
			for _, m := range namedCUDA.FindAllStringSubmatch(fix, -1) {
				named[m[1]] = true
			}
		}
	}
	if !found {
		t.Fatalf("%s: nothing is found", library)
	}
	return slices.Sorted(maps.Keys(named))
}

// TestCUDAOfAdvice checks the fixes for every name of CUDA's libraries: a release of CUDA that
// they name has the library. If several releases have it, they name none unless the rest of
// the image shows which is wanted.
func TestCUDAOfAdvice(t *testing.T) {
	p := embedded(t)
	real := realSonames(t)
	for name, majors := range real {
		if p.Family(name) == nil {
			continue // the finding has no fixes
		}
		got := adviceFor(t, p, name, "")
		if len(majors) == 1 && !slices.Equal(got, majors) {
			t.Errorf("%s: the advice names CUDA %q, and it is of CUDA %s alone", name, got, majors[0])
		}
		if len(majors) > 1 && len(got) > 0 {
			t.Errorf("%s: the advice names CUDA %q, and CUDA %q have it", name, got, majors)
		}
		for _, cuda := range []string{"9", "10", "11", "12", "13"} {
			got := adviceFor(t, p, name, fmt.Sprintf("env CUDA_VERSION=%s.2.1\n", cuda))
			want := []string{cuda}
			if !slices.Contains(majors, cuda) {
				want = nil
				if len(majors) == 1 {
					want = majors
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s in an image with CUDA %s: the advice names CUDA %q, want %q", name, cuda, got, want)
			}
		}
	}
}

// TestSonames checks that the packs' table has the releases of CUDA that the packages have for
// each name, also with a hash in the name or a longer number.
func TestSonames(t *testing.T) {
	p := embedded(t)
	for name, want := range realSonames(t) {
		got := p.CudaOf(name)
		if len(want) == 1 && len(got) > 1 {
			t.Errorf("%s: the packs say CUDA %q, the packages %q", name, got, want)
		}
		for _, major := range want {
			if !slices.Contains(got, major) {
				t.Errorf("%s: the packs say CUDA %q, the packages %q", name, got, want)
			}
		}
		base, number, _ := strings.Cut(name, ".so.")
		for _, other := range []string{base + "-9335f6a2.so." + number, base + ".faf08d9a.so." + number, "/usr/local/cuda/lib64/" + name} {
			if !slices.Equal(p.CudaOf(other), got) {
				t.Errorf("%s: CUDA %q, and %s %q", other, p.CudaOf(other), name, got)
			}
		}
	}
	for _, name := range []string{"libcudart.so", "libcudart.so.99", "libfoo.so.12", "libcudnn_ops.so", "libcufft.so.", ""} {
		if got := p.CudaOf(name); len(got) != 0 {
			t.Errorf("%q tells CUDA %q", name, got)
		}
	}
	for name, want := range map[string]string{
		"libcupti.so.2022.3.0": "11", "libcupti.so.2022.4.1": "12", "libcupti.so.2024.1.1": "12", "libcupti.so.2025.1.1": "12", "libcupti.so.2025.3.1": "13",
		"libnvrtc-builtins.so.11.8.89": "11", "libcufft.so.10.0": "10", "libcublas.so.12.4.5.8": "12",
	} {
		if got := p.CudaOf(name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: CUDA %q, want %s", name, got, want)
		}
	}
}

// TestSonamesOfTables checks that the packs' other tables have the same numbers.
func TestSonamesOfTables(t *testing.T) {
	p := embedded(t)
	for _, k := range p.Toolkits {
		for base, number := range map[string]string{
			"libcudart": k.Cudart, "libcublas": k.Cublas, "libnvrtc": k.Nvrtc, "libcufft": k.Cufft, "libcusolver": k.Cusolver, "libcusparse": k.Cusparse,
		} {
			if name := base + ".so." + number; !slices.Contains(p.CudaOf(name), k.CUDA) {
				t.Errorf("toolkits: %s is of CUDA %s; sonames: of %q", name, k.CUDA, p.CudaOf(name))
			}
		}
	}
	b, err := rules.FS.ReadFile("provide/libraries.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var provide struct {
		Libraries []struct {
			Match []string
			CUDA  map[string]string
		}
	}
	if err := yaml.Unmarshal(b, &provide); err != nil {
		t.Fatal(err)
	}
	for _, l := range provide.Libraries {
		for number, cuda := range l.CUDA {
			for _, pattern := range l.Match {
				for _, base := range braces(strings.TrimSuffix(pattern, "*")) {
					name := base + "." + number
					if p.Family(name) == nil {
						continue // a part, which no program needs by its name
					}
					// Libraries of CUDA 10 cannot be fetched.
					has := slices.DeleteFunc(slices.Clone(p.CudaOf(name)), func(major string) bool { return major == "10" })
					if !slices.Equal(has, []string{cuda}) {
						t.Errorf("provide: %s is of CUDA %s; sonames: of %q", name, cuda, has)
					}
				}
			}
		}
	}
	for _, family := range p.Families {
		for _, pattern := range family.Match {
			for _, name := range braces(pattern) {
				base, _, _ := strings.Cut(name, ".so")
				if strings.Contains(base, "*") {
					continue // of a hash, or of parts
				}
				if !slices.ContainsFunc(p.Sonames, func(s *packs.Soname) bool { return packs.MatchAny(s.Libraries, base) }) {
					t.Errorf("family %s has %s, and sonames has not", family.ID, base)
				}
			}
		}
	}
}

// braces returns the patterns that a pattern with {a,b} stands for.
func braces(pattern string) []string {
	m := regexp.MustCompile(`\{([^{}]*)\}`).FindStringSubmatchIndex(pattern)
	if m == nil {
		return []string{pattern}
	}
	var list []string
	for one := range strings.SplitSeq(pattern[m[2]:m[3]], ",") {
		list = append(list, braces(pattern[:m[0]]+one+pattern[m[1]:])...)
	}
	return list
}

// TestCUDAOfTheRest checks that the rest of the image, the nearest first, decides the release of
// CUDA of a name that several releases have, unless it shows a release without that name.
func TestCUDAOfTheRest(t *testing.T) {
	p := embedded(t)
	has := func(name string) string { return elfText("usr/lib/"+name, "soname="+name) }
	for _, c := range []struct {
		library, config string
		needed          []string
		want            []string
	}{
		{"libcurand.so.10", "", nil, nil},
		{"libcurand.so.10", "", []string{"needed libcublas.so.11"}, []string{"11"}},
		{"libcurand.so.10", "env CUDA_VERSION=13.0.2\n", []string{"needed libcublas.so.12"}, []string{"12"}},
		{"libcurand.so.10", has("libcudart.so.12"), nil, []string{"12"}},
		{"libcurand.so.10", has("libcudart.so.12") + has("libcudart.so.11.0"), nil, nil},
		{"libcusolver.so.11", "", []string{"needed libcusparse.so.12"}, []string{"12"}}, // 11 and 12, 12 and 13
		{"libcusolver.so.11", has("libcusparse.so.12"), nil, nil},
		{"libcusolver.so.11", "env CUDA_VERSION=13.0.2\n", nil, nil},
		{"libcusparse.so.12", "env CUDA_VERSION=11.8.0\n" + has("libcudart.so.13"), nil, []string{"13"}},
		{"libcudnn.so.9", "", nil, nil},
		{"libcudnn.so.9", "env CUDA_VERSION=12.4.1\n", nil, []string{"12"}},
		{"libcudnn.so.8", "env CUDA_VERSION=13.0.2\n", nil, nil},
		{"libnppig.so.11", "env CUDA_VERSION=12.4.1\n", []string{"needed libcudart.so.12"}, []string{"11"}},
	} {
		if got := adviceFor(t, p, c.library, c.config, c.needed...); !slices.Equal(got, c.want) {
			t.Errorf("%s, %q, %q: the advice names CUDA %q, want %q", c.library, c.config, c.needed, got, c.want)
		}
	}
}

// namedOf matches a library with its release of CUDA in a text.
var namedOf = regexp.MustCompile(`\b(lib[\w.+-]+\.so\.[\d.]*\d) of CUDA (\d+)`)

// TestCUDAOfFindings checks that each library that a finding assigns to a release of CUDA is in
// that release, for the findings of all text images.
func TestCUDAOfFindings(t *testing.T) {
	p := embedded(t)
	said := 0
	for _, pattern := range []string{"*.txtar", "fresh/*.txtar"} {
		names, err := fs.Glob(images.FS, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := images.Text(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(b), "/cuda-") && !strings.Contains(string(b), "/cu1") {
				continue // no directory names a CUDA release
			}
			r, err := Run(context.Background(), textImage(t, string(b), false), p)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Findings {
				for _, text := range append(f.Fixes, f.Message) {
					for _, m := range namedOf.FindAllStringSubmatch(text, -1) {
						said++
						if !slices.Contains(p.CudaOf(m[1]), m[2]) {
							t.Errorf("%s: %s is of CUDA %q: %s", name, m[1], p.CudaOf(m[1]), text)
						}
					}
				}
			}
		}
	}
	if said == 0 {
		t.Error("no finding says it")
	}
}
