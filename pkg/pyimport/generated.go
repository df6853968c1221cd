package pyimport

import (
	"slices"
	"strings"
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
