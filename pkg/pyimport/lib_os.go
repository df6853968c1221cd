package pyimport

import (
	"path"
	"slices"
	"strings"
)

func init() {
	addModel("os", "environ", func(r *Run) value { return r.env })
	addModel("os", "environb", func(*Run) value { return unknownf("os.environb") })
	functions("os", map[string]func(*Run, *args) value{
		"getenv": func(r *Run, a *args) value {
			b := *a
			b.pos = append([]value{r.env}, a.pos...)
			return getenv(r, &b)
		},
		"putenv": func(*Run, *args) value { return nil },
		"fspath": func(_ *Run, a *args) value {
			if t, ok := a.text(0, "path"); ok {
				return t
			}
			return unknownf("a path")
		},
		"fsencode":          identity,
		"fsdecode":          identity,
		"walk":              walk,
		"scandir":           scandir,
		"makedirs":          makesFiles,
		"mkdir":             makesFiles,
		"get_exec_path":     notKnown("get_exec_path"),
		"_exit":             exitProgram,
		"add_dll_directory": notKnown("add_dll_directory"),
	})
	constants("os", map[string]value{"name": "posix", "linesep": "\n", "sep": "/", "pathsep": ":", "curdir": ".", "pardir": "..", "altsep": nil, "extsep": ".", "devnull": "/dev/null"})
	functions("posix os", map[string]func(*Run, *args) value{
		"getcwd":    func(r *Run, _ *args) value { return r.opt.Cwd },
		"listdir":   listdir,
		"uname":     uname,
		"cpu_count": notKnown("cpu_count"),
		"stat":      stat, "lstat": stat,
		"access":   func(r *Run, a *args) value { return r.onPath(a, func(p string) value { return r.existsValue(p) }) },
		"readlink": notKnown("readlink"),
	})
	constants("posix os _cffi_backend", dlopenFlags)
	constants("posix os", map[string]value{
		"R_OK": int64(4), "W_OK": int64(2), "X_OK": int64(1), "F_OK": int64(0), "O_RDONLY": int64(0),
	})
	functions("posixpath os.path", pathFunctions)
	constants("posixpath os.path", map[string]value{"sep": "/", "pathsep": ":", "curdir": ".", "pardir": "..", "altsep": nil})
	functions("genericpath", map[string]func(*Run, *args) value{
		"exists": pathFunctions["exists"], "isfile": pathFunctions["isfile"], "isdir": pathFunctions["isdir"],
		"getmtime": notKnown("getmtime"), "getsize": notKnown("getsize"),
	})
	functions("shutil", map[string]func(*Run, *args) value{
		"copytree": makesFiles, "copy": makesFiles, "copy2": makesFiles, "copyfile": makesFiles, "move": makesFiles,
		"unpack_archive": makesFiles, "make_archive": makesFiles,
	})
	functions("glob", map[string]func(*Run, *args) value{"glob": globFiles, "iglob": globFiles})
	functions("fnmatch", map[string]func(*Run, *args) value{"fnmatch": fnmatch, "fnmatchcase": fnmatch})
	for _, name := range []string{"Path", "PurePath", "PosixPath", "PurePosixPath"} {
		classModel("pathlib", name, makePath)
		classModel("pathlib._local", name, makePath)
	}
}

func makePath(r *Run, _ *class, a *args) value {
	var parts []string
	size := 0
	for i := range a.pos {
		t, ok := a.text(i, "")
		if !ok {
			return unknownf("a path")
		}
		if size += len(t); size > maxPath {
			return unknownf("a path that is too long")
		}
		parts = append(parts, t)
	}
	if a.open {
		return unknownf("a path")
	}
	return newPath(parts...)
}

// onPath calls f with the first argument, a known path.
func (r *Run) onPath(a *args, f func(p string) value) value {
	p, ok := a.text(0, "path")
	if !ok {
		return unknownf("a path that is not known")
	}
	r.spend(1 + len(p)/64)
	return f(p)
}

func pathText(f func(r *Run, p string) value) func(*Run, *args) value {
	known := pathStat(f)
	return func(r *Run, a *args) value {
		if len(a.pos) == 1 && a.pos[0] == nil {
			return r.noPath()
		}
		v := known(r, a)
		if len(a.pos) > 0 {
			if _, isBytes := a.pos[0].(byteText); isBytes {
				if s, ok := v.(string); ok {
					return byteText(s)
				}
			}
		}
		return v
	}
}

// pathStat is pathText for functions that ask for a file, whose exceptions have other texts.
func pathStat(f func(r *Run, p string) value) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		return r.onPath(a, func(p string) value { return f(r, p) })
	}
}

