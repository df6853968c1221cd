package nodejs

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/depth"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// pkgJSON are the parts of a package.json that decide which file is loaded.
type pkgJSON struct {
	Name    string          `json:"name,omitempty"`
	Main    any             `json:"main,omitempty"`
	Type    string          `json:"type,omitempty"`
	Exports json.RawMessage `json:"exports,omitempty"`
	Imports json.RawMessage `json:"imports,omitempty"`
	Binary  map[string]any  `json:"binary,omitempty"`
	Version string          `json:"version,omitempty"`

	unknown  bool        // its text is not known
	mappings [2]*mapping // of Exports and of Imports; nil before they are used
}

// mapping is the value of exports or imports in a package.json.
type mapping struct {
	bad    bool
	whole  json.RawMessage
	keys   []string // in their order; nil if it is no object
	values map[string]json.RawMessage
	names  bool // the keys are names of modules, not conditions
}

// ReducePackage returns the parts of a package.json that decide which files are loaded, as
// JSON; the text itself if it is not one.
func ReducePackage(text []byte) []byte {
	var p pkgJSON
	if json.Unmarshal(text, &p) != nil {
		return text
	}
	b, err := json.Marshal(&p)
	if err != nil || len(b) > len(text) {
		return text
	}
	return b
}

// packageAt returns the package.json of a directory, or nil if there is none.
func (r *run) packageAt(dir string) *pkgJSON {
	if p, ok := r.parsed[dir]; ok {
		return p
	}
	var p *pkgJSON
	if e, _, ok := r.fs.Lookup(dir + "/package.json"); ok && e.Type == layers.Regular {
		p = new(pkgJSON)
		if e.Content == nil || json.Unmarshal(e.Content, p) != nil {
			p = &pkgJSON{unknown: true}
		}
	}
	r.parsed[dir] = p
	return p
}

// scopeOf returns the nearest package.json above a file, and its directory.
func (r *run) scopeOf(file string) (*pkgJSON, string) {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if path.Base(dir) == "node_modules" {
			return nil, ""
		}
		if p := r.packageAt(dir); p != nil {
			return p, dir
		}
		if dir == "/" || dir == "." {
			return nil, ""
		}
	}
}

func (r *run) isFile(file string) bool {
	e, _, ok := r.fs.Lookup(file)
	return ok && e.Type == layers.Regular
}

func (r *run) isDir(file string) bool {
	e, _, ok := r.fs.Lookup(file)
	return ok && e.IsDir()
}

// resolve finds the file of a name (https://nodejs.org/api/modules.html#all-together). file
// is "" if there is none; doubt says why that is not certain.
func (r *run) resolve(name, dir string, esm bool) (file, doubt string) {
	depth := strings.Count(dir, "/") // what a look-up costs
	r.steps += depth / 16
	switch {
	case len(dir) > maxDir:
		return "", "its importer's path is too long"
	case strings.IndexByte(name, 0) >= 0:
		return "", "its name is not known"
	case strings.Contains(name, ":"):
		return "", "it is not a file"
	case r.hooks != "" && !strings.HasSuffix(name, ".node"):
		doubt = r.hooks
	case r.hasPnP(dir):
		doubt = "Yarn's .pnp.cjs says where modules are"
	}
	if name == "." || name == ".." || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") || strings.HasPrefix(name, "/") {
		if !strings.HasPrefix(name, "/") {
			slash := strings.HasSuffix(name, "/") || name == "." || name == ".."
			name = path.Join(dir, name)
			if slash {
				name += "/"
			}
		}
		if esm {
			if r.isFile(name) {
				return path.Clean(name), ""
			}
			return "", doubt
		}
		if f, ok := r.asFileOrDirectory(name); ok {
			return f, ""
		}
		return "", doubt
	}
	if strings.HasPrefix(name, "#") {
		p, at := r.scopeOf(dir + "/x")
		if p == nil || p.Imports == nil {
			return "", "no package.json says where it is"
		}
		return r.mapped(p, inImports, name, at, esm, doubt)
	}
	pkg, sub := splitName(name)
	if p, at := r.scopeOf(dir + "/x"); p != nil && p.Name == pkg && p.Exports != nil {
		return r.mapped(p, inExports, "."+sub, at, esm, doubt)
	}
	for _, modules := range r.moduleDirs(dir) {
		at := modules + "/" + pkg
		if !r.isDir(at) {
			if sub == "" && !esm {
				if f, ok := r.asFile(at); ok {
					return f, ""
				}
			}
			continue
		}
		p := r.packageAt(at)
		switch {
		case p != nil && p.unknown:
			return "", at + "/package.json could not be read"
		case p != nil && p.Exports != nil && string(p.Exports) != "null":
			return r.mapped(p, inExports, "."+sub, at, esm, doubt)
		}
		if esm && sub != "" {
			if r.isFile(at + sub) {
				return at + sub, ""
			}
			return "", doubt
		}
		if f, ok := r.asFileOrDirectory(at + sub); ok {
			return f, ""
		}
	}
	return "", doubt
}

