package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// TestSurroundings: the place that a text comes from orders the cases and the fixes.
func TestSurroundings(t *testing.T) {
	x := explainer(t)
	const noToolkit = `docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].`
	const noDriver = "libcuda.so.1: cannot open shared object file: No such file or directory"
	for _, c := range []struct {
		name, text, first, fix, without string
	}{
		{"nothing told", noToolkit, "toolkit-not-set-up", "install the NVIDIA Container Toolkit", ""},
		{"snap", "/snap/bin/docker run --gpus all x\n" + noToolkit, "toolkit-not-set-up", "Docker as a snap", "with Podman: "},
		{"WSL", "root@host:/mnt/c/Users/x$ python a.py\n" + noDriver, "driver-not-mounted", "in WSL: ", "on a Jetson: "},
		{"Kubernetes", "kubectl logs pod\n" + noDriver, "driver-not-mounted", "in Kubernetes: ", "with Podman: "},
		{"Podman", "$ podman run x\n" + noDriver, "driver-not-mounted", "with Podman: ", "in Kubernetes: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := x.Explain(c.text).Answers
			if len(a) == 0 || a[0].Case != c.first || !strings.HasPrefix(a[0].Fixes[0], c.fix) {
				t.Fatalf("got %+v", a)
			}
			if i := slices.IndexFunc(a[0].Fixes, func(f string) bool { return strings.HasPrefix(f, c.without) }); c.without != "" && i >= 0 {
				t.Errorf("fix %q is for another place", a[0].Fixes[i])
			}
		})
	}
}

// TestTwins: a text of an AMD GPU has AMD's cases in place of NVIDIA's.
func TestTwins(t *testing.T) {
	x := explainer(t)
	a := x.Explain("rocminfo: gfx1030\nRuntimeError: No HIP GPUs are available").Answers
	if len(a) == 0 || a[0].Case != "gpu-device-not-given" {
		t.Fatalf("got %+v", a)
	}
	for _, other := range a {
		if other.Case == "driver-not-mounted" || other.Case == "toolkit-not-set-up" {
			t.Errorf("%s is NVIDIA's", other.Case)
		}
	}
}

// TestRemedies: fixes that cases share come after their own, and those with words in texts that
// have them.
func TestRemedies(t *testing.T) {
	x := explainer(t)
	const frames = "Traceback (most recent call last):\n" +
		"  File \"/usr/lib/python3/dist-packages/ctranslate2/__init__.py\", line 8, in <module>\n" +
		"  File \"/usr/lib/python3/dist-packages/pip/_internal/x.py\", line 1, in <module>\n"
	const lost = "ImportError: libcublas.so.11: cannot open shared object file: No such file or directory"
	fixes := strings.Join(x.Explain(frames + lost).Answers[0].Fixes, "\n")
	if !strings.Contains(fixes, "another release of ctranslate2,") {
		t.Errorf("the package of the traceback is not named:\n%s", fixes)
	}
	fixes = strings.Join(x.Explain(lost).Answers[0].Fixes, "\n")
	if strings.Contains(fixes, "another release of") || strings.Contains(fixes, "flash-attn") {
		t.Errorf("got fixes for what the text does not have:\n%s", fixes)
	}
	a := x.Explain("vllm: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB").Answers[0]
	i := slices.IndexFunc(a.Fixes, func(f string) bool { return strings.HasPrefix(f, "vLLM: ") })
	if i < 1 || i > 2 {
		t.Errorf("vLLM's fix is number %d of %q", i, a.Fixes)
	}
}

// TestCheckSurroundings: a surrounding or a remedy of an unknown case is refused.
func TestCheckSurroundings(t *testing.T) {
	cases := map[string]*packs.Case{"known": {ID: "known"}}
	for _, p := range []packs.Sections{
		{Surroundings: []*packs.Surrounding{{ID: "wsl", First: []string{"lost"}}}},
		{Surroundings: []*packs.Surrounding{{ID: "amd", Twins: map[string]string{"known": "lost"}}}},
		{Surroundings: []*packs.Surrounding{{ID: "snap", Fixes: []*packs.Remedy{{Of: []string{"lost"}}}}}},
		{Remedies: []*packs.Remedy{{Of: []string{"known", "lost"}}}},
	} {
		x := &Explainer{packs: &packs.Packs{Sections: p}, cases: cases}
		if err := x.checkSurroundings(); err == nil || !strings.Contains(err.Error(), `no case "lost"`) {
			t.Errorf("got %v", err)
		}
	}
}
