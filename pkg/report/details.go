package report

import (
	"fmt"
	"io"
)

// Details writes all that is known about a problem, by its number from 1, or about every
// problem if number is 0: the search, all files, other copies. It returns an error if there is
// no such problem.
func Details(w io.Writer, d *Document, number int, o Options) error {
	if number < 0 || number > len(d.Problems) || number == 0 && len(d.Problems) == 0 {
		return fmt.Errorf("%s has %s", d.Image.Ref, plural(len(d.Problems), "problem"))
	}
	o.All = true
	t := newText(w, o)
	for i := range d.Problems {
		if number != 0 && number != i+1 {
			continue
		}
		for _, k := range d.Problems[i].Findings {
			t.finding(&d.Findings[k])
		}
	}
	return t.w.Flush()
}
