// Package patch lays a layer and edits of the config over an image and
// publishes the result, without running anything and without moving what the
// image already has.
//
// [OpenBase] finds the image that a reference names, and for an index every
// image of it. [Apply] makes a [Patched] of one of them: a deterministic layer,
// and manifest and config as the raw JSON that they were, but for the edit.
// [Publish] takes it to a registry, an OCI layout, a docker archive or a
// daemon: blobs first, then the config, then the manifest, then the name, so
// that a failure at any point leaves the name as it was. [Undo] gives a name
// back what it had.
//
// The package does not know why a file is added or a variable changed: that is
// the planner's. Where files come from it does not know either.
package patch

import (
	"context"
	"io"
	"io/fs"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Change is what is laid over a base: files of the new layer and edits of the
// config. The zero value changes nothing.
type Change struct {
	Files []File
	Env   []EnvEdit
	// CreatedBy and Comment stand in the history entry.
	CreatedBy, Comment string
	// Created is the time of the layer's files, of the history entry and of the
	// image. Zero means what [Created] says.
	Created time.Time
}

// Empty reports whether the change changes nothing.
func (c *Change) Empty() bool { return len(c.Files) == 0 && len(c.Env) == 0 }

// File is one path that the new layer adds, replaces or removes.
type File struct {
	// Path is clean; a leading slash may be there. Links among its parents are
	// followed in the base, so that lib/x lands in usr/lib where lib is a link:
	// an entry lib/x would make lib a directory and hide all of the base's.
	Path   string
	Link   string      // a symbolic link's text; then Open, Size and Mode mean nothing
	Remove bool        // a whiteout: the path is to be gone, with all below it
	Mode   fs.FileMode // permission, set-id and sticky bits
	Size   int64       // in bytes, exactly what Open gives
	// Open gives the content. It is called once for each time that the layer is
	// written, and always gives the same bytes.
	Open     func() (io.ReadCloser, error)
	UID, GID int
	// Xattrs gives the extended attributes by their names, capabilities among them.
	// Nil is that there are none.
	Xattrs func() (map[string]string, error)
}

// EnvEdit sets or unsets one variable of the config's environment. Value is the
// final one: what it had before is for the planner to have taken in.
type EnvEdit struct {
	Name, Value string
	Unset       bool
}

// Options say how images are found and published.
type Options struct {
	// Platform chooses one image of an index; nil means every one.
	Platform *v1.Platform
	// Insecure allows plain HTTP and unverified TLS to the registry.
	Insecure bool
	// AllowCopy allows the content of base layers to be read, and sent, where
	// the target cannot take them from where they are.
	AllowCopy bool
	// Env is as in [layers.Options].
	Env []string
	// Note, when set, is told in one line each of what was decided: an
	// attestation left out, an image already there.
	Note func(line string)

	backoff *remote.Backoff                            // between tries of a request; nil is go-containerregistry's
	sleep   func(context.Context, time.Duration) error // as long as a registry asks for; nil waits
}

func (o *Options) note(line string) {
	if o.Note != nil {
		o.Note(line)
	}
}
