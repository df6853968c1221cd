package image

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestImage makes an image of two programs twice, and reads it with skopeo and
// umoci.
func TestImage(t *testing.T) {
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		for _, arch := range []string{"amd64", "arm64"} {
			if err := os.WriteFile(filepath.Join(dir, "imgcheck_linux_"+arch), []byte("program for "+arch), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the second replaces the first
			if err := run(dir, "v1.2.3", "abc"); err != nil {
				t.Fatal(err)
			}
		}
	}
	var indexes [2][]byte
	for i, dir := range dirs {
		b, err := os.ReadFile(filepath.Join(dir, "imgcheck.oci", "index.json"))
		if err != nil {
			t.Fatal(err)
		}
		indexes[i] = b
		if left, _ := filepath.Glob(filepath.Join(dir, ".imgcheck*")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
	if !bytes.Equal(indexes[0], indexes[1]) {
		t.Error("the same programs give two images")
	}
	ref := "oci:" + filepath.Join(dirs[0], "imgcheck.oci")
	copied := filepath.Join(dirs[0], "copy")
	output(t, "skopeo", "--override-os=linux", "--override-arch=arm64", "copy", "-q", ref, "oci:"+copied+":arm")
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
			Labels     map[string]string
		}
	}
	if err := json.Unmarshal(output(t, "skopeo", "--override-arch=arm64", "inspect", "--config", "oci:"+copied+":arm"), &config); err != nil {
		t.Fatal(err)
	}
	if c := config.Config; config.Architecture != "arm64" || c.User != "65532:65532" || c.Entrypoint[0] != "/usr/local/bin/imgcheck" || c.Labels["org.opencontainers.image.version"] != "v1.2.3" {
		t.Errorf("config %+v", config)
	}
	bundle := filepath.Join(dirs[0], "bundle")
	output(t, "umoci", "unpack", "--rootless", "--image", copied+":arm", bundle)
	got, err := os.ReadFile(filepath.Join(bundle, "rootfs", "usr/local/bin/imgcheck"))
	if err != nil || string(got) != "program for arm64" {
		t.Errorf("%q, %v", got, err)
	}
	text, err := layerText([]byte("x"))
	if err != nil || !bytes.HasSuffix(text, make([]byte, 1024)) {
		t.Errorf("the tar has no end: %v", err) // some readers require the two zero blocks
	}
	if err := run(t.TempDir(), "", ""); err == nil {
		t.Error("an image of no programs")
	}
}

func output(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s (Debian: %s): %v\n%s", cmd, name, err, stderr.String())
	}
	return out
}
