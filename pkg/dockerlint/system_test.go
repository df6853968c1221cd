package dockerlint_test

import (
	"slices"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// TestSystemOfBase: the files of a base image go before its tag.
func TestSystemOfBase(t *testing.T) {
	k := knowledge(t)
	files := func(names ...string) map[string]bool {
		m := map[string]bool{"libc.so.6": true}
		for _, n := range names {
			m[n] = true
		}
		return m
	}
	for name, c := range map[string]struct {
		text  string
		files map[string]bool
		want  packs.Severity // of rule
		rule  string
	}{
		"musl":                  {"FROM example.com/a\nRUN pip install torch==2.6.0\n", map[string]bool{"ld-musl-x86_64.so.1": true}, packs.Error, "package-unfit-for-system"},
		"musl with glibc":       {"FROM example.com/a\nRUN pip install torch==2.6.0\n", files("ld-musl-x86_64.so.1", "ld-linux-x86-64.so.2"), "", "package-unfit-for-system"},
		"musl, and gcompat":     {"FROM example.com/a\nRUN apk add gcompat && pip install torch==2.6.0\n", map[string]bool{"ld-musl-x86_64.so.1": true}, packs.Note, "package-unfit-for-system"},
		"glibc in alpine's tag": {"FROM python:3.12-alpine\nRUN pip install torch==2.6.0\n", files("ld-linux-x86-64.so.2"), "", "package-unfit-for-system"},
		"no libGL":              {"FROM example.com/a\nRUN pip install opencv-python\n", files(), packs.Error, "package-unfit-for-system"},
		"libGL of the base":     {"FROM python:3.12-slim\nRUN pip install opencv-python\n", files("libGL.so.1"), "", "package-unfit-for-system"},
		"libGL by a package":    {"FROM example.com/a\nRUN apt-get update && apt-get install -y libgl1\nRUN pip install opencv-python\n", files(), "", "package-unfit-for-system"},
		"libGL, perhaps":        {"FROM example.com/a\nRUN apt-get update && apt-get install -y ffmpeg\nRUN pip install opencv-python\n", files(), packs.Note, "package-unfit-for-system"},
		"headless beside":       {"FROM example.com/a\nRUN pip install opencv-python opencv-python-headless\n", files(), "", "package-unfit-for-system"},
		"headless after":        {"FROM example.com/a\nRUN pip install opencv-python && pip uninstall -y opencv-python\n", files(), "", "package-unfit-for-system"},
		"no nvcc":               {"FROM example.com/a\nRUN pip install flash-attn==2.5.8\n", files(), packs.Error, "build-needs-compiler"},
		"nvcc of the base":      {"FROM example.com/a\nRUN pip install flash-attn==2.5.8\n", files("nvcc"), "", "build-needs-compiler"},
		"nvcc before":           {"FROM example.com/a\nRUN apt-get update && apt-get install -y cuda-nvcc-12-4\nRUN pip install flash-attn==2.5.8\n", files(), "", "build-needs-compiler"},
		"without nvcc":          {"FROM example.com/a\nENV FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE\nRUN pip install flash-attn==2.5.8\n", files(), "", "build-needs-compiler"},
		"a wheel":               {"FROM example.com/a\nRUN pip install https://example.com/flash_attn-2.5.8+cu122torch2.3cxx11abiFALSE-cp310-cp310-linux_x86_64.whl\n", files(), "", "build-needs-compiler"},
		"another index":         {"FROM example.com/a\nRUN pip install flash-attn --extra-index-url https://example.com/simple\n", files(), "", "build-needs-compiler"},
		"not for CUDA":          {"FROM example.com/a\nRUN pip install llama-cpp-python==0.2.90\n", files(), "", "build-needs-compiler"},
		"for CUDA":              {"FROM example.com/a\nRUN CMAKE_ARGS=-DGGML_CUDA=on pip install llama-cpp-python==0.2.90\n", files(), packs.Error, "build-needs-compiler"},
		"no compiler":           {"FROM example.com/a\nRUN pip install sglang\n", files(), packs.Warning, "package-unfit-for-system"},
		"compiler of the base":  {"FROM example.com/a\nRUN pip install sglang\n", files("gcc"), "", "package-unfit-for-system"},
		"compiler recommended":  {"FROM example.com/a\nRUN apt-get update && apt-get install -y python3-pip\nRUN pip install sglang\n", files(), "", "package-unfit-for-system"},
		"stack, old glibc":      {"FROM python:3.10-slim-bookworm\nRUN pip install ctranslate2==4.5.0\n", files(), "", "package-unfit-for-system"},
		"stack":                 {"FROM python:3.10-slim-trixie\nRUN pip install ctranslate2==4.5.0\n", files(), packs.Error, "package-unfit-for-system"},
		"stack, mended":         {"FROM python:3.10-slim-trixie\nRUN pip install ctranslate2==4.6.0\n", files(), "", "package-unfit-for-system"},
		"a tag that is there":   {"FROM nvidia/cuda:10.2-base-ubuntu18.04\nRUN pip install a\n", files(), "", "base-absent"},
		"stubs, for a stage":    {"FROM example.com/a AS b\nENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs\nFROM example.com/a\nCOPY --from=b /a /a\n", files(), "", "stubs-in-library-path"},
		"stubs, for a while":    {"FROM example.com/a\nENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs\nENV LD_LIBRARY_PATH=/usr/local/cuda/lib64\n", files(), "", "stubs-in-library-path"},
		"stubs":                 {"FROM example.com/a\nENV LD_LIBRARY_PATH=/a:/usr/local/cuda-12.4/lib64/stubs\n", files(), packs.Warning, "stubs-in-library-path"},
		"capabilities":          {"FROM example.com/a\nENV NVIDIA_DRIVER_CAPABILITIES compute,utility\nCMD ffmpeg -i a -c:v h264_nvenc b\n", files(), packs.Warning, "driver-part-missing"},
		"all capabilities":      {"FROM example.com/a\nENV NVIDIA_DRIVER_CAPABILITIES all\nCMD ffmpeg -i a -c:v h264_nvenc b\n", files(), "", "driver-part-missing"},
		"no capabilities":       {"FROM example.com/a\nCMD ffmpeg -i a -c:v h264_nvenc b\n", files(), "", "driver-part-missing"},
		"pip of Ubuntu 24.04":   {"FROM nvidia/cuda:12.6.3-runtime-ubuntu24.04\nRUN apt-get update && apt-get install -y python3-pip\nRUN pip3 install numpy\n", files(), packs.Error, "pip-refuses"},
		"its python":            {"FROM debian:12-slim\nRUN apt-get update && apt-get install -y python3-pip\nRUN python3 -m pip install -U pip\n", files(), packs.Error, "pip-refuses"},
		"allowed":               {"FROM ubuntu:24.04\nRUN apt-get update && apt-get install -y python3-pip\nRUN pip3 install --break-system-packages numpy\n", files(), "", "pip-refuses"},
		"allowed by a variable": {"FROM ubuntu:24.04\nENV PIP_BREAK_SYSTEM_PACKAGES=1\nRUN apt-get update && apt-get install -y python3-pip\nRUN pip3 install numpy\n", files(), "", "pip-refuses"},
		"in an environment":     {"FROM ubuntu:24.04\nRUN apt-get update && apt-get install -y python3-venv\nRUN python3 -m venv /v && /v/bin/pip install numpy\n", files(), "", "pip-refuses"},
		"an environment's PATH": {"FROM ubuntu:24.04\nRUN apt-get update && apt-get install -y python3-venv && python3 -m venv /v\nENV PATH=/v/bin:$PATH\nRUN pip install numpy\n", files(), "", "pip-refuses"},
		"pip of Ubuntu 22.04":   {"FROM nvidia/cuda:12.6.3-runtime-ubuntu22.04\nRUN apt-get update && apt-get install -y python3-pip\nRUN pip3 install numpy\n", files(), "", "pip-refuses"},
		"Python's own image":    {"FROM python:3.12-slim-bookworm\nRUN apt-get update && apt-get install -y python3-dev\nRUN pip install numpy\n", files(), "", "pip-refuses"},
		"no libgomp":            {"FROM python:3.12-slim-bookworm\nRUN pip install lightgbm\n", files(), packs.Error, "package-unfit-for-system"},
		"libgomp":               {"FROM python:3.12-slim-bookworm\nRUN apt-get update && apt-get install -y libgomp1 && pip install lightgbm\n", files(), "", "package-unfit-for-system"},
		"no libsndfile":         {"FROM python:3.12-slim-bookworm\nRUN pip install soundfile==0.10.3.post1\n", files(), packs.Error, "package-unfit-for-system"},
		"soundfile's own":       {"FROM python:3.12-slim-bookworm\nRUN pip install soundfile==0.12.1\n", files(), "", "package-unfit-for-system"},
		"soundfile, any":        {"FROM python:3.12-slim-bookworm\nRUN pip install soundfile\n", files(), "", "package-unfit-for-system"},
		"mixed builds":          {"FROM example.com/a\nRUN pip install torch==2.6.0+cpu --extra-index-url https://download.pytorch.org/whl/cpu\nRUN pip install torchvision==0.21.0\n", files(), packs.Error, "wheels-do-not-fit"},
		"one index":             {"FROM example.com/a\nRUN pip install torch==2.6.0 torchvision==0.21.0 --index-url https://download.pytorch.org/whl/cpu\n", files(), "", "wheels-do-not-fit"},
		"one CUDA":              {"FROM example.com/a\nRUN pip install torch==2.6.0 --index-url https://download.pytorch.org/whl/cu126\nRUN pip install torchvision==0.21.0\n", files(), "", "wheels-do-not-fit"},
		"torch is replaced":     {"FROM example.com/a\nRUN pip install torch==2.5.0 --index-url https://download.pytorch.org/whl/cpu\nRUN pip install torchvision==0.21.0\n", files(), "", "wheels-do-not-fit"},
		"torch comes last":      {"FROM example.com/a\nRUN pip install torchvision==0.21.0\nRUN pip install torch==2.6.0 --index-url https://download.pytorch.org/whl/cpu\n", files(), "", "wheels-do-not-fit"},
	} {
		in := dockerlint.Input{Path: "Dockerfile", Text: []byte(c.text), Base: func(string, string) (*dockerlint.Base, string) {
			return &dockerlint.Base{CUDA: []string{"12"}, Files: c.files}, ""
		}}
		var got packs.Severity
		file := dockerlint.Lint(in, k)
		if i := slices.IndexFunc(file.Findings, func(f dockerlint.Finding) bool { return f.Rule == c.rule }); i >= 0 {
			got = file.Findings[i].Severity
		}
		if got != c.want {
			t.Errorf("%s: %q for %s, want %q: %v", name, got, c.rule, c.want, file.Findings)
		}
	}
}

// The libraries of CUDA that a base has, by its files, and those that packages of the system bring.
func TestParts(t *testing.T) {
	k := knowledge(t)
	all := []string{"libcublas.so.12", "libcufft.so.11", "libcurand.so.10", "libcusolver.so.11", "libcusparse.so.12", "libnvrtc.so.12"}
	for name, c := range map[string]struct {
		from, run string
		files     []string
		want      packs.Severity
	}{
		"all":                  {"example.com/a", "", all, ""},
		"one is absent":        {"example.com/a", "", all[:5], packs.Error},
		"by a package":         {"example.com/a", "RUN apt-get update && apt-get install -y cuda-nvrtc-12-4\n", all[:5], ""},
		"by all libraries":     {"example.com/a", "RUN apt-get update && apt-get install -y cuda-libraries-12-4\n", nil, ""},
		"by another package":   {"example.com/a", "RUN apt-get update && apt-get install -y libcublas-12-4\n", nil, packs.Note},
		"the tag of a runtime": {"nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04", "", nil, ""},
		"the tag of a base":    {"nvidia/cuda:12.4.1-base-ubuntu22.04", "", nil, packs.Error},
	} {
		base := &dockerlint.Base{CUDA: []string{"12"}, Files: map[string]bool{"libcudart.so.12": true}}
		for _, f := range c.files {
			base.Files[f] = true
		}
		in := dockerlint.Input{Path: "Dockerfile", Text: []byte("FROM " + c.from + "\n" + c.run + "RUN pip install cupy-cuda12x==13.3.0 numpy==1.26.4\n"), Base: func(string, string) (*dockerlint.Base, string) { return base, "" }}
		var got packs.Severity
		file := dockerlint.Lint(in, k)
		if i := slices.IndexFunc(file.Findings, func(f dockerlint.Finding) bool { return f.Rule == "wheel-needs-library" }); i >= 0 {
			got = file.Findings[i].Severity
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q: %v", name, got, c.want, file.Findings)
		}
	}
}

// TestAbsentBase: a registry that answers makes an error of an image that it does not have, if its
// publisher alone builds it.
func TestAbsentBase(t *testing.T) {
	k := knowledge(t)
	for ref, want := range map[string]map[bool]packs.Severity{
		"nvidia/cuda:12.8.1-cudnn8-devel-ubuntu22.04": {true: packs.Error, false: packs.Warning},

		"python:3.99-slim":                           {true: packs.Error, false: ""},
		"example.com/built-before:1":                 {true: "", false: ""},
		"nvidia/cuda:12.8.1-cudnn-devel-ubuntu22.04": {true: packs.Error, false: ""},
	} {
		for answers, severity := range want {
			in := dockerlint.Input{Path: "Dockerfile", Text: []byte("FROM " + ref + "\nRUN true\n"), Base: func(string, string) (*dockerlint.Base, string) { return nil, "no such image" }, Absent: func(string, string) bool { return answers }}
			var got packs.Severity
			for _, f := range dockerlint.Lint(in, k).Findings {
				if f.Rule == "base-absent" {
					got = f.Severity
				}
			}
			if got != severity {
				t.Errorf("%s, answers %v: %q, want %q", ref, answers, got, severity)
			}
		}
	}
}
