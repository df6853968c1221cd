//go:build !windows

package main

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"
	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// fleetSize returns the number of images of TestFleet, and how many megabytes each of their ten
// bases has: some by default, so that the test is over in seconds, and those of FLEET=1000,100 by
// hand.
func fleetSize(t *testing.T) (n, mb int) {
	n, mb = 96, 0
	if by := os.Getenv("FLEET"); by != "" {
		if _, err := fmt.Sscanf(by, "%d,%d", &n, &mb); err != nil {
			t.Fatalf("FLEET=%s: write it like 1000,100", by)
		}
	}
	return n, mb
}

// holding is a registry that holds a request for the manifest of one repository, until its client
// is gone: that client can be killed at this image, whenever that may be.
type holding struct {
	next http.Handler
	mu   sync.Mutex
	held map[string]func() // by repository
}

func (h *holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	var kill func()
	for repo, do := range h.held {
		if strings.HasPrefix(r.URL.Path, "/v2/"+repo+"/manifests/") {
			kill = do
			delete(h.held, repo)
		}
	}
	h.mu.Unlock()
	if kill == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	kill()
	<-r.Context().Done()
}

// kill arranges that a process is killed when it asks for an image.
func (h *holding) kill(repo string, do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[repo] = do
}

// pushFleet pushes n images over ten shared bases, each of which has mb megabytes beside its
// text, and returns their references at host.
func pushFleet(t *testing.T, server *imagetest.Server, host string, n, mb int) []string {
	t.Helper()
	texts := []string{"ort-no-cudnn", "torch-healthy", "soname-link-missing", "jax-no-cudnn", "cupy-healthy"}
	bases := make([]v1.Image, 10)
	for i := range bases {
		data, err := images.Text(texts[i%len(texts)] + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		bases[i] = imagetest.V1(t, string(data)+fmt.Sprintf("-- 8/srv/base%d --\ntext\nbase %d\n", i, i))
		if mb > 0 {
			noise := make([]byte, mb<<20)
			rand.NewChaCha8([32]byte{byte(i)}).Read(noise)
			bases[i] = over(t, bases[i], "srv/noise", noise)
		}
	}
	var refs []string
	for i := range n {
		repo := fmt.Sprintf("team/app%04d", i)
		if _, err := server.Push(repo+":1", over(t, bases[i*7%len(bases)], "srv/app", []byte(repo))); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, host+"/"+repo+":1")
	}
	return refs
}

