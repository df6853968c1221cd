package dockerfile

import "testing"

func TestNamed(t *testing.T) {
	for _, file := range []string{
		"Dockerfile", "dockerfile", "a/b/Dockerfile", "Dockerfile.gpu", "Dockerfile-gpu", "Dockerfile_cuda", "Dockerfile.py310", "Dockerfile.ci.gpu",
		"gpu.Dockerfile", "gpu.dockerfile", "Containerfile", "containerfile.cuda", "Dockerfile.cuda-12.4", "Dockerfile-py3.10", "Dockerfile.go",
	} {
		if !Named(file) {
			t.Errorf("%s is not found", file)
		}
	}
	for _, file := range []string{
		"Dockerfile.dockerignore", "Dockerfile.md", "dockerfile-gpu.md", "dockerfile_test.go", "Dockerfile-gen.py", "dockerfile/x.go", "Dockerfiles", "Dockerfile~", "MyDockerfile", "Dockerfile.orig", "dockerfile.",
	} {
		if Named(file) {
			t.Errorf("%s is found", file)
		}
	}
}
