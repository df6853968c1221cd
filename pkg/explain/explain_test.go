package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/rules"
)

// TestFirst checks the first answer to texts that have one meaning, or a meaning that
// others hide. The first five are the reports that the project began with.
func TestFirst(t *testing.T) {
	x := explainer(t)
	for text, want := range map[string]string{
		"RuntimeError: GET was unable to find an engine to execute this computation":                                                                                                          "several-faults",
		"Failed to load library libonnxruntime_providers_cuda.so with error: libcudnn.so.9: cannot open shared object file: No such file or directory":                                        "missing-library",
		"Could not load library libcudnn_cnn_train.so.8. Error: /usr/local/cuda/lib64/libcudnn_cnn_infer.so.8: undefined symbol: _ZN15TracebackLoggerC1EPKc, version libcudnn_ops_infer.so.8": "shadowed-library",
		"RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.":                                                               "non-contiguous-input",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB":                                                                                                             "gpu-out-of-memory",

		"nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver":                                        "driver-too-old",
		"CUDA error 804: forward compatibility was attempted on non supported HW":                                                                      "forward-compatibility",
		"Cuda failure: 222 the provided PTX was compiled with an unsupported toolchain.":                                                               "ptx-too-new",
		"docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].":                                          "toolkit-not-set-up",
		"OSError: libcuda.so.1: cannot open shared object file: No such file or directory":                                                             "driver-not-mounted",
		"RuntimeError: DataLoader worker (pid 181) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.": "shm-too-small",
		"ImportError: /x/libcublasLt.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12":                                     "shadowed-library",
		// GPU processes printed these after a library's code was changed (driver 580,
		// H200).
		"CUDA error: PTX JIT compilation was disabled":                                                                                                   "jit-disabled",
		"CUDA error: no kernel image is available for execution on the device":                                                                           "gpu-not-supported",
		"RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate(handle)`":                                                     "mixed-releases",
		"cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`":                                                        "mixed-releases",
		"RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED_CUDART":                                                                                "mixed-releases",
		"torch.AcceleratorError: CUDA error: device kernel image is invalid":                                                                             "code-too-new",
		"ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'":                                                                           "compiler-too-old-for-gpu", // triton#8539
		"nvcc fatal   : Unsupported gpu architecture 'compute_120'":                                                                                      "compiler-too-old-for-gpu",
		"nvrtc: error: invalid value for --gpu-architecture (-arch)":                                                                                     "compiler-too-old-for-gpu",
		"nvcc fatal   : Unknown option '--compress-mode=size'":                                                                                           "compiler-too-old", // flashinfer#5479
		"error: cannot open source file \"cuda/std/complex\"":                                                                                            "missing-toolchain",
		"main.cu:1:10: fatal error: cublas_v2.h: No such file or directory":                                                                              "missing-toolchain",
		"/usr/bin/ld: cannot find -lnvinfer_plugin: No such file or directory":                                                                           "missing-link",
		"\tlibcudart.so.12 => not found":                                                                                                                 "other-cuda",
		"\tlibGL.so.1 => not found":                                                                                                                      "missing-system-library",
		"CUDA initialization: Error 802: system not yet initialized":                                                                                     "fabric-manager",
		"nvidia-container-cli: initialization error: WSL environment detected but no adapters were found":                                                "no-gpu-on-host",
		"Auto-detected mode as 'legacy': WSL environment detected but no adapters were found: unknown":                                                   "no-gpu-on-host",
		"Error response from daemon: unknown or invalid runtime name: nvidia":                                                                            "toolkit-not-set-up",
		"Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all":                                                                     "cdi-description",
		"OCI runtime create failed: runc create failed: unable to start container process: exec: \"serve\": executable file not found in $PATH: unknown": "broken-entrypoint",
		"ModuleNotFoundError: No module named 'selective_scan_cuda'":                                                                                     "extension-not-built",
		"ImportError: /x/lib_ext.so: undefined symbol: THCudaMalloc":                                                                                     "torch-extension-mismatch",
		"CUDA error: misaligned address":                                                                                                                 "bad-value",
		"/lib/x86_64-linux-gnu/libc.so.6: version 'GLIBC_2.34' not found (required by /x)":                                                               "version-not-found",

		"undefined symbol: iJIT_NotifyEvent":                                                                   "undefined-symbol",
		"/app/train: symbol lookup error: /app/train: undefined symbol: dist_log":                              "undefined-function",
		"exec /app/run: no such file or directory":                                                             "musl-image",
		"Error loading shared library libcudart.so.12: No such file or directory (needed by /app/tool)":        "musl-image",
		"cuDNN error: CUDNN_STATUS_MAPPING_ERROR":                                                              "model-on-cpu",
		"WARNING: Failed to open libnccl-net.so, using the internal net plugin":                                "harmless",
		"ImportError: libGL.so.1: cannot open shared object file: No such file or directory":                   "missing-system-library",
		"\x1b[31mImportError: libGL.so.1: cannot open shared object file: No such file or directory\x1b[0m":    "missing-system-library",
		"IMPORTERROR: LIBGL.SO.1: CANNOT OPEN SHARED OBJECT FILE":                                              "missing-system-library",
		"error: \xff\xfe libgomp.so.1: cannot open shared object file: No such file or directory \x00 trailer": "missing-system-library",
	} {
		r := x.Explain(text)
		if len(r.Answers) == 0 || r.Answers[0].Case != want && !strings.HasPrefix(text, "IMPORT") {
			t.Errorf("%s\n got %v, want %s", text, caseIDs(r), want)
		}
	}
}

