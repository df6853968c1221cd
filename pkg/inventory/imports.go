package inventory

import (
	"bytes"
	"io"
	"path"
	"strings"
	"unicode"
)

// Import is a module that a Python file names in an import statement.
type Import struct {
	// Name is dotted. A name that begins with dots is relative to the file's own package.
	// `from a import b` gives two imports, a and a.b, although a.b may not be a module.
	Name string
	// Guarded means that the statement is indented, so that it may never run.
	Guarded bool
}

const (
	maxScript  = 256 << 10 // bytes of a Python file whose imports are kept
	maxImports = 4 << 10   // bytes kept of one file
)

// moreImports stands for the imports of a file that exceed maxImports.
const moreImports = "import ?\n"

// isScript reports whether the imports of a Python file are kept: those of the image's
// own programs and those that run when a package is imported.
func isScript(name string, size int64) bool {
	if size > maxScript || !strings.HasSuffix(name, ".py") || isCopy(name) {
		return false
	}
	dir, base := path.Split(name)
	if base == "__init__.py" && strings.HasSuffix(path.Dir(path.Clean(dir)), "-packages") {
		return true
	}
	return !strings.Contains(name, "lib/python3") && !strings.Contains(name, "lib64/python3") && !strings.Contains(name, "-packages/")
}

// extractImports reduces a Python file to its import statements. [Imports] returns the
// same for both.
func extractImports(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxScript))
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, i := range Imports(b) {
		line := "import " + i.Name + "\n"
		if i.Guarded {
			line = " " + line
		}
		if len(out)+len(line)+len(moreImports) > maxImports {
			return append(out, moreImports...), nil
		}
		out = append(out, line...)
	}
	return out, nil
}

// Imports returns the imports of a Python file, in the order of its text. Text that is
// not Python gives no error and no useful result.
func Imports(b []byte) []Import {
	var list []Import
	for _, s := range statements(b) {
		text := strings.TrimLeft(s, " \t\f")
		guarded := len(text) < len(s)
		if names, ok := cutWord(text, "import"); ok {
			for name := range strings.SplitSeq(names, ",") {
				list = addImport(list, firstWord(name), guarded)
			}
		} else if rest, ok := cutWord(text, "from"); ok {
			module, names, ok := strings.Cut(rest, "import")
			if module = strings.ReplaceAll(strings.TrimSpace(module), " ", ""); !ok || module == "" {
				continue
			}
			list = addImport(list, module, guarded)
			for name := range strings.SplitSeq(strings.Trim(strings.TrimSpace(names), "()"), ",") {
				if name = firstWord(name); name != "" && name != "*" {
					list = addImport(list, strings.TrimSuffix(module, ".")+"."+name, guarded)
				}
			}
		}
	}
	return list
}

func addImport(list []Import, name string, guarded bool) []Import {
	known := strings.Trim(name, ".") != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '.' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if !known && name != "?" { // as in moreImports
		return list
	}
	return append(list, Import{name, guarded})
}

// cutWord cuts off a keyword that a blank follows.
func cutWord(s, word string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(s, word)
	return strings.TrimLeft(rest, " \t"), ok && rest != "" && strings.ContainsRune(" \t", rune(rest[0]))
}

func firstWord(s string) string {
	if words := strings.Fields(s); len(words) > 0 {
		return words[0]
	}
	return ""
}

// statements splits a Python file into its simple statements, each with the blanks before
// it, without comments and without the contents of strings
// (docs.python.org/3/reference/lexical_analysis.html).
func statements(b []byte) []string {
	var list []string
	var line []byte
	indent, depth := "", 0
	end := func(next string) {
		if s := strings.TrimSpace(string(line)); s != "" {
			list = append(list, indent+s)
		}
		line, indent = line[:0], next
	}
	for i, start := 0, true; i < len(b); i++ {
		c := b[i]
		if start && (c == ' ' || c == '\t' || c == '\f') {
			indent = " "
			continue
		}
		start = false
		switch {
		case c == '#':
			if n := bytes.IndexByte(b[i:], '\n'); n >= 0 {
				i += n - 1
			} else {
				i = len(b)
			}
		case c == '"' || c == '\'':
			i = afterString(b, i) - 1
			line = append(line, '"')
		case c == '\\' && i+1 < len(b) && (b[i+1] == '\n' || b[i+1] == '\r'):
			i++
			line = append(line, ' ')
		case (c == '\n' || c == '\r') && depth == 0:
			end("")
			start = true
		case c == ';' && depth == 0:
			end(indent)
		case c == '\n' || c == '\r' || c == '\t':
			line = append(line, ' ')
		default:
			if strings.IndexByte("([{", c) >= 0 {
				depth++
			} else if strings.IndexByte(")]}", c) >= 0 && depth > 0 {
				depth--
			}
			line = append(line, c)
		}
	}
	end("")
	return list
}

// afterString returns the index after the string that begins at i. A string without an
// end goes to the end of the line, or of the file if it has three quotes.
func afterString(b []byte, i int) int {
	quote := b[i : i+1]
	if long := bytes.Repeat(quote, 3); bytes.HasPrefix(b[i:], long) {
		quote = long
	}
	for j := i + len(quote); j < len(b); j++ {
		switch {
		case b[j] == '\\':
			j++
		case bytes.HasPrefix(b[j:], quote):
			return j + len(quote)
		case b[j] == '\n' && len(quote) == 1:
			return j
		}
	}
	return len(b)
}
