package inventory

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Answer is the answer to a question about a package.
type Answer string

// The answers. Unknown is the zero value: the installer records nothing about it.
const (
	Unknown Answer = ""
	Yes     Answer = "yes"
	No      Answer = "no"
)

// marks are the records of installers about the packages that somebody asked for.
type marks struct {
	requested map[string]bool     // directories with a REQUESTED (PEP 376)
	installer map[string]string   // the INSTALLER of such directories
	topLevel  map[string][]string // their top_level.txt
	history   map[string]*history // of conda's prefixes
	auto      map[string]bool     // what apt installed by itself
	world     map[string]bool     // apk's
	records   map[*Package]*record
}

// record is the part of a package's own record that says whether it was asked for.
type record struct {
	base    bool     // Debian: it belongs to every installation
	spec    *string  // conda: requested_spec, or the first of requested_specs
	depends []string // apk and conda: the dependencies of a package without files
}

func (inv *Inventory) note(p *Package, r record) {
	if inv.marks.records == nil {
		inv.marks.records = map[*Package]*record{}
	}
	inv.marks.records[p] = &r
}

// ask sets Asked and TopLevel of all packages when all files were read, and drops the
// marks.
func (inv *Inventory) ask() {
	m := inv.marks
	inv.marks = marks{}
	m.askConda(inv.Packages)
	conda := condaAsked(inv.Packages)
	virtual := m.virtual(inv.Packages)
	wheels := m.pipRecords(inv.Packages)
	for _, p := range inv.Packages {
		switch dir := path.Dir(p.Path); p.Kind {
		case Wheel:
			p.TopLevel = m.topLevel[dir]
			switch {
			case m.installer[dir] == "pip" && wheels[p.Dir]:
				p.Asked = answer(m.requested[dir])
			case m.installer[dir] == "conda":
				p.Asked = conda.of(p)
			}
		case Deb:
			p.Asked = m.askDeb(p)
		case APK:
			if m.world != nil {
				p.Asked = answer(m.world[p.Name] || virtual[p.Name])
			}
		}
	}
}

// condaNames has the answers for conda's packages, by prefix and name. A prefix has one package of
// a name.
type condaNames map[[2]string]Answer

func condaAsked(list []*Package) condaNames {
	names := condaNames{}
	for _, p := range list {
		if p.Kind == Conda {
			names[[2]string{p.Dir, Normalize(p.Name)}] = p.Asked
		}
	}
	return names
}

// of returns the answer for a wheel that conda has unpacked: that of the conda package of the
// same name, whose files the wheel's are. The wheel lies in PREFIX/lib/pythonX.Y/site-packages.
func (names condaNames) of(wheel *Package) Answer {
	return names[[2]string{path.Dir(path.Dir(path.Dir(wheel.Dir))), wheel.Name}]
}

func answer(b bool) Answer {
	if b {
		return Yes
	}
	return No
}

// pipRecords returns the directories in which pip has written a REQUESTED: there, a package
// without one was not asked for. pip before 20.2 writes none. uv writes one for every package
// (uv-install-wheel, install_wheel), and poetry and pdm write none.
func (m *marks) pipRecords(list []*Package) map[string]bool {
	writes := map[string]bool{}
	for _, p := range list {
		if dir := path.Dir(p.Path); p.Kind == Wheel && m.requested[dir] && m.installer[dir] == "pip" {
			writes[p.Dir] = true
		}
	}
	return writes
}

func isInstaller(name string) bool { return strings.HasSuffix(name, ".dist-info/INSTALLER") }

// readInstaller reads the name of the program that installed a wheel (PEP 376).
func readInstaller(inv *Inventory, name string, b []byte) error {
	if inv.marks.installer == nil {
		inv.marks.installer = map[string]string{}
	}
	if who := strings.TrimSpace(string(b)); len(who) <= maxText {
		inv.marks.installer[path.Dir("/"+name)] = who
	}
	return nil
}

// noteRequested keeps the name of a REQUESTED, which is empty.
func (inv *Inventory) noteRequested(name string) {
	if strings.HasSuffix(name, ".dist-info/REQUESTED") && !isCopy(name) {
		if inv.marks.requested == nil {
			inv.marks.requested = map[string]bool{}
		}
		inv.marks.requested[path.Dir("/"+name)] = true
	}
}

// askDeb answers for a Debian package: apt lists those that it installed by itself in
// extended_states. Packages of priority required, important and standard belong to every
// installation. Nothing is known where apt has no such list (distroless images).
func (m *marks) askDeb(p *Package) Answer {
	r := m.records[p]
	switch {
	case r == nil || strings.HasPrefix(p.Path, "/var/lib/dpkg/status.d/"):
		return Unknown
	case r.base || m.auto[p.Name]:
		return No
	case m.auto == nil:
		return Unknown
	}
	return Yes
}

func isExtendedStates(name string) bool { return name == "var/lib/apt/extended_states" }

// readExtendedStates reads apt's list: paragraphs as of deb-control(5). A package counts
// as installed by apt itself if it is so in one architecture.
func readExtendedStates(inv *Inventory, _ string, b []byte) error {
	inv.marks.auto = map[string]bool{}
	one := ""
	for line := range lines(b) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "Package":
			one = value
		case "Auto-Installed":
			if value == "1" {
				inv.marks.auto[one] = true
			}
		}
	}
	return nil
}

