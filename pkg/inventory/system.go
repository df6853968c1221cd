package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Packages of the system: Debian's, Alpine's and conda's.

// isDpkg reports whether a file is dpkg's list of packages, or one of the files of
// distroless images, which have one package each.
func isDpkg(name string) bool {
	if name == "var/lib/dpkg/status" {
		return true
	}
	rest, ok := strings.CutPrefix(name, "var/lib/dpkg/status.d/")
	return ok && !strings.Contains(rest, "/") && !strings.HasSuffix(rest, ".md5sums")
}

// readDpkg reads deb-control(5) paragraphs. In dpkg's own list only installed packages
// count (the third word of Status); distroless files have no Status.
func readDpkg(inv *Inventory, name string, b []byte) error {
	var failed error
	var p Package
	base, installed := false, true
	flush := func() {
		if p.Name != "" && installed {
			one := p
			one.Kind, one.Path = Deb, "/"+name
			failed = errors.Join(failed, inv.add(&one))
			inv.note(&one, record{base: base})
		}
		p, base, installed = Package{}, false, true
	}
	for line := range lines(b) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case line == "":
			flush()
		case key == "Package":
			p.Name = value
		case key == "Version":
			p.Version = value
		case key == "Status":
			words := strings.Fields(value)
			installed = len(words) == 3 && words[2] == "installed"
		case key == "Priority":
			base = value == "required" || value == "important" || value == "standard"
		}
	}
	flush()
	return first(failed)
}

// first returns the first of joined errors.
func first(err error) error {
	if err == nil {
		return nil
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}

func isAPK(name string) bool {
	return name == "lib/apk/db/installed" || name == "usr/lib/apk/db/installed"
}

// readAPK reads apk's list: lines with a letter, a colon and a value, and an empty line
// after each package (database.c of apk-tools).
func readAPK(inv *Inventory, name string, b []byte) error {
	var failed error
	var p Package
	var depends []string
	flush := func() {
		if p.Name != "" {
			one := p
			one.Kind, one.Path = APK, "/"+name
			failed = errors.Join(failed, inv.add(&one))
			inv.note(&one, record{depends: depends})
		}
		p, depends = Package{}, nil
	}
	for line := range lines(b) {
		switch {
		case line == "":
			flush()
		case strings.HasPrefix(line, "P:"):
			p.Name = line[2:]
		case strings.HasPrefix(line, "V:"):
			p.Version = line[2:]
		case strings.HasPrefix(line, "D:") && strings.HasPrefix(p.Name, "."):
			depends = strings.Fields(line[2:])
		}
	}
	flush()
	return first(failed)
}

func isCondaMeta(name string) bool {
	return path.Base(path.Dir(name)) == "conda-meta" && strings.HasSuffix(name, ".json")
}

// readConda reads one file of conda-meta.
func readConda(inv *Inventory, name string, b []byte) error {
	var meta struct {
		Name    string          `json:"name"`
		Version string          `json:"version"`
		Build   string          `json:"build"`
		Spec    json.RawMessage `json:"requested_spec"`
		Specs   json.RawMessage `json:"requested_specs"`
		Depends []string        `json:"depends"`
		Files   noFiles         `json:"files"`
	}
	if err := json.Unmarshal(b, &meta); err != nil {
		return errors.New("it is not JSON of conda: " + err.Error())
	}
	if len(meta.Build) > maxText {
		return errors.New("its build is too long")
	}
	p := &Package{
		Kind: Conda, Name: meta.Name, Version: meta.Version, Build: meta.Build,
		Path: "/" + name, Dir: path.Dir(path.Dir("/" + name)),
	}
	r := record{spec: condaSpec(meta.Spec, meta.Specs)}
	if meta.Files {
		r.depends = meta.Depends
	}
	inv.note(p, r)
	return inv.add(p)
}

// noFiles reports whether a JSON list is empty: that of the files of a package of conda that
// stands for the packages that it depends on.
type noFiles bool

// UnmarshalJSON reads the list.
func (n *noFiles) UnmarshalJSON(b []byte) error {
	*n = len(b) > 1 && b[0] == '[' && len(bytes.TrimSpace(b[1:len(b)-1])) == 0
	return nil
}

// Activation is a variable that a conda script sets when an environment is activated.
// `docker run IMAGE python` does not activate it.
type Activation struct {
	Path   string // the script
	Prefix string // the environment
	Name   string // LD_LIBRARY_PATH
	Value  string // as in the script
}

func isActivation(name string) bool {
	return strings.HasSuffix(path.Dir(name), "etc/conda/activate.d") && strings.HasSuffix(name, ".sh")
}

var assignment = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// readActivation reads the assignments of a shell script, one to a line. A variable is
// listed once, with its last value.
func readActivation(inv *Inventory, name string, b []byte) error {
	found := map[string]*Activation{}
	for line := range lines(b) {
		m := assignment.FindStringSubmatch(line)
		if m == nil || len(m[2]) > maxText || len(m[1]) > maxText {
			continue
		}
		a := found[m[1]]
		if a == nil {
			if len(found) >= 256 {
				return fmt.Errorf("it sets more than %d variables", 256)
			}
			a = &Activation{Path: "/" + name, Prefix: strings.TrimSuffix(path.Dir("/"+name), "/etc/conda/activate.d"), Name: m[1]}
			found[m[1]] = a
			inv.Activations = append(inv.Activations, a)
		}
		a.Value = strings.Trim(strings.TrimSpace(m[2]), `"'`)
	}
	return nil
}
