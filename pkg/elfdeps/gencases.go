//go:build ignore

// Gencases turns the built roots of loader cases into the text worlds of
// testdata/cases:
//
//	go run gencases.go ROOTS CASES testdata/cases
//
// ROOTS/NNN-slug/root is a tree that a real loader was run on, and
// CASES/NNN-slug holds probe.json and what the loader did, expected.json. Of
// each ELF file only what a loader looks at is kept; loaders and C libraries
// become files that tell the same release and built-in directories.
package main

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"log"
	"math/bits"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// left holds what a case shows that no loader does: it is killed by a signal.
var left = map[string][]string{"109": {"start", "trace"}}

// symbols reports whether a case is about the binding of symbols. Only the files
// of these have symbols, the C library's those that are asked for.
func symbols(name string) bool {
	n := name[:3]
	return "140" <= n && n <= "191" || n == "219" || n == "319" || n == "320" || n == "323" || "330" <= n && n <= "338"
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: gencases ROOTS CASES OUT")
	}
	roots, cases, out := os.Args[1], os.Args[2], os.Args[3]
	dirs, err := os.ReadDir(cases)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range dirs {
		w := world{root: filepath.Join(roots, d.Name(), "root"), probe: map[string]any{}, expected: map[string]any{}, patch: map[string]string{}}
		if err := w.write(d.Name(), filepath.Join(cases, d.Name()), out); err != nil {
			log.Fatalf("%s: %v", d.Name(), err)
		}
	}
}

type world struct {
	root            string
	probe, expected map[string]any
	patch           map[string]string
	objects         map[string]*elfdeps.Object
	asked           map[string]bool // versions and libraries
	wanted          map[string]bool // symbols
	symbols         bool
	needed          map[string]bool
	files           []txtar.File
	inodes          map[uint64]string
}

func (w *world) write(name, dir, out string) error {
	if err := readJSON(filepath.Join(dir, "probe.json"), &w.probe); err != nil {
		return err
	}
	if err := readJSON(filepath.Join(dir, "expected.json"), &w.expected); err != nil {
		return err
	}
	title, _ := w.probe["title"].(string)
	args, _ := w.probe["args"].([]any)
	w.symbols = symbols(name) || slices.ContainsFunc(args, func(a any) bool {
		kind, _, _ := strings.Cut(fmt.Sprint(a), "=")
		return slices.Contains([]string{"call", "hcall", "sym", "vsym"}, kind)
	})
	for _, k := range []string{"title", "rules", "search", "search_hwcaps", "versions", "min_cpu"} {
		delete(w.probe, k)
	}
	for _, k := range []string{"search", "versions", "loader"} {
		delete(w.expected, k)
	}
	for _, k := range left[name[:3]] {
		delete(w.expected, k)
		if k == "start" {
			delete(w.expected, "actions")
			delete(w.expected, "objects")
		}
	}
	if len(w.expected) == 0 {
		return nil
	}
	if err := w.survey(); err != nil {
		return err
	}
	if err := w.tree(); err != nil {
		return err
	}
	if len(w.patch) > 0 {
		w.probe["patch"] = w.patch
	}
	a := &txtar.Archive{Comment: []byte("# " + title + "\n")}
	a.Files = append(a.Files, txtar.File{Name: "probe", Data: dump(w.probe)}, txtar.File{Name: "expected", Data: dump(w.expected)})
	a.Files = append(a.Files, w.files...)
	b := txtar.Format(a)
	if _, err := imagetest.Parse(b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, name+".txtar"), b, 0o644)
}

func readJSON(file string, to any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}

