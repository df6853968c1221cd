package main

import (
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/policy"
)

func initCommand() *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "write a commented " + policy.FileName,
		UsageText: "imgcheck init [IMAGE...]",
		Description: "init writes the file to the current directory, with every key of a policy commented out, and with\n" +
			"the images that are given. It does not overwrite a file.\n\n" +
			"Examples:\n" +
			"   imgcheck init\n" +
			"   imgcheck init ghcr.io/org/app:main && imgcheck scan",
		Action: func(c *cli.Context) error {
			for _, name := range []string{policy.FileName, policy.OtherName} {
				if _, err := os.Lstat(name); err == nil {
					return fmt.Errorf("%s exists already and stays as it is", name)
				}
			}
			err := writeFile(policy.FileName, func(w io.Writer) error {
				_, err := io.WriteString(w, policy.Template(c.Args().Slice()))
				return err
			})
			if err != nil {
				return err
			}
			next := "imgcheck scan IMAGE"
			switch {
			case c.NArg() == 1:
				next = "imgcheck scan"
			case c.NArg() > 1:
				next = "imgcheck scan --all-images"
			}
			fmt.Fprintf(c.App.ErrWriter, "Wrote %s. Next: %s\n", policy.FileName, next)
			return nil
		},
	}
}
