package source

import "testing"

func TestInRegistry(t *testing.T) {
	for ref, want := range map[string]string{
		"docker:27-cli": "registry:docker:27-cli", "registry:2": "registry:registry:2", "oci:latest": "registry:oci:latest", "dir:1": "registry:dir:1",
		"docker": "docker", "docker/x:1": "docker/x:1", "app:1": "app:1", "localhost:5000/dir:1": "localhost:5000/dir:1",
	} {
		if got := InRegistry(ref); got != want {
			t.Errorf("%s: %s, want %s", ref, got, want)
		}
	}
}