// dump writes JSON with a line for each leaf-ish value.
func dump(v map[string]any) []byte {
	var b strings.Builder
	b.WriteString("{")
	keys := make([]string, 0, len(v))
	for k := range v {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for i, k := range keys {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n %q: %s", k, value(v[k]))
	}
	b.WriteString("\n}\n")
	return []byte(b.String())
}

func value(v any) string {
	one := func(v any) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			log.Fatal(err)
		}
		return strings.TrimSpace(b.String())
	}
	switch v := v.(type) {
	case []any:
		if s := one(v); len(s) < 100 {
			return s
		}
		var lines []string
		for _, x := range v {
			lines = append(lines, one(x))
		}
		return "[\n  " + strings.Join(lines, ",\n  ") + "]"
	case map[string]any:
		if _, ok := v["objects"]; !ok {
			return one(v)
		}
		return strings.ReplaceAll(strings.TrimSuffix(string(dump(v)), "\n"), "\n", "\n ")
	}
	return one(v)
}

// survey reads all ELF files, to know what is asked of the C library.
func (w *world) survey() error {
	w.objects, w.asked, w.needed, w.wanted = map[string]*elfdeps.Object{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	return filepath.WalkDir(w.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		o, err := elfdeps.ReadSymbols(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return nil
		}
		w.objects[p] = o
		if isFlavour(path.Base(p)) && !(w.symbols && isLibc(path.Base(p))) {
			return nil
		}
		for i := range o.Symbols.Len() {
			if s := o.Symbols.At(i); !s.Defined {
				w.wanted[s.Name] = true
			}
		}
		for _, n := range o.Needed {
			w.needed[n] = true
		}
		for _, n := range o.VersionNeeds {
			for _, v := range n.Versions {
				w.asked[v.Name] = true
			}
		}
		return nil
	})
}

// isFlavour reports whether a file is one of the real C library's.
func isFlavour(base string) bool {
	for _, p := range []string{"ld-linux", "ld-2.", "ld.so", "libc.so.6", "libc-2.", "libm.so.6", "libm-2.", "libdl.so.2", "libdl-2.", "libpthread", "librt.so.1", "librt-2.", "ld-musl", "libc.musl"} {
		if strings.HasPrefix(base, p) {
			return !strings.HasSuffix(base, ".path")
		}
	}
	return false
}

func isLibc(base string) bool {
	return strings.HasPrefix(base, "libc.so.6") || strings.HasPrefix(base, "libc-2.")
}

// plays reports whether a file of the C library plays a part.
func (w *world) plays(base string) bool {
	for _, p := range []string{"libm", "libdl", "libpthread", "librt"} {
		rest, ok := strings.CutPrefix(base, p)
		if ok && isFlavour(base) && strings.Trim(rest[:1], "-.") == "" {
			for n := range w.needed {
				if strings.HasPrefix(n, p+".so") {
					return true
				}
			}
			return false
		}
	}
	return base != "ld.so"
}

func (w *world) tree() error {
	w.inodes = map[uint64]string{}
	return filepath.WalkDir(w.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == w.root {
			return err
		}
		name := strings.TrimPrefix(p, w.root)
		switch name {
		case "/dbg", "/proc":
			return fs.SkipDir
		case "/app/link", "/.qemu":
			return nil
		}
		if !d.IsDir() && isFlavour(d.Name()) && !w.plays(d.Name()) {
			return nil
		}
		body, err := w.body(p, name, d)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if body != "" {
			w.files = append(w.files, txtar.File{Name: "0" + name, Data: []byte(body)})
		}
		return nil
	})
}

