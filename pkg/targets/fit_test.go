package targets

import (
	"path"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

func group(n uint32, entries ...gpucode.Entry) gpucode.Group {
	return gpucode.Group{Section: gpucode.FatbinSection, Containers: n, Entries: entries}
}

func isa(e gpucode.Entry, v gpucode.ISA) gpucode.Entry {
	e.ISA = v
	return e
}

// sized returns a group whose containers have a size.
func sized(bytes int64, g gpucode.Group) gpucode.Group {
	g.Bytes = bytes * int64(g.Containers)
	return g
}

// TestNotLaunched has containers that do not decide: without a kernel, for linking, and for a
// Jetson in a library that chooses.
func TestNotLaunched(t *testing.T) {
	link := group(1, sass(70, 0), sass(80, 0), ptx(90, 0))
	link.Section = gpucode.RelocatableSection
	runtime := group(1, sass(50, 0), sass(70, 0), sass(90, 0), ptx(90, 0)) // CUDA's device runtime
	runtime.Section = gpucode.RelocatableSection
	ir := gpucode.Entry{Kind: gpucode.IR, Arch: 80, Count: 1}
	allMajor := group(1, sass(50, 0), sass(80, 0), isa(ptx(90, 0), 8<<8|4))
	for _, tt := range []struct {
		name   string
		groups []gpucode.Group
		arch   uint32
		want   Outcome
	}{
		{"all-major", []gpucode.Group{sized(9000, allMajor), sized(1900, group(1, sass(50, 0), sass(80, 0)))}, 100, FitsByJIT},
		{"all-major", []gpucode.Group{sized(9000, allMajor), sized(5200, group(1, sass(50, 0), sass(80, 0)))}, 100, FitsPartly},
		{"all-major", []gpucode.Group{sized(9000, allMajor), sized(1900, group(1, sass(50, 0), sass(80, gpucode.LZ4)))}, 100, FitsPartly},
		{"stub alone", []gpucode.Group{sized(1900, group(1, sass(50, 0), sass(80, 0)))}, 100, NoCode},
		{"libcusparse.so.12", []gpucode.Group{group(34, sass(80, 0), ptx(80, 0), ir), group(130, sass(80, 0), sass(100, 0))}, 90, NoCode},
		{"libcufft.so.11", []gpucode.Group{group(300, sass(75, 0)), group(150, sass(72, 0))}, 75, Fits},
		{"libother.so", []gpucode.Group{group(300, sass(75, 0)), group(150, sass(72, 0))}, 75, Unsure},
		{"libnccl.so.2", []gpucode.Group{link, group(1, sass(70, 0), sass(80, 0))}, 100, Unsure},
		{"libnccl.so.2", []gpucode.Group{link, group(1, sass(70, 0), sass(80, 0))}, 60, NoCode},
		{"ptx75", []gpucode.Group{runtime, group(1, ptx(75, 0))}, 70, NoCode},
		{"ptx90a", []gpucode.Group{runtime, group(1, ptx(90, gpucode.Specific))}, 100, NoCode},
	} {
		got, ok := Known().Fit(tt.name, &gpucode.Code{Groups: tt.groups}, Machine{Arch: tt.arch}, Settings{})
		if !ok || got.Outcome != tt.want {
			t.Errorf("%s on %d: got %+v, want %s", tt.name, tt.arch, got, tt.want)
		}
	}
}

// TestFit has libraries as they are, and machines for which they are and are not made.
func TestFit(t *testing.T) {
	const z, a = gpucode.Zstd, gpucode.Specific
	torch := []gpucode.Group{group(444, sass(75, 0), sass(80, 0), sass(86, 0), sass(90, 0), sass(100, 0), sass(120, 0)), group(4, sass(90, a)), group(59, sass(100, a), sass(103, a))}
	lt := []gpucode.Group{group(145, sass(80, 0), sass(90, 0)), group(125, sass(70, 0), sass(80, 0)), group(311, sass(90, 0))}
	solver := []gpucode.Group{group(223, sass(80, 0), sass(100, 0), ptx(121, 0)), group(3, sass(80, 0), sass(100, 0), ptx(80, 0))}
	zstd := []gpucode.Group{group(10, sass(80, z), sass(90, z))}
	newPTX := []gpucode.Group{group(10, sass(80, 0), isa(ptx(80, 0), 9<<8))}
	ext := []gpucode.Group{group(9, sass(75, 0), sass(80, 0)), group(3, sass(80, 0), sass(90, 0))}
	for _, tt := range []struct {
		name   string
		groups []gpucode.Group
		arch   uint32
		driver string
		s      Settings
		want   Outcome
		lack   int
		needs  string
	}{
		{"libtorch_cuda.so", torch, 90, "", Settings{}, Fits, 0, ""},
		{"libtorch_cuda.so", torch, 89, "580", Settings{}, Fits, 0, ""},
		{"libtorch_cuda.so", torch, 121, "", Settings{}, Fits, 0, ""},
		{"libtorch_cuda.so", torch, 70, "", Settings{}, NoCode, 444, ""},
		{"libtorch_cuda.so", torch, 90, "", Settings{ForceJIT: true}, NoCode, 444, ""},
		{"libtorch_cuda.so", torch, 90, "", Settings{DisableJIT: true}, Fits, 0, ""},
		{"libcublasLt.so.12", lt, 70, "", Settings{}, Fits, 145, ""},
		{"libcublasLt.so.12", lt, 60, "", Settings{}, NoCode, 270, ""},
		{"libcusolver.so.12", solver, 90, "", Settings{}, NoCode, 223, "450"},
		{"libother.so", solver, 90, "", Settings{}, FitsPartly, 223, "450"},
		{"libext.so", ext, 75, "", Settings{}, FitsPartly, 3, ""},
		{"libext.so", ext, 80, "", Settings{}, Fits, 0, ""},
		{"libext.so", ext, 87, "", Settings{}, Unsure, 0, ""},
		{"libz.so", zstd, 89, "550.54.14", Settings{}, Fits, 0, "550.54.14"},
		{"libz.so", zstd, 89, "550", Settings{}, Fits, 0, "550.54.14"},
		{"libz.so", zstd, 89, "550.40", Settings{}, NoZstd, 10, "550.54.14"},
		{"libz.so", zstd, 89, "535.183.01", Settings{}, NoZstd, 10, "550.54.14"},
		{"libptx.so", newPTX, 90, "580", Settings{}, FitsByJIT, 0, "580"},
		{"libptx.so", newPTX, 90, "570.86", Settings{}, PTXTooNew, 10, "580"},
		{"libptx.so", newPTX, 86, "570.86", Settings{}, Fits, 0, ""},
		{"libptx.so", newPTX, 90, "580", Settings{DisableJIT: true}, JITOff, 10, "580"},
		{"libptx.so", newPTX, 75, "580", Settings{}, NoCode, 0, ""},
	} {
		for i := range tt.groups {
			for k := range tt.groups[i].Entries {
				if e := &tt.groups[i].Entries[k]; e.Kind == gpucode.PTX && e.ISA == 0 {
					e.ISA = 7 << 8
				}
			}
		}
		f, ok := Known().Fit(tt.name, &gpucode.Code{Groups: tt.groups}, Machine{Arch: tt.arch, Driver: tt.driver}, tt.s)
		if !ok || f.Outcome != tt.want || f.Lack != tt.lack || f.Driver != tt.needs {
			t.Errorf("%s on %d, driver %q, %+v: got %+v, want %s, %d, %q", tt.name, tt.arch, tt.driver, tt.s, f, tt.want, tt.lack, tt.needs)
		}
	}
	future := &gpucode.Code{Groups: []gpucode.Group{{Section: gpucode.FatbinSection, Containers: 1, Entries: []gpucode.Entry{{Kind: gpucode.PTX, Arch: 80, ISA: 99<<8 | 9, Count: 1}}}}}
	for driver, want := range map[string]Outcome{"": FitsByJIT, "580.95": PTXTooNew, "9999": FitsByJIT} {
		if f, _ := Known().Fit("a", future, Machine{Arch: 90, Driver: driver}, Settings{}); f.Outcome != want {
			t.Errorf("PTX 99.9 and driver %q: %s, want %s", driver, f.Outcome, want)
		}
	}
	part := &gpucode.Code{Groups: torch, Partial: "cut"}
	if f, _ := Known().Fit("libtorch_cuda.so", part, Machine{Arch: 70}, Settings{}); f.Outcome != Unsure {
		t.Errorf("a file that was not read whole: %s", f.Outcome)
	}
	if _, ok := Known().Fit("k.fatbin", &gpucode.Code{Form: gpucode.Fatbin, Groups: torch}, Machine{Arch: 70}, Settings{}); ok {
		t.Error("a fatbin by itself has a verdict")
	}
}

// TestEffects compares effects with the texts of processes whose libraries had no code.
func TestEffects(t *testing.T) {
	for _, tt := range []struct {
		library, with, framework, error string
		weight                          Weight
	}{
		{"libtorch_cuda.so", "", "torch", "CUDA error: no kernel image is available for execution on the device", Certain},
		{"libtorch_cuda_linalg.so", "", "torch", "CUDA error: no kernel image is available for execution on the device", Some},
		{"libcublasLt.so.13", "", "torch", "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate(handle)`", Certain},
		{"libcublas.so.13", "", "cupy", "CUSOLVERError: CUSOLVER_STATUS_INTERNAL_ERROR", Certain},
		{"libcublas.so.13", "", "llama.cpp", "CUBLAS_STATUS_EXECUTION_FAILED", Certain},
		{"libcublas.so.13", "", "jax", "", Harmless},
		{"libcudnn_ops.so.9", "", "torch", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED_CUDART", Certain},
		{"libcudnn_engines_runtime_compiled.so.9", "", "torch", "", Harmless},
		{"libcudnn.so.8", "", "torch", "GET was unable to find an engine to execute this computation", Certain},
		{"libcusolver.so.12", "", "torch", "cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED", Certain},
		{"libcusparse.so.12", "", "jax", "operation gpusparseCreate(&handle) failed: initialization error", Certain},
		{"libnccl.so.2", "", "torch", "CUDA error: no kernel image is available for execution on the device", Some},
		{"_C.so", "", "torch", "CUDA error: no kernel image is available for execution on the device", Certain},
		{"libggml-cuda.so", "", "llama.cpp", "no kernel image is available for execution on the device", Certain},
	} {
		j := judged(tt.library)
		Known().meet(j, Process{Framework: tt.framework}, []*Judged{j})
		got := ""
		if len(j.Effects) > 0 {
			got = j.Effects[0].Error
		}
		if got != tt.error || j.Weight != tt.weight {
			t.Errorf("%s in %s: %+v, want %q, weight %d", tt.library, tt.framework, j, tt.error, tt.weight)
		}
	}
	all := []*Judged{judged("libcudnn_engines_precompiled.so.9"), judged("libcudnn_engines_runtime_compiled.so.9")}
	for n, want := range map[int]string{1: "convolutions of PyTorch fail, but for those that cuDNN compiles an engine for", 2: "convolutions of PyTorch fail"} {
		j := judged(path.Base(all[0].Path))
		if Known().meet(j, Process{Framework: "torch"}, all[:n]); len(j.Effects) != 1 || j.Effects[0].Effect != want {
			t.Errorf("%d kinds of engines: %+v, want %q", n, j.Effects, want)
		}
	}
	m := Machine{Driver: "550.54"}
	if s := Known().TooOldFor("torch", m); s.Error != "The NVIDIA driver on your system is too old (found version 12040)" {
		t.Error(s)
	}
	if s := Known().TooOldFor("jax", m); s.Error != "CUDA driver version is insufficient for CUDA runtime version" {
		t.Error(s)
	}
}

// judged returns a library without code for the machine.
func judged(library string) *Judged {
	return &Judged{Path: "/x/" + library, Fit: Fit{Outcome: NoCode}, Weight: Harmless}
}
