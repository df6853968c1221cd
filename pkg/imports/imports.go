// Package imports shows the Python programs of an image that were followed through their
// source ([replay.Start]): as a tree for people, as JSON for scripts.
//
// It knows the tree of pkg/pyimport. It does not know how a program is followed, nor
// whether a failure matters for the image: that is for pkg/replay and pkg/lint.
package imports

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Options select the parts of a tree.
type Options struct {
	// All draws every import. Without it the tree has those that lead to an extension
	// module or a library outside of Python's own directories, to a failure, or to
	// something that could not be followed.
	All bool
	// Color allows escape sequences.
	Color bool
}

// Line is a program in JSON.
type Line struct {
	Chain   []string `json:"chain"`
	Python  string   `json:"python"`
	Package string   `json:"package,omitempty"`
	// Outcome is "ok", "fails", or "unknown" where the failure is not certain.
	Outcome string            `json:"outcome"`
	Error   *pyimport.Failure `json:"error,omitempty"`
	// Mapped are the real paths of the ELF files that the process has mapped at the end.
	Mapped []string       `json:"mapped"`
	Tree   *pyimport.Node `json:"tree"`
}

// JSON writes a line for each program.
func JSON(w io.Writer, starts []*replay.Start) error {
	for _, s := range starts {
		l := Line{Chain: s.Chain, Python: s.Python, Package: s.Package, Outcome: outcome(s.Tree), Error: s.Tree.Failed, Mapped: s.Mapped, Tree: s.Tree}
		if err := plain.JSON(w, l, ""); err != nil {
			return err
		}
	}
	return nil
}

// outcome returns whether the program of a tree ends with an exception.
func outcome(n *pyimport.Node) string {
	switch {
	case n.Failed == nil:
		return "ok"
	case n.Failed.Doubt != "":
		return "unknown"
	}
	return "fails"
}

// Tree draws the programs, each with its imports and opens in their order.
func Tree(w io.Writer, starts []*replay.Start, o Options) error {
	t := &tree{w: bufio.NewWriter(plain.NewWriter(w, o.Color)), o: o}
	for i, s := range starts {
		if i > 0 {
			fmt.Fprintln(t.w)
		}
		t.start(s)
	}
	return t.w.Flush()
}

type tree struct {
	w      *bufio.Writer
	o      Options
	hidden int // imports that were left out of the program's tree
}

// start draws one program, and counts its nodes in a line below.
func (t *tree) start(s *replay.Start) {
	t.hidden = 0
	fmt.Fprintln(t.w, t.paint("1", plain.Text(strings.Join(s.Chain, " → "))))
	t.children(s.Tree, "")
	t.unknown(s.Tree, "")
	c := counted(s.Tree)
	fmt.Fprintf(t.w, "%s, %s", number(c.modules, "module", "modules"), number(c.native, "extension module or library", "extension modules and libraries"))
	if c.maybe > 0 {
		fmt.Fprintf(t.w, ", %d of them only perhaps", c.maybe)
	}
	if c.unknown > 0 {
		fmt.Fprintf(t.w, "; %s could not be followed", number(c.unknown, "place", "places"))
	}
	if t.hidden > 0 {
		fmt.Fprintf(t.w, "; %d imports that lead to none are left out (--all shows them)", t.hidden)
	}
	fmt.Fprintln(t.w)
	if f := s.Tree.Failed; f != nil {
		t.failed(f, "")
	}
}

// children draws the nodes below a node.
func (t *tree) children(n *pyimport.Node, indent string) {
	var shown []*pyimport.Node
	for _, c := range n.Nodes {
		if t.o.All || worth(c) {
			shown = append(shown, c)
		} else {
			t.hidden += counted(c).modules + counted(c).native
		}
	}
	for i, c := range shown {
		branch, below := "├─ ", "│  "
		if i == len(shown)-1 {
			branch, below = "└─ ", "   "
		}
		t.node(c, n, indent+branch)
		t.children(c, indent+below)
		t.unknown(c, indent+below)
		if f := c.Failed; f != nil && !raisedBelow(c) {
			t.failed(f, indent+below)
		}
	}
}

