package explain

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lineBreak ends a line of the text that has no line of its own where the text was pasted: a
// "\n" within JSON, a carriage return of a progress bar. It does not count as a line.
const lineBreak = '\v'

// unwrap removes what terminals, logs, JSON and Markdown put around an error: colours, escapes,
// typographic quotes, runs of spaces. The number of lines stays.
func unwrap(s string) string {
	if slices.ContainsFunc(escapes, func(e string) bool { return strings.Contains(s, e) }) {
		s = colours.ReplaceAllString(s, "")
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	for range 2 { // a log in JSON may hold a line of JSON
		if !strings.Contains(s, `\`) {
			break
		}
		s = unescape(s)
	}
	if strings.Contains(s, "&") {
		s = entities.Replace(s)
	}
	s = lineEnds.Replace(squeeze(typography.Replace(s)))
	return refused(answered(strings.Trim(s, " "))) // the first line has no newline before it, the last none behind it
}

// refusal matches a line of the source that Python refuses, the marks below it, and the error.
var refusal = regexp.MustCompile(`(?m)^((?:#\d+ )?(?:\d+\.\d+ )?)(.{1,300})\n(?:#\d+ )?(?:\d+\.\d+ )?[\^~]+\n(.*\bSyntaxError: invalid syntax)$`)

// refused repeats the line of the source behind the error, which does not say what it is about.
func refused(s string) string {
	if !strings.Contains(s, "SyntaxError: invalid syntax") {
		return s
	}
	return refusal.ReplaceAllStringFunc(s, func(m string) string {
		return m + ": " + strings.TrimSpace(refusal.FindStringSubmatch(m)[2])
	})
}

// asked matches a question of a session of Python or of a shell, for the GPUs that a framework
// sees, and the line with its answer: that there are none.
var asked = regexp.MustCompile(`(?m)^(.*?)((?:\w+\.)*(?:is_available|device_count|is_gpu_available|devices|list_physical_devices|get_available_providers|get_device|getCudaEnabledDeviceCount)\((?:'GPU'|"GPU")?\))(.*)\n(?:Out\[\d+\]: ?)?(False|0|\[\]|'CPU'|\[CpuDevice\(id=0\)\]|\[(?:'AzureExecutionProvider', )?'CPUExecutionProvider'\])$`)

// answered puts an answer into the line of its question, and leaves its own line empty.
func answered(s string) string {
	if !strings.Contains(s, "()") && !strings.Contains(s, "GPU") {
		return s
	}
	return asked.ReplaceAllString(s, "$1$2$3 $2 $4\n")
}

// lineEnds removes the space at the end and at the beginning of lines, of which squeeze has left one.
var lineEnds = strings.NewReplacer(" \n ", "\n", " \n", "\n", "\n ", "\n")

// colours matches the control sequences of terminals, also as JSON and syslog write ESC.
var colours = regexp.MustCompile(`(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e|#033|\^\[)(?:\[[0-9;?]*[a-zA-Z]|\][^\x07\n]*\x07)`)

// escapes are the spellings of ESC that colours matches.
var escapes = []string{"\x1b", `\u001`, `\x1`, `\033`, `\e`, "#033", "^["}

// squeeze replaces runs of spaces and tabs by one space.
func squeeze(s string) string {
	if !strings.ContainsAny(s, "\t\f") && !strings.Contains(s, "  ") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		c := s[i]
		if c == '\t' || c == '\f' {
			c = ' '
		}
		if c != ' ' || len(b) == 0 || b[len(b)-1] != ' ' {
			b = append(b, c)
		}
	}
	return string(b)
}

var entities = strings.NewReplacer("&quot;", `"`, "&#34;", `"`, "&#39;", "'", "&#x27;", "'", "&apos;", "'", "&gt;", ">", "&lt;", "<", "&amp;", "&", "&nbsp;", " ", "&#x2F;", "/", "&#96;", "'")

var typography = strings.NewReplacer(
	"‘", "'", "’", "'", "‚", "'", "‛", "'", "´", "'", "′", "'", "“", `"`, "”", `"`, "„", `"`, "″", `"`, "«", `"`, "»", `"`,
	"\u00a0", " ", "\u2007", " ", "\u202f", " ", "\u2009", " ", "\u200b", "", "\u200c", "", "\u200d", "", "\u2060", "", "\ufeff", "",
	"‐", "-", "‑", "-", "−", "-", "**", "", "<br>", string(lineBreak), "<br/>", string(lineBreak), "\r", string(lineBreak))

// unescape replaces the escapes of JSON and Markdown. A \n of a Windows path stays.
func unescape(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		drive := strings.Contains(line, `:\`) && !strings.Contains(line, `\"`)
		for {
			i := strings.IndexByte(line, '\\')
			if i < 0 || i+1 == len(line) {
				break
			}
			b.WriteString(line[:i])
			with, n := escaped(line[i+1:], drive)
			b.WriteString(with)
			line = line[i+1+n:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// escaped returns what stands for the escape whose part after the backslash is at the beginning
// of s, and the length of that part.
func escaped(s string, drive bool) (with string, n int) {
	switch c := s[0]; {
	case strings.IndexByte(`"'/_*[]()<>#-`, c) >= 0 && !drive, c == '"':
		return s[:1], 1
	case c == 'r' && strings.HasPrefix(s, `r\n`):
		return "", 1
	case c == 'n' && !drive:
		return string(lineBreak), 1
	case c == 't' && !drive:
		return " ", 1
	case c == 'u' && len(s) >= 5:
		if v, err := strconv.ParseUint(s[1:5], 16, 16); err == nil && v >= ' ' && utf8.ValidRune(rune(v)) {
			return string(rune(v)), 5
		}
	case c == '\\' && !drive:
		return `\`, 1
	}
	return `\`, 0
}
