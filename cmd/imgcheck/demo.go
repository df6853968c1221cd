package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// demoImage has the most frequent fault, and demoSource the library that it lacks.
const (
	demoImage  = "ort-no-cudnn.txtar"
	demoSource = "from/cudnn9.txtar"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "scan and patch a small broken image, without network or GPU",
		Description: "demo starts a registry in this process, pushes a small image to it that is built from text\n" +
			"(onnxruntime-gpu 1.19.2 in a CUDA 12.4 image without cuDNN), scans it there, adds the missing\n" +
			"libraries from another image, and scans the result.\n\n" +
			"Examples:\n" +
			"   imgcheck demo\n" +
			"   NO_COLOR=1 imgcheck demo",
		Action: demo,
	}
}

func demo(c *cli.Context) error {
	registry, err := imagetest.Registry()
	if err != nil {
		return err
	}
	defer registry.Close()
	ref, err := pushDemo(registry, demoImage, "demo/onnxruntime-gpu:1.19.2-cuda12.4")
	if err != nil {
		return err
	}
	cudnn, err := pushDemo(registry, demoSource, "demo/cuda:12.4-cudnn")
	if err != nil {
		return err
	}
	show := func(line string) { fmt.Fprintf(c.App.ErrWriter, "\n$ imgcheck %s\n\n", line) }
	fmt.Fprintln(c.App.ErrWriter, "A registry in this process has an image without cuDNN, and another with a cuDNN made of text:")
	show("scan " + ref)
	if err := demoScan(c, ref); err != nil {
		return err
	}
	fixed := ref + "-fixed"
	args := []string{"patch", ref, "-t", fixed, "--from", "image:" + cudnn, "--accept-nvidia-license", "--no-cache"}
	show(strings.Join(args[:len(args)-1], " "))
	if status := run(c.Context, append([]string{"imgcheck"}, args...), c.App.Writer, c.App.ErrWriter); status != exitOK {
		return errors.New("the demo's image could not be patched")
	}
	show("scan " + fixed)
	if err := demoScan(c, fixed); err != nil {
		return err
	}
	fmt.Fprint(c.App.ErrWriter, "\nAs commands, the first scan exits with status 1, the second with 0. Try an image of yours: imgcheck scan IMAGE\n")
	return nil
}

// pushDemo pushes the image that a text describes.
func pushDemo(registry *imagetest.Server, name, to string) (string, error) {
	text, err := images.Text(name)
	if err != nil {
		return "", err
	}
	parsed, err := imagetest.Parse(text)
	if err != nil {
		return "", err
	}
	img, err := parsed.V1()
	if err != nil {
		return "", err
	}
	return registry.Push(to, img)
}

func demoScan(c *cli.Context, ref string) error {
	doc, err := scanImage(c.Context, ref, scan.Options{})
	if err != nil {
		return err
	}
	return report.Text(c.App.Writer, doc, fitted(c.App.Writer, report.Options{}))
}
