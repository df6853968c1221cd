package fleet

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const zeros = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func TestPods(t *testing.T) {
	for text, want := range map[string][]string{
		// by digest where a node has pulled it: containerd, Docker; else as the pod names it
		`{"apiVersion":"v1","kind":"List","metadata":{},"items":[
		  {"kind":"Pod","spec":{"containers":[{"name":"a","image":"app:1"},{"name":"b","image":"b:2"},{"name":"c","image":"local:3"}],"initContainers":[{"name":"i","image":"init:1"}],"ephemeralContainers":[{"name":"e","image":"debug:1"}]},
		   "status":{"containerStatuses":[{"name":"a","image":"docker.io/library/app:1","imageID":"docker.io/library/app@` + zeros + `"},{"name":"b","imageID":"docker-pullable://b@` + zeros + `"},{"name":"c","imageID":"` + zeros + `"}],"initContainerStatuses":[{"name":"i","imageID":""}]}},
		  {"kind":"Pod","spec":{"containers":[{"name":"x","image":"app:1"}]},"status":{"containerStatuses":[{"name":"x","imageID":"docker.io/library/app@` + zeros + `"}]}}
		]}`: {"b@" + zeros, "debug:1", "docker.io/library/app@" + zeros, "init:1", "local:3"},
		`{"kind":"Pod","spec":{"containers":[{"name":"a","image":"app:1"}]}}`:                                                                     {"app:1"},
		`{"items":[{"kind":"Deployment","spec":{"template":{"spec":{"containers":[{"image":"d:1"}]}}}}],"kind":"List"}`:                           {"d:1"},
		`{"items":[{"kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":{"initContainers":[{"image":"c:1"}]}}}}}}],"kind":"List"}`: {"c:1"},
		`{"items":[],"kind":"List"}`: nil,
		`{"items":[{"spec":{"containers":[{"image":"a"}]}}]} {"items":[{"spec":{"containers":[{"image":"b"}]}}]}`: {"a", "b"},
	} {
		got, err := Pods(strings.NewReader(text))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "[]", "{", `{"items":{}}`, `{"kind":"List","items":[{"kind":"Pod"}`, `{"kind":"List","items":[{"kind":"Pod"}]`, "{}", `{"items":[{"spec":1}]}`, `{"items":[]} x`, `{"items":[]}]`} {
		if got, err := Pods(strings.NewReader(text)); err == nil {
			t.Errorf("%q is a list: %q", text, got)
		}
	}
}

// FuzzPods states that a list is sorted and has each image once, and that the order of pods and
// pods that are there twice change nothing.
func FuzzPods(f *testing.F) {
	f.Add(`{"kind":"Pod","spec":{"containers":[{"name":"a","image":"app:1"}]},"status":{"containerStatuses":[{"name":"a","imageID":"app@`+zeros+`"}]}}`, `{"kind":"Pod"}`)
	f.Add(`{"spec":{"template":{"spec":{"containers":[{"image":"d:1"}]}}}}`, `{"spec":{"containers":[{"image":"e"}]}}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if !json.Valid([]byte(a)) || !json.Valid([]byte(b)) {
			return
		}
		one, err := Pods(strings.NewReader(`{"items":[` + a + `,` + b + `]}`))
		if err != nil {
			return
		}
		if !slices.IsSorted(one) || len(slices.Compact(slices.Clone(one))) != len(one) {
			t.Errorf("%q", one)
		}
		two, err := Pods(strings.NewReader(`{"kind":"List","items":[` + b + `,` + a + `,` + b + `]}`))
		if err == nil && !slices.Equal(one, two) {
			t.Errorf("%q and %q", one, two)
		}
	})
}
