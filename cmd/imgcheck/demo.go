package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// demoImage is the image of the most common report.
const demoImage = "ort-no-cudnn.txtar"

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "scan a small broken image, without network, daemon or GPU",
		Description: "demo starts a registry in this process, pushes a small image to it that is built from text\n" +
			"(onnxruntime-gpu 1.19.2 in a CUDA 12.4 image without cuDNN), and scans it there.\n\n" +
			"Examples:\n" +
			"   imgcheck demo\n" +
			"   NO_COLOR=1 imgcheck demo",
		OnUsageError: usageError,
		Action:       demo,
	}
}

func demo(c *cli.Context) error {
	text, err := images.FS.ReadFile(demoImage)
	if err != nil {
		return err
	}
	parsed, err := imagetest.Parse(text)
	if err != nil {
		return err
	}
	img, err := parsed.V1()
	if err != nil {
		return err
	}
	registry, err := imagetest.Registry()
	if err != nil {
		return err
	}
	defer registry.Close()
	ref, err := registry.Push("demo/onnxruntime-gpu:1.19.2-cuda12.4", img)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "A registry in this process has an image without cuDNN. Now:\n\n$ imgcheck scan %s\n\n", ref)
	doc, err := scan(c.Context, ref, layers.Options{})
	if err != nil {
		return err
	}
	if err := report.Text(c.App.Writer, doc, report.Options{Color: isTerminal(c.App.Writer) && os.Getenv("NO_COLOR") == ""}); err != nil {
		return err
	}
	fmt.Fprint(c.App.ErrWriter, "\nThe scan would have ended with exit status 1. Try it on an image of yours: imgcheck scan IMAGE\n")
	return nil
}
