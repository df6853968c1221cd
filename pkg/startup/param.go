package startup

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// get returns the value of a variable or parameter, and whether it is set. A value that is
// not known is a [Hole], and may be unset.
func (s *shell) get(name string) (value string, set bool) {
	switch name {
	case "#":
		if slices.Contains(s.args, Hole) {
			return Hole, true
		}
		return strconv.Itoa(len(s.args)), true
	case "?":
		return s.exitCode(), true
	case "0":
		return s.name, true
	case "$", "!", "_", "-", "PPID", "BASHPID", "RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "SRANDOM", "BASH_VERSION":
		return Hole, true
	case "UID", "EUID":
		if _, ok := s.vars[name]; !ok && s.bash {
			return s.uid(), true
		}
	case "OSTYPE":
		if s.bash {
			return "linux-" + Hole, true
		}
	case "BASH_SOURCE":
		return s.text.file, s.bash
	case "@", "*":
		return strings.Join(s.args, " "), len(s.args) > 0
	}
	if n, err := strconv.Atoi(name); err == nil {
		return s.arg(n)
	}
	v, ok := s.vars[name]
	if v.isList {
		if len(v.list) == 0 {
			return "", false
		}
		return v.list[0], true
	}
	if s.blind && (!ok || v.absent) {
		return Hole, true
	}
	return v.value, ok && !v.absent
}

// arg returns $1 and so on.
func (s *shell) arg(n int) (value string, set bool) {
	i := slices.Index(s.args, Hole)
	switch {
	case i >= 0 && n > i:
		return Hole, true
	case n >= 1 && n <= len(s.args):
		return s.args[n-1], true
	}
	return "", false
}

func (s *shell) exitCode() string {
	if s.code != "" {
		return s.code
	}
	switch s.status {
	case succeeded:
		return "0"
	case failed:
		return "1"
	}
	return Hole
}

// uid returns the number of the user, or a [Hole].
func (s *shell) uid() string {
	if s.user.uid < 0 {
		return Hole
	}
	return strconv.Itoa(s.user.uid)
}

// set assigns a variable.
func (s *shell) set(name, value string) {
	if len(value) > maxValue || !s.w.step(1+len(value)/1024) {
		value = Hole
	}
	if _, ok := s.vars[name]; !ok && len(s.vars) > 10_000 {
		return
	}
	v := s.vars[name]
	s.vars[name] = variable{value: value, exported: v.exported}
	if name == "OPTIND" {
		return
	}
}

// elements returns the elements of "$@", "$*" or an array.
func (s *shell) elements(name string) []string {
	if name == "@" || name == "*" {
		return s.args
	}
	v, ok := s.vars[name]
	switch {
	case v.isList:
		return v.list
	case ok && !v.absent:
		return []string{v.value}
	}
	return nil
}

// isAll returns "@" or "*" for the index of all elements of an array, else "".
func isAll(index syntax.ArithmExpr) string {
	if w, ok := index.(*syntax.Word); ok && (w.Lit() == "@" || w.Lit() == "*") {
		return w.Lit()
	}
	return ""
}

// param expands ${…}.
func (s *shell) param(pe *syntax.ParamExp, inQuotes bool) []piece {
	k := expanded
	if inQuotes {
		k = quoted
	}
	if pe.Param == nil || pe.Flags != nil {
		return []piece{{Hole, k, false}}
	}
	name := pe.Param.Value
	all := isAll(pe.Index)
	if name == "@" || name == "*" {
		all = name
	}
	switch {
	case pe.Excl && (pe.Names != 0 || all != ""):
		return []piece{{Hole, k, false}}
	case pe.Excl:
		if name, _ = s.get(name); !isName(name) {
			return []piece{{Hole, k, false}}
		}
	}
	if all != "" {
		return s.listParam(pe, name, all, k)
	}
	value, set := s.get(name)
	if pe.Index != nil {
		value, set = s.element(name, pe.Index)
	}
	if pe.Length {
		return []piece{{length(value), k, false}}
	}
	if pe.Exp != nil {
		if list, ok := s.setOperator(pe, name, value, set, inQuotes); ok {
			return list
		}
	}
	return []piece{{s.operate(pe, value), k, false}}
}

func length(value string) string {
	if !Known(value) {
		return Hole
	}
	return strconv.Itoa(utf8.RuneCountInString(value))
}

// element returns an element of an array.
func (s *shell) element(name string, index syntax.ArithmExpr) (string, bool) {
	if name == "BASH_SOURCE" {
		return s.text.file, true
	}
	if name == "FUNCNAME" || name == "PIPESTATUS" || name == "BASH_REMATCH" {
		return Hole, true
	}
	list := s.elements(name)
	n, ok := s.arithm(index)
	if !ok || slices.Contains(list, Hole) {
		return Hole, true
	}
	if n < 0 {
		n += int64(len(list))
	}
	if n < 0 || n >= int64(len(list)) {
		return "", false
	}
	return list[n], true
}

