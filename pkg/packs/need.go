package packs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// Need is something other than a library that a feature of an installed distribution needs:
// a header, a program.
type Need struct {
	ID       string   `yaml:"id"`
	Dist     []string `yaml:"dist"`     // patterns of names as dist-info directories have them
	Versions string   `yaml:"versions"` // of the distribution; an unknown version has no need
	// Program are patterns of the name of a program that the image's start runs with one of
	// Options, if the need is not one of a distribution. Any is then of commands, on the PATH of the
	// program.
	Program []string `yaml:"program"`
	Options []string `yaml:"options"`
	// Present are patterns of files. If the image has none of them, there is no need; no
	// patterns: there always is.
	Present []string `yaml:"present"`
	// Any lists what meets the need, of which one is enough: patterns of files, absolute or
	// below a directory of sys.path; $NAME and what may follow it, if the image sets that
	// variable; command:NAME, a program on PATH; name:NAME, an ELF file anywhere; dist:NAME,
	// another distribution in the same directory; loader:NAME, a library that the loader
	// finds by its name; toolkit:NAME/PATTERN, a file below the CUDA toolkit in which the
	// loader finds a library by its name; gone:NAME,NAME, if the first of these variables
	// that is set is empty or names a directory that does not exist.
	Any      []string `yaml:"any"`
	Severity Severity `yaml:"severity"`
	Message  string   `yaml:"message"`
	Effect   string   `yaml:"effect"`
	Error    string   `yaml:"error"` // {site}: the directory of packages
	// Raises is the exception of an import that fails because of the need, as a traceback's last
	// line has it, or "": the finding of the need tells of such an import.
	Raises string   `yaml:"raises"`
	Fix    []string `yaml:"fix"`
	// Pip is the first fix as data, if it installs wheels, and Packages if it installs packages of
	// the distribution. {package} and {version} are those of the distribution that has the need.
	Pip      *Pip      `yaml:"pip"`
	Packages *Packages `yaml:"packages"`
	Sources  []string  `yaml:"sources"`
}

// Asks reports whether a distribution has the need.
func (n *Need) Asks(p *inventory.Package) bool {
	fits, known := ParseRelease(p.Version).Within(n.Versions)
	return fits && known && MatchAny(n.Dist, Normal(p.Name))
}

// AsksOf reports whether a program has the need, by its arguments, of which the first is its name.
func (n *Need) AsksOf(argv []string) bool {
	return len(n.Program) > 0 && len(argv) > 0 && MatchAny(n.Program, path.Base(argv[0])) &&
		slices.ContainsFunc(argv[1:], func(a string) bool { return slices.Contains(n.Options, a) })
}

func (n *Need) validate() error {
	if err := n.check(); err != nil {
		return fmt.Errorf("need %q: %w", n.ID, err)
	}
	return nil
}

func (n *Need) check() error {
	if len(n.Program) > 0 && (len(n.Dist)+len(n.Present) > 0 || len(n.Options) == 0 || slices.ContainsFunc(n.Any, func(a string) bool { return !strings.HasPrefix(a, "command:") })) {
		return errors.New("a program needs commands, for an option")
	}
	if n.ID == "" || len(n.Dist)+len(n.Program) == 0 || len(n.Any) == 0 || n.Message == "" || n.Effect == "" || len(n.Sources) == 0 {
		return errors.New("needs an id, dist, any, a message, an effect and sources")
	}
	if n.Severity != "" && !n.Severity.known() {
		return fmt.Errorf("severity is %q, not error, warning or note", n.Severity)
	}
	if err := version.CheckRange(n.Versions); err != nil {
		return err
	}
	return checkPatterns("files", slices.Concat(n.Dist, n.Program, n.Present, n.Any))
}
