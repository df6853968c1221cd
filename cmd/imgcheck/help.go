package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/wrap"
)

// Columns of a help: those of a terminal by default, and where the text of a flag
// begins.
const (
	helpWidth  = 80
	helpIndent = "   "
	helpText   = 26
)

// helpOf returns the text of `imgcheck COMMAND --help`.
func helpOf(cmd *cli.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "NAME:\n%simgcheck %s - %s\n\nUSAGE:\n%s%s\n\nDESCRIPTION:\n", helpIndent, cmd.Name, cmd.Usage, helpIndent, cmp.Or(cmd.UsageText, "imgcheck "+cmd.Name))
	for line := range strings.Lines(fill(cmd.Description, helpWidth-len(helpIndent))) {
		if line != "\n" {
			b.WriteString(helpIndent)
		}
		b.WriteString(line)
	}
	b.WriteString("\nOPTIONS:\n")
	for _, f := range cmd.Flags {
		b.WriteString(flagHelp(f.(cli.DocGenerationFlag)))
	}
	b.WriteString(flagHelp(cli.HelpFlag.(cli.DocGenerationFlag)))
	return b.String()
}

// flagHelp returns the lines of a flag: its names, short before long, and its usage.
func flagHelp(f cli.DocGenerationFlag) string {
	var names []string
	for _, n := range f.Names() {
		if len(n) == 1 {
			names = append([]string{dashes(n)}, names...)
		} else {
			names = append(names, dashes(n))
		}
	}
	placeholder, text := flagText(f)
	head := helpIndent + strings.Join(names, ", ") + placeholder
	hang := strings.Repeat(" ", helpText)
	if len(head)+2 > helpText {
		head += "\n" + hang
	} else {
		head += strings.Repeat(" ", helpText-len(head))
	}
	return head + strings.Join(wrap.Words(text, helpWidth-helpText), "\n"+hang) + "\n"
}

// flagText returns a flag's placeholder, after a space, and its usage with default and
// variable.
func flagText(f cli.DocGenerationFlag) (placeholder, text string) {
	placeholder, text = unquoteUsage(f.GetUsage())
	var about []string
	if d := strings.Trim(f.GetDefaultText(), `"`); d != "" && f.TakesValue() {
		about = append(about, "default: "+d)
	}
	for _, v := range f.GetEnvVars() {
		about = append(about, "$"+v)
	}
	if len(about) > 0 {
		text += " (" + strings.Join(about, "; ") + ")"
	}
	if !f.TakesValue() {
		return "", text
	}
	return " " + placeholder, text
}

// unquoteUsage returns FILE and "write to FILE" for "write to `FILE`".
func unquoteUsage(usage string) (placeholder, text string) {
	before, rest, ok := strings.Cut(usage, "`")
	name, after, closed := strings.Cut(rest, "`")
	if !ok || !closed {
		return "VALUE", usage
	}
	return name, before + name + after
}

// fill breaks paragraphs into lines of at most width characters. A line that begins with
// a space is a row of a table, whose second column is broken, or an example, which is
// not.
func fill(text string, width int) string {
	var b, paragraph strings.Builder
	flush := func() {
		if paragraph.Len() > 0 {
			b.WriteString(strings.Join(wrap.Words(strings.TrimSpace(paragraph.String()), width), "\n") + "\n")
		}
		paragraph.Reset()
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line != "" && line[0] != ' ' {
			paragraph.WriteString(line + " ")
			continue
		}
		flush()
		if column := secondColumn(line); column > 0 {
			line = line[:column] + strings.Join(wrap.Words(line[column:], width-column), "\n"+strings.Repeat(" ", column))
		}
		b.WriteString(line + "\n")
	}
	flush()
	return b.String()
}

// secondColumn returns the offset of a table's second column in a line, or 0.
func secondColumn(line string) int {
	first := strings.TrimLeft(line, " ")
	i := strings.Index(first, "  ")
	if i < 0 {
		return 0
	}
	return len(line) - len(strings.TrimLeft(first[i:], " "))
}
