// Package inventory reads what is installed in a file system from the records of the
// installers: Python distributions with their requirements and files, packages of conda,
// Debian, Alpine and rpm, Python environments, CUDA toolkits and cuDNN, and what
// frameworks record about their own build. [Imports] returns the modules that a Python
// file imports.
//
// [Wants] selects the files to read, so that an index of layers keeps their bytes, and
// [Extract] reduces the large ones. [Read] parses them. Files that exist and could not be
// read are listed in [Inventory.Unread]; they never count as not installed.
//
// The package knows no loaders, no images and no rules. It believes the files: elfdeps
// replays whether a library is where its package put it, and whether a process gets that
// one.
package inventory

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Inventory is everything that is installed. It is sorted, and shares nothing with the
// file system that it was read from.
type Inventory struct {
	// Packages are sorted by kind, directory and name.
	Packages []*Package `json:"packages,omitempty"`
	// Pythons are the environments that have packages or a pyvenv.cfg.
	Pythons []*Python `json:"pythons,omitempty"`
	// Builds are what frameworks record about their own build.
	Builds []*Build `json:"builds,omitempty"`
	// Components are CUDA toolkits, cuDNN and similar, with the evidence for each.
	Components []*Component `json:"components,omitempty"`
	// Distribution is what os-release says, or nil.
	Distribution *Distribution `json:"distribution,omitempty"`
	// Unread are files that exist and could not be read.
	Unread []Unread `json:"unread,omitempty"`
	// Activations are variables that only `conda activate` sets.
	Activations []*Activation `json:"-"`

	marks marks
	owned int // bytes held of all RECORDs
	taken int // bytes read of all files
}

// Kind is the installer of a package.
type Kind string

// The installers.
const (
	Wheel Kind = "wheel" // a Python distribution: dist-info or egg-info
	Conda Kind = "conda"
	Deb   Kind = "deb"
	APK   Kind = "apk"
	RPM   Kind = "rpm"
)

// Package is one installed package.
type Package struct {
	Kind Kind `json:"kind"`
	// Name is the package's own name. A wheel's is normalised (PEP 503): lower case, and
	// "-" for "_" and ".".
	Name string `json:"name"`
	// Version is the installer's spelling; rpm's is [EPOCH:]VERSION-RELEASE.
	Version string `json:"version"`
	// Path is the absolute path of the installer's record.
	Path string `json:"path"`
	// Dir is the directory of Python packages or the conda prefix that holds it; "" for
	// packages of the system.
	Dir string `json:"dir,omitempty"`
	// Build is conda's build string (py3.10_cuda11.8_cudnn8.7.0_0).
	Build string `json:"build,omitempty"`
	// Asked reports whether the author of the image asked for the package, or an installer
	// took it as a dependency of another. It is Unknown where the installer does not record
	// that: uv, poetry, pdm, rpm, and conda's older packages.
	Asked Answer `json:"asked,omitempty"`
	// Requires are the Requires-Dist lines of a wheel.
	Requires []string `json:"-"`
	// Pythons are the releases of Python that a wheel's classifiers name: "3.12". Nil means that
	// its metadata does not say for which it is.
	Pythons []string `json:"-"`
	// Files are the files that a wheel's RECORD lists, by absolute path. Files that no
	// loader maps are left out by the ends of their names (.py), but for `__init__.py`.
	// Files is nil if there is no RECORD or it was not read.
	Files map[string]Listed `json:"-"`
	// TopLevel are the modules that a wheel's top_level.txt names, sorted; nil if it has
	// none. [Package.Modules] also reads RECORD.
	TopLevel []string `json:"-"`

	listed []string // the top-level modules by RECORD
}

// Listed is the entry of a file in RECORD.
type Listed struct {
	Hash string // "sha256=…", or empty
	Size int64  // in bytes; -1 if RECORD does not say
}

// Component is a part of the CUDA stack that something else than a package shows.
type Component struct {
	Name    string `json:"name"` // "cuda" or "cudnn"
	Version string `json:"version"`
	// Path is the file or directory that shows it; "" for the environment.
	Path string `json:"path,omitempty"`
	// From names the evidence: "file name", "version.json", "header", "directory name",
	// "ENV CUDA_VERSION".
	From string `json:"from"`
}

// Unread is a file that exists and could not be read.
type Unread struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Limits for an image, which may be hostile.
const (
	maxPackages = 1 << 16
	maxSites    = 64 // directories of packages of one Python
	maxUnread   = 1 << 10
	maxLine     = 1 << 16 // of any text, in bytes
	maxText     = 1 << 12 // of a name, a version, a requirement
	maxRequires = 1 << 12 // of one package
	maxPythons  = 1 << 6  // of one package
)

// maxOwned limits the bytes held of all RECORDs. An image with two CUDA frameworks has 2
// MB. It is a variable so that tests can lower it.
var maxOwned = 64 << 20

// maxTaken limits the bytes read of all files, because thousands of names may lead to one
// file. All of Anaconda has 60 MB. It is a variable so that tests can lower it.
var maxTaken = 512 << 20

