package pyimport

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// methods are the methods of builtin types, by TYPE.NAME. The first argument is the
// object.
var methods = map[string]*builtin{}

// define adds functions to a table of methods.
func define(prefix string, table map[string]func(*Run, *args) value) {
	for name, fn := range table {
		methods[prefix+name] = &builtin{name: prefix + name, fn: fn}
	}
}

func init() {
	define("str.", stringMethods)
	define("list.", listMethods)
	define("tuple.", map[string]func(*Run, *args) value{"index": indexOf, "count": countOf})
	define("dict.", dictMethods)
	define("set.", setMethods)
	define("bytes.", map[string]func(*Run, *args) value{"decode": decode})
	define("os._Environ.", environMethods)
	define("sys.modules.", modulesMethods)
	define("globals.", globalsMethods)
	define("pathlib.Path.", pathMethods)
}

// notKnown returns a function whose result is not known.
func notKnown(name string) func(*Run, *args) value {
	return func(*Run, *args) value { return unknownf("the result of %s", name) }
}

// onText makes a method of strings from a function of known texts.
func onText(f func(s string, a *args) value) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		s, ok := a.pos[0].(string)
		if !ok || a.open {
			return unknownf("a text")
		}
		for _, v := range a.pos[1:] {
			if u := because(v); u != nil {
				return u
			}
		}
		r.spend(1 + len(s)/64)
		b := *a
		b.pos = a.pos[1:]
		v := f(s, &b)
		if l, ok := v.(*list); ok {
			l.split = true
		}
		return v
	}
}

func textFunc(f func(string) string) func(*Run, *args) value {
	return onASCII(func(s string) value { return f(s) })
}

// onASCII makes a method of strings that asks what kinds of characters they have. Beyond ASCII, Python's tables and
// special cases are not these of Go ('ß'.upper() is 'SS').
func onASCII(f func(s string) value) func(*Run, *args) value {
	return onText(func(s string, _ *args) value {
		if strings.IndexFunc(s, func(c rune) bool { return c > unicode.MaxASCII }) >= 0 {
			return unknownf("a text that is not ASCII alone")
		}
		return f(s)
	})
}

// affix makes str.startswith or str.endswith.
func affix(has func(s, part string) bool) func(*Run, *args) value {
	return onText(func(s string, a *args) value {
		if len(a.pos) != 1 {
			return unknownf("a comparison")
		}
		switch p := a.pos[0].(type) {
		case string:
			return has(s, p)
		case *tuple:
			for _, item := range p.items {
				part, ok := item.(string)
				if !ok {
					return unknownf("a comparison")
				}
				if has(s, part) {
					return true
				}
			}
			return false
		}
		return unknownf("a comparison")
	})
}

// trim makes str.strip, lstrip or rstrip.
func trim(left, right bool) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		return onText(func(s string, a *args) value {
			cut := " \t\n\r\v\f"
			if t, ok := a.text(0, ""); ok {
				cut = t
			}
			if len(cut) > usualCut {
				if r.spend(len(s) * (len(cut) / usualCut)); r.stop != "" { // each character is looked for in cut
					return unknownf("a text")
				}
			}
			if left {
				s = strings.TrimLeft(s, cut)
			}
			if right {
				s = strings.TrimRight(s, cut)
			}
			return s
		})(r, a)
	}
}

// usualCut are the bytes that str.strip looks for in a step.
const usualCut = 64

