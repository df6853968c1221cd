package explain

import "testing"

// TestUnwrap: the same error has the same first answer in whatever a terminal, a log, JSON or
// Markdown puts around it, and if an end of it was cut off.
func TestUnwrap(t *testing.T) {
	x := explainer(t)
	for text, want := range map[string]string{
		`{"log":"ImportError: libGL.so.1: cannot open shared object file: No such file or directory\n","stream":"stderr"}`:                          "missing-system-library",
		`{"msg":"{\"error\":\"exec: \\\"nvidia-smi\\\": executable file not found in $PATH\"}"}`:                                                    "driver-not-mounted",
		`\u001b[31mRuntimeError: CUDA error: no kernel image is available for execution on the device\u001b[0m`:                                     "gpu-not-supported",
		"#033[1mversion &#39;GLIBC_2.38&#39; not found (required by /x/y.so)":                                                                       "version-not-found",
		"/lib/libc.so.6: version ‘GLIBC_2.38’ not found (required by /x/y.so)":                                                                      "version-not-found",
		`\[E:onnxruntime\] Failed to load library libonnxruntime\_providers\_cuda.so with error: libcublasLt.so.12: cannot open shared object file`: "other-cuda",
		"Error: undefined symbol: **_ZN3c104cuda9SetDeviceEi**":                                                                                     "torch-extension-mismatch",
		"unsatisfied condition: cuda&gt;=12.4, please update your driver":                                                                           "driver-too-old",
		"RuntimeError: CUDA  error:\tno kernel image is   available for execution on the device\r\nmore\r\n":                                        "gpu-not-supported",
		"50%|█████\rCUDA out of memory":                                                                                                             "gpu-out-of-memory",
		"RuntimeError: CUDA error: no kernel image is available\n    for execution on the device":                                                   "gpu-not-supported",
		"container init caused: nvidia-container-cli: requirement error: unsatisfied condi\ntion: cuda >= 9.0":                                      "driver-too-old",
		"OSError: libGL.so.1: cannot open shared object\nfile: No such file or directory":                                                           "missing-system-library",
		"ImportError: libGL.so.1: cannot open shared obj":                                                                                           "missing-system-library",
		"RuntimeError: The NVIDIA driver on your system is too ol…":                                                                                 "driver-too-old",
		"...ver version is insufficient for CUDA runtime version":                                                                                   "driver-too-old",
		"...ver version is insufficient for CUDA runtime ver...":                                                                                    "driver-too-old",
		`LoadLibrary failed with error 126 "" when trying to load "D:\new\table\libs\onnxruntime_providers_cuda.dll"`:                               "windows-cuda-dll",
		`File "C:\nvidia\runtime\x.py": CUDA out of memory`:                                                                                         "gpu-out-of-memory",
		"time=\"2025-01-01\" level=error msg=\"could not select device driver \\\"\\\" with capabilities: [[gpu]]\"":                                "toolkit-not-set-up",
	} {
		if got := caseIDs(x.Explain(text)); len(got) == 0 || got[0] != want {
			t.Errorf("%q: got %v, want %s", text, got, want)
		}
	}
}

// TestPartIsNotCertain: a part of a pattern, and a line that speaks of an error, are not
// certain.
func TestPartIsNotCertain(t *testing.T) {
	x := explainer(t)
	for text, want := range map[string]Confidence{
		"CUDA out of memory":                                                             Certain,
		"How to avoid CUDA out of memory":                                                Likely,
		"CUDA out of memory is handled by a retry":                                       Likely,
		"fixes: CUDA out of memory":                                                      Likely,
		"no kernel image is available for execut...":                                     Likely,
		"CUDA error: no kernel image is available for\nexecution on the device":          Certain,
		"the error 'no kernel image is available for execution on the device' was fixed": Likely,
	} {
		r := x.Explain(text)
		if len(r.Answers) == 0 || r.Answers[0].Confidence != want {
			t.Errorf("%q: %+v", text, r.Answers)
		}
	}
	for _, text := range []string{"device not found: the requested device is not available", "...", "… and so on …", "cannot open", "\\", `\u12`, "&amp;"} {
		if got := caseIDs(x.Explain(text)); len(got) > 0 {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
