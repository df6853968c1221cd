// Package depth bounds how deeply the brackets of a document nest, before a parser that calls
// itself for each reads it. It does not know formats: brackets in strings count as well.
package depth

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
