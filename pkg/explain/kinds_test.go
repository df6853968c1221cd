package explain

import "testing"

// TestKinds has a message of each kind that the fourth draw of reports showed as weak: limits of
// containers on processes and memory, build scripts, Java, video, models. They are the programs'
// own words, with other names.
func TestKinds(t *testing.T) {
	x := explainer(t)
	for text, want := range map[string]string{
		// torch/cuda/__init__.py, multiprocessing/spawn.py
		"RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method": "fork-after-cuda",
		"An attempt has been made to start a new process before the current process has finished its bootstrapping phase.":                      "main-not-guarded",
		// opal/mca/btl/vader/btl_vader_get.c, uct/sm/scopy/cma/cma_ep.c, gdb/nat/linux-ptrace.c
		"[node7:00041] Read -1, expected 8192, errno = 1":                                                                         "process-memory-forbidden",
		"cma_ep.c:84 UCX ERROR process_vm_readv(pid=41 {0x1,64}-->{0x2,64}) returned -1: Operation not permitted":                 "process-memory-forbidden",
		"ptrace: Operation not permitted.":                                                                                        "process-memory-forbidden",
		"set_mempolicy: Operation not permitted":                                                                                  "system-call-forbidden",
		"mpirun has detected an attempt to run as root.":                                                                          "mpi-as-root",
		"There are not enough slots available in the system to satisfy the 8 slots that were requested by the application":        "mpi-slots",
		"mlx5: node7: ibv_create_cq(cqe=4096) failed: Cannot allocate memory : Please check max locked memory (ulimit -l) limits": "memory-not-lockable",
		"==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters":                "counters-forbidden",
		"FATAL: kernel too old": "kernel-too-old",
		// libnvidia-container, src/driver.c
		"nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory": "toolkit-finds-no-driver",
		// google/protobuf/descriptor.py, runtime_version.py
		"TypeError: Descriptors cannot be created directly.":                                                                          "protobuf-apart",
		"ImportError: cannot import name 'runtime_version' from 'google.protobuf' (/x/__init__.py)":                                   "protobuf-apart",
		"java.lang.NoSuchMethodError: com.acme.Jar.open(Ljava/lang/String;)V":                                                         "java-jars-apart",
		"java.lang.NoClassDefFoundError: com/acme/Part\nlibcudart.so.11.0: cannot open shared object file: No such file or directory": "other-cuda",
		"Caused by: java.lang.UnsatisfiedLinkError: acme/Libacme.so:Libcudnn.so.8:cannotopen:sharedobjectfile":                        "missing-library",
		// numba/cuda/cudadrv/nvvm.py
		"NvvmSupportError: libNVVM cannot be found. Do `conda install cudatoolkit`:": "numba-toolkit-missing",
		"ModuleNotFoundError: No module named 'mmcv._ext'":                           "mmcv-without-operators",
		// dmlc/decord, cmake/modules/CUDA.cmake; FFmpeg, configure
		"Cannot find libnvcuvid, you may need to manually register and download at":          "video-library-at-build",
		"ERROR: cuvid requested, but not all dependencies are satisfied: ffnvcodec":          "video-library-at-build",
		"thread 'main' panicked at build.rs:9:1:\nFailed to get compute cap: Os { code: 2 }": "build-without-gpu",
		// sharp, lib/sharp.js
		"Could not load the \"sharp\" module using the linux-x64 runtime\nUnsupported CPU: Prebuilt binaries for linux-x64 require v2 microarchitecture": "cpu-too-old",
		"Could not load the \"sharp\" module using the linux-x64 runtime":                                                                                "node-other-platform",
		// bitsandbytes, cuda_setup/main.py
		"CUDA SETUP: Required library version not found: libbitsandbytes_cuda117_nocublaslt.so. Maybe you need to compile it from source?": "build-not-there",
		"ImportError: /x/libcudf.so: undefined symbol: _ZN3rmm2mr3getEv":                                                                   "mixed-releases",
		// ptxas itself, and the driver's compiler
		"ptxas fatal : Unsupported .version 8.8; current version is '8.4'":                                "ptxas-older-than-ptx",
		"ptxas /tmp/acme.ptx, line 5; fatal : Unsupported .version 8.8; current version is '8.4'":         "ptxas-older-than-ptx",
		"ptxas application ptx input, line 9; fatal : Unsupported .version 7.8; current version is '7.4'": "ptx-too-new",
		"FATAL: could not load library acme.so : undefined symbol : acme_open":                            "undefined-symbol",
		"gguf_init_from_file: invalid magic characters 'vers'":                                            "model-file-damaged",
		// A command, joined with the next line, is no advice.
		"$ pip install acme-attn --no-build-isolation --upgrade\nDefaulting to user installation because normal site-packages is not writeable\nImportError: /x/acme_cuda.so: undefined symbol: _ZNK3c1017SymbolicShapeMeta18init_is_contiguousEv": "torch-extension-mismatch",
	} {
		if got := caseIDs(x.Explain(text)); len(got) == 0 || got[0] != want {
			t.Errorf("%s\n got %v, want %s", text, got, want)
		}
	}
}

// TestEngineTag wants both causes of a file without TensorRT's tag.
func TestEngineTag(t *testing.T) {
	got := caseIDs(explainer(t).Explain("Serialization assertion magicTagRead == kMAGIC_TAG failed.Magic tag does not match"))
	if len(got) < 2 || got[0] != "model-for-other-release" || got[1] != "not-an-engine" {
		t.Errorf("got %v", got)
	}
}

// TestWarningsThatAreQuiet has lines that name GPU programs and report no fault.
func TestWarningsThatAreQuiet(t *testing.T) {
	x := explainer(t)
	for _, text := range []string{
		"WARNING 01-02 [config.py:7] torch tensors are expected in another order; please set --order instead of --sort",
		"and will be removed in a future release of torch. Use torchrun instead.",
		"I0102 nvc_info.c:173] selecting /usr/lib/x86_64-linux-gnu/libnvoptix.so.525.60.13",
		"WARN [main] groovy.runtime.Acme - Unable to load extension class [org.acme.Methods]",
		"If you encounter any problems, please downgrade to acme version 3.13.0",
		"app crashed : node:internal/errors:465 ErrorCaptureStackTrace(err); ^ imported from /x/server/index.js",
	} {
		if a := x.Explain(text).Answers; len(a) > 0 {
			t.Errorf("%s\n got %s", text, a[0].Case)
		}
	}
	for _, text := range []string{
		"WARNING: torch: GPU not found",
		"UserWarning: You are using GPU version Paddle, but your CUDA device is not set properly. CPU device will be used by default.",
	} {
		if len(x.Explain(text).Answers) == 0 {
			t.Errorf("%s: no answer", text)
		}
	}
}
