package lint

import "slices"

// rule is a row of the table: a function, and the IDs of the packs' rules whose findings it
// returns. Most functions have one. Those that look for the cause of a failure have one for
// each cause.
type rule struct {
	ids  []string
	find func(*Pass) []Finding
	// perProcess is set if the function returns a finding for each process that meets a
	// cause. group merges those into one.
	perProcess bool
	// machines is set if the rules' errors and warnings are about the GPUs and drivers of a
	// scan alone.
	machines bool
}

// table has all rules. Their order decides nothing but the order of findings that are equal
// to compareFindings.
var table = []rule{
	{ids: ids("broken-entrypoint"), find: entrypoint},
	{ids: ids("missing-interpreter"), find: interpreters},
	{ids: ids(
		"missing-library", "missing-sublibrary", "library-not-on-path", "missing-link", "unusable-library", "unresolved-library",
		"broken-entrypoint", "not-examined", "executable-stack", "static-tls", "version-not-found", "older-copy-first", "stale-version-table",
	), find: missed},
	{ids: ids("undefined-symbol", "undefined-function", "torch-extension-mismatch", "mixed-releases"), find: unboundSymbols, perProcess: true},
	{ids: ids("unresolved-library"), find: librariesOfVariables},
	{ids: ids("ld-path-missing"), find: ldPathMissing},
	{ids: ids("ld-path-file"), find: ldPathFile},
	{ids: ids("ld-path-empty"), find: ldPathEmpty},
	{ids: ids("preload-ignored"), find: preloadsIgnored},
	{ids: ids("stubs-on-path"), find: stubsOnPath},
	{ids: ids("compat-on-path"), find: compatOnPath},
	{ids: ids("driver-path-lost"), find: driverPathLost},
	{ids: ids("driver-in-image"), find: driverInImage},
	{ids: ids("gpu-hidden"), find: gpuHidden},
	{ids: ids("devices-hidden"), find: devicesHidden},
	{ids: ids("driver-capabilities"), find: driverCapabilities},
	{ids: ids("require-cuda"), find: requireCUDA},
	{ids: ids("conda-activate-only"), find: condaActivateOnly},
	{ids: ids("shell-only-path"), find: shellOnly},
	{ids: ids("glibc-on-musl"), find: glibcOnMusl},
	{ids: ids("wrong-architecture"), find: wrongArchitecture},
	{ids: ids("wrong-python"), find: wrongPythons},
	{ids: ids("torch-pair"), find: unfitPairs},
	{ids: ids("requirement-unmet"), find: requirementsUnmet},
	{ids: ids("cudnn-version"), find: cudnnVersions},
	{ids: ids("cuda-major-absent"), find: cudaMajors},
	{ids: ids("cuda-differs"), find: cudaDiffers},
	{ids: ids("cpu-build"), find: cpuBuilds},
	{ids: ids("feature-needs"), find: unmetNeeds},
	{ids: ids("build-not-there"), find: choiceMissing},
	{ids: ids("double-owner"), find: doubleOwners},
	{ids: ids("wheel-file-changed"), find: wheelFilesChanged},
	{ids: ids("stub-library"), find: stubCopies},
	{ids: ids("unusable-library"), find: shortLibraries},
	{ids: ids("module-lost"), find: modulesLost},
	{ids: ids("import-fails"), find: importsFail},
	{ids: ids("stdlib-module"), find: stdlibModules},
	{ids: ids("python-home"), find: pythonHome},
	{ids: ids("mixed-releases", "shadowed-library", "cuda-major-mismatch", "undefined-symbol", "torch-extension-mismatch"), find: mixtures, perProcess: true},
	{ids: ids("stub-driver"), find: drivers, perProcess: true},
	{ids: ids("named-library"), find: namedLibraries},
	{ids: ids("no-gpu-code", "needs-newer-driver", "ptx-jit", "compiler-lacks-gpu", "arch-list-differs"), find: gpuCode, machines: true},
	{ids: ids("not-examined"), find: unexamined},
	{ids: ids("nothing-examined"), find: unjudged},
}

func ids(list ...string) []string { return list }

// Applied returns the IDs of the rules that a scan applies, sorted; with machines, those that
// judge an image for GPUs and drivers, too.
func Applied(machines bool) []string {
	var list []string
	for _, r := range table {
		if machines || !r.machines {
			list = append(list, r.ids...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// perProcess returns the IDs of the rules whose findings group merges by cause.
func perProcess(table []rule) map[string]bool {
	set := map[string]bool{}
	for _, r := range table {
		for _, id := range r.ids {
			set[id] = set[id] || r.perProcess
		}
	}
	return set
}
