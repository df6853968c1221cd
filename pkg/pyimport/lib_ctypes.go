package pyimport

import (
	"bytes"
	"strings"
)

// Flags of dlopen.
const (
	rtldNow    = 2
	rtldGlobal = 0x100
)

// dlopenFlags are the flags of dlopen by the names that `os` and `cffi` give them, of glibc's dlfcn.h.
var dlopenFlags = map[string]value{
	"RTLD_LAZY": int64(1), "RTLD_NOW": int64(rtldNow), "RTLD_NOLOAD": int64(4), "RTLD_DEEPBIND": int64(8),
	"RTLD_LOCAL": int64(0), "RTLD_GLOBAL": int64(rtldGlobal), "RTLD_NODELETE": int64(0x1000),
}

func init() {
	for _, name := range []string{"CDLL", "PyDLL"} {
		by := "ctypes." + name
		classModel("ctypes", name, func(r *Run, _ *class, a *args) value { return openLibrary(r, a, by) })
		loaderModel("ctypes", map[string]string{"CDLL": "cdll", "PyDLL": "pydll"}[name], by)
	}
	constants("ctypes", map[string]value{"RTLD_GLOBAL": int64(rtldGlobal), "RTLD_LOCAL": int64(0), "DEFAULT_MODE": int64(0)})
	functions("ctypes.util", map[string]func(*Run, *args) value{"find_library": findLibrary})
	functions("_ctypes", map[string]func(*Run, *args) value{"dlopen": func(r *Run, a *args) value {
		return openLibrary(r, a, "_ctypes.dlopen")
	}})
	constants("_ctypes", map[string]value{"RTLD_GLOBAL": int64(rtldGlobal), "RTLD_LOCAL": int64(0)})
	functions("numpy.ctypeslib numpy.ctypeslib._ctypeslib", map[string]func(*Run, *args) value{"load_library": numpyLibrary})
	functions("tensorflow.python.framework.load_library", map[string]func(*Run, *args) value{
		"load_op_library":               func(r *Run, a *args) value { return openLibrary(r, a, "tf.load_op_library") },
		"load_library":                  func(r *Run, a *args) value { return openLibrary(r, a, "tf.load_library") },
		"load_pluggable_device_library": func(r *Run, a *args) value { return openLibrary(r, a, "tf.load_pluggable_device_library") },
	})
	for _, name := range []string{"ops", "classes"} {
		addModel("torch._"+name, name, func(r *Run) value { return &torchNamespace{by: "torch." + name + ".load_library"} })
	}
	classModel("_cffi_backend", "FFI", func(*Run, *class, *args) value { return &ffi{} })
	for _, mod := range []string{"cffi", "cffi.api"} {
		classModel(mod, "FFI", func(r *Run, _ *class, _ *args) value {
			r.importModule("cffi.cparser")
			if r.in.Implementation == "cpython" { // it is built into PyPy
				r.importModule("_cffi_backend")
			}
			return &ffi{searches: true}
		})
	}
}

// openLibrary opens the library of the first argument.
func openLibrary(r *Run, a *args, by string) value {
	v, given := a.get(0, "name")
	if given && v == nil {
		return &library{run: r} // the program itself
	}
	name, ok := a.text(0, "name")
	if !ok {
		why := "a name that is not known"
		if u := because(v); u != nil {
			why = u.why
		}
		r.note(by + " of " + why)
		r.passedOver = true
		return unknownf("a library")
	}
	flags := rtldNow
	if m, ok := a.get(1, "mode"); ok {
		n, known := m.(int64)
		if !known {
			r.note(by + " of " + name + " with flags that are not known")
		}
		flags |= int(n)
	}
	if h, ok := a.kw["handle"]; ok && h != nil {
		return &library{run: r, name: name, unsure: true}
	}
	return r.open(name, by, flags)
}

// loaderModel adds ctypes.cdll or ctypes.pydll.
func loaderModel(mod, name, by string) {
	addModel(mod, name, func(*Run) value { return &libraryLoader{by} })
}

// libraryLoader is ctypes.LibraryLoader: an attribute is a library.
type libraryLoader struct{ by string }

func (*libraryLoader) typeName() string { return "ctypes.LibraryLoader" }

func (l *libraryLoader) attr(r *Run, name string) (value, bool) {
	if name == "LoadLibrary" {
		return &builtin{"LoadLibrary", func(r *Run, a *args) value { return openLibrary(r, a, l.by) }}, true
	}
	if strings.HasPrefix(name, "_") {
		return nil, false
	}
	return openLibrary(r, &args{pos: []value{name}}, l.by), true
}

func (l *libraryLoader) item(r *Run, index value) value {
	return openLibrary(r, &args{pos: []value{index}}, l.by)
}

