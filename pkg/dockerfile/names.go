package dockerfile

import (
	"path"
	"regexp"
	"strings"
)

var (
	// named matches the names of files with instructions, in lower case: Dockerfile,
	// Dockerfile.gpu, Dockerfile-gpu, Dockerfile_cuda, gpu.Dockerfile and the same of
	// Containerfile.
	named = regexp.MustCompile(`^((docker|container)file([._-].+)?|.+\.(docker|container)file)$`)
	// others matches those among them that are something else, by their ends.
	others = regexp.MustCompile(`(\.(dockerignore|containerignore|md|rst|txt|html|lock|orig|rej|bak|swp|diff|patch|sig|sha256|sum)|~|[-_].*\.(go|py|js|ts|rs|rb|sh|java|json|ya?ml|toml))$`)
)

// Named reports whether a path has the name of a Dockerfile.
func Named(file string) bool {
	base := strings.ToLower(path.Base(file))
	return named.MatchString(base) && !others.MatchString(base)
}
