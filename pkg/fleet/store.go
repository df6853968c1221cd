package fleet

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// The media types of a stored report: of the artifact, and of its only layer, JSON that gzip has
// packed.
const (
	reportArtifact = "application/vnd.imgcheck.reports.v1"
	reportLayer    = types.MediaType("application/vnd.imgcheck.reports.v1+json+gzip")
)

// maxStored bounds a stored report as it is packed, in bytes; [report.ReadAny] bounds what is in
// it.
const maxStored = 64 << 20

// tagged parses the name of a stored report, REPOSITORY:TAG.
func tagged(ref string, insecure bool) (name.Tag, error) {
	parsed, err := source.ParseReference(ref, insecure)
	if err != nil {
		return name.Tag{}, err
	}
	tag, ok := parsed.(name.Tag)
	if !ok || !strings.HasSuffix(ref, ":"+tag.TagStr()) {
		return name.Tag{}, errors.New("write it like ghcr.io/org/reports:name")
	}
	return tag, nil
}

// CheckStore returns an error if ref cannot be the name of a stored report.
func CheckStore(ref string, insecure bool) error {
	_, err := tagged(ref, insecure)
	return err
}

// Store stores a report in a registry as ref, REPOSITORY:TAG, in place of one that was stored
// there. The same report is the same artifact.
func Store(ctx context.Context, ref string, set *report.Set, o source.Options) error {
	tag, err := tagged(ref, o.Insecure)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := report.SetJSON(z, set, report.Options{}); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if b.Len() > maxStored {
		return fmt.Errorf("the report has %d MiB: scan in more shards", b.Len()>>20)
	}
	return put(ctx, tag, b.Bytes(), o)
}

// put stores a packed report.
func put(ctx context.Context, tag name.Tag, packed []byte, o source.Options) error {
	to, err := source.NewArtifacts(tag.Context(), o)
	if err != nil {
		return err
	}
	blob, err := to.Blob(ctx, packed, reportLayer)
	if err != nil {
		return err
	}
	_, err = to.Put(ctx, v1.Manifest{ArtifactType: reportArtifact, Layers: []v1.Descriptor{blob}}, tag.TagStr())
	return err
}

// Fetch fetches the reports that the shards of a fleet have stored as ref-0, ref-1 and so on;
// the first says how many there are. It returns those that are there, and [report.Merge] says
// which ones are missing.
func Fetch(ctx context.Context, ref string, o source.Options) ([]*report.Set, error) {
	if _, err := tagged(ref, o.Insecure); err != nil {
		return nil, err
	}
	var sets []*report.Set
	for i, n := 0, 1; i < n; i++ {
		set, err := fetch(ctx, fmt.Sprintf("%s-%d", ref, i), o)
		switch {
		case errors.Is(err, fs.ErrNotExist) && i > 0:
			continue
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s-0: shard 0 has stored no report: wait for it, or run it again (%w)", ref, err)
		case err != nil:
			return nil, fmt.Errorf("%s-%d: %w", ref, i, err)
		case set.Shard == nil:
			return nil, fmt.Errorf("%s-%d: is the report of no shard", ref, i)
		}
		n = set.Shard.Of
		sets = append(sets, set)
	}
	return sets, nil
}

// fetch fetches a stored report.
func fetch(ctx context.Context, ref string, o source.Options) (*report.Set, error) {
	tag, err := tagged(ref, o.Insecure)
	if err != nil {
		return nil, err
	}
	repo := source.NewRepository(tag.Context(), o)
	doc, err := repo.Get(ctx, tag)
	if err != nil {
		return nil, err
	}
	m, err := v1.ParseManifest(bytes.NewReader(doc.Raw))
	switch {
	case err != nil:
		return nil, fmt.Errorf("is no stored report: %w", err)
	case m.ArtifactType != reportArtifact || len(m.Layers) != 1 || m.Layers[0].MediaType != reportLayer:
		return nil, errors.New("is no stored report")
	case m.Layers[0].Size < 0 || m.Layers[0].Size > maxStored:
		return nil, fmt.Errorf("the report is larger than %d MiB", maxStored>>20)
	}
	blob, err := repo.Blob(ctx, m.Layers[0], nil)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	packed, err := io.ReadAll(io.LimitReader(blob, m.Layers[0].Size+1))
	if err != nil {
		return nil, err
	}
	if got, _, err := v1.SHA256(bytes.NewReader(packed)); err != nil || got != m.Layers[0].Digest {
		return nil, errors.New("the report is damaged: its digest is another one")
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	single, set, err := report.ReadAny(z)
	if err == nil && single != nil {
		err = errors.New("is the report of one image")
	}
	return set, err
}
