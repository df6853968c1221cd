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
		Description: "The file stands in the current directory and says, commented out, all that a policy can say. Images\n" +
			"that are named here are in it already. A file that is there stays.\n\n" +
			"Examples:\n" +
			"   imgcheck init\n" +
			"   imgcheck init ghcr.io/org/app:main && imgcheck scan",
		Action: func(c *cli.Context) error {
			if _, err := os.Lstat(policy.FileName); err == nil {
				return fmt.Errorf("there is a %s already: it stays as it is", policy.FileName)
			}
			err := writeFile(policy.FileName, func(w io.Writer) error {
				_, err := io.WriteString(w, policy.Template(c.Args().Slice()))
				return err
			})
			if err != nil {
				return err
			}
			next := "imgcheck scan IMAGE"
			if c.NArg() > 0 {
				next = "imgcheck scan"
			}
			fmt.Fprintf(c.App.ErrWriter, "Wrote %s. Next: %s\n", policy.FileName, next)
			return nil
		},
	}
}