// noPath raises the exception of os.fspath(None): the __file__ of a package without __init__.py
// is None. So may be a variable that is not set.
func (r *Run) noPath() value {
	r.raise("TypeError", "expected str, bytes or os.PathLike object, not NoneType")
	if m := r.frame.module; m != nil {
		r.forgo(m.lacks)
	}
	return unknownf("a path of None")
}

// exists reports whether a file is in the image; known is false for the places that a
// running container has other files in.
func (r *Run) exists(p string) (is, known bool) {
	p = r.absolute(p)
	if _, _, ok := r.src.fs.Lookup(p); ok {
		return true, true
	}
	r.readsAbsent(p)
	return false, !r.mayAppear(p)
}

// makesFiles is a function that makes one of the files that its arguments name.
func makesFiles(r *Run, a *args) value {
	r.mayMake(a)
	r.madeAny = r.madeAny || a.open
	return unknownf("what makes files")
}

// mayMake notes that a call of something unknown, or of what makes files, gets paths: from then on it is not known
// whether these files, and those below them, are absent.
func (r *Run) mayMake(a *args) {
	for _, v := range a.pos {
		r.mayAppearAt(v)
	}
	for _, v := range a.kw {
		r.mayAppearAt(v)
	}
}

// maxMade is the number of files that a program may make; with more, any file may be there. Texts without a slash, of which
// unknown calls get many, have a number of their own: with more, any file may be there that is new in the working directory.
const maxMade = 1000

func (r *Run) mayAppearAt(v value) {
	switch v := v.(type) {
	case *filePath:
		r.mayAppearAt(v.text)
	case string:
		if len(v) < 256 {
			r.makes(v)
			for _, word := range strings.Fields(v) { // of a command
				r.makes(word)
			}
		}
	case *list:
		for _, item := range v.items[:min(len(v.items), 100)] {
			if s, ok := item.(string); ok {
				r.mayAppearAt(s)
			}
		}
	}
}

// makes notes that the program may make a file.
func (r *Run) makes(p string) {
	r.spend(1)
	if r.made == nil {
		r.made, r.madeHere = map[string]bool{}, map[string]bool{}
	}
	made := r.made
	if !strings.Contains(p, "/") {
		made = r.madeHere
	}
	if len(made) < maxMade {
		made[r.absolute(p)] = true
	}
}

// mayAppear reports whether a file that the image does not have may be there when the program asks.
func (r *Run) mayAppear(p string) bool {
	if volatile(p) || r.madeAny || len(r.made) >= maxMade {
		return true
	}
	if len(r.madeHere) >= maxMade && r.newHere(p) {
		return true
	}
	for _, all := range []map[string]bool{r.made, r.madeHere} {
		r.spend(len(all) / 16)
		for made := range all {
			if p == made || strings.HasPrefix(p, made+"/") || strings.HasPrefix(made, p+"/") {
				return true
			}
		}
	}
	return false
}

// newHere reports whether a path lies below the working directory, and not in a directory of the image there.
func (r *Run) newHere(p string) bool {
	here := strings.TrimSuffix(r.absolute("."), "/") + "/"
	rest, below := strings.CutPrefix(p, here)
	first, _, _ := strings.Cut(rest, "/")
	e, _, ok := r.src.fs.Lookup(here + first)
	return below && !(ok && e.IsDir())
}