// over returns an image with one more layer, of one file.
func over(t *testing.T, base v1.Image, name string, content []byte) v1.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	w.Write(content)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(base, static.NewLayer(b.Bytes(), types.DockerUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// emittedJob is the part of a Job with its list that a node needs to run its containers.
type emittedJob struct {
	Data map[string]string
	Spec struct {
		Completions int
		Template    struct {
			Spec struct {
				Containers []struct {
					Args         []string
					Env          []struct{ Name, Value string }
					VolumeMounts []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
			}
		}
	}
}

// node runs the containers of a Job as a machine of a cluster would: with the arguments, the variables and the
// volumes of the Job, and with nothing else.
type node struct {
	program string
	job     emittedJob
	mounts  map[string]string // the directories of volumes, by path in the container
}

// newNode reads what imgcheck fleet has written, and makes the volumes.
func newNode(t *testing.T, text string) *node {
	t.Helper()
	program, err := exec.LookPath("imgcheck")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{program: program, mounts: map[string]string{}}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var one emittedJob
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if one.Data != nil {
			n.job.Data = one.Data
		} else {
			n.job.Spec = one.Spec
		}
	}
	for _, m := range n.job.Spec.Template.Spec.Containers[0].VolumeMounts {
		n.mounts[m.MountPath] = t.TempDir()
		if m.Name == "images" {
			for file, text := range n.job.Data {
				if err := os.WriteFile(filepath.Join(n.mounts[m.MountPath], file), []byte(text), 0o444); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return n
}

// shard returns the process of a shard.
func (n *node) shard(i int) *exec.Cmd {
	c := n.job.Spec.Template.Spec.Containers[0]
	var args []string
	for _, a := range c.Args {
		a = strings.ReplaceAll(a, "$(JOB_COMPLETION_INDEX)", strconv.Itoa(i))
		for path, dir := range n.mounts { // --input=/imgcheck/images, --output=json=/reports/…
			if strings.Contains(a, "="+path+"/") {
				a = strings.Replace(a, "="+path+"/", "="+dir+"/", 1)
				break
			}
		}
		args = append(args, a)
	}
	cmd := exec.Command(n.program, args...)
	cmd.Dir = n.mounts["/tmp"]
	cmd.Env = []string{"PATH=/usr/local/bin", "HOME=" + n.mounts["/tmp"], "JOB_COMPLETION_INDEX=" + strconv.Itoa(i)}
	for _, e := range c.Env {
		value := e.Value
		if dir, ok := n.mounts[value]; ok {
			value = dir
		}
		cmd.Env = append(cmd.Env, e.Name+"="+value)
	}
	return cmd
}

// runShards runs shards, two at a time, and returns the exit status of each; -1 if a signal has
// ended it. One for which killAt has a repository is killed when it asks for that image.
func (n *node) runShards(t *testing.T, registry *holding, shards []int, killAt map[int]string) map[int]int {
	t.Helper()
	var mu sync.Mutex
	statuses := map[int]int{}
	var g errgroup.Group
	g.SetLimit(2)
	for _, i := range shards {
		g.Go(func() error {
			cmd := n.shard(i)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			begun := make(chan struct{})
			if repo := killAt[i]; repo != "" {
				registry.kill(repo, func() { <-begun; cmd.Process.Kill() })
			}
			if err := cmd.Start(); err != nil {
				return err
			}
			close(begun)
			err := cmd.Wait()
			if err != nil && !errors.As(err, new(*exec.ExitError)) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[i] = cmd.ProcessState.ExitCode()
			if statuses[i] == exitFailed && !strings.Contains(errs.String(), "could not be scanned") {
				return fmt.Errorf("shard %d: %s", i, errs.String())
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return statuses
}

// TestFleet scans images in the 16 shards of a Job, each in a process as its container would. A
// fifth of the shards is lost: two are killed in the middle of their images, and one never runs.
// These run again, and another one twice. The merged report has the same bytes as that of one
// scan of all images, whatever the order. FLEET=1000,100 takes as many images, over bases of 100 MB.
func TestFleet(t *testing.T) {
	n, mb := fleetSize(t)
	server := imagetest.Serve(t)
	registry := &holding{next: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Host}), held: map[string]func(){}}
	front := httptest.NewServer(registry)
	defer front.Close()
	host := strings.TrimPrefix(front.URL, "http://")
	refs := append(pushFleet(t, server, host, n-1, mb), host+"/team/app0040x:1") // the last is not there

	imgcheck := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := run(t.Context(), append([]string{"imgcheck"}, args...), &out, &errs); got != want {
			t.Fatalf("imgcheck %q: status %d: %s", args, got, errs.String())
		}
		return out.String(), errs.String()
	}
	list := filepath.Join(t.TempDir(), "images")
	if err := os.WriteFile(list, []byte(strings.Join(refs, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	const shards = 16
	text, _ := imgcheck(exitOK, "fleet", "--emit", "job", "-i", list, "--shards", strconv.Itoa(shards), "--claim", "reports", "--image", "imgcheck", "--", "--no-fixes")
	job := newNode(t, text)
	if job.job.Spec.Completions != shards {
		t.Fatalf("%d completions", job.job.Spec.Completions)
	}
	listed := strings.Fields(job.job.Data["images"])
	repository := func(shard, k int) string { // of the image k of a shard
		_, repo, _ := strings.Cut(strings.TrimSuffix(listed[shard*len(listed)/shards+k], ":1"), "/")
		return repo
	}
	gone := 0 // the shard with the image that is not there
	for (gone+1)*len(listed)/shards <= slices.Index(listed, refs[n-1]) {
		gone++
	}
	var all []int
	for i := range shards {
		if i != 7 { // whose node never comes
			all = append(all, i)
		}
	}
	for i, status := range job.runShards(t, registry, all, map[int]string{2: repository(2, 0), 11: repository(11, 3)}) {
		want := map[int]int{2: -1, 11: -1, gone: exitFailed}[i]
		if status != want {
			t.Errorf("shard %d ended with %d, want %d", i, status, want)
		}
	}
	reports := func() []string {
		names, err := filepath.Glob(filepath.Join(job.mounts["/reports"], "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if _, why := imgcheck(exitFailed, append([]string{"fleet", "merge"}, reports()...)...); !strings.Contains(why, "3 of 16 shards is missing: run --shard I/16 again for I = 2, 7, 11") {
		t.Error(why)
	}

	early := filepath.Join(t.TempDir(), "early.json") // of shard 4, which runs twice
	first := slices.IndexFunc(reports(), func(name string) bool { return strings.HasSuffix(name, "-4.json") })
	if err := os.Rename(reports()[first], early); err != nil {
		t.Fatal(err)
	}
	job.runShards(t, registry, []int{2, 4, 7, 11}, nil)
	names := reports()
	if len(names) != shards {
		t.Fatalf("%d reports", len(names))
	}
	merge := func(names ...string) string {
		out, errs := imgcheck(exitOK, append([]string{"fleet", "merge", "-f", "json"}, names...)...)
		if errs != "" {
			t.Error(errs)
		}
		return out
	}
	merged := merge(names...)
	slices.Reverse(names)
	if merge(append(names, early, names[3])...) != merged {
		t.Error("the order of the reports, or that one is there twice, changes the merged one")
	}
	whole := filepath.Join(t.TempDir(), "whole.json")
	imgcheck(exitFailed, "scan", "--no-cache", "--config", "none", "--no-fixes", "-q", "-i", list, "-o", "json="+whole)
	if merge(whole) != merged {
		t.Error("the shards' reports, merged, are not that of one scan")
	}
	for request, n := range server.Requests() { // a layer that images of a shard share is fetched once
		if processes := len(all) + 4 + 1; strings.HasPrefix(request, "GET ") && strings.Contains(request, "/blobs/") && n > processes {
			t.Errorf("%s: %d times in %d processes", request, n, processes)
		}
	}
	_, set, err := report.ReadAny(strings.NewReader(merged))
	if err != nil {
		t.Fatal(err)
	}
	if set.Summary.Images != n || set.Summary.NotScanned != 1 || set.Summary.Failing < n/2 || len(set.Causes) == 0 {
		t.Errorf("%+v, %d causes", set.Summary, len(set.Causes))
	}
}

// TestFleetIndexes: shards take the indexes of layers from another registry than the images', and
// fetch only layers that it does not have: those that the bases' builds have signed; and those
// that shards before them have stored. The reports are the same.
func TestFleetIndexes(t *testing.T) {
	server, store := imagetest.Serve(t), imagetest.Serve(t)
	registry := &holding{held: map[string]func(){}}
	refs := pushFleet(t, server, server.Host, 20, 0)
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte(strings.Join(refs, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	// command runs a command in this process with an empty cache.
	command := func(args ...string) string {
		t.Helper()
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		var out, errs bytes.Buffer
		if got := run(t.Context(), append([]string{"imgcheck"}, args...), &out, &errs); got != exitOK {
			t.Fatalf("imgcheck %q: status %d: %s", args, got, errs.String())
		}
		return out.String()
	}
	// layers returns the number of layers that have been fetched: blobs that no config is.
	configs := map[string]bool{}
	blobs := map[string]int{}
	for _, ref := range refs {
		img, err := remote.Image(must(name.ParseReference(ref)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := img.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		configs[m.Config.Digest.String()] = true
		for _, l := range m.Layers {
			blobs[l.Digest.String()]++
		}
	}
	layers := func() (n int) {
		for request, times := range server.Requests() {
			if _, digest, ok := strings.Cut(request, "/blobs/"); ok && strings.HasPrefix(request, "GET ") && !configs[digest] {
				n += times
			}
		}
		return n
	}
	own := 0 // layers that one image alone has
	for _, n := range blobs {
		if n == 1 {
			own++
		}
	}
	// shards runs the shards with flags, and returns their merged report and the layers that they have
	// fetched.
	shards := func(flags ...string) (merged string, fetched int) {
		t.Helper()
		args := []string{"fleet", "-i", list, "--shards", "4", "--claim", "reports", "--image", "imgcheck", "--", "--no-fixes"}
		job := newNode(t, command(append(args, flags...)...))
		before := layers()
		for i, status := range job.runShards(t, registry, []int{0, 1, 2, 3}, nil) {
			if status != exitOK {
				t.Errorf("%q: shard %d ended with %d", flags, i, status)
			}
		}
		fetched = layers() - before
		names, err := filepath.Glob(filepath.Join(job.mounts["/reports"], "*.json"))
		if err != nil || len(names) != 4 {
			t.Fatalf("%q: %d reports, %v", flags, len(names), err)
		}
		t.Logf("%q: %d layers", flags, fetched)
		return command(append([]string{"fleet", "merge", "-f", "json"}, names...)...), fetched
	}
	want, all := shards()

	signed, shared := store.Host+"/indexes/signed", store.Host+"/indexes/shared"
	team, public := keyPair(t)
	_, other := keyPair(t)
	for _, ref := range refs[:10] { // each over another base
		command("index", "--push", "--index-to", signed, "--sign-key", team, ref)
	}
	if got, n := shards("--index-from", signed, "--index-key", public); got != want || n != own-10 {
		t.Errorf("with signed indexes %d layers of %d are fetched, want %d; the same report: %v", n, all, own-10, got == want)
	}
	if got, n := shards("--index-from", signed, "--index-key", other); got != want || n != all {
		t.Errorf("with indexes that another key has signed %d layers of %d are fetched; the same report: %v", n, all, got == want)
	}
	if got, n := shards("--index-from", shared, "--index-to", shared); got != want || n > all {
		t.Errorf("storing indexes, %d layers of %d are fetched; the same report: %v", n, all, got == want)
	}
	if got, n := shards("--index-from", shared, "--index-to", shared); got != want || n != 0 {
		t.Errorf("after it %d layers are fetched; the same report: %v", n, got == want)
	}
}

// keyPair returns the files of a new private key and of its public key.
func keyPair(t *testing.T) (private, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range []struct {
		name *string
		kind string
		der  []byte
	}{{&private, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))}, {&public, "PUBLIC KEY", must(x509.MarshalPKIXPublicKey(pub))}} {
		*f.name = filepath.Join(dir, strings.ReplaceAll(f.kind, " ", "-"))
		if err := os.WriteFile(*f.name, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, public
}

// must returns a value that has no error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestFleetWorkflow runs the shells of a workflow of GitHub: of each job of its matrix, one of which
// has an image that is not there, and of the job that merges their reports.
func TestFleetWorkflow(t *testing.T) {
	server := imagetest.Serve(t)
	refs := append(pushFleet(t, server, server.Host, 3, 0), server.Host+"/team/gone:1")
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("ignore:\n  - id: missing-link\n    reason: \"$HOME and 'quotes'\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	args := slices.Concat([]string{"imgcheck", "fleet", "--emit", "github", "--shards", "2", "--config", policy}, refs, []string{"--", "--gpu", "RTX 4090", "--no-fixes"})
	if status := run(t.Context(), args, &out, &errs); status != exitOK {
		t.Fatal(errs.String())
	}
	type job struct {
		Strategy struct{ Matrix struct{ Shard []int } }
		Steps    []struct {
			Name, Run string
			Env       map[string]string
		}
	}
	var w struct{ Jobs map[string]job }
	if err := yaml.Unmarshal(out.Bytes(), &w); err != nil {
		t.Fatal(err)
	}
	if got := w.Jobs["shard"].Strategy.Matrix.Shard; !slices.Equal(got, []int{0, 1}) {
		t.Fatalf("matrix %v", got)
	}
	// step runs a step as GitHub does: https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax#jobsjob_idstepsshell
	step := func(job, name, dir string, want int, more ...string) {
		t.Helper()
		for _, s := range w.Jobs[job].Steps {
			if s.Name != name {
				continue
			}
			cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
			cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, more...)
			for name, value := range s.Env {
				if !strings.Contains(value, "${{") {
					cmd.Env = append(cmd.Env, name+"="+value)
				}
			}
			text, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			return
		}
		t.Fatalf("there is no step %q", name)
	}
	merge := t.TempDir()
	for i, want := range []int{exitOK, exitFailed} {
		dir := t.TempDir()
		step("shard", "Scan", dir, want, "SHARD="+strconv.Itoa(i))
		names, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil || len(names) != 1 {
			t.Fatalf("%q, %v", names, err)
		}
		if err := os.MkdirAll(filepath.Join(merge, "shards"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(names[0], filepath.Join(merge, "shards", filepath.Base(names[0]))); err != nil {
			t.Fatal(err)
		}
	}
	summary := filepath.Join(merge, "summary.md")
	step("merge", "Merge", merge, exitOK, "GITHUB_STEP_SUMMARY="+summary)
	text, err := os.ReadFile(filepath.Join(merge, "imgcheck.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, set, err := report.ReadAny(bytes.NewReader(text))
	if err != nil || set.Summary.Images != 4 || set.Summary.NotScanned != 1 || set.Summary.Failing != 1 { // the policy ignores the other failure
		t.Errorf("%+v, %v", set, err)
	}
	if text, err := os.ReadFile(summary); err != nil || !strings.Contains(string(text), "team/gone:1") {
		t.Errorf("%v: %s", err, text)
	}
}
