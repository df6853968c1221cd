package fix

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Dockerfile are the lines that do the same in a Dockerfile, at the end of the
// stage that makes the image. Files that are added have to lie beside it, in a
// directory of the name that the COPY says. The error is about a name or a value of
// the image that a Dockerfile has no way to write: its lines would be instructions.
func (p *Plan) Dockerfile() (string, error) {
	var run, copies, notes []string
	for _, s := range p.Steps {
		switch {
		case len(s.Files) > 0:
			name, _, _ := strings.Cut(strings.TrimPrefix(s.Library, "lib"), ".so")
			from := "imgcheck/" + name
			notes = append(notes, fmt.Sprintf("# %s: put %s there, from %s", from, strings.Join(s.Files, ", "), s.Source))
			copies = append(copies, copyLine(from+"/", s.Path+"/"))
			run = append(run, linkCommands(s)...)
		default:
			run = append(run, commands(s)...)
		}
	}
	var env []string
	for _, e := range p.draft.env {
		env = append(env, fmt.Sprintf("ENV %s=%s", e.Name, quoted(e.Value)))
	}
	for _, line := range slices.Concat(notes, copies, run, env) {
		if strings.ContainsFunc(line, unicode.IsControl) || !utf8.ValidString(line) {
			return "", fmt.Errorf("a Dockerfile cannot say %q: it has a line break, or what is no text; publish the image with -t instead", line)
		}
	}
	var b strings.Builder
	for _, line := range slices.Concat(notes, copies) {
		b.WriteString(line + "\n")
	}
	if len(run) > 0 {
		b.WriteString("RUN " + strings.Join(run, " \\\n && ") + "\n")
	}
	for _, line := range env {
		b.WriteString(line + "\n")
	}
	return b.String(), nil
}

// copyLine is a COPY instruction, in JSON where blanks would take a path apart.
func copyLine(from, to string) string {
	if Shell(from) == from && Shell(to) == to {
		return fmt.Sprintf("COPY --link %s %s", from, to)
	}
	return fmt.Sprintf("COPY --link [%s, %s]", jsonWord(from), jsonWord(to))
}

// jsonWord is a string of JSON in which an instruction finds no variable.
func jsonWord(s string) string {
	b, err := json.Marshal(strings.ReplaceAll(s, "$", `\$`))
	if err != nil {
		panic(err) // of a string
	}
	return string(b)
}

// linkCommands make the links among the files of a step.
func linkCommands(s Step) []string {
	var list []string
	for _, f := range s.files {
		if f.Link != "" {
			list = append(list, fmt.Sprintf("ln -sf %s %s", Shell(f.Link), Shell(f.Path)))
		}
	}
	return list
}

// commands do in a shell what a step's files say.
func commands(s Step) []string {
	var list []string
	for _, f := range s.files {
		switch {
		case s.Kind == "execstack":
			list = append(list, "patchelf --clear-execstack "+Shell(f.Path))
		case f.Path == dropIn:
			var dirs []string
			for dir := range strings.FieldsSeq(string(f.content)) {
				dirs = append(dirs, Shell(dir))
			}
			list = append(list, fmt.Sprintf("printf '%%s\\n' %s > %s && ldconfig", strings.Join(dirs, " "), dropIn))
		case f.Remove:
			list = append(list, "rm -rf "+Shell(f.Path))
		case f.Link != "":
			list = append(list, fmt.Sprintf("mkdir -p %s && ln -sf %s %s", Shell(path.Dir(f.Path)), Shell(f.Link), Shell(f.Path)))
		}
	}
	return list
}

// Shell quotes a word for sh where it needs it.
func Shell(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,=", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// quoted is a value of an ENV instruction.
func quoted(s string) string {
	if Shell(s) == s || s == "" {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(s) + `"`
}