// volatile reports whether a path is where the kernel or the runtime puts files.
func volatile(p string) bool {
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/tmp"} {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}

func (r *Run) existsValue(p string) value {
	is, known := r.exists(p)
	if !known {
		return unknownf("whether %s exists", p)
	}
	return is
}

func (r *Run) isDir(p string) value {
	p = r.absolute(p)
	e, _, ok := r.src.fs.Lookup(p)
	if !ok && r.mayAppear(p) {
		return unknownf("whether %s is a directory", p)
	}
	if !ok {
		r.readsAbsent(p)
	}
	return ok && e.IsDir()
}

func (r *Run) isFile(p string) value {
	p = r.absolute(p)
	e, _, ok := r.src.fs.Lookup(p)
	if !ok && r.mayAppear(p) {
		return unknownf("whether %s is a file", p)
	}
	if !ok {
		r.readsAbsent(p)
	}
	return ok && e.Mode.IsRegular() && !e.IsDir()
}

// joinPath is os.path.join. A path that is longer than a text may be is cut.
func joinPath(parts []string) string {
	for i, part := range slices.Backward(parts) {
		if strings.HasPrefix(part, "/") {
			parts = parts[i:] // the others do not matter
			break
		}
	}
	var p []byte
	for _, part := range parts {
		if len(p) > 0 && p[len(p)-1] != '/' {
			p = append(p, '/')
		}
		if p = append(p, part...); len(p) > maxText {
			break
		}
	}
	return string(p)
}

// dirname is os.path.dirname.
func dirname(p string) string {
	i := strings.LastIndexByte(p, '/') + 1
	head := p[:i]
	if head != "" && strings.Trim(head, "/") != "" {
		head = strings.TrimRight(head, "/")
	}
	return head
}

// normpath is os.path.normpath.
func normpath(p string) string {
	if p == "" {
		return "."
	}
	return path.Clean(p)
}

var pathFunctions = map[string]func(*Run, *args) value{
	"join": func(r *Run, a *args) value {
		var parts []string
		for i := range a.pos {
			t, ok := a.text(i, "")
			if a.pos[i] == nil {
				return r.noPath()
			}
			if !ok {
				if u := because(a.pos[i]); u != nil {
					return u
				}
				return unknownf("a path")
			}
			parts = append(parts, t)
		}
		if a.open {
			return unknownf("a path")
		}
		if p := joinPath(parts); len(p) <= maxText {
			return p
		}
		return unknownf("a path that is too long")
	},
	"dirname":  pathText(func(_ *Run, p string) value { return dirname(p) }),
	"basename": pathText(func(_ *Run, p string) value { return p[strings.LastIndexByte(p, '/')+1:] }),
	"abspath":  pathText(func(r *Run, p string) value { return r.absolute(p) }),
	"realpath": pathText(func(r *Run, p string) value { return r.realpath(p) }),
	"normpath": pathText(func(_ *Run, p string) value { return normpath(p) }),
	"normcase": identity,
	"isabs":    pathText(func(_ *Run, p string) value { return strings.HasPrefix(p, "/") }),
	"exists":   pathStat(func(r *Run, p string) value { return r.existsValue(p) }),
	"lexists":  pathStat(func(r *Run, p string) value { return r.existsValue(p) }),
	"isfile":   pathStat(func(r *Run, p string) value { return r.isFile(p) }),
	"isdir":    pathStat(func(r *Run, p string) value { return r.isDir(p) }),
	"islink": pathStat(func(r *Run, p string) value {
		return r.realpath(p) != r.absolute(p)
	}),
	"split": pathText(func(_ *Run, p string) value {
		return &tuple{items: []value{dirname(p), p[strings.LastIndexByte(p, '/')+1:]}}
	}),
	"splitext": pathText(func(_ *Run, p string) value {
		base := p[strings.LastIndexByte(p, '/')+1:]
		i := strings.LastIndexByte(base, '.')
		if strings.TrimLeft(base[:max(i, 0)], ".") == "" {
			return &tuple{items: []value{p, ""}}
		}
		cut := len(p) - len(base) + i
		return &tuple{items: []value{p[:cut], p[cut:]}}
	}),
	"expanduser": pathText(func(r *Run, p string) value {
		if !strings.HasPrefix(p, "~") {
			return p
		}
		home, ok := r.env.get("HOME")
		if h, known := home.(string); ok && known && (p == "~" || strings.HasPrefix(p, "~/")) {
			return h + p[1:]
		}
		return unknownf("a home directory")
	}),
	"expandvars": pathText(func(_ *Run, p string) value {
		if !strings.Contains(p, "$") {
			return p
		}
		return unknownf("a path with variables")
	}),
	"relpath":      notKnown("relpath"),
	"commonpath":   notKnown("commonpath"),
	"getmtime":     notKnown("getmtime"),
	"getsize":      notKnown("getsize"),
	"samefile":     notKnown("samefile"),
	"ismount":      notKnown("ismount"),
	"commonprefix": notKnown("commonprefix"),
	"splitdrive": pathText(func(_ *Run, p string) value {
		return &tuple{items: []value{"", p}}
	}),
}

// listdir is os.listdir. The real order is that of the file system and not known.
func listdir(r *Run, a *args) value {
	dir, ok := a.text(0, "path")
	if len(a.pos) == 0 && len(a.kw) == 0 {
		dir, ok = r.opt.Cwd, true
	}
	if !ok {
		return unknownf("the files of a directory")
	}
	names, ok := r.entries(dir)
	if !ok || volatile(r.absolute(dir)) {
		if !volatile(r.absolute(dir)) {
			r.guess("FileNotFoundError", "[Errno 2] No such file or directory: "+quote(dir))
		}
		return unknownf("the files of %s", dir)
	}
	return r.own(texts(names))
}

func walk(r *Run, a *args) value {
	dir, ok := a.text(0, "top")
	if !ok {
		return unknownf("the files below a directory")
	}
	l := &list{}
	r.walk(dir, l, 0)
	return r.own(l)
}

func (r *Run) walk(dir string, l *list, depth int) {
	list_, ok := r.entries(dir)
	if !ok || depth > 40 || len(l.items) > maxItems {
		return
	}
	var dirs, files []string
	for _, name := range list_ {
		if is, _ := r.isDir(joinPath([]string{dir, name})).(bool); is {
			dirs = append(dirs, name)
		} else {
			files = append(files, name)
		}
	}
	l.items = append(l.items, &tuple{items: []value{dir, r.own(texts(dirs)), r.own(texts(files))}})
	for _, name := range dirs {
		r.walk(joinPath([]string{dir, name}), l, depth+1)
	}
}

// dirEntry is os.DirEntry.
type dirEntry struct{ dir, name string }

func (*dirEntry) typeName() string { return "os.DirEntry" }

func (d *dirEntry) attr(r *Run, name string) (value, bool) {
	p := joinPath([]string{d.dir, d.name})
	switch name {
	case "name":
		return d.name, true
	case "path":
		return p, true
	case "is_dir":
		return &builtin{"is_dir", func(r *Run, _ *args) value { return r.isDir(p) }}, true
	case "is_file":
		return &builtin{"is_file", func(r *Run, _ *args) value { return r.isFile(p) }}, true
	}
	return nil, false
}

func scandir(r *Run, a *args) value {
	dir, ok := a.text(0, "path")
	if !ok {
		return unknownf("the files of a directory")
	}
	names, ok := r.entries(dir)
	if !ok {
		return unknownf("the files of %s", dir)
	}
	l := &list{}
	for _, name := range names {
		l.items = append(l.items, &dirEntry{dir, name})
	}
	return r.own(l)
}

func uname(r *Run, _ *args) value {
	return &tuple{
		items:  []value{"Linux", unknownf("the host's name"), unknownf("the kernel's release"), unknownf("the kernel's version"), r.opt.Machine},
		fields: []string{"sysname", "nodename", "release", "version", "machine"},
	}
}

func stat(r *Run, a *args) value {
	return r.onPath(a, func(p string) value {
		if is, known := r.exists(p); known && !is {
			r.guess("FileNotFoundError", "[Errno 2] No such file or directory: "+quote(p))
		}
		return unknownf("the state of a file")
	})
}

// matchName matches a name with a pattern of fnmatch.
func (r *Run) matchName(pattern, name string) bool {
	r.spend(1 + len(name)*len(pattern)/64)
	is, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), name)
	return err == nil && is
}

