package pylock

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Pixi returns what `pixi install` installs from a pixi.lock of version 5 or 6: the packages of
// an environment for linux-64.
func Pixi(text []byte, o Options) (*List, error) {
	var lock struct {
		Version      int `yaml:"version"`
		Environments map[string]struct {
			Packages map[string][]map[string]any `yaml:"packages"`
		} `yaml:"environments"`
	}
	if err := decodeYAML(text, &lock); err != nil {
		return nil, err
	}
	if lock.Version < 5 || lock.Version > 6 {
		return nil, fmt.Errorf("its version %d is not known", lock.Version)
	}
	name := cmp.Or(o.Environment, "default")
	env, ok := lock.Environments[name]
	packages := env.Packages["linux-64"]
	switch {
	case !ok:
		return nil, fmt.Errorf("it has no environment %s", name)
	case len(packages) == 0:
		return nil, errors.New("it has no packages for linux-64")
	case len(packages) > maxPackages:
		return nil, errors.New("it has too many packages")
	}
	list := &List{Exact: true}
	for _, p := range packages {
		conda, _ := p["conda"].(string)
		pypi, _ := p["pypi"].(string)
		switch m := condaName.FindStringSubmatch(path.Base(conda)); {
		case conda != "" && m != nil:
			list.Packages = append(list.Packages, Package{Name: m[1], Version: m[2], Conda: true})
		case pypi != "" && strings.HasPrefix(pypi, "."): // a project of the repository
		default:
			if n, v := fileOf(pypi); n != "" {
				list.Packages = append(list.Packages, Package{Name: n, Version: v, Small: small([]string{pypi}, []int64{0})})
			} else {
				list.Unknown = append(list.Unknown, "the package "+cmp.Or(conda, pypi, "of a line without an address"))
			}
		}
	}
	return list, nil
}

// condaSpec matches a requirement of conda's: CHANNEL::NAME=VERSION=BUILD,
// https://docs.conda.io/projects/conda/en/stable/dev-guide/deep-dives/ and its match
// specifications.
var condaSpec = regexp.MustCompile(`^(?:([^:\s]+)::)?([A-Za-z0-9_.-]+)\s*(.*)$`)

// CondaSpec returns the package of a requirement of conda's, and whether it is one. The version
// is that behind the first `=`, which may be a part of the release's.
func CondaSpec(text string) (Package, bool) {
	m := condaSpec.FindStringSubmatch(strings.Trim(strings.TrimSpace(text), `"'`))
	if m == nil {
		return Package{}, false
	}
	p := Package{Name: strings.ToLower(m[2]), Channel: m[1], Conda: true, Spec: m[3]}
	if rest, ok := strings.CutPrefix(m[3], "="); ok {
		version, _, _ := strings.Cut(strings.TrimLeft(rest, "= "), "=")
		if version = strings.TrimSuffix(strings.TrimSpace(version), ".*"); version != "" && !strings.ContainsAny(version, "*<>!,|") {
			p.Version = version
		}
	}
	return p, true
}

// maxChannels limits the channels of a file.
const maxChannels = 100

// Conda returns what `conda env create` installs from an environment.yml: the packages that it
// names, and the lines of its pip section as requirements. Conda adds what these require.
func Conda(text []byte) (*List, error) {
	var env struct {
		Dependencies []any `yaml:"dependencies"`
		Channels     []any `yaml:"channels"`
	}
	if err := decodeYAML(text, &env); err != nil {
		return nil, err
	}
	list := &List{}
	if len(env.Dependencies) == 0 || len(env.Dependencies) > maxPackages {
		return nil, errors.New("it has no list of dependencies")
	}
	for _, c := range env.Channels[:min(len(env.Channels), maxChannels)] {
		list.Channels = append(list.Channels, fmt.Sprint(c))
	}
	for _, d := range env.Dependencies {
		switch d := d.(type) {
		case string:
			if p, ok := CondaSpec(d); ok {
				list.Packages = append(list.Packages, p)
			} else {
				list.Unknown = append(list.Unknown, "the package "+d)
			}
		case map[string]any:
			pip, ok := d["pip"].([]any)
			if !ok {
				list.Unknown = append(list.Unknown, "a part of its dependencies")
			}
			for _, line := range pip {
				list.Requirements = append(list.Requirements, fmt.Sprint(line))
			}
		default:
			list.Unknown = append(list.Unknown, "a part of its dependencies")
		}
	}
	return list, nil
}
