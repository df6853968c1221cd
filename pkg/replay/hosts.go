package replay

import (
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// hosts starts the processes of a replay with the image's loaders as they are on a
// machine with a GPU, where the container runtime has mounted the driver (see [gpuHost]).
type hosts struct {
	loaders *Loaders
	opened  map[*elfdeps.Loader]*elfdeps.Loader // by the image's loader; nil: cannot be opened
}

// loader returns l on a machine with a GPU, or nil if it cannot be opened there.
func (ho *hosts) loader(l *elfdeps.Loader) *elfdeps.Loader {
	if h, ok := ho.opened[l]; ok {
		return h
	}
	h, err := elfdeps.NewLoader(ho.loaders.gpuHost(l), l.Path, ho.loaders.config.Env())
	if err != nil {
		h = nil
	}
	ho.opened[l] = h
	return h
}

// primary returns the primary loader on a machine with a GPU, or nil if the image has
// none or it cannot be opened there.
func (ho *hosts) primary() *elfdeps.Loader {
	if ho.loaders.Primary == nil {
		return nil
	}
	return ho.loader(ho.loaders.Primary)
}

// process starts the process that opens the files of a framework: its interpreter, or its
// host program. It returns nil if the image has no such program, or it does not start.
//
// A plug-in for any program is opened by a process without libraries. known is false
// then: the program that is not known may define the symbols that the plug-in needs.
func (ho *hosts) process(in *Install) (p *elfdeps.Process, known bool) {
	host := ho.primary()
	if host == nil {
		return nil, false
	}
	if in.Host == "" && len(ho.loaders.Pythons(in.Home)) == 0 {
		p = host.Bare()
		p.Settle()
		return p, false
	}
	return ho.start(host, ho.programOf(in, host)), true
}

// programOf returns the path of the program that opens the files of a framework: an
// interpreter that starts, or its host program. It returns "" if the framework is for any
// program, or the image has no such program.
func (ho *hosts) programOf(in *Install, host *elfdeps.Loader) string {
	lo := ho.loaders
	if in.Host == "" {
		return ho.pythonOf(in.Home, host)
	}
	var paths []string
	if p, ok := lo.config.Executable(in.Host); ok {
		paths = append(paths, RealPath(lo.img.FS, p))
	}
	for _, p := range append(paths, lo.files.filesNamed(in.Host)...) {
		if o := lo.files.ByPath[p]; o != nil && IsProgram(o.ELF) && o.ELF.Interp == host.Path {
			return p
		}
	}
	return ""
}

// pythonOf returns the first interpreter that may load the file at p and starts, or "".
func (ho *hosts) pythonOf(p string, host *elfdeps.Loader) string {
	for _, python := range ho.loaders.Pythons(p) {
		e, _, ok := ho.loaders.img.FS.Lookup(python)
		if !ok || e.Object == nil || e.Object.Interp != host.Path {
			continue
		}
		if _, err := host.Trace(python); err == nil {
			return python
		}
	}
	return ""
}

// start starts a program. It returns nil if program is "" or does not start.
func (ho *hosts) start(host *elfdeps.Loader, program string) *elfdeps.Process {
	if program == "" {
		return nil
	}
	if p, err := host.Start(program); err == nil {
		return p
	}
	return nil
}

// trace starts a program in a tracing process, or a process without libraries if program
// is "" or cannot be traced.
func (ho *hosts) trace(host *elfdeps.Loader, program string) *elfdeps.Process {
	if program != "" {
		if p, err := host.Trace(program); err == nil {
			return p
		}
	}
	return host.Bare()
}
