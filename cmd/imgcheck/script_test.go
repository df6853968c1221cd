package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/imgcheck/imgcheck/internal/forgetest"
	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"imgcheck": main,
	})
}

// TestScripts runs the whole program. The scripts have two registries: $REGISTRY accepts
// everything, and $CLOSED refuses everyone. Behind the proxy $PROXY, $REGISTRY is
// example.com, which speaks TLS with a certificate of the authority in $CA and needs the
// login me:secret, and 10.1.2.3:5000, which speaks plain HTTP. $FORGE plays GitHub, and
// GitLab below /api/v4.
//
// image TEXT FORM [ARG] makes an image of testdata/images: push NAME, layout DIR,
// archive FILE (docker save) or unpack DIR; index NAME TEXT... pushes an index of
// several. attested TEXT DIR DOCKERFILE LINE[-LINE]... makes a layout of an image and its
// provenance, which says from which lines of a Dockerfile its layers come.
func TestScripts(t *testing.T) {
	server := imagetest.Serve(t)
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="closed"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(closed.Close)
	proxy, ca := company(t, server)
	forge := forgetest.Serve(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("REGISTRY", server.Host)
			e.Setenv("CLOSED", strings.TrimPrefix(closed.URL, "http://"))
			e.Setenv("PROXY", proxy)
			e.Setenv("FORGE", forge.URL)
			e.Setenv("CA", ca)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("REPO", root)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"image": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(makeImage(ts, server, args))
			},
			"attested": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(makeAttested(ts, args))
			},
			// comments PROJECT NUMBER FILE writes the texts of a change's comments
			"comments": func(ts *testscript.TestScript, _ bool, args []string) {
				var text strings.Builder
				number, err := strconv.Atoi(args[1])
				ts.Check(err)
				for _, c := range forge.Comments(args[0], number) {
					fmt.Fprintf(&text, "comment of %d\n%s\n", c.Author, c.Body)
				}
				ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(text.String()), 0o644))
			},
			"action":     runAction,
			"gitlab":     runGitLab,
			"recipe":     runRecipe,
			"readme":     readme,
			"transcript": transcript,
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

// company starts a proxy and the registries behind it. It returns the proxy's address
// and the file of the authority.
func company(t *testing.T, server *imagetest.Server) (proxy, ca string) {
	t.Helper()
	registry := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Host})
	inside := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="inside"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		registry.ServeHTTP(w, r)
	}))
	t.Cleanup(inside.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: inside.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect && r.Host == "example.com:443":
			if err := tunnel(w, inside.Listener.Addr().String()); err != nil {
				t.Error(err)
			}
		case r.Method == http.MethodGet && r.URL.Host == "10.1.2.3:5000" && strings.Contains(r.URL.Path, "/away/blobs/"):
			http.Redirect(w, r, "http://10.1.2.4:9000"+r.URL.Path, http.StatusTemporaryRedirect)
		case r.Method != http.MethodConnect && r.URL.Host == "10.1.2.4:9000":
			if r.Header.Get("Authorization") != "" {
				t.Error("a store is told a login")
			}
			registry.ServeHTTP(w, r)
		case r.Method != http.MethodConnect && r.URL.Host == "10.1.2.3:5000":
			registry.ServeHTTP(w, r)
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(door.Close)
	return door.URL, ca
}

// tunnel answers a CONNECT.
func tunnel(w http.ResponseWriter, to string) error {
	s, err := net.Dial("tcp", to)
	if err != nil {
		return err
	}
	c, begun, err := w.(http.Hijacker).Hijack()
	if err != nil {
		s.Close()
		return err
	}
	// Answered after Hijack: otherwise the server would read, and lose, the first bytes
	// that the client sends.
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		s.Close()
		c.Close()
		return err
	}
	go func() { io.Copy(s, begun); s.Close() }()
	go func() { io.Copy(c, s); c.Close() }()
	return nil
}

func readImage(ts *testscript.TestScript, text string) (*imagetest.Image, v1.Image, error) {
	data, err := images.Text(text + ".txtar")
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

func makeAttested(ts *testscript.TestScript, args []string) error {
	_, img, err := readImage(ts, args[0])
	if err != nil {
		return err
	}
	var lines [][2]int
	for _, a := range args[3:] {
		first, last, ok := strings.Cut(a, "-")
		if !ok {
			last = first
		}
		var l [2]int
		if _, err := fmt.Sscan(first+" "+last, &l[0], &l[1]); err != nil {
			return err
		}
		lines = append(lines, l)
	}
	statement, err := imagetest.Provenance(img, []byte(ts.ReadFile(args[2])), lines)
	if err != nil {
		return err
	}
	index, err := imagetest.Attested(img, imagetest.PredicateType, statement)
	if err != nil {
		return err
	}
	p, err := layout.Write(ts.MkAbs(args[1]), empty.Index)
	if err != nil {
		return err
	}
	return p.AppendIndex(index)
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
