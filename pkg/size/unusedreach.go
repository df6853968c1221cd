package size

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// This file decides which distributions of Python are reached, by what texts lead to.

// found says in which texts a needle is, by [part] or ownText.
type found map[needle]map[int]bool

// readNeedles looks for the needles on which it hangs whether a distribution is reached.
func (p *packages) readNeedles(ctx context.Context) (found, error) {
	reached := p.reach(nil)
	hits := found{}
	byWord := map[string][]needle{}
	var groups []needle
	for i, one := range p.parts {
		for _, g := range one.groups {
			n := needle{"group", "", g}
			p.may = append(p.may, condition{ownText, i, n})
			if hits[n] == nil {
				groups, hits[n] = append(groups, n), map[int]bool{}
			}
		}
	}
	for _, c := range p.may {
		if w := strings.ToLower(c.needle.text); !reached[c.to] && hits[c.needle] == nil {
			byWord[w], hits[c.needle] = append(byWord[w], c.needle), map[int]bool{}
		}
	}
	if len(hits) == 0 {
		return hits, nil
	}
	return hits, p.f.readAll(ctx, p.isText, func(e *layers.Entry, r io.Reader) error {
		from := p.ownerOf(e.Path)
		if from < 0 && packs.MatchAny(asks, e.Path) {
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(r, maxPartText))
		if err != nil {
			return err
		}
		for _, n := range groups {
			if bytes.Contains(text, []byte(n.text)) && path.Base(e.Path) != "entry_points.txt" {
				hits[n][from] = true
			}
		}
		if from >= 0 && path.Ext(e.Path) == ".py" {
			any := computedName.Match(text)
			_ = eachWord(bytes.NewReader(text), func(w []byte) { any = any || byWord[string(w)] != nil })
			if !any {
				return nil
			}
			usesIn(e.Path, text, byWord, func(n needle) { hits[n][from] = true })
			return nil
		}
		return eachWord(io.MultiReader(bytes.NewReader(text), r), func(w []byte) {
			for _, n := range byWord[string(w)] {
				hits[n][from] = true
			}
		})
	})
}

// usesIn calls hit with the needles that a source uses: functions that it names outside of them, and variables that it uses
// other than for comparisons.
func usesIn(file string, text []byte, byWord map[string][]needle, hit func(n needle)) {
	byText, computed := hasAnyOf(text, importers), computedName.Match(text)
	walkSource(text, func(s *statement, under string) {
		t := s.tokens
		if t[0].text == "__all__" {
			return
		}
		if computed && slices.ContainsFunc(t, func(x token) bool { return x.kind == 'n' && x.text == "import" }) {
			for _, list := range byWord { // it may find a function of a module that it imports by a computed name
				for _, n := range list {
					if n.kind == "function" && slices.ContainsFunc(t, func(x token) bool { return x.text == moduleOf(n.file) }) {
						hit(n)
					}
				}
			}
		}
		for i, x := range t {
			if x.kind == 's' {
				if byWord[strings.ToLower(x.text)] == nil && strings.ContainsAny(x.text, " \n") {
					continue // a message
				}
				for w := range wordsOf(x.text) {
					for _, n := range byWord[w] {
						hit(n)
					}
				}
				continue
			}
			for _, n := range byWord[strings.ToLower(x.text)] {
				switch {
				case n.text != x.text:
				case n.kind == "list":
					if n.file == file && i == 0 && len(t) > 1 && (t[1].kind == '=' || t[1].kind == ':') || !byText && isTested(t, i) {
						continue
					}
					hit(n)
				case n.file != file || under != n.text && !(i > 0 && (t[i-1].text == "def" || t[i-1].text == "class")):
					hit(n)
				}
			}
		}
	})
}

// computedName matches a read of an attribute whose name is computed.
var computedName = regexp.MustCompile(`\bgetattr\(\s*[\w.]+\s*,\s*(?:[^"'\s]|[fF]["']|["'][^"'\n]*["']\s*[+%.])`)

// moduleOf returns the name of the module that a file is, without its package.
func moduleOf(file string) string {
	if dir, base := path.Split(file); base == "__init__.py" {
		return path.Base(dir)
	}
	return strings.TrimSuffix(path.Base(file), ".py")
}