func caseIDs(r *Result) []string {
	var list []string
	for _, a := range r.Answers {
		list = append(list, a.Case)
	}
	return list
}

// TestCaptures checks the names in an answer.
func TestCaptures(t *testing.T) {
	x := explainer(t)
	a := x.Explain("ImportError: /a/libx.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs").Answers[0]
	if a.Captures["symbol"] != "_ZN3c105ErrorC2ENS_14SourceLocationESs" || a.Captures["demangled"] != "c10::Error::Error(c10::SourceLocation, std::string)" {
		t.Errorf("got %v", a.Captures)
	}
	// A fix for a symbol's name replaces the fix of its rule.
	a = x.Explain("ImportError: /a/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent").Answers[0]
	if len(a.Fixes) != 1 || !strings.Contains(a.Fixes[0], "mkl<2024.1") {
		t.Errorf("fixes %q", a.Fixes)
	}
	a = x.Explain("x\ny: /lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /app/server)").Answers[0]
	if a.Line != 2 || a.Captures["path"] != "/lib/libstdc++.so.6" || a.Captures["version"] != "GLIBCXX_3.4.30" || a.Captures["path_2"] != "/app/server" {
		t.Errorf("line %d: %v", a.Line, a.Captures)
	}
}

// TestInnocent: a log without an error has no answer.
// TestTranslated explains messages of the loader in other languages as the English ones.
func TestTranslated(t *testing.T) {
	x := explainer(t)
	for text, class := range map[string]string{
		"error, dlerror is /plugins/libbambu_networking.so: 无法启用共享目标需要的可执行栈: 无效的参数":                                 "execstack",
		"python3: error while loading shared libraries: libGL.so.1: 无法打开共享对象文件: 没有那个文件或目录":                          "missing-system-lib",
		"ImportError: libGL.so.1: Kann die Shared-Object-Datei nicht öffnen: Datei oder Verzeichnis nicht gefunden": "missing-system-lib",
		"OSError: /opt/libgomp.so.1: no se puede asignar memoria":                                                   "",
		"ImportError: /x/libgomp-d22c30c5.so.1.0.0: 静的 TLS ブロック内にメモリを配置出来ません":                                       "static-tls",
	} {
		got := ""
		if a := x.Explain(text).Answers; len(a) > 0 {
			got = a[0].Class
		}
		if got != class {
			t.Errorf("%s: the class is %q, want %q", text, got, class)
		}
	}
}

func TestInnocent(t *testing.T) {
	log := read(t, "innocent.log")
	if n := strings.Count(log, "\n"); n < 200 {
		t.Fatalf("the log has %d lines", n)
	}
	x := explainer(t)
	for _, a := range x.Explain(log).Answers {
		t.Errorf("line %d: %s: %s", a.Line, a.Case, a.Text)
	}
}

