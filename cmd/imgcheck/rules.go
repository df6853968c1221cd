package main

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/nearest"
	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

func rulesCommand() *cli.Command {
	return &cli.Command{
		Name:      "rules",
		Usage:     "list the rules, or print the page of one",
		UsageText: "imgcheck rules [options] [RULE-ID]",
		Description: "Each finding ends with the ID of its rule in brackets. The rule's page explains it and its fixes.\n\n" +
			"Examples:\n" +
			"   imgcheck rules\n" +
			"   imgcheck rules missing-library",
		Flags: []cli.Flag{rulesFlag()},
		Action: func(c *cli.Context) error {
			set, err := loadPacks(c.StringSlice("rules"))
			if err != nil {
				return err
			}
			switch c.NArg() {
			case 0:
				return listRules(c, set)
			case 1:
				r, err := ruleNamed(set, c.Args().First())
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(plain.NewWriter(c.App.Writer, false), r.Page())
				return err
			}
			return fmt.Errorf("rules takes one rule, not %d: see `imgcheck rules --help`", c.NArg())
		},
	}
}

func listRules(c *cli.Context, set *packs.Packs) error {
	w := tabwriter.NewWriter(plain.NewWriter(c.App.Writer, false), 0, 0, 2, ' ', 0)
	for _, r := range set.SortedRules() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.ID, r.Weight(), r.Title)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	known, err := dockerlint.Load(set)
	if err != nil {
		return err
	}
	fmt.Fprint(c.App.Writer, "\nOf Dockerfiles (imgcheck lint):\n")
	for _, r := range known.Rules() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.ID, r.Weight(), r.Title)
	}
	return w.Flush()
}

// ruleNamed returns a rule of the packs or one for Dockerfiles.
func ruleNamed(set *packs.Packs, id string) (*packs.Rule, error) {
	if r := set.Rule(id); r != nil {
		return r, nil
	}
	known, err := dockerlint.Load(set)
	if err != nil {
		return nil, err
	}
	for _, r := range known.Rules() {
		if r.ID == id {
			return r, nil
		}
	}
	return nil, noRule(set, id)
}

// noRule returns the error for an unknown rule, with the likely one.
func noRule(set *packs.Packs, id string) error {
	if n := nearRule(set, id); n != "" {
		return fmt.Errorf("there is no rule %q: did you mean %s?", id, n)
	}
	return fmt.Errorf("there is no rule %q: `imgcheck rules` lists them", id)
}

// nearRule returns the rule with the most similar ID, or "".
func nearRule(set *packs.Packs, id string) string {
	var known []string
	list := set.SortedRules()
	if k, err := dockerlint.Load(set); err == nil {
		list = append(list, k.Own()...)
	}
	for _, r := range list {
		if strings.Contains(r.ID, id) || strings.Contains(id, r.ID) {
			return r.ID
		}
		known = append(known, r.ID)
	}
	return nearest.Of(id, known)
}

func rulesFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "rules", Usage: "take the rule packs of `DIR` (*.yaml) as well; may be repeated"}
}

// rulesIn returns the program's own packs and those of directories.
func rulesIn(dirs []string) (*scan.Rules, error) {
	var list []fs.FS
	for _, dir := range dirs {
		fsys := os.DirFS(dir)
		names, err := fs.Glob(fsys, "*.yaml")
		if err == nil && len(names) == 0 {
			if _, err = os.ReadDir(dir); err == nil {
				err = fmt.Errorf("%s has no rule pack (*.yaml)", dir)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reading --rules: %w", err)
		}
		list = append(list, fsys)
	}
	return scan.NewRules(list...), nil
}

// loadPacks parses the packs of rulesIn.
func loadPacks(dirs []string) (*packs.Packs, error) {
	r, err := rulesIn(dirs)
	if err != nil {
		return nil, err
	}
	return r.Packs()
}