// hasPnP reports whether a directory is in a project whose modules Yarn finds without
// node_modules (https://yarnpkg.com/features/pnp).
func (r *run) hasPnP(dir string) bool {
	dir = path.Clean(dir)
	is, known := r.pnp[dir]
	if !known {
		is = r.isFile(path.Join(dir, ".pnp.cjs")) || r.isFile(path.Join(dir, ".pnp.js")) || dir != "/" && dir != "." && r.hasPnP(path.Dir(dir))
		r.pnp[dir] = is
	}
	return is
}

// splitName splits the name of a module into that of its package, and the rest with a slash.
func splitName(name string) (pkg, sub string) {
	i := strings.IndexByte(name, '/')
	if strings.HasPrefix(name, "@") && i >= 0 {
		if j := strings.IndexByte(name[i+1:], '/'); j >= 0 {
			i += 1 + j
		} else {
			i = -1
		}
	}
	if i < 0 {
		return name, ""
	}
	return name[:i], name[i:]
}

// moduleDirs returns the directories in which packages are looked for, as far as they are there.
func (r *run) moduleDirs(dir string) []string {
	list, known := r.dirs[dir]
	if !known {
		list = r.allModuleDirs(dir)
		r.charge(4 * (2 + strings.Count(dir, "/")) * len(list)) // each look-up passes so many directories
		list = slices.DeleteFunc(list, func(d string) bool { return !r.isDir(d) })
		r.dirs[dir] = list
	}
	r.charge(2 * len(list))
	return list
}

// allModuleDirs returns the directories in which packages are looked for: node_modules above
// the file, those of NODE_PATH, and those that are built in ($HOME, Debian's).
func (r *run) allModuleDirs(dir string) []string {
	var list []string
	for d := path.Clean(dir); ; d = path.Dir(d) {
		if path.Base(d) != "node_modules" {
			list = append(list, path.Join(d, "node_modules"))
		}
		if d == "/" || d == "." || len(list) > 100 {
			break
		}
	}
	list = append(list, strings.FieldsFunc(r.opt.Env["NODE_PATH"], func(c rune) bool { return c == ':' })...)
	if home := r.opt.Env["HOME"]; home != "" && !strings.Contains(home, "\x00") {
		list = append(list, home+"/.node_modules", home+"/.node_libraries")
	}
	return append(list, path.Join(path.Dir(path.Dir(r.opt.Exec)), "lib/node"),
		"/usr/local/lib/nodejs", "/usr/local/share/nodejs", "/usr/lib/x86_64-linux-gnu/nodejs", "/usr/lib/aarch64-linux-gnu/nodejs", "/usr/share/nodejs", "/usr/lib/nodejs")
}

// asFileOrDirectory is LOAD_AS_FILE, then LOAD_AS_DIRECTORY.
func (r *run) asFileOrDirectory(name string) (string, bool) {
	if !strings.HasSuffix(name, "/") {
		if f, ok := r.asFile(name); ok {
			return f, true
		}
	}
	name = path.Clean(name)
	if !r.isDir(name) {
		return "", false
	}
	if p := r.packageAt(name); p != nil {
		if main, ok := p.Main.(string); ok && main != "" {
			at := path.Join(name, main)
			if f, ok := r.asFile(at); ok {
				return f, true
			}
			if f, ok := r.asFile(at + "/index"); ok {
				return f, true
			}
		}
	}
	return r.asFile(name + "/index")
}

func (r *run) asFile(name string) (string, bool) {
	for _, suffix := range []string{"", ".js", ".json", ".node"} {
		if r.isFile(name + suffix) {
			return name + suffix, true
		}
	}
	return "", false
}

// The places of a mapping.
const (
	inExports = iota
	inImports
)