// read returns a file of the known reports, or of testdata.
func read(t testing.TB, name string) string {
	t.Helper()
	b, err := rules.FS.ReadFile("reports/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = os.ReadFile(filepath.Join("testdata", name))
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRootCause: the answer to a log is its first cause, and neither its last line nor a
// consequence.
func TestRootCause(t *testing.T) {
	x := explainer(t)
	innocent := read(t, "innocent.log")
	symptom := "RuntimeError: GET was unable to find an engine to execute this computation\n"
	root := "ImportError: libnvrtc-builtins.so.12.4: cannot open shared object file: No such file or directory\n"
	log := innocent + symptom + root + "torch.OutOfMemoryError: CUDA out of memory.\n" + innocent
	r := x.Explain(log)
	if got := caseIDs(r); len(got) == 0 || got[0] != "missing-sublibrary" {
		t.Fatalf("got %v", got)
	}
	if want := strings.Count(innocent, "\n") + 2; r.Answers[0].Line != want || r.Answers[0].Text != strings.TrimSpace(root) {
		t.Errorf("line %d, want %d: %s", r.Answers[0].Line, want, r.Answers[0].Text)
	}
	if !slices.Contains(caseIDs(r), "gpu-out-of-memory") {
		t.Errorf("no answer for the later error: %v", caseIDs(r))
	}
}

// TestUnknown: a text that no pattern matches has no answer, and gets a hint.
func TestUnknown(t *testing.T) {
	x := explainer(t)
	for text, near := range map[string]string{
		"the cat sat on the mat": "", "": "", "\n\n": "", "segmentation fault": "",
		"executable stack of the shared object": "cannot enable executable stack as shared object requires",
	} {
		r := x.Explain(text)
		if len(r.Answers) > 0 {
			t.Errorf("%q: got %v", text, caseIDs(r))
		}
		if near == "" && len(r.Nearest) > 0 || near != "" && !slices.Contains(r.Nearest, near) {
			t.Errorf("%q: nearest %q", text, r.Nearest)
		}
	}
}

// TestRules: the patterns of each rule lead back to the rule.
func TestRules(t *testing.T) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	x := explainer(t)
	values := strings.NewReplacer(
		"{library}", "libfoo.so.1", "{path}", "/opt/libbar.so", "{symbol}", "foo_bar", "{version}", "FOO_1.2", "{number}", "204",
		"{name}", "foo", "{error}", "something", "{text}", "some text",
	)
	for _, r := range set.Rules {
		for _, p := range r.Patterns {
			if len(newPattern(p).anchor) < 6 {
				continue
			}
			found := false
			text := values.Replace(p)
			x.each(text, func(c *packs.Case) { found = found || c.Rule == r.ID })
			if !found {
				t.Errorf("%s says %q, which is not explained by it", r.ID, text)
			}
		}
	}
}

// each calls f with all cases that may cause a text.
func (x *Explainer) each(s string, f func(*packs.Case)) {
	for _, h := range x.hits(s, surroundings{}) {
		for _, id := range h.text.Cases {
			f(x.cases[id])
		}
	}
}

// TestPacksAreWhole: a text leads to every case, and every pattern is long enough to be
// used.
func TestPacksAreWhole(t *testing.T) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	x := explainer(t)
	used := map[string]bool{}
	for _, text := range x.texts {
		for _, id := range text.Cases {
			used[id] = true
		}
	}
	for _, c := range set.Cases {
		if !used[c.ID] {
			t.Errorf("no text leads to the case %s", c.ID)
		}
		if c.Confirm == "" {
			t.Errorf("case %s has no way to confirm it", c.ID)
		}
		if x.Page(c.ID) == "" {
			t.Errorf("case %s has no page", c.ID)
		}
	}
	for _, text := range set.Texts {
		for _, p := range text.Patterns {
			if len(newPattern(p).anchor) < 6 {
				t.Errorf("pattern %q says too little", p)
			}
		}
	}
	for _, r := range set.Rules {
		if !slices.ContainsFunc(set.Cases, func(c *packs.Case) bool { return c.Rule == r.ID }) && len(r.Patterns) > 0 && x.cases[r.ID] == nil {
			t.Errorf("rule %s has patterns and no case", r.ID)
		}
	}
}

