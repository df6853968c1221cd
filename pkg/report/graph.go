package report

import (
	"fmt"
	"path"
	"slices"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Limits of the graph of a page: nodes in all, those below one node, and the characters of one.
// One node counts those beyond them.
const (
	graphNodes    = 120
	graphChildren = 8
	graphName     = 48
)

// Sizes of the graph in pixels. graphChar is the width of a character, rounded up.
const (
	graphChar   = 8
	graphRow    = 38
	graphHeight = 28 // of a box; the template has it as well
	graphGap    = 56 // between columns
)

// graph has the processes of an image on the left, and on their right the files that they load, down
// to libraries that are missing.
type graph struct {
	Label         string
	Width, Height int
	Nodes         []*graphNode
	Edges         []graphEdge
	Lines         []string // the same as text
}

type graphNode struct {
	Class, Text, Full string
	X, Y, W, TX, TY   int
	below             []*graphNode
	depth             int
	placed            bool
	effect            bool // in the place of a process that nothing names
}

type graphEdge struct {
	D       string // of an SVG path
	Missing bool
}

// Classes of nodes.
const (
	isProcess = "process"
	isFile    = "file"
	isMissing = "missing"
	isMore    = "more"
)

// grower collects the nodes of a graph.
type grower struct {
	nodes map[string]*graphNode
	roots []*graphNode
}

// node returns the node with a key; it makes one if there is none.
func (g *grower) node(class, name string) *graphNode {
	key := class + "\x00" + name
	n := g.nodes[key]
	if n == nil {
		text := name
		if class == isFile || path.IsAbs(name) {
			text = path.Base(name)
		}
		sign := map[string]string{isProcess: "▶ ", isFile: "✓ ", isMissing: "✗ "}[class]
		n = &graphNode{Class: class, Text: sign + middle(clean(text), graphName), Full: clean(name)}
		if class == isMissing {
			n.Text += " is missing"
			n.Full += ", which is missing"
		}
		g.nodes[key] = n
	}
	return n
}

// middle returns a text in at most so many characters: it keeps the beginning and the end.
func middle(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most/2-1]) + "…" + string(r[len(r)-most/2:])
}

// load records that one node loads another, or misses it.
func (g *grower) load(from, to *graphNode) {
	if from == to || slices.Contains(from.below, to) {
		return
	}
	from.below = append(from.below, to)
}

func (g *grower) root(n *graphNode) *graphNode {
	if !slices.Contains(g.roots, n) {
		g.roots = append(g.roots, n)
	}
	return n
}

// graphOf returns the graph of a document; nil if no process is known and nothing is missing.
func graphOf(d *Document) *graph {
	g := &grower{nodes: map[string]*graphNode{}}
	for i := range d.Problems { // first, so that folding keeps them
		g.problem(d, &d.Problems[i])
	}
	for _, c := range d.Copies {
		for _, f := range c.Files {
			for _, u := range f.UsedBy {
				from := g.root(g.node(isProcess, u.Process))
				to := g.node(isFile, f.Path)
				if by := g.nodes[isFile+"\x00"+u.By]; by != nil {
					g.load(by, to)
				} else {
					g.load(from, to)
				}
			}
		}
	}
	if len(g.roots) == 0 {
		return nil
	}
	return g.layOut()
}

// problem adds what a problem's findings miss, and the way to it.
func (g *grower) problem(d *Document, p *Problem) {
	for _, i := range p.Findings {
		f := &d.Findings[i]
		if f.Kind != packs.Missing || f.Library == "" {
			continue
		}
		lost := g.node(isMissing, f.Library)
		for k, n := range f.NeededBy {
			if k == graphChildren {
				break
			}
			by := g.needer(d, p, f, n.Path)
			g.load(by, lost)
		}
	}
}

// needer returns the node of a file that misses a library, below the processes that load it, or
// below the effect if none is known to.
func (g *grower) needer(d *Document, p *Problem, f *lint.Finding, name string) *graphNode {
	for _, proc := range d.Processes {
		if proc.Program == name {
			return g.root(g.node(isProcess, proc.Title))
		}
	}
	by := g.node(isFile, name)
	found := false
	for _, proc := range d.Processes {
		if _, ok := slices.BinarySearch(proc.Mapped, name); ok {
			found = true
			g.load(g.root(g.node(isProcess, proc.Title)), by)
		}
	}
	if !found {
		text := p.Headline
		if e := mainEffect(f); e != nil {
			text, _ = cutWay(e.Text)
		}
		effect := g.root(g.node(isProcess, text))
		effect.effect, effect.Text = true, "! "+shorten(clean(text), graphName)
		g.load(effect, by)
	}
	return by
}

// layOut gives each node its column, by the shortest way from a root, and its row, and folds what
// exceeds the limits.
func (g *grower) layOut() *graph {
	out := &graph{}
	var columns [][]*graphNode
	place := func(n *graphNode, depth int) {
		for len(columns) <= depth {
			columns = append(columns, nil)
		}
		n.placed, n.depth = true, depth
		columns[depth] = append(columns[depth], n)
		out.Nodes = append(out.Nodes, n)
	}
	queue := g.fold(g.roots)
	for _, n := range queue {
		place(n, 0)
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		n.below = g.fold(n.below)
		for _, b := range n.below {
			if !b.placed && len(out.Nodes) < graphNodes {
				place(b, n.depth+1)
				queue = append(queue, b)
			}
		}
	}
	x, rows := 10, 0
	for _, column := range columns {
		wide := 0
		for i, n := range column {
			n.X, n.Y, n.W = x, 10+i*graphRow, utf8.RuneCountInString(n.Text)*graphChar+20
			n.TX, n.TY = n.X+10, n.Y+19
			wide = max(wide, n.W)
		}
		x, rows = x+wide+graphGap, max(rows, len(column))
	}
	out.Width, out.Height = x-graphGap+10, 10+rows*graphRow
	missing := 0
	for _, n := range out.Nodes {
		if n.Class == isMissing {
			missing++
		}
		for _, b := range n.below {
			if !b.placed {
				continue
			}
			x1, y1, x2, y2 := n.X+n.W, n.Y+graphHeight/2, b.X, b.Y+graphHeight/2
			bend := graphGap / 2
			out.Edges = append(out.Edges, graphEdge{fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1+bend, y1, x2-bend, y2, x2, y2), b.Class == isMissing})
			verb := " loads "
			switch {
			case b.Class == isMissing:
				verb = " needs "
			case n.effect:
				verb = ": without "
			}
			out.Lines = append(out.Lines, n.Full+verb+b.Full)
		}
	}
	out.Label = fmt.Sprintf("who loads whom: %s, %d missing; the same follows as text", plural(len(out.Nodes), "node"), missing)
	return out
}

// fold returns the first nodes of a list, those on a way to a missing one before the others, and
// one that counts the rest.
func (g *grower) fold(list []*graphNode) []*graphNode {
	if len(list) <= graphChildren {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *graphNode) int { return weightOf(a) - weightOf(b) })
	rest := len(list) - graphChildren
	more := &graphNode{Class: isMore, Text: fmt.Sprintf("… %s more", count(rest)), Full: count(rest) + " more"}
	return append(list[:graphChildren], more)
}

// weightOf orders nodes: missing ones, those that lead to one, others.
func weightOf(n *graphNode) int {
	switch {
	case n.Class == isMissing:
		return 0
	case slices.ContainsFunc(n.below, func(b *graphNode) bool {
		return b.Class == isMissing || slices.ContainsFunc(b.below, func(c *graphNode) bool { return c.Class == isMissing })
	}):
		return 1
	}
	return 2
}
