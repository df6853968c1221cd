package startup

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// kind is the origin of a piece of a word, which decides whether it is split and matched
// against file names.
type kind uint8

const (
	literal  kind = iota // stands in the script: not split
	quoted               // neither split nor matched
	expanded             // of a variable or command without quotes: split
)

// piece is a part of a word. next means that a new field begins with it, as between the
// arguments of "$@".
type piece struct {
	text string
	kind kind
	next bool
}

// fields returns the fields to which words expand.
func (s *shell) fields(words []*syntax.Word) []string {
	var list []string
	for _, w := range words {
		list = append(list, s.split(s.braces(w))...)
		if len(list) > maxArgs {
			return append(list[:maxArgs], Hole)
		}
	}
	return list
}

// braces returns the pieces of a word. Braces are left as they are.
func (s *shell) braces(w *syntax.Word) []piece { return s.pieces(s.tilde(w), false) }

// value returns the value of a word that is not split, as in an assignment.
func (s *shell) value(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	return joinPieces(s.pieces(s.tilde(w), false))
}

// tilde returns the parts of a word with ~ at its start replaced.
func (s *shell) tilde(w *syntax.Word) []syntax.WordPart {
	if w == nil || len(w.Parts) == 0 {
		return nil
	}
	lit, ok := w.Parts[0].(*syntax.Lit)
	if !ok || !strings.HasPrefix(lit.Value, "~") {
		return w.Parts
	}
	rest, home := lit.Value[1:], s.vars["HOME"].value
	if rest != "" && !strings.HasPrefix(rest, "/") {
		user, tail, _ := strings.Cut(rest, "/")
		home, rest = findUser(s.w.fs, user).home, strings.TrimSuffix("/"+tail, "/")
		if home == "" {
			home = Hole
		}
	}
	parts := slices.Clone(w.Parts)
	parts[0] = &syntax.SglQuoted{Value: home}
	return append([]syntax.WordPart{parts[0], &syntax.Lit{Value: rest, ValuePos: lit.ValuePos}}, parts[1:]...)
}

// joinPieces returns pieces as one value; the fields of "$@" have a blank between them.
func joinPieces(list []piece) string {
	var b strings.Builder
	for i, p := range list {
		if p.next && i > 0 {
			b.WriteByte(' ')
		}
		if b.Len()+len(p.text) > maxValue {
			return Hole
		}
		b.WriteString(p.text)
	}
	return b.String()
}

// field is a field that is being made, with its pattern if it has one.
type field struct {
	text, pattern strings.Builder
	any, glob     bool
}

// split makes fields of pieces: it splits expanded values, and replaces patterns by the
// names that match.
func (s *shell) split(list []piece) []string {
	var out []string
	f := &field{}
	end := func() {
		if f.any {
			out = append(out, s.names(f)...)
		}
		f = &field{}
	}
	for _, p := range list {
		if !s.w.step(1+len(p.text)/256) || f.text.Len()+len(p.text) > maxValue || len(out) > maxArgs {
			return append(out, Hole)
		}
		if p.next {
			end()
		}
		if p.kind != expanded {
			f.add(p)
			continue
		}
		rest := p.text
		for rest != "" {
			i := strings.IndexAny(rest, s.separators())
			if i < 0 {
				f.add(piece{text: rest, kind: expanded})
				break
			}
			if i > 0 {
				f.add(piece{text: rest[:i], kind: expanded})
			}
			end()
			rest = rest[i+1:]
		}
	}
	end()
	return out
}

// separators returns the bytes of IFS. A field between two of them that are no blanks is
// not kept if it is empty.
func (s *shell) separators() string {
	if v, ok := s.vars["IFS"]; ok && !v.absent && Known(v.value) {
		return v.value
	}
	return " \t\n"
}