// isTested reports whether a variable is only what `in` searches: x in self.NAME.
func isTested(t []token, i int) bool {
	for i >= 2 && t[i-1].kind == '.' && t[i-2].kind == 'n' {
		i -= 2
	}
	return i > 0 && t[i-1].text == "in" && !slices.ContainsFunc(t, func(x token) bool { return x.text == "for" })
}

// reach returns the distributions that the image's own texts lead to, and those that stay. Without hits, no condition
// holds.
func (p *packages) reach(hits found, stay ...int) map[int]bool {
	reached := map[int]bool{ownText: true}
	next := []int{ownText}
	add := func(i int) {
		if !reached[i] {
			reached[i], next = true, append(next, i)
		}
	}
	for i, one := range p.parts {
		if one.stays {
			add(i)
		}
	}
	for _, i := range stay {
		add(i)
	}
	for len(next) > 0 {
		for len(next) > 0 {
			i := next[len(next)-1]
			next = next[:len(next)-1]
			for to := range p.leads[i] {
				add(to)
			}
			if i >= 0 {
				for _, to := range p.parts[i].requires {
					add(to)
				}
			}
		}
		for _, c := range p.may {
			if !reached[c.from] || reached[c.to] {
				continue
			}
			for in := range hits[c.needle] {
				if reached[in] && !(c.needle.kind == "group" && in == c.to) {
					add(c.to)
				}
			}
		}
	}
	return reached
}

// unused returns the distributions that are not reached, and their files.
func (p *packages) unused(hits found) (map[string]int, []Package) {
	var stay []int
	for {
		reached := p.reach(hits, stay...)
		required := map[int]bool{} // by another one that is not reached
		for i, one := range p.parts {
			for _, j := range one.requires {
				required[j] = required[j] || !reached[i]
			}
		}
		var roots []int
		for i := range p.parts {
			if !reached[i] && !required[i] {
				roots = append(roots, i)
			}
		}
		of := map[int]int{} // the root of each
		take := func(root int) {
			for next := []int{root}; len(next) > 0; {
				i := next[0]
				next = next[1:]
				if _, ok := of[i]; ok || reached[i] {
					continue
				}
				of[i] = root
				next = append(next, p.parts[i].requires...)
			}
		}
		for _, r := range roots {
			take(r)
		}
		for i := range p.parts { // those that require each other
			if _, ok := of[i]; !ok && !reached[i] {
				take(i)
			}
		}
		bytes := map[int]int64{}
		for i, r := range of {
			bytes[r] += p.parts[i].bytes
		}
		small := len(stay)
		for _, r := range slices.Sorted(maps.Keys(bytes)) {
			if bytes[r] < minUnused {
				stay = append(stay, r)
			}
		}
		if len(stay) == small {
			return p.claims(of, bytes)
		}
	}
}

// claims returns the files and distributions that go, by the root of each.
func (p *packages) claims(of map[int]int, bytes map[int]int64) (map[string]int, []Package) {
	files := map[string]int{}
	list := slices.Collect(maps.Keys(of))
	slices.SortFunc(list, func(a, b int) int {
		isRoot := func(i int) int {
			if of[i] == i {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(bytes[of[b]], bytes[of[a]]), cmp.Compare(p.parts[of[a]].pkg.Name, p.parts[of[b]].pkg.Name), cmp.Compare(isRoot(a), isRoot(b)), cmp.Compare(p.parts[b].bytes, p.parts[a].bytes), cmp.Compare(a, b))
	})
	var packages []Package
	for _, i := range list {
		one := p.parts[i]
		q := Package{Name: one.pkg.Name, Version: one.pkg.Version, Dir: one.pkg.Dir, Asked: one.asked}
		if of[i] != i {
			q.For = p.parts[of[i]].pkg.Name
		}
		byLayer := map[int]int64{}
		for j, e := range one.files {
			files[e.Path] = len(packages)
			if byLayer[one.layers[j]] += e.Size; byLayer[one.layers[j]] > byLayer[q.Layer] {
				q.Layer = one.layers[j]
			}
		}
		packages = append(packages, q)
	}
	return files, packages
}
