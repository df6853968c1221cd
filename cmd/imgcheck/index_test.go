package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestIndexToAuto: a login that may not push is no reason for a word, unless one is asked for.
func TestIndexToAuto(t *testing.T) {
	server := imagetest.Serve(t)
	data, err := images.Text("torch-healthy.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Push("org/app:1", imagetest.V1(t, string(data))); err != nil {
		t.Fatal(err)
	}
	registry, asked := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Host}), 0
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			asked++
			http.Error(w, `{"errors": [{"code": "DENIED"}]}`, http.StatusForbidden)
			return
		}
		registry.ServeHTTP(w, r)
	}))
	defer front.Close()
	host := strings.TrimPrefix(front.URL, "http://")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), fmt.Appendf(nil, `{"auths": {%q: {"auth": "bWU6c2VjcmV0"}}}`, host), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]bool{"--quiet": false, "--verbose": true} {
		asked = 0
		var out, errs bytes.Buffer
		args := []string{"imgcheck", "scan", "--config", "none", "--cache-dir", t.TempDir(), "--index-to", "auto", flag, host + "/org/app:1"}
		if status := run(t.Context(), args, &out, &errs); status != exitOK {
			t.Errorf("%s: status %d: %s", flag, status, errs.String())
		}
		if told := strings.Contains(errs.String(), "no index is stored: "); asked == 0 || told != want {
			t.Errorf("%s: the registry was asked %d times, and it says %q", flag, asked, errs.String())
		}
	}
}
