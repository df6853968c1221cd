package dockerlint

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
)

// indexSettings are the settings of an installer that name package indexes.
type indexSettings struct {
	index, extra []string // variables
	other        []string // variables that change where packages come from
	files        []string // the places of its configuration in the image
}

// The settings of pip and uv: https://pip.pypa.io/en/stable/topics/configuration/,
// https://docs.astral.sh/uv/reference/environment/,
// https://docs.astral.sh/uv/concepts/configuration-files/
var (
	pipSettings = &indexSettings{
		index: []string{"PIP_INDEX_URL"},
		extra: []string{"PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"},
		other: []string{"PIP_NO_INDEX"},
		files: []string{"/etc/pip.conf", "/etc/xdg/pip/pip.conf", "/root/.config/pip/pip.conf", "/root/.pip/pip.conf"},
	}
	uvSettings = &indexSettings{
		index: []string{"UV_DEFAULT_INDEX", "UV_INDEX_URL"},
		extra: []string{"UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"},
		other: []string{"UV_NO_INDEX", "UV_INDEX_STRATEGY", "UV_TORCH_BACKEND"},
		files: []string{"/etc/uv/uv.toml", "/root/.config/uv/uv.toml"},
	}
)

// maxIndexes limits the indexes of an install and of a configuration: further ones are left out,
// which changes nothing, as which build they have is not known either way.
const maxIndexes = 100

// indexVariables are the variables of both.
var indexVariables = slices.Concat(pipSettings.index, pipSettings.extra, uvSettings.index, uvSettings.extra)

// named is an index that no argument of an install names.
type named struct {
	url  string // as written if it is not known
	only bool   // it takes PyPI's place
	// links says that it is no index: find-links.
	links bool
	line  int
}

// configured are the indexes that configuration names, for pip and for uv.
type configured struct{ pip, uv []named }

func (c *configured) add(uv bool, list ...named) {
	to := &c.pip
	if uv {
		to = &c.uv
	}
	*to = append(*to, list[:min(len(list), max(maxIndexes-len(*to), 0))]...)
}

// named adds the indexes that variables and configuration name to those of the arguments. An
// index of the arguments takes the place of one of a variable, and this one of a configured one.
func (in *install) named(w *walk, uv bool) {
	s, list := pipSettings, w.config.pip
	if uv {
		s, list = uvSettings, w.config.uv
	}
	if len(in.index) == 0 {
		in.take(w, s.index, &in.index)
	}
	only := len(in.index) == 0
	for _, n := range list {
		if n.only && only { // the last one holds
			in.index = nil
			in.name(n.url, n.line, &in.index)
		} else if !n.only {
			in.name(n.url, n.line, &in.extra)
		}
		in.hidden = in.hidden || n.links
	}
	in.take(w, s.extra, &in.extra)
	for _, name := range s.other {
		if value, is := in.vars[name]; is && value.text != "" || w.value(name) != "" {
			in.hidden = true
		}
	}
}

// take adds the indexes that variables name.
func (in *install) take(w *walk, names []string, to *[]string) {
	for _, name := range names {
		value, line := w.value(name), 0
		if v, ok := in.vars[name]; ok {
			if value = v.text; !v.known {
				value = "$" + name
			}
		} else {
			for _, s := range w.variables {
				if s.value == name {
					line = s.line
				}
			}
		}
		for _, url := range strings.Fields(value) {
			in.name(url, line, to)
			in.hidden = in.hidden || strings.HasSuffix(name, "FIND_LINKS")
		}
	}
}

func (in *install) name(url string, line int, to *[]string) {
	if name, rest, ok := strings.Cut(url, "="); ok && !strings.Contains(name, ":") { // uv's NAME=URL
		url = rest
	}
	if len(*to) >= maxIndexes || slices.Contains(*to, url) {
		return
	}
	*to = append(*to, url)
	if line > 0 {
		if in.namedAt == nil {
			in.namedAt = map[string]int{}
		}
		in.namedAt[url] = line
	}
}