func (w *world) body(p, name string, d fs.DirEntry) (string, error) {
	info, err := d.Info()
	if err != nil {
		return "", err
	}
	st := info.Sys().(*syscall.Stat_t)
	mode := fmt.Sprintf(" mode=%04o", info.Mode().Perm())
	switch {
	case d.IsDir():
		entries, err := os.ReadDir(p)
		if err != nil {
			return "", err
		}
		if info.Mode().Perm() == 0o755 && (len(entries) > 0 || name == "/etc") {
			return "", nil
		}
		return "dir" + mode + "\n", nil
	case d.Type() == fs.ModeSymlink:
		target, err := os.Readlink(p)
		return "symlink " + target + "\n", err
	case !d.Type().IsRegular():
		return "", fmt.Errorf("unknown kind of file")
	case w.inodes[st.Ino] != "":
		return "hardlink " + w.inodes[st.Ino] + "\n", nil
	}
	w.inodes[st.Ino] = name
	b, err := os.ReadFile(p)
	if err != nil {
		return "", err
	}
	cap := make([]byte, 64)
	if n, err := syscall.Getxattr(p, "security.capability", cap); err == nil && n > 0 {
		mode += " cap"
	}
	if o := w.objects[p]; o != nil {
		return w.elfBody(name, o, b, info.Mode().Perm(), mode), nil
	}
	if mode == " mode=0644" {
		mode = ""
	}
	if utf8.Valid(b) && (len(b) == 0 || bytes.HasSuffix(b, []byte("\n"))) {
		return "text" + mode + "\n" + string(b), nil
	}
	s := "hex" + mode + "\n"
	for line := range slices.Chunk(b, 48) {
		s += hex.EncodeToString(line) + "\n"
	}
	return s, nil
}

func (w *world) elfBody(name string, o *elfdeps.Object, b []byte, perm fs.FileMode, mode string) string {
	fault := o.VersionFault
	if fault != "" { // what the table says is read behind the fault
		b = bytes.Clone(b)
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			log.Fatal(err)
		}
		b[f.Section(".gnu.version_r").Offset] = 1
		if o, err = elfdeps.ReadSymbols(bytes.NewReader(b), int64(len(b))); err != nil {
			log.Fatal(err)
		}
	}
	if o.Ident[elf.EI_DATA] == byte(elf.ELFDATA2MSB) { // a patched byte; the file is little endian all the same
		swapped := *o
		swapped.Machine = elf.Machine(bits.ReverseBytes16(uint16(o.Machine)))
		o = &swapped
	}
	e := w.text(o, path.Base(name))
	made := e.Bytes()
	read, err := elfdeps.Read(bytes.NewReader(made), int64(len(made)))
	if err != nil {
		log.Fatal(err)
	}
	var patch []string
	for i, c := range o.Ident {
		if read.Ident[i] != c && !isFlavour(path.Base(name)) {
			patch = append(patch, fmt.Sprintf("%d=%d", i, c))
		}
	}
	if strings.Contains(fault, "Verneed") {
		patch = append(patch, "verneed=2")
	}
	if o.LoadEnd > int64(len(b)) {
		patch = append(patch, fmt.Sprintf("trunc=%d", len(b)))
	}
	if len(patch) > 0 {
		w.patch[name] = strings.Join(patch, " ")
	}
	first, rest, _ := strings.Cut(e.Text(), "\n")
	def := fs.FileMode(0o644)
	if e.Interp != "" || e.Type == elf.ET_EXEC {
		def = 0o755
	}
	if (perm|0o111 == def|0o111) && perm&0o444 != 0 && !strings.Contains(mode, " cap") {
		mode = "" // whether a library may be run makes no difference
	} else if perm == def {
		mode = strings.TrimPrefix(mode, fmt.Sprintf(" mode=%04o", perm))
	}
	return first + mode + "\n" + rest
}

