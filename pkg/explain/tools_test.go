package explain

import (
	"slices"
	"strings"
	"testing"
)

// firstIs checks the case of the first answers to texts.
func firstIs(t *testing.T, want map[string][]string) {
	t.Helper()
	x := explainer(t)
	for id, texts := range want {
		for _, text := range texts {
			if got := caseIDs(x.Explain(text)); len(got) == 0 || got[0] != id {
				t.Errorf("%s\n got %q, want %s first", text, got, id)
			}
		}
	}
}

// TestTools: messages of builders, clusters, servers and package managers, which are not about GPUs.
func TestTools(t *testing.T) {
	firstIs(t, map[string][]string{
		"setting-missing": {
			"File \"/usr/lib/python3.10/os.py\", line 680, in __getitem__\n    raise KeyError(key) from None\nKeyError: 'MODEL_PATH'",
			"pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings\nOPENAI_API_KEY\n  Field required [type=missing, input_value={}, input_type=dict]",
			"/entrypoint.sh: line 5: HF_HOME_DIR: unbound variable",
		},
		"user-without-name":           {"    return pwd.getpwuid(os.getuid())[0]\nKeyError: 'getpwuid(): uid not found: 1001'", "whoami: cannot find name for user ID 1000"},
		"application-not-found":       {"ERROR:    Error loading ASGI app. Could not import module \"main\"."},
		"refuses-root":                {"[C 12:00 NotebookApp] Running as root is not recommended. Use --allow-root to bypass.", "ERROR: This script must not be launched as root, aborting..."},
		"sound-missing":               {"OSError: [Errno -9996] Invalid input device (no default output device)"},
		"dockerfile-wrong":            {"failed to solve: dockerfile parse error on line 12: unknown instruction: APT-GET", "failed to solve: failed to parse stage name \"nvidia/cuda:-runtime-ubuntu22.04\": invalid reference format"},
		"compose-file-wrong":          {"external volume \"models\" not found", "invalid spec: :/models: empty section between colons", "Error response from daemon: Conflict. The container name \"/vllm\" is already in use by container \"3f2a\"."},
		"git-without-login":           {"fatal: could not read Username for 'https://github.com': No such device or address", "Host key verification failed.\nfatal: Could not read from remote repository."},
		"terms-not-accepted":          {"CondaToSNonInteractiveError: Terms of Service have not been accepted for the following channels.", "The NVIDIA Omniverse License Agreement (EULA) must be accepted before\nOmniverse Kit can start."},
		"sources-older-than-tools":    {"AttributeError: cython_sources", "error: casting `&T` to `&mut T` is undefined behavior, even if the reference is unused", "foo.cpp:12:5: error: 'uint32_t' was not declared in this scope", "Error: error:0308010C:digital envelope routines::unsupported", "cc1plus: all warnings being treated as errors"},
		"language-standard":           {"#error C++17 or later compatible compiler is required to use ATen."},
		"user-namespaces-off":         {"ERROR  : Failed to create user namespace: maximum number of user namespaces exceeded, check /proc/sys/user/max_user_namespaces"},
		"nested-container-refused":    {"open sysctl net.ipv4.ip_unprivileged_port_start file: reopen fd 8: permission denied", "apparmor failed to apply profile: write /proc/self/attr/apparmor/exec: no such file or directory"},
		"limits-not-possible":         {"0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "range of CPUs is from 0.01 to 4.00, as there are only 4 CPUs available"},
		"cluster-object-missing":      {"Error: container has runAsNonRoot and image will run as root"},
		"starts-too-slowly":           {"Liveness probe failed: Get \"http://10.0.0.3:8080/health\": context deadline exceeded"},
		"sqlite-too-old":              {"RuntimeError: Your system has an unsupported version of sqlite3. Chroma requires sqlite3 >= 3.35.0."},
		"data-not-downloaded":         {"LookupError: Resource punkt_tab not found. Please use the NLTK Downloader", "OSError: [E050] Can't find model 'en_core_web_sm'. It doesn't seem to be a Python package"},
		"file-not-in-container":       {"FileNotFoundError: [Errno 2] No such file or directory: '/workspace/configs/default.yaml'"},
		"service-not-reachable":       {"requests.exceptions.ConnectionError: HTTPConnectionPool(host='localhost', port=8000): Max retries exceeded with url: /v1 (Caused by NewConnectionError('<HTTPConnection object>: Failed to establish a new connection: [Errno 111] Connection refused'))"},
		"code-not-trusted":            {"ValueError: Loading /model requires you to execute the configuration file in that repo on your local machine."},
		"mpi-launcher":                {"The application appears to have been direct launched using \"srun\", but OMPI was not built with SLURM's PMI support"},
		"device-not-given":            {"Error: Could not open /dev/uinput: Permission denied"},
		"development-package-missing": {"meson.build:10:0: ERROR: Dependency \"libva\" not found, tried pkgconfig and cmake", "Package libavformat was not found in the pkg-config search path."},
		"release-too-old":             {"ERROR: This script does not work on Python 3.8. The minimum supported Python version is 3.9. Please use https://bootstrap.pypa.io/pip/3.8/get-pip.py instead."},
		"fabric-manager":              {"Failed to allocate device vector A (error code system not yet initialized)! [Vector addition of 5000 elements]"},
		"cpu-too-old":                 {"[WARNING] Worker with pid 8 was terminated due to signal 4"},
		"fonts-missing":               {"OSError: cannot open resource"},
		"time-zones-missing":          {"zoneinfo._common.ZoneInfoNotFoundError: 'No time zone found with key Europe/Berlin'", "panic: unknown time zone Europe/Berlin"},
		"thread-limit":                {"OpenBLAS blas_thread_init: pthread_create failed for thread 3 of 64: Operation not permitted"},
		"build-tool-missing":          {"RuntimeError: CMake must be installed to build the following extensions: dlib"},
		"missing-system-library":      {"ImportError: MagickWand shared library not found."},
		"program-absent":              {"pytesseract.pytesseract.TesseractNotFoundError: tesseract is not installed or it's not in your PATH. See README file for more information."},
		"backend-not-in-image":        {"failed to load 'm' version 1: Invalid argument: unable to find 'libtriton_python.so' or 'python/model.py' for model 'm', in /opt/tritonserver/backends/python"},
	})
}

// TestErrors: a path, a name or a number decides between causes of a more general message.
func TestErrors(t *testing.T) {
	firstIs(t, map[string][]string{
		"imports-itself":            {"ImportError: cannot import name 'SamplingParams' from 'vllm' (unknown location)"},
		"extension-cache-stale":     {"ImportError: /home/user/.cache/torch_extensions/py310_cu118/gsplat_cuda/gsplat_cuda.so: undefined symbol: _Z33map_gaussian"},
		"sources-for-other-cuda":    {"error: identifier \"CUFFT_PARSE_ERROR\" is undefined"},
		"gpu-device-not-given":      {"RuntimeError: No XPU devices found", "Failed to set value 'qsv=hw' for option 'init_hw_device': Generic error in an external library", "RuntimeError: Number of dpcpp devices should be greater than zero!"},
		"memory-not-lockable":       {"misc/ibvwrap.cc:268 NCCL WARN Call to ibv_create_cq failed"},
		"no-display":                {"[VGL] ERROR: Could not open display :0."},
		"not-writable":              {"unable to start container process: chdir to cwd (\"/workspace\") set in config.json failed: permission denied: unknown."},
		"cuda-differs":              {"RuntimeError: Cuda extensions are being compiled with a version of Cuda that does not match the version used to compile Pytorch binaries."},
		"shm-not-writable":          {"include/shm.h:27 NCCL WARN Call to shm_open failed : Permission denied"},
		"pinned-memory":             {"failed to alloc 1073741824 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "could not allocate pinned host memory of size: 1073741824"},
		"rocm-driver-differs":       {"Call returned HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources."},
		"driver-package-in-image":   {"The following packages have unmet dependencies:\n cuda-drivers-520 : Depends: libnvidia-compute-520 (>= 520.61.05) but it is not going to be installed"},
		"docker-from-snap":          {"unable to start container process: exec: \"/var/lib/snapd/hostfs/usr/bin/nvidia-smi\": stat /var/lib/snapd/hostfs/usr/bin/nvidia-smi: no such file or directory: unknown."},
		"gpu-request-spelled":       {"docker: Error response from daemon: cannot set both Count and DeviceIDs on device request.", "invalid argument \"all,capabilities=compute,utility\" for \"--gpus\" flag: count must be an integer"},
		"rocm-older-than-gpu":       {"clang++: error: invalid target ID 'gfx1201'"},
		"rocm-toolchain":            {"clang: error: cannot find ROCm device library; provide its path via '--rocm-path'"},
		"rocm-build-without-gpu":    {"clang: error: cannot determine amdgcn architecture: /opt/rocm/llvm/bin/amdgpu-arch"},
		"cgroup-devices":            {"Failed to initialize NVML: Unknown Error\n$ grep no-cgroups /etc/nvidia-container-runtime/config.toml\nno-cgroups = true"},
		"python-parts-absent":       {"ModuleNotFoundError: No module named 'distutils.cmd'", "The virtual environment was not created successfully because ensurepip is not available.", "/usr/bin/python3: No module named pip", "ImportError: cannot import name 'sysconfig'"},
		"distutils-absent":          {"E: Unable to locate package python3.12-distutils"},
		"container-of-old-driver":   {"Error response from daemon: get nvidia_driver_381.22: no such volume: nvidia_driver_381.22"},
		"options-after-image":       {"/opt/nvidia/nvidia_entrypoint.sh: line 67: exec: --: invalid option"},
		"missing-toolchain":         {"docker: Error response from daemon: OCI runtime create failed: starting container process caused \"exec: \\\"nvcc\\\": executable file not found in $PATH\": unknown."},
		"rootless-ids":              {"FATAL:   could not use fakeroot: no mapping entry found in /etc/subuid for user"},
		"model-repository-wrong":    {"failed to load 'resnet34' version 1: Unavailable: unable to find '/models/resnet34/1/model.pt' for model instance 'resnet34'"},
		"pyxis-absent":              {"error: Warning: SPANK plugin \"pyxis\" option \"container-image\" not found"},
		"fips-mode":                 {"ValueError: [digital envelope routines: EVP_DigestInit_ex] disabled for FIPS"},
		"build-entitlement":         {"ERROR: failed to build: failed to solve: granting entitlement device is not allowed by build daemon configuration"},
		"image-not-pulled":          {"slurmstepd: error: pyxis: [ERROR] URL https://registry-1.docker.io/v2/library/foo returned error code: 401 Unauthorized"},
		"conda-without-driver":      {"Could not solve for environment specs\nThe following packages are incompatible\n└─ pytorch-gpu would require __cuda =*, which is missing on the system."},
		"driver-baked-in":           {"/sbin/ldconfig.real: File /usr/lib/x86_64-linux-gnu/libcuda.so is empty, not checked."},
		"attention-needs-newer-gpu": {"NotImplementedError: Sharded Llama requires Flash Attention enabled models."},
		"extension-not-built":       {"AttributeError: module 'transformer_engine' has no attribute 'pytorch'"},
		"vulkan-icd":                {"[Error] [carb.graphics-vulkan.plugin] VkResult: ERROR_INITIALIZATION_FAILED"},
		"not-executable":            {"docker: Error response from daemon: oci runtime error: starting container process caused \"exec: \\\"/ros_entrypoint.sh\\\": permission denied\".", "/bin/sh: 1: fix-permissions: Permission denied"},
		"mesa-too-old":              {"MESA: warning: Driver does not support the 0xa720 PCI ID."},
		"shm-too-small":             {"ValueError: The configured object store size exceeds the capacity of /dev/shm. This will harm performance."},
		"driver-capabilities":       {"Cannot load libnvcuvid.so.1\n[h264_cuvid @ 0x3a46360] Failed loading nvcuvid."},
		"wrong-python":              {"    RuntimeError: Python version >= 3.7 required."},
		"header-missing":            {"  file STRINGS file \"/usr/local/tensorrt/include/NvInferVersion.h\" cannot be\n  read."},
		"compiler-too-old-for-gpu":  {"nvcc cannot target gpu arch 89. Available nvcc targets are [50, 52, 60]."},
		"no-network":                {"ERROR: LoadError: Unable to automatically download/install artifact 'CUDA_Driver' from sources listed in '/root/.julia/packages/Artifacts.toml'."},
		"cdi-description":           {"Error: OCI runtime error: crun: {\"msg\":\"error executing hook `/usr/bin/nvidia-cdi-hook` (exit code: 1)\",\"level\":\"error\"}"},
		"build-without-gpu":         {"    OSError: CUDA is required to compile MMDetection!\n    No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'"},
		"gpu-taken":                 {"nvidia-container-cli: device error: no-gpu-has-128MiB-to-run: unknown device: unknown"},
		"architecture-variable":     {"CMake Error at CMakeLists.txt:255 (message):\n  You must set CMAKE_CUDA_ARCHITECTURES to e.g.  'native', 'all-major', '70',\n  etc."},
		"cmake-too-old":             {"  if given arguments:\n    \"CUDA_LIMIT_GPU_ARCHITECTURE\" \"AND\" \"ITEM\" \"VERSION_GREATER_EQUAL\" \"CUDA_LIMIT_GPU_ARCHITECTURE\"\n  Unknown arguments specified"},
		"compiler-launcher":         {"cc1plus: fatal error: .: No such file or directory"},
		"gpu-lacks-feature":         {"ValueError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')"},
		"file-not-in-container":     {"org.apache.spark.SparkException: Resource script: /opt/getGpusResources.sh to discover gpu didn't find the executable!"},
		"look-above":                {"CMake Error at ref_image.cu.o.Release.cmake:280 (message):\n  Error generating file\n  /tmp/build/ref_image.cu.o"},
		"host-driver-broken":        {"Could not load UVM kernel module. Is nvidia-modprobe installed?"},
		"toolkit-finds-no-driver":   {"running command chroot with args [/run/nvidia/driver nvidia-smi]\nchroot: failed to run command 'nvidia-smi': No such file or directory"},
		"package-unavailable":       {"ERROR: Could not find a version that satisfies the requirement vllm (from versions: none)", "Unable to find installation candidates for torch (2.5.1)"},
		"musl-image":                {"/home # uv add torch\nerror: Distribution `nvidia-cublas-cu12` can't be installed because it doesn't have a source distribution or wheel for the current platform"},
		"jetson-runtime":            {"Opening channel /dev/nvhost-nvdec failed", "/usr/bin/ld: /usr/local/cuda/lib64/libcudla.so.1: undefined reference to `NvRmMemHandleFree'", "File \"/usr/local/lib/python3.6/dist-packages/torch/__init__.py\", line 196, in <module>\n_load_global_deps()\nOSError: libcurand.so.10: cannot open shared object file: No such file or directory"},
		"cpu-only-build":            {"admin@agx-orin:~$ python3\n>>> torch.cuda.is_available()\nFalse", ">>> torch.cuda.is_available()\nFalse\n>>> torch.__version__\n'2.3.0+cpu'"},
		"package-conflict":          {"CuPy may not function correctly because multiple CuPy packages are installed"},
		"command-not-installed":     {"The value of the MCA parameter \"plm_rsh_agent\" was set to a path\nthat could not be found:\n\n  plm_rsh_agent: ssh : rsh"},
		"option-unknown":            {"error: HOROVOD_GPU_BROADCAST=NCCL is invalid, supported values are \"\", \"MPI\"."},
		"mixed-releases":            {"unable to load backend library: libtriton_tensorrt.so: undefined symbol: TRITONBACKEND_StateBuffer"},
		"user-namespaces-off":       {"could not start /usr/sbin/ldconfig: mount operation failed: /dev: operation not permitted"},
		"network-between-gpus":      {"misc/ibvwrap.cu:61 WARN Failed to open libibverbs.so[.1]\ninclude/socket.h:311 WARN Socket creation failed : Address family not supported by protocol"},
		"driver-not-mounted":        {"Failed to set value 'cuda=cu:0' for option 'init_hw_device': Generic error in an external library", "In [2]: torch.cuda.is_available()\nOut[2]: False", ">>> tf.config.list_physical_devices('GPU')\n[]"},
		"model-for-other-release":   {"Model 'tensorrt_llm' loading failed with error: key 'use_context_fmha_for_generation' not found"},
	})
}

// TestToolsAreQuiet: lines that resemble those of TestTools, and report no such error.
func TestToolsAreQuiet(t *testing.T) {
	x := explainer(t)
	for _, text := range []string{
		"INFO: Loaded settings from environment variable MODEL_PATH",
		"Step 4/9 : RUN git config --global url.https://github.com/.insteadOf git@github.com:",
		"Readiness probe succeeded",
		"INFO:     Application startup complete.",
		"-- Looking for C++ include cstdint - found",
		"checking for libpcre... yes",
		"Dependency libva found: YES 1.14.0",
		"uid=1000(user) gid=1000(user) groups=1000(user),44(video)",
		"Terms of Service accepted for https://repo.anaconda.com/pkgs/main",
		"crw-rw-rw- 1 root root 10, 223 Nov 29 10:00 /dev/uinput",
		"make: Nothing to be done for 'all'.",
		">>> torch.cuda.is_available()\nTrue",
		">>> torch.cuda.device_count()\n2",
		"drwxrwxrwt 2 root root 40 Nov 29 10:00 /dev/shm",
		"cuda-toolkit-12-4 is already the newest version (12.4.1-1).",
		"docker 27.2.0 2963 latest/stable canonical - snap",
		"tesseract is already the newest version (4.1.1-2.1build1).",
		"/usr/share/fonts: skipping, existing cache is valid: 0 fonts, 3 dirs",
		"Time zone set to Europe/Berlin",
		"Starting Java gateway process on port 25333",
		"Using Flash Attention 2.",
		"$ cat /proc/sys/crypto/fips_enabled\n0",
		"-rwxr-xr-x 1 root root 512 Nov 29 10:00 /ros_entrypoint.sh",
		"Python version 3.10.12 found",
		"-- Build files have been written to: /src/build",
		"[ 12%] Building NVCC (Device) object CMakeFiles/ref_image.dir/ref_image.cu.o",
		"time=2024-06-20T09:24:37.964Z level=INFO source=types.go:71 msg=\"inference compute\" id=GPU-1 library=cuda compute=8.6 driver=12.4",
		"model_repository_manager.cc:1152] successfully loaded 'resnet34' version 1",
	} {
		if answers := x.Explain(text).Answers; slices.ContainsFunc(answers, func(a Answer) bool { return a.Class != benignClass }) {
			t.Errorf("%s: %s %s", text, answers[0].Confidence, answers[0].Case)
		}
	}
}

// TestOtherMakers: texts of AMD's GPUs lead to AMD's causes, and none of the first answers names
// NVIDIA's toolkit.
func TestOtherMakers(t *testing.T) {
	texts := map[string][]string{
		"rocm-libraries-absent": {"level=WARN source=amd_linux.go:440 msg=\"amdgpu detected, but no compatible rocm library found.  Either install rocm v6, or follow manual install instructions\""},
		"rocm-other-release":    {"ImportError: libamdhip64.so.3: cannot open shared object file: No such file or directory", "OSError: librocblas.so.4: cannot open shared object file: No such file or directory"},
		"wrong-vendor-build":    {"torch.__version__  = 2.7.0+rocm6.3\nUserWarning: flash_attn was requested, but nvcc was not found.  Are you sure your environment has nvcc available?"},
	}
	firstIs(t, texts)
	x := explainer(t)
	for id, list := range texts {
		for _, text := range list {
			if fixes := strings.Join(x.Explain(text).Answers[0].Fixes, " "); strings.Contains(fixes, "nvidia-ctk") || strings.Contains(fixes, "Container Toolkit") || strings.Contains(fixes, "nvidia/cuda") {
				t.Errorf("%s: NVIDIA's fix: %s", id, fixes)
			}
		}
	}
}

// TestOtherReleases: sources of another Python, builds of another platform, files of another stage.
func TestOtherReleases(t *testing.T) {
	firstIs(t, map[string][]string{
		"compose-old-or-absent": {"The Compose file './docker-compose.yaml' is invalid because:\nservices.app.deploy.resources.reservations value Additional properties are not allowed ('devices' was unexpected)"},
		"swarm-without-devices": {"$ docker stack deploy --compose-file docker-compose.yml app\nservices.app.deploy.resources.reservations Additional property devices is not allowed"},
		"pip-newer-than-python": {"#10 0.429   File \"/usr/local/lib/python3.5/dist-packages/pip/_internal/cli/main.py\", line 60\n#10 0.429     sys.stderr.write(f\"ERROR: {exc}\")\n#10 0.429                                    ^\n#10 0.429 SyntaxError: invalid syntax"},
		"reserved-word":         {"  File \"/usr/lib/python3.9/site-packages/dnc/util.py\", line 30\n    return x.cuda(device, async=True)\n                          ^\nSyntaxError: invalid syntax", "    print \"epoch\", i\n          ^\nSyntaxError: Missing parentheses in call to 'print'. Did you mean print(\"epoch\", i)?"},
		"release-too-old": {
			"  File \"/app/serve.py\", line 12\n    print(f\"loaded {name}\")\n                         ^\nSyntaxError: invalid syntax",
			"  File \"/app/serve.py\", line 12\n    match backend:\n          ^\nSyntaxError: invalid syntax",
			"  File \"/app/serve.py\", line 12\n    f\"{d[\"a\"]}\"\n         ^\nSyntaxError: f-string: expecting '}'",
		},
		"index-placeholder":            {"RuntimeError: This package should not be installed.\nPlease refer to NVIDIA instructions", "nvidia_stub.error.InstallFailedError:\n***\nThis is a special placeholder package which downloads a real wheel package from https://pypi.nvidia.com."},
		"architecture-suffix":          {"CMake Error at ggml/src/ggml-cuda/CMakeLists.txt:65 (message):\n  Compute capability 120 used, use 120a or 120f for Blackwell specific\n  optimizations"},
		"stage-lacks-file":             {" => ERROR [stage-1 3/4] COPY --from=build /src/app /app\nfailed to compute cache key: \"/src/app\" not found: not found", "  12 | >>> COPY --from=build /src/app /app\nERROR: failed to solve: failed to compute cache key: failed to calculate checksum of ref x::y: \"/src/app\": not found"},
		"not-in-build-context":         {" => [stage-1 2/4] COPY --from=build /src/lib /lib\n => ERROR [stage-1 3/4] COPY app /app\nfailed to compute cache key: \"/app\" not found: not found"},
		"conda-cpu-build":              {"ImportError: libarrow_cuda.so.100: cannot open shared object file: No such file or directory"},
		"conda-build-strings":          {"ResolvePackageNotFound:\n  - jpeg==9c=h470a237_1"},
		"lock-of-other-platform":       {"Unable to find installation candidates for nvidia-cuda-nvrtc-cu11 (11.7.99)", "error: Distribution `torch==2.5.1 @ registry+https://pypi.org/simple` can't be installed because it doesn't have a source distribution or wheel for the current platform"},
		"musl-image":                   {"/app # uv sync\nerror: Distribution `torch==2.5.1 @ registry+https://pypi.org/simple` can't be installed because it doesn't have a source distribution or wheel for the current platform"},
		"only-as-sources":              {"ERROR: Could not find a version that satisfies the requirement detectron2 (from versions: none)"},
		"opencv-without-windows":       {"cv2.error: OpenCV(3.4.1) /root/opencv/modules/highgui/src/window.cpp:636: error: (-2) The function is not implemented. Rebuild the library with Windows, GTK+ 2.x or Carbon support."},
		"package-conflict":             {"cv2.error: OpenCV(4.8.0) /io/opencv/modules/highgui/src/window.cpp:1272: error: (-2:Unspecified error) The function is not implemented. Rebuild the library with Windows, GTK+ 2.x or Cocoa support."},
		"plugin-without-driver":        {"Loading NVML\nFailed to initialize NVML: could not load NVML library.\nIf this is a GPU node, did you set the docker default runtime to `nvidia`?"},
		"gpus-without-effect":          {"$ docker run --rm --gpus all ubuntu nvidia-smi\ndocker: Error response from daemon: OCI runtime create failed: exec: \"nvidia-smi\": executable file not found in $PATH: unknown."},
		"bitsandbytes-old":             {"CUDA Setup failed despite GPU being available. Please run the following command to get more information:"},
		"bitsandbytes-lacks-build":     {"/usr/local/lib/python3.8/dist-packages/bitsandbytes/libbitsandbytes_cuda114.so: cannot open shared object file: No such file or directory"},
		"operator-cannot-be-built":     {"AssertionError: Unable to pre-compile async_io"},
		"environment-libstdcxx-unused": {"ImportError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.20' not found (required by /home/u/.conda/envs/a/lib/python3.10/site-packages/b.so)"},
		"network-between-gpus":         {"ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)"},
		"library-not-on-path":          {"mpicxx: error while loading shared libraries: libopen-pal.so.40: cannot open shared object file: No such file or directory"},
		"shadowed-library":             {"ImportError: /usr/lib/python3/dist-packages/torch/lib/libtorch_python.so: undefined symbol: _ZTIN5torch11distributed3rpc8RpcAgentE"},
	})
}

// TestMemoryOfTheMachine: CUDA's words without a size may be about pinned memory, of which WSL and
// a container have a limit. They are not certain, and the answer names both.
func TestMemoryOfTheMachine(t *testing.T) {
	x := explainer(t)
	for _, text := range []string{"RuntimeError: CUDA error: out of memory", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY: out of memory"} {
		a := x.Explain(text).Answers[0]
		if fixes := strings.Join(a.Fixes, " "); a.Confidence == Certain || !strings.Contains(fixes, "wslconfig") || !strings.Contains(fixes, "batch") {
			t.Errorf("%s: %s %s: %s", text, a.Confidence, a.Case, fixes)
		}
	}
	for _, text := range []string{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8 GiB", "failed to allocate 7.2G (7730941133 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"} {
		if a := x.Explain(text).Answers[0]; a.Confidence != Certain || a.Case != "gpu-out-of-memory" {
			t.Errorf("%s: %s %s", text, a.Confidence, a.Case)
		}
	}
}

// TestRefusedLine: a line that Python could not read says what it is about, and one that it could
// says nothing.
func TestRefusedLine(t *testing.T) {
	x := explainer(t)
	for _, text := range []string{
		"  File \"/app/a.py\", line 3\n    if x\n       ^\nSyntaxError: invalid syntax",
		"    return x.cuda(device, async=True)",
		"    match backend:\n        case \"cuda\":",
		"amdgpu version: 6.8.5\nROCm 6.2 was found",
		" => [stage-1 2/4] COPY --from=build /src/lib /lib",
		"-- Using CUDA architecture 121a",
		"Looking in indexes: https://pypi.org/simple, https://pypi.nvidia.com",
		"torch.__version__  = 2.7.0+rocm6.3",
		"Loading NVML\nStarting FS watcher.",
		"NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
	} {
		if answers := x.Explain(text).Answers; slices.ContainsFunc(answers, func(a Answer) bool { return a.Class != benignClass }) {
			t.Errorf("%s: %s %s", text, answers[0].Confidence, answers[0].Case)
		}
	}
}
