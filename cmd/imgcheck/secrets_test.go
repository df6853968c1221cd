package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestSecrets plants secrets where builds and users leave them: build arguments in the
// history, variables, logins in the URLs of sources. No report, log or file of the cache may
// have one.
func TestSecrets(t *testing.T) {
	const secret = "TOPSECRET"
	data, err := images.Text("ort-no-cudnn.txtar")
	if err != nil {
		t.Fatal(err)
	}
	im, err := imagetest.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	im.Config.Env = append(im.Config.Env, "API_TOKEN="+secret)
	made, err := im.V1()
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	for i := range config.History {
		config.History[i].CreatedBy = "RUN |2 PIP_INDEX_URL=https://ci:" + secret + "@host/simple TOKEN=" + secret + " /bin/sh -c pip install -i https://ci:" + secret + "@host/simple x # buildkit"
	}
	config.History = append(config.History, v1.History{CreatedBy: "ARG TOKEN=" + secret, EmptyLayer: true})
	if made, err = mutate.ConfigFile(made, config); err != nil {
		t.Fatal(err)
	}
	server := imagetest.Serve(t)
	ref, err := server.Push("test/secrets:1", made)
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	var commands [][]string
	for _, format := range report.Names {
		commands = append(commands, []string{"scan", "--all", "--verbose", "--format", format, ref})
	}
	closed := "127.0.0.1:1" // where nothing listens
	commands = append(
		commands,
		[]string{"why", ref}, []string{"imports", ref}, []string{"gpus", ref}, []string{"ldd", "--all", ref},
		[]string{"explain", "--image", ref, "libcudnn.so.9: cannot open shared object file"},
		[]string{"patch", "--dry-run", "--from", "pypi:https://ci:" + secret + "@" + closed + "/simple", ref},
		[]string{"patch", "--dry-run", "--from", "pypi:https://ci:" + secret + "%zz@" + closed + "/simple", ref},
		[]string{"patch", "--dry-run", "--from", "pypi:https://ci:se/" + secret + "@" + closed + "/simple", ref},
		[]string{"patch", "--dry-run", "--from", "pypi:http://ci:" + secret + "@registry.test/simple", ref},
		[]string{"patch", "--dry-run", "--from", "pypi:https://ci: " + secret + "@" + closed + "/simple", ref},
		[]string{"patch", "--dry-run", "--from", "what:https://ci:" + secret + "@" + closed + "/simple", ref},
		[]string{"scan", "https://ci:" + secret + "@" + closed + "/app:1"},
		[]string{"scan", "ci:" + secret + "@" + closed + "/app:1"},
	)
	for _, args := range commands {
		var out, errs bytes.Buffer
		run(context.Background(), append([]string{"imgcheck", args[0], "--cache-dir", cache}, args[1:]...), &out, &errs)
		if out.Len()+errs.Len() == 0 {
			t.Errorf("%q printed nothing", args)
		}
		for what, text := range map[string]string{"output": out.String(), "log": errs.String()} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%q: the %s has a secret: %q", args, what, text[max(0, i-100):min(len(text), i+40)])
			}
		}
	}
	files := 0
	err = filepath.WalkDir(cache, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text := b
		if z, err := zstd.NewReader(nil); err == nil && len(b) > 32 && !strings.HasSuffix(name, ".json") {
			if plain, err := z.DecodeAll(b[:len(b)-32], nil); err == nil { // before the code
				text = plain
			} else {
				t.Errorf("%s: %v", name, err)
			}
			z.Close()
		}
		if i := bytes.Index(text, []byte(secret)); i >= 0 {
			t.Errorf("%s has a secret: %q", filepath.Base(name), text[max(0, i-200):min(len(text), i+40)])
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}