func fnmatch(r *Run, a *args) value {
	name, ok1 := a.text(0, "name")
	pattern, ok2 := a.text(1, "pat")
	if !ok1 || !ok2 {
		return unknownf("whether a name matches")
	}
	return r.matchName(pattern, name)
}

// globFiles is glob.glob, in the order of the names.
func globFiles(r *Run, a *args) value {
	pattern, ok := a.text(0, "pathname")
	if !ok {
		return unknownf("the files of a pattern")
	}
	if root, given := a.text(-1, "root_dir"); given && root != "" {
		return unknownf("the files of a pattern")
	}
	l := texts(r.glob(pattern))
	return r.own(l)
}

// glob returns the paths that match a pattern whose last parts may have * ? and [.
func (r *Run) glob(pattern string) []string {
	base, parts := "", strings.Split(pattern, "/")
	found := []string{base}
	for i, part := range parts {
		var more []string
		for _, p := range found {
			if !strings.ContainsAny(part, "*?[") {
				q := part
				if i > 0 {
					q = p + "/" + part
				}
				more = append(more, q)
				continue
			}
			if part == "**" {
				more = append(more, r.below(p, 0)...)
				continue
			}
			dir := p
			if i == 0 {
				dir = "."
			} else if p == "" {
				dir = "/"
			}
			names, _ := r.entries(dir)
			for _, name := range names {
				if strings.HasPrefix(name, ".") && !strings.HasPrefix(part, ".") || !r.matchName(part, name) {
					continue
				}
				if i == 0 {
					more = append(more, name)
				} else {
					more = append(more, p+"/"+name)
				}
			}
			if len(more) > maxItems || r.stop != "" {
				return more
			}
		}
		found = more
	}
	var list []string
	for _, p := range found {
		if _, _, ok := r.src.fs.Lookup(r.absolute(p)); ok {
			list = append(list, p)
		}
	}
	return list
}

