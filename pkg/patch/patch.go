// Package patch lays a layer and edits of the config over an image and publishes the
// result, without running anything and without moving the image's own layers.
//
// [OpenBase] finds the image that a reference names, or every image of an index. [Apply]
// makes a [Patched] of one of them: a deterministic layer, and the raw JSON of manifest
// and config with the edits. [Publish] puts it into a registry, an OCI layout, a docker
// archive or a daemon: blobs first, then the config, then the manifest, then the name, so
// that a failure at any point leaves the name as it was. [Undo] restores the image that a
// name had before. [PublishRewritten] publishes an image of which some layers are written anew.
//
// The package does not know why a file is added or a variable changed, nor where files
// come from. [source] finds the base, and fetches it.
package patch

import (
	"context"
	"io"
	"io/fs"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Change is a change to a base: files of the new layer and edits of the config. The zero
// value is no change.
type Change struct {
	Files []File
	Env   []EnvEdit
	// CreatedBy and Comment are fields of the history entry.
	CreatedBy, Comment string
	// Created is the time of the layer's files, of the history entry and of the
	// image. Zero means that of [Created].
	Created time.Time
}

// Empty reports whether the change has neither files nor edits.
func (c *Change) Empty() bool { return len(c.Files) == 0 && len(c.Env) == 0 }

// File is one path that the new layer adds, replaces or removes.
type File struct {
	// Path is clean, with or without a leading slash. Links among its parents are
	// followed in the base, so that lib/x lands in usr/lib where lib is a link: an
	// entry lib/x would make lib a directory, and hide all files of the base's.
	Path   string
	Link   string      // a symbolic link's text; then Open, Size and Mode are ignored
	Remove bool        // a whiteout: it removes the path with everything below it
	Mode   fs.FileMode // permission, set-id and sticky bits
	Size   int64       // of the content, in bytes
	// Open returns the content. It is called once for each time that the layer is
	// written, and must always return the same bytes.
	Open     func() (io.ReadCloser, error)
	UID, GID int
	// Xattrs returns the extended attributes by their names, capabilities among them.
	// Nil means that there are none.
	Xattrs func() (map[string]string, error)
}

// EnvEdit sets or unsets one variable of the config's environment. Value replaces the
// value in the config.
type EnvEdit struct {
	Name, Value string
	Unset       bool
}

// Options say how images are found and published.
type Options struct {
	// Platform chooses one image of an index; nil means every image.
	Platform *v1.Platform
	// Insecure allows plain HTTP and unverified TLS to the registry.
	Insecure bool
	// AllowCopy allows layers of the base to be read and sent if the target cannot
	// take them from where they are.
	AllowCopy bool
	// AsFound opens a patched image itself rather than its origin.
	AsFound bool
	// Env is as in [source.Options].
	Env []string
	// Note, when set, is called with one line for each decision: an attestation left
	// out, an image already there.
	Note func(line string)

	backoff *remote.Backoff                            // between attempts at a push; nil is go-containerregistry's
	sleep   func(context.Context, time.Duration) error // as in [source.Options]
}

func (o *Options) note(line string) {
	if o.Note != nil {
		o.Note(line)
	}
}
