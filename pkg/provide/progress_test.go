package provide

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// Downloads, unpacked files and an image's layers report their progress: each grows, has a
// total, and reaches it.
func TestProgress(t *testing.T) {
	reg := imagetest.Serve(t)
	ref, err := reg.Push("cuda:test", imagetest.V1(t, cudnnImage))
	if err != nil {
		t.Fatal(err)
	}
	w := serve(t)
	one(t, w, func(*file) {})
	for source, want := range map[string][]string{
		"image:" + ref:              {"layer 1 of " + ref, "layer 2 of " + ref, "layer 3 of " + ref, "layer 4 of " + ref, "libcudnn.so.9.1.0", "libcudnn_ops.so.9.1.0"},
		"pypi:" + w.URL + "/simple": {"libcudnn.so.9", "nvidia_cudnn_cu12-"},
	} {
		var mu sync.Mutex
		at, size := map[string]int64{}, map[string]int64{}
		o := Options{Cache: t.TempDir(), Progress: func(what string, done, total int64) {
			mu.Lock()
			defer mu.Unlock()
			if done < at[what] && at[what] != total {
				t.Errorf("%s: from %d to %d of %d", what, at[what], done, total)
			}
			at[what], size[what] = done, total
		}}
		s, err := Open(t.Context(), []string{source}, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Find(t.Context(), Want{Library: "cudnn", CUDA: "12"}); err != nil {
			t.Fatal(err)
		}
		told := sorted(at)
		for _, what := range told {
			if at[what] != size[what] || size[what] == 0 {
				t.Errorf("%s ends at %d of %d", what, at[what], size[what])
			}
		}
		for _, name := range want {
			if !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, name) }) {
				t.Errorf("%s: nothing is told of %s: %q", source, name, told)
			}
		}
	}
}
