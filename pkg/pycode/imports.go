package pycode

import (
	"slices"
	"strings"
)

// instruction is one instruction of a code object.
type instruction struct {
	at   int // offset in bytes
	next int
	op   op
	code byte
	arg  int
}

// region is a part of the code that a try covers.
type region struct {
	begin, end, handler int
}

// maxImports limits the imports of a module.
const maxImports = 4096

// imports returns the import statements at the top of a module, in the order of the code.
func (c *code) imports(v *version) []statement {
	list := c.instructions(v)
	regions := c.regions(v, list)
	maybe := conditional(v, list, regions)
	var out []statement
	for i, in := range list {
		if in.op != importName || len(out) == maxImports {
			continue
		}
		s, ok := c.statement(list, i)
		if !ok {
			continue
		}
		s.line, s.maybe, s.try = c.lineOf(v, in.at), maybe(in.at), -1
		for n, r := range regions {
			if in.at < r.begin || in.at >= r.end {
				continue
			}
			if s.catch = c.handler(v, list, r.handler); s.catch != "" {
				s.try = n // the innermost that catches comes last
			}
		}
		if s.try >= 0 {
			s.catch = c.handler(v, list, regions[s.try].handler)
		}
		out = append(out, s)
	}
	return out
}

// instructions splits the code.
func (c *code) instructions(v *version) []instruction {
	var list []instruction
	arg := 0
	for at := 0; at+1 < len(c.text); at += 2 {
		in := instruction{at: at, next: at + 2, code: c.text[at], op: v.ops[c.text[at]], arg: arg<<8 | int(c.text[at+1])}
		arg = 0
		if in.op == extendedArg {
			arg = in.arg & 0xffffff
			continue
		}
		list = append(list, in)
	}
	return list
}

// target returns the offset to which an instruction jumps, or 0.
func (in instruction) target(v *version) int {
	unit := 1
	if v.minor >= 10 {
		unit = 2
	}
	switch in.op {
	case relative, setupTry, setupWith:
		return in.next + in.arg*unit
	case absolute:
		return in.arg * unit
	}
	return 0
}

// conditional returns whether an instruction may be left out: a jump leads over it, or it
// stands behind the end of the module, where compilers put handlers and other branches.
func conditional(v *version, list []instruction, regions []region) func(at int) bool {
	var spans []region
	var raises []int
	left := 1 << 30
	for _, in := range list {
		switch in.op {
		case relative, absolute, match:
			t := in.target(v)
			if in.op == match && v.minor < 11 {
				t = instruction{op: absolute, arg: in.arg}.target(v)
			}
			if t > in.next {
				spans = append(spans, region{begin: in.next, end: t + 2}) // 3.13 has two bytes more behind jumps
			}
		case leave:
			left = min(left, in.at)
		case raise:
			if !slices.ContainsFunc(regions, func(r region) bool { return r.begin <= in.at && in.at < r.end }) {
				raises = append(raises, in.at)
			}
		}
	}
	slices.SortFunc(spans, func(a, b region) int { return a.begin - b.begin })
	ends := make([]int, len(spans)) // the last end of the spans up to here
	for i, s := range spans {
		ends[i] = s.end
		if i > 0 {
			ends[i] = max(ends[i], ends[i-1])
		}
	}
	over := func(at int) bool {
		n, _ := slices.BinarySearchFunc(spans, at+1, func(s region, at int) int { return s.begin - at })
		return n > 0 && at < ends[n-1]
	}
	if n := slices.IndexFunc(raises, func(at int) bool { return !over(at) }); n >= 0 {
		left = min(left, raises[n])
	}
	return func(at int) bool { return over(at) || at > left }
}

// regions returns the parts that a try or a with covers, outer ones first.
func (c *code) regions(v *version, list []instruction) []region {
	var regions []region
	for _, in := range list {
		if in.op == setupTry || in.op == setupWith {
			t := in.target(v)
			regions = append(regions, region{in.next, t, t})
		}
	}
	if v.minor >= 11 {
		regions = exceptionTable(c.exceptions)
	}
	slices.SortStableFunc(regions, func(a, b region) int { return (b.end - b.begin) - (a.end - a.begin) })
	return regions[:min(len(regions), maxImports)]
}