var stringMethods = map[string]func(*Run, *args) value{
	"lower":      textFunc(strings.ToLower),
	"upper":      textFunc(strings.ToUpper),
	"casefold":   textFunc(strings.ToLower),
	"strip":      trim(true, true),
	"lstrip":     trim(true, false),
	"rstrip":     trim(false, true),
	"startswith": affix(strings.HasPrefix),
	"endswith":   affix(strings.HasSuffix),
	"capitalize": textFunc(func(s string) string {
		return strings.ToUpper(s[:min(1, len(s))]) + strings.ToLower(s[min(1, len(s)):])
	}),
	"title": notKnown("title"),
	"isalpha": onASCII(func(s string) value {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !unicode.IsLetter(c) }) < 0
	}),
	"isalnum": onASCII(func(s string) value {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsNumber(c) }) < 0
	}),
	"isspace": onASCII(func(s string) value { return s != "" && strings.TrimSpace(s) == "" }),
	"isnumeric": onASCII(func(s string) value {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !unicode.IsNumber(c) }) < 0
	}),
	"isdecimal": onASCII(func(s string) value {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !unicode.IsDigit(c) }) < 0
	}),
	"ljust": padded('<'),
	"rjust": padded('>'),
	"zfill": onText(func(s string, a *args) value {
		n, _ := a.get(0, "")
		width, ok := n.(int64)
		if !ok || width > maxWidth {
			return unknownf("a text")
		}
		sign := ""
		if s != "" && (s[0] == '-' || s[0] == '+') {
			sign, s = s[:1], s[1:]
		}
		return spec{fill: '0', align: '=', width: int(width)}.pad(sign, s)
	}),
	"isdigit": onASCII(func(s string) value {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !unicode.IsDigit(c) }) < 0
	}),
	"isidentifier": onASCII(func(s string) value {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }) < 0 && !unicode.IsDigit(rune(s[0]))
	}),
	"isupper": onASCII(func(s string) value { return s != strings.ToLower(s) && s == strings.ToUpper(s) }),
	"islower": onASCII(func(s string) value { return s != strings.ToUpper(s) && s == strings.ToLower(s) }),
	"split":   splitText,
	"rsplit": onText(func(s string, a *args) value {
		sep, ok := a.text(0, "sep")
		n, _ := a.get(1, "maxsplit")
		count, counted := n.(int64)
		if !ok || !counted || count != 1 || sep == "" {
			return unknownf("parts of a text")
		}
		if i := strings.LastIndex(s, sep); i >= 0 {
			return &list{items: []value{s[:i], s[i+len(sep):]}}
		}
		return &list{items: []value{s}}
	}),
	"splitlines": func(r *Run, a *args) value {
		return onText(func(s string, a *args) value {
			ends := false
			if v, ok := a.get(0, "keepends"); ok {
				if ends, ok = v.(bool); !ok {
					return unknownf("lines of a text")
				}
			}
			return r.own(texts(splitLines(s, ends)))
		})(r, a)
	},
	"partition": onText(func(s string, a *args) value {
		sep, ok := a.text(0, "sep")
		if !ok || sep == "" {
			return unknownf("parts of a text")
		}
		before, after, found := strings.Cut(s, sep)
		if !found {
			sep = ""
		}
		return &tuple{items: []value{before, sep, after}}
	}),
	"rpartition": onText(func(s string, a *args) value {
		sep, ok := a.text(0, "sep")
		if !ok || sep == "" {
			return unknownf("parts of a text")
		}
		i := strings.LastIndex(s, sep)
		if i < 0 {
			return &tuple{items: []value{"", "", s}}
		}
		return &tuple{items: []value{s[:i], sep, s[i+len(sep):]}}
	}),
	"join": func(r *Run, a *args) value {
		sep, ok := a.pos[0].(string)
		if !ok || len(a.pos) != 2 {
			return unknownf("a text")
		}
		items, more := r.iterate(a.pos[1])
		if more != "" {
			return unknownf("a text joined of %s", more)
		}
		var b strings.Builder
		for i, item := range items {
			t, ok := item.(string)
			if !ok || b.Len()+len(t)+len(sep) > maxText {
				return unknownf("a text joined of parts")
			}
			if i > 0 {
				b.WriteString(sep)
			}
			b.WriteString(t)
		}
		r.spend(b.Len() / 64)
		return b.String()
	},
	"replace": onText(func(s string, a *args) value {
		from, ok1 := a.text(0, "old")
		to, ok2 := a.text(1, "new")
		if !ok1 || !ok2 || len(a.pos) > 2 || (len(s)+1)*(len(to)+1) > maxText*16 {
			return unknownf("a text")
		}
		if t := strings.ReplaceAll(s, from, to); len(t) <= maxText {
			return t
		}
		return unknownf("a text that is too long")
	}),
	"find":  onText(func(s string, a *args) value { return find(s, a, strings.Index) }),
	"rfind": onText(func(s string, a *args) value { return find(s, a, strings.LastIndex) }),
	"count": onText(func(s string, a *args) value {
		t, ok := a.text(0, "")
		if !ok || len(a.pos) > 1 {
			return unknownf("a count")
		}
		return int64(strings.Count(s, t))
	}),
	"removeprefix": onText(func(s string, a *args) value { t, _ := a.text(0, ""); return strings.TrimPrefix(s, t) }),
	"removesuffix": onText(func(s string, a *args) value { t, _ := a.text(0, ""); return strings.TrimSuffix(s, t) }),
	"encode":       onText(func(s string, _ *args) value { return byteText(s) }),
	"format": func(r *Run, a *args) value {
		s, ok := a.pos[0].(string)
		if !ok {
			return unknownf("a text")
		}
		r.spend(1 + len(s)/64)
		return r.formatBraces(s, a)
	},
}

