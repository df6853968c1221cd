package dockerlint

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/rules"
)

// Knowledge has the rules of rules/dockerlint/rules.yaml, the tables beside them,
// and the packs about frameworks.
type Knowledge struct {
	tables
	// Packs are the packs about installed packages.
	Packs *packs.Packs
	rules *packs.Packs
}

// tables are the sections of rules/dockerlint/tables/*.yaml.
type tables struct {
	Checks []*Check `yaml:"checks"`
	// Indexes are PyTorch's indexes for CUDA, ascending, and Absent those that do not exist.
	Indexes []*Listed `yaml:"indexes"`
	Absent  []*Listed `yaml:"absent"`
	// Releases are the indexes with a release of torch.
	Releases []*Release `yaml:"releases"`
	// Architectures are the GPUs of the builds of torch.
	Architectures []*Code `yaml:"architectures"`
	Needs         []*Need `yaml:"needs"`
	// Newest says what packages that are installed without a release need.
	Newest []*Newest `yaml:"newest"`
	// CUDAImages are NVIDIA's images whose libraries are assumed if they are not read.
	CUDAImages []*CUDAImage `yaml:"cuda_images"`
	// WithoutCUDA are images that have none of its libraries.
	WithoutCUDA []*Images `yaml:"without_cuda"`
	// CUDAParts are the parts of the CUDA toolkit, CUDAFlavors the images that have them, and
	// CUDAPartsOf the packages that need them.
	CUDAParts   []*Part    `yaml:"cuda_parts"`
	CUDAFlavors []*Flavor  `yaml:"cuda_flavors"`
	CUDAPartsOf []*PartsOf `yaml:"cuda_parts_of"`
	// CUDASources are packages that are built with nvcc, and AbsentImages images that are no longer
	// published.
	CUDASources  []*Compiled `yaml:"cuda_sources"`
	AbsentImages []*Images   `yaml:"absent_images"`
	// TorchBuilt are packages whose build imports torch, PythonRanges the Pythons for which releases
	// have wheels, and X86Only packages without wheels for other machines.
	TorchBuilt   []*Listed      `yaml:"torch_built"`
	PythonRanges []*PythonRange `yaml:"python_ranges"`
	X86Only      []*Unfit       `yaml:"x86_only"`
	// WithoutGit are images without git, and GitWithout patterns of packages that do not bring it.
	WithoutGit []*Images `yaml:"without_git"`
	GitWithout []string  `yaml:"git_without"`
	// ActivatedBy are images whose shell activates their environment if a variable says so.
	ActivatedBy []*Images `yaml:"activated_by"`
	// ImageVariables says which variables images set.
	ImageVariables []*ImageVariables `yaml:"image_variables"`
	// ImageUsers says which user images have that is not root.
	ImageUsers []*ImageUser `yaml:"image_users"`
	// ManagedImages are images whose pip installs nothing outside of virtual environments, beside
	// those of the distributions.
	ManagedImages []*ManagedImage `yaml:"managed_images"`
	// Published are images that their publisher alone builds.
	Published []*Images `yaml:"published_images"`
	// PyPIBuilds says for which CUDA PyPI's wheels are built.
	PyPIBuilds []*Built `yaml:"pypi_builds"`
	// GlibcOnly are packages without wheels for musl, MuslImages images with musl, ExecutableStacks
	// packages that ask for an executable stack, Glibc241 images whose glibc refuses that,
	// SystemNeeds packages that need libraries of the system, and SmallImages images without these.
	GlibcOnly        []*Unfit  `yaml:"glibc_only"`
	MuslImages       []*Images `yaml:"musl_images"`
	ExecutableStacks []*Unfit  `yaml:"executable_stacks"`
	Glibc241         []*Images `yaml:"glibc_241"`
	SystemNeeds      []*Unfit  `yaml:"system_needs"`
	SmallImages      []*Images `yaml:"small_images"`
	// ProgramImages are images that others copy programs from, which need no library of theirs.
	ProgramImages []*Images `yaml:"program_images"`
	// RuntimeCompilers are packages that run a C compiler when they are used, and CompilerPackages
	// those of a system that bring one.
	RuntimeCompilers []*Unfit `yaml:"runtime_compilers"`
	CompilerPackages []string `yaml:"compiler_packages"`
	// CondaBuilds are packages of which conda-forge has a build for GPUs and one without.
	CondaBuilds []*Listed `yaml:"conda_builds"`
	// OnCPU are packages that are often used without a GPU.
	OnCPU []*Listed `yaml:"on_cpu"`
	// ByPath are packages that find libraries of CUDA's wheels by the loader's paths alone.
	ByPath []*Listed `yaml:"by_path"`
	// VideoPackages open the driver's libraries for video.
	VideoPackages []*Listed `yaml:"video_packages"`
	// SystemPythons are the Pythons of distributions, and PythonPackages the packages of these
	// that bring it.
	SystemPythons  []*SystemPython `yaml:"system_pythons"`
	PythonPackages []string        `yaml:"python_packages"`
	// PythonElsewhere are images that have no Python in /usr/local, and Programs those, beside
	// Python, that an image starts without a shell.
	PythonElsewhere []string `yaml:"python_elsewhere"`
	Programs        []string `yaml:"programs"`
	// SystemWithout are packages of distributions that do not bring some libraries.
	SystemWithout []*SystemWithout `yaml:"system_without"`
	// Plain are distributions that bring no CUDA library.
	Plain []*Listed `yaml:"plain"`
	// KnownIndexes are the package indexes that a Dockerfile may name to be asked, and Mirrors
	// those that have what PyPI has.
	KnownIndexes   []*Listed `yaml:"known_indexes"`
	Mirrors        []*Listed `yaml:"pypi_mirrors"`
	DriverFiles    []string  `yaml:"driver_files"`
	DriverPackages []string  `yaml:"driver_packages"`
	Tools          []string  `yaml:"tools"`
	Harmless       []string  `yaml:"harmless"`
	// Carriers are programs that only bring files, and Libraries patterns of words that name
	// a library.
	Carriers  []string `yaml:"carriers"`
	Libraries []string `yaml:"libraries"`
}

