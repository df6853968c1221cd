//go:build unix

package scale

import (
	"archive/tar"
	"fmt"
	"strings"
)

// scaleCase is an image with N of one thing.
type scaleCase struct {
	name, what string
	make       func(im *image, n int)
}

const (
	libDir = "usr/lib/x86_64-linux-gnu"
	site   = "usr/lib/python3.10/site-packages"
)

// each joins the results of f for 0 to n-1.
func each(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
	}
	return b.String()
}

func name(format string) func(int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}

// wheel writes the metadata of an installed distribution, with the lines of its RECORD.
func (im *image) wheel(site, name, record string, requires ...string) {
	dir := site + "/" + name + "-1.0.dist-info/"
	im.text(dir+"METADATA", "Metadata-Version: 2.1\nName: "+name+"\nVersion: 1.0\n"+strings.Join(requires, ""))
	if record != "" {
		im.text(dir+"RECORD", record)
	}
}

// torch writes a complete PyTorch.
func (im *image) torch(site string) {
	im.wheel(site, "torch", "torch/lib/libtorch.so,sha256=x,100\n")
	im.lib(site+"/torch/lib", "libtorch.so", "needed libtorch_cpu.so", "rpath $ORIGIN")
	im.lib(site+"/torch/lib", "libtorch_cpu.so", "needed libc.so.6")
	im.lib(site+"/torch/lib", "libtorch_global_deps.so", "needed libc.so.6")
	im.elf(site+"/torch/_C.cpython-310-x86_64-linux-gnu.so", "elf x86_64", "needed libtorch.so", "runpath $ORIGIN/lib")
}

// ort writes an onnxruntime without the cuDNN that it needs.
func (im *image) ort(site string) {
	im.elf(site+"/onnxruntime/capi/libonnxruntime_providers_cuda.so", "elf x86_64 soname=libonnxruntime_providers_cuda.so", "needed libcudnn.so.9", "needed libc.so.6")
	im.elf(site+"/onnxruntime/capi/onnxruntime_pybind11_state.cpython-310-x86_64-linux-gnu.so", "elf x86_64", "needed libc.so.6")
	im.wheel(site, "onnxruntime_gpu", "")
}

