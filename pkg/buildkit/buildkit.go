// Package buildkit hands a patched image to BuildKit.
//
// [NewContext] writes the patch as a directory for `docker build`: a Dockerfile without
// RUN, and the files that it copies. [Definition] writes it as LLB, BuildKit's language,
// for `buildctl build`: it contains the whole new layer, so that only BuildKit and the
// registry are needed. [Carry] lets a buildkitd, which may be nearer to the registry,
// put the layers of a patched image into the target repository; [patch.Publish] then
// finds them there, and publishes the same bytes as without BuildKit.
//
// Each way merges the layer with the base, as `COPY --link` does. A layer made by
// copying into the base makes BuildKit pull and unpack all of the base first, which for
// 4.6 GB took 92 s instead of 0.8. [WithLines] does without the layer: it writes a
// Dockerfile of instructions that make the same changes.
//
// The package does not know what is in a patch, or why.
package buildkit

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/buildkit/client/llb"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// maxInline limits the files of a Definition, in bytes. BuildKit takes messages of at
// most 16 MiB.
const maxInline = 8 << 20

// Definition returns a patched image as LLB, a marshalled pb.Definition: its base, by
// digest, merged with its new layer. The same image gives the same bytes. It has no
// config, which [Command] passes. from is the reference of the base, which must be in a
// registry; insecure allows plain HTTP to it.
//
// Definition fails if the layer has more than 8 MiB, or something that LLB cannot
// express; [Carry] takes those.
func Definition(ctx context.Context, p *patch.Patched, from string, insecure bool) ([]byte, error) {
	state, err := baseState(p, from, insecure)
	if err != nil {
		return nil, err
	}
	if p.Layer != nil {
		layer, err := layerState(p)
		if err != nil {
			return nil, fmt.Errorf("writing the new layer as LLB: %w: --buildkit ADDR takes it as it is", err)
		}
		state = merge(state, layer)
	}
	def, err := state.Marshal(ctx, llb.Platform(platform(p)))
	if err != nil {
		return nil, fmt.Errorf("writing LLB: %w", err)
	}
	return marshal(def)
}

// marshal encodes a definition with its maps sorted, which llb.WriteTo does not do.
func marshal(def *llb.Definition) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(def.ToPB())
}

func platform(p *patch.Patched) ocispecs.Platform {
	v := p.Base.Platform
	return ocispecs.Platform{OS: v.OS, Architecture: v.Architecture, Variant: v.Variant, OSVersion: v.OSVersion}
}

// baseState returns the image that was patched.
func baseState(p *patch.Patched, from string, insecure bool) (llb.State, error) {
	base, err := baseName(p.Base, from, insecure)
	if err != nil {
		return llb.State{}, err
	}
	return llb.Image(base, llb.Platform(platform(p)), llb.WithCustomName("the image, "+from)), nil
}

// baseName returns the image that was patched, by digest and in its own repository: if
// from names a patched image, in that of its origin.
func baseName(base *patch.Image, from string, insecure bool) (string, error) {
	ref, err := reference(from, insecure)
	if err != nil {
		return "", err
	}
	return cmp.Or(base.Repository(), ref.Context().Name()) + "@" + base.Digest, nil
}

// merge lays a layer over an image without reading either.
func merge(image, layer llb.State) llb.State {
	return llb.Merge([]llb.State{image, layer}, llb.WithCustomName("the layer, over the image"))
}

// reference parses the reference of an image in a registry; BuildKit reads images from
// nowhere else.
func reference(s string, insecure bool) (name.Reference, error) {
	scheme, rest := source.Split(s)
	if scheme != "registry" {
		return nil, fmt.Errorf("%s: BuildKit reads and writes images in registries only: push the image to one", s)
	}
	ref, err := source.ParseReference(rest, insecure)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rest, err)
	}
	return ref, nil
}