// padded makes `str.ljust` or `str.rjust`.
func padded(align byte) func(*Run, *args) value {
	return onText(func(s string, a *args) value {
		n, _ := a.get(0, "")
		width, ok := n.(int64)
		fill := " "
		if f, given := a.get(1, ""); given {
			fill, _ = f.(string)
		}
		if c := []rune(fill); ok && len(c) == 1 && width <= maxWidth {
			return spec{fill: c[0], align: align, width: int(width)}.pad("", s)
		}
		return unknownf("a text")
	})
}

func find(s string, a *args, index func(s, sub string) int) value {
	t, ok := a.text(0, "")
	if !ok || len(a.pos) > 1 {
		return unknownf("a position")
	}
	i := index(s, t)
	if i > 0 {
		i = utf8.RuneCountInString(s[:i])
	}
	return int64(i)
}

// texts returns a list of strings.
func texts(list_ []string) *list {
	l := &list{}
	for _, s := range list_ {
		l.items = append(l.items, s)
	}
	return l
}

// splitLines is str.splitlines.
func splitLines(s string, ends bool) []string {
	var lines []string
	for s != "" {
		end := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		next := len(s)
		if end < 0 {
			end = next
		} else if strings.HasPrefix(s[end:], "\r\n") {
			next = end + len("\r\n")
		} else {
			_, size := utf8.DecodeRuneInString(s[end:])
			next = end + size
		}
		if ends {
			end = next
		}
		lines = append(lines, s[:end])
		s = s[next:]
	}
	return lines
}

// splitText is str.split.
func splitText(r *Run, a *args) value {
	return onText(func(s string, a *args) value {
		n := -1
		if v, ok := a.get(1, "maxsplit"); ok {
			m, known := v.(int64)
			if !known || m > maxItems {
				return unknownf("parts of a text")
			}
			n = int(m)
		}
		sep, ok := a.text(0, "sep")
		if !ok {
			if v, given := a.get(0, "sep"); given && v != nil || n >= 0 {
				return unknownf("parts of a text")
			}
			return r.own(texts(strings.Fields(s)))
		}
		if sep == "" {
			return unknownf("parts of a text")
		}
		if n >= 0 {
			return r.own(texts(strings.SplitN(s, sep, n+1)))
		}
		return r.own(texts(strings.Split(s, sep)))
	})(r, a)
}

// own marks a new list as made now, and bounds it.
func (r *Run) own(l *list) *list {
	l.mark = r.born()
	if len(l.items) > maxItems {
		l.items, l.open = l.items[:maxItems], true
	}
	r.spend(len(l.items))
	return l
}

// format is the % operator of a string.
func (r *Run) format(s string, v value) value {
	var items []value
	t, isTuple := v.(*tuple)
	d, isDict := v.(*dict)
	switch {
	case isTuple:
		items = t.items
	default:
		items = []value{v}
	}
	var b strings.Builder
	whole := true
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		var item value
		if s[i] == '(' && isDict {
			end := strings.IndexByte(s[i:], ')')
			if end < 0 || i+end+1 >= len(s) {
				return unknownf("a formatted text")
			}
			w, ok, _ := d.get(s[i+1 : i+end])
			if !ok {
				return unknownf("a formatted text")
			}
			item = w
			i += end + 1
		} else if s[i] != '%' {
			if len(items) == 0 {
				return unknownf("a formatted text")
			}
			item, items = items[0], items[1:]
		}
		flags := s[i:]
		for i < len(s) && strings.IndexByte("-+ #0123456789.", s[i]) >= 0 {
			i++
		}
		if flags = flags[:len(flags)-len(s[i:])]; i == len(s) || !strings.ContainsRune("%srdixXof", rune(s[i])) || b.Len() > maxText {
			return beginning(&b)
		}
		if !r.formatOne(&b, flags, s[i], item) {
			b.WriteString("…")
			whole = false
		}
	}
	switch v.(type) {
	case *tuple, string, bool, int64, float64, nil:
		if len(items) > 0 {
			return unknownf("a formatted text") // TypeError: not all arguments are converted
		}
	}
	if !whole {
		return &unknown{why: "a formatted text", text: b.String()}
	}
	return b.String()
}

// beginning returns a formatted text of which the beginning is known.
func beginning(b *strings.Builder) value {
	return &unknown{why: "a formatted text", text: part(b.String())}
}

