package explain

import "strings"

// Limits of the search by words, which is made if no pattern matches.
const (
	maxWordHits = 8
	maxWordLine = 4 << 10 // bytes read of a line
)

// byWords returns the lines of a text in lower case that have words of the packs' texts.
func (x *Explainer) byWords(low string) []hit {
	var list []hit
	at := 0
	for line := range strings.Lines(low) {
		part := spaced.Replace(line[:min(len(line), maxWordLine)])
		quiet := hasWord(part, quietWords) && !hasWord(part, loudWords)
		for i := range x.texts {
			t := &x.texts[i]
			if len(t.words) > 0 && !quiet && hasWords(part, t.words) {
				list = append(list, hit{tier: x.tier(t), order: i, at: at, text: t, captures: map[string]string{}})
			}
		}
		if len(list) >= maxWordHits {
			break
		}
		at += len(line)
	}
	return list
}

// quietWords mark lines of logs that report no error, unless they have one of loudWords.
var (
	quietWords = []string{"info", "debug"}
	loudWords  = []string{"error", "fail", "unable", "cannot", "could not"}
)

// spaced separates the words of names: CUDA_ERROR_NO_DEVICE, flash-attn.
var spaced = strings.NewReplacer("_", " ", "-", " ")

// hasWords reports whether a line has a word of each list.
func hasWords(line string, lists [][]string) bool {
	for _, words := range lists {
		if !hasWord(line, words) {
			return false
		}
	}
	return true
}

// shortWord is the length of words that count only where a word begins.
const shortWord = 4

// hasWord reports whether a line has one of the words.
func hasWord(line string, words []string) bool {
	for _, w := range words {
		for from := 0; ; {
			i := strings.Index(line[from:], w)
			if i < 0 {
				break
			}
			at := from + i
			if at == 0 || len(w) > shortWord || !isWord(w[0]) || !isWord(line[at-1]) {
				return true
			}
			from = at + 1
		}
	}
	return false
}
