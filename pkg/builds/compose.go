package builds

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Limits of the files that a Compose file includes, extends or overrides: their number, their
// bytes together, how deeply they include one another, in how many steps a service extends
// others, and the steps of all services.
const (
	maxFiles    = 100
	maxTogether = 8 << 20
	maxIncluded = 10
	maxExtended = 20
	maxSteps    = 5_000
)

var (
	mainCompose     = []string{"compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"}
	overriding      = regexp.MustCompile(`^((?:docker-)?compose)[._-][^/]+(\.ya?ml)$`)
	composeOverride = regexp.MustCompile(`^(?:docker-)?compose\.override\.ya?ml$`)
)

// Open returns a file by its path, which is relative to the same directory as that of the file
// whose builds are read. An error has one line, for a user.
type Open func(name string) ([]byte, error)

// composeFiles reads a Compose file with those that it includes or extends, and the one that it
// overrides: https://docs.docker.com/reference/compose-file/include/,
// https://docs.docker.com/reference/compose-file/services/#extends and
// https://docs.docker.com/reference/compose-file/merge/.
type composeFiles struct {
	*reader
	dir   string // of the file that is asked about: contexts are relative to it
	open  Open
	files map[string]*composeFile
	bytes int
	steps int
	done  map[string]bool // files whose builds are added
}

// composeFile is one Compose file. Paths in it are relative to dir.
type composeFile struct {
	name, dir string
	root      *yaml.Node
	services  map[string]*yaml.Node
	order     []string
	why       string // it is not read because of this
}

// service is the build of a service, with all that it extends.
type service struct {
	build  *yaml.Node // nil: none; its context is relative to composeFiles.dir
	dir    string     // the context if the build says none
	at     place
	inline place // of dockerfile_inline
	why    string
}

type place struct {
	file string
	line int
}

// compose reads the builds of a Compose file.
func (r *reader) compose(file string, root *yaml.Node, open Open) {
	c := &composeFiles{reader: r, dir: path.Dir(file), open: open, files: map[string]*composeFile{}, done: map[string]bool{}}
	f := newComposeFile(file, c.dir, root)
	c.files[f.key()] = f
	c.done[f.key()] = true
	c.builds(f, c.overridden(f), false)
	c.includes(f, []string{file})
}

func (f *composeFile) key() string { return f.name + "\n" + f.dir }

func newComposeFile(name, dir string, root *yaml.Node) *composeFile {
	f := &composeFile{name: name, dir: dir, root: root, services: map[string]*yaml.Node{}}
	each(get(root, "services"), func(name string, n *yaml.Node) {
		if f.services[name] == nil {
			f.order = append(f.order, name)
		}
		f.services[name] = n
	})
	return f
}

// load returns a Compose file, each once.
func (c *composeFiles) load(name, dir string) *composeFile {
	key := name + "\n" + dir
	if f := c.files[key]; f != nil {
		return f
	}
	f := &composeFile{name: name, dir: dir}
	if len(c.files) >= maxFiles {
		f.why = fmt.Sprintf("more than %d files are included or extended", maxFiles)
		return f
	}
	c.files[key] = f
	text, err := c.open(name)
	c.bytes += len(text)
	switch {
	case err != nil:
		f.why = err.Error()
	case c.bytes > maxTogether:
		f.why = fmt.Sprintf("the files that are included or extended have more than %d MiB", maxTogether>>20)
	default:
		root, err := parse(composeName, text)
		if err != nil {
			f.why = err.Error()
			break
		}
		*f = *newComposeFile(name, dir, root)
	}
	return f
}

// composeName is the name by which a file is read that another one names.
const composeName = "compose.yaml"

// overridden returns the file that this one overrides, or nil: one beside it with Compose's own
// name.
func (c *composeFiles) overridden(f *composeFile) *composeFile {
	if c.open == nil || !overriding.MatchString(path.Base(f.name)) {
		return nil
	}
	for _, name := range mainCompose {
		if main := c.load(path.Join(f.dir, name), f.dir); main.why == "" {
			return main
		}
	}
	return nil
}

