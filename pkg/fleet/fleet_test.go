package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestImages(t *testing.T) {
	got, err := Images([]string{"b:2", "ghcr.io/org/a@sha256:" + strings.Repeat("0", 64), "b:2", "b:1"})
	if want := []string{"b:1", "b:2", "ghcr.io/org/a@sha256:" + strings.Repeat("0", 64)}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for _, ref := range []string{"docker:a", "oci:dir", "dir:/", "docker-archive:a.tar", "./a", "a b", "a\nb", "a:${{x}}", "$(x)", "A B", "", "docker://a"} {
		if got, err := Images([]string{"b:1", ref}); err == nil {
			t.Errorf("%q is taken: %q", ref, got)
		}
	}
	if _, err := Images(nil); err == nil {
		t.Error("no image is a fleet")
	}
	var many []string
	for i := range MaxList / 10 {
		many = append(many, fmt.Sprintf("app%07d", i))
	}
	if _, err := Images(many); err == nil || !strings.Contains(err.Error(), "a ConfigMap holds 1 MiB") {
		t.Error(err)
	}
}

// small returns a fleet of n images.
func small(n int) *Fleet {
	f := &Fleet{Name: "imgcheck", Imgcheck: "ghcr.io/imgcheck/imgcheck:v1", Release: "latest"}
	for i := range n {
		f.Images = append(f.Images, fmt.Sprintf("app%05d:1", i))
	}
	return f
}

