package fix

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// condaFor returns the installation of another release of a package of conda, in the environment
// that has the library of a finding about a symbol or a version, or nil if no release is known to
// have it. In the replay the environment's libraries of the package define the version, and their
// symbols are not known.
func (m *maker) condaFor(now *replay.Image, f *lint.Finding) *install {
	if m.inventory == nil || !m.hasShell() {
		return nil
	}
	row := m.condaRow(f)
	if row == nil || row.Spec(f.Version) == "" {
		return nil
	}
	prefix := m.condaWith(row, f)
	if prefix == "" {
		return nil
	}
	s := Step{Kind: "install", Path: path.Join(prefix, "lib"), StandIn: true}
	entries, _ := fs.ReadDir(now.FS, strings.TrimPrefix(s.Path, "/"))
	for _, d := range entries {
		e, _, ok := now.FS.Lookup(path.Join(s.Path, d.Name()))
		if !ok || e.Object == nil || !d.Type().IsRegular() || !packs.MatchAny(row.Files, d.Name()) || len(s.files) >= maxSiblings {
			continue
		}
		o := *e.Object
		if o.Symbols = nil; f.Version != "" {
			o.VersionDefs = append(slices.Clone(o.VersionDefs), f.Version)
		}
		s.files = append(s.files, file{File: patch.File{Path: "/" + e.Path, Mode: e.Mode.Perm(), Size: e.Size}, object: &o})
	}
	if len(s.files) == 0 {
		return nil
	}
	i := &install{manager: "conda", packages: []string{row.Spec(f.Version)}, step: s}
	return m.withConda(i, prefix, row.Channel)
}

// condaRow returns the package of conda that the packs know for a finding's symbol or version, or
// nil.
func (m *maker) condaRow(f *lint.Finding) *packs.Conda {
	switch f.Kind {
	case packs.Version:
		if fix := m.packs.VersionFix(f.Version); fix != nil {
			return fix.Conda
		}
	case packs.Symbol:
		if fact := m.packs.Symbol(f.Symbol); fact != nil {
			return fact.Conda
		}
	}
	return nil
}

// condaWith returns the prefix of the environment that conda has installed a package in, and that
// has the library which a finding is about or, for a symbol, the file that needs it; else "".
func (m *maker) condaWith(row *packs.Conda, f *lint.Finding) string {
	about := f.Subject
	if f.BoundTo != nil {
		about = f.BoundTo.Path
	}
	for _, pkg := range m.inventory.Packages {
		if pkg.Kind != inventory.Conda || pkg.Name != row.Package || !plainWord(pkg.Dir) {
			continue
		}
		if lib := path.Join(pkg.Dir, "lib"); f.Kind == packs.Version && path.Dir(m.real(about)) == lib || f.Kind == packs.Symbol && strings.HasPrefix(about, lib+"/") {
			return pkg.Dir
		}
	}
	return ""
}

// mountedMamba is the place of a mounted micromamba, and mambaRoot that of its downloads.
const (
	mountedMamba = "/.micromamba"
	mambaRoot    = "/tmp/micromamba"
)

// withConda adds the command that installs the packages of i in an environment: with its conda or
// micromamba, else with micromamba from its own image, where it is one static program
// (https://micromamba-docker.readthedocs.io/en/latest/). It returns nil if there is no such program
// that knows the channel.
func (m *maker) withConda(i *install, prefix, channel string) *install {
	words := []string{"install", "-y", "-p", prefix}
	if channel != "" {
		words = append(words, "-c", channel)
	}
	words = append(words, i.packages...)
	if tool := m.conda(prefix); tool != "" {
		i.command = commandLine(append([]string{tool}, words...)) + " && " + tool + " clean -afy"
		return i
	}
	if channel == "" {
		return nil // a program of another image knows none
	}
	words = slices.Insert(words, 1, "-r", mambaRoot)
	run := "RUN --mount=from=mambaorg/micromamba,source=/bin/micromamba,target=" + mountedMamba + " " +
		commandLine(append([]string{mountedMamba}, words...)) + " && rm -rf " + mambaRoot
	i.lines = (&writer{m: m}).asRoot([]string{run})
	return i
}

// conda returns the conda or micromamba that changes an environment, or "".
func (m *maker) conda(prefix string) string {
	base, _, _ := strings.Cut(prefix, "/envs/")
	for _, at := range []string{base + "/bin/conda", base + "/condabin/conda", "/opt/conda/bin/conda", "/usr/local/bin/micromamba", "/usr/bin/micromamba", "/bin/micromamba"} {
		if e, _, ok := m.base.FS.Lookup(at); ok && !e.IsDir() {
			return at
		}
	}
	return ""
}