func (r *Run) formatOne(b *strings.Builder, flags string, verb byte, item value) bool {
	t, ok := "", false
	if flags != "" || strings.IndexByte("xXof", verb) >= 0 {
		if t, ok = r.formatFlags(flags, verb, item); ok {
			b.WriteString(t)
		}
		return ok
	}
	switch verb {
	case '%':
		t, ok = "%", true
	case 's':
		t, ok = r.str(item)
	case 'r':
		t, ok = r.repr(item)
	case 'd', 'i':
		var n int64
		if n, ok = item.(int64); ok {
			t = strconv.FormatInt(n, 10)
		}
	}
	if ok {
		b.WriteString(t)
	}
	return ok
}

// formatFlags formats a value as the % operator does with flags, a width or a precision.
func (r *Run) formatFlags(flags string, verb byte, item value) (string, bool) {
	rest := strings.TrimLeft(flags, "-+ #0")
	align, sign, zero := "", "", ""
	for _, c := range flags[:len(flags)-len(rest)] {
		switch c {
		case '-':
			align = "<"
		case '0':
			zero = "0"
		case '#':
			return "", false
		default:
			sign = string(c)
		}
	}
	var v value
	switch verb {
	case 's', 'r':
		t, ok := r.str(item)
		if verb == 'r' {
			t, ok = r.repr(item)
		}
		if !ok || sign != "" {
			return "", false
		}
		if v, zero = t, ""; align == "" {
			align = ">"
		}
	case 'd', 'i':
		verb, v = 'd', item
		if strings.Contains(rest, ".") {
			return "", false
		}
	case 'f':
		n, ok := number(item)
		if !ok {
			return "", false
		}
		v = n
	default:
		v = item
	}
	if align != "" {
		zero = ""
	}
	kind := string(verb)
	if verb == 'r' {
		kind = "s"
	}
	return r.formatted(v, align+sign+zero+rest+kind)
}

// formatBraces is str.format.
func (r *Run) formatBraces(s string, a *args) value {
	var b strings.Builder
	auto, whole, numbered := 1, true, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c == '{' || c == '}') && i+1 < len(s) && s[i+1] == c {
			b.WriteByte(c)
			i++
			continue
		}
		if c != '{' {
			b.WriteByte(c)
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return unknownf("a formatted text")
		}
		field, spec, _ := strings.Cut(s[i+1:i+end], ":")
		field, repr := strings.CutSuffix(strings.TrimSuffix(field, "!s"), "!r")
		if i += end; strings.ContainsAny(spec, "{") {
			return unknownf("a formatted text")
		}
		var v value
		ok := false
		if field == "" {
			v, ok = a.get(auto, "")
			auto++
		} else if n, err := strconv.Atoi(field); err == nil && n >= 0 && n < 1000 {
			v, ok = a.get(n+1, "")
			numbered = true
		} else {
			name, rest, dotted := strings.Cut(field, ".")
			v, ok = a.kw[name]
			if ok && dotted {
				v = r.getattr(v, rest)
			}
		}
		if repr && ok {
			var text string
			if text, ok = r.repr(v); ok {
				v = text
			}
		}
		t, known := r.formatted(v, spec)
		if b.Len()+len(t) > maxText {
			return unknownf("a formatted text")
		}
		if !ok || !known {
			t, whole = "…", false
		}
		b.WriteString(t)
	}
	if numbered && auto > 1 {
		return unknownf("a formatted text") // ValueError
	}
	if !whole {
		return &unknown{why: "a formatted text", text: b.String()}
	}
	return b.String()
}

func decode(_ *Run, a *args) value {
	if s, ok := a.pos[0].(byteText); ok {
		return string(s)
	}
	return unknownf("a text")
}

// onList makes a method of lists that changes its list.
func onList(f func(r *Run, l *list, a *args) value) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		l, ok := a.pos[0].(*list)
		if !ok {
			return unknownf("a list")
		}
		r.change(l)
		r.spend(len(l.items) / 16)
		b := *a
		b.pos = a.pos[1:]
		if len(l.items) > maxItems {
			l.open = true
			return nil
		}
		return f(r, l, &b)
	}
}

