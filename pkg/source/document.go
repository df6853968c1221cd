package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Store holds documents and blobs of images by their digests: a [Repository] or a
// [Layout].
type Store interface {
	// Manifest returns a manifest or an index. Its digest is verified. The error of
	// one that is not there is fs.ErrNotExist.
	Manifest(ctx context.Context, digest v1.Hash) (*Document, error)
	// Blob opens a blob. Its digest is for the caller to verify. note is as in
	// [Image.Blob].
	Blob(ctx context.Context, d v1.Descriptor, note func(text string)) (io.ReadCloser, error)
	// Name returns the repository's name ("docker.io/library/ubuntu"). It is empty
	// for a store that has no name on other machines.
	Name() string
}

// Document is a manifest or an index, as it is stored.
type Document struct {
	Raw       []byte
	MediaType types.MediaType
}

// Digest returns the document's digest.
func (d *Document) Digest() v1.Hash {
	h, _, _ := v1.SHA256(bytes.NewReader(d.Raw)) // a read of bytes cannot fail
	return h
}

// Bounds of images. overlayfs lays at most 500 layers over one another
// (OVL_MAX_STACK), Docker 128. No registry takes a blob of a terabyte. No tool nests
// indexes more than once.
const (
	maxLayers    = 1000
	maxLayerSize = 1 << 40 // bytes, compressed
	maxNested    = 4       // indexes in indexes
)

// ReadImage reads the image whose manifest d is, from the store that has it.
func ReadImage(ctx context.Context, s Store, d *Document) (*Image, error) {
	if d.MediaType.IsSchema1() {
		return nil, ErrSchema1
	}
	m, err := v1.ParseManifest(bytes.NewReader(d.Raw))
	if err != nil {
		return nil, badDocument(s, "manifest", err)
	}
	if err := checkManifest(m); err != nil {
		return nil, err
	}
	img := &Image{Store: s, Digest: d.Digest().String(), Manifest: d.Raw, MediaType: d.MediaType}
	if img.RawConfig, err = ReadBlob(ctx, s, m.Config); err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	if img.Config, err = parseConfig(s, img.RawConfig); err != nil {
		return nil, err
	}
	ids := img.Config.RootFS.DiffIDs
	if len(ids) != len(m.Layers) {
		return nil, fmt.Errorf("is not a container image: its config (%s) lists %d layers, its manifest %d", m.Config.MediaType, len(ids), len(m.Layers))
	}
	for i, d := range m.Layers {
		img.Layers = append(img.Layers, Layer{Digest: d.Digest.String(), DiffID: ids[i].String(), Size: d.Size})
		img.blobs = append(img.blobs, blob{digest: d.Digest.String(), open: func(ctx context.Context, note func(string)) (io.ReadCloser, error) {
			return s.Blob(ctx, d, note)
		}})
	}
	img.setHistory()
	return img, nil
}

// readAttested reads an image of an index, which has attestations of it.
func readAttested(ctx context.Context, s Store, d *Document, attestations []v1.Descriptor) (*Image, error) {
	img, err := ReadImage(ctx, s, d)
	if err == nil {
		img.attestations = attestations
	}
	return img, err
}

// ErrSchema1 is the error of an image in a format that is not read.
var ErrSchema1 = errors.New("is in Docker's legacy schema 1 format: convert it once with `skopeo copy --format v2s2`, or push it again with a current Docker")

// checkManifest returns an error for a manifest that names what cannot be.
func checkManifest(m *v1.Manifest) error {
	switch {
	case m.Config.Digest.Hex == "":
		return errors.New("is not a container image: its manifest names no config")
	case m.Config.Size > maxAnswer:
		return fmt.Errorf("its config is said to have %d bytes, more than the %d that are read", m.Config.Size, maxAnswer)
	case m.Config.Size < 0:
		return fmt.Errorf("its config is said to have %d bytes: the image is damaged", m.Config.Size)
	case len(m.Layers) > maxLayers:
		return tooManyLayers("its manifest", len(m.Layers))
	}
	for i, d := range m.Layers {
		switch mt := string(d.MediaType); {
		case strings.Contains(mt, "encrypted"):
			return fmt.Errorf("layer %d is encrypted (%s): decrypt the image first", i+1, mt)
		case d.Size < 0 || d.Size > maxLayerSize:
			return fmt.Errorf("layer %d is said to have %d bytes: the image is damaged, or no image", i+1, d.Size)
		}
	}
	return nil
}

func tooManyLayers(document string, n int) error {
	return fmt.Errorf("%s lists %d layers, more than the %d that are read: no file system lays so many over one another", document, n, maxLayers)
}

// ReadBlob returns a blob that is a document, whole. Its digest is verified.
func ReadBlob(ctx context.Context, s Store, d v1.Descriptor) ([]byte, error) {
	if d.Size < 0 || d.Size > maxAnswer {
		return nil, fmt.Errorf("it is %d bytes long, more than the %d that are read", d.Size, maxAnswer)
	}
	if int64(len(d.Data)) == d.Size && digestOf(d.Data) == d.Digest.String() { // image-spec, descriptor.md, "data"
		return d.Data, nil
	}
	rc, err := s.Blob(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, d.Size+1))
	if err != nil {
		return nil, err
	}
	if got := digestOf(b); got != d.Digest.String() {
		return nil, damaged(got, d.Digest.String(), s.Name() != "")
	}
	return b, nil
}

