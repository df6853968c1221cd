package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/report"
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completions of a shell",
		UsageText: "imgcheck completion bash|zsh|fish",
		Description: "They complete the commands and flags of this version.\n\n" +
			"Examples:\n" +
			"   source <(imgcheck completion bash)\n" +
			"   imgcheck completion fish > ~/.config/fish/completions/imgcheck.fish",
		Action: func(c *cli.Context) error {
			var text string
			var err error
			switch c.Args().First() {
			case "bash":
				text = bashCompletion(c.App)
			case "zsh":
				text = zshCompletion(c.App)
			case "fish":
				text, err = c.App.ToFishCompletion()
			default:
				return fmt.Errorf("completion needs a shell: bash, zsh or fish")
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(c.App.Writer, text)
			return err
		},
	}
}

// flagValues returns the values to complete after a flag.
func flagValues(name string) []string {
	switch name {
	case "format":
		return report.Names
	case "fail-on":
		return []string{"error", "warning", "note", "never"}
	case "platform":
		return []string{"linux/amd64", "linux/arm64"}
	}
	return nil
}

// flagNames returns a command's flags as they are typed.
func flagNames(cmd *cli.Command) []string {
	var list []string
	for _, f := range cmd.VisibleFlags() {
		for _, n := range f.Names() {
			list = append(list, dashes(n))
		}
	}
	return append(list, "--help")
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func bashCompletion(app *cli.App) string {
	var b strings.Builder
	var names []string
	for _, cmd := range app.VisibleCommands() {
		names = append(names, cmd.Name)
	}
	fmt.Fprintf(&b, "# bash completion of imgcheck\n_imgcheck() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n\tcase $prev in\n")
	for _, flag := range []string{"format", "fail-on", "platform"} {
		fmt.Fprintf(&b, "\t--%s) words=%s ;;\n", flag, quote(strings.Join(flagValues(flag), " ")))
	}
	fmt.Fprintf(&b, "\tesac\n\tif [ -z \"$words\" ]; then\n\t\tif [ \"$COMP_CWORD\" -le 1 ]; then\n\t\t\twords=%s\n\t\telse\n\t\t\tcase ${COMP_WORDS[1]} in\n", quote(strings.Join(names, " ")))
	for _, cmd := range app.VisibleCommands() {
		words := flagNames(cmd)
		if verbs := verbsOf(cmd); len(verbs) > 0 {
			words = append(words, verbs...)
		}
		fmt.Fprintf(&b, "\t\t\t%s) words=%s ;;\n", cmd.Name, quote(strings.Join(words, " ")))
	}
	fmt.Fprint(&b, "\t\t\tesac\n\t\tfi\n\tfi\n\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\ncomplete -o default -F _imgcheck imgcheck\n")
	return b.String()
}

// verbsOf returns the subcommands in a command's usage: `hook install|uninstall`.
func verbsOf(cmd *cli.Command) []string {
	for _, word := range strings.Fields(strings.NewReplacer("[", " ", "]", " ").Replace(cmd.UsageText)) {
		if verbs := strings.Split(word, "|"); len(verbs) > 1 && strings.ToLower(word) == word {
			return verbs
		}
	}
	return nil
}

func zshCompletion(app *cli.App) string {
	item := func(name, what string) string {
		return quote(strings.ReplaceAll(name, ":", `\:`) + ":" + strings.ReplaceAll(strings.ReplaceAll(what, "`", ""), ":", `\:`))
	}
	var b strings.Builder
	fmt.Fprint(&b, "#compdef imgcheck\n_imgcheck() {\n\tlocal -a list\n\tif (( CURRENT == 2 )); then\n\t\tlist=(\n")
	for _, cmd := range app.VisibleCommands() {
		fmt.Fprintf(&b, "\t\t\t%s\n", item(cmd.Name, cmd.Usage))
	}
	fmt.Fprint(&b, "\t\t)\n\t\t_describe command list\n\t\treturn\n\tfi\n\tcase ${words[CURRENT-1]} in\n")
	for _, flag := range []string{"format", "fail-on", "platform"} {
		fmt.Fprintf(&b, "\t--%s) compadd -- %s; return ;;\n", flag, strings.Join(flagValues(flag), " "))
	}
	fmt.Fprint(&b, "\tesac\n\tcase ${words[2]} in\n")
	for _, cmd := range app.VisibleCommands() {
		fmt.Fprintf(&b, "\t%s) list=(\n", cmd.Name)
		for _, v := range verbsOf(cmd) {
			fmt.Fprintf(&b, "\t\t%s\n", item(v, cmd.Usage))
		}
		for _, f := range cmd.VisibleFlags() {
			what := ""
			if d, ok := f.(cli.DocGenerationFlag); ok {
				what = d.GetUsage()
			}
			for _, n := range f.Names() {
				fmt.Fprintf(&b, "\t\t%s\n", item(dashes(n), what))
			}
		}
		fmt.Fprint(&b, "\t\t--help ) ;;\n")
	}
	fmt.Fprint(&b, "\tesac\n\t_describe option list\n\t[[ $PREFIX == -* ]] || _files\n}\ncompdef _imgcheck imgcheck\n")
	return b.String()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
