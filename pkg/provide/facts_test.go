package provide

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/rules"
)

func TestFactsAreWellFormed(t *testing.T) {
	f, err := loadFacts(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Libraries) < 15 || len(f.Releases) < 60 {
		t.Errorf("there are %d libraries and %d releases", len(f.Libraries), len(f.Releases))
	}
	for _, r := range f.Releases {
		if labelOf("redistrib_"+r.Label+".json") != r.Label || !isSum(r.SHA256) {
			t.Errorf("%+v", r)
		}
	}
	for _, l := range f.Libraries {
		for _, w := range l.allWheelNames() {
			if w != normalize(w) || strings.ContainsAny(w, "{}") {
				t.Errorf("%s: %q is no distribution's name", l.ID, w)
			}
		}
	}
}

func TestFactsThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct{ yaml, err string }{
		"unknown field": {"libraries: [{id: a, colour: red}]", "colour"},
		"no licence":    {"libraries: [{id: a, title: t, match: [liba.so], license: none, sources: [s]}]", `there is no licence "none"`},
		"pattern":       {"libraries: [{id: a, title: t, match: ['lib[.so'], license: l, sources: [s]}]\nlicenses: [{id: l, name: n, url: u, terms: t, sources: [s]}]", "is not a pattern"},
		"no directory":  {"libraries: [{id: a, title: t, match: [liba.so], wheels: [a], sources: [s]}]", "wheels go with the directories"},
		"directory":     {"libraries: [{id: a, title: t, match: [liba.so], wheels: [a], dirs: [/lib], sources: [s]}]", "is no directory below"},
		"no source":     {"licenses: [{id: l, name: n, url: u, terms: t}]", "and sources"},
		"hash":          {"releases: [{product: p, label: '1', sha256: abc, sources: [s]}]", "needs a product"},
	} {
		_, err := loadFacts(fstest.MapFS{"provide/x.yaml": &fstest.MapFile{Data: []byte(tt.yaml)}})
		if err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %v, want %s", name, err, tt.err)
		}
	}
}

// TestInWheel tells the directory where a wheel has a library from those that end
// alike, of CUDA up to 12 and from 13 on.
func TestInWheel(t *testing.T) {
	for _, tt := range []struct {
		name, dir string
		want      bool
	}{
		{"libcublasLt.so.12", "/opt/v/lib/python3.12/site-packages/nvidia/cublas/lib", true},
		{"libcublasLt.so.13", "/opt/v/lib/python3.12/site-packages/nvidia/cu13/lib", true},
		{"libcudnn.so.9", "/opt/v/lib/python3.12/site-packages/nvidia/cu13/lib", false},
		{"libcudnn_ops.so.9", "/opt/v/lib/python3.12/site-packages/nvidia/cudnn/lib", true},
		{"libcudart.so.12", "/opt/v/lib/python3.12/site-packages/nvidia/cuda_runtime/lib", true},
		{"libcudart.so.12", "/opt/v/lib/python3.12/site-packages/mynvidia/cuda_runtime/lib", false},
		{"libnvinfer.so.10", "/opt/v/lib/python3.12/site-packages/tensorrt_libs", true},
		{"libz.so.1", "/opt/v/lib/python3.12/site-packages/nvidia/cublas/lib", false},
	} {
		if got := LibraryOf(tt.name).InWheel(tt.dir); got != tt.want {
			t.Errorf("%s in %s: %v", tt.name, tt.dir, got)
		}
	}
}