// lineOf returns the line that names an index.
func (in *install) lineOf(url string) int {
	if line := in.namedAt[url]; line > 0 {
		return line
	}
	return in.line
}

// Indexes are the package indexes of an install.
type Indexes struct {
	// URLs are their addresses, in the order in which the installer asks them; "" stands for
	// PyPI. An address may have a login.
	URLs []string
	// First says that the first index that has a package is the only one asked for it, as uv
	// does; else the highest release of all is taken.
	First bool
}

// asks returns the indexes that an install asks for a package, and whether they are known.
func (in *install) asks(x *wheel) (from Indexes, known bool) {
	urls := in.index
	if x.index != "" {
		urls = []string{x.index}
	} else if in.hidden || in.early && in.others() || len(in.index) > 1 {
		return from, false
	}
	if len(urls) == 0 {
		urls = []string{""}
	}
	if x.index == "" && in.oneIndex {
		urls = slices.Concat(in.extra, urls)
	} else if x.index == "" {
		urls = slices.Concat(urls, in.extra)
	}
	for _, url := range urls {
		if name, rest, ok := strings.Cut(url, "="); ok && !strings.Contains(name, ":") { // uv's NAME=URL
			url = rest
		}
		switch {
		case url == "" || in.isPyPI(url):
			url = ""
		case !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") || strings.Contains(url, "$"):
			return from, false
		}
		if !slices.Contains(from.URLs, url) {
			from.URLs = append(from.URLs, url)
		}
	}
	from.First = in.oneIndex
	return from, true
}

// others reports whether packages may come from a place that is not PyPI.
func (in *install) others() bool {
	return in.hidden || slices.ContainsFunc(slices.Concat(in.index, in.extra), func(url string) bool { return !in.isPyPI(url) })
}

// isPyPI reports whether an address is that of PyPI or of a mirror.
func (in *install) isPyPI(url string) bool {
	return strings.HasPrefix(url, "https://pypi.org/") || strings.HasPrefix(url, "https://pypi.python.org/") || in.known.mirrors(url)
}

// KnownIndex reports whether a Dockerfile may name an index to be asked: it is one of the table.
func (k *Knowledge) KnownIndex(address string) bool { return belowAny(k.KnownIndexes, address) }

func (k *Knowledge) mirrors(address string) bool { return belowAny(k.Mirrors, secure(address)) }

// secure returns an address of HTTP as one of HTTPS.
func secure(address string) string {
	if rest, ok := strings.CutPrefix(address, "http://"); ok {
		return "https://" + rest
	}
	return address
}

func belowAny(list []*Listed, address string) bool {
	return slices.ContainsFunc(list, func(l *Listed) bool {
		return slices.ContainsFunc(l.Names, func(name string) bool { return Below(address, name) })
	})
}

// Below reports whether an address is another one, without a login, or is below it: the scheme
// and the host are the same, and the path begins with the other's.
func Below(address, base string) bool {
	a, err := url.Parse(address)
	if err != nil {
		return false
	}
	b, err := url.Parse(base)
	if err != nil || b.Host == "" || a.Scheme != b.Scheme || !strings.EqualFold(a.Host, b.Host) || a.Opaque != "" {
		return false
	}
	dir := func(p string) string { return strings.TrimSuffix(path.Clean("/"+p), "/") + "/" }
	return strings.HasPrefix(dir(a.Path), dir(b.Path))
}

// configSet reads `pip config set global.index-url URL`. After an unset the index is not known.
func (w *walk) configSet(c command, args []string) {
	if slices.Contains(args, "unset") {
		w.config.add(false, named{url: "pip config", only: true, line: c.line})
		return
	}
	i := slices.Index(args, "set")
	if i < 0 || len(args) < i+3 {
		return
	}
	_, key, _ := strings.Cut(args[i+1], ".")
	for _, n := range namedBy(key, args[i+2], c.line) {
		if c.maybe {
			n.url, n.only = "pip config", false
		}
		w.config.add(false, n)
	}
}

