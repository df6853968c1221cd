package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"imgcheck": func() { os.Exit(run(context.Background(), os.Args, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the whole program. The scripts have two registries: one that
// takes anything, at $REGISTRY, and one that lets nobody in, at $CLOSED.
//
// image TEXT FORM [ARG] makes an image of testdata/images: push NAME, layout
// DIR, archive FILE (docker save) or unpack DIR; index NAME TEXT... pushes an
// index of several.
func TestScripts(t *testing.T) {
	server, err := imagetest.Registry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="closed"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(closed.Close)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("REGISTRY", server.Host)
			e.Setenv("CLOSED", strings.TrimPrefix(closed.URL, "http://"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("REPO", root)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"image": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(makeImage(ts, server, args))
			},
			"action": runAction,
			"gitlab": runGitLab,
			"readme": readme,
			// envsubst FROM TO writes a file with its $REGISTRY replaced
			"envsubst": func(ts *testscript.TestScript, _ bool, args []string) {
				text := strings.ReplaceAll(ts.ReadFile(args[0]), "$REGISTRY", server.Host)
				ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
			},
			"index": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(pushIndex(ts, server, args[0], args[1:]))
			},
		},
		RequireExplicitExec: true,
		UpdateScripts:       *update,
	})
}

func readImage(ts *testscript.TestScript, text string) (*imagetest.Image, v1.Image, error) {
	data, err := images.FS.ReadFile(text + ".txtar")
	if err != nil {
		if data, err = os.ReadFile(ts.MkAbs(text)); err != nil {
			return nil, nil, err
		}
	}
	im, err := imagetest.Parse(data)
	if err != nil {
		return nil, nil, err
	}
	img, err := im.V1()
	return im, img, err
}

func makeImage(ts *testscript.TestScript, server *imagetest.Server, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: image TEXT push|layout|archive|unpack ARG")
	}
	im, img, err := readImage(ts, args[0])
	if err != nil {
		return err
	}
	switch args[1] {
	case "push":
		_, err := server.Push(args[2], img)
		return err
	case "layout":
		p, err := layout.Write(ts.MkAbs(args[2]), empty.Index)
		if err != nil {
			return err
		}
		return p.AppendImage(img)
	case "archive":
		tag, err := name.NewTag("example/app:1.0")
		if err != nil {
			return err
		}
		return tarball.WriteToFile(ts.MkAbs(args[2]), tag, img)
	case "unpack":
		return im.Unpack(ts.MkAbs(args[2]))
	}
	return fmt.Errorf("unknown form %q", args[1])
}

func pushIndex(ts *testscript.TestScript, server *imagetest.Server, repo string, texts []string) error {
	var index v1.ImageIndex = empty.Index
	for _, text := range texts {
		im, img, err := readImage(ts, text)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &im.Platform}})
	}
	return server.PushIndex(repo, index)
}
