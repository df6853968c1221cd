// Package push copies OCI layouts into a registry: push HOST DIR... A layout in
// the directory NAME becomes HOST/NAME:latest.
package push

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Main runs the program.
func Main() {
	for _, dir := range os.Args[2:] {
		if err := push(os.Args[1], dir); err != nil {
			fmt.Fprintln(os.Stderr, "push:", err)
			os.Exit(1)
		}
	}
}

func push(host, dir string) error {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	m, err := index.IndexManifest()
	if err != nil {
		return err
	}
	img, err := index.Image(m.Manifests[0].Digest)
	if err != nil {
		return err
	}
	ref, err := name.ParseReference(host + "/" + filepath.Base(dir))
	if err != nil {
		return err
	}
	for range 50 { // the registry may still be starting
		if err = remote.Write(ref, img, remote.WithJobs(2)); err == nil {
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return err
}