// source is a kind of file that an installer writes.
type source struct {
	match func(name string) bool
	limit int64 // in bytes; a larger file is Unread
	read  func(inv *Inventory, name string, b []byte) error
}

// sources are tried in order, and the first that matches reads the file. Names have no
// leading slash.
var sources = []source{
	{isMetadata, 2 << 20, readMetadata},
	{hasSuffix(".dist-info/RECORD"), maxRecord, readRecord},
	{isInstaller, 4 << 10, readInstaller},
	{isTopLevel, 64 << 10, readTopLevel},
	{hasSuffix("pyvenv.cfg"), 64 << 10, readVenv},
	{hasSuffix("/torch/version.py"), 64 << 10, readTorch},
	{isTorchCompanion, 64 << 10, readTorchCompanion},
	{hasSuffix("/onnxruntime/capi/build_and_package_info.py"), 64 << 10, readONNXRuntime},
	{hasSuffix("/tensorflow/python/platform/build_info.py"), 64 << 10, readTensorFlow},
	{isCondaMeta, 16 << 20, readConda},
	{isHistory, 4 << 20, readHistory},
	{isActivation, 64 << 10, readActivation},
	{isDpkg, 16 << 20, readDpkg},
	{isExtendedStates, 4 << 20, readExtendedStates},
	{isAPK, 16 << 20, readAPK},
	{isWorld, 64 << 10, readWorld},
	{isRPM, maxRPM, readRPM},
	{isOSRelease, 64 << 10, readOSRelease},
	{isToolkitVersion, 64 << 10, readToolkit},
	{isCUDNNHeader, 64 << 10, readCUDNNHeader},
}

// WantsID names the version of Wants. Change it with every change of Wants, so that a
// cached index with other files is not used.
const WantsID = "inventory 11"

// Wants reports whether the bytes of a file are needed, by its path without a leading
// slash and its size in bytes.
func Wants(name string, size int64) bool {
	if isPython(name) || size <= maxStart && isStart(name) {
		return true
	}
	s := sourceOf(name)
	return s != nil && size <= s.limit
}

func sourceOf(name string) *source {
	if !mayTell(name) || isCopy(name) {
		return nil
	}
	for i := range sources {
		if sources[i].match(name) {
			return &sources[i]
		}
	}
	return nil
}

// mayTell rejects most files by the ends of their names. An image has hundreds of
// thousands, and each is checked twice.
func mayTell(name string) bool {
	switch base := name[strings.LastIndexByte(name, '/')+1:]; base {
	case "METADATA", "PKG-INFO", "RECORD", "pyvenv.cfg", "version.py", "build_and_package_info.py", "build_info.py", "status", "installed", "version.txt",
		"INSTALLER", "top_level.txt", "history", "extended_states", "world", "rpmdb.sqlite", "Packages.db", "Packages", "os-release":
		return true
	default:
		return strings.HasSuffix(base, ".json") || strings.HasSuffix(base, ".sh") || strings.HasSuffix(base, ".h") && strings.HasPrefix(base, "cudnn_version") ||
			strings.HasPrefix(name, "var/lib/dpkg/status.d/")
	}
}

// isCopy reports whether a file is in an installer's cache, or in a package's copies of
// other packages. Nothing there is installed.
func isCopy(name string) bool {
	return strings.Contains(name, "/_vendor/") || isUnpacked(name)
}

// isUnpacked reports whether a file is in an installer's cache. Nothing there is imported,
// except from the virtual environments that Poetry and uv make below ~/.cache.
func isUnpacked(name string) bool {
	if _, below, ok := strings.Cut(name, ".cache/"); ok {
		return !cachedEnvironment.MatchString(below)
	}
	return strings.Contains(name, "/pkgs/") && condaCache.MatchString(name)
}

// cachedEnvironment matches files of virtual environments below a cache: Poetry's
// pypoetry/virtualenvs/NAME, Hatch's hatch/env, uv's uv/environments-v2/NAME and pre-commit's.
// uv's builds-v0 are left of builds.
var cachedEnvironment = regexp.MustCompile(`^(pypoetry/virtualenvs|hatch/env|uv/environments-v\d+|pre-commit)/.*/lib(64)?/python\d[^/]*/site-packages/`)

// condaCache matches conda's directory of unpacked packages, NAME-VERSION-BUILD.
var condaCache = regexp.MustCompile(`/pkgs/[^/]+-[^/-]+-[^/-]+/`)

func hasSuffix(suffix string) func(string) bool {
	return func(name string) bool { return strings.HasSuffix(name, suffix) }
}