// TestApart: a text that leaves several causes open has a look that tells them apart.
func TestApart(t *testing.T) {
	x := explainer(t)
	for i := range x.texts {
		h := hit{line: 1, text: &x.texts[i], captures: map[string]string{}}
		var answers []Answer
		for j, id := range h.text.Cases {
			answers = append(answers, x.answer(x.cases[id], h, "", confidence(h.text, j == 0), surroundings{}))
		}
		if len(answers) > 1 && answers[0].Confidence != Certain && x.apart(answers) == "" {
			t.Errorf("nothing tells %q apart: %.80q", h.text.Cases, h.text.Patterns)
		}
		for _, c := range x.packs.Contexts {
			if c.First != "" && slices.Contains(c.Over, h.text.Cases[0]) {
				moved := append([]Answer{x.answer(x.cases[c.First], h, "", Likely, surroundings{})}, answers...)
				if x.apart(moved) == "" {
					t.Errorf("nothing tells %q apart, with %s first: %.80q", h.text.Cases, c.First, h.text.Patterns)
				}
			}
		}
	}
	r := x.Explain("libcudnn.so.9: cannot open shared object file: No such file or directory")
	if !strings.Contains(r.Apart, "find / -name 'libcudnn*.so*'") {
		t.Errorf("got %q", r.Apart)
	}
	if r := x.Explain("CUDA out of memory"); r.Apart != "" {
		t.Errorf("one cause, and %q", r.Apart)
	}
}

// TestContext: other lines and other words of a text decide which cause of a line is likeliest.
// Such an answer is not certain.
func TestContext(t *testing.T) {
	x := explainer(t)
	const driver = "RuntimeError: Found no NVIDIA driver on your system."
	for text, want := range map[string]string{
		driver: "driver-not-mounted",
		driver + "\nThe command '/bin/sh -c python3 setup.py install' returned a non-zero code: 1":               "build-without-gpu",
		"Step 4/9 : RUN make\n ---> Running in 1f3a\n" + driver:                                                  "build-without-gpu",
		"ERROR: onnxruntime-1.1.1-cp36-cp36m-manylinux1_x86_64.whl is not a supported wheel on this platform.":   "wrong-python",
		"alpine:3.9\nERROR: a-1.1.1-cp36-cp36m-manylinux1_x86_64.whl is not a supported wheel on this platform.": "musl-image",
		"unknown flag: --file\nSee 'docker --help'.":                                                             "buildx-absent",
		"error: unknown flag: --file\nSee 'kubectl create --help'.":                                              "option-unknown",
		"helm upgrade web ./chart --tag 1\nError: unknown flag: --tag":                                           "option-unknown",
		"Loaded runtime CuDNN library: 8.1.1 but source was compiled with: 8.6.0.":                               "release-older-than-built-for",
		"Loaded runtime CuDNN library: 7.6.5 but source was compiled with: 8.6.0.":                               "other-major",
		"Found cuDNN version 8902, but JAX was built against version 90100":                                      "other-major",
		"Found cuDNN version 90000, but JAX was built against version 90100":                                     "release-older-than-built-for",
	} {
		answers := x.Explain(text).Answers
		if len(answers) == 0 || answers[0].Case != want || answers[0].Confidence == Certain {
			t.Errorf("%q: want %s, got %+v", text, want, answers)
		}
	}
}