func (f *field) add(p piece) {
	f.text.WriteString(p.text)
	f.any = f.any || p.kind != expanded || p.text != ""
	if p.kind == quoted {
		f.pattern.WriteString(pattern.QuoteMeta(p.text, 0))
		return
	}
	f.pattern.WriteString(p.text)
	f.glob = f.glob || pattern.HasMeta(p.text, pattern.ExtendedOperators)
}

// names returns the names that match a field's pattern, or the field itself.
func (s *shell) names(f *field) []string {
	text := f.text.String()
	if !f.glob || s.noglob || !Known(text) || !Known(s.dir) || len(text) > 4096 {
		return []string{text}
	}
	list, ok := globFrom(s.w.fs, s.dir, f.pattern.String())
	switch {
	case !ok:
		return []string{Hole}
	case len(list) == 0 && s.nullglob:
		return nil
	case len(list) == 0:
		return []string{text}
	}
	return list
}

// pieces expands the parts of a word.
func (s *shell) pieces(parts []syntax.WordPart, inQuotes bool) []piece {
	var list []piece
	k := expanded
	if inQuotes {
		k = quoted
	}
	for _, part := range parts {
		if !s.w.step(1) || len(list) > maxArgs {
			return append(list, piece{Hole, k, false})
		}
		switch part := part.(type) {
		case *syntax.Lit:
			list = append(list, literalPieces(part.Value, inQuotes)...)
		case *syntax.SglQuoted:
			text := part.Value
			if part.Dollar {
				text = ansi(text)
			}
			list = append(list, piece{text, quoted, false})
		case *syntax.DblQuoted:
			in := s.pieces(part.Parts, true)
			if len(in) == 0 && !hasArguments(part.Parts) {
				in = []piece{{"", quoted, false}}
			}
			list = append(list, in...)
		case *syntax.ParamExp:
			list = append(list, s.param(part, inQuotes)...)
		case *syntax.CmdSubst:
			list = append(list, piece{s.substitute(part), k, false})
		case *syntax.ArithmExp:
			text := Hole
			if n, ok := s.arithm(part.X); ok {
				text = strconv.FormatInt(n, 10)
			}
			list = append(list, piece{text, k, false})
		case *syntax.ExtGlob:
			list = append(list, piece{part.Op.String() + part.Pattern.Value + ")", literal, false})
		case *syntax.ProcSubst:
			s.clone().substituted(part.Stmts)
			list = append(list, piece{"/dev/fd/" + Hole, quoted, false})
		default:
			list = append(list, piece{Hole, quoted, false})
		}
	}
	return list
}

// hasArguments reports whether "$@" or an array, which may be no field at all, is among
// the parts.
func hasArguments(parts []syntax.WordPart) bool {
	return slices.ContainsFunc(parts, func(p syntax.WordPart) bool {
		pe, ok := p.(*syntax.ParamExp)
		return ok && pe.Param != nil && (pe.Param.Value == "@" || isAll(pe.Index) == "@")
	})
}

// literalPieces returns the pieces of a text of the script: a character behind a
// backslash is quoted.
func literalPieces(text string, inQuotes bool) []piece {
	if !strings.Contains(text, "\\") {
		if inQuotes {
			return []piece{{text, quoted, false}}
		}
		return []piece{{text, literal, false}}
	}
	var list []piece
	var b strings.Builder
	flush := func(k kind) {
		if b.Len() > 0 {
			list = append(list, piece{b.String(), k, false})
		}
		b.Reset()
	}
	plain := literal
	if inQuotes {
		plain = quoted
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) || inQuotes && !strings.ContainsRune("$`\"\\\n", rune(text[i+1])) {
			b.WriteByte(text[i])
			continue
		}
		flush(plain)
		if i++; text[i] != '\n' {
			b.WriteByte(text[i])
			flush(quoted)
		}
	}
	flush(plain)
	return list
}