// Read reads a whole file system. It fails only if the directories cannot be listed; a
// file that cannot be read or parsed is Unread.
func Read(fsys fs.FS) (*Inventory, error) {
	inv := new(Inventory)
	records := map[string]bool{} // read one at a time, after the packages are known
	err := walk(fsys, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == "." {
				return err
			}
			inv.unread(name, reason(err))
			return nil
		}
		if d.IsDir() {
			inv.toolkitDir(name)
			return nil
		}
		inv.libraryFile(name, d)
		inv.noteRequested(name)
		if isRPMLog(name) {
			if st, err := d.Info(); err != nil || st.Size() > 0 {
				inv.unread(name, "it may change the list of rpm packages, and cannot be read")
			}
			return nil
		}
		s := sourceOf(name)
		if s == nil || !isFile(fsys, name, d) {
			return nil
		}
		if strings.HasSuffix(name, "/RECORD") {
			records[name] = true
			return nil
		}
		b, err := inv.take(fsys, name, s.limit)
		if err != nil {
			inv.unread(name, reason(err))
		} else if err := s.read(inv, name, b); err != nil {
			inv.unread(name, err.Error())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing what is installed: %w", err)
	}
	inv.sort()
	inv.ask()
	for _, p := range inv.Packages {
		record := path.Join(path.Dir(p.Path), "RECORD")[1:]
		if p.Kind == Wheel && records[record] {
			inv.own(fsys, p, record)
			delete(records, record)
		}
	}
	for _, record := range slices.Sorted(maps.Keys(records)) { // without a package; they are Unread if they cannot be read
		if _, err := inv.take(fsys, record, maxRecord); err != nil {
			inv.unread(record, reason(err))
		}
	}
	inv.findPythons(fsys)
	inv.sort()
	return inv, nil
}

// walk visits a whole file system. A file system's own Walk takes a fifth of the time
// that opening each directory takes.
func walk(fsys fs.FS, f fs.WalkDirFunc) error {
	if w, ok := fsys.(interface{ Walk(fs.WalkDirFunc) error }); ok {
		return w.Walk(f)
	}
	return fs.WalkDir(fsys, ".", f)
}

// isFile reports whether a name leads to a regular file. Installers may link from
// site-packages into their cache (uv's --link-mode symlink).
func isFile(fsys fs.FS, name string, d fs.DirEntry) bool {
	if d.Type()&fs.ModeSymlink == 0 {
		return d.Type().IsRegular()
	}
	st, err := fs.Stat(fsys, name)
	return err == nil && st.Mode().IsRegular()
}

// take reads a file of at most limit bytes, and counts them towards maxTaken.
func (inv *Inventory) take(fsys fs.FS, name string, limit int64) ([]byte, error) {
	if inv.taken > maxTaken {
		return nil, fmt.Errorf("it was skipped: the records of what is installed have more than %d MiB", maxTaken>>20)
	}
	b, err := readBounded(fsys, name, limit)
	inv.taken += len(b)
	return b, err
}

// readBounded reads a file of at most limit bytes.
func readBounded(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int64(0)
	if st, err := f.Stat(); err == nil {
		if size = st.Size(); size > limit {
			return nil, fmt.Errorf("it has %d bytes, more than the limit for such files", size)
		}
	}
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, errors.New("it has more bytes than the limit for such files")
	}
	return b.Bytes(), nil
}

// reason returns the text of an error without its path.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return err.Error()
}

// unread adds a file that could not be read. The last entry says that there are more.
func (inv *Inventory) unread(name, why string) {
	switch n := len(inv.Unread); {
	case n == maxUnread-1:
		why += "; and more files than are listed could not be read"
		fallthrough
	case n < maxUnread:
		inv.Unread = append(inv.Unread, Unread{"/" + name, why})
	}
}

// add adds a package, or returns an error that says what is wrong with it.
func (inv *Inventory) add(p *Package) error {
	switch {
	case p.Name == "" || p.Version == "":
		return errors.New("it does not name a package and a version")
	case len(p.Name) > maxText || len(p.Version) > maxText:
		return errors.New("its package's name or version is too long")
	case len(inv.Packages) >= maxPackages:
		return fmt.Errorf("there are more than %d packages", maxPackages)
	}
	inv.Packages = append(inv.Packages, p)
	return nil
}

// sort orders the inventory by its content alone.
func (inv *Inventory) sort() {
	slices.SortFunc(inv.Packages, func(a, b *Package) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Dir, b.Dir), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Path, b.Path))
	})
	slices.SortFunc(inv.Pythons, func(a, b *Python) int { return cmp.Compare(a.Prefix, b.Prefix) })
	slices.SortFunc(inv.Builds, func(a, b *Build) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(inv.Components, func(a, b *Component) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path), cmp.Compare(a.From, b.From), cmp.Compare(a.Version, b.Version))
	})
	slices.SortFunc(inv.Activations, func(a, b *Activation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(inv.Unread, func(a, b Unread) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Why, b.Why)) })
}

// Find returns the packages of a kind and name in all directories.
func (inv *Inventory) Find(kind Kind, name string) []*Package {
	var list []*Package
	for _, p := range inv.Packages {
		if p.Kind == kind && p.Name == name {
			list = append(list, p)
		}
	}
	return list
}

// lines yields the lines of a text without their ends. It cuts lines that are longer than
// maxLine.
func lines(b []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(string(b)) {
			line = strings.TrimRight(line, "\r\n")
			if len(line) > maxLine {
				line = line[:maxLine]
			}
			if !yield(line) {
				return
			}
		}
	}
}
