package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// TestExtends: a policy builds on an organisation's, which a web server and a registry have, and
// takes neither without the digest that it names.
func TestExtends(t *testing.T) {
	t.Chdir(t.TempDir())
	server := imagetest.Serve(t)
	_, ref := pushText(t, server, "ort-no-cudnn.txtar")
	const org = "ignore:\n  - {id: missing-library, reason: the organisation says so}\n"
	artifact, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte(org), "application/yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := server.Push("extends/policy:1", artifact)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := artifact.Digest()
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/org.yaml":
			fmt.Fprint(w, org)
		case "/large.yaml":
			fmt.Fprint(w, strings.Repeat("#", 2<<20))
		default:
			http.NotFound(w, r)
		}
	}))
	defer web.Close()
	sum := fmt.Sprintf("@sha256:%x", sha256.Sum256([]byte(org)))
	other := "@sha256:" + strings.Repeat("0", 64)
	repository := strings.TrimSuffix(pushed, ":1")
	for _, c := range []struct{ extends, stdout, fails string }{
		{"oci://" + repository + "@" + digest.String(), "ignored", ""},
		{web.URL + "/org.yaml" + sum, "ignored", ""},
		{web.URL + "/org.yaml" + other, "", "somebody has changed it"},
		{web.URL + "/large.yaml" + sum, "", "it is larger than 1024 KiB"},
		{web.URL + "/none.yaml" + sum, "", "answered 404"},
		{"oci://" + repository + other, "", "extends: oci://" + repository},
		{"oci://" + strings.TrimSuffix(ref, ":latest") + other, "", "extends: oci://"},
	} {
		if err := os.WriteFile(".imgcheck.yaml", []byte("extends: "+c.extends+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		err := newApp(&stdout, &stderr).RunContext(t.Context(), []string{"imgcheck", "scan", "--insecure", "--no-cache", ref})
		switch {
		case c.fails == "" && (err != nil || !strings.Contains(stdout.String(), c.stdout)):
			t.Errorf("extends %s: %v\n%s%s", c.extends, err, stdout.String(), stderr.String())
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("extends %s: %v, want %s", c.extends, err, c.fails)
		}
	}
}
