package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// TestLintWheels: without --wheels no byte of a wheel is read, and with a cache none is read
// twice.
func TestLintWheels(t *testing.T) {
	server, err := imagetest.Registry()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p := readPrediction(t, "../../testdata/predictions/ort-no-cudnn.txtar")
	index, fetched := p.index(t)
	ref, err := server.Push("wheels:base", textImage(t, p.base))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(file, []byte("FROM "+ref+"\nRUN pip install onnxruntime-gpu==1.19.2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("IMGCHECK_CACHE", t.TempDir())
	for _, c := range []struct {
		args    []string
		status  int
		fetches bool
		want    string
	}{
		{nil, exitFindings, false, "onnxruntime-gpu 1.19.2 needs cuDNN 9"},
		{[]string{"--wheels", "64", "--offline"}, exitOK, false, "0 errors"},
		{[]string{"--wheels", "64"}, exitFindings, true, "onnxruntime-gpu 1.19.2 needs libcudnn.so.9"},
		{[]string{"--wheels", "64"}, exitFindings, false, "onnxruntime-gpu 1.19.2 needs libcudnn.so.9"},
		{[]string{"--wheels", "-1"}, exitFailed, false, "--wheels -1: say a number of megabytes"},
		{[]string{"--wheels", "64", "--index", "none", "--all"}, exitFindings, false, "not predicted: what onnxruntime-gpu brings: no index is asked"},
	} {
		*fetched = 0
		var out, errs bytes.Buffer
		status := run(context.Background(), slices.Concat([]string{"imgcheck", "lint", "--config", "none", "--insecure", "--index", index}, c.args, []string{file}), &out, &errs)
		if asked := strings.Contains(errs.String(), "imgcheck: asked 127.0.0.1:"); asked != (slices.Contains(c.args, "--wheels") && len(c.args) == 2 && c.args[1] == "64") {
			t.Errorf("%v: %s", c.args, &errs)
		}
		if text := out.String() + errs.String(); status != c.status || !strings.Contains(text, c.want) || *fetched > 0 != c.fetches {
			t.Errorf("%v: status %d, %d bytes:\n%s", c.args, status, *fetched, text)
		}
	}
}

// TestLintNewest: without a release the newest that has a wheel for the image's Python is assumed,
// and said to be; without an index its release is said not to be known.
func TestLintNewest(t *testing.T) {
	server, err := imagetest.Registry()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p := readPrediction(t, "../../testdata/predictions/ort-no-cudnn.txtar")
	p.wheels["onnxruntime_gpu-1.18.0-cp310-cp310-manylinux_2_27_x86_64.whl"] = []byte("a")
	p.wheels["onnxruntime_gpu-1.26.0-cp313-cp313-manylinux_2_27_x86_64.whl"] = []byte("a")
	index, fetched := p.index(t)
	ref, err := server.Push("wheels:base", textImage(t, p.base))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("IMGCHECK_CACHE", t.TempDir())
	for _, c := range []struct {
		lines, index string
		status       int
		want         []string
	}{
		{"RUN pip install 'onnxruntime-gpu>=1.15'", index, exitOK, []string{"warning: onnxruntime-gpu 1.19.2 needs cuDNN 9", "because: no release is named: 1.19.2 is the newest that fits", "imgcheck: asked 127.0.0.1:"}},
		{"RUN pip install 'onnxruntime-gpu<1.19'", index, exitOK, []string{"warning: onnxruntime-gpu 1.18.0 needs CUDA 11"}},
		{"RUN pip install 'onnxruntime-gpu>1.19.2'", index, exitOK, []string{"not predicted: which libraries onnxruntime-gpu>1.19.2 needs: 127.0.0.1", "has no wheel of onnxruntime-gpu>1.19.2 for this Python"}},
		{"RUN pip install 'onnxruntime-gpu>=1.15' torch", "none", exitOK, []string{"which libraries onnxruntime-gpu>=1.15 needs: no index is asked", "which release of torch pip takes: no index is asked"}},
	} {
		file := filepath.Join(t.TempDir(), "Dockerfile")
		if err := os.WriteFile(file, []byte("FROM "+ref+"\n"+c.lines+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		status := run(context.Background(), []string{"imgcheck", "lint", "--config", "none", "--insecure", "--all", "--index", c.index, file}, &out, &errs)
		text := out.String() + errs.String()
		for _, want := range c.want {
			if status != c.status || !strings.Contains(text, want) || *fetched > 0 {
				t.Errorf("%s: status %d, want %q:\n%s", c.lines, status, want, text)
			}
		}
	}
}

// TestTellFetched: a lint says what it has read of wheels if that is more than metadata.
func TestTellFetched(t *testing.T) {
	for n, want := range map[int64]string{0: "", 900_000: "", 12_000_000: "imgcheck: 12.0 MB of 2 wheels were read (--wheels)\n"} {
		var b bytes.Buffer
		l := &linting{fetched: map[string]int64{"a": n / 2, "b": n / 2}}
		if l.tellFetched(&b); b.String() != want {
			t.Errorf("%d: %q", n, &b)
		}
	}
}

// TestLintNamedIndex: an index that a Dockerfile names is asked for its packages, and one that
// cannot be asked leaves them unknown, with the reason and without its login.
func TestLintNamedIndex(t *testing.T) {
	server, err := imagetest.Registry()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p := readPrediction(t, "../../testdata/predictions/ort-no-cudnn.txtar")
	index, fetched := p.index(t)
	ref, err := server.Push("wheels:base", textImage(t, p.base))
	if err != nil {
		t.Fatal(err)
	}
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer closed.Close()
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a Dockerfile made lint ask for %s", r.URL) }))
	defer stranger.Close()
	locked := strings.Replace(closed.URL, "://", "://ci:secret@", 1)
	t.Setenv("IMGCHECK_CACHE", t.TempDir())
	for _, c := range []struct {
		lines   string
		status  int
		fetches bool
		want    string
	}{
		{"RUN pip install --extra-index-url " + index + " onnxruntime-gpu==1.19.2", exitFindings, true, "onnxruntime-gpu 1.19.2 needs libcudnn.so.9"},
		{"ENV PIP_INDEX_URL=" + index + "\nRUN pip install onnxruntime-gpu==1.19.2", exitFindings, false, "onnxruntime-gpu 1.19.2 needs libcudnn.so.9"},
		{"RUN pip config set global.index-url " + index + "\nRUN pip install onnxruntime-gpu==1.19.2", exitFindings, false, "onnxruntime-gpu 1.19.2 needs libcudnn.so.9"},
		{"RUN pip install --extra-index-url " + index + " --extra-index-url " + locked + " onnxruntime-gpu==1.19.2", exitOK, false, "what onnxruntime-gpu brings: " + strings.TrimPrefix(closed.URL, "http://") + " answered 401"},
		{"RUN pip install --index-url http://ci:secret@wheels.example/simple onnxruntime-gpu==1.19.2", exitOK, false, "what onnxruntime-gpu brings: wheels.example is not asked over plain HTTP"},
		{"RUN pip install --index-url https://ci:secret@stranger.example/simple onnxruntime-gpu==1.19.2", exitOK, false, "what onnxruntime-gpu brings: stranger.example is not asked, because only a Dockerfile names it: --ask-index does"},
		{"RUN pip install --extra-index-url " + stranger.URL + " onnxruntime-gpu==1.19.2", exitOK, false, "what onnxruntime-gpu brings: " + strings.TrimPrefix(stranger.URL, "http://") + " is not asked"},
		{"RUN pip install onnxruntime-gpu==1.19.2", exitFindings, false, "what onnxruntime-gpu brings: " + strings.TrimPrefix(none.URL, "http://") + " answered 404"},
	} {
		file := filepath.Join(t.TempDir(), "Dockerfile")
		if err := os.WriteFile(file, []byte("FROM "+ref+"\n"+c.lines+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		*fetched = 0
		var out, errs bytes.Buffer
		status := run(context.Background(), []string{"imgcheck", "lint", "--config", "none", "--all", "--wheels", "64", "--index", none.URL + "/simple", "--ask-index", index, "--ask-index", closed.URL, "--ask-index", "http://wheels.example/simple", file}, &out, &errs)
		text := out.String() + errs.String()
		if status != c.status || !strings.Contains(text, c.want) || *fetched > 0 != c.fetches || strings.Contains(text, "secret") {
			t.Errorf("%s: status %d, %d bytes:\n%s", c.lines, status, *fetched, text)
		}
	}
}

// TestLintAbsentBase: lint tells an image that the registry does not have from one out of reach.
func TestLintAbsentBase(t *testing.T) {
	server, err := imagetest.Registry()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := server.Push("absent:base", textImage(t, "base/cuda124-runtime"))
	if err != nil {
		t.Fatal(err)
	}
	l := &linting{pushed: true, bases: map[[2]string]lintBase{}}
	if b := l.base(context.Background(), ref, ""); b.Base == nil || b.absent {
		t.Errorf("the image that is there: %+v", b.why)
	}
	if b := l.base(context.Background(), ref+"0", ""); !b.absent {
		t.Errorf("the image that is not there: %q, absent %v", b.why, b.absent)
	}
	server.Close()
	if b := l.base(context.Background(), ref+"1", ""); b.absent || b.why == "" {
		t.Errorf("no registry: %q, absent %v", b.why, b.absent)
	}
}