// listParam expands "$@", "$*" and arrays.
func (s *shell) listParam(pe *syntax.ParamExp, name, all string, k kind) []piece {
	list := s.elements(name)
	if pe.Length {
		if slices.Contains(list, Hole) {
			return []piece{{Hole, k, false}}
		}
		return []piece{{strconv.Itoa(len(list)), k, false}}
	}
	if pe.Exp != nil {
		if out, ok := s.setOperator(pe, name, strings.Join(list, " "), len(list) > 0, k == quoted); ok {
			return out
		}
	}
	if pe.Slice != nil {
		var ok bool
		if list, ok = s.sliceList(pe.Slice, list, name); !ok {
			return []piece{{Hole, k, true}}
		}
	}
	if all == "*" && k == quoted {
		return []piece{{strings.Join(list, " "), k, false}}
	}
	var out []piece
	for i, e := range list {
		if pe.Slice == nil {
			e = s.operate(pe, e)
		}
		out = append(out, piece{e, k, i > 0})
	}
	return out
}

// sliceList returns ${@:offset:length}. For the arguments offset 0 is $0.
func (s *shell) sliceList(sl *syntax.Slice, list []string, name string) ([]string, bool) {
	if name == "@" || name == "*" {
		list = append([]string{s.name}, list...)
	}
	from, to, ok := s.bounds(sl, len(list))
	if hole := slices.Index(list, Hole); hole >= 0 && (to > hole || sl.Length != nil) {
		if ok && from <= hole && sl.Length == nil {
			return list[from:], true
		}
		return nil, false
	}
	if !ok {
		return nil, false
	}
	return list[from:to], true
}

// bounds returns the bounds of a slice of n elements.
func (s *shell) bounds(sl *syntax.Slice, n int) (from, to int, ok bool) {
	a, ok := int64(0), true
	if sl.Offset != nil {
		if a, ok = s.arithm(sl.Offset); !ok {
			return 0, 0, false
		}
	}
	if a < 0 {
		a = max(a+int64(n), 0)
	}
	a = min(a, int64(n))
	b := int64(n)
	if sl.Length != nil {
		l, ok := s.arithm(sl.Length)
		if !ok {
			return 0, 0, false
		}
		if l < 0 {
			b = max(b+l, a)
		} else {
			b = min(a+min(l, int64(n)), b)
		}
	}
	return int(a), int(b), true
}

// setOperator expands the operators that ask whether a parameter is set: - = ? and +. ok is
// false for other operators.
func (s *shell) setOperator(pe *syntax.ParamExp, name, value string, set, inQuotes bool) (list []piece, ok bool) {
	word := func() []piece {
		if pe.Exp.Word == nil {
			return nil
		}
		list := s.pieces(s.tilde(pe.Exp.Word), inQuotes)
		for i := range list {
			if list[i].kind == literal {
				list[i].kind = expanded // the result is split
			}
		}
		return list
	}
	k := expanded
	if inQuotes {
		k = quoted
	}
	op := pe.Exp.Op
	st := truth(set && (value != "" || op == syntax.DefaultUnset || op == syntax.AlternateUnset || op == syntax.AssignUnset || op == syntax.ErrorUnset))
	if set && strings.Trim(value, Hole) == "" && value != "" {
		st = eitherWay
	}
	switch op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		switch st {
		case succeeded:
			return s.valuePieces(pe, name, value, k), true
		case eitherWay:
			return []piece{{Hole, k, false}}, true
		}
		list = word()
		if op == syntax.AssignUnset || op == syntax.AssignUnsetOrNull {
			s.set(name, joinPieces(list))
		}
		return list, true
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		switch st {
		case succeeded:
			return word(), true
		case eitherWay:
			return []piece{{Hole, k, false}}, true
		}
		return nil, true
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		if st == failed {
			s.left = "$" + name + " is set"
			s.set(name, Hole)
			return []piece{{Hole, k, false}}, true
		}
		return s.valuePieces(pe, name, value, k), true
	}
	return nil, false
}

// valuePieces returns the value of a parameter, as several fields for "$@".
func (s *shell) valuePieces(pe *syntax.ParamExp, name, value string, k kind) []piece {
	if name != "@" && isAll(pe.Index) != "@" {
		return []piece{{value, k, false}}
	}
	var out []piece
	for i, e := range s.elements(name) {
		out = append(out, piece{e, k, i > 0})
	}
	return out
}