// text is what a loader looks at in an object.
func (w *world) text(o *elfdeps.Object, base string) *imagetest.ELF {
	e := &imagetest.ELF{
		Machine: o.Machine, Type: o.Type, Interp: o.Interp, Soname: o.Soname, Needed: o.Needed, Auxiliary: o.Auxiliary, Filter: o.Filter,
		Rpath: o.Rpath, Runpath: o.Runpath, Flags: uint64(o.Flags), Flags1: uint64(o.Flags1),
		ExecStack: o.Stack == elfdeps.StackExec, NoGNUStack: o.Stack == elfdeps.StackAbsent, ISANeeded: o.ISANeeded,
		NoDynamic: !o.Dynamic,
		ABITag:    [3]int{int(o.MinKernel[0]), int(o.MinKernel[1]), int(o.MinKernel[2])},
	}
	e.VerDefs = o.VersionDefs
	for _, n := range o.VersionNeeds {
		need := imagetest.VerNeed{File: n.File}
		for _, v := range n.Versions {
			need.Versions = append(need.Versions, imagetest.Version{Name: v.Name, Weak: v.Weak})
		}
		e.VerNeeds = append(e.VerNeeds, need)
	}
	if e.Type == elf.ET_DYN {
		e.Type = elf.ET_NONE
	}
	if isFlavour(base) || o.Libc != nil {
		e.ABITag = [3]int{}
		if !w.symbols || !isLibc(base) {
			e.VerNeeds = nil
		}
		e.VerDefs = slices.DeleteFunc(slices.Clone(e.VerDefs), func(v string) bool { return v != o.Soname && !w.asked[v] })
	}
	if w.symbols && o.Symbols != nil {
		w.addSymbols(e, o, isFlavour(base) || o.Libc != nil, isLibc(base))
	}
	if c := o.Libc; c != nil {
		switch {
		case c.Musl:
			e.Rodata = "musl libc (x86_64)\nVersion %s\n\x00" + c.Release + "\x00"
		case strings.HasPrefix(base, "libc"):
			e.Rodata = "GNU C Library (GNU libc) stable release version " + c.Release + ".\n\x00"
		default:
			if c.Release != "" {
				e.Rodata = "ld.so (GNU libc) stable release version " + c.Release + ".\n\x00"
			}
			e.Rodata += strings.Join(c.SystemDirs, "\x00") + "\x00"
		}
	}
	return e
}

// addSymbols gives e the symbols of o, of the C library's own those that are
// asked for.
func (w *world) addSymbols(e *imagetest.ELF, o *elfdeps.Object, flavour, libc bool) {
	s := o.Symbols
	called, loaded := map[int]bool{}, map[int]bool{}
	var order []int
	s.References(func(i int, lazy bool) {
		if lazy {
			called[i] = true
		} else {
			loaded[i] = true
		}
		if !slices.Contains(order, i) {
			order = append(order, i)
		}
	})
	for i := range s.Len() {
		if !slices.Contains(order, i) {
			order = append(order, i)
		}
	}
	for _, i := range order {
		sym := s.At(i)
		if sym.Bind == elf.STB_LOCAL || sym.Name == "" || !sym.Defined && (!called[i] && !loaded[i] || flavour && !libc) {
			continue
		}
		out := imagetest.Symbol{Name: sym.Name, Version: sym.Version, Defined: sym.Defined, Weak: sym.Bind == elf.STB_WEAK, Vis: sym.Vis, Type: sym.Type}
		if sym.Vis != elf.STV_HIDDEN && sym.Vis != elf.STV_PROTECTED {
			out.Vis = elf.STV_DEFAULT
		}
		if sym.Defined {
			out.Hidden = sym.Hidden
			if flavour && (!w.wanted[sym.Name] || sym.Version != "" && !slices.Contains(e.VerDefs, sym.Version) || sym.Name == sym.Version) {
				continue
			}
			if sym.Name == sym.Version { // the absolute symbol of a version
				continue
			}
		} else {
			out.From = sym.File
		}
		switch out.Type {
		case elf.STT_OBJECT, elf.STT_TLS:
		case elf.STT_NOTYPE:
			if out.Type = elf.STT_FUNC; !sym.Defined && !called[i] {
				out.Type = elf.STT_OBJECT
			}
		default:
			out.Type = elf.STT_FUNC
		}
		switch {
		case out.Type == elf.STT_TLS:
		case sym.Defined:
			out.Called, out.Load = called[i] && !flavour && out.Type == elf.STT_FUNC, loaded[i] && !flavour
		case out.Type == elf.STT_FUNC:
			out.Load = loaded[i]
		}
		e.Symbols = append(e.Symbols, out)
	}
	if s.StaticTLS && !flavour {
		e.StaticTLS = int64(o.TLSSize)
	}
	if s.Symbolic {
		e.Flags |= uint64(elf.DF_SYMBOLIC)
	}
	if s.BindNow {
		e.Flags |= uint64(elf.DF_BIND_NOW)
	}
}