// layerState returns the new layer, entry by entry. Removals are expressed as the
// difference between a state with the files and one without, for which the base is not
// read.
func layerState(p *patch.Patched) (llb.State, error) {
	rc, err := p.Layer.Uncompressed()
	if err != nil {
		return llb.State{}, err
	}
	defer rc.Close()
	w := &writer{}
	tr := tar.NewReader(rc)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return llb.State{}, err
		}
		if err := w.entry(h, tr); err != nil {
			return llb.State{}, fmt.Errorf("/%s: %w", strings.TrimSuffix(h.Name, "/"), err)
		}
	}
	after := llb.Scratch()
	if w.after != nil {
		after = after.File(w.after)
	}
	if !w.removes {
		return after, nil
	}
	return llb.Diff(llb.Scratch().File(w.before), after), nil
}

// writer makes the two states whose difference is the layer, each with one operation: an
// operation makes a layer.
type writer struct {
	before, after *llb.FileAction
	removes       bool
	bytes         int64
}

func (w *writer) entry(h *tar.Header, r io.Reader) error {
	p := path.Clean("/" + h.Name)
	mode := fs.FileMode(h.Mode)
	if h.Mode&^0o777 != 0 {
		return fmt.Errorf("LLB cannot express the mode %04o", h.Mode)
	}
	if len(h.PAXRecords) > 0 {
		return errors.New("LLB cannot express extended attributes")
	}
	owner := llb.ChownOpt{User: &llb.UserOpt{UID: h.Uid}, Group: &llb.UserOpt{UID: h.Gid}}
	at := llb.WithCreatedTime(h.ModTime)
	if gone, ok := strings.CutPrefix(path.Base(p), ".wh."); ok {
		return w.remove(path.Join(path.Dir(p), gone))
	}
	switch h.Typeflag {
	case tar.TypeDir:
		w.before = w.before.Mkdir(p, mode, owner, at)
		w.after = w.after.Mkdir(p, mode, owner, at)
	case tar.TypeSymlink:
		w.after = w.after.Symlink(h.Linkname, p, owner, at)
	case tar.TypeReg:
		if w.bytes += h.Size; w.bytes > maxInline {
			return fmt.Errorf("its files have more than %d MiB", maxInline>>20)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		w.after = w.after.Mkfile(p, mode, b, owner, at)
	default:
		return fmt.Errorf("LLB cannot express its type %q", h.Typeflag)
	}
	return nil
}

// remove adds the path to the state before, and not to the state after.
func (w *writer) remove(p string) error {
	if strings.HasPrefix(path.Base(p), ".wh.") {
		return errors.New("LLB cannot express an opaque directory")
	}
	w.removes = true
	w.before = w.before.Mkfile(p, 0o644, nil)
	return nil
}

// Command returns the command that solves a Definition in a file, with the config of the
// patched image, which LLB does not have, and its annotations. to is the reference to
// push to.
func Command(p *patch.Patched, to, file string) (string, error) {
	attrs, err := attributes(p)
	if err != nil {
		return "", err
	}
	attrs["containerimage.config"] = string(p.Config)
	fields := []string{"type=image", csvField("name=" + to), "push=true"}
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		fields = append(fields, csvField(k+"="+attrs[k]))
	}
	return "buildctl build --output " + shellWord(strings.Join(fields, ",")) + " < " + shellWord(file), nil
}

// attributes returns BuildKit's exporter attributes for the patched manifest.
func attributes(p *patch.Patched) (map[string]string, error) {
	var m struct {
		MediaType   string            `json:"mediaType"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(p.Manifest, &m); err != nil {
		return nil, fmt.Errorf("the patched image has no manifest: %w", err)
	}
	attrs := map[string]string{"oci-mediatypes": fmt.Sprint(!strings.Contains(m.MediaType, "docker"))}
	for k, v := range m.Annotations {
		attrs["annotation."+k] = v
	}
	return attrs, nil
}

// csvField quotes a field of --output.
func csvField(s string) string {
	if !strings.ContainsAny(s, ",\"\r\n") {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// shellWord quotes a word for a POSIX shell.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@=,+", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
