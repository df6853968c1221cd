// Package buildkit hands a patched image to BuildKit, for those who build there.
//
// [NewContext] writes the patch as a directory for `docker build`: a Dockerfile
// without RUN, and the files that it copies. [Definition] writes it as LLB,
// BuildKit's language, for `buildctl build` to solve: everything that the new layer
// has stands in it, so that nothing but BuildKit and the registry is needed. [Carry]
// has a buildkitd, near the registry rather than here, put the layers of a patched
// image where it is to be published; [patch.Publish] then finds them there, and what
// it publishes is the same to the byte as without BuildKit.
//
// In each way the layer is laid over the base with a merge, as `COPY --link` does:
// a layer that is made by copying into the base has BuildKit pull and unpack all
// of the base first, which for 4.6 GB took 92 s instead of 0.8.
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

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/patch"
)

// maxInline bounds what the files of a Definition may have, in bytes. BuildKit
// takes messages of 16 MiB.
const maxInline = 8 << 20

// Definition is a patched image as LLB, a marshalled pb.Definition: its base, by
// digest, and its new layer, merged. The same image gives the same bytes. It has
// no config: [Command] has. from is the reference of the base, which has to be in
// a registry; insecure allows that to be one that speaks plain HTTP.
//
// It is an error when the layer has more than 8 MiB, or what LLB has no words
// for; [Carry] takes those.
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

// marshal writes a definition; its maps in order, as llb.WriteTo does not.
func marshal(def *llb.Definition) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(def.ToPB())
}

func platform(p *patch.Patched) ocispecs.Platform {
	v := p.Base.Platform
	return ocispecs.Platform{OS: v.OS, Architecture: v.Architecture, Variant: v.Variant, OSVersion: v.OSVersion}
}

// baseState is the image that was patched.
func baseState(p *patch.Patched, from string, insecure bool) (llb.State, error) {
	base, err := baseName(p, from, insecure)
	if err != nil {
		return llb.State{}, err
	}
	return llb.Image(base, llb.Platform(platform(p)), llb.WithCustomName("the image, "+from)), nil
}

// baseName is the image that was patched, by digest, in the repository that it is in:
// of a patched image that from names, the origin's.
func baseName(p *patch.Patched, from string, insecure bool) (string, error) {
	ref, err := reference(from, insecure)
	if err != nil {
		return "", err
	}
	return cmp.Or(p.Base.Repository(), ref.Context().Name()) + "@" + p.Base.Digest, nil
}

// merge lays a layer over an image without looking at either.
func merge(image, layer llb.State) llb.State {
	return llb.Merge([]llb.State{image, layer}, llb.WithCustomName("the layer, over the image"))
}

// reference is an image's in a registry; BuildKit takes images from nowhere else.
func reference(s string, insecure bool) (name.Reference, error) {
	for _, scheme := range layers.Schemes {
		switch rest, ok := strings.CutPrefix(s, scheme.Prefix); {
		case !ok:
		case scheme.Prefix == "registry:":
			s = rest
		case scheme.Prefix == "docker:" && strings.HasPrefix(rest, "//"):
			s = rest[2:]
		default:
			return nil, fmt.Errorf("%s: BuildKit takes and puts images in registries only: push it to one", s)
		}
	}
	ref, err := layers.ParseReference(s, insecure)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return ref, nil
}

// layerState is the new layer, entry by entry. What it removes is the difference
// between having it and not having it, which needs no look at the base.
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

// writer makes the two states that a layer is the difference of, each with one
// operation: a layer is what an operation leaves.
type writer struct {
	before, after *llb.FileAction
	removes       bool
	bytes         int64
}

func (w *writer) entry(h *tar.Header, r io.Reader) error {
	p := path.Clean("/" + h.Name)
	mode := fs.FileMode(h.Mode)
	if h.Mode&^0o777 != 0 {
		return fmt.Errorf("LLB has no words for the mode %04o", h.Mode)
	}
	if len(h.PAXRecords) > 0 {
		return errors.New("LLB has no words for extended attributes")
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
		return fmt.Errorf("LLB has no words for its type %q", h.Typeflag)
	}
	return nil
}

// remove has the path before, and not after.
func (w *writer) remove(p string) error {
	if strings.HasPrefix(path.Base(p), ".wh.") {
		return errors.New("LLB has no words for an opaque directory")
	}
	w.removes = true
	w.before = w.before.Mkfile(p, 0o644, nil)
	return nil
}

// Command is what to type to solve a Definition that was written to a file: with
// the config of the patched image, which is no part of LLB, and its annotations.
// to is the reference to push to.
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

// attributes tell BuildKit's image exporter of the patched manifest.
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
