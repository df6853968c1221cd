package layers

import (
	"hash/maphash"
	"slices"
	"strings"
)

// table maps paths to nodes. A node takes 24 bytes; in a Go map it takes three times as
// many.
type table struct {
	nodes []node // sorted by sort
	slots []uint32
}

var pathSeed = maphash.MakeSeed()

// slot returns the index in slots of a path, whether it is there or not.
func (x *table) slot(p string) int {
	mask := len(x.slots) - 1
	i := int(maphash.String(pathSeed, p)) & mask
	for x.slots[i] != 0 && x.nodes[x.slots[i]-1].Path != p {
		i = (i + 1) & mask
	}
	return i
}

func (x *table) get(p string) (node, bool) {
	if len(x.slots) == 0 {
		return node{}, false
	}
	if i := x.slots[x.slot(p)]; i != 0 {
		return x.nodes[i-1], true
	}
	return node{}, false
}

// set puts a node at its path.
func (x *table) set(n node) {
	if 2*len(x.nodes) >= len(x.slots) {
		x.rehash(4 * max(16, len(x.nodes)))
	}
	i := x.slot(n.Path)
	if at := x.slots[i]; at != 0 {
		x.nodes[at-1] = n
		return
	}
	x.nodes = append(x.nodes, n)
	x.slots[i] = uint32(len(x.nodes))
}

// grow makes room for n more nodes.
func (x *table) grow(n int) {
	x.nodes = slices.Grow(x.nodes, n)
	x.rehash(2 * n)
}

// rehash makes at least so many slots, and fills them.
func (x *table) rehash(least int) {
	size := 16
	for size < least {
		size *= 2
	}
	x.slots = make([]uint32, size)
	for i, n := range x.nodes {
		x.slots[x.slot(n.Path)] = uint32(i + 1)
	}
}

// sort sorts the nodes, after the last was set.
func (x *table) sort() {
	x.nodes = slices.Clip(x.nodes)
	slices.SortFunc(x.nodes, func(a, b node) int { return strings.Compare(a.Path, b.Path) })
	x.rehash(len(x.nodes) + len(x.nodes)/4)
}

// cursor iterates over a file system in the order of the paths.
type cursor struct {
	below, over []node // still to come
}

// from returns a cursor before the first path that is not less than p.
func (f *FS) from(p string) cursor {
	c := cursor{f.below.nodes, f.over.nodes}
	c.skip(p)
	return c
}

// skip moves to the first path that is not less than p.
func (c *cursor) skip(p string) {
	for _, list := range []*[]node{&c.below, &c.over} {
		i, _ := slices.BinarySearchFunc(*list, p, func(n node, p string) int { return strings.Compare(n.Path, p) })
		*list = (*list)[i:]
	}
}

// next returns the next node; false at the end.
func (c *cursor) next() (node, bool) {
	for {
		var n node
		switch {
		case len(c.over) == 0 && len(c.below) == 0:
			return node{}, false
		case len(c.over) == 0 || len(c.below) > 0 && c.below[0].Path < c.over[0].Path:
			n, c.below = c.below[0], c.below[1:]
			return n, true
		case len(c.below) > 0 && c.below[0].Path == c.over[0].Path:
			c.below = c.below[1:]
		}
		if n, c.over = c.over[0], c.over[1:]; n.layer != gone {
			return n, true
		}
	}
}