// namedBy returns the indexes of a setting of pip's configuration.
func namedBy(key, value string, line int) (list []named) {
	switch strings.ReplaceAll(key, "_", "-") {
	case "no-index":
		list = append(list, named{url: "no-index", line: line})
	case "index-url", "extra-index-url", "find-links":
		for _, url := range strings.Fields(value) {
			list = append(list, named{url, strings.HasPrefix(key, "index"), strings.HasPrefix(key, "find"), line})
		}
	}
	return list
}

var (
	// configName matches the name of a configuration file in an instruction.
	configName = regexp.MustCompile(`\b(pip\.conf|uv\.toml)\b`)
	// uvNames matches a line of uv.toml that names an index.
	uvNames    = regexp.MustCompile(`(?m)^[\t ]*(url|index-url|extra-index-url|find-links|no-index)[\t ]*=`)
	pipSetting = regexp.MustCompile(`^([A-Za-z_-]+)[\t ]*[=:](.*)$`)
)

// configFiles reads the configuration that a step writes or copies of the context. One that
// cannot be read may name any index.
func (w *walk) configFiles(st *dockerfile.Step, copies []copied) {
	for _, file := range slices.Concat(pipSettings.files, uvSettings.files) {
		if text, ok := w.within(copies, file); ok {
			w.configured(text, path.Base(file), st.Line)
		}
	}
	lines := w.parsed.Lines[min(st.Line-1, len(w.parsed.Lines)):min(st.EndLine, len(w.parsed.Lines))]
	for _, name := range configName.FindAllString(strings.Join(lines, "\n"), -1) {
		if text, ok := w.copiedAs(copies, name); ok {
			w.configured(text, name, st.Line)
		} else {
			w.config.add(name == uvConfig, named{url: name, line: st.Line})
		}
	}
}

func (w *walk) configured(text []byte, name string, line int) {
	w.config.add(name == uvConfig, configIndexes(text, name == uvConfig, line)...)
}

// copiedAs returns the file of the context that a COPY names so.
func (w *walk) copiedAs(copies []copied, name string) ([]byte, bool) {
	for _, c := range copies {
		for _, src := range c.from {
			if path.Base(src) == name {
				return w.contextText(path.Clean(strings.TrimPrefix(src, "/")))
			}
		}
	}
	return nil, false
}

// within returns a file that a COPY of its directory puts at a path.
func (w *walk) within(copies []copied, at string) ([]byte, bool) {
	for _, c := range copies {
		for _, src := range c.from {
			if from := c.source(src, at); from != "" && path.Base(src) != path.Base(at) {
				if text, ok := w.contextText(from); ok {
					return text, true
				}
			}
		}
	}
	return nil, false
}

// contextText returns a file of the context, within the bound of what is read of it.
func (w *walk) contextText(name string) ([]byte, bool) {
	if w.context == nil || *w.room <= 0 {
		return nil, false
	}
	text, ok := w.context(name)
	*w.room -= max(len(text), minContext)
	return text, ok
}

// uvConfig is the name of uv's configuration; pip's is pip.conf.
const uvConfig = "uv.toml"

// configIndexes returns the indexes that a pip.conf or an uv.toml names; those of an uv.toml
// are not told apart.
func configIndexes(text []byte, uv bool, line int) (list []named) {
	if uv {
		if uvNames.Match(text) {
			list = append(list, named{url: "uv.toml", line: line})
		}
		return list
	}
	key := ""
	for l := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(l)
		switch m := pipSetting.FindStringSubmatch(strings.TrimRight(l, "\r\n")); {
		case trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";"):
			continue
		case l[0] == ' ' || l[0] == '\t': // the value goes on
			list = append(list, namedBy(key, trimmed, line)...)
		case m != nil:
			key = strings.ToLower(m[1])
			list = append(list, namedBy(key, m[2], line)...)
		default:
			key = ""
		}
		if len(list) >= maxIndexes {
			return list
		}
	}
	return list
}