// mapping returns the exports or imports of a package.json.
func (r *run) mapping(p *pkgJSON, place int) *mapping {
	if m := p.mappings[place]; m != nil {
		return m
	}
	m := &mapping{whole: p.Exports}
	if place == inImports {
		m.whole = p.Imports
	}
	p.mappings[place] = m
	if m.bad = depth.Exceeds(m.whole, maxConditions) || !json.Valid(m.whole); m.bad {
		return m
	}
	r.charge(len(m.whole))
	m.keys = keysOf(m.whole)
	if m.keys != nil {
		_ = json.Unmarshal(m.whole, &m.values) // it is an object
	}
	m.names = slices.ContainsFunc(m.keys, func(k string) bool { return strings.HasPrefix(k, ".") || strings.HasPrefix(k, "#") })
	return m
}

// mapped finds a name in the exports or imports of a package.json
// (https://nodejs.org/api/esm.html#resolution-algorithm-specification).
func (r *run) mapped(p *pkgJSON, place int, name, dir string, esm bool, doubt string) (string, string) {
	m := r.mapping(p, place)
	if m.bad {
		return "", dir + "/package.json could not be read"
	}
	if doubt == "" {
		doubt = "conditions in " + dir + "/package.json may lead to it"
	}
	t := target{dir: dir, place: place, esm: esm, doubt: doubt, conditions: []string{"node", "node-addons", "module-sync", "require", "default"}}
	if esm {
		t.conditions[3] = "import"
	}
	if !m.names {
		if name != "." {
			return "", doubt
		}
		return r.target(&t, m.whole)
	}
	if v, ok := m.values[name]; ok && !strings.Contains(name, "*") {
		return r.target(&t, v)
	}
	r.charge(16 * len(m.keys))
	best := ""
	for _, k := range m.keys {
		before, after, ok := strings.Cut(k, "*")
		switch {
		case ok && strings.HasPrefix(name, before) && len(name) >= len(k) && strings.HasSuffix(name, after):
			if len(before) > strings.IndexByte(best+"*", '*') || best == "" {
				best, t.star = k, name[len(before):len(name)-len(after)]
			}
		case !ok && strings.HasSuffix(k, "/") && strings.HasPrefix(name, k) && best == "":
			best, t.star = k, name[len(k):]
		}
	}
	if best == "" {
		return "", doubt
	}
	return r.target(&t, m.values[best])
}

// target describes the search for the file that a name in exports or imports leads to.
type target struct {
	star, dir, doubt string
	place            int
	esm              bool
	conditions       []string
}

// target follows the value of exports or imports to a file.
func (r *run) target(t *target, raw json.RawMessage) (file, doubt string) {
	r.charge(len(raw))
	var v any
	if r.steps > maxSteps || json.Unmarshal(raw, &v) != nil {
		return "", t.doubt
	}
	switch v := v.(type) {
	case string:
		v = strings.ReplaceAll(v, "*", t.star)
		if strings.HasSuffix(v, "/") {
			v += t.star
		}
		if !strings.HasPrefix(v, "./") {
			return r.targetOutside(t, v)
		}
		if file := path.Join(t.dir, v); r.isFile(file) {
			return file, ""
		}
		return "", t.doubt
	case []any:
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // it is a list
		for _, one := range list {
			if f, _ := r.target(t, one); f != "" {
				return f, ""
			}
		}
	case map[string]any:
		for _, k := range keysOf(raw) {
			if !slices.Contains(t.conditions, k) {
				continue
			}
			if one := field(raw, k); string(one) != "null" {
				if f, why := r.target(t, one); f != "" || why != t.doubt || leaf(one) {
					return f, why
				}
			}
		}
	}
	return "", t.doubt
}

// targetOutside follows a target that is no file of its package: of imports it is another
// package, of exports an error (PACKAGE_TARGET_RESOLVE).
func (r *run) targetOutside(t *target, name string) (file, doubt string) {
	if t.place == inExports || strings.HasPrefix(name, "#") || strings.HasPrefix(name, "/") || strings.HasPrefix(name, ".") {
		return "", t.doubt
	}
	return r.resolve(name, t.dir, t.esm)
}

// leaf reports whether a value is a path.
func leaf(raw json.RawMessage) bool { return strings.HasPrefix(strings.TrimSpace(string(raw)), `"`) }

// keysOf returns the keys of a JSON object in their order.
func keysOf(raw json.RawMessage) []string {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var list []string
	for d.More() && len(list) < maxItems {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return list
		}
		list = append(list, key)
		var skip json.RawMessage
		if d.Decode(&skip) != nil {
			return list
		}
	}
	return list
}

// field returns the value of a key of a JSON object.
func field(raw json.RawMessage, key string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m[key]
}
