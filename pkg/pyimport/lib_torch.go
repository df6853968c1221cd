package pyimport

import (
	"path"
	"strings"
)

func init() {
	for _, name := range []string{"torch.library.register_fake", "torch.library.impl_abstract", "torch._custom_ops.impl_abstract"} {
		mod, fn, _ := cutLast(name)
		functions(mod, map[string]func(*Run, *args) value{fn: registerFake})
	}
}

// cOperators are the namespaces of PyTorch's operators that only the library of a package
// defines, by package (torchvision: TORCH_LIBRARY_FRAGMENT of torchvision/csrc/ops/nms.cpp).
var cOperators = map[string]string{"torchvision": "torchvision"}

// notLoaded begins the text of the OSError that torch.ops.load_library makes of the loader's
// in newer releases (torch/_ops.py).
const notLoaded = "Could not load this library: "

// torchOpened goes on after the dlopen of torch.ops.load_library: it keeps that a package has not
// got its operators, and raises the exception that PyTorch's source makes of the loader's.
func (r *Run) torchOpened(file string) {
	if r.raised == nil {
		return
	}
	if top, _, _ := strings.Cut(r.frame.module.name, "."); r.raised.doubt == "" {
		name, _, _ := strings.Cut(path.Base(file), ".")
		r.lacksOperators(top, name)
	}
	v, _ := r.modules.get("torch")
	torch, ok := v.(*module)
	if !ok {
		return
	}
	if text, ok := r.src.read(path.Dir(torch.file) + "/_ops.py"); ok && strings.Contains(string(text), notLoaded) {
		loader := r.raised
		r.raised = nil
		r.raiseFailure(&Failure{Type: "OSError", Text: notLoaded + file, Doubt: loader.doubt, Cause: loader.failure().Cause}, nil)
	}
}

// lacksOperators keeps that a package has not got its operators, if its library of a name, which is
// not loaded, is the one that defines them.
func (r *Run) lacksOperators(pkg, library string) {
	if ns := cOperators[pkg]; ns != "" && library == "_C" {
		r.noOperators[ns] = true
	}
}

// registerFake is torch.library.register_fake and its older names, as a decorator: PyTorch's
// dispatcher says that there is no operator of a name (c10::Dispatcher::findSchemaOrThrow).
func registerFake(r *Run, a *args) value {
	name, _ := a.text(0, "op")
	ns, _, _ := strings.Cut(name, "::")
	register := func(r *Run, a *args) value {
		if r.noOperators[ns] {
			r.raise("RuntimeError", "operator "+name+" does not exist")
		}
		if fn, ok := a.get(0, "func"); ok {
			return fn
		}
		return unknownf("a function")
	}
	if fn, ok := a.get(1, "func"); ok && fn != nil {
		return register(r, &args{pos: []value{fn}})
	}
	return &builtin{name: "torch.library.register_fake", fn: register}
}

// storeType is a symbol that PyTorch's libraries define if they are built with
// torch.distributed (c10d::TCPStore in torch/csrc/distributed/c10d/TCPStore.hpp).
const storeType = "_ZTVN4c10d8TCPStoreE"

// torchParts sets names of torch._C that depend on how PyTorch is built. hasattr of _c10d_init is
// torch.distributed.is_available(), and its value says that it is initialized
// (torch/csrc/Module.cpp, torch/csrc/distributed/c10d/init.cpp). If a library does not show its
// symbols, the names stay not known.
func (r *Run) torchParts(m *module, file string) {
	if is, known := r.host.Defines(file, storeType); !known || !is {
		return
	}
	for _, name := range []string{"_c10d_init", "_rpc_init", "_dist_autograd_init"} {
		if _, set := m.names.get(name); !set {
			m.names.put(name, &builtin{name: "torch._C." + name, fn: func(*Run, *args) value { return true }})
		}
	}
}