// Listed are names with the sources of what their section says of them.
type Listed struct {
	Names    []string `yaml:"names"`
	Packages []string `yaml:"packages"`
	Sources  []string `yaml:"sources"`
}

// SystemWithout are packages of distributions that bring none of some libraries, nor does any
// package that they require or recommend.
type SystemWithout struct {
	Libraries []string `yaml:"libraries"`
	Packages  []string `yaml:"packages"`
	Sources   []string `yaml:"sources"`
}

// without reports whether a package of the system is known to bring none of some libraries.
func (k *Knowledge) without(name string, libraries []string) bool {
	for _, library := range libraries {
		if !slices.ContainsFunc(k.SystemWithout, func(s *SystemWithout) bool {
			return slices.Contains(s.Libraries, library) && slices.Contains(s.Packages, name)
		}) {
			return false
		}
	}
	return len(libraries) > 0
}

// Release says which of PyTorch's indexes have a release of torch.
type Release struct {
	Release string   `yaml:"release"` // major and minor
	Builds  []string `yaml:"builds"`
	Sources []string `yaml:"sources"`
}

// listed reports whether a name is in a list.
func listed(list []*Listed, name string) bool {
	return slices.ContainsFunc(list, func(l *Listed) bool { return slices.Contains(l.Names, name) || slices.Contains(l.Packages, name) })
}

// builds returns the indexes that have a release of torch, or nil if they are not known.
func (k *Knowledge) builds(release string) []string {
	for _, r := range k.Releases {
		if r.Release == release {
			return r.Builds
		}
	}
	return nil
}

// Need says which libraries of the system a distribution's releases need.
type Need struct {
	Package  string   `yaml:"package"`
	Extra    string   `yaml:"extra"`    // it holds with this extra alone
	Versions string   `yaml:"versions"` // PEP 440 specifiers
	CUDA     string   `yaml:"cuda"`     // the major version
	CUDNN    string   `yaml:"cudnn"`    // the major version
	Sources  []string `yaml:"sources"`
	// From, if not empty, is the release from which on it holds for one without a pin.
	From string `yaml:"-"`
}

// Newest says which libraries of the system the newest release of a distribution needs, on any
// Python that has a wheel of it.
type Newest struct {
	Package string   `yaml:"package"`
	From    string   `yaml:"from"`   // it is this release, or a later one
	Needs   []*Need  `yaml:"needs"`  // one of them holds
	NotOn   []string `yaml:"not_on"` // patterns of base images whose Python is too old
	Sources []string `yaml:"sources"`
}

