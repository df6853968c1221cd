package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Patched is an image with a change laid over it, not yet published. It may
// hold an unnamed temporary file, which Close frees.
type Patched struct {
	// Base is the image that was patched.
	Base *Image
	// Layer is the new layer, nil when the change has no files.
	Layer v1.Layer
	// Manifest and Config are the raw documents. Manifest is nil if the base has
	// none.
	Manifest, Config []byte
	// Digest is that of the manifest, or of the config where there is no manifest.
	Digest string
	// Env are the variables that the change sets.
	Env []EnvEdit

	layer *newLayer
	// rewritten is set for an image with new layers in the place of old ones, and kept are the
	// layers that it has of the base.
	rewritten bool
	kept      []v1.Descriptor
}

// Index returns the index of the new layer, to merge over the base's layers; keep is as
// in layers.ReadLayer. It is empty if there is no layer.
func (p *Patched) Index(keep func(name string, size int64) bool) (*layers.Layer, error) {
	if p.layer == nil {
		return &layers.Layer{}, nil
	}
	rc, err := p.layer.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return layers.ReadLayer(rc, keep)
}

// Close frees the layer.
func (p *Patched) Close() error {
	if p.layer == nil {
		return nil
	}
	return p.layer.spool.Close()
}

// Apply lays a change over an image. base is the file system of img, the result of
// img.Open(…).Index.
//
// Manifest and config keep every byte that is not part of an edit. The history gets an
// entry, unless it does not fit the layers.
func Apply(ctx context.Context, img *Image, base *layers.FS, c Change) (*Patched, error) {
	if c.Empty() {
		return nil, errors.New("the change changes nothing")
	}
	if c.Created.IsZero() {
		var err error
		if c.Created, err = Created(img); err != nil {
			return nil, err
		}
	}
	p := &Patched{Base: img, Env: c.Env}
	if err := p.apply(ctx, base, c); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Patched) apply(ctx context.Context, base *layers.FS, c Change) (err error) {
	img := p.Base
	if n := len(img.Config.RootFS.DiffIDs); len(c.Files) > 0 && n >= maxLayers {
		return fmt.Errorf("the image has %d layers, and Docker runs no image with more than %d: squash some first", n, maxLayers)
	}
	if len(c.Files) > 0 {
		if p.layer, err = makeLayer(ctx, base, c, layerType(img)); err != nil {
			return err
		}
		p.Layer = p.layer
	}
	if p.Config, err = img.editConfig(c, p.layer); err != nil {
		return fmt.Errorf("editing the config: %w", err)
	}
	if img.Manifest == nil {
		p.Digest = digestOf(p.Config).String()
		return nil
	}
	if p.Manifest, err = img.editManifest(p.Config, p.layer); err != nil {
		return fmt.Errorf("editing the manifest: %w", err)
	}
	p.Digest = digestOf(p.Manifest).String()
	return nil
}

// maxLayers is maxLayerDepth of
// https://github.com/moby/moby/blob/master/daemon/internal/layer/layer_store.go.
const maxLayers = 125

// layerType returns the type of a new layer: zstd if the image's topmost layer is, else
// gzip.
func layerType(img *Image) types.MediaType {
	switch {
	case !annotated(img.MediaType):
		return types.DockerLayer
	case len(img.manifest.Layers) > 0 && img.manifest.Layers[len(img.manifest.Layers)-1].MediaType == types.OCILayerZStd:
		return types.OCILayerZStd
	}
	return types.OCILayer
}

// edits applies edits one after another. After an error it ignores the rest.
type edits struct {
	doc []byte
	err error
}

func (e *edits) do(f func([]byte) ([]byte, error)) {
	if e.err == nil {
		e.doc, e.err = f(e.doc)
	}
}

func (e *edits) set(value string, path ...string) {
	e.do(func(doc []byte) ([]byte, error) { return set(doc, value, path...) })
}

func (e *edits) add(value string, path ...string) {
	e.do(func(doc []byte) ([]byte, error) { return add(doc, value, path...) })
}

func (e *edits) drop(path ...string) {
	e.do(func(doc []byte) ([]byte, error) { return drop(doc, path...) })
}

