package startup

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// and and or combine two tests. Either may be unknown.
func (s status) and(o status) status {
	switch {
	case s == failed || o == failed:
		return failed
	case s == eitherWay || o == eitherWay:
		return eitherWay
	}
	return succeeded
}

func (s status) or(o status) status { return s.not().and(o.not()).not() }

// test evaluates [[ … ]].
func (s *shell) test(x syntax.TestExpr) status {
	if s.depth++; s.depth > maxDepth*4 || !s.w.step(1) {
		s.depth--
		return eitherWay
	}
	defer func() { s.depth-- }()
	switch x := x.(type) {
	case *syntax.ParenTest:
		return s.test(x.X)
	case *syntax.Word:
		return nonEmpty(s.value(x))
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			return s.test(x.X).not()
		}
		w, ok := x.X.(*syntax.Word)
		if !ok {
			return eitherWay
		}
		return s.unaryTest(x.Op.String(), s.value(w))
	case *syntax.BinaryTest:
		return s.binaryTest(x)
	}
	return eitherWay
}

func (s *shell) binaryTest(x *syntax.BinaryTest) status {
	switch x.Op {
	case syntax.AndTest:
		if st := s.test(x.X); st != succeeded {
			if st == failed {
				return failed
			}
			return st.and(s.test(x.Y))
		}
		return s.test(x.Y)
	case syntax.OrTest:
		if st := s.test(x.X); st != failed {
			if st == succeeded {
				return st
			}
			return st.or(s.test(x.Y))
		}
		return s.test(x.Y)
	}
	a, ok1 := x.X.(*syntax.Word)
	b, ok2 := x.Y.(*syntax.Word)
	if !ok1 || !ok2 {
		return eitherWay
	}
	left := s.value(a)
	switch x.Op {
	case syntax.TsMatch, syntax.TsMatchShort:
		return s.matches(left, s.pattern(b))
	case syntax.TsNoMatch:
		return s.matches(left, s.pattern(b)).not()
	case syntax.TsReMatch:
		return s.matchesRegexp(left, b)
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		n, ok1 := s.number(left)
		m, ok2 := s.number(s.value(b))
		if !ok1 || !ok2 {
			return eitherWay
		}
		return compareNumbers(x.Op.String(), n, m)
	}
	return compare(x.Op.String(), left, s.value(b))
}

// matchesRegexp evaluates =~. Quoted parts of the expression are literal.
func (s *shell) matchesRegexp(value string, w *syntax.Word) status {
	var b strings.Builder
	for _, p := range s.pieces(w.Parts, false) {
		if p.kind == quoted {
			b.WriteString(regexp.QuoteMeta(p.text))
		} else {
			b.WriteString(p.text)
		}
	}
	src := b.String()
	if !Known(src) || !Known(value) || len(src) > 4096 {
		return eitherWay
	}
	re, err := regexp.CompilePOSIX(src)
	if err != nil {
		return eitherWay
	}
	return truth(re.MatchString(value))
}

// nonEmpty reports whether a value is not empty.
func nonEmpty(v string) status {
	switch {
	case strings.Trim(v, Hole) != "":
		return succeeded
	case v == "":
		return failed
	}
	return eitherWay
}

// compare evaluates = == != < and > of test.
func compare(op, a, b string) status {
	switch op {
	case "=", "==":
		return mayEqual(a, b)
	case "!=":
		return mayEqual(a, b).not()
	}
	if !Known(a) || !Known(b) {
		return eitherWay
	}
	switch op {
	case "<", `\<`:
		return truth(a < b)
	case ">", `\>`:
		return truth(a > b)
	case "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
		n, err1 := strconv.ParseInt(strings.TrimSpace(a), 10, 64)
		m, err2 := strconv.ParseInt(strings.TrimSpace(b), 10, 64)
		if err1 != nil || err2 != nil {
			return failed // with a message
		}
		return compareNumbers(op, n, m)
	}
	return eitherWay
}

func compareNumbers(op string, n, m int64) status {
	switch op {
	case "-eq":
		return truth(n == m)
	case "-ne":
		return truth(n != m)
	case "-lt":
		return truth(n < m)
	case "-le":
		return truth(n <= m)
	case "-gt":
		return truth(n > m)
	}
	return truth(n >= m)
}

