package imports

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
)

// Outcome is the end of an import.
type Outcome string

// The outcomes of imports.
const (
	OK       Outcome = "ok"
	Failed   Outcome = "error"    // an exception
	Exit     Outcome = "exit"     // the process ended by itself
	Signal   Outcome = "signal"   // the process was killed by a signal
	Timeout  Outcome = "timeout"  // not known
	Excluded Outcome = "excluded" // not tried
)

// Record is the real result of an import: a line of record.py.
type Record struct {
	Module  string
	Outcome Outcome
	Type    string // of the exception, without its module
	Text    string // str() of the exception
	Frames  [][2]any
	Mapped  []string // real paths of ELF files, in the order in which the loader mapped them
	Modules []string // sys.modules, in its order
	Origins map[string]string
	// Edges, if they were recorded, are the modules in the order in which they were looked
	// for, and who imports each: FILE:LINE, or "EXT NAME" for the C code of an extension
	// module.
	Edges [][2]string
}

// readRecords reads the lines of record.py. base is the one of "sys": what each process has
// mapped and imported before it begins.
func readRecords(r io.Reader) (list []*Record, base *Record, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var rec Record
		if err := json.Unmarshal(in.Bytes(), &rec); err != nil {
			return nil, nil, err
		}
		if rec.Module == "sys" {
			base = &rec
			continue
		}
		list = append(list, &rec)
	}
	return list, base, in.Err()
}

// looked reports whether an import has looked for a module that is in sys.modules: programs
// also put there what no finder has found.
func (r *Record) looked(module string) bool {
	if len(r.Edges) == 0 {
		o := r.Origins[module]
		return o != "" && o != "frozen" && o != "built-in" // such may be other names, as collections.abc
	}
	return slices.ContainsFunc(r.Edges, func(e [2]string) bool { return e[0] == module })
}

// without returns the items of list that are not in other.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
