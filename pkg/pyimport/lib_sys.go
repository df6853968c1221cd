package pyimport

import (
	"fmt"
)

// startSys makes the module sys.
func (r *Run) startSys() {
	in := r.in
	m := r.newModule("sys", "")
	r.sys = m
	micro := value(int64(in.Micro))
	if in.Micro < 0 {
		micro = unknownf("the micro version of the interpreter")
	}
	major, minor := int64(in.Major), int64(in.Minor)
	info := &tuple{items: []value{major, minor, micro, "final", int64(0)}, fields: []string{"major", "minor", "micro", "releaselevel", "serial"}}
	var text value = &unknown{why: "sys.version", begin: fmt.Sprintf("%d.%d.", in.Major, in.Minor)}
	hex := value(unknownf("sys.hexversion"))
	if in.Micro >= 0 {
		text = fmt.Sprintf("%d.%d.%d (main) [GCC]", in.Major, in.Minor, in.Micro)
		hex = major<<24 | minor<<16 | int64(in.Micro)<<8 | 0xf0
	}
	builtins := &tuple{}
	for _, name := range in.Builtins {
		builtins.items = append(builtins.items, name)
	}
	argv := &list{items: []value{"-c"}}
	if len(r.opt.Argv) > 0 {
		argv = texts(r.opt.Argv)
	}
	for _, c := range []struct {
		name string
		v    value
	}{
		{"platform", "linux"},
		{"version_info", info},
		{"version", text},
		{"hexversion", hex},
		{"maxsize", int64(1)<<62 - 1 + int64(1)<<62},
		{"maxunicode", int64(0x10ffff)},
		{"byteorder", "little"},
		{"prefix", in.Prefix},
		{"base_prefix", in.BasePrefix},
		{"exec_prefix", in.ExecPrefix},
		{"base_exec_prefix", in.BasePrefix},
		{"platlibdir", in.PlatLibDir},
		{"executable", in.Path},
		{"path", r.path},
		{"meta_path", r.metaPath},
		{"path_hooks", &list{open: true}},
		{"path_importer_cache", unknownf("sys.path_importer_cache")},
		{"modules", &sysModules{}},
		{"argv", argv},
		{"orig_argv", unknownf("sys.orig_argv")},
		{"dont_write_bytecode", false},
		{"warnoptions", &list{}},
		{"builtin_module_names", builtins},
		{"stdout", unknownf("sys.stdout")},
		{"stderr", unknownf("sys.stderr")},
		{"stdin", unknownf("sys.stdin")},
		{"__stdout__", unknownf("sys.stdout")},
		{"__stderr__", unknownf("sys.stderr")},
		{"__stdin__", unknownf("sys.stdin")},
		{"flags", sysFlags{}},
		{"hash_info", unknownf("sys.hash_info")},
		{"float_info", unknownf("sys.float_info")},
		{"int_info", unknownf("sys.int_info")},
		{"thread_info", unknownf("sys.thread_info")},
		{"api_version", int64(1013)},
		{"abiflags", ""},
		{"copyright", ""},
		{"float_repr_style", "short"},
		{"pycache_prefix", nil},
		{"displayhook", unknownf("sys.displayhook")},
		{"excepthook", unknownf("sys.excepthook")},
		{"unraisablehook", unknownf("sys.unraisablehook")},
		{"__excepthook__", unknownf("sys.excepthook")},
		{"_framework", ""},
		{"implementation", &implementation{in.Implementation, info}},
		{"_git", unknownf("sys._git")},
		{"_xoptions", r.newDict()},
		{"__name__", "sys"},
		{"stdlib_module_names", unknownf("sys.stdlib_module_names")},
		{"monitoring", unknownf("sys.monitoring")},
	} {
		m.names.put(c.name, c.v)
	}
	for _, name := range sortedKeys(sysFunctions) {
		m.names.put(name, &builtin{name: "sys." + name, fn: sysFunctions[name]})
	}
	b := r.newModule("builtins", "")
	b.names = r.builtins
	b.names.put("__name__", "builtins")
	r.modules.put("sys", m)
	r.modules.put("builtins", b)
}

// implementation is sys.implementation.
type implementation struct {
	name    string
	version *tuple
}

func (*implementation) typeName() string { return "sys.implementation" }