func TestShards(t *testing.T) {
	for _, c := range []struct {
		images, shards, parallel int
		kind                     string
		want, at, once           int
	}{
		{1, 0, 0, "job", 1, 1, 1},
		{20, 0, 0, "job", 1, 1, 1},
		{21, 0, 0, "job", 2, 2, 2},
		{1000, 0, 0, "job", 50, 8, 50},
		{30000, 0, 0, "job", 1000, 8, 1000},
		{30000, 0, 0, "github", 256, 8, 256},
		{1000, 16, 16, "job", 16, 16, 16},
	} {
		f := small(c.images)
		f.Shards, f.Parallel = c.shards, c.parallel
		if c.kind == "github" {
			f.Images, f.Imgcheck = f.Images[:10000], ""
		}
		if err := f.check(c.kind); err != nil || f.Shards != c.want || f.Parallel != c.at {
			t.Errorf("%+v: %d shards, %d at a time, %v", c, f.Shards, f.Parallel, err)
		}
	}
	for want, change := range map[string]func(*Fleet){
		"there are only 3 images":         func(f *Fleet) { f.Shards = 4 },
		"say 1 to 1000":                   func(f *Fleet) { f.Shards = -1 },
		"more than 1000 images":           func(f *Fleet) { f.Images, f.Shards = small(2001).Images, 2 },
		"say 1 to 1, the number":          func(f *Fleet) { f.Parallel = 2 },
		"two places for the reports":      func(f *Fleet) { f.Reports, f.Claim = "a/b", "c" },
		"write small letters, digits":     func(f *Fleet) { f.Name = "A" },
		"no name of a namespace":          func(f *Fleet) { f.Namespace = "a\nb" },
		"no name of a queue":              func(f *Fleet) { f.Queue = "a b" },
		"no name of a Secret":             func(f *Fleet) { f.Secret = "{}" },
		"no name of a PersistentVolume":   func(f *Fleet) { f.Claim = "a: b" },
		"no reference of an image":        func(f *Fleet) { f.Imgcheck = "a b" },
		"write a repository":              func(f *Fleet) { f.Reports = "ghcr.io/org/reports:tag" },
		"an engine would read $( and {{":  func(f *Fleet) { f.Scan = []string{"--gpu=$(X)"} },
		"--schedule is for a CronJob or ": func(f *Fleet) { f.Schedule = "0 3 * * 1" },
	} {
		f := small(3)
		change(f)
		if err := f.Write(io.Discard, "job"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, c := range map[string]struct {
		kind   string
		change func(*Fleet)
	}{
		"there is no engine":               {"nomad", func(*Fleet) {}},
		"a CronJob needs a --schedule":     {"cronjob", func(*Fleet) {}},
		"write the five fields":            {"cronjob", func(f *Fleet) { f.Schedule = "@daily" }},
		"a matrix of GitHub":               {"github", func(f *Fleet) { f.Images, f.Shards = small(300).Images, 300 }},
		"has no --namespace":               {"github", func(f *Fleet) { f.Queue = "q" }},
		"which a step of GitHub":           {"github", func(f *Fleet) { f.Images = small(20000).Images }},
		"of Argo keeps the reports itself": {"argo", func(f *Fleet) { f.Claim = "c" }},
		"say --release instead of --image": {"github", func(f *Fleet) { f.Imgcheck = "a" }},
		"pods need an image":               {"argo", func(f *Fleet) { f.Imgcheck = "" }},
		"no release of imgcheck":           {"github", func(f *Fleet) { f.Release = "x; rm" }},
	} {
		f := small(3)
		if c.kind == "github" {
			f.Imgcheck = ""
		}
		c.change(f)
		if err := f.Write(io.Discard, c.kind); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRun: another list, or other work of the shards, has another name, and the same one the same.
func TestRun(t *testing.T) {
	names := map[string]bool{}
	for _, change := range []func(*Fleet){
		func(*Fleet) {}, func(f *Fleet) { f.Images[1] = "other" }, func(f *Fleet) { f.Scan = []string{"--gpu=L4"} }, func(f *Fleet) { f.Shards = 2 }, func(f *Fleet) { f.Imgcheck = "other" }, func(f *Fleet) { f.Name = "b" },
	} {
		f, again := small(3), small(3)
		change(f)
		change(again)
		if f.Run() != again.Run() || names[f.Run()] {
			t.Errorf("%+v: %s", f, f.Run())
		}
		names[f.Run()] = true
	}
}

// FuzzWrite states the law of what is written: either a field is refused, or the documents are
// YAML that has it as it is.
func FuzzWrite(f *testing.F) {
	f.Add("imgcheck", "true", "q", "123", "ghcr.io/imgcheck/imgcheck:v1", "0 3 * * 1", "ghcr.io/org/reports", "--gpu=L4", "ignore: []\n")
	f.Add("a", "0x1", "1e3", "null", "a", "* * * * *", "a/b", "--gpu=\"RTX 4090\"", "a: |\n  b\u00e4\t\n")
	f.Add("a", "~", "a: b", "#", "a", "", "", "'", "\u2028\u0085")
	f.Fuzz(func(t *testing.T, name, namespace, queue, secret, image, schedule, reports, arg, policy string) {
		fleet := &Fleet{Name: name, Namespace: namespace, Images: []string{"a:1"}, Imgcheck: image, Queue: queue, Secret: secret, Schedule: schedule, Reports: reports, Scan: []string{arg}, Policy: policy}
		var b bytes.Buffer
		if err := fleet.Write(&b, "cronjob"); err != nil {
			if b.Len() > 0 {
				t.Errorf("%v, and a document", err)
			}
			return
		}
		type object = map[string]any
		var docs []object
		for d := yaml.NewDecoder(&b); ; {
			var one object
			err := d.Decode(&one)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, one)
		}
		if len(docs) != 2 || docs[0]["kind"] != "ConfigMap" || docs[1]["kind"] != "CronJob" {
			t.Fatalf("%d documents", len(docs))
		}
		want := object{"images": "a:1\n"}
		if policy != "" {
			want["imgcheck.yaml"] = policy
		}
		if fmt.Sprint(docs[0]["data"]) != fmt.Sprint(want) {
			t.Errorf("data %v", docs[0]["data"])
		}
		spec := docs[1]["spec"].(object)
		job := spec["jobTemplate"].(object)
		pod := job["spec"].(object)["template"].(object)["spec"].(object)
		container := pod["containers"].([]any)[0].(object)
		if namespace != "" && docs[1]["metadata"].(object)["namespace"] != namespace {
			t.Errorf("namespace %v", docs[1]["metadata"])
		}
		if queue != "" && job["metadata"].(object)["labels"].(object)["kueue.x-k8s.io/queue-name"] != queue {
			t.Errorf("labels %v", job["metadata"])
		}
		if args := container["args"].([]any); spec["schedule"] != schedule || container["image"] != image || args[len(args)-1] != arg {
			t.Errorf("%v, %v", spec["schedule"], container)
		}
		last := pod["volumes"].([]any)[len(pod["volumes"].([]any))-1].(object)
		if secret != "" && last["secret"].(object)["secretName"] != secret {
			t.Errorf("volume %v", last)
		}
	})
}

// The shell of a job of GitHub gets the arguments as they are.
func TestWords(t *testing.T) {
	f := small(2)
	f.Shards, f.Scan = 2, []string{"--gpu", "RTX 4090", "--gpu=it's"}
	words, err := (&page{f, places["github"]}).Words()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(words, " ")
	for _, want := range []string{`"--shard=$SHARD/2"`, `'RTX 4090'`, `"--gpu=it's"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}