var listMethods = map[string]func(*Run, *args) value{
	"append": onList(func(_ *Run, l *list, a *args) value {
		v, _ := a.get(0, "")
		l.items = append(slices.Clip(l.items), v)
		return nil
	}),
	"extend": onList(func(r *Run, l *list, a *args) value {
		v, _ := a.get(0, "")
		r.extend(l, v)
		return nil
	}),
	"insert": onList(func(_ *Run, l *list, a *args) value {
		i, _ := a.get(0, "")
		v, _ := a.get(1, "")
		n, ok := i.(int64)
		if n < 0 {
			n = max(0, n+int64(len(l.items)))
		}
		if !ok {
			l.open = true
			return nil
		}
		l.items = slices.Insert(slices.Clone(l.items), int(min(n, int64(len(l.items)))), v)
		return nil
	}),
	"remove": onList(func(r *Run, l *list, a *args) value {
		v, _ := a.get(0, "")
		for i, item := range l.items {
			eq, known := r.equal(item, v)
			if eq {
				l.items = slices.Delete(slices.Clone(l.items), i, i+1)
				return nil
			}
			if !known {
				l.open = true
				return nil
			}
		}
		if !l.open {
			r.guess("ValueError", "list.remove(x): x not in list")
		}
		return nil
	}),
	"pop": onList(func(r *Run, l *list, a *args) value {
		i, ok := a.get(0, "")
		if !ok {
			i = int64(-1)
		}
		n, known := i.(int64)
		if known && n < 0 && !l.open {
			n += int64(len(l.items))
		}
		if !known || n < 0 || n >= int64(len(l.items)) {
			if !l.open && known {
				r.guess("IndexError", "pop from empty list")
			}
			l.open = true
			return unknownf("an item")
		}
		v := l.items[n]
		l.items = slices.Delete(slices.Clone(l.items), int(n), int(n)+1)
		return v
	}),
	"clear": onList(func(_ *Run, l *list, _ *args) value { l.items, l.open = nil, false; return nil }),
	"sort": onList(func(r *Run, l *list, a *args) value {
		l.items, l.open = r.sorted(l.items, a, l.open)
		l.mixed = l.mixed || l.open
		return nil
	}),
	"reverse": onList(func(_ *Run, l *list, _ *args) value {
		l.items = slices.Clone(l.items)
		slices.Reverse(l.items)
		return nil
	}),
	"copy": func(r *Run, a *args) value {
		items, more := r.iterate(a.pos[0])
		return &list{mark: r.born(), items: items, open: more != ""}
	},
	"index": indexOf,
	"count": countOf,
}

func countOf(r *Run, a *args) value {
	v, _ := a.get(1, "")
	items, more := r.iterate(a.pos[0])
	n := int64(0)
	for _, item := range items {
		eq, known := r.equal(item, v)
		if !known {
			return unknownf("a count")
		}
		if eq {
			n++
		}
	}
	if more != "" {
		return unknownf("a count")
	}
	return n
}

func indexOf(r *Run, a *args) value {
	v, _ := a.get(1, "")
	items, more := r.iterate(a.pos[0])
	for i, item := range items {
		eq, known := r.equal(item, v)
		if eq {
			return int64(i)
		}
		if !known {
			return unknownf("a position")
		}
	}
	if more == "" {
		r.guess("ValueError", "the value is not in list")
	}
	return unknownf("a position")
}

// sorted returns sorted items; open is true if their order is not known.
func (r *Run) sorted(items []value, a *args, open bool) ([]value, bool) {
	items = slices.Clone(items)
	r.spend(len(items) * 8)
	keys := items
	if key, ok := a.kw["key"]; ok && key != nil {
		keys = r.keys(key, items, open)
	}
	if open || r.raised != nil {
		return items, open
	}
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	reverse := false
	if rev, ok := a.kw["reverse"]; ok {
		reverse, _ = truth(rev)
	}
	slices.SortStableFunc(order, func(x, y int) int {
		if reverse {
			x, y = y, x // equal items keep their order
		}
		c, known := r.order(keys[x], keys[y], 0)
		if !known {
			open = true
		}
		return c
	})
	list := make([]value, len(items))
	for i, at := range order {
		list[i] = items[at]
	}
	return list, open
}

// keys returns the keys of items by which a sort orders them. Their function may import what it asks
// (charset_normalizer).
func (r *Run) keys(f value, items []value, open bool) []value {
	keys := make([]value, len(items))
	for i, item := range items {
		keys[i] = unknownf("the key of an item")
		if r.raised == nil && r.step() {
			keys[i] = r.call(f, &args{pos: []value{item}})
		}
	}
	if open && len(items) == 0 && r.raised == nil {
		r.either("the items of a sorted list", func() flow {
			r.call(f, &args{pos: []value{unknownf("an item of a sorted list")}})
			return next
		}, func() flow { return next })
	}
	return keys
}