// builds adds the builds of a file's services. main is a file that it overrides, or nil; always
// says that both are used together.
func (c *composeFiles) builds(f, main *composeFile, always bool) {
	always = always || composeOverride.MatchString(path.Base(f.name))
	for _, name := range f.order {
		if len(c.list) >= maxBuilds {
			return
		}
		s := c.service(f, name, 0)
		if s.why == "" && s.build != nil && main != nil && main.services[name] != nil {
			s = over(c.service(main, name, 0), s, always)
		}
		switch {
		case s.why != "":
			c.unknown(name, f.services[name].Line, s.why)
			c.list[len(c.list)-1].File = f.name
		case s.build != nil:
			c.addService(name, s)
		}
	}
}

// over returns the build of a service with that of the file which it overrides. A build that has
// all by itself stands alone if it is not known whether both files are used together.
func over(main, s service, always bool) service {
	whole := get(s.build, "context") != nil || get(s.build, "dockerfile_inline") != nil
	if main.why != "" || main.build == nil || whole && !always {
		return s
	}
	return merged(main, s)
}

// service returns the build of a service.
func (c *composeFiles) service(f *composeFile, name string, steps int) (s service) {
	n := f.services[name]
	if extends := get(n, "extends"); extends != nil {
		if s = c.extended(f, extends, steps); s.why != "" {
			return s
		}
	}
	b := get(n, "build")
	if b == nil || n.Tag == "!reset" {
		return s
	}
	own := service{dir: f.dir, build: c.own(b, f.dir), at: place{f.name, b.Line}}
	if in := get(own.build, "dockerfile_inline"); in != nil {
		own.inline = place{f.name, b.Line}
	}
	switch {
	case b.Tag == "!reset":
		return service{}
	case s.build == nil || b.Tag == "!override":
		return own
	}
	return merged(s, own)
}

// extended returns the build of the service that another one extends.
func (c *composeFiles) extended(f *composeFile, n *yaml.Node, steps int) service {
	file, name := "", n
	if n.Kind == yaml.MappingNode {
		name = get(n, "service")
		if from := get(n, "file"); from != nil {
			p, why := c.named(f, from)
			if why != "" {
				return service{why: "the file that it extends is not read: " + why}
			}
			file = p
		}
	}
	c.steps++
	switch {
	case name == nil || name.Kind != yaml.ScalarNode:
		return service{why: "it does not say which service it extends"}
	case steps == maxExtended:
		return service{why: fmt.Sprintf("it extends others in more than %d steps, or itself", maxExtended)}
	case c.steps > maxSteps:
		return service{why: fmt.Sprintf("the services of the file extend others more than %d times", maxSteps)}
	case file != "":
		if f = c.load(file, path.Dir(file)); f.why != "" {
			return service{why: "the file that it extends, " + file + ", is not read: " + f.why}
		}
	}
	if f.services[name.Value] == nil {
		return service{why: "it extends " + name.Value + ", which " + f.name + " does not have"}
	}
	return c.service(f, name.Value, steps+1)
}

// named returns the path of a file that a Compose file names.
func (c *composeFiles) named(f *composeFile, n *yaml.Node) (p, why string) {
	if n.Kind != yaml.ScalarNode {
		return "", "its path is no text"
	}
	p, known := expand(n.Value, nil)
	switch {
	case !known:
		return "", "its path is " + n.Value
	case p == "" || strings.Contains(p, ":") || strings.HasPrefix(p, "git@") || path.IsAbs(p):
		return "", p + " is no path in the repository"
	case c.open == nil:
		return "", "other files are not read"
	}
	return path.Join(f.dir, p), ""
}

// includes adds the builds of the files that a file includes. An included file that is read
// already is not read again. from are the files on the way to this one.
func (c *composeFiles) includes(f *composeFile, from []string) {
	list := get(f.root, "include")
	if list == nil || list.Kind != yaml.SequenceNode {
		return
	}
	for _, in := range list.Content {
		if len(c.list) >= maxBuilds {
			return
		}
		if why := c.include(f, resolve(in), from); why != "" {
			c.unknown("include", in.Line, why)
			c.list[len(c.list)-1].File = f.name
		}
	}
}

