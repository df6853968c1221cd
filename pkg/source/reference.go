package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/imgcheck/imgcheck/internal/nearest"
)

// Schemes are the prefixes that [Open] knows, with the meaning of each. A reference
// without a prefix names an image in a registry.
var Schemes = []struct{ Prefix, Means string }{
	{"docker:", "an image of the local Docker or Podman daemon"},
	{"docker-archive:", "a file written by docker save, plain or compressed"},
	{"oci:", "a directory with an OCI layout, DIR[:TAG]"},
	{"oci-archive:", "a tar of an OCI layout, FILE[:TAG]"},
	{"dir:", "an unpacked root file system"},
	{"registry:", "an image in a registry, as without any prefix"},
}

// Split splits a reference into its scheme, without the colon, and the rest. The
// scheme of a reference without a prefix, and of skopeo's docker://, is "registry".
func Split(ref string) (scheme, rest string) {
	scheme, rest, found := strings.Cut(ref, ":")
	switch {
	case !found || !slices.Contains(prefixes(), scheme+":"):
		return "registry", ref
	case scheme == "docker" && strings.HasPrefix(rest, "//"):
		return "registry", rest[2:]
	}
	return scheme, rest
}

// prefixes returns the prefixes of Schemes.
func prefixes() []string {
	var list []string
	for _, s := range Schemes {
		list = append(list, s.Prefix)
	}
	return list
}

// InRegistry returns ref in a form that Open takes for an image in a registry.
// Dockerfiles and manifests name no others: their docker:27-cli is Docker Hub's image
// docker.
func InRegistry(ref string) string {
	if scheme, _, ok := strings.Cut(ref, ":"); ok && slices.Contains(prefixes(), scheme+":") {
		return "registry:" + ref
	}
	return ref
}

// emptyReference returns the error of a reference that is nothing but a prefix.
func emptyReference(ref string) error {
	usage := "an image reference such as ubuntu:24.04"
	for _, s := range Schemes {
		if s.Prefix == ref {
			usage = s.Prefix + "… for " + s.Means
		}
	}
	return fmt.Errorf("%q names nothing: say %s", ref, usage)
}

// ParseReference parses a registry's reference. Its error says how to write one.
// insecure allows plain HTTP.
func ParseReference(s string, insecure bool) (name.Reference, error) {
	var opts []name.Option
	if insecure {
		opts = append(opts, name.Insecure)
	}
	ref, err := name.ParseReference(s, opts...)
	if err == nil && looksLikePath(s) { // "./app.tar" would be a host named "."
		err = errors.New("it looks like a path")
	}
	if err != nil {
		return nil, wrongReference(s, err)
	}
	return ref, nil
}

// looksLikePath reports whether s begins like the path of a file.
func looksLikePath(s string) bool {
	return strings.HasPrefix(s, ".") || strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~")
}

// dockerfileName matches the usual names of Dockerfiles: Dockerfile, Dockerfile.gpu, gpu.Dockerfile.
var dockerfileName = regexp.MustCompile(`^(?:(?:Docker|Container)file(?:\..+)?|.+\.(?:Docker|Container)file)$`)

// wrongReference explains a reference that does not parse. Two mistakes are
// common: a file name, and a typing error.
func wrongReference(s string, err error) error {
	if st, serr := os.Stat(s); serr == nil {
		if st.IsDir() {
			return fmt.Errorf("is a directory, not an image reference: say dir:%s for a root file system, oci:%s for an OCI layout", s, s)
		}
		if dockerfileName.MatchString(filepath.Base(s)) {
			return fmt.Errorf("is a Dockerfile, not an image reference: imgcheck lint %s checks it", s)
		}
		return fmt.Errorf("is a file, not an image reference: say docker-archive:%s or oci-archive:%s", s, s)
	}
	why := err
	if looksLikePath(s) {
		return errors.New("no such file or directory; an image in a registry is named like ubuntu:24.04, a file like docker-archive:app.tar")
	}
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		insecure := ""
		if scheme == "http" {
			insecure = ", with --insecure for plain HTTP"
		}
		return fmt.Errorf("is a URL, not an image reference: say %s%s", withoutLogin(rest), insecure)
	}
	if strings.Contains(s, "@") {
		_, why = name.NewDigest(s)
	} else if _, terr := name.NewTag(s); terr != nil {
		why = terr // says more
	}
	return fmt.Errorf("is not an image reference (%s): write it like ubuntu:24.04 or ghcr.io/org/app@sha256:…, or begin with docker:, docker-archive:, oci:, oci-archive: or dir: for another source", withoutLogin(why.Error()))
}

// digestAt matches the text behind the @ of an image's digest.
var digestAt = regexp.MustCompile(`^[a-z0-9+._-]+:[0-9a-fA-F]{6,}`)

// withoutLogin returns a text that a user gave as a reference without what may be a login
// before an @.
func withoutLogin(s string) string {
	at := strings.LastIndex(s, "@")
	if at < 0 || digestAt.MatchString(s[at+1:]) && !strings.Contains(s[:at], "@") {
		return s
	}
	if i := strings.LastIndex(s[:at], "@"); digestAt.MatchString(s[at+1:]) {
		at = i
	}
	if !strings.Contains(s[:at], ":") {
		return s
	}
	scheme, _, ok := strings.Cut(s[:at], "://")
	if ok {
		return scheme + "://" + s[at+1:]
	}
	return s[at+1:]
}

// suggest adds a hint to the error of an image that its registry does not have: that
// a file of the name exists, or that the name begins almost like a scheme. app.tar
// and dokcer are valid names of images on Docker Hub.
func suggest(s string, err error) error {
	if scheme, rest, ok := strings.Cut(s, ":"); ok {
		if n := nearest.Of(scheme+":", prefixes()); n != "" {
			return fmt.Errorf("%w; if it is no image of that name, did you mean %s%s?", err, n, rest)
		}
	}
	st, serr := os.Stat(s)
	switch {
	case serr != nil:
		return err
	case st.IsDir():
		return fmt.Errorf("%w; if the directory here is meant, say oci:%s or dir:%s", err, s, s)
	}
	return fmt.Errorf("%w; if the file here is meant, say docker-archive:%s or oci-archive:%s", err, s, s)
}

// SplitTag splits PATH[:TAG]. Both may hold colons: the longest path that exists
// counts.
func SplitTag(s string) (file, tag string) {
	for i := len(s); i > 0; i = strings.LastIndexByte(s[:i], ':') {
		if _, err := os.Stat(s[:i]); err == nil {
			return s[:i], strings.TrimPrefix(s[i:], ":")
		}
	}
	if i := strings.LastIndexByte(s, ':'); i > 0 && !strings.Contains(s[i:], string(filepath.Separator)) {
		return s[:i], s[i+1:]
	}
	return s, ""
}
