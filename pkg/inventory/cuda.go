package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Build is a framework's own record of its build. The version of its package may say
// less.
type Build struct {
	Name string `json:"name"` // "torch", "torchaudio", "torchvision", "onnxruntime", "tensorflow"
	// Version is "" for TensorFlow, whose file does not say it.
	Version string `json:"version"`
	// CUDA is the version that it is built for, "12.4". CPU is set for a build without
	// CUDA. If neither is set, the file does not say.
	CUDA string `json:"cuda,omitempty"`
	CPU  bool   `json:"cpu,omitempty"`
	// CUDNN is the version of cuDNN that it is built for, "9". "" if the file does not say.
	CUDNN string `json:"cudnn,omitempty"`
	Git   string `json:"git,omitempty"`
	// Package is the distribution that wrote the file (onnxruntime-gpu), or "" if the
	// file does not say.
	Package string `json:"package,omitempty"`
	Path    string `json:"path"`
	// Dir is the directory of Python packages that holds it.
	Dir string `json:"dir"`
}

// pyAssignment matches NAME = VALUE at the beginning of a line, with or without a type.
var pyAssignment = regexp.MustCompile(`^(\w+)\s*(?::[^=]*)?=\s*(?:'([^']*)'|"([^"]*)"|(None))\s*(?:#.*)?$`)

// pyStrings returns the strings that a generated Python file assigns to names; None gives
// "". The first assignment to a name counts.
func pyStrings(b []byte) map[string]string {
	values := map[string]string{}
	for line := range lines(b) {
		m := pyAssignment.FindStringSubmatch(line)
		if m == nil || len(line) > maxText {
			continue
		}
		if _, there := values[m[1]]; !there {
			values[m[1]] = m[2] + m[3]
		}
	}
	return values
}

// readTorch reads torch/version.py, which PyTorch's tools/generate_torch_version.py
// writes.
func readTorch(inv *Inventory, name string, b []byte) error {
	v := pyStrings(b)
	build := &Build{Name: "torch", Version: v["__version__"], CUDA: v["cuda"], Git: v["git_version"], Path: "/" + name, Dir: "/" + path.Dir(path.Dir(name))}
	if build.Version == "" {
		return errors.New("it has no __version__")
	}
	_, told := v["cuda"]
	build.CPU = told && build.CUDA == "" && v["hip"] == "" && v["xpu"] == ""
	inv.Builds = append(inv.Builds, build)
	return nil
}

func isTorchCompanion(name string) bool {
	return strings.HasSuffix(name, "/torchaudio/version.py") || strings.HasSuffix(name, "/torchvision/version.py")
}

// readTorchCompanion reads the version.py of torchvision or torchaudio, which their
// setup.py writes. Its version has the local part (+cu128) that PyPI's metadata lacks.
func readTorchCompanion(inv *Inventory, name string, b []byte) error {
	v, dir := pyStrings(b), path.Dir(name)
	if v["__version__"] == "" {
		return errors.New("it has no __version__")
	}
	inv.Builds = append(inv.Builds, &Build{Name: path.Base(dir), Version: v["__version__"], Git: v["git_version"], Path: "/" + name, Dir: "/" + path.Dir(dir)})
	return nil
}

// readONNXRuntime reads onnxruntime/capi/build_and_package_info.py, which ONNX Runtime's
// setup.py writes. Only builds for CUDA have cuda_version.
func readONNXRuntime(inv *Inventory, name string, b []byte) error {
	v := pyStrings(b)
	dir := "/" + path.Dir(path.Dir(path.Dir(name)))
	build := &Build{Name: "onnxruntime", Version: v["__version__"], CUDA: v["cuda_version"], Package: Normalize(v["package_name"]), Path: "/" + name, Dir: dir}
	if build.Version == "" || build.Package == "" {
		return errors.New("it has no __version__ or no package_name")
	}
	build.CPU = build.Package == "onnxruntime" && build.CUDA == ""
	inv.Builds = append(inv.Builds, build)
	return nil
}

// infoPair matches a string or a boolean of build_info.py and its key: ("cuda_version", "12.6").
var infoPair = regexp.MustCompile(`["'](\w+)["']\s*[,:]\s*(?:["']([^"'\n]*)["']|(True|False)\b)`)

// readTensorFlow reads tensorflow/python/platform/build_info.py, which TensorFlow's
// tools/build_info/gen_build_info.py writes. It is the one record of the libraries that a
// build opens: other builds of a release are made for other ones.
func readTensorFlow(inv *Inventory, name string, b []byte) error {
	v := map[string]string{}
	for _, m := range infoPair.FindAllSubmatch(b, -1) {
		v[string(m[1])] = string(m[2]) + string(m[3])
	}
	if v["is_cuda_build"] == "" {
		return errors.New("it has no is_cuda_build")
	}
	for _, value := range []string{v["cuda_version"], v["cudnn_version"]} {
		if len(value) > maxText {
			return errors.New("its versions are too long")
		}
	}
	dir := "/" + path.Dir(strings.TrimSuffix(name, "/python/platform/build_info.py"))
	build := &Build{Name: "tensorflow", CPU: v["is_cuda_build"] == "False" && v["is_rocm_build"] != "True", Path: "/" + name, Dir: dir}
	if v["is_cuda_build"] == "True" {
		build.CUDA, build.CUDNN = v["cuda_version"], v["cudnn_version"]
	}
	inv.Builds = append(inv.Builds, build)
	return nil
}