// findLibrary is ctypes.util.find_library.
func findLibrary(r *Run, a *args) value {
	name, ok := a.text(0, "name")
	if !ok {
		return unknownf("the name of a library")
	}
	if file := r.inPrefix(name); file != "" {
		return file
	}
	soname, known := r.host.FindLibrary(name)
	switch {
	case !known:
		return unknownf("find_library(%s)", quote(name))
	case soname == "":
		r.notFound(name)
		return nil
	}
	return soname
}

// inPrefix returns the file of a library that find_library of conda's Python finds in the lib
// directory of its prefix before all others, or "" (python-feedstock, the patch "Fix find_library
// so that it looks in sys.prefix/lib first").
func (r *Run) inPrefix(name string) string {
	v, _ := r.modules.get("ctypes.util")
	m, ok := v.(*module)
	if !ok {
		return ""
	}
	if b, known := r.src.read(m.file); !known || !bytes.Contains(b, []byte("_findLib_prefix")) {
		return ""
	}
	for _, full := range []string{name, "lib" + name + ".so"} {
		file := joinPath([]string{r.in.Prefix, "lib", full})
		if is, known := r.exists(file); is && known && name != "" {
			return file
		}
	}
	return ""
}

// numpyLibrary is numpy.ctypeslib.load_library.
func numpyLibrary(r *Run, a *args) value {
	name, ok1 := a.text(0, "libname")
	dir, ok2 := a.text(1, "loader_path")
	if !ok1 || !ok2 {
		r.note("load_library of a name that is not known")
		return unknownf("a library")
	}
	if is, _ := r.isDir(dir).(bool); !is {
		dir = dirname(dir)
	}
	for _, ext := range []string{"", ".so"} {
		p := joinPath([]string{dir, name + ext})
		if is, _ := r.isFile(p).(bool); is {
			return r.open(p, "numpy.ctypeslib.load_library", rtldNow)
		}
	}
	r.guess("OSError", "no file with expected extension")
	return unknownf("a library")
}

// torchNamespace is torch.ops or torch.classes. load_library is ctypes.CDLL of the path,
// with the flags of sys.getdlopenflags() | RTLD_GLOBAL (torch/_ops.py, dl_open_guard).
type torchNamespace struct{ by string }

func (*torchNamespace) typeName() string { return "torch._ops._Ops" }

func (t *torchNamespace) attr(_ *Run, name string) (value, bool) {
	if name != "load_library" {
		return nil, false
	}
	return &builtin{t.by, func(r *Run, a *args) value {
		path_, ok := a.text(0, "path")
		if !ok {
			return openLibrary(r, a, t.by)
		}
		path_ = r.realpath(path_)
		v := openLibrary(r, &args{pos: []value{path_}}, t.by)
		r.torchOpened(path_)
		return v
	}}, true
}

// ffi is cffi.FFI.
type ffi struct {
	// searches reports that dlopen searches for a name without a dot and a slash as
	// ctypes.util.find_library does: it is cffi.api's FFI, not the compiled one.
	searches bool
}

func (*ffi) typeName() string { return "cffi.FFI" }

func (f *ffi) attr(_ *Run, name string) (value, bool) {
	if flag, ok := dlopenFlags[name]; ok { // cffi/api.py sets those of _cffi_backend
		return flag, true
	}
	if name != "dlopen" {
		return nil, false
	}
	return &builtin{"ffi.dlopen", func(r *Run, a *args) value {
		const none = "ctypes.util.find_library() did not manage to locate a library called "
		b := *a
		if len(b.pos) < 2 {
			b.kw = nil
		}
		name, known := b.text(0, "name")
		search := func() value {
			r.importModule("ctypes.util")
			return findLibrary(r, &args{pos: []value{name}})
		}
		named := strings.ContainsAny(name, "./")
		if f.searches && known && !named && len(b.pos) > 0 {
			found := search()
			if found == nil {
				r.raise("OSError", none+quote(name))
				return unknownf("a library")
			}
			b.pos = append([]value{found}, b.pos[1:]...)
			name, _ = found.(string)
		}
		lib := openLibrary(r, &b, "ffi.dlopen")
		if l, ok := lib.(*library); ok {
			l.declared = true
		}
		if e := r.raised; e != nil && e.from != nil && e.from.Cause != nil && e.doubt == "" {
			r.raised = nil // the loader's error is a part of cffi's (_cffi_backend.c, b_do_dlopen)
			text := "cannot load library " + quote(name) + ": " + e.from.Text
			if f.searches && named && search() == nil {
				text += ".  Additionally, " + none + quote(name) // cffi/api.py, _load_backend_lib
			}
			r.raise("OSError", text)
			r.raised.from, r.raised.after = nil, e.from
		}
		return lib
	}}, true
}
