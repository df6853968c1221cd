package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestInstallRefusesPlainHTTP checks that ci/install.sh asks nothing of a server without
// TLS: neither of the one that it is given, whatever its URL looks like, nor of one that a
// server with TLS redirects to.
func TestInstallRefusesPlainHTTP(t *testing.T) {
	var asked atomic.Int32
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("a program"))
	}))
	defer plain.Close()
	redirects := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer redirects.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: redirects.Certificate().Raw}
	if err := os.WriteFile(ca, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}

	host := strings.TrimPrefix(plain.URL, "http://")
	for name, c := range map[string]struct{ releases, says string }{
		"plain":    {plain.URL, "is not HTTPS"},
		"loopback": {"http://127.0.0.1:x@" + host, "is not HTTPS"},
		"redirect": {redirects.URL, "not supported or disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			install := exec.Command("../../ci/install.sh", "v1.0.0", dir)
			install.Env = append(os.Environ(), "IMGCHECK_RELEASES="+c.releases, "CURL_CA_BUNDLE="+ca)
			out, err := install.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.says) {
				t.Errorf("install.sh from %s: %v, says %q, want %q", c.releases, err, out, c.says)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("install.sh from %s leaves %v", c.releases, left)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server without TLS got %d requests, want none", n)
	}
}
