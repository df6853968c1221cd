package gpu

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Random returns n random faults: changes to the libraries that programs map, and to
// the variables that the loader reads. The same files and seed give the same faults.
func Random(root string, mapped []string, seed uint64, n int) []*Fault {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), root: root}
	kinds := map[string][]string{}
	for _, file := range slices.Compact(slices.Sorted(slices.Values(mapped))) {
		kind := ""
		switch dir := path.Dir(file); {
		case strings.HasPrefix(file, "/usr/local/nvidia/") || strings.HasPrefix(file, "/root/"):
			continue // files of the host, and those that Triton has compiled
		case strings.Contains(dir, "/nvidia/"):
			kind = "cuda"
		case strings.Contains(dir, "/lib-dynload"):
			kind = "python"
		case strings.HasPrefix(dir, "/usr/lib"):
			kind = "system"
		case strings.HasSuffix(dir, ".libs"), strings.Contains(dir, "/scipy"), strings.Contains(dir, "/numpy"), strings.Contains(dir, "/cupy/"):
			kind = "extension"
		default:
			kind = "framework"
		}
		kinds[kind] = append(kinds[kind], file)
		if !slices.Contains(g.dirs, path.Dir(file)) {
			g.dirs = append(g.dirs, path.Dir(file))
		}
	}
	const toolkit = "/usr/local/cuda-13.0/targets/x86_64-linux/lib"
	g.dirs = append(g.dirs, toolkit)
	g.cuda = kinds["cuda"]
	order := []string{"cuda", "cuda", "cuda", "cuda", "framework", "framework", "system", "system", "python", "extension"}
	var faults []*Fault
	for i := range n {
		f := &Fault{Env: map[string]string{}}
		if g.IntN(5) == 0 {
			g.variables(f)
		} else {
			first := g.one(kinds[g.one(order)])
			g.file(f, first)
			if second := g.one(kinds[g.one(order)]); g.IntN(6) == 0 && second != first {
				g.file(f, second)
			}
			if g.IntN(8) == 0 {
				g.variables(f)
			}
		}
		f.Name = fmt.Sprintf("%d.%d%s", seed, i, f.Name)
		faults = append(faults, f)
	}
	return faults
}

type generator struct {
	*rand.Rand
	root string
	dirs []string // directories of libraries that programs map
	cuda []string
}

func (g *generator) one(list []string) string { return list[g.IntN(len(list))] }

// file adds a change of one file to a fault.
func (g *generator) file(f *Fault, file string) {
	name := func(what string) { f.Name += ", " + what + " " + path.Base(file) }
	set := func(m *map[string]string, key, value string) {
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[key] = value
	}
	// Changes that consist of naming the file in a list of the fault.
	lists := []struct {
		what string
		list *[]string
	}{
		{"no", &f.Remove},
		{"no", &f.Remove},
		{"no bytes in", &f.Empty},
		{"half of", &f.Cut},
		{"all but the last 4096 bytes of", &f.Short},
		{"no section headers in", &f.Sectionless},
		{"a directory in place of", &f.Directory},
		{"aarch64 in", &f.Machine},
	}
	kind := g.IntN(len(lists) + 4)
	if kind < len(lists) {
		name(lists[kind].what)
		*lists[kind].list = append(*lists[kind].list, file)
		return
	}
	switch kind - len(lists) {
	case 0, 1:
		name("nowhere")
		stem, _, _ := strings.Cut(path.Base(file), ".so")
		for _, dir := range g.dirs {
			pattern := dir + "/" + stem + ".so*"
			if found, _ := filepath.Glob(g.root + pattern); len(found) > 0 {
				f.Remove = append(f.Remove, pattern)
			}
		}
	case 2:
		name("a page of HTML in place of")
		set(&f.Write, file, "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body>"+strings.Repeat("not found ", 20)+"</body></html>\n")
	case 3:
		to := fmt.Sprintf("/opt/moved%d/%s", g.IntN(2), path.Base(file))
		name("moved to " + path.Dir(to) + " is")
		set(&f.Move, file, to)
		if g.IntN(2) == 0 {
			f.Name += ", on LD_LIBRARY_PATH"
			f.Env["LD_LIBRARY_PATH"] = path.Dir(to) + ":/usr/local/nvidia/lib64"
		}
	}
}

// variables adds settings of variables to a fault.
func (g *generator) variables(f *Fault) {
	switch g.IntN(6) {
	case 0, 1, 2:
		others := append(slices.Clone(g.dirs),
			"/usr/local/cuda/compat", "/usr/local/cuda/lib64/stubs", "/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib",
			"/opt/nvidia/nsight-compute/2025.3.1/host/linux-desktop-glibc_2_11_3-x64", "/opt/nvidia/nsight-compute/2025.3.1/target/linux-desktop-glibc_2_11_3-x64",
			"/opt/nothing", "")
		var list []string
		for range 1 + g.IntN(3) {
			list = append(list, g.one(others))
		}
		if g.IntN(3) > 0 {
			list = append(list, "/usr/local/nvidia/lib64")
		}
		f.Env["LD_LIBRARY_PATH"] = strings.Join(list, ":")
		f.Name += ", LD_LIBRARY_PATH=" + f.Env["LD_LIBRARY_PATH"]
	case 3:
		file := g.one(g.cuda)
		if g.IntN(2) == 0 {
			system, _ := filepath.Glob(g.root + "/usr/local/cuda-13.0/targets/x86_64-linux/lib/lib*.so.*")
			system = slices.DeleteFunc(system, func(s string) bool { st, err := os.Stat(s); return err != nil || st.IsDir() })
			if len(system) > 0 {
				file = strings.TrimPrefix(g.one(system), g.root)
			}
		}
		f.Env["LD_PRELOAD"] = file
		f.Name += ", LD_PRELOAD=" + file
	case 4:
		name := g.one([]string{"CUDA_PATH", "CUDA_HOME", "CUDA_ROOT"})
		f.Env[name] = g.one([]string{"/opt/nothing", "/usr/local/cuda-12.4", "/usr/local/cuda", ""})
		f.Name += ", " + name + "=" + f.Env[name]
	case 5:
		name := g.one([]string{"LD_BIND_NOW=1", "PYTHONNOUSERSITE=1", "PATH=/usr/bin:/bin", "PYTHONPATH=/usr/lib/python3/dist-packages", "LD_LIBRARY_PATH=", "PYTHONHOME=/opt/torch/.venv", "CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES="})
		k, v, _ := strings.Cut(name, "=")
		f.Env[k] = v
		f.Name += ", " + name
	}
}