// below returns a directory and those below it.
func (r *Run) below(dir string, depth int) []string {
	list := []string{dir}
	names, ok := r.entries(dir)
	if !ok || depth > 40 {
		return list
	}
	for _, name := range names {
		p := dir + "/" + name
		if is, _ := r.isDir(p).(bool); is && !strings.HasPrefix(name, ".") && r.stop == "" {
			list = append(list, r.below(p, depth+1)...)
		}
	}
	return list
}

// ofPath makes a method of paths.
func ofPath(f func(r *Run, p *filePath, a *args) value) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		p, ok := a.pos[0].(*filePath)
		if !ok {
			return unknownf("a path")
		}
		b := *a
		b.pos = a.pos[1:]
		return f(r, p, &b)
	}
}

func (r *Run) pathsOf(texts []string) value {
	l := &list{}
	for _, t := range texts {
		l.items = append(l.items, newPath(t))
	}
	return r.own(l)
}

// madeHere is a method that makes the file.
var madeHere = ofPath(func(r *Run, p *filePath, _ *args) value {
	r.mayAppearAt(p)
	return unknownf("what makes a file")
})

var pathMethods = map[string]func(*Run, *args) value{
	"resolve":  ofPath(func(r *Run, p *filePath, _ *args) value { return newPath(r.realpath(p.text)) }),
	"absolute": ofPath(func(r *Run, p *filePath, _ *args) value { return newPath(joinPath([]string{r.opt.Cwd, p.text})) }),
	"exists":   ofPath(func(r *Run, p *filePath, _ *args) value { return r.existsValue(p.text) }),
	"is_file":  ofPath(func(r *Run, p *filePath, _ *args) value { return r.isFile(p.text) }),
	"is_dir":   ofPath(func(r *Run, p *filePath, _ *args) value { return r.isDir(p.text) }),
	"mkdir":    madeHere, "touch": madeHere, "write_text": madeHere, "write_bytes": madeHere, "symlink_to": madeHere,
	"is_absolute": ofPath(func(_ *Run, p *filePath, _ *args) value { return strings.HasPrefix(p.text, "/") }),
	"as_posix":    ofPath(func(_ *Run, p *filePath, _ *args) value { return p.text }),
	"__fspath__":  ofPath(func(_ *Run, p *filePath, _ *args) value { return p.text }),
	"expanduser": ofPath(func(r *Run, p *filePath, _ *args) value {
		if t, ok := pathFunctions["expanduser"](r, &args{pos: []value{p.text}}).(string); ok {
			return newPath(t)
		}
		return unknownf("a home directory")
	}),
	"joinpath": ofPath(func(_ *Run, p *filePath, a *args) value {
		for i := range a.pos {
			t, ok := a.text(i, "")
			if !ok {
				return unknownf("a path")
			}
			if p, ok = p.joined(t).(*filePath); !ok {
				return unknownf("a path that is too long")
			}
		}
		return p
	}),
	"with_suffix": ofPath(func(_ *Run, p *filePath, a *args) value {
		t, ok := a.text(0, "suffix")
		if !ok || len(p.text)+len(t) > maxPath {
			return unknownf("a path")
		}
		return newPath(strings.TrimSuffix(p.text, p.suffix()) + t)
	}),
	"with_name": ofPath(func(_ *Run, p *filePath, a *args) value {
		t, ok := a.text(0, "name")
		if !ok {
			return unknownf("a path")
		}
		return p.parent().joined(t)
	}),
	"iterdir": ofPath(func(r *Run, p *filePath, _ *args) value {
		names, ok := r.entries(p.text)
		if !ok {
			return unknownf("the files of %s", p.text)
		}
		for i := range names {
			names[i] = p.text + "/" + names[i]
		}
		return r.pathsOf(names)
	}),
	"glob": ofPath(func(r *Run, p *filePath, a *args) value {
		t, ok := a.text(0, "pattern")
		if !ok {
			return unknownf("the files of a pattern")
		}
		return r.pathsOf(r.glob(r.absolute(p.text) + "/" + t))
	}),
	"rglob": ofPath(func(r *Run, p *filePath, a *args) value {
		t, ok := a.text(0, "pattern")
		if !ok {
			return unknownf("the files of a pattern")
		}
		return r.pathsOf(r.glob(r.absolute(p.text) + "/**/" + t))
	}),
}
