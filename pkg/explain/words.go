package explain

import (
	"regexp"
	"slices"
	"strings"
)

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
		quiet := !hasWord(part, loudWords) && (hasWord(part, quietWords) || hasWord(part, warningWords) && !hasWord(part, faultWords)) || command(part)
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

// compilerOptions are options of compilers of which a line with two is a command.
var compilerOptions = []string{" fpic", " gencode arch=", " std=c++", " isystem ", " o3 ", " expt relaxed constexpr", " dtorch extension name=", " generate dependencies with compile", " include "}

// command reports whether a line is a compiler's command, as builds print them, and no error of it.
func command(line string) bool {
	n := 0
	for _, o := range compilerOptions {
		if strings.Contains(line, o) {
			n++
		}
	}
	return n > 1 && !hasWord(line, []string{"error:", "error ", "failed", "returned", "killed"})
}

// quietWords mark lines of logs that report no error, unless they have one of loudWords, and
// warningWords such lines unless they also have one of faultWords. quietMarks are those that
// leave no doubt.
var (
	quietWords = []string{"info", "debug", "futurewarning", "deprecat", "already satisfied", "nvcc warning", "this is expected", "successfully", ": i tensorflow", ": i external", "[notice]", "defaulting to user", "will be removed", "generating new", "if you encounter any", "if you experience any"}
	quietMarks = []string{" info ", "[info", "level=info", " info:", " debug ", "[debug", "level=debug", "futurewarning", "deprecationwarning"}
	loudWords  = []string{"error", "fail", "unable", "cannot", "could not"}

	warningWords = []string{"warning", "[warn", " warn "}
	faultWords   = []string{"not found", "not find", "not available", "unavailable", "no such", "not support", "unsupported", "missing", "mismatch", "incompatib", "not compatib", "denied", "invalid", "not installed", "no gpu", "no cuda", "no nvidia", "no device", "too old", "too new", "not detect", "not initial", "not load", "not recogni", "undefined", "unknown", "crash", "killed", "timed out", "timeout", "out of memory", "fall", "not using", "not use", "not work", "not been"}
)

// Words of lines that speak of an error and do not report it: before the match, or anywhere.
var (
	beforeQuoted = []string{"avoid", "how to ", "if you ", "in case ", "prevent", "fix ", "fixes ", "fixes:", "fix:", "fix(", "fixed ", "handle ", "handles ", "catch ", "for example", "e.g.", "instead of ", "no more ", "ignore ", "test_", "tests/", "see ", "such as ", "can cause ", "may cause ", "might ", "recover from ", "troubleshoot", "feat:", "feat(", "docs:", "docs(", "chore", "add ", "adds ", "explain", "detect ", "check for ", "when you ", "about ", "like ", "retry on ", "guard against ", "mock", "# ", "// "}
	inQuoted     = []string{"no longer ", " resolved", " handled", " was fixed", " is fixed", " are fixed", "changelog", "release note", "tutorial", " passed", " skipped", " level=info", " level=debug", "[info]", "[debug]", "documentation"}
)

// advises matches the begin of advice for problems that may come.
var advises = regexp.MustCompile(`(?i)\b(?:if you (?:encounter|experience|run into|have) any|in case of any) (?:\w+ )?(?:problem|issue|difficult)`)

// withoutAdvice leaves out the hits that follow such a begin in their line: nothing has failed.
func withoutAdvice(list []hit, s string) []hit {
	return slices.DeleteFunc(list, func(h hit) bool {
		return advises.MatchString(s[strings.LastIndexAny(s[:h.at], "\n\v")+1 : h.at])
	})
}

// speaks reports whether the line of a match only speaks of the error, and whether it is a line
// that reports no error at all.
func speaks(s string, at int) (quoted, quiet bool) {
	begin := strings.LastIndexAny(s[:at], "\n\v") + 1
	line := s[begin:]
	if i := strings.IndexAny(line, "\n\v"); i >= 0 {
		line = line[:i]
	}
	line = lower(line[:min(len(line), maxWordLine)])
	quoted = hasPart(line[:min(at-begin, len(line))], beforeQuoted) || hasPart(line, inQuoted)
	return quoted, hasPart(" "+line, quietMarks) && !hasWord(line, loudWords)
}

func hasPart(line string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) })
}

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
