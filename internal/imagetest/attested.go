package imagetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Attested returns an index with an image and the attestation manifest that BuildKit writes
// beside it, with one in-toto statement.
func Attested(img v1.Image, predicateType string, statement []byte) (v1.ImageIndex, error) {
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(statement, "application/vnd.in-toto+json")
	attestation, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: layer, MediaType: "application/vnd.in-toto+json", Annotations: map[string]string{"in-toto.io/predicate-type": predicateType}})
	if err != nil {
		return nil, err
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: config.Platform()}},
		mutate.IndexAddendum{Add: attestation, Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: "unknown", Architecture: "unknown"},
			Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": digest.String()},
		}}), nil
}

// Provenance returns a statement as BuildKit writes it with provenance=mode=max: layer i of
// the image was made by the instruction in lines[i] of a Dockerfile, [2]int{first, last}. The
// steps of the stages are those of their lines FROM IMAGE AS NAME, RUN and COPY --from=NAME
// SOURCE DESTINATION; others are left out.
func Provenance(img v1.Image, dockerfile []byte, lines [][2]int) ([]byte, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	type object = map[string]any
	chain, chains, locations := []any{}, object{}, object{}
	for i, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return nil, err
		}
		if chain = append(chain, object{"digest": digest.String()}); i >= len(lines) {
			continue
		}
		step := fmt.Sprintf("step%d", i)
		chains[step+":0"] = []any{slices.Clone(chain)}
		locations[step] = object{"locations": []any{object{"ranges": []any{object{"start": object{"line": lines[i][0]}, "end": object{"line": lines[i][1]}}}}}}
	}
	steps := llb(dockerfile, lines, locations)
	source := object{"locations": locations, "infos": []any{object{"filename": "Dockerfile", "language": "Dockerfile", "data": dockerfile}}}
	return json.Marshal(object{"_type": "https://in-toto.io/Statement/v1", "predicateType": PredicateType, "predicate": object{
		"buildDefinition": object{"internalParameters": object{"buildConfig": object{"llbDefinition": steps}}},
		"runDetails":      object{"metadata": object{"buildkit_metadata": object{"source": source, "layers": chains, "vcs": object{"localdir:dockerfile": "docker"}}}},
	}})
}

// llb returns the steps of a build, and adds the places of those that make no layer.
func llb(dockerfile []byte, lines [][2]int, locations map[string]any) (steps []any) {
	type object = map[string]any
	last, stage := map[string]string{}, "" // the last step:output of each stage
	for i, line := range strings.Split(string(dockerfile), "\n") {
		words := strings.Fields(line)
		id, made := fmt.Sprintf("step%d", 1000+i), false
		for k, l := range lines {
			if l[0] == i+1 {
				id, made = fmt.Sprintf("step%d", k), true
			}
		}
		op, inputs := object{}, []string{}
		switch {
		case len(words) == 4 && words[0] == "FROM":
			if stage = words[3]; words[1] == "scratch" {
				continue
			}
			op["source"] = object{"identifier": "docker-image://" + words[1]}
		case len(words) > 1 && words[0] == "RUN" && last[stage] != "":
			op["exec"], inputs = object{"mounts": []any{object{"dest": "/"}}}, []string{last[stage]}
		case len(words) == 4 && words[0] == "COPY" && strings.HasPrefix(words[1], "--from="):
			do := object{"input": -1, "Action": object{"copy": object{"src": words[2], "dest": words[3]}}}
			inputs = []string{last[strings.TrimPrefix(words[1], "--from=")]}
			if last[stage] != "" {
				inputs = append([]string{last[stage]}, inputs...)
				do["input"], do["secondaryInput"] = 0, 1
			}
			op["file"] = object{"actions": []any{do}}
		default:
			continue
		}
		last[stage] = id + ":0"
		steps = append(steps, object{"id": id, "inputs": inputs, "op": object{"Op": op}})
		if place := (object{"line": i + 1}); !made {
			locations[id] = object{"locations": []any{object{"ranges": []any{object{"start": place, "end": place}}}}}
		}
	}
	return steps
}

// PredicateType is that of SLSA provenance.
const PredicateType = "https://slsa.dev/provenance/v1"