// exceptionTable reads a table of 3.11 and later (Objects/exception_handling_notes.txt).
func exceptionTable(b []byte) []region {
	var list []region
	next := func() int {
		n := 0
		for i := 0; len(b) > 0 && i < 5; i++ {
			c := b[0]
			b = b[1:]
			n = n<<6 | int(c&63)
			if c&64 == 0 {
				break
			}
		}
		return n
	}
	for len(b) > 0 && len(list) < 1<<16 {
		begin, size, handler := 2*next(), 2*next(), 2*next()
		next() // the depth of the stack
		list = append(list, region{begin, begin + size, handler})
	}
	return list
}

// handler returns what a handler catches: `except A`, `except ?` if that is not known, or ""
// for a finally, which catches nothing.
func (c *code) handler(v *version, list []instruction, at int) string {
	i, ok := slices.BinarySearchFunc(list, at, func(in instruction, at int) int { return in.at - at })
	if !ok {
		return "except ?"
	}
	first := list[i]
	switch {
	case first.op == withStart || v.minor >= 11 && i+1 < len(list) && list[i+1].op == withStart:
		return "except ?" // a context may suppress it
	case v.minor >= 11 && first.op != pushInfo:
		return "" // the cleanup of a handler
	case v.minor < 11 && first.op != dupTop && first.op != popTop:
		if v.minor == 8 || v.minor < 8 || first.op != withStart {
			return ""
		}
	}
	if first.op == pushInfo {
		i++
	}
	if i < len(list) && list[i].op == popTop {
		return "except"
	}
	return c.caught(list[i:])
}

// caught returns what the clauses of a handler catch.
func (c *code) caught(list []instruction) string {
	var names, clause []string
	known, matched, finally := true, false, true
	for n, in := range list {
		if n > 400 {
			break
		}
		switch in.op {
		case loadName:
			clause = append(clause, c.nameOf(in, true))
		case loadAttr:
			if len(clause) > 0 {
				clause[len(clause)-1] = "?"
			}
		case match, compare:
			if in.op == compare && in.arg != 10 {
				continue
			}
			matched, finally = true, false
			for _, name := range clause {
				known = known && isName(name)
				names = append(names, name)
			}
			known = known && len(clause) > 0
			clause = nil
		case popTop, dupTop, buildTuple, pushInfo:
		case reraise:
			if !matched {
				return ""
			}
			return except(names, known)
		case importName, raise:
			clause = nil
			if in.op == raise && !matched {
				return ""
			}
			if in.op == raise {
				known = false // the handler raises another exception, perhaps
			}
		}
		if matched && in.op == other {
			clause = nil
		}
	}
	if finally {
		return ""
	}
	return except(names, known)
}

// except returns an except clause.
func except(names []string, known bool) string {
	if !known || len(names) == 0 || len(names) > 20 {
		return "except ?"
	}
	return "except (" + strings.Join(names, ",") + ",)"
}

// nameOf returns the name that an instruction loads, or "?".
func (c *code) nameOf(in instruction, plain bool) string {
	n := in.arg
	if plain && (in.code == 116 || in.code == 91 || in.code == 92) && n >= len(c.names) {
		n >>= 1 // LOAD_GLOBAL of 3.11 and later
	}
	if n >= 0 && n < len(c.names) {
		if s, ok := c.names[n].(string); ok && isName(s) {
			return s
		}
	}
	return "?"
}

// statement returns the import statement of the instruction IMPORT_NAME: before it stand its
// level and its names.
func (c *code) statement(list []instruction, i int) (s statement, ok bool) {
	if i < 2 || list[i].arg >= len(c.names) {
		return s, false
	}
	s.module, ok = c.names[list[i].arg].(string)
	if !ok || s.module != "" && !isDotted(s.module) {
		return s, false
	}
	level, known := c.constant(list[i-2]).(int)
	if !known || level < 0 || level > 100 {
		return s, false
	}
	s.level = level
	names, isTuple := c.constant(list[i-1]).([]any)
	if !isTuple {
		return s, s.level == 0 && s.module != ""
	}
	for _, n := range names {
		name, is := n.(string)
		if !is || name != "*" && !isName(name) || name == "*" && len(names) > 1 || len(s.names) > 4096 {
			return s, false
		}
		s.names = append(s.names, name)
	}
	return s, len(s.names) > 0 && (s.level > 0 || s.module != "")
}

// constant returns the constant that an instruction loads, or nil.
func (c *code) constant(in instruction) any {
	switch {
	case in.op == loadSmall:
		return in.arg
	case in.op == loadConst && in.arg < len(c.consts):
		return c.consts[in.arg]
	}
	return nil
}
