package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// maxPods bounds a list of pods, in bytes: a pod has about ten thousand.
const maxPods = 512 << 20

// podSpec is the part of a PodSpec of Kubernetes that names images.
type podSpec struct {
	Containers          []container `json:"containers"`
	InitContainers      []container `json:"initContainers"`
	EphemeralContainers []container `json:"ephemeralContainers"`
}

// container is a container of a pod, or its status.
type container struct {
	Name    string `json:"name"`
	Image   string `json:"image"`
	ImageID string `json:"imageID"`
}

// pod is a pod, or an object that makes pods.
type pod struct {
	Kind string `json:"kind"`
	Spec struct {
		podSpec
		Template    podTemplate `json:"template"`
		JobTemplate struct {
			Spec struct {
				Template podTemplate `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
	Status struct {
		ContainerStatuses          []container `json:"containerStatuses"`
		InitContainerStatuses      []container `json:"initContainerStatuses"`
		EphemeralContainerStatuses []container `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

type podTemplate struct {
	Spec podSpec `json:"spec"`
}

// Pods returns the images of the pods in what `kubectl get pods -o json` writes, sorted, each
// once. An image that a node has pulled is named by the digest that its status has; one that no
// node has pulled yet, as the pod names it. Objects that make pods (Deployments, Jobs, …) are
// read, too. An image of which the node knows only the ID, since it was loaded there and comes
// from no registry, is named as the pod names it.
func Pods(r io.Reader) ([]string, error) {
	limited := &io.LimitedReader{R: r, N: maxPods + 1}
	d := json.NewDecoder(limited)
	found := map[string]bool{}
	add := func(p *pod) error {
		for _, ref := range p.images() {
			found[ref] = true
			if len(found) > MaxList/8 {
				return errors.New("it names too many images")
			}
		}
		return nil
	}
	err := objects(d, add)
	for err == nil { // another list behind the first
		if err = objects(d, add); errors.Is(err, errEnd) {
			err = nil
			break
		}
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("is larger than %d MiB", maxPods>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("not what `kubectl get pods -o json` writes: %w", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// errEnd says that there is no list any more.
var errEnd = errors.New("it is empty")

// objects calls a function for each object of a list, or for the only one. It reads one object
// at a time.
func objects(d *json.Decoder, do func(*pod) error) error {
	t, err := d.Token()
	if errors.Is(err, io.EOF) {
		return errEnd
	}
	if err != nil || t != json.Delim('{') {
		return notList(err)
	}
	var single pod
	parts := map[string]any{"kind": &single.Kind, "spec": &single.Spec, "status": &single.Status}
	listed := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key != "items" {
			into := parts[key.(string)]
			if into == nil {
				into = new(json.RawMessage)
			}
			if err := d.Decode(into); err != nil {
				return err
			}
			continue
		}
		listed = true
		if t, err := d.Token(); err != nil || t != json.Delim('[') {
			return notList(err)
		}
		for d.More() {
			var p pod
			if err := d.Decode(&p); err != nil {
				return err
			}
			if err := do(&p); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the end of the object: a list that is cut off has none
		return err
	}
	if listed {
		return nil
	}
	if single.Kind == "" {
		return errors.New("it has no items")
	}
	return do(&single)
}

func notList(err error) error {
	if err != nil {
		return err
	}
	return errors.New("it is no list")
}

// images returns the images of a pod, or of those that an object makes.
func (p *pod) images() []string {
	ids := map[string]string{}
	for _, list := range [][]container{p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for _, s := range list {
			ids[s.Name] = pulled(s.ImageID)
		}
	}
	var refs []string
	for _, spec := range []podSpec{p.Spec.podSpec, p.Spec.Template.Spec, p.Spec.JobTemplate.Spec.Template.Spec} {
		for _, list := range [][]container{spec.Containers, spec.InitContainers, spec.EphemeralContainers} {
			for _, c := range list {
				if id := ids[c.Name]; id != "" {
					refs = append(refs, id)
				} else if c.Image != "" {
					refs = append(refs, c.Image)
				}
			}
		}
	}
	return refs
}

// pulled returns the reference in the ID of a container's image: a repository and the digest by
// which it was pulled; "" if the ID is that of an image on the node alone. Docker's are behind
// docker-pullable:// (cri-dockerd).
func pulled(id string) string {
	id = strings.TrimPrefix(id, "docker-pullable://")
	if _, err := name.NewDigest(id); err != nil || !reference.MatchString(id) {
		return ""
	}
	return id
}
