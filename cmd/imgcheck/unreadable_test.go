package main

import (
	"bytes"
	"context"
	"regexp"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// foreign is a layer that may not be distributed and is not pushed.
type foreign struct{ v1.Layer }

func (foreign) MediaType() (types.MediaType, error) { return types.DockerForeignLayer, nil }

// TestUnreadableLayers checks that an image with an unreadable layer gets no verdict:
// findings about its other layers would be taken for all there are.
func TestUnreadableLayers(t *testing.T) {
	server := imagetest.Serve(t)
	list, err := imagetest.V1(t, "-- 0/app --\nelf x86_64 type=exec nodynamic\n-- 1/data --\ntext\nnothing\n-- 2/data --\ntext\nmore\n").Layers()
	if err != nil {
		t.Fatal(err)
	}
	for tag, c := range map[string]struct {
		layer mutate.Addendum
		want  string
	}{
		"encrypted": {
			mutate.Addendum{Layer: list[1], MediaType: types.OCILayer + "+encrypted"},
			`^imgcheck: .*: layer 2 is encrypted \(application/vnd.oci.image.layer.v1.tar\+gzip\+encrypted\): decrypt the image first\n$`,
		},
		"foreign": {
			mutate.Addendum{Layer: foreign{list[2]}, MediaType: types.DockerForeignLayer, URLs: []string{"http://" + server.Host + "/nowhere/layer"}},
			`^imgcheck: .*unreadable:foreign: .*\n$`,
		},
	} {
		t.Run(tag, func(t *testing.T) {
			img, err := mutate.Append(v1.Image(empty.Image), mutate.Addendum{Layer: list[0]}, c.layer)
			if err != nil {
				t.Fatal(err)
			}
			ref, err := name.ParseReference(server.Host + "/unreadable:" + tag)
			if err != nil {
				t.Fatal(err)
			}
			if err := remote.Write(ref, img); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			status := run(context.Background(), []string{"imgcheck", "scan", "--no-cache", ref.Name()}, &out, &errs)
			if status != exitFailed || out.Len() > 0 || !regexp.MustCompile(c.want).MatchString(errs.String()) {
				t.Errorf("exit status %d, %q, %q; want %q", status, &out, &errs, c.want)
			}
		})
	}
}