func isWorld(name string) bool { return name == "etc/apk/world" }

// readWorld reads apk's list of packages that were asked for: names with a version, a
// tagged repository, or a "!" for one that must not be installed (apk-world(5)).
func readWorld(inv *Inventory, _ string, b []byte) error {
	inv.marks.world = map[string]bool{}
	for _, word := range strings.Fields(string(b)) {
		inv.marks.world[apkName(word)] = true
	}
	return nil
}

// apkName returns the name of an apk dependency. One with "!" has none that matches.
func apkName(word string) string {
	if i := strings.IndexAny(word, "<>=~@"); i > 0 {
		return word[:i]
	}
	return word
}

// virtual returns the packages that the world's virtual packages stand for (apk add
// --virtual).
func (m *marks) virtual(list []*Package) map[string]bool {
	names := map[string]bool{}
	for _, p := range list {
		if r := m.records[p]; p.Kind == APK && r != nil && strings.HasPrefix(p.Name, ".") && m.world[p.Name] {
			for _, d := range r.depends {
				names[apkName(d)] = true
			}
		}
	}
	return names
}

// history has the specs that conda's history of a prefix still asks for, by name.
type history struct{ specs map[string]bool }

func isHistory(name string) bool { return strings.HasSuffix(name, "/conda-meta/history") }

var (
	historyLine = regexp.MustCompile(`^# (install|update|remove|neutered) specs: *(.*)$`)
	quotedSpec  = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// readHistory reads the specs that each transaction was asked for (conda.history,
// History.get_requested_specs_map): a Python list, or a list with commas.
func readHistory(inv *Inventory, name string, b []byte) error {
	h := &history{map[string]bool{}}
	for line := range lines(b) {
		m := historyLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, spec := range historySpecs(m[2]) {
			if one := condaName(spec); m[1] == "remove" {
				delete(h.specs, one)
			} else if one != "" {
				h.specs[one] = true
			}
		}
	}
	if inv.marks.history == nil {
		inv.marks.history = map[string]*history{}
	}
	inv.marks.history[path.Dir(path.Dir("/"+name))] = h
	return nil
}

func historySpecs(text string) []string {
	if !strings.HasPrefix(text, "[") {
		return strings.Split(text, ",")
	}
	return quotedSpec.FindAllString(text, -1)
}

// condaName returns the name of a conda spec: "conda-forge/linux-64::numpy[version='>=2']",
// "python=3.10", "numpy 1.26.*".
func condaName(spec string) string {
	spec = strings.Trim(strings.TrimSpace(spec), `'"`)
	if i := strings.LastIndex(spec, "::"); i >= 0 {
		spec = spec[i+2:]
	}
	if i := strings.IndexAny(spec, " =<>!~[@"); i >= 0 {
		spec = spec[:i]
	}
	return strings.ToLower(spec)
}

// condaSpec returns the spec that conda-meta keeps: requested_spec (conda writes "None"
// and micromamba "" for a dependency), or the first of requested_specs (rattler). It
// returns nil if the file has neither.
func condaSpec(one json.RawMessage, many json.RawMessage) *string {
	var s string
	var list []string
	switch {
	case len(many) > 0 && json.Unmarshal(many, &list) == nil && list != nil:
		s = strings.Join(list, "")
	case len(one) == 0 || json.Unmarshal(one, &s) != nil || string(one) == "null":
		return nil
	}
	if s == "None" {
		s = ""
	}
	return &s
}

// askConda answers for conda's packages, a prefix at a time: by the package's own record,
// or by the prefix's history. Where all packages have a spec, somebody installed a lock
// file, and which ones he wanted is unknown.
func (m *marks) askConda(list []*Package) {
	prefixes := map[string][]*Package{}
	for _, p := range list {
		if p.Kind == Conda {
			prefixes[p.Dir] = append(prefixes[p.Dir], p)
		}
	}
	for dir, packages := range prefixes {
		h := m.history[dir]
		for _, p := range packages {
			if r := m.records[p]; r != nil && r.spec != nil {
				p.Asked = answer(*r.spec != "")
			} else if h != nil && len(h.specs) > 0 {
				p.Asked = answer(h.specs[p.Name])
			}
		}
		if len(packages) > 1 && !slices.ContainsFunc(packages, func(p *Package) bool { return p.Asked != Yes }) {
			for _, p := range packages {
				p.Asked = Unknown
			}
		}
		m.askDepends(packages)
	}
}

// askDepends counts the dependencies of a package without files as asked for, if somebody asked
// for the package: pytorch-gpu and rapids have dependencies alone.
func (m *marks) askDepends(packages []*Package) {
	byName := map[string]*Package{}
	for _, p := range packages {
		byName[p.Name] = p
	}
	var stands func(p *Package)
	stands = func(p *Package) {
		r := m.records[p]
		if r == nil {
			return
		}
		depends := r.depends
		r.depends = nil // once
		for _, spec := range depends {
			if of := byName[condaName(spec)]; of != nil {
				of.Asked = Yes
				stands(of)
			}
		}
	}
	for _, p := range packages {
		if p.Asked == Yes {
			stands(p)
		}
	}
}