func TestWhoseALibraryIs(t *testing.T) {
	for name, want := range map[string]string{
		"libcudnn.so.9":                       "cudnn",
		"libcudnn_engines_precompiled.so.9":   "cudnn",
		"libcublasLt.so.12":                   "cublas",
		"libcudart.so.11.0":                   "cudart",
		"libnvrtc-builtins.so.12.4":           "nvrtc",
		"libnvrtc.alt.so.13":                  "nvrtc",
		"libcusparse.so.12":                   "cusparse",
		"libcusparseLt.so.0":                  "cusparselt",
		"libcufile_rdma.so.1":                 "cufile",
		"libnvJitLink.so.12":                  "nvjitlink",
		"libcupti.so.2024.1.1":                "cupti",
		"libnppig.so.12":                      "npp",
		"nvshmem_bootstrap_uid.so.3":          "nvshmem",
		"libnvinfer_builder_resource.so.10.3": "tensorrt",
		"libcurl.so.4":                        "",
		"libcups.so.2":                        "",
		"libcurses.so":                        "",
		"libcuda.so.1":                        "",
		"libnvidia-ml.so.1":                   "",
		"libz.so.1":                           "",
	} {
		got, accept := "", false
		if l := LibraryOf(name); l != nil {
			got, accept = l.ID, l.license.Accept
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		if accept != (want != "") {
			t.Errorf("%s: a licence to be accepted: %v", name, accept)
		}
	}
}

func TestCUDAOfANameThatTells(t *testing.T) {
	for name, want := range map[string]string{
		"libcublas.so.12": "12", "libcufft.so.11": "12", "libcufft.so.10": "11", "libcudart.so.11.0": "11", "libcusolver.so.12": "13",
		"libcusolver.so.11": "", "libcurand.so.10": "", "libcudnn.so.9": "", "libcublas.so": "",
	} {
		r, err := newRequest(Want{Names: []string{name}})
		if err != nil || r.CUDA != want {
			t.Errorf("%s: got %q, %v, want %q", name, r.CUDA, err, want)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		spec, version string
		exact, coarse bool
	}{
		{"==9.1.0.70", "9.1.0.70", true, true},
		{"==9.1.0.70", "9.1.0", false, true},
		{"==9.1.0.70", "9.1.1", false, false},
		{"==9.1.*", "9.1.0", true, true},
		{"==9.1.0.70.*", "9.1.0", false, true},
		{"==9.1.0.70.*", "9.1.0.70", true, true},
		{"!=9.1.0.*", "9.1.0", false, false},
		{">=9.1.0.71", "9.1.0", false, true},
		{">9.1.0.70", "9.1.0", false, true},
		{"<9.1.0.70", "9.1.0", true, true},
		{"<9.1.0.70", "9.1.1", false, false},
		{"!=9.1.0.70", "9.1.0", true, true},
		{"!=9.1.0", "9.1.0", false, false},
		{"~=9.1.0.70", "9.1.0", false, true},
		{"~=9.1", "9.5.0", true, true},
		{">=9.1,<10", "9.5.0", true, true},
		{">=9.1,<10", "10.0.0", false, false},
		{"", "1", true, true},
	} {
		s, err := parseSpecifiers(Want{Versions: []string{tt.spec}})
		if err != nil {
			t.Errorf("%s: %v", tt.spec, err)
			continue
		}
		if got := s.allowText(tt.version); got != tt.exact {
			t.Errorf("%s allows %s: %t", tt.spec, tt.version, got)
		}
		if got := s.allowCoarse(tt.version); got != tt.coarse {
			t.Errorf("%s may allow %s: %t", tt.spec, tt.version, got)
		}
	}
	for _, bad := range []string{"9.1", "=9", ">=x", strings.Repeat("9", 300)} {
		if _, err := parseSpecifiers(Want{Versions: []string{bad}}); err == nil {
			t.Errorf("%q is taken for a specifier", bad)
		}
	}
}

func TestMistakes(t *testing.T) {
	for spec, want := range map[string]string{
		"/opt/libs":             "begins with none of dir: archive: image: pypi: redist:",
		"dir:":                  "names no directory",
		"dir:/nowhere/at/all":   "no such file or directory",
		"archive:/nowhere":      "no such file or directory",
		"archive:/":             "say dir:DIR",
		"image:":                "names no image",
		"pypi:file:///x":        "is no web address",
		"pypi:pypi.org/simple":  "is no web address",
		"pypi:http://x.example": "is plain HTTP",
		"redist:ftp://x":        "is no web address",
	} {
		_, err := Open(t.Context(), []string{spec}, Options{Cache: t.TempDir()})
		if err == nil || !strings.HasPrefix(err.Error(), "--from "+spec) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", spec, err, want)
		}
	}
	s := open(t)
	for _, tt := range []struct {
		want Want
		err  string
	}{
		{Want{}, "neither a name nor a library"},
		{Want{Names: []string{"../x"}}, "it is no file name"},
		{Want{Library: "cuddn"}, "no such library is known: say one of cublas, cudart, cudnn"},
		{Want{Library: "cudnn", Arch: "s390x"}, "only for amd64 and arm64"},
		{Want{Library: "cudnn", Pin: "nine"}, `"nine" is not a version`},
		{Want{Library: "cudnn", Versions: []string{"nine"}}, `"nine" is not a version specifier`},
	} {
		if _, err := s.Find(t.Context(), tt.want); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: got %v, want %s", tt.want, err, tt.err)
		}
	}
}

func TestReleasesThatMayHaveAName(t *testing.T) {
	for _, tt := range []struct {
		name, release string
		want          bool
	}{
		{"libcudnn.so.9", "9.1.0.70", true},
		{"libcudnn.so.9", "8.9.7.29", false},
		{"libcudnn_graph.so.9.1.0", "9.1.0.70", true},
		{"libcudnn_graph.so.9.1.0", "9.10.0.70", false},
		{"libnvrtc-builtins.so.12.4", "12.4.127", true},
		{"libnvrtc-builtins.so.12.4", "12.6.77", false},
		{"libnvrtc.so.11.2", "11.8.89", true},
		{"libcudart.so.11.0", "11.8.89", true},
		{"libcudart.so.11.0", "12.0.1", false},
		{"libcufile.so.0", "1.9.1.3", true}, // whose number tells nothing
		{"libcudnn.so", "9.1.0.70", true},
	} {
		r, err := newRequest(Want{Names: []string{tt.name}})
		if err != nil {
			t.Fatal(err)
		}
		v, err := version.Parse(tt.release)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.mayHave(v); got != tt.want {
			t.Errorf("%s in %s: %t", tt.name, tt.release, got)
		}
	}
}