func (img *Image) editConfig(c Change, l *newLayer) ([]byte, error) {
	when := c.Created.UTC()
	e := edits{doc: img.RawConfig}
	for _, env := range c.Env {
		e.do(func(doc []byte) ([]byte, error) { return editEnv(doc, env) })
	}
	if l != nil {
		e.add(quote(l.diffID.String()), "rootfs", "diff_ids")
	}
	if img.historyFits() {
		e.add(encode(struct {
			Created    string `json:"created"`
			CreatedBy  string `json:"created_by,omitempty"`
			Comment    string `json:"comment,omitempty"`
			EmptyLayer bool   `json:"empty_layer,omitempty"`
		}{when.Format(time.RFC3339Nano), c.CreatedBy, c.Comment, l == nil}), "history")
	}
	if !img.Config.Created.Equal(when) {
		e.set(quote(when.Format(time.RFC3339Nano)), "created")
	}
	if !annotated(img.MediaType) {
		says := img.says()
		for _, k := range slices.Sorted(maps.Keys(says)) {
			e.set(quote(says[k]), "config", "Labels", k)
		}
		e.drop("config", "Labels", keyConfig) // a base that was built from a patched image has one
		if e.err == nil {
			e.set(quote(digestOf(e.doc).String()), "config", "Labels", keyConfig)
		}
	}
	if len(e.doc) > maxDocument {
		return nil, fmt.Errorf("it would have %d bytes, more than the %d that registries take", len(e.doc), maxDocument)
	}
	return e.doc, e.err
}

// historyFits reports whether the history has an entry for each layer. An entry behind
// another history would count as another layer's.
func (img *Image) historyFits() bool {
	n := 0
	for _, h := range img.Config.History {
		if !h.EmptyLayer {
			n++
		}
	}
	return n == len(img.Config.RootFS.DiffIDs)
}

// says returns the mark that a patch of the image gets, by its keys.
func (img *Image) says() map[string]string {
	origin := img.Digest
	switch {
	case img.origin != "": // the image may be in several places
		origin = img.origin
	case img.Repository() != "":
		origin = img.Repository() + "@" + origin
	}
	s := map[string]string{keyOrigin: origin, keyBaseDigest: img.Digest}
	if img.name != "" {
		s[keyBaseName] = img.name
	}
	if img.indexFrom != "" {
		s[keyIndex] = img.indexFrom
	}
	return s
}

func (img *Image) editManifest(config []byte, l *newLayer) ([]byte, error) {
	digest := digestOf(config).String()
	e := edits{doc: img.Manifest}
	e.set(quote(digest), "config", "digest")
	e.set(fmt.Sprint(len(config)), "config", "size")
	e.drop("config", "data") // the old config's bytes
	if l != nil {
		e.add(encode(descriptor(l.mt, l.digest, l.spool.size)), "layers")
	}
	if annotated(img.MediaType) {
		says := img.says()
		says[keyConfig] = digest
		for _, k := range slices.Sorted(maps.Keys(says)) {
			e.set(quote(says[k]), "annotations", k)
		}
	}
	return e.doc, e.err
}

// desc is a descriptor as it is written.
type desc struct {
	MediaType   types.MediaType   `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func descriptor(mt types.MediaType, digest v1.Hash, size int64) desc {
	return desc{MediaType: mt, Digest: digest.String(), Size: size}
}

// editEnv edits config.Env. A variable that occurs twice becomes one: runtimes differ in
// which of two counts.
func editEnv(doc []byte, env EnvEdit) ([]byte, error) {
	line := env.Name + "=" + env.Value
	if env.Name == "" || strings.Contains(env.Name, "=") || strings.Contains(line, "\x00") || !utf8.ValidString(line) {
		return nil, fmt.Errorf("%q cannot be a variable of the environment", line)
	}
	list, err := array(doc, "config", "Env")
	if err != nil {
		return nil, err
	}
	done := env.Unset
	drops := []int{}
	for i, raw := range list {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, errors.New("config.Env: holds an element that is no string")
		}
		name, _, _ := strings.Cut(s, "=")
		switch {
		case name != env.Name:
		case done:
			drops = append(drops, i)
		default:
			if doc, err = setElement(doc, i, quote(line), "config", "Env"); err != nil {
				return nil, err
			}
			done = true
		}
	}
	for _, i := range slices.Backward(drops) {
		if doc, err = dropElement(doc, i, "config", "Env"); err != nil {
			return nil, err
		}
	}
	if !done {
		return add(doc, quote(line), "config", "Env")
	}
	return doc, nil
}