var toolkitName = regexp.MustCompile(`^usr/local/cuda-(\d+\.\d+)$`)

// toolkitDir records a CUDA toolkit by the name of its directory. The nvidia/cuda images
// have no version.json.
func (inv *Inventory) toolkitDir(name string) {
	if !strings.HasPrefix(name, "usr/local/cuda-") {
		return
	}
	if m := toolkitName.FindStringSubmatch(name); m != nil {
		inv.Components = append(inv.Components, &Component{Name: "cuda", Version: m[1], Path: "/" + name, From: "directory name"})
	}
}

func isToolkitVersion(name string) bool {
	dir, base := path.Split(name)
	rest, ok := strings.CutPrefix(dir, "usr/local/cuda")
	return ok && (base == "version.json" || base == "version.txt") && strings.Count(rest, "/") == 1
}

var textVersion = regexp.MustCompile(`CUDA Version (\d+(?:\.\d+)*)`)

// readToolkit reads version.json (CUDA 11 and later) or version.txt (CUDA 10 and
// earlier).
func readToolkit(inv *Inventory, name string, b []byte) error {
	version := ""
	if strings.HasSuffix(name, ".json") {
		var parts map[string]struct {
			Version string `json:"version"`
		}
		if err := json.Unmarshal(b, &parts); err != nil {
			return errors.New("it is not a version.json of the CUDA toolkit: " + err.Error())
		}
		version = parts["cuda"].Version
	} else if m := textVersion.FindSubmatch(b); m != nil {
		version = string(m[1])
	}
	if version == "" || len(version) > maxText {
		return errors.New("it does not give the version of CUDA")
	}
	inv.Components = append(inv.Components, &Component{Name: "cuda", Version: version, Path: path.Dir("/" + name), From: path.Base(name)})
	return nil
}

var libraryName = regexp.MustCompile(`^lib(cudnn|cudart)\.so\.(\d+\.\d+\.\d+(?:\.\d+)*)$`)

// libraryFile records a library whose file name has the whole version:
// libcudnn.so.9.14.0, libcudart.so.12.4.127.
func (inv *Inventory) libraryFile(name string, d fs.DirEntry) {
	if !strings.Contains(name, "/libcud") || !d.Type().IsRegular() {
		return
	}
	m := libraryName.FindStringSubmatch(path.Base(name))
	if m == nil {
		return
	}
	component := map[string]string{"cudnn": "cudnn", "cudart": "cuda"}[m[1]]
	inv.Components = append(inv.Components, &Component{Name: component, Version: m[2], Path: "/" + name, From: "file name"})
}

func isCUDNNHeader(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, "cudnn_version") && strings.HasSuffix(base, ".h")
}

var headerLine = regexp.MustCompile(`^\s*#\s*define\s+CUDNN_(MAJOR|MINOR|PATCHLEVEL)\s+(\d{1,6})\s*(?:/.*)?$`)

// readCUDNNHeader reads cudnn_version.h.
func readCUDNNHeader(inv *Inventory, name string, b []byte) error {
	part := map[string]string{}
	for line := range lines(b) {
		if m := headerLine.FindStringSubmatch(line); m != nil {
			part[m[1]] = m[2]
		}
	}
	if part["MAJOR"] == "" || part["MINOR"] == "" || part["PATCHLEVEL"] == "" {
		return errors.New("it does not define CUDNN_MAJOR, CUDNN_MINOR and CUDNN_PATCHLEVEL")
	}
	version := fmt.Sprintf("%s.%s.%s", part["MAJOR"], part["MINOR"], part["PATCHLEVEL"])
	inv.Components = append(inv.Components, &Component{Name: "cudnn", Version: version, Path: "/" + name, From: "header"})
	return nil
}

// envVersions are variables that the images of NVIDIA and others set.
var envVersions = []struct{ variable, component string }{
	{"CUDA_VERSION", "cuda"}, {"NV_CUDNN_VERSION", "cudnn"}, {"CUDNN_VERSION", "cudnn"},
}

var leadingVersion = regexp.MustCompile(`^\d+(\.\d+){1,4}`)

// FromEnv returns the components that an image's environment names. Files are better
// evidence: an image inherits its environment, and keeps it when the libraries are
// replaced.
func FromEnv(vars []string) []*Component {
	var list []*Component
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		for _, e := range envVersions {
			if version := leadingVersion.FindString(value); e.variable == name && version != "" {
				list = append(list, &Component{Name: e.component, Version: version, From: "ENV " + name})
			}
		}
	}
	return list
}
