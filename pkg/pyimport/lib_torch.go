package pyimport

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