var dictMethods = map[string]func(*Run, *args) value{
	"get": onDict(func(r *Run, d *dict, a *args) value {
		key, _ := a.get(0, "")
		v, ok, known := d.get(key)
		switch {
		case ok:
			return v
		case !known:
			return unknownf("an item of a dict")
		}
		r.readsNothing(d)
		v, _ = a.get(1, "default")
		return v
	}),
	"keys": func(r *Run, a *args) value { return r.viewOf("dict_keys", r.listOf(a.pos[0])) },
	"values": onDict(func(r *Run, d *dict, _ *args) value {
		return r.viewOf("dict_values", r.pairsOf(d, func(p pair) value { return p.value }))
	}),
	"items": onDict(func(r *Run, d *dict, _ *args) value {
		return r.viewOf("dict_items", r.pairsOf(d, func(p pair) value { return &tuple{items: []value{p.key, p.value}} }))
	}),
	"setdefault": onDict(func(r *Run, d *dict, a *args) value {
		key, _ := a.get(0, "")
		v, ok, known := d.get(key)
		if ok {
			return v
		}
		v, _ = a.get(1, "")
		if !known {
			v = unknownf("an item of a dict")
		}
		r.setKey(d, key, v)
		return v
	}),
	"update": onDict(func(r *Run, d *dict, a *args) value {
		for _, v := range a.pos {
			r.update(d, v)
		}
		for _, k := range sortedKeys(a.kw) {
			r.setKey(d, k, a.kw[k])
		}
		d.open = d.open || a.open
		return nil
	}),
	"pop": onDict(func(r *Run, d *dict, a *args) value {
		key, _ := a.get(0, "")
		v, ok, known := d.get(key)
		if ok {
			r.unsetKey(d, key)
			return v
		}
		if !known {
			return unknownf("an item of a dict")
		}
		v, given := a.get(1, "")
		if !given {
			t, _ := repr(key)
			r.guess("KeyError", t)
		}
		return v
	}),
	"copy": onDict(func(r *Run, d *dict, _ *args) value {
		c := r.newDict()
		r.update(c, d)
		return c
	}),
	"popitem": onDict(func(r *Run, d *dict, a *args) value {
		n := len(d.pairs)
		if d.open || a.open {
			return unknownf("an item of a dict")
		}
		if n == 0 {
			r.guess("KeyError", "'popitem(): dictionary is empty'")
			return unknownf("an item of a dict")
		}
		p := d.pairs[n-1]
		if last, given := a.get(0, "last"); given && last == false {
			p = d.pairs[0]
		}
		r.unsetKey(d, p.key)
		return &tuple{items: []value{p.key, p.value}}
	}),
	"move_to_end": onDict(func(r *Run, d *dict, a *args) value {
		key, _ := a.get(0, "key")
		v, ok, _ := d.get(key)
		if last, given := a.get(1, "last"); !ok || given && last != true {
			r.change(d)
			d.open = true
			return nil
		}
		r.unsetKey(d, key)
		r.setKey(d, key, v)
		return nil
	}),
	"clear": onDict(func(r *Run, d *dict, _ *args) value {
		r.change(d)
		d.pairs, d.open = nil, false
		d.reindex()
		return nil
	}),
}

func onDict(f func(r *Run, d *dict, a *args) value) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		d, ok := a.pos[0].(*dict)
		if !ok {
			return unknownf("a dict")
		}
		b := *a
		b.pos = a.pos[1:]
		return f(r, d, &b)
	}
}

// listOf returns a list of the items of an iterable.
func (r *Run) listOf(v value) *list {
	items, more := r.iterate(v)
	return &list{mark: r.born(), items: items, open: more != ""}
}

// viewOf marks a new list as a view of a dict, which compares and prints otherwise.
func (r *Run) viewOf(name string, l *list) *list {
	l.of = r.typeClass(name)
	return l
}

func (r *Run) pairsOf(d *dict, f func(pair) value) *list {
	l := &list{mark: r.born(), open: d.open}
	r.spend(len(d.pairs))
	for _, p := range d.pairs {
		l.items = append(l.items, f(p))
	}
	return l
}

func onSet(f func(r *Run, s *set, a *args)) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		s, ok := a.pos[0].(*set)
		if !ok {
			return unknownf("a set")
		}
		r.change(s)
		b := *a
		b.pos = a.pos[1:]
		f(r, s, &b)
		return nil
	}
}

