package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/size"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// shownUsers limits the processes shown for a file without All.
const shownUsers = 3

// copies shows which file each process gets, for the libraries that the image has more
// than once and that a process uses; with All for every GPU library.
func (t *text) copies(list []lint.Copies) {
	first := true
	for _, c := range list {
		used := slices.ContainsFunc(c.Files, func(f lint.Copy) bool { return len(f.UsedBy) > 0 })
		if !t.all && (len(c.Files) < 2 || !used) {
			continue
		}
		if first {
			t.line("%s", t.bold("which copy wins"))
			first = false
		}
		t.line("  %s", clean(c.Library))
		for i := range c.Files {
			t.copy(&c.Files[i])
		}
	}
	if !first {
		t.line("")
	}
}

func (t *text) copy(f *lint.Copy) {
	about := []string{size.Text(f.Size)}
	if f.Version != "" {
		about = append([]string{clean(f.Version)}, about...)
	}
	if f.Layer != nil {
		about = append(about, fmt.Sprintf("layer %d", f.Layer.Index))
	}
	t.line("    %s  %s", clean(f.Path), t.faint(strings.Join(about, ", ")))
	for i, u := range f.UsedBy {
		if i == shownUsers && !t.all {
			t.line("      %s", t.faint(fmt.Sprintf("… and %s more", count(len(f.UsedBy)-i))))
			break
		}
		t.line("      %s %s  %s", t.green("→"), clean(u.Process), t.faint("("+clean(u.How)+")"))
	}
}