// unaryTest evaluates -n, -f and so on.
func (s *shell) unaryTest(op, v string) status {
	switch op {
	case "-n":
		return nonEmpty(v)
	case "-z":
		return nonEmpty(v).not()
	case "-v":
		value, set := s.get(v)
		if value == Hole || !Known(v) {
			return eitherWay
		}
		return truth(set)
	case "-t":
		return failed // a container without options has no terminal
	case "-o":
		return eitherWay
	}
	if !strings.Contains("-e-a-f-d-L-h-r-w-x-s-b-c-p-S-k-g-u-G-O-N", op) || !Known(v) || !Known(s.dir) {
		return eitherWay
	}
	if v == "" {
		return failed
	}
	return s.fileTest(op, absolute(v, s.dir))
}

// fileTest evaluates a test of a file of the image.
func (s *shell) fileTest(op, file string) status {
	if src, ok := s.files[file]; ok {
		switch op {
		case "-e", "-a", "-f", "-r", "-w":
			return succeeded
		case "-s":
			return nonEmpty(src)
		}
		return eitherWay
	}
	if op == "-L" || op == "-h" {
		e, _, ok := s.w.fs.Lstat(file)
		if _, known := s.lookup(file); !known {
			return eitherWay
		}
		return truth(ok && e.Type == layers.Symlink)
	}
	e, known := s.lookup(file)
	switch {
	case !known:
		return eitherWay
	case e == nil:
		return failed
	}
	switch op {
	case "-e", "-a":
		return succeeded
	case "-f":
		return truth(e.Type == layers.Regular)
	case "-d":
		return truth(e.IsDir())
	case "-s":
		return truth(e.IsDir() || e.Size > 0)
	case "-x":
		return truth(e.IsDir() || e.Mode&0o111 != 0)
	case "-r":
		if s.user.uid == 0 || e.Mode&0o004 != 0 {
			return succeeded
		}
	case "-w":
		if s.user.uid == 0 {
			return succeeded
		}
	case "-b", "-c", "-p", "-S":
		if e.Type != layers.Other {
			return failed
		}
	}
	return eitherWay
}

// bracket evaluates the arguments of test and [ (POSIX test, with -a and -o).
func (s *shell) bracket(args []string) status {
	if slices.Contains(args, Hole) && len(args) > 4 {
		return eitherWay
	}
	t := &bracketTest{shell: s, args: args}
	st := t.or()
	if (len(t.args) > 0 || t.bad) && slices.ContainsFunc(args, func(a string) bool { return !Known(a) }) {
		return eitherWay
	}
	if len(t.args) > 0 || t.bad {
		return failed // with a message
	}
	return st
}

// bracketTest reads the arguments of test.
type bracketTest struct {
	*shell
	args  []string
	depth int
	bad   bool
}

func (t *bracketTest) or() status {
	st := t.and()
	for len(t.args) > 0 && t.args[0] == "-o" {
		t.args = t.args[1:]
		st = st.or(t.and())
	}
	return st
}

func (t *bracketTest) and() status {
	st := t.primary()
	for len(t.args) > 0 && t.args[0] == "-a" {
		t.args = t.args[1:]
		st = st.and(t.primary())
	}
	return st
}

var binaryOps = []string{"=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"}

// primary reads one test: with three arguments that have an operator in the middle it is
// that, whatever the first one is.
func (t *bracketTest) primary() status {
	if t.depth++; t.depth > maxDepth {
		t.bad = true
		return eitherWay
	}
	a := t.args
	switch {
	case len(a) == 0:
		return failed
	case len(a) >= 3 && slices.Contains(binaryOps, a[1]):
		t.args = a[3:]
		return compare(a[1], a[0], a[2])
	case a[0] == "!" && len(a) > 1:
		t.args = a[1:]
		return t.primary().not()
	case a[0] == "(" && len(a) > 2:
		t.args = a[1:]
		st := t.or()
		if len(t.args) == 0 || t.args[0] != ")" {
			t.bad = true
			return eitherWay
		}
		t.args = t.args[1:]
		return st
	case len(a) >= 2 && len(a[0]) == 2 && a[0][0] == '-' && a[1] != "-a" && a[1] != "-o":
		t.args = a[2:]
		return t.unaryTest(a[0], a[1])
	}
	t.args = a[1:]
	return nonEmpty(a[0])
}
