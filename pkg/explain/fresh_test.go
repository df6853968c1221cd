package explain

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// lines reads a file of testdata with a JSON value in each line.
func lines[T any](t testing.TB, name string) []T {
	t.Helper()
	return decoded[T](t, read(t, name))
}

// decoded returns the values of lines of JSON.
func decoded[T any](t testing.TB, text string) []T {
	t.Helper()
	var list []T
	for line := range strings.Lines(text) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("line %d: %v", len(list)+1, err)
		}
		list = append(list, v)
	}
	return list
}

// later are fresh reports whose words more often have another cause. Their cause is among
// the first three answers.
var later = []string{"ggml-org/llama.cpp#17176", "triton-inference-server/server#2414"}

// TestFresh uses reports that somebody else found after the patterns had been written:
// the first answer has one of the classes that fit the thread.
func TestFresh(t *testing.T) {
	x := explainer(t)
	list := lines[struct {
		Text, Source string
		Classes      []string
	}](t, "fresh.jsonl")
	if len(list) < 31 {
		t.Errorf("%d reports", len(list))
	}
	for _, r := range list {
		place := slices.IndexFunc(x.Explain(r.Text).Answers, func(a Answer) bool { return slices.Contains(r.Classes, a.Class) })
		if place < 0 || place > 2 || place > 0 && !slices.Contains(later, r.Source) {
			t.Errorf("%s: %q is at %d of %q: %.100q", r.Source, r.Classes, place, caseIDs(x.Explain(r.Text)), r.Text)
		}
	}
}

// TestLookalikes: lines of other domains that contain words of the patterns have no
// answer, or one that says what is uncertain.
func TestLookalikes(t *testing.T) {
	x := explainer(t)
	list := lines[struct{ Name, What, Text string }](t, "lookalikes.jsonl")
	if len(list) < 60 {
		t.Errorf("%d texts", len(list))
	}
	// These answers are right for a machine or a program that runs in a container.
	honest := map[string]string{
		"terraform-arch": "wrong-architecture", "bus-error": "shm-too-small", "pg-shm": "disk-full", "pg-shm-detail": "disk-full",
		"scipy-misc": "packages-apart", "numpy-core-pickle": "numpy-too-old", "rust-linker": "build-tool-missing", "java-class": "release-too-old", "make-gcc": "missing-toolchain", "mongo-avx": "cpu-too-old",
		"node-elf-header": "wrong-architecture", "opencl-none": "opencl-icd", "ld-lz": "missing-link", "ld-lpq": "missing-link", "pip-internal": "package-not-installed", "pip-vendor": "package-not-installed",
		"django-module": "package-not-installed", "own-private-module": "submodule-gone",
	}
	for _, l := range list {
		r := x.Explain(l.Text)
		if len(r.Answers) == 0 {
			continue
		}
		a := r.Answers[0]
		if a.Confidence == Certain || honest[l.Name] != a.Case {
			t.Errorf("%s (%s): %s: %s: %s", l.Name, l.What, a.Confidence, a.Case, l.Text)
		}
	}
}

// TestFixes checks the first fixes: they are for the library, the host or the driver of
// the text, and for no other.
func TestFixes(t *testing.T) {
	x := explainer(t)
	for text, c := range map[string]struct{ is, want, not string }{
		"docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].":                          {"toolkit-not-set-up", "nvidia-ctk runtime configure --runtime=docker", ""},
		"could not select device driver \"nvidia\" with capabilities: [[gpu]]":                                                         {"toolkit-not-set-up", "install the NVIDIA Container Toolkit", ""},
		"docker: Error response from daemon: unknown or invalid runtime name: nvidia.":                                                 {"toolkit-not-set-up", "nvidia-container-toolkit", ""},
		"CUDA error: device kernel image is invalid":                                                                                   {"code-too-new", "550.54.14", "TORCH_CUDA_ARCH_LIST"},
		"Could not load library libcudnn_cnn_infer.so.8. Error: libcuda.so: cannot open shared object file: No such file or directory": {"driver-bare-name", "ln -s libcuda.so.1 ", "cudnn"},
		"Could not load library libcudnn_cnn_infer.so.8. Error: libnvrtc.so: cannot open shared object file: No such file":             {"missing-link", "libnvrtc.so to the library that exists", "cudnn"},
		"ffmpeg: error while loading shared libraries: libnppig.so.11: cannot open shared object file: No such file or directory":      {"missing-library", "CUDA 11 runtime", "CUDA 12"},
		"ImportError: libcurand.so.10: cannot open shared object file: No such file or directory":                                      {"missing-library", "CUDA N runtime", "CUDA 1"},
		"ImportError: libsndfile.so.1: cannot open shared object file: No such file or directory":                                      {"missing-system-library", "apt-get install -y libsndfile1", ""},
		"libfoo.so.1: cannot open shared object file: No such file or directory":                                                       {"missing-system-library", "apt-get install", ""},
	} {
		r := x.Explain(text)
		if len(r.Answers) == 0 {
			t.Errorf("%s: no answer", text)
			continue
		}
		a := r.Answers[0]
		said := strings.Join(a.Fixes, "\n")
		if a.Case != c.is || !strings.Contains(said, c.want) || c.not != "" && strings.Contains(said, c.not) || strings.Contains(said, "{missing}") {
			t.Errorf("%s\n got %s:\n%s\nwant %s with %q, without %q", text, a.Case, said, c.is, c.want, c.not)
		}
	}
	if a := x.Explain("CUDA error: device kernel image is invalid").Answers[0]; a.Confidence == Certain {
		t.Error("a text with several causes is certain")
	}
	// A text without a library gets no fix with one.
	for _, a := range x.Explain("/usr/bin/ld: cannot find -lcurand: No such file or directory").Answers {
		if said := strings.Join(a.Fixes, "\n"); strings.Contains(said, "{") || len(a.Fixes) == 0 {
			t.Errorf("%s: %q", a.Case, a.Fixes)
		}
	}
}