var cases = []scaleCase{
	{"nothing", "a system and files that nobody looks at", func(im *image, n int) {
		im.base()
		for i := range n {
			im.text(fmt.Sprintf("usr/share/doc/d%d/f%d", i/100, i), "")
		}
	}},
	{"chain", "libraries of which each needs the next", func(im *image, n int) {
		im.base()
		for i := range n {
			im.lib(libDir, fmt.Sprintf("libchain%d.so", i), fmt.Sprintf("needed libchain%d.so", i+1), "needed libc.so.6")
		}
		im.lib(libDir, fmt.Sprintf("libchain%d.so", n), "needed libc.so.6")
		im.program("usr/bin/chain", "needed libchain0.so")
	}},
	{"broken-chain", "libraries of which each needs the next, and the last one that misses another", func(im *image, n int) {
		im.base()
		for i := range n {
			im.lib(libDir, fmt.Sprintf("libchain%d.so", i), fmt.Sprintf("needed libchain%d.so", i+1))
		}
		im.program("usr/bin/chain", "needed libchain0.so")
	}},
	{"tree", "libraries of which each needs two others, and the leaves a GPU library that is nowhere", func(im *image, n int) {
		im.base()
		for i := range n {
			if 2*i+2 >= n {
				im.lib(libDir, fmt.Sprintf("libtree%d.so", i), "needed libcudnn.so.9")
				continue
			}
			im.lib(libDir, fmt.Sprintf("libtree%d.so", i), fmt.Sprintf("needed libtree%d.so", 2*i+1), fmt.Sprintf("needed libtree%d.so", 2*i+2))
		}
	}},
	{"many-roots", "programs that need a tree of a hundred libraries, of which one misses a GPU library", func(im *image, n int) {
		im.base()
		for i := range 100 {
			im.lib(libDir, fmt.Sprintf("libtree%d.so", i), each(2, func(k int) string { return fmt.Sprintf("needed libtree%d.so\n", min(99, 2*i+1+k)) }), "needed libcudnn.so.9")
		}
		for i := range n {
			im.program(fmt.Sprintf("usr/bin/root%d", i), "needed libtree0.so", "needed libcublas.so.12")
		}
	}},
	{"libraries", "libraries that need the same few", func(im *image, n int) {
		im.base()
		for i := range n {
			im.lib(libDir, fmt.Sprintf("libflat%d.so", i), "needed libc.so.6")
		}
	}},
	{"one-needs-all", "libraries that one program needs", func(im *image, n int) {
		im.base()
		for i := range n {
			im.lib(libDir, fmt.Sprintf("libflat%d.so", i), "needed libc.so.6")
		}
		im.program("usr/bin/all", each(n, name("needed libflat%d.so\n")))
	}},
	{"findings", "libraries of which each misses another", func(im *image, n int) {
		im.base()
		for i := range n {
			im.lib(libDir, fmt.Sprintf("libx%d.so", i), fmt.Sprintf("needed libabsent%d.so", i))
		}
	}},
	{"gpu-findings", "programs of which each misses a GPU library of its own", func(im *image, n int) {
		im.base()
		for i := range n {
			im.program(fmt.Sprintf("usr/bin/x%d", i), fmt.Sprintf("needed libcudnn.so.%d", i+9))
		}
	}},
	{"roots", "programs that miss the same GPU library", func(im *image, n int) {
		im.base()
		for i := range n {
			im.program(fmt.Sprintf("srv/x%d/bin/x", i), "needed libcudnn.so.9")
		}
	}},
	{"frameworks", "onnxruntimes without cuDNN, a hundredth of N", func(im *image, n int) {
		im.base()
		for i := range n / 100 {
			im.ort(fmt.Sprintf("srv/e%d/lib/python3.10/site-packages", i))
		}
	}},
	{"torches", "PyTorches, a hundredth of N", func(im *image, n int) {
		im.base()
		for i := range n / 100 {
			im.torch(fmt.Sprintf("srv/e%d/lib/python3.10/site-packages", i))
		}
	}},
	{"torch-users", "extensions that import PyTorch first", func(im *image, n int) {
		im.base()
		im.torch(site)
		for i := range n {
			im.elf(fmt.Sprintf("%s/torchvision/x%d.so", site, i), "elf x86_64", "needed libtorch.so", "needed libc.so.6")
		}
	}},
	{"programs", "programs that load a GPU library", func(im *image, n int) {
		im.base()
		im.lib(libDir, "libcudart.so.12", "needed libc.so.6")
		for i := range n {
			im.program(fmt.Sprintf("usr/bin/p%d", i), "needed libcudart.so.12", "needed libc.so.6")
		}
	}},
	{"dlopen-notes", "libraries that say what they open by name", func(im *image, n int) {
		im.base()
		for i := range n {
			im.lib(libDir, fmt.Sprintf("libn%d.so", i), "needed libc.so.6", fmt.Sprintf(`dlopen [{"soname":["libabsent%d.so"],"priority":"recommended"}]`, i))
		}
	}},
	{"versions", "versions that one library defines and another asks of it", func(im *image, n int) {
		im.base()
		im.lib(libDir, "libv.so", "needed libc.so.6", "verdef libv.so"+each(n, name(" V_%d")))
		im.program("usr/bin/v", "needed libv.so", "verneed libv.so"+each(n, name(" V_%d")))
	}},
	{"versions-absent", "versions that one library asks of another in vain", func(im *image, n int) {
		im.base()
		im.lib(libDir, "libv.so", "needed libc.so.6", "verdef libv.so"+each(n, name(" V_%d")))
		im.program("usr/bin/v", "needed libv.so", "verneed libv.so"+each(n, name(" W_%d")))
	}},
	{"needers-of-versions", "libraries that ask versions of one library", func(im *image, n int) {
		im.base()
		im.lib(libDir, "libv.so", "needed libc.so.6", "verdef libv.so V_1")
		for i := range n {
			im.lib(libDir, fmt.Sprintf("libq%d.so", i), "needed libv.so", "verneed libv.so V_1 V_2")
		}
	}},
	{"symbols", "symbols that one library defines and another refers to", func(im *image, n int) {
		im.base()
		im.lib(libDir, "libs.so", each(n, name("def symbol_%d\n")))
		im.elf("usr/bin/app", "elf x86_64 interp=/lib64/ld-linux-x86-64.so.2", "flags1 pie", "needed libs.so", each(n, name("undef symbol_%d\n")))
	}},
	{"symbols-absent", "functions that nothing defines", func(im *image, n int) {
		im.base()
		im.lib(libDir, "libs.so", "def symbol")
		im.elf("usr/bin/app", "elf x86_64 interp=/lib64/ld-linux-x86-64.so.2", "flags1 pie", "needed libs.so", each(n, name("undef absent_%d\n")))
	}},
	{"links", "links to one library", func(im *image, n int) {
		im.base()
		im.lib(libDir, "libl.so.1", "needed libc.so.6")
		for i := range n {
			im.link(fmt.Sprintf("%s/libl%d.so.1", libDir, i), "libl.so.1")
		}
		im.program("usr/bin/l", each(min(n, 1000), name("needed libl%d.so.1\n")))
	}},
	{"gpu-links", "links to one GPU library", func(im *image, n int) {
		im.base()
		im.lib("opt/cuda", "libcudnn.so.9", "needed libc.so.6")
		for i := range n {
			im.link(fmt.Sprintf("opt/l%d/libcudnn.so.9", i), "/opt/cuda/libcudnn.so.9")
		}
		im.program("usr/bin/l", "needed libcudnn.so.9")
	}},
	{"copies", "copies of one GPU library", func(im *image, n int) {
		im.base()
		for i := range n {
			im.lib(fmt.Sprintf("opt/l%d", i), "libcudnn.so.9", "needed libc.so.6")
		}
		im.program("usr/bin/l", "needed libcudnn.so.9")
	}},
	{"same-name", "files of one name beside libraries that miss it", func(im *image, n int) {
		im.base()
		for i := range n {
			im.lib(fmt.Sprintf("opt/l%d", i), "libhid.so.1", "needed libabsent.so")
			im.lib(fmt.Sprintf("opt/m%d", i), fmt.Sprintf("libm%d.so", i), "needed libhid.so.1")
		}
	}},
	{"search-path", "directories of LD_LIBRARY_PATH, and a hundred libraries that are nowhere", func(im *image, n int) {
		im.base()
		im.config.Config.Env = []string{"LD_LIBRARY_PATH=" + each(n, name("/opt/d%d:"))}
		for i := range n {
			im.text(fmt.Sprintf("opt/d%d/x", i), "")
		}
		for i := range 100 {
			im.lib(libDir, fmt.Sprintf("libx%d.so", i), fmt.Sprintf("needed libabsent%d.so", i))
		}
	}},
	{"runpath", "directories of a RUNPATH, and a hundred libraries that are nowhere", func(im *image, n int) {
		im.base()
		im.program("usr/bin/r", "runpath "+each(n, name("/opt/d%d:")), each(100, name("needed libabsent%d.so\n")))
	}},
	{"preloads", "libraries that are preloaded", func(im *image, n int) {
		im.base()
		im.text("etc/ld.so.preload", each(n, name("/opt/p%d.so\n")))
		for i := range n {
			im.elf(fmt.Sprintf("opt/p%d.so", i), "elf x86_64", "needed libc.so.6")
		}
	}},
	{"record", "lines of one RECORD", func(im *image, n int) {
		im.base()
		im.wheel(site, "big", each(n, name("big/module_%d.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n")))
	}},
	{"records", "RECORDs of a hundred lines", func(im *image, n int) {
		im.base()
		for i := range n {
			im.wheel(site, fmt.Sprintf("w%d", i), each(100, name("w/module_%d.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n")))
		}
	}},
	{"long-records", "RECORDs of ten thousand lines, a hundredth of N", func(im *image, n int) {
		im.base()
		for i := range n / 100 {
			im.wheel(site, fmt.Sprintf("w%d", i), each(10_000, name("w/module_%d.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n")))
		}
	}},
	{"wheels", "wheels that require one another", func(im *image, n int) {
		im.base()
		for i := range n {
			im.wheel(site, fmt.Sprintf("w%d", i), "", fmt.Sprintf("Requires-Dist: w%d<1.0\n", i+1))
		}
	}},
	{"environments", "virtual environments", func(im *image, n int) {
		im.base()
		for i := range n {
			im.text(fmt.Sprintf("srv/v%d/pyvenv.cfg", i), "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.10.12\n")
		}
	}},
	{"wheels-apart", "virtual environments with a wheel each", func(im *image, n int) {
		im.base()
		for i := range n {
			im.text(fmt.Sprintf("srv/v%d/pyvenv.cfg", i), "home = /usr/bin\nversion = 3.10.12\n")
			im.wheel(fmt.Sprintf("srv/v%d/lib/python3.10/site-packages", i), "torch", "")
		}
	}},
	{"conda", "conda packages", func(im *image, n int) {
		im.base()
		for i := range n {
			im.text(fmt.Sprintf("opt/conda/conda-meta/p%d-1.0-0.json", i), fmt.Sprintf(`{"name":"p%d","version":"1.0","build":"0"}`, i))
		}
	}},
	{"dpkg", "packages of Debian", func(im *image, n int) {
		im.base()
		im.text("var/lib/dpkg/status", each(n, name("Package: libp%d\nStatus: install ok installed\nVersion: 1.0\n\n")))
	}},
	{"rpm", "packages of rpm", func(im *image, n int) {
		im.base()
		im.rpm(each(n, name("libp%d 1.0-1\n")))
	}},
	{"whiteouts", "files that a layer brings and the next one removes", func(im *image, n int) {
		im.base()
		for i := range n {
			im.lib("opt/lib", fmt.Sprintf("libw%d.so", i), "needed libc.so.6")
		}
		im.layer()
		for i := range n {
			im.text(fmt.Sprintf("opt/lib/.wh.libw%d.so", i), "")
		}
		im.program("usr/bin/w", each(min(n, 1000), name("needed libw%d.so\n")))
	}},
	{"opaque", "directories that a layer brings and the next one empties", func(im *image, n int) {
		im.base()
		for i := range n {
			im.text(fmt.Sprintf("opt/d%d/libx.so", i), "")
		}
		im.layer()
		for i := range n {
			im.text(fmt.Sprintf("opt/d%d/.wh..wh..opq", i), "")
		}
	}},
	{"hard-links", "names of one library", func(im *image, n int) {
		im.base()
		im.lib(libDir, "libh.so", "needed libc.so.6")
		for i := range n {
			im.hardlink(fmt.Sprintf("%s/libh%d.so", libDir, i), libDir+"/libh.so")
		}
	}},
	{"links-below", "hard links of a layer to files of the one below", func(im *image, n int) {
		im.base()
		for i := range n {
			im.text(fmt.Sprintf("opt/f%d", i), "")
		}
		im.layer()
		for i := range n {
			im.hardlink(fmt.Sprintf("opt/g%d", i), fmt.Sprintf("opt/f%d", i))
		}
	}},
	{"layers", "layers", func(im *image, n int) {
		im.base()
		for i := range n {
			im.layer()
			im.text(fmt.Sprintf("opt/f%d", i), "")
		}
	}},
	{"deep", "directories within one another, of N bytes in all at most", func(im *image, n int) {
		im.base()
		for i := range n {
			im.text(strings.Repeat("d/", min(i, 1900))+fmt.Sprintf("f%d", i), "")
		}
	}},
	{"rules", "libraries of a pack", func(im *image, n int) {
		im.base()
		for i := range 200 {
			im.lib(libDir, fmt.Sprintf("libx%d.so", i), fmt.Sprintf("needed libabsent%d.so", i))
		}
		im.beside("rules/more.yaml", "optional:\n"+each(n, name("  - match: \"/opt/none%d/*.so\"\n    why: nobody loads it\n    sources: [\"https://example.org/\"]\n")))
	}},
	{"policy", "exceptions of a policy, and a thousand findings", func(im *image, n int) {
		im.base()
		for i := range 1000 {
			im.lib(libDir, fmt.Sprintf("libx%d.so", i), fmt.Sprintf("needed libabsent%d.so", i))
		}
		im.beside("imgcheck.yaml", "ignore:\n"+each(n, name("  - id: missing-library\n    library: libnone%d.so.9\n    reason: nobody needs it\n    expires: 2099-12-31\n")))
	}},
	{"interpreters", "loaders, each of one program", func(im *image, n int) {
		im.base()
		for i := range n {
			im.hardlink(fmt.Sprintf("srv/r%d/ld.so", i), libDir+"/ld-linux-x86-64.so.2")
			im.elf(fmt.Sprintf("srv/r%d/app", i), fmt.Sprintf("elf x86_64 interp=/srv/r%d/ld.so", i), "flags1 pie", "needed libcudnn.so.9")
		}
	}},
	{"mutual", "libraries that need each other, a hundredth of N", func(im *image, n int) {
		im.base()
		for i := range n / 100 {
			im.lib(libDir, fmt.Sprintf("libm%d.so", i), each(n/100, name("needed libm%d.so\n")))
		}
	}},
	{"names", "names in four layers, of nothing that is looked at", func(im *image, n int) {
		for l := range 4 {
			im.layer()
			for i := range n {
				im.put(&tar.Header{Name: fmt.Sprintf("d%d/%d", l, i), Typeflag: tar.TypeReg, Mode: 0o644}, "")
			}
		}
	}},
}