// ansi reads $'…'.
func ansi(text string) string {
	r := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\\`, `\`, `\'`, "'", `\"`, `"`, `\e`, "\x1b", `\a`, "\a")
	if out := r.Replace(text); !strings.Contains(out, `\x`) && !strings.Contains(out, `\0`) && !strings.Contains(out, `\u`) {
		return out
	}
	return Hole
}

// pattern returns the pattern that a word is.
func (s *shell) pattern(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range s.pieces(s.tilde(w), false) {
		if b.Len()+len(p.text) > 4096 {
			return Hole
		}
		if p.kind == quoted && Known(p.text) {
			b.WriteString(pattern.QuoteMeta(p.text, 0))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// matches reports whether a value matches a pattern. Both may have unknown parts.
func (s *shell) matches(value, pat string) status {
	s.w.step(1 + len(value)/256)
	if pat == "*" {
		return succeeded
	}
	re := compile("^(?:", pat, ")$", 0)
	if Known(value) && Known(pat) {
		if re == nil {
			return eitherWay
		}
		return truth(re.MatchString(value))
	}
	if Known(pat) && !pattern.HasMeta(pat, 0) {
		return mayEqual(value, pat)
	}
	if !Known(pat) {
		return eitherWay
	}
	// A literal start of the pattern that the known start of the value contradicts.
	start, _, _ := strings.Cut(value, Hole)
	lit := pat[:strings.IndexAny(pat+"*", `*?[\`)]
	if n := min(len(start), len(lit)); start[:n] != lit[:n] {
		return failed
	}
	if pat == lit+"*" && strings.HasPrefix(start, lit) {
		return succeeded
	}
	return eitherWay
}

// mayEqual reports whether two values are equal. Both may have unknown parts.
func mayEqual(a, b string) status {
	if Known(a) && Known(b) {
		return truth(a == b)
	}
	fits := func(text, holes string) bool {
		parts := strings.Split(holes, Hole)
		first, last := parts[0], parts[len(parts)-1]
		if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
			return false
		}
		for _, p := range parts[1 : len(parts)-1] {
			i := strings.Index(text, p)
			if i < 0 {
				return false
			}
			text = text[i+len(p):]
		}
		return true
	}
	if Known(a) && !fits(a, b) || Known(b) && !fits(b, a) {
		return failed
	}
	return eitherWay
}

// compile returns the regular expression of a shell pattern between two texts, or nil.
func compile(before, pat, after string, mode pattern.Mode) *regexp.Regexp {
	if len(pat) > 4096 || !Known(pat) {
		return nil
	}
	src, err := pattern.Regexp(pat, mode|pattern.NoGlobStar|pattern.ExtendedOperators)
	if err != nil {
		return nil
	}
	re, err := regexp.Compile("(?s)" + before + src + after)
	if err != nil {
		return nil
	}
	return re
}

// substitute returns the output of $(…), without newlines at its end.
func (s *shell) substitute(c *syntax.CmdSubst) string {
	t := s.clone()
	out, f := t.substituted(c.Stmts)
	s.take(t, f)
	return strings.TrimRight(out, "\n")
}

// substituted runs statements in s, a copy of a shell, and returns what they write.
func (s *shell) substituted(list []*syntax.Stmt) (out string, f flow) {
	var b strings.Builder
	s.sub, s.out = true, &b
	if len(list) == 1 && list[0].Cmd == nil && len(list[0].Redirs) == 1 && list[0].Redirs[0].Op == syntax.RdrIn { // $(<file)
		s.redirect(list[0].Redirs)
		if s.stdin == nil {
			return Hole, goesOn
		}
		return *s.stdin, goesOn
	}
	f = s.stmts(list)
	return b.String(), f
}

// print writes to the shell's output, as far as it is kept.
func (s *shell) print(text string) {
	if s.out == nil {
		return
	}
	if s.out.Len()+len(text) > maxValue {
		s.out.Reset()
		text = Hole
	}
	s.out.WriteString(text)
}