// node draws the line of a node, without marks that the node above has as well.
func (t *tree) node(n, above *pyimport.Node, indent string) {
	fmt.Fprintf(t.w, "%s%s", indent, plain.Text(name(n)))
	if n.At != "" {
		fmt.Fprint(t.w, t.paint("2", "  "+plain.Text(short(n.At))))
	}
	if n.Caught != "" && n.Caught != above.Caught {
		fmt.Fprint(t.w, t.paint("36", "  except "+plain.Text(n.Caught)))
	}
	if n.Maybe != "" && n.Maybe != above.Maybe {
		fmt.Fprint(t.w, t.paint("33", "  perhaps: "+plain.Text(n.Maybe)))
	}
	fmt.Fprintln(t.w)
}

// name returns a node as its statement: "import a.b", "ctypes.CDLL libx.so".
func name(n *pyimport.Node) string {
	switch n.Kind {
	case pyimport.Library:
		return strings.TrimSpace(n.By + " " + n.Name)
	case pyimport.Extension:
		return "import " + n.Name + " → " + path.Base(n.File)
	case pyimport.Plugin:
		return "entry point " + n.Name
	}
	return "import " + n.Name
}

// short returns a position with the last two elements of its path.
func short(at string) string {
	dir, file := path.Split(at)
	if parent := path.Base(path.Clean(dir)); parent != "/" && parent != "." {
		return parent + "/" + file
	}
	return file
}

// fewUnknown limits the places of a module that could not be followed in a short tree.
const fewUnknown = 3

// unknown draws the statements of a node that could not be followed.
func (t *tree) unknown(n *pyimport.Node, indent string) {
	shown := n.Unknown
	if !t.o.All && len(shown) > fewUnknown+1 {
		shown = shown[:fewUnknown]
	}
	for _, u := range shown {
		fmt.Fprintln(t.w, indent+t.paint("33", "not known: "+plain.Text(u)))
	}
	if more := len(n.Unknown) - len(shown); more > 0 {
		fmt.Fprintln(t.w, indent+t.paint("33", fmt.Sprintf("not known: %d more places of this file", more)))
	}
}

// failed draws an exception.
func (t *tree) failed(f *pyimport.Failure, indent string) {
	text := f.Type + ": " + f.Text
	if f.Doubt != "" {
		text += " (perhaps: " + f.Doubt + ")"
	}
	fmt.Fprintln(t.w, indent+t.paint("31", plain.Text(text)))
}

func (t *tree) paint(code, text string) string {
	if !t.o.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// raisedBelow reports whether a node below has raised the exception of a node.
func raisedBelow(n *pyimport.Node) bool {
	return slices.ContainsFunc(n.Nodes, func(c *pyimport.Node) bool { return c.Failed == n.Failed })
}

// worth reports whether a node leads to something that a short tree shows.
func worth(n *pyimport.Node) bool {
	native := n.Kind == pyimport.Extension || n.Kind == pyimport.Library
	if native && !strings.Contains(n.File, "/lib-dynload/") || n.Failed != nil && n.Kind != pyimport.Module {
		return true
	}
	return n.Failed != nil && n.Caught == "" || slices.ContainsFunc(n.Nodes, worth)
}

// counts are the numbers of the nodes of a tree, without its root.
type counts struct{ modules, native, maybe, unknown int }

func counted(n *pyimport.Node) counts {
	var c counts
	switch n.Kind {
	case pyimport.Extension, pyimport.Library:
		c.native++
	case pyimport.Module, pyimport.Plugin:
		c.modules++
	}
	if n.Maybe != "" {
		c.maybe++
	}
	for _, below := range n.Nodes {
		b := counted(below)
		c.modules, c.native, c.maybe, c.unknown = c.modules+b.modules, c.native+b.native, c.maybe+b.maybe, c.unknown+b.unknown
	}
	c.unknown += len(n.Unknown)
	return c
}

// number returns a number with the word for one or for several.
func number(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
