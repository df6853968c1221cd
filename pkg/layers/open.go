package layers

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/imgcheck/imgcheck/internal/nearest"
)

// Schemes are the prefixes that Open knows, with what follows each; a reference
// without one names an image in a registry.
var Schemes = []struct{ Prefix, Means string }{
	{"docker:", "an image of the local Docker or Podman daemon"},
	{"docker-archive:", "a file written by docker save, plain or compressed"},
	{"oci:", "a directory with an OCI layout, DIR[:TAG]"},
	{"oci-archive:", "a tar of an OCI layout, FILE[:TAG]"},
	{"dir:", "an unpacked root file system"},
	{"registry:", "an image in a registry, as without any prefix"},
}

// schemes are the prefixes of Schemes.
func schemes() []string {
	var list []string
	for _, s := range Schemes {
		list = append(list, s.Prefix)
	}
	return list
}

// InRegistry returns ref so that Open takes it for an image in a registry, which it
// is in a Dockerfile or a manifest: there docker:27-cli is Docker Hub's image docker.
func InRegistry(ref string) string {
	if scheme, _, ok := strings.Cut(ref, ":"); ok && slices.Contains(schemes(), scheme+":") {
		return "registry:" + ref
	}
	return ref
}

// Open finds the image that ref names. It reads manifests and configs only.
func Open(ctx context.Context, ref string, o Options) (*Image, error) {
	scheme, rest, found := strings.Cut(ref, ":")
	img := &Image{Ref: ref, opts: o}
	open := img.openRegistry
	switch {
	case !found:
		rest = ref
	case scheme == "docker" && !strings.HasPrefix(rest, "//"):
		open = img.openDaemon
	case scheme == "docker":
		rest = strings.TrimPrefix(rest, "//") // skopeo's docker://
	case scheme == "docker-archive":
		open = img.openDockerArchive
	case scheme == "oci":
		open = img.openLayout
	case scheme == "oci-archive":
		open = img.openArchive
	case scheme == "dir":
		open = img.openDir
	case scheme == "registry":
	default:
		rest = ref
	}
	if rest == "" {
		return nil, fmt.Errorf("%q names nothing: say %s", ref, usageOf(scheme))
	}
	if err := open(ctx, rest); err != nil {
		img.Close()
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	img.setHistory()
	return img, nil
}

func usageOf(scheme string) string {
	for _, s := range Schemes {
		if s.Prefix == scheme+":" {
			return scheme + ":… for " + s.Means
		}
	}
	return "an image reference such as ubuntu:24.04"
}

// openRegistry finds an image in a registry.
func (img *Image) openRegistry(ctx context.Context, s string) error {
	ref, err := ParseReference(s, img.opts.Insecure)
	if err != nil {
		return err
	}
	img.host, img.repository = ref.Context().RegistryStr(), ref.Context().Name()
	if rest, ok := strings.CutPrefix(img.repository, "index.docker.io/"); ok { // as nobody writes it
		img.repository = "docker.io/" + rest
	}
	repo := ref.Context()
	auth, err := authn.Resolve(ctx, authn.DefaultKeychain, repo)
	if err != nil {
		return registryError(ref, err)
	}
	// One login serves manifests and layers; its transport renews tokens.
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, img.transport(), []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return besideFile(s, registryError(ref, err))
	}
	desc, err := remote.Get(ref, remote.WithContext(ctx), remote.WithTransport(rt))
	if err != nil {
		return besideFile(s, registryError(ref, err))
	}
	var v v1.Image
	if desc.MediaType.IsIndex() {
		var index v1.ImageIndex
		if index, err = desc.ImageIndex(); err == nil {
			v, err = img.choose(index)
		}
	} else {
		v, err = desc.Image()
	}
	if err != nil {
		return registryError(ref, err)
	}
	if err := img.setV1(v); err != nil {
		return err
	}
	client := &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return nil }} // bounded has the last word
	for i, l := range img.Layers {
		url := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", repo.Scheme(), repo.RegistryStr(), repo.RepositoryStr(), l.Digest)
		img.blobs[i].open = func(ctx context.Context) (io.ReadCloser, error) {
			return &download{ctx: ctx, client: client, url: url, size: l.Size, sleep: img.opts.sleeper(), note: func(s string) { img.note(i, s) }}, nil
		}
	}
	return nil
}

