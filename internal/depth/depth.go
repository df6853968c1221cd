// Package depth bounds how deeply the brackets of a document nest, and how many values it has,
// before a parser that calls itself for each, or makes a tree of them, reads it. It does not
// know formats: brackets and commas in strings count as well.
package depth

import "bytes"

// Exceeds reports whether more than most brackets, [ or {, are open at one place of a text.
func Exceeds(text []byte, most int) bool {
	depth := 0
	for _, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		if depth > most {
			return true
		}
	}
	return false
}

// DottedExceeds reports whether the dotted keys of a TOML document cost more than most: the
// squares of the parts of each key, with those of its table, summed over the keys with more
// than five. A parser makes the key's path and all its beginnings.
func DottedExceeds(text []byte, most int) bool {
	cost, table := 0, 0
	for len(text) > 0 {
		line := text
		if n := bytes.IndexByte(text, '\n'); n >= 0 {
			line, text = text[:n], text[n+1:]
		} else {
			text = nil
		}
		parts := dots(line)
		if trimmed := bytes.TrimLeft(line, " \t"); len(trimmed) > 0 && trimmed[0] == '[' {
			table = parts
		} else {
			parts += table
		}
		if parts > 4 {
			cost += (parts + 1) * (parts + 1)
		}
		if cost > most {
			return true
		}
	}
	return false
}

// dots counts the dots of a line outside of quotes.
func dots(line []byte) int {
	n := 0
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote == c:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '.':
			n++
		}
	}
	return n
}

// MaxDotted is the cost of dotted keys that callers allow: some 50 MB in the parser.
const MaxDotted = 1_000_000

// ValuesExceed reports whether a text of YAML or TOML may have more than most values: commas,
// opening brackets, ends of lines, and the signs of YAML's lists and mappings are counted. A
// parser takes some hundred bytes for each.
func ValuesExceed(text []byte, most int) bool {
	n := 0
	for i, c := range text {
		switch c {
		case ',', '[', '{', '\n':
			n++
		case '-', '?', ':':
			if i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\t') {
				n++
			}
		}
		if n > most {
			return true
		}
	}
	return false
}