// operate applies the operators that change a value.
func (s *shell) operate(pe *syntax.ParamExp, value string) string {
	s.w.step(1 + len(value)/64)
	switch {
	case pe.Slice != nil:
		if !Known(value) {
			return s.sliceOfHole(pe.Slice, value)
		}
		r := []rune(value)
		from, to, ok := s.bounds(pe.Slice, len(r))
		if !ok {
			return Hole
		}
		return string(r[from:to])
	case pe.Repl != nil:
		return s.replace(pe.Repl, value)
	case pe.Exp != nil:
		return s.cut(pe.Exp, value)
	}
	return value
}

// sliceOfHole returns ${x:0:n} where the first n bytes are known.
func (s *shell) sliceOfHole(sl *syntax.Slice, value string) string {
	start, _, _ := strings.Cut(value, Hole)
	if sl.Offset == nil || sl.Length == nil {
		return Hole
	}
	a, ok1 := s.arithm(sl.Offset)
	n, ok2 := s.arithm(sl.Length)
	if !ok1 || !ok2 || a < 0 || n < 0 || a > int64(len(start)) || n > int64(len(start))-a {
		return Hole
	}
	return start[a : a+n]
}

// cut applies # ## % %% ^ , and their doubles.
func (s *shell) cut(x *syntax.Expansion, value string) string {
	pat := ""
	if x.Word != nil {
		pat = s.pattern(x.Word)
	}
	if !Known(value) || !Known(pat) {
		return s.cutHole(x, value, pat)
	}
	switch x.Op {
	case syntax.RemSmallPrefix:
		return removed(compile("^(", pat, ")", pattern.Shortest), value)
	case syntax.RemLargePrefix:
		return removed(compile("^(", pat, ")", 0), value)
	case syntax.RemSmallSuffix:
		return removed(compile("^.*(", pat, ")$", 0), value)
	case syntax.RemLargeSuffix:
		return removed(compile("^.*?(", pat, ")$", 0), value)
	case syntax.UpperAll, syntax.LowerAll, syntax.UpperFirst, syntax.LowerFirst:
		if pat == "" {
			return changeCase(x.Op, value)
		}
	}
	return Hole
}

// cutHole cuts a value with unknown parts where a literal pattern at its start or end is
// known to be there or not.
func (s *shell) cutHole(x *syntax.Expansion, value, pat string) string {
	if !Known(pat) || pattern.HasMeta(pat, 0) || strings.Contains(pat, `\`) {
		return Hole
	}
	parts := strings.Split(value, Hole)
	first, last := parts[0], parts[len(parts)-1]
	switch x.Op {
	case syntax.RemSmallPrefix, syntax.RemLargePrefix:
		if len(first) >= len(pat) {
			return strings.TrimPrefix(value, pat)
		}
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		if len(last) >= len(pat) {
			return strings.TrimSuffix(value, pat)
		}
	}
	return Hole
}

// removed returns a value without the text of re's group.
func removed(re *regexp.Regexp, value string) string {
	if re == nil {
		return Hole
	}
	m := re.FindStringSubmatchIndex(value)
	if m == nil {
		return value
	}
	return value[:m[2]] + value[m[3]:]
}

func changeCase(op syntax.ParExpOperator, value string) string {
	switch op {
	case syntax.UpperAll:
		return strings.ToUpper(value)
	case syntax.LowerAll:
		return strings.ToLower(value)
	}
	_, n := utf8.DecodeRuneInString(value)
	if op == syntax.UpperFirst {
		return strings.ToUpper(value[:n]) + value[n:]
	}
	return strings.ToLower(value[:n]) + value[n:]
}

// replace applies ${x/pattern/text}.
func (s *shell) replace(r *syntax.Replace, value string) string {
	with := s.value(r.With)
	pat := s.pattern(r.Orig)
	if !Known(value) || !Known(pat) {
		return Hole
	}
	before, after := "(", ")"
	if rest, ok := strings.CutPrefix(pat, "#"); ok && !r.All {
		before, pat = "^(", rest
	} else if rest, ok := strings.CutPrefix(pat, "%"); ok && !r.All {
		after, pat = ")$", rest
	}
	re := compile(before, pat, after, 0)
	if re == nil || pat == "" {
		return Hole
	}
	n := 1
	if r.All {
		n = -1
	}
	found := re.FindAllStringIndex(value, n)
	if len(found)*len(with)+len(value) > maxValue {
		return Hole
	}
	var b strings.Builder
	at := 0
	for _, m := range found {
		if m[0] == m[1] {
			continue
		}
		b.WriteString(value[at:m[0]] + with)
		at = m[1]
	}
	return b.String() + value[at:]
}
