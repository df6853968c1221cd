package startup

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arithm evaluates an arithmetic expression. ok is false if it is not known.
func (s *shell) arithm(x syntax.ArithmExpr) (n int64, ok bool) {
	if !s.w.step(1) {
		return 0, false
	}
	if s.depth++; s.depth > maxDepth*4 {
		s.depth--
		return 0, false
	}
	defer func() { s.depth-- }()
	switch x := x.(type) {
	case *syntax.Word:
		return s.number(s.value(x))
	case *syntax.ParenArithm:
		return s.arithm(x.X)
	case *syntax.UnaryArithm:
		return s.unary(x)
	case *syntax.BinaryArithm:
		return s.binaryArithm(x)
	}
	return 0, false
}

// number returns the value of a word of an expression: a number, or a variable's.
func (s *shell) number(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	for range 4 {
		if !isName(text) {
			break
		}
		value, _ := s.get(text)
		text = strings.TrimSpace(value)
	}
	if text == "" {
		return 0, true
	}
	if !Known(text) {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 0, 64)
	return n, err == nil
}

func (s *shell) unary(x *syntax.UnaryArithm) (int64, bool) {
	n, ok := s.arithm(x.X)
	switch x.Op {
	case syntax.Not:
		return oneIf(n == 0), ok
	case syntax.BitNegation:
		return ^n, ok
	case syntax.Minus:
		return -n, ok
	case syntax.Plus:
		return n, ok
	case syntax.Inc, syntax.Dec:
		w, isWord := x.X.(*syntax.Word)
		if !isWord {
			return 0, false
		}
		next := n + 1
		if x.Op == syntax.Dec {
			next = n - 1
		}
		s.assignNumber(w.Lit(), next, ok)
		if x.Post {
			return n, ok
		}
		return next, ok
	}
	return 0, false
}

func (s *shell) assignNumber(name string, n int64, ok bool) {
	switch {
	case !isName(name):
	case ok:
		s.set(name, strconv.FormatInt(n, 10))
	default:
		s.set(name, Hole)
	}
}

func oneIf(ok bool) int64 {
	if ok {
		return 1
	}
	return 0
}

// assignments are the operators that assign, with the operator that they apply first.
var assignments = map[syntax.BinAritOperator]syntax.BinAritOperator{
	syntax.AddAssgn: syntax.Add, syntax.SubAssgn: syntax.Sub, syntax.MulAssgn: syntax.Mul, syntax.QuoAssgn: syntax.Quo,
	syntax.RemAssgn: syntax.Rem, syntax.AndAssgn: syntax.And, syntax.OrAssgn: syntax.Or, syntax.XorAssgn: syntax.Xor,
	syntax.ShlAssgn: syntax.Shl, syntax.ShrAssgn: syntax.Shr,
}

func (s *shell) binaryArithm(x *syntax.BinaryArithm) (int64, bool) {
	if op, ok := assignments[x.Op]; ok || x.Op == syntax.Assgn {
		w, isWord := x.X.(*syntax.Word)
		n, known := s.arithm(x.Y)
		if !isWord {
			return 0, false
		}
		if ok {
			old, was := s.arithm(x.X)
			n, known = calculate(op, old, n, was && known)
		}
		s.assignNumber(w.Lit(), n, known)
		return n, known
	}
	a, ok := s.arithm(x.X)
	switch x.Op {
	case syntax.AndArit, syntax.OrArit:
		if !ok {
			return 0, false
		}
		if (a != 0) == (x.Op == syntax.OrArit) {
			return oneIf(a != 0), true
		}
		b, ok := s.arithm(x.Y)
		return oneIf(b != 0), ok
	case syntax.TernQuest:
		c, isColon := x.Y.(*syntax.BinaryArithm)
		if !ok || !isColon {
			return 0, false
		}
		if a != 0 {
			return s.arithm(c.X)
		}
		return s.arithm(c.Y)
	}
	b, known := s.arithm(x.Y)
	return calculate(x.Op, a, b, ok && known)
}

// calculate applies an operator. ok is false for a division by 0 and the like.
func calculate(op syntax.BinAritOperator, a, b int64, ok bool) (int64, bool) {
	if !ok {
		return 0, false
	}
	switch op {
	case syntax.Add:
		return a + b, true
	case syntax.Sub:
		return a - b, true
	case syntax.Mul:
		return a * b, true
	case syntax.Quo, syntax.Rem:
		if b == 0 || b == -1 {
			return 0, false
		}
		if op == syntax.Quo {
			return a / b, true
		}
		return a % b, true
	case syntax.Eql:
		return oneIf(a == b), true
	case syntax.Neq:
		return oneIf(a != b), true
	case syntax.Lss:
		return oneIf(a < b), true
	case syntax.Gtr:
		return oneIf(a > b), true
	case syntax.Leq:
		return oneIf(a <= b), true
	case syntax.Geq:
		return oneIf(a >= b), true
	case syntax.And:
		return a & b, true
	case syntax.Or:
		return a | b, true
	case syntax.Xor:
		return a ^ b, true
	case syntax.Shl, syntax.Shr:
		if b < 0 || b > 62 {
			return 0, false
		}
		if op == syntax.Shl {
			return a << b, true
		}
		return a >> b, true
	case syntax.Comma:
		return b, true
	}
	return 0, false
}