// SystemPython is the Python of a distribution.
type SystemPython struct {
	System string   `yaml:"system"` // ID and VERSION_ID of os-release(5)
	Python string   `yaml:"python"` // "3.10"
	Glibc  string   `yaml:"glibc"`
	Tags   []string `yaml:"tags"` // patterns of tags that name the distribution
	// Managed says that pip refuses to install outside of virtual environments (PEP 668).
	Managed bool `yaml:"managed"`
	// Also are other releases of Python that the distribution has, and NoDeadsnakes says that
	// Ubuntu's repository of Pythons no longer serves it.
	Also         []string `yaml:"also"`
	NoDeadsnakes bool     `yaml:"no_deadsnakes"`
	Sources      []string `yaml:"sources"`
}

// Check is a check of BuildKit's.
type Check struct {
	Name     string         `yaml:"name"`
	Severity packs.Severity `yaml:"severity"`
	Title    string         `yaml:"title"`
	// Because says why it is less than a warning.
	Because string   `yaml:"because"`
	Sources []string `yaml:"sources"`
}

// Load reads the rules and tables. set are the packs about installed packages.
func Load(set *packs.Packs) (*Knowledge, error) {
	dir, err := fs.Sub(rules.FS, "dockerlint")
	if err != nil {
		return nil, err
	}
	k := &Knowledge{Packs: set}
	if k.rules, err = packs.LoadPacks(dir); err != nil {
		return nil, err
	}
	names, err := fs.Glob(dir, "tables/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		if err := d.Decode(&k.tables); err != nil {
			return nil, fmt.Errorf("rules/dockerlint/%s: %w", name, err)
		}
	}
	return k, nil
}

// Check returns the row of a check of BuildKit's, or nil.
func (k *Knowledge) Check(name string) *Check {
	if i := slices.IndexFunc(k.Checks, func(c *Check) bool { return c.Name == name }); i >= 0 {
		return k.Checks[i]
	}
	return nil
}

// Rules returns imgcheck's rules for Dockerfiles and BuildKit's checks as rules, by their
// severities and names.
func (k *Knowledge) Rules() []*packs.Rule {
	list := k.rules.SortedRules()
	for _, c := range k.Checks {
		list = append(list, &packs.Rule{ID: c.Name, Severity: c.Severity, Title: c.Title, Doc: "A check of BuildKit's: " + c.Title + ".", Sources: c.Sources})
	}
	return list
}

// RulesOf returns [Knowledge.Rules], and the rules of the packs that findings of base images
// in the files name.
func (k *Knowledge) RulesOf(files []*File) []*packs.Rule {
	list, named := k.Rules(), map[string]bool{}
	for _, file := range files {
		for _, f := range file.Findings {
			named[f.Rule] = named[f.Rule] || f.Base != ""
		}
		for _, g := range file.Ignored {
			named[g.Finding.Rule] = named[g.Finding.Rule] || g.Finding.Base != ""
		}
	}
	for _, r := range k.Packs.SortedRules() {
		if named[r.ID] {
			list = append(list, r)
		}
	}
	return list
}

// Own returns imgcheck's own rules for Dockerfiles.
func (k *Knowledge) Own() []*packs.Rule { return k.rules.SortedRules() }

// say adds a finding of a rule of ours, with the texts of a clause.
func (l *linter) say(rule, clause string, line int, v map[string]string) {
	l.add(l.finding(rule, clause, line, v))
}

// finding returns a finding of a rule of ours, with the texts of a clause.
func (l *linter) finding(rule, clause string, line int, v map[string]string) Finding {
	r := l.rules.Rule(rule)
	if r == nil || r.Clauses[clause] == nil { // a test reads every clause that the code names
		panic("rules/dockerlint has no clause " + rule + "/" + clause)
	}
	c := r.Clauses[clause]
	f := Finding{Rule: rule, Severity: cmp.Or(c.Severity, r.Severity), Line: line, Message: packs.Fill(c.Message, v), Because: packs.Fill(c.Because, v)}
	fixes := c.Fix
	if len(fixes) == 0 {
		fixes = r.Fix
	}
	for _, fix := range fixes {
		f.Fixes = append(f.Fixes, packs.Fill(fix, v))
	}
	return f
}