var setMethods = map[string]func(*Run, *args) value{
	"add": onSet(func(r *Run, s *set, a *args) {
		r.spend(len(s.items))
		if len(s.items) > maxItems {
			s.open = true
			return
		}
		n := r.newSet(append(slices.Clip(s.items), a.pos...), s.open || a.open)
		s.items, s.open = n.items, n.open
	}),
	"update": onSet(func(r *Run, s *set, a *args) {
		for _, v := range a.pos {
			items, more := r.iterate(v)
			if len(s.items)+len(items) > maxItems {
				s.open = true
				return
			}
			n := r.newSet(slices.Concat(s.items, items), s.open || more != "")
			s.items, s.open = n.items, n.open
		}
		s.open = s.open || a.open
	}),
	"discard": onSet(func(r *Run, s *set, a *args) {
		other, _ := a.get(0, "")
		s.items = slices.DeleteFunc(slices.Clone(s.items), func(v value) bool { eq, _ := r.equal(v, other); return eq })
	}),
	"remove": onSet(func(r *Run, s *set, a *args) {
		other, _ := a.get(0, "")
		n := len(s.items)
		s.items = slices.DeleteFunc(slices.Clone(s.items), func(v value) bool { eq, _ := r.equal(v, other); return eq })
		if t, known := repr(other); n == len(s.items) && !s.open && known {
			r.guess("KeyError", t)
		}
	}),
	"clear":        onSet(func(_ *Run, s *set, _ *args) { s.items, s.open = nil, false }),
	"difference":   setMethod("-"),
	"intersection": setMethod("&"),
	"issubset":     setRelation("<="),
	"issuperset":   setRelation(">="),
	"isdisjoint": func(r *Run, a *args) value {
		v := setMethod("&")(r, a)
		if s, ok := v.(*set); ok && !s.open {
			return len(s.items) == 0
		}
		return unknownf("a comparison")
	},
	"copy": func(r *Run, a *args) value { items, more := r.iterate(a.pos[0]); return r.newSet(items, more != "") },
	"union": func(r *Run, a *args) value {
		s := r.newSet(nil, a.open)
		for _, v := range a.pos {
			items, more := r.iterate(v)
			s = r.newSet(slices.Concat(s.items, items), s.open || more != "")
		}
		return s
	},
}

// setMethod makes a method of sets from an operator, whose right operand may be any iterable.
func setMethod(op string) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		var v value = a.pos[0]
		for _, other := range a.pos[1:] {
			items, more := r.iterate(other)
			v = r.binary(op, v, r.newSet(items, more != ""))
		}
		return v
	}
}

// setRelation makes a method of sets from a comparison.
func setRelation(op string) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		if len(a.pos) == 2 {
			items, more := r.iterate(a.pos[1])
			if is, known := r.relation(op, a.pos[0], r.newSet(items, more != "")); known {
				return is
			}
		}
		return unknownf("a comparison")
	}
}

var environMethods = map[string]func(*Run, *args) value{
	"get":        getenv,
	"setdefault": environSetDefault,
	"pop": func(r *Run, a *args) value {
		e := a.pos[0].(*environ)
		name, ok := a.text(1, "")
		if !ok {
			r.openUp(e.vars, "a variable that is removed")
			return unknownf("a variable")
		}
		v, ok := e.get(name)
		if !ok {
			d, given := a.get(2, "")
			if !given {
				r.raise("KeyError", quote(name))
			}
			return d
		}
		r.unset(e.vars, name)
		return v
	},
	"update": func(r *Run, a *args) value {
		e := a.pos[0].(*environ)
		d := r.newDict()
		d.open = a.open
		for _, v := range a.pos[1:] {
			r.update(d, v)
		}
		for _, p := range d.pairs {
			e.setItem(r, p.key, p.value)
		}
		for _, k := range sortedKeys(a.kw) {
			e.setItem(r, k, a.kw[k])
		}
		if d.open {
			r.openUp(e.vars, "variables that are not known")
		}
		return nil
	},
	"copy": func(r *Run, a *args) value {
		e := a.pos[0].(*environ)
		d := r.newDict()
		d.open = a.open
		for _, name := range e.vars.order {
			r.setKey(d, name, e.vars.m[name])
		}
		d.open = e.vars.open != ""
		return d
	},
	"items": func(r *Run, a *args) value {
		return &list{mark: r.born(), open: true}
	},
	"keys":   func(r *Run, a *args) value { return r.viewOf("dict_keys", r.listOf(a.pos[0])) },
	"values": func(r *Run, _ *args) value { return &list{mark: r.born(), open: true} },
}

func getenv(r *Run, a *args) value {
	e, ok := a.pos[0].(*environ)
	name, known := a.text(1, "key")
	if !ok || !known {
		return unknownf("a variable")
	}
	v, ok := e.get(name)
	if !ok {
		if v, _ = a.get(2, "default"); v == nil || v == "" {
			r.lacks(name)
		}
	}
	return v
}

func environSetDefault(r *Run, a *args) value {
	e, ok := a.pos[0].(*environ)
	name, known := a.text(1, "")
	if !ok || !known {
		return unknownf("a variable")
	}
	v, ok := e.get(name)
	if !ok {
		v, _ = a.get(2, "")
		e.setItem(r, name, v)
	}
	return v
}

