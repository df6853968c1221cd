package replay

import (
	"debug/elf"
	"path"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/nodejs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// nodeHost is the process of Node, in which a program opens addons ([nodejs.Host]).
type nodeHost struct{ *pythonHost }

var _ nodejs.Host = nodeHost{}

// Open opens an addon as process.dlopen does: with RTLD_LAZY (DLib::Open, src/node_binding.cc).
func (h nodeHost) Open(file string) *pyimport.Failure {
	m, failed := h.open(nil, file, elfdeps.Lazy, "Error")
	if failed == nil && m != nil {
		h.opened = append(h.opened, opened{name: file, flags: elfdeps.Lazy})
	}
	return failed
}

// nodeArch are the machines as process.arch names them.
var nodeArch = map[elf.Machine]string{
	elf.EM_X86_64: "x64", elf.EM_AARCH64: "arm64", elf.EM_386: "ia32", elf.EM_ARM: "arm", elf.EM_PPC64: "ppc64", elf.EM_S390: "s390x",
	elf.EM_RISCV: "riscv64",
}

// NodeArch returns a machine as process.arch and npm's option --cpu name it, or "".
func NodeArch(m elf.Machine) string { return nodeArch[m] }

// evaluateNode follows a program of Node in a new process, which it ends. It returns nil as
// [starter.follow] does.
func (st *starter) evaluateNode(j job) *followed {
	p := j.node
	if p.File == "" || len(p.Args) == 0 {
		return nil
	}
	host := st.processOf(RealPath(st.re.img.FS, p.Path), p.Path, j.env, p.Loader)
	if host == nil {
		return nil
	}
	f := &followed{tree: nodejs.Main(st.re.img.FS, nodeHost{host}, p.File, nodejs.Options{
		Env: j.env, Cwd: path.Join("/", p.Dir), Exec: p.Path, Args: nodeArguments(p.Args, p.File), Preload: p.Preloads(),
		Arch: NodeArch(st.re.files.Machine), Musl: host.proc.Loader.Libc.Musl,
	})}
	if f.tree == nil {
		return nil
	}
	f.steps = startSpan / 4 // as much as a program of Node may take, about
	f.mapped, f.opened, f.brought, f.killed = host.mapped(), host.opened, host.brought, host.killed != nil
	host.proc.Rest()
	return f
}

// nodeArguments returns the arguments after the program's file.
func nodeArguments(args []string, file string) []string {
	i := slices.IndexFunc(args[1:], func(a string) bool { return path.Base(a) == path.Base(file) })
	if i < 0 {
		return []string{"\x00"}
	}
	return args[i+2:]
}