// include adds the builds of an element of include: a path, or a mapping with one or several,
// of which the later ones override the first.
func (c *composeFiles) include(f *composeFile, n *yaml.Node, from []string) (why string) {
	paths, dir := []*yaml.Node{n}, ""
	if n.Kind == yaml.MappingNode {
		switch p := get(n, "path"); {
		case p == nil:
			return "it names no file"
		case p.Kind == yaml.SequenceNode:
			paths = p.Content
		default:
			paths = []*yaml.Node{p}
		}
		if d := get(n, "project_directory"); d != nil {
			if dir, why = c.named(f, d); why != "" {
				return "its project directory: " + why
			}
		}
	}
	var main *composeFile
	for _, p := range paths {
		name, why := c.named(f, resolve(p))
		if why != "" {
			return why
		}
		if dir == "" {
			dir = path.Dir(name)
		}
		switch {
		case slices.Contains(from, name):
			return name + " includes itself"
		case len(from) > maxIncluded:
			return fmt.Sprintf("files include one another in more than %d steps", maxIncluded)
		case c.done[name+"\n"+dir]:
			continue
		}
		in := c.load(name, dir)
		if in.why != "" {
			return name + " is not read: " + in.why
		}
		c.done[name+"\n"+dir] = true
		c.builds(in, main, true)
		c.includes(in, append(from[:len(from):len(from)], name))
		if main == nil {
			main = in
		}
	}
	return ""
}

// own returns a build as a mapping with the keys that count, its context relative to c.dir.
func (c *composeFiles) own(n *yaml.Node, dir string) *yaml.Node {
	b := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
	set := func(key string, value *yaml.Node) {
		b.Content = append(b.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	}
	if n.Kind == yaml.ScalarNode {
		set("context", c.relocated(n, dir))
		return b
	}
	for _, key := range []string{"context", "dockerfile", "target", "args", "dockerfile_inline"} {
		switch v := get(n, key); {
		case v == nil:
		case key == "context":
			set(key, c.relocated(v, dir))
		case key == "args" && v.Kind == yaml.SequenceNode:
			set(key, pairs(v))
		default:
			set(key, v)
		}
	}
	return b
}

// pairs returns a list of NAME=VALUE as a mapping.
func pairs(list *yaml.Node) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Line: list.Line}
	for _, e := range list.Content {
		if name, value, ok := strings.Cut(resolve(e).Value, "="); ok && len(m.Content) < 2*maxArgs {
			m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &yaml.Node{Kind: yaml.ScalarNode, Value: value, Line: e.Line})
		}
	}
	return m
}

// relocated returns a context that is relative to dir as one relative to c.dir, if it is a path
// that is known.
func (c *composeFiles) relocated(n *yaml.Node, dir string) *yaml.Node {
	text, known := expand(n.Value, nil)
	if dir == c.dir || n.Kind != yaml.ScalarNode || !known || strings.Contains(text, "://") || strings.HasPrefix(text, "git@") || path.IsAbs(text) {
		return n
	}
	rel, err := filepath.Rel(filepath.FromSlash(c.dir), filepath.FromSlash(path.Join(dir, text)))
	if err != nil {
		return n
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: strings.ReplaceAll(filepath.ToSlash(rel), "$", "$$"), Line: n.Line}
}

// merged returns a build with the changes of another one.
func merged(s, by service) service {
	whole := &yaml.Node{Kind: yaml.MappingNode, Line: by.build.Line}
	override(whole, s.build)
	override(whole, by.build)
	s.build, s.at = whole, by.at
	if by.inline.file != "" {
		s.inline = by.inline
	}
	return s
}

// addService adds the build of a service.
func (c *composeFiles) addService(name string, s service) {
	if get(s.build, "context") == nil {
		dot := c.relocated(&yaml.Node{Kind: yaml.ScalarNode, Value: ".", Line: s.at.line}, s.dir)
		s.build.Content = append(s.build.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "context"}, dot)
	}
	before := len(c.list)
	c.add(name, s.build, "")
	if len(c.list) == before {
		return
	}
	b := &c.list[before]
	b.File, b.Line = s.at.file, s.at.line
	if b.Inline != "" {
		b.File, b.Line = s.inline.file, s.inline.line
	}
}
