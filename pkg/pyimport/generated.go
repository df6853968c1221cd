package pyimport

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// Names that generators of extension modules put into each module they make, and that its
// code imports when it first needs them, not at its start.
var (
	// lateCython: __Pyx_CyFunction_get_is_coroutine (Cython/Utility/CythonFunction.c).
	lateCython = []string{"asyncio.coroutines"}
	// lateBound: pybind11 (pybind11/numpy.h, pybind11/eigen/matrix.h) and nanobind
	// (nb_ndarray.cpp).
	lateBound = strings.Fields(`numpy.core numpy._core numpy.core.multiarray numpy._core.multiarray numpy.lib
		scipy.sparse torch.utils.dlpack tensorflow.experimental.dlpack jax.dlpack cupy`)
)

// atStart returns the dotted names of a module's data without those that its generator puts
// there for later.
func atStart(names []string, cython bool) []string {
	late := lateBound
	if cython {
		late = lateCython
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(late, name) })
}

// numpyAPI are the modules that import_array of NumPy's header imports
// (numpy/__multiarray_api.h), of NumPy 2 and 1: libraries call it when they are initialized.
var numpyAPI = []string{"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"}

// numpyImports imports NumPy for the libraries that the last extension module has brought
// and that are compiled with its header.
func (r *Run) numpyImports() {
	for _, file := range r.host.Brought() {
		o := r.objectOf(file)
		if o == nil || o.Modules == nil || o.Symbols.Defines(InitFunction(r.node.Name)) {
			continue
		}
		for _, name := range numpyAPI {
			if slices.Contains(o.Modules.Names, name) && r.in.Resolve(name).Kind != pyenv.Missing {
				r.importNames([]string{name}, false)
				break
			}
		}
	}
}