// parseConfig parses a config; s is nil for an image that is in no store.
func parseConfig(s Store, raw []byte) (*v1.ConfigFile, error) {
	if err := checkElements(raw); err != nil {
		return nil, fmt.Errorf("its config: %w", err)
	}
	cfg, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, badDocument(s, "config", err)
	}
	if err := checkEnvironment(cfg.Config.Env); err != nil {
		return nil, fmt.Errorf("its config: %w", err)
	}
	for i := range cfg.History {
		cfg.History[i].CreatedBy = withoutArguments(cfg.History[i].CreatedBy)
	}
	return cfg, nil
}

// checkEnvironment returns an error for an environment that no program can be started in, or that
// has more variables than are read.
func checkEnvironment(env []string) error {
	if len(env) > maxVariables {
		return fmt.Errorf("it has %d variables, more than the %d that are read", len(env), maxVariables)
	}
	all := 0
	for _, v := range env {
		if len(v) >= maxVariable {
			name, _, _ := strings.Cut(v, "=")
			return fmt.Errorf("the variable %.50s has %d bytes: Linux starts no program with %d or more (argument list too long)", name, len(v), maxVariable)
		}
		all += len(v) + 1
	}
	if all > maxEnvironment {
		return fmt.Errorf("its variables have %d bytes: Linux starts no program with more than %d (argument list too long)", all, maxEnvironment)
	}
	return nil
}

// badDocument explains why a document of an image cannot be parsed.
func badDocument(s Store, kind string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends too early")
	}
	proxy := ""
	if s != nil && s.Name() != "" {
		proxy = ", or a proxy answers in the registry's place"
	}
	return fmt.Errorf("its %s cannot be read (%w): the image is damaged%s", kind, brief(err), proxy)
}

// setHistory gives each layer its instruction. A config whose history does not fit
// its layers is ignored.
func (img *Image) setHistory() {
	var by []string
	for _, h := range img.Config.History {
		if !h.EmptyLayer {
			by = append(by, h.CreatedBy)
		}
	}
	if len(by) != len(img.Layers) {
		return
	}
	for i := range img.Layers {
		img.Layers[i].CreatedBy = by[i]
	}
}

// choose returns the image of an index that fits a platform, and its attestations.
func choose(ctx context.Context, s Store, list []v1.Descriptor, asked *v1.Platform, depth int) (*Document, []v1.Descriptor, error) {
	if depth > maxNested {
		return nil, nil, fmt.Errorf("its indexes lie more than %d deep in one another: name the image by its digest", maxNested)
	}
	want := asked
	if want == nil {
		want = &v1.Platform{OS: "linux", Architecture: "amd64"}
	}
	candidates := runnable(list)
	i := slices.IndexFunc(candidates, func(d v1.Descriptor) bool { return d.Platform == nil || d.Platform.Satisfies(*want) })
	if i < 0 && len(candidates) == 1 && asked == nil {
		i = 0
	}
	if i < 0 {
		return nil, nil, notForPlatform(want.String(), platformNames(candidates))
	}
	d, err := s.Manifest(ctx, candidates[i].Digest)
	if err != nil || !candidates[i].MediaType.IsIndex() {
		return d, attestationsOf(list, candidates[i].Digest), err
	}
	inner, err := parseIndex(s, d)
	if err != nil {
		return nil, nil, err
	}
	return choose(ctx, s, inner, asked, depth+1)
}

// parseIndex returns the entries of an index.
func parseIndex(s Store, d *Document) ([]v1.Descriptor, error) {
	m, err := v1.ParseIndexManifest(bytes.NewReader(d.Raw))
	if err != nil {
		return nil, badDocument(s, "index", err)
	}
	return m.Manifests, nil
}

// runnable returns the entries of an index that are images or indexes of images. An
// attestation, whose platform is unknown/unknown, is neither.
func runnable(list []v1.Descriptor) []v1.Descriptor {
	var out []v1.Descriptor
	for _, d := range list {
		if (d.MediaType.IsImage() || d.MediaType.IsIndex()) && (d.Platform == nil || d.Platform.OS != "unknown") {
			out = append(out, d)
		}
	}
	return out
}

func platformNames(list []v1.Descriptor) []string {
	var s []string
	for _, d := range list {
		if d.Platform != nil {
			s = append(s, d.Platform.String())
		}
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// notForPlatform returns the error of an image that exists for other platforms.
func notForPlatform(want string, have []string) error {
	if len(have) == 0 {
		return errors.New("the index holds no image that can be run")
	}
	return fmt.Errorf("is not there for %s: choose one with --platform %s", want, strings.Join(have, " or "))
}

// checkPlatform returns an error for an image of another platform than Options.Platform.
func (img *Image) checkPlatform() error {
	want, c := img.platform, img.Config
	if want == nil || c == nil || c.Architecture == "" {
		return nil
	}
	if have := c.Platform(); have != nil && !have.Satisfies(*want) {
		return notForPlatform(want.String(), []string{have.String()})
	}
	return nil
}

// typeOf returns the type of a manifest that is stored without one. A manifest that
// does not say its type is OCI's (image-spec, manifest.md, "mediaType").
func typeOf(raw []byte) types.MediaType {
	var says struct {
		MediaType types.MediaType `json:"mediaType"`
		Manifests json.RawMessage `json:"manifests"`
		FSLayers  json.RawMessage `json:"fsLayers"`
	}
	switch err := json.Unmarshal(raw, &says); {
	case err != nil:
		return types.OCIManifestSchema1 // whose parser says what is wrong
	case says.MediaType != "":
		return says.MediaType
	case says.Manifests != nil:
		return types.OCIImageIndex
	case says.FSLayers != nil:
		return types.DockerManifestSchema1
	}
	return types.OCIManifestSchema1
}