var modulesMethods = map[string]func(*Run, *args) value{
	"get": func(r *Run, a *args) value {
		s := a.pos[0].(*sysModules)
		name, ok := a.text(1, "")
		if !ok {
			return unknownf("a module")
		}
		is, known := s.has(r, name)
		switch {
		case !known:
			return unknownf("the module %s", name)
		case is:
			return s.item(r, name)
		}
		v, _ := a.get(2, "")
		return v
	},
	"setdefault": func(r *Run, a *args) value {
		s := a.pos[0].(*sysModules)
		name, ok := a.text(1, "")
		if !ok {
			return unknownf("a module")
		}
		if is, known := s.has(r, name); is && known {
			return s.item(r, name)
		}
		v, _ := a.get(2, "")
		s.setItem(r, name, v)
		return v
	},
	"pop": func(r *Run, a *args) value {
		if name, ok := a.text(1, ""); ok {
			r.unset(r.modules, name)
		}
		return unknownf("a module")
	},
	"update": func(r *Run, a *args) value {
		d := r.newDict()
		for _, v := range a.pos[1:] {
			r.update(d, v)
		}
		for _, p := range d.pairs {
			if name, ok := p.key.(string); ok {
				r.set(r.modules, name, p.value)
			}
		}
		return nil
	},
	"keys": func(r *Run, a *args) value { return r.listOf(a.pos[0]) },
	"copy": func(r *Run, _ *args) value { return unknownf("a copy of sys.modules") },
}

var globalsMethods = map[string]func(*Run, *args) value{
	"update": func(r *Run, a *args) value {
		d := r.newDict()
		d.open = a.open
		for _, v := range a.pos[1:] {
			if from, ok := v.(*moduleDict); ok {
				for _, name := range from.of.names.order {
					r.setKey(d, name, from.of.names.m[name])
				}
				d.open = d.open || from.of.names.open != ""
				continue
			}
			r.update(d, v)
		}
		m := a.pos[0].(*moduleDict).of
		for _, p := range d.pairs {
			if name, ok := p.key.(string); ok {
				r.setGlobal(m, name, p.value)
			}
		}
		for _, k := range sortedKeys(a.kw) {
			r.setGlobal(m, k, a.kw[k])
		}
		if d.open {
			r.openUp(m.names, "globals()")
		}
		return nil
	},
	"get": func(r *Run, a *args) value {
		m := a.pos[0].(*moduleDict).of
		name, ok := a.text(1, "")
		if !ok {
			return unknownf("a name")
		}
		if v, ok := m.names.get(name); ok {
			return v
		}
		if m.names.open != "" {
			return unknownf("the name %s", name)
		}
		v, _ := a.get(2, "")
		return v
	},
	"pop": func(r *Run, a *args) value {
		m := a.pos[0].(*moduleDict).of
		name, ok := a.text(1, "")
		if !ok {
			return unknownf("a name")
		}
		v, ok := m.names.get(name)
		if !ok {
			return unknownf("the name %s", name)
		}
		r.unset(m.names, name)
		return v
	},
	"setdefault": func(r *Run, a *args) value {
		m := a.pos[0].(*moduleDict).of
		if name, ok := a.text(1, ""); ok {
			if v, ok := m.names.get(name); ok {
				return v
			}
			v, _ := a.get(2, "")
			r.setGlobal(m, name, v)
			return v
		}
		return unknownf("a name")
	},
	"keys": func(r *Run, a *args) value { return r.listOf(a.pos[0]) },
	"copy": func(r *Run, a *args) value { return r.globalsDict(a.pos[0].(*moduleDict)) },
	"items": func(r *Run, a *args) value {
		return r.pairsOf(r.globalsDict(a.pos[0].(*moduleDict)), func(p pair) value { return &tuple{items: []value{p.key, p.value}} })
	},
	"values": func(r *Run, a *args) value {
		return r.pairsOf(r.globalsDict(a.pos[0].(*moduleDict)), func(p pair) value { return p.value })
	},
}

// classDict is the namespace of a class as a dict.
func (r *Run) classDict(c *class) *dict {
	d := r.newDict()
	for _, name := range c.attrs.order {
		if name != "__name__" && name != "__qualname__" { // which type keeps apart
			r.setKey(d, name, c.attrs.m[name])
		}
	}
	return d
}

func (r *Run) globalsDict(m *moduleDict) *dict {
	d := r.newDict()
	for _, name := range m.of.names.order {
		r.setKey(d, name, m.of.names.m[name])
	}
	d.open = m.of.names.open != ""
	return d
}