// TestBadPacks: New refuses packs with mistakes.
func TestBadPacks(t *testing.T) {
	for text, want := range map[string]string{
		"contexts: [{words: [[w]], over: [none], first: other}]":                              `context "other": there is no case "other"`,
		"looks: [{among: [none, other], look: l}]":                                            `look "l": there is no case "none"`,
		"texts: [{patterns: [something], cases: [none]}]":                                     `text "something": there is no case "none"`,
		"cases: [{id: a, rule: none, class: c, visible: 'no'}]":                               `case "a": there is no rule "none"`,
		"cases:\n- &a {id: a, title: t, doc: d, sources: [s], class: c, visible: 'no'}\n- *a": `case "a" is defined twice`,
	} {
		set, err := packs.LoadPacks(fstest.MapFS{"x.yaml": {Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(set); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestJSON checks results with the published schema.
func TestJSON(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/schema/explain-1.json")
	if err != nil {
		t.Fatal(err)
	}
	x := explainer(t)
	texts := []string{"nothing that is known", "executable stack of the shared object", "\xff: libGL.so.1: cannot open shared object file"}
	for _, r := range reports(t) {
		texts = append(texts, r.Text)
	}
	layer := &replay.LayerRef{Index: 2, CreatedBy: "RUN x"}
	for _, text := range texts {
		var b bytes.Buffer
		r := x.Explain(text)
		x.InImage(r, "app", []lint.Finding{{Rule: "missing-library", Severity: packs.Error, Message: text, NeededBy: []replay.File{{Path: "/x", Layer: layer}}}})
		if err := r.JSON(&b); err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(&b)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestText: the text is safe for a terminal, whatever is in the log.
func TestText(t *testing.T) {
	var b bytes.Buffer
	r := explainer(t).Explain("\x1b]0;title\x07 \x9b libGL.so.1: cannot open shared object file: \x1b[2J No such file\r")
	if len(r.Answers) == 0 {
		t.Fatal("no answer")
	}
	if err := r.Text(&b, 0); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.ContainsAny(s, "\x1b\x07\r\x00") || !utf8.ValidString(s) {
		t.Errorf("got %q", s)
	}
}

// TestFixOfEach: the text has the first fixes of each answer, more of the first one.
func TestFixOfEach(t *testing.T) {
	var b bytes.Buffer
	r := explainer(t).Explain("libcudart.so.12: cannot open shared object file: No such file or directory")
	if err := r.Text(&b, 0); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(b.String(), "\npossible: ")
	if len(parts) != len(r.Answers) || len(parts) < 3 {
		t.Fatalf("%d answers in\n%s", len(parts), b.String())
	}
	for i, part := range parts {
		for j, fix := range r.Answers[i].Fixes {
			if got, want := strings.Contains(part, fix), j < maxOthersFixes || i == 0 && j < maxFixes; got != want {
				t.Errorf("answer %d: fix %q is there: %t", i+1, fix, got)
			}
		}
	}
}

// TestFiller: the text leaves out captures that match anything, because they say nothing.
func TestFiller(t *testing.T) {
	var b bytes.Buffer
	r := explainer(t).Explain("Loaded runtime CuDNN library: 8.5.0 but source was compiled with: 8.6.0.")
	if err := r.Text(&b, 0); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); !strings.Contains(s, "\n  version    8.6.0\n") || strings.Contains(s, "\n  text ") {
		t.Errorf("got:\n%s", s)
	}
}

// FuzzExplain states that a line in front changes only the line numbers, that these are
// lines of the text, and that results can be written.
func FuzzExplain(f *testing.F) {
	x := explainer(f)
	for _, r := range reports(f) {
		f.Add(r.Text)
	}
	f.Add("Loaded runtime CuDNN library: but source was compiled with: ")
	f.Add("undefined symbol: \nundefined symbol: a")
	f.Add(" RuntimeError: library libcudnn not found " + strings.Repeat("F", 2*maxLine))
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<14 {
			return
		}
		a, b := x.Explain(s), x.Explain("ok.\n"+s)
		if len(a.Answers) != len(b.Answers) {
			t.Fatalf("%v, with a line in front %v", caseIDs(a), caseIDs(b))
		}
		lines := strings.Count(s, "\n") + 1
		for i := range a.Answers {
			x, y := a.Answers[i], b.Answers[i]
			y.Line--
			if fmt.Sprint(x) != fmt.Sprint(y) {
				t.Fatalf("%v, with a line in front %v", x, y)
			}
			if x.Line < 1 || x.Line > lines || !utf8.ValidString(x.Text) {
				t.Fatalf("line %d of %d: %q", x.Line, lines, x.Text)
			}
		}
		if _, err := json.Marshal(a); err != nil {
			t.Fatal(err)
		}
	})
}

// BenchmarkLog explains 1 MB of log with a cause at its end.
func BenchmarkLog(b *testing.B) {
	x := explainer(b)
	innocent := read(b, "innocent.log")
	log := strings.Repeat(innocent, 1<<20/len(innocent)+1)[:1<<20] + "\nlibcudnn.so.9: cannot open shared object file: No such file or directory\n"
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if len(x.Explain(log).Answers) == 0 {
			b.Fatal("no answer")
		}
	}
}

// BenchmarkHostile explains 1 MB of errors.
func BenchmarkHostile(b *testing.B) {
	x := explainer(b)
	var one strings.Builder
	for _, r := range reports(b) {
		one.WriteString(r.Text)
		one.WriteByte(' ')
	}
	log := strings.Repeat(one.String(), 1<<20/one.Len()+1)[:1<<20]
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		x.Explain(log)
	}
}
