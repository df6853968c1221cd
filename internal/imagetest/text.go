package imagetest

import (
	"cmp"
	"debug/elf"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ParseELF reads the text form of an ELF file: a first line, then one directive a line. It skips blank lines and lines that
// begin with #.
//
//	elf MACHINE [soname=NAME] [interp=PATH] [type=exec] [execstack] [nognustack] [nosections] [nodynamic] [tables=end] [dynstr=after]
//	needed NAME                the dynamic section, in the order of the text
//	auxiliary NAME
//	filter NAME
//	rpath [TEXT]               without TEXT, the tag is empty
//	runpath [TEXT]
//	flags now ...              origin, symbolic, textrel, now, static_tls or a number
//	flags1 pie ...             now, global, group, nodelete, initfirst, noopen, origin, interpose, nodeflib, pie or a number
//	verneed FILE VERSION ...   VERSION? is weak
//	verdef BASE VERSION ...    BASE is usually the SONAME
//	def NAME[@@VERSION] [func|object|tls] [weak] [hidden|protected] [called] [load]   NAME@VERSION is not the default version; called: the object itself calls it
//	undef NAME[@VERSION] [func|data|tls] [weak] [load] [from=FILE]      functions are bound lazily; data and "load" are bound at load
//	statictls SIZE             a thread-local block of the object, which the initial-exec model reaches
//	isa NUMBER                 GNU_PROPERTY_X86_ISA_1_NEEDED
//	dlopen JSON                .note.dlopen
//	abitag 3.2.0               .note.ABI-tag
//	rodata "QUOTED"            quoted as in Go; several are joined
//	gpu [section=NAME] [count=N] ENTRY ...   containers of GPU code: sm_75, sm_90a/zstd, compute_90@8.4, lto_75
//	pad SIZE                   zero bytes before the segment of the dynamic section: 100, 64KiB, 17MiB, 1GiB
//	gap SIZE                   with tables=end: zero bytes between the string table and the dynamic section
//
// MACHINE is x86_64, aarch64, i386, ppc64le, riscv64 or a number.
func ParseELF(text string) (*ELF, error) {
	e := &ELF{}
	lines := strings.Split(text, "\n")
	if err := e.parseHeader(strings.Fields(lines[0])); err != nil {
		return nil, fmt.Errorf("parsing ELF text: line 1: %w", err)
	}
	for i, line := range lines[1:] {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := e.parseLine(line); err != nil {
			return nil, fmt.Errorf("parsing ELF text: line %d: %w", i+2, err)
		}
	}
	if err := e.Validate(); err != nil {
		return nil, fmt.Errorf("parsing ELF text: %w", err)
	}
	return e, nil
}

var headerFlags = []struct {
	word string
	at   func(*ELF) *bool
}{
	{"execstack", func(e *ELF) *bool { return &e.ExecStack }},
	{"nognustack", func(e *ELF) *bool { return &e.NoGNUStack }},
	{"nosections", func(e *ELF) *bool { return &e.NoSections }},
	{"nodynamic", func(e *ELF) *bool { return &e.NoDynamic }},
	{"tables=end", func(e *ELF) *bool { return &e.TablesAtEnd }},
	{"dynstr=after", func(e *ELF) *bool { return &e.DynstrAfter }},
}

func (e *ELF) parseHeader(words []string) error {
	if len(words) < 2 || words[0] != "elf" {
		return fmt.Errorf("want %q", "elf MACHINE ...")
	}
	var err error
	if e.Machine, err = parseMachine(words[1]); err != nil {
		return err
	}
	for _, word := range words[2:] {
		if err := e.parseHeaderWord(word); err != nil {
			return err
		}
	}
	return nil
}

func (e *ELF) parseHeaderWord(word string) error {
	for _, flag := range headerFlags {
		if flag.word == word {
			*flag.at(e) = true
			return nil
		}
	}
	key, value, _ := strings.Cut(word, "=")
	switch {
	case value == "":
	case key == "soname":
		e.Soname = value
		return nil
	case key == "interp":
		e.Interp = value
		return nil
	case word == "type=exec":
		e.Type = elf.ET_EXEC
		return nil
	case word == "type=dyn":
		e.Type = elf.ET_DYN
		return nil
	}
	return fmt.Errorf("unknown word %q", word)
}

func parseMachine(word string) (elf.Machine, error) {
	for m, a := range arches {
		if a.name == word {
			return m, nil
		}
	}
	n, err := strconv.ParseUint(word, 0, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("unknown machine %q: want x86_64, aarch64, i386, ppc64le, riscv64 or an e_machine number", word)
	}
	return elf.Machine(n), nil
}

// directives maps the first word of a line to its reader. All but those in mayBeEmpty need an argument.
var directives = map[string]func(e *ELF, arg string) error{
	"needed":    func(e *ELF, arg string) error { e.Needed = append(e.Needed, arg); return nil },
	"auxiliary": func(e *ELF, arg string) error { e.Auxiliary = append(e.Auxiliary, arg); return nil },
	"filter":    func(e *ELF, arg string) error { e.Filter = append(e.Filter, arg); return nil },
	"rpath":     func(e *ELF, arg string) error { e.Rpath = &arg; return nil },
	"runpath":   func(e *ELF, arg string) error { e.Runpath = &arg; return nil },
	"flags":     func(e *ELF, arg string) error { return parseFlags(&e.Flags, arg, flagNames) },
	"flags1":    func(e *ELF, arg string) error { return parseFlags(&e.Flags1, arg, flag1Names) },
	"verneed":   (*ELF).parseVerneed,
	"verdef":    func(e *ELF, arg string) error { e.VerDefs = append(e.VerDefs, strings.Fields(arg)...); return nil },
	"def":       (*ELF).parseDef,
	"undef":     (*ELF).parseUndef,
	"statictls": func(e *ELF, arg string) error { return parseSizeTo(&e.StaticTLS, arg) },
	"isa":       (*ELF).parseISA,
	"dlopen":    func(e *ELF, arg string) error { e.Dlopen = arg; return nil },
	"abitag":    (*ELF).parseABITag,
	"rodata":    (*ELF).parseRodata,
	"gpu":       (*ELF).parseGPU,
	"pad":       func(e *ELF, arg string) error { return parseSizeTo(&e.Pad, arg) },
	"tail":      func(e *ELF, arg string) error { return parseSizeTo(&e.Tail, arg) },
	"gap":       func(e *ELF, arg string) error { return parseSizeTo(&e.Gap, arg) },
}

var mayBeEmpty = map[string]bool{"rpath": true, "runpath": true}

func (e *ELF) parseLine(line string) error {
	word, arg := cutWord(line)
	parse, ok := directives[word]
	if !ok {
		return fmt.Errorf("unknown directive %q", word)
	}
	if arg == "" && !mayBeEmpty[word] {
		return fmt.Errorf("%s: nothing follows", word)
	}
	if err := parse(e, arg); err != nil {
		return fmt.Errorf("%s: %w", word, err)
	}
	return nil
}

// cutWord splits a line into its first word and the rest, and trims both.
func cutWord(line string) (word, rest string) {
	line = strings.TrimSpace(line)
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.TrimSpace(line[i:])
}

var flagNames = map[string]uint64{
	"origin":     uint64(elf.DF_ORIGIN),
	"symbolic":   uint64(elf.DF_SYMBOLIC),
	"textrel":    uint64(elf.DF_TEXTREL),
	"now":        uint64(elf.DF_BIND_NOW),
	"static_tls": uint64(elf.DF_STATIC_TLS),
}

var flag1Names = map[string]uint64{
	"now":       uint64(elf.DF_1_NOW),
	"global":    uint64(elf.DF_1_GLOBAL),
	"group":     uint64(elf.DF_1_GROUP),
	"nodelete":  uint64(elf.DF_1_NODELETE),
	"initfirst": uint64(elf.DF_1_INITFIRST),
	"noopen":    uint64(elf.DF_1_NOOPEN),
	"origin":    uint64(elf.DF_1_ORIGIN),
	"interpose": uint64(elf.DF_1_INTERPOSE),
	"nodeflib":  uint64(elf.DF_1_NODEFLIB),
	"pie":       uint64(elf.DF_1_PIE),
}

func parseFlags(to *uint64, arg string, names map[string]uint64) error {
	for _, word := range strings.Fields(arg) {
		n, ok := names[word]
		if !ok {
			var err error
			if n, err = strconv.ParseUint(word, 0, 32); err != nil {
				return fmt.Errorf("unknown flag %q: want a number or one of %s", word, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
			}
		}
		*to |= n
	}
	return nil
}

func (e *ELF) parseVerneed(arg string) error {
	words := strings.Fields(arg)
	need := VerNeed{File: words[0]}
	for _, word := range words[1:] {
		name, weak := strings.CutSuffix(word, "?")
		if name == "" {
			return fmt.Errorf("version %q has no name", word)
		}
		need.Versions = append(need.Versions, Version{name, weak})
	}
	if len(need.Versions) == 0 {
		return fmt.Errorf("%q: no version follows", need.File)
	}
	e.VerNeeds = append(e.VerNeeds, need)
	return nil
}

func (e *ELF) parseDef(arg string) error {
	words := strings.Fields(arg)
	s := Symbol{Defined: true, Type: elf.STT_FUNC}
	name, version, versioned := strings.Cut(words[0], "@")
	s.Name = name
	s.Version, s.Hidden = version, versioned
	if rest, ok := strings.CutPrefix(version, "@"); ok {
		s.Version, s.Hidden = rest, false
	}
	if s.Name == "" || versioned && s.Version == "" {
		return fmt.Errorf("%q: want NAME, NAME@VERSION or NAME@@VERSION", words[0])
	}
	return e.parseSymbolWords(s, words[1:], "object")
}

func (e *ELF) parseUndef(arg string) error {
	words := strings.Fields(arg)
	name, version, versioned := strings.Cut(words[0], "@")
	if name == "" || versioned && version == "" {
		return fmt.Errorf("%q: want NAME or NAME@VERSION", words[0])
	}
	return e.parseSymbolWords(Symbol{Name: name, Version: version, Type: elf.STT_FUNC}, words[1:], "data")
}

func (e *ELF) parseSymbolWords(s Symbol, words []string, object string) error {
	for _, word := range words {
		from, isFrom := strings.CutPrefix(word, "from=")
		switch {
		case word == "func":
			s.Type = elf.STT_FUNC
		case word == object:
			s.Type = elf.STT_OBJECT
		case word == "tls":
			s.Type = elf.STT_TLS
		case word == "weak":
			s.Weak = true
		case word == "hidden" && s.Defined:
			s.Vis = elf.STV_HIDDEN
		case word == "protected" && s.Defined:
			s.Vis = elf.STV_PROTECTED
		case word == "load":
			s.Load = true
		case word == "called" && s.Defined && s.kind() == elf.STT_FUNC:
			s.Called = true
		case isFrom && !s.Defined && s.Version != "" && from != "":
			s.From = from
		default:
			return fmt.Errorf("%q: unknown word %q", s.Name, word)
		}
	}
	e.Symbols = append(e.Symbols, s)
	return nil
}

func (e *ELF) parseISA(arg string) error {
	n, err := strconv.ParseUint(arg, 0, 32)
	if err != nil {
		return fmt.Errorf("%q is not a 32-bit number", arg)
	}
	e.ISANeeded = uint32(n)
	return nil
}

func (e *ELF) parseABITag(arg string) error {
	parts := strings.Split(arg, ".")
	if len(parts) != 3 {
		return fmt.Errorf("%q: want three numbers, like 3.2.0", arg)
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return fmt.Errorf("%q: want three numbers, like 3.2.0", arg)
		}
		e.ABITag[i] = int(n)
	}
	return nil
}

func (e *ELF) parseRodata(arg string) error {
	s, err := strconv.Unquote(arg)
	if err != nil {
		return fmt.Errorf("%s is not a quoted string", arg)
	}
	e.Rodata += s
	return nil
}

func parseSizeTo(to *int64, arg string) error {
	n, err := parseSize(arg)
	*to = n
	return err
}

var units = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// parseSize reads a number of bytes, such as 4096, 17MiB or 1GiB.
func parseSize(s string) (int64, error) {
	for _, unit := range units {
		number, ok := strings.CutSuffix(s, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > maxPad/unit.size {
			break
		}
		return n * unit.size, nil
	}
	return 0, fmt.Errorf("%q is not a size like 4096, 64KiB, 17MiB or 1GiB, of at most 1024GiB", s)
}

func formatSize(n int64) string {
	for _, unit := range units {
		if n%unit.size == 0 {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	return ""
}

// Text returns the text form of e. ParseELF reads it back if e is a value that ParseELF can return.
func (e *ELF) Text() string {
	var b strings.Builder
	b.WriteString(e.header() + "\n")
	line := func(word, arg string) { b.WriteString(strings.TrimSpace(word+" "+arg) + "\n") }
	each := func(word string, args []string) {
		for _, arg := range args {
			line(word, arg)
		}
	}
	each("needed", e.Needed)
	each("auxiliary", e.Auxiliary)
	each("filter", e.Filter)
	if e.Rpath != nil {
		line("rpath", *e.Rpath)
	}
	if e.Runpath != nil {
		line("runpath", *e.Runpath)
	}
	e.textNumbers(line)
	e.textSymbols(line)
	return b.String()
}

func (e *ELF) header() string {
	words := []string{"elf", fmt.Sprintf("%#x", uint16(e.machine()))}
	if a, ok := arches[e.machine()]; ok {
		words[1] = a.name
	}
	if e.Soname != "" {
		words = append(words, "soname="+e.Soname)
	}
	if e.Interp != "" {
		words = append(words, "interp="+e.Interp)
	}
	if e.Type == elf.ET_EXEC {
		words = append(words, "type=exec")
	}
	for _, flag := range headerFlags {
		if *flag.at(e) {
			words = append(words, flag.word)
		}
	}
	return strings.Join(words, " ")
}

func (e *ELF) textNumbers(line func(word, arg string)) {
	if e.Flags != 0 {
		line("flags", formatFlags(e.Flags, flagNames))
	}
	if e.Flags1 != 0 {
		line("flags1", formatFlags(e.Flags1, flag1Names))
	}
	if e.StaticTLS != 0 {
		line("statictls", formatSize(e.StaticTLS))
	}
	if e.ISANeeded != 0 {
		line("isa", fmt.Sprintf("%#x", e.ISANeeded))
	}
	if e.Dlopen != "" {
		line("dlopen", e.Dlopen)
	}
	if e.ABITag != [3]int{} {
		line("abitag", fmt.Sprintf("%d.%d.%d", e.ABITag[0], e.ABITag[1], e.ABITag[2]))
	}
	if e.Rodata != "" {
		line("rodata", strconv.Quote(e.Rodata))
	}
	if e.Pad != 0 {
		line("pad", formatSize(e.Pad))
	}
	if e.Tail != 0 {
		line("tail", formatSize(e.Tail))
	}
	if e.Gap != 0 {
		line("gap", formatSize(e.Gap))
	}
}

func formatFlags(flags uint64, names map[string]uint64) string {
	var words []string
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Compare(names[a], names[b]) }) {
		if flags&names[name] != 0 {
			words = append(words, name)
			flags &^= names[name]
		}
	}
	if flags != 0 {
		words = append(words, fmt.Sprintf("%#x", flags))
	}
	return strings.Join(words, " ")
}

func (e *ELF) textSymbols(line func(word, arg string)) {
	for _, need := range e.VerNeeds {
		words := []string{need.File}
		for _, v := range need.Versions {
			if v.Weak {
				v.Name += "?"
			}
			words = append(words, v.Name)
		}
		line("verneed", strings.Join(words, " "))
	}
	if len(e.VerDefs) > 0 {
		line("verdef", strings.Join(e.VerDefs, " "))
	}
	for _, s := range e.Symbols {
		s.text(line)
	}
}

func (s Symbol) text(line func(word, arg string)) {
	directive, object, at := "undef", "data", "@"
	if s.Defined {
		directive, object = "def", "object"
		if !s.Hidden {
			at = "@@"
		}
	}
	words := []string{s.Name}
	if s.Version != "" {
		words[0] += at + s.Version
	}
	switch s.kind() {
	case elf.STT_OBJECT:
		words = append(words, object)
	case elf.STT_TLS:
		words = append(words, "tls")
	}
	if s.Weak {
		words = append(words, "weak")
	}
	switch s.Vis {
	case elf.STV_HIDDEN:
		words = append(words, "hidden")
	case elf.STV_PROTECTED:
		words = append(words, "protected")
	}
	if s.Called {
		words = append(words, "called")
	}
	if s.Load {
		words = append(words, "load")
	}
	if s.From != "" {
		words = append(words, "from="+s.From)
	}
	line(directive, strings.Join(words, " "))
}
