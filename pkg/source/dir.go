package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// openDir takes an unpacked root file system as an image of one layer. It has no
// config, unless the variables are given. For the root of this process, as a step of
// a container build has it, they are those of this process: programs that the build
// starts get the same.
func openDir(_ context.Context, root string, o Options) (*Image, error) {
	name := root
	st, err := os.Stat(root)
	if err != nil {
		return nil, PathError(err)
	}
	if !st.IsDir() {
		return nil, errors.New("is not a directory: say docker-archive: or oci-archive: for a file")
	}
	if root, err = filepath.EvalSymlinks(root); err == nil { // WalkDir does not follow a link
		root, err = filepath.Abs(root) // and writes ./a as a
	}
	if err != nil {
		return nil, PathError(err)
	}
	list, err := os.ReadDir(root)
	switch {
	case err != nil:
		return nil, PathError(err)
	case len(list) == 0:
		return nil, errors.New("is empty: nothing is unpacked or mounted there")
	case slices.ContainsFunc(list, func(d fs.DirEntry) bool { return d.Name() == "oci-layout" }):
		return nil, errors.New("is an OCI layout: say oci:" + name)
	}
	img := &Image{Layers: []Layer{{}}, Root: root}
	env := o.Env
	if root == "/" && env == nil {
		env = os.Environ()
	}
	if env != nil {
		img.Config = &v1.ConfigFile{Config: v1.Config{Env: env}}
	}
	return img, nil
}