func (i *implementation) attr(r *Run, name string) (value, bool) {
	switch name {
	case "name":
		return i.name, true
	case "version":
		return i.version, true
	case "cache_tag":
		return fmt.Sprintf("%s-%d%d", i.name, r.in.Major, r.in.Minor), true
	case "_multiarch":
		return r.opt.Machine + "-linux-gnu", true
	}
	return nil, false
}

// sysFlags is sys.flags, of which the evaluation knows whether the interpreter was started with -O.
type sysFlags struct{}

func (sysFlags) typeName() string { return "sys.flags" }

func (sysFlags) attr(r *Run, name string) (value, bool) {
	if name == "optimize" && !r.opt.Optimized {
		return int64(0), true
	}
	return unknownf("sys.flags.%s", name), true
}

var sysFunctions = map[string]func(*Run, *args) value{
	"exit":                      exitProgram,
	"intern":                    identity,
	"getdlopenflags":            func(r *Run, _ *args) value { return r.flags },
	"setdlopenflags":            func(r *Run, a *args) value { r.flags, _ = a.get(0, ""); return nil },
	"getrecursionlimit":         func(*Run, *args) value { return int64(1000) },
	"setrecursionlimit":         func(*Run, *args) value { return nil },
	"getfilesystemencoding":     func(*Run, *args) value { return "utf-8" },
	"getdefaultencoding":        func(*Run, *args) value { return "utf-8" },
	"getfilesystemencodeerrors": func(*Run, *args) value { return "surrogateescape" },
	"exc_info":                  excInfo,
	"exception":                 notKnown("exception"),
	"getrefcount":               notKnown("getrefcount"),
	"getsizeof":                 notKnown("getsizeof"),
	"getswitchinterval":         notKnown("getswitchinterval"),
	"gettrace":                  notKnown("gettrace"),
	"settrace":                  notKnown("settrace"),
	"getprofile":                notKnown("getprofile"),
	"setprofile":                notKnown("setprofile"),
	"is_finalizing":             func(*Run, *args) value { return false },
	"audit":                     func(*Run, *args) value { return nil },
	"addaudithook":              func(*Run, *args) value { return nil },
	"_getframe":                 currentFrame,
	"_getframemodulename":       notKnown("_getframemodulename"),
	"_current_frames":           notKnown("_current_frames"),
	"_is_gil_enabled":           func(r *Run, _ *args) value { return !r.in.Free },
	"_clear_type_cache":         func(*Run, *args) value { return nil },
	"set_int_max_str_digits":    func(*Run, *args) value { return nil },
	"get_int_max_str_digits":    func(*Run, *args) value { return int64(4300) },
	"call_tracing":              notKnown("call_tracing"),
	"breakpointhook":            notKnown("breakpointhook"),
	"get_asyncgen_hooks":        notKnown("get_asyncgen_hooks"),
	"set_asyncgen_hooks":        notKnown("set_asyncgen_hooks"),
	"getallocatedblocks":        notKnown("getallocatedblocks"),
	"_debugmallocstats":         notKnown("_debugmallocstats"),
	"setswitchinterval":         notKnown("setswitchinterval"),
}

// frameObject is a frame of sys._getframe.
type frameObject struct{ f *frame }

func (*frameObject) typeName() string { return "frame" }

func (o *frameObject) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "f_globals":
		return &moduleDict{o.f.module}, true
	case "f_locals":
		if o.f.vars == o.f.module.names {
			return &moduleDict{o.f.module}, true
		}
	case "f_code":
		return &codeObject{o.f.file}, true
	case "f_back":
		if o.f.caller != nil {
			return &frameObject{o.f.caller}, true
		}
	}
	return nil, false
}

func currentFrame(r *Run, a *args) value {
	n := int64(0)
	if v, ok := a.get(0, ""); ok {
		m, known := v.(int64)
		if !known {
			return unknownf("a frame")
		}
		n = m
	}
	f := r.frame
	for ; n > 0 && f != nil; n-- {
		f = f.caller
	}
	if f == nil {
		return unknownf("a frame")
	}
	return &frameObject{f}
}

// excInfo is sys.exc_info: the exception of the handler that runs, in this function or in a caller.
func excInfo(r *Run, _ *args) value {
	for f := r.frame; f != nil; f = f.caller {
		n := len(f.caught)
		if n == 0 {
			continue
		}
		if e := f.caught[n-1]; e.doubt == "" {
			return &tuple{items: []value{e.of.of, e.of, unknownf("a traceback")}}
		}
		break
	}
	return unknownf("the exception that is handled")
}