// transport is how a registry is talked to.
func (img *Image) transport() http.RoundTripper {
	rt := newBounded(img.opts.Insecure)
	return transport.NewUserAgent(&patient{rt, img.opts.stall(), img.opts.sleeper()}, "imgcheck")
}

// stall is how long a registry or a daemon may be silent.
func (o *Options) stall() time.Duration {
	if o.Stall > 0 {
		return o.Stall
	}
	return defaultStall
}

// sleeper waits between attempts; tests have no time for it.
func (o *Options) sleeper() func(context.Context, time.Duration) error {
	if o.sleep != nil {
		return o.sleep
	}
	return sleep
}

// looksLikePath reports whether nobody would write an image reference so.
func looksLikePath(s string) bool {
	return strings.HasPrefix(s, ".") || strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~")
}

// besideFile adds to an image that is not to be had that a file of that name is
// here, or that its name is almost a scheme: app.tar and dokcer are fine names for
// an image on Docker Hub.
func besideFile(s string, err error) error {
	if scheme, rest, ok := strings.Cut(s, ":"); ok {
		if n := nearest.Of(scheme+":", schemes()); n != "" {
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

// wrongReference explains a reference that does not parse. Two mistakes are
// common: a file name, and a typing error.
func wrongReference(s string, err error) error {
	if st, serr := os.Stat(s); serr == nil {
		if st.IsDir() {
			return fmt.Errorf("is a directory, not an image reference: say dir:%s for a root file system, oci:%s for an OCI layout", s, s)
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
		return fmt.Errorf("is a URL, not an image reference: say %s%s", rest, insecure)
	}
	if strings.Contains(s, "@") {
		_, why = name.NewDigest(s)
	} else if _, terr := name.NewTag(s); terr != nil {
		why = terr // says more
	}
	return fmt.Errorf("is not an image reference (%s): write it like ubuntu:24.04 or ghcr.io/org/app@sha256:…, or begin with docker:, docker-archive:, oci:, oci-archive: or dir: for another source", why)
}

// registryError turns what went wrong between us and a registry into one line
// that says what to do.
func registryError(ref name.Reference, err error) error {
	host := ref.Context().RegistryStr()
	if told := hostError(host, err); told != nil {
		return told
	}
	var te *transport.Error
	if !errors.As(err, &te) {
		return brief(err)
	}
	switch {
	case sentElsewhere(host, te):
	case te.StatusCode == http.StatusNotFound && te.Request != nil && te.Request.URL.Path == "/v2/":
		return fmt.Errorf("%s is no registry: it has no /v2/ (404): check the name and the port", host)
	case te.StatusCode == http.StatusUnauthorized, te.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s refused the login or the image does not exist%s: check the name, and run `docker login %s`", host, words(te), host)
	case te.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s has no such image: check the repository and tag (%s, %s)", host, ref.Context().RepositoryStr(), ref.Identifier())
	}
	return statusError(host, te)
}

// sentElsewhere reports whether an answer is another host's: a registry has sent
// there.
func sentElsewhere(host string, te *transport.Error) bool {
	return te.Request != nil && te.Request.URL.Host != "" && te.Request.Response != nil && te.Request.URL.Host != host
}

// statusError says what an answer that is an error means, whatever was asked for.
func statusError(host string, te *transport.Error) error {
	switch {
	case sentElsewhere(host, te):
		host = fmt.Sprintf("%s, to where %s redirects,", printable(te.Request.URL.Host), host)
	case te.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%s limits the number of requests%s: wait, or run `docker login %s`", host, words(te), host)
	}
	return fmt.Errorf("%s answered %d %s%s: try again later, or ask whoever runs it", host, te.StatusCode, http.StatusText(te.StatusCode), words(te))
}

// friendly explains errors that can come after the manifest was found.
func (img *Image) friendly(err error) error {
	if img.host == "" {
		return oneLine{err}
	}
	if told := hostError(img.host, err); told != nil {
		return told
	}
	var te *transport.Error
	if !errors.As(err, &te) {
		return brief(err)
	}
	switch {
	case sentElsewhere(img.host, te):
	case te.StatusCode == http.StatusUnauthorized, te.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s refused it (%d)%s, though it gave the manifest: run `docker login %s`", img.host, te.StatusCode, words(te), img.host)
	case te.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s does not have it (404), though the manifest names it: push the image again", img.host)
	}
	return statusError(img.host, te)
}

// notFound reports whether a registry does not have something.
func notFound(err error) bool {
	var te *transport.Error
	return errors.As(err, &te) && te.StatusCode == http.StatusNotFound
}

// brief is an error on one line that is not too long, whatever a server put in it.
func brief(err error) error {
	line := oneLine{err}
	const most = 600
	if r := []rune(line.Error()); len(r) > most {
		return errors.New(string(r[:most-1]) + "…")
	}
	return line
}

// hostError explains why a host cannot be talked to, or is nil.
func hostError(host string, err error) error {
	var dns *net.DNSError
	var op *net.OpError
	var stalled stalledError
	var slow slowError
	var plain plainError
	var away *elsewhereError
	var cert *tls.CertificateVerificationError
	var told *toldError
	text := err.Error()
	if errors.As(err, new(*transport.Error)) {
		text = "" // is the server's, who could say any of this
	}
	switch {
	case errors.As(err, &told):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case strings.Contains(text, "parsing config file"):
		return fmt.Errorf("%w: mend it, or run `docker login`", oneLine{err})
	case errors.Is(err, errRedirects):
		return fmt.Errorf("%s redirects without end: try again later, or ask whoever runs it", host)
	case errors.As(err, &stalled):
		return fmt.Errorf("%s does not go on (%w, again and again): try again later", host, stalled)
	case errors.As(err, &slow):
		return fmt.Errorf("%s does not go on (%w): try again later", host, slow)
	case errors.As(err, &away):
		return fmt.Errorf("%s is not followed: %w: ask whoever runs it", host, away)
	case strings.Contains(text, "SSRF protection: "): // ggcr looks first
		return fmt.Errorf("%s is not followed: it leads to an address of an inner network (%s): ask whoever runs it", host, after(text, "SSRF protection: "))
	case strings.Contains(text, "unsupported protocol scheme"):
		return fmt.Errorf("%s is not followed: it leads to no place of a registry (%w): ask whoever runs it", host, brief(err))
	case strings.Contains(text, "www-authenticate"), strings.Contains(text, "refusing token-server redirect"):
		return fmt.Errorf("%s asks for a login in a way that is not followed (%w): ask whoever runs it", host, brief(err))
	case strings.Contains(text, "no token in bearer response"): // which may hold one nevertheless
		return fmt.Errorf("the token server of %s gives no token: run `docker login %s`, or ask whoever runs it", host, host)
	case strings.HasSuffix(text, " byte limit"): // ggcr's, of a token
		return fmt.Errorf("%s answers with more than is read (%w): ask whoever runs it", host, brief(err))
	case errors.As(err, &dns):
		return fmt.Errorf("cannot reach %s: no such host %q: check the name and the network", host, dns.Name)
	case strings.HasSuffix(text, "server gave HTTP response to HTTPS client"): // of a local host plain HTTP was tried, too
		return fmt.Errorf("%s speaks plain HTTP: add --insecure if that is meant", host)
	case errors.As(err, &cert):
		return fmt.Errorf("%s: its TLS certificate is not trusted (%w): install its CA, or add --insecure", host, cert.Err)
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return fmt.Errorf("cannot reach the proxy that the environment names for %s: %w: check HTTPS_PROXY and NO_PROXY", host, op.Err)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("cannot reach %s: %w: check the name, the port and the network", host, op.Err)
	case errors.As(err, &plain) && string(plain) != host:
		return fmt.Errorf("%s sends on to %s by plain HTTP, which is for all to read: add --insecure if that is meant", host, printable(string(plain)))
	case errors.As(err, &plain):
		return fmt.Errorf("%s does not answer by TLS, and a login would be for all to read without: add --insecure if that is meant", host)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), isReset(text):
		return fmt.Errorf("the connection to %s broke off: try again", host)
	case notJSON(err):
		return fmt.Errorf("%s answers with what no registry says (%w): a proxy or a login page stands in its place", host, brief(err))
	case strings.Contains(text, "error verifying "), strings.Contains(text, "does not match requested digest"), strings.Contains(text, "does not match expected size"): // ggcr keeps the type to itself; of a manifest or config
		return fmt.Errorf("its bytes are not those that the manifest names (%w): the image is damaged, or a proxy has changed it", err)
	case strings.Contains(text, "error getting credentials"):
		return fmt.Errorf("the credential helper failed (%w): mend it, or take it out of Docker's config.json", oneLine{err})
	}
	return nil
}

// after is the rest of a text on one line, bounded.
func after(text, what string) string {
	_, rest, _ := strings.Cut(text, what)
	return printable(strings.Join(strings.Fields(rest), " "))
}

// notJSON reports whether an answer was no JSON, or other JSON than is asked for.
func notJSON(err error) bool {
	return errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(*json.UnmarshalTypeError))
}

// oneLine is an error whose text stays on one line, whatever a server put in it.
type oneLine struct{ error }

func (e oneLine) Error() string {
	return escaped(strings.Join(strings.Fields(e.error.Error()), " "))
}
func (e oneLine) Unwrap() error { return e.error }

// choose picks the image of an index that fits the platform that was asked for.
func (img *Image) choose(index v1.ImageIndex) (v1.Image, error) {
	return img.chooseIn(index, maxNested)
}

// maxNested bounds how deep indexes lie in indexes; no tool makes more than one in
// another.
const maxNested = 4

func (img *Image) chooseIn(index v1.ImageIndex, depth int) (v1.Image, error) {
	if depth == 0 {
		return nil, fmt.Errorf("its indexes lie more than %d deep in one another: name the image by its digest", maxNested)
	}
	m, err := index.IndexManifest()
	if err != nil {
		return nil, img.badDocument("index", err)
	}
	candidates := platforms(m)
	want := img.opts.Platform
	if want == nil {
		want = &v1.Platform{OS: "linux", Architecture: "amd64"}
	}
	for _, d := range candidates {
		if d.Platform == nil || d.Platform.Satisfies(*want) {
			return img.chosen(index, d, depth)
		}
	}
	if len(candidates) == 1 && img.opts.Platform == nil {
		return img.chosen(index, candidates[0], depth)
	}
	return nil, &platformError{want.String(), names(candidates)}
}

func (img *Image) chosen(index v1.ImageIndex, d v1.Descriptor, depth int) (v1.Image, error) {
	if d.MediaType.IsIndex() {
		inner, err := index.ImageIndex(d.Digest)
		if err != nil {
			return nil, err
		}
		return img.chooseIn(inner, depth-1)
	}
	return index.Image(d.Digest)
}

// platforms are the manifests of an index that can be run: attestations, whose
// platform is unknown/unknown, are none.
func platforms(m *v1.IndexManifest) []v1.Descriptor {
	var list []v1.Descriptor
	for _, d := range m.Manifests {
		if (d.MediaType.IsImage() || d.MediaType.IsIndex()) && (d.Platform == nil || d.Platform.OS != "unknown") {
			list = append(list, d)
		}
	}
	return list
}

func names(list []v1.Descriptor) []string {
	var s []string
	for _, d := range list {
		if d.Platform != nil {
			s = append(s, d.Platform.String())
		}
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// platformError says that an image is there, but not for the platform.
type platformError struct {
	want string
	have []string
}

func (e *platformError) Error() string {
	if len(e.have) == 0 {
		return "the index holds no image that can be run"
	}
	return fmt.Sprintf("is not there for %s: choose one with --platform %s", e.want, strings.Join(e.have, " or "))
}

// Bounds of images. overlayfs lays at most 500 layers over one another
// (OVL_MAX_STACK), Docker 128. No registry takes a blob of a terabyte.
const (
	maxLayers    = 1000
	maxLayerSize = 1 << 40 // bytes, compressed
)

// parseConfig reads a config.
func (img *Image) parseConfig(raw []byte) (*v1.ConfigFile, error) {
	if err := checkElements(raw); err != nil {
		return nil, fmt.Errorf("its config: %w", err)
	}
	cfg, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, img.badDocument("config", err)
	}
	return cfg, nil
}

// badDocument explains why a document of the image makes no sense.
func (img *Image) badDocument(what string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends too early")
	}
	if img.host == "" {
		return fmt.Errorf("its %s cannot be read (%w): the image is damaged", what, brief(err))
	}
	return &toldError{fmt.Errorf("its %s cannot be read (%w): the image is damaged, or a proxy answers in the registry's place", what, brief(err))}
}

// toldError is one that says what to do.
type toldError struct{ error }

func (e *toldError) Unwrap() error { return e.error }

// setV1 takes an image whose manifest is known. Whoever reads its layers checks
// their digests.
func (img *Image) setV1(v v1.Image) error {
	m, err := v.Manifest()
	if err != nil {
		return img.badDocument("manifest", err)
	}
	digest, err := v.Digest()
	if err != nil {
		return err
	}
	switch {
	case m.Config.Digest.Hex == "":
		return errors.New("is not a container image: its manifest names no config")
	case m.Config.Size > maxAnswer:
		return fmt.Errorf("its config is said to have %d bytes, more than the %d that are read", m.Config.Size, maxAnswer)
	case m.Config.Size < 0: // go-containerregistry would read -1 to its end
		return fmt.Errorf("its config is said to have %d bytes: the image is damaged", m.Config.Size)
	case len(m.Layers) > maxLayers:
		return fmt.Errorf("its manifest lists %d layers, more than the %d that are read: no file system lays so many over one another", len(m.Layers), maxLayers)
	}
	raw, err := v.RawConfigFile()
	if err != nil {
		return fmt.Errorf("reading the config: %w", img.friendly(err))
	}
	cfg, err := img.parseConfig(raw)
	if err != nil {
		return err
	}
	if len(cfg.RootFS.DiffIDs) != len(m.Layers) {
		return fmt.Errorf("is not a container image: its config (%s) lists %d layers, its manifest %d", m.Config.MediaType, len(cfg.RootFS.DiffIDs), len(m.Layers))
	}
	img.Digest, img.Config = digest.String(), cfg
	for i, d := range m.Layers {
		switch mt := string(d.MediaType); {
		case strings.Contains(mt, "encrypted"):
			return fmt.Errorf("layer %d is encrypted (%s): decrypt the image first", i+1, mt)
		case d.Size < 0 || d.Size > maxLayerSize:
			return fmt.Errorf("layer %d is said to have %d bytes: the image is damaged, or no image", i+1, d.Size)
		}
		open := func(context.Context) (io.ReadCloser, error) {
			l, err := v.LayerByDigest(d.Digest)
			if err != nil {
				return nil, err
			}
			return l.Compressed()
		}
		b := blob{open: open, verify: d.Digest.String()}
		if !d.MediaType.IsDistributable() {
			b.foreign = string(d.MediaType)
		}
		img.blobs = append(img.blobs, b)
		img.Layers = append(img.Layers, LayerInfo{Digest: d.Digest.String(), DiffID: cfg.RootFS.DiffIDs[i].String(), Size: d.Size})
	}
	return img.checkPlatform()
}

// checkPlatform refuses an image that is for one platform only, and not for the
// one that was asked for.
func (img *Image) checkPlatform() error {
	want, c := img.opts.Platform, img.Config
	if want == nil || c == nil || c.Architecture == "" {
		return nil
	}
	if have := c.Platform(); have != nil && !have.Satisfies(*want) {
		return &platformError{want.String(), []string{have.String()}}
	}
	return nil
}

// splitTag splits PATH[:TAG], where both may hold colons: what exists is a path.
func splitTag(s string) (file, tag string) {
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
