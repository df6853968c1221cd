package source

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// Servers are hostile. Each of these answers gives an error of one line that says what to
// do, within bounded memory and time.

// spoiler answers a request and returns true, or leaves it to a registry.
type spoiler = func(http.ResponseWriter, *http.Request) bool

// spoil answers GETs of paths that contain part.
func spoil(part string, do http.HandlerFunc) spoiler {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
			return false
		}
		do(w, r)
		return true
	}
}

// first returns the first of several spoilers that answers.
func first(list ...spoiler) spoiler {
	return func(w http.ResponseWriter, r *http.Request) bool {
		for _, s := range list {
			if s(w, r) {
				return true
			}
		}
		return false
	}
}

// manifested serves the manifest of appImage, changed.
func manifested(t *testing.T, change func(m *v1.Manifest)) spoiler {
	t.Helper()
	m, err := imagetest.V1(t, appImage).Manifest()
	if err != nil {
		t.Fatal(err)
	}
	m = m.DeepCopy()
	change(m)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return says("/manifests/", string(m.MediaType), string(b))
}

// says answers with a document.
func says(part, mediaType, text string) spoiler {
	return spoil(part, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		io.WriteString(w, text)
	})
}

// answers answers with a status and a text.
func answers(part string, code int, text string) spoiler {
	return spoil(part, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, text)
	})
}

// asksFor starts a registry that requires a token from a realm, with an answer at /token.
func asksFor(realm, token string) spoiler {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			io.WriteString(w, token)
			return true
		}
		w.Header().Set("WWW-Authenticate", strings.ReplaceAll(realm, "HOST", r.Host))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

// A text that would turn a terminal red, give it a title, and fill it.
var redText = "<html>\x1b[31mred\x1b]0;title\x07" + strings.Repeat("<p>no</p>\n", 300_000)

const ociManifest = "application/vnd.oci.image.manifest.v1+json"

func TestWire(t *testing.T) {
	layer, config := "/blobs/"+layerOf(t, 1), configOf(t)
	const (
		second  = "reading HOST/app:1: layer 2 (RUN build): "
		again   = ": try again later, or ask whoever runs it"
		damaged = "its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged, or a proxy has changed it"
		realm   = `Bearer realm="http://HOST/token"`
	)
	wrong := func(code, what, fault string) string {
		return `{"errors":[{"code":"` + code + `","message":"` + what + `","detail":"` + fault + `"}]}`
	}
	tests := []struct {
		name string
		do   spoiler
		want string
	}{
		// Texts of people and proxies.
		{"manifest 401", answers("/manifests/", 401, redText), "HOST/app:1: HOST refused the login or the image does not exist: check the name, and run `docker login HOST`"},
		{"manifest 403", answers("/manifests/", 403, redText), "HOST/app:1: HOST refused the login or the image does not exist: check the name, and run `docker login HOST`"},
		{"manifest 403 in words", answers("/manifests/", 403, wrong("DENIED", "project test is over its quota", "")), "HOST/app:1: HOST refused the login or the image does not exist (project test is over its quota): check the name, and run `docker login HOST`"},
		{"manifest 429 in words", answers("/manifests/", 429, wrong("TOOMANYREQUESTS", "You have reached your pull rate limit.", "")), "HOST/app:1: HOST limits the number of requests (You have reached your pull rate limit.): wait, or run `docker login HOST`"},
		{"layer 401 in words", answers(layer, 401, wrong("UNAUTHORIZED", "authentication required", "")), second + "HOST refused it (401) (authentication required), though it gave the manifest: run `docker login HOST`"},
		{"manifest 404", answers("/manifests/", 404, redText), "HOST/app:1: HOST has no such image: check the repository and tag (app, 1)"},
		{"manifest 429", answers("/manifests/", 429, redText), "HOST/app:1: HOST limits the number of requests: wait, or run `docker login HOST`"},
		{"manifest 503", answers("/manifests/", 503, redText), "HOST/app:1: HOST answered 503 Service Unavailable" + again},
		{"no registry", answers("/v2/", 404, redText), "HOST/app:1: HOST is no registry: it has no /v2/ (404): check the name and the port"},
		{"config 500", answers(config, 500, redText), "HOST/app:1: reading the config: HOST answered 500 Internal Server Error" + again},
		{"layer 401", answers(layer, 401, redText), second + "HOST refused it (401), though it gave the manifest: run `docker login HOST`"},
		{"layer 404", answers(layer, 404, redText[:2000]), second + "HOST does not have it (404), though the manifest names it: push the image again"},
		{"layer 503", answers(layer, 503, redText), second + "HOST answered 503 Service Unavailable" + again},
		{"layer 206", answers(layer, 206, "abc"), second + "HOST answered 206 Partial Content" + again},
		{"layer 204", answers(layer, 204, ""), second + "HOST answered 204 No Content" + again},
		{"a message", answers(layer, 500, wrong("X", `a\u001b[31m\nb`, strings.Repeat("x", 9000))), second + `HOST answered 500 Internal Server Error (a\x1b[31m b)` + again},
		{"a long message", answers(layer, 500, wrong("X", strings.Repeat("x", 9000), "")), second + "HOST answered 500 Internal Server Error (" + strings.Repeat("x", 300) + "…)" + again},
		{"many messages", answers(layer, 500, `{"errors":[`+strings.Repeat(`{"message":"no"},`, 1000)+`{}]}`), second + "HOST answered 500 Internal Server Error (no) (no) (no)" + again},

		// Manifests that are none, or name what cannot be.
		{"a page", says("/manifests/", "text/html", redText[:2000]), "HOST/app:1: its manifest cannot be read (invalid character '<' looking for beginning of value): the image is damaged, or a proxy answers in the registry's place"},
		{"nothing", says("/manifests/", ociManifest, ""), "HOST/app:1: its manifest cannot be read (it ends too early): the image is damaged, or a proxy answers in the registry's place"},
		{"half", says("/manifests/", ociManifest, `{"layers": [`), "HOST/app:1: its manifest cannot be read (it ends too early): the image is damaged, or a proxy answers in the registry's place"},
		{"another document", says("/manifests/", ociManifest, `{"layers": 5}`), "HOST/app:1: its manifest cannot be read (json: cannot unmarshal number into Go struct field Manifest.layers of type []v1.Descriptor): the image is damaged, or a proxy answers in the registry's place"},
		{"{}", says("/manifests/", ociManifest, "{}"), "HOST/app:1: is not a container image: its manifest names no config"},
		{"a page for an index", says("/manifests/", "application/vnd.oci.image.index.v1+json", redText[:2000]), "HOST/app:1: its index cannot be read (invalid character '<' looking for beginning of value): the image is damaged, or a proxy answers in the registry's place"},
		{"an image for an index", manifestedAs(t, "application/vnd.oci.image.index.v1+json"), "HOST/app:1: the index holds no image that can be run"},
		{"config of -1 bytes", manifested(t, func(m *v1.Manifest) { m.Config.Size = -1 }), "HOST/app:1: its config is said to have -1 bytes: the image is damaged"},
		{"layer of -1 bytes", manifested(t, func(m *v1.Manifest) { m.Layers[1].Size = -1 }), "HOST/app:1: layer 2 is said to have -1 bytes: the image is damaged, or no image"},
		{"layer of 4 EiB", manifested(t, func(m *v1.Manifest) { m.Layers[0].Size = 1 << 62 }), "HOST/app:1: layer 1 is said to have 4611686018427387904 bytes: the image is damaged, or no image"},
		{"layer is shorter", manifested(t, func(m *v1.Manifest) { m.Layers[1].Size = 1 << 40 }), second + "the manifest says that it has 1099511627776 bytes, the registry that it has 136: the image is damaged, or a proxy has changed it"},
		{"layer is longer", manifested(t, func(m *v1.Manifest) { m.Layers[1].Size = 5 }), second + "the manifest says that it has 5 bytes, the registry that it has 136: the image is damaged, or a proxy has changed it"},
		{"many layers", manifested(t, func(m *v1.Manifest) {
			for len(m.Layers) < 30_000 {
				m.Layers = append(m.Layers, m.Layers[0])
			}
		}), "HOST/app:1: its manifest lists 30000 layers, more than the 1000 that are read: no file system lays so many over one another"},
		{"many elements", says("/manifests/", ociManifest, `{"layers":[`+strings.Repeat("{},", 2<<20)+"{}]}"), "HOST/app:1: it has more than the 262144 elements that are read of a manifest or config"},
		{"a foreign layer", first(manifested(t, func(m *v1.Manifest) {
			m.Layers[1].MediaType, m.Layers[1].URLs = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", []string{"http://169.254.169.254/x", "file:///etc/passwd"}
		}), answers(layer, 404, "")), second + "it may not be distributed (application/vnd.docker.image.rootfs.foreign.diff.tar.gzip), so that HOST does not have it, and its URLs are not followed: build the image from layers that may"},

		// Blobs.
		{"a layer in gzip in gzip", spoil(layer, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			forever(w, new(atomic.Int64))
		}), second + damaged},

		// Logins.
		{"realm elsewhere", asksFor(`Bearer realm="http://tokens.example/token"`, ""), "HOST/app:1: HOST redirects to tokens.example by plain HTTP, which anybody on the way can read: add --insecure if that is meant"},
		{"realm in the inner network", asksFor(`Bearer realm="https://10.0.0.1/token"`, ""), `HOST/app:1: HOST asks for a login in a way that is not supported (invalid realm in www-authenticate: realm host "10.0.0.1" is a private or link-local address): ask whoever runs it`},
		{"realm is a file", asksFor(`Bearer realm="file:///etc/passwd"`, ""), `HOST/app:1: HOST asks for a login in a way that is not supported (invalid realm in www-authenticate: realm scheme "file" not allowed; must be https (or http for insecure registries)): ask whoever runs it`},
		{"no realm", asksFor(`Bearer x="y"`, ""), "HOST/app:1: HOST asks for a login in a way that is not supported (malformed www-authenticate, missing realm: map[x:y]): ask whoever runs it"},
		{"an endless token", asksFor(realm, redText), "HOST/app:1: the answer of HOST is too large (body exceeds 65536 byte limit): ask whoever runs it"},
		{"a page for a token", asksFor(realm, redText[:2000]), "HOST/app:1: HOST does not answer like a registry (invalid character '<' looking for beginning of value): a proxy or a login page stands in its place"},
		{"another secret", asksFor(realm, `{"secret":"abc"}`), "HOST/app:1: the token server of HOST gives no token: run `docker login HOST`, or ask whoever runs it"},
		{"a token with a line break", asksFor(realm, `{"token":"a\nb"}`), `HOST/app:1: Get "http://HOST/v2/app/manifests/1": net/http: invalid header field value for "Authorization"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantError(t, handled(t, false, tt.do), Options{}, tt.want)
		})
	}
}

func fileOf(name, content string) tarEntry {
	return tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: name}, content}
}

// manifestedAs serves the manifest of appImage as something else.
func manifestedAs(t *testing.T, mediaType string) spoiler {
	t.Helper()
	b, err := imagetest.V1(t, appImage).RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	return says("/manifests/", mediaType, string(b))
}

// Claims of a registry that nothing depends on are ignored.
func TestOnlySaid(t *testing.T) {
	b, err := imagetest.V1(t, appImage).RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("0", 64)
	tests := map[string]spoiler{
		"a digest": spoil("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ociManifest)
			w.Header().Set("Docker-Content-Digest", "sha256:"+other)
			w.Write(b)
		}),
		"the type of a layer": manifested(t, func(m *v1.Manifest) {
			m.Layers[0].MediaType, m.Layers[1].MediaType = "application/vnd.oci.image.layer.v1.tar+zstd", "application/vnd.oci.image.layer.v1.tar"
		}),
		"URLs of a layer": manifested(t, func(m *v1.Manifest) { m.Layers[1].URLs = []string{"http://169.254.169.254/", "file:///etc/passwd"} }),
		"a platform":      manifested(t, func(m *v1.Manifest) { m.Config.Platform = &v1.Platform{OS: "windows", Architecture: "\x1b[31m"} }),
		"years of silence": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "99999999999")
			return false
		},
	}
	for name, do := range tests {
		t.Run(name, func(t *testing.T) { wantApp(t, handled(t, false, do), Options{}) })
	}
}

// Bytes other than those that were requested are an error.
func TestOtherBytes(t *testing.T) {
	list, err := imagetest.V1(t, appImage).Layers()
	if err != nil {
		t.Fatal(err)
	}
	rc, err := list[1].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	path := "/blobs/" + layerOf(t, 1)
	// resumed gives half of the layer, and then what a function answers.
	resumed := func(do func(w http.ResponseWriter, half int)) spoiler {
		half := len(layer) / 2
		return spoil(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				do(w, half)
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(layer)))
			w.Write(layer[:half])
		})
	}
	ranged := func(header string, b []byte) func(http.ResponseWriter, int) {
		return func(w http.ResponseWriter, half int) {
			w.Header().Set("Content-Range", fmt.Sprintf(header, half, len(layer)-1, len(layer)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(b)
		}
	}
	index := `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","size":2,"digest":"sha256:` + strings.Repeat("1", 64) + `"}]}`
	const (
		second  = "reading HOST/app:1: layer 2 (RUN build): "
		damaged = second + "its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged, or a proxy has changed it"
		broke   = second + "the connection to HOST broke off: try again"
	)
	tests := []struct {
		name string
		do   spoiler
		want string
	}{
		{"a resume", resumed(ranged("bytes %d-%d/%d", make([]byte, len(layer)))), damaged},
		{"a resume of another range", resumed(ranged("bytes 9%d-%d/%d", make([]byte, len(layer)))), broke},
		{"a resume of no range", resumed(ranged("%d %d %d", make([]byte, len(layer)))), broke},
		{"a resume of an earlier range that ends", resumed(ranged("bytes 0%[1]d-%[2]d/%[3]d", nil)), broke},
		{"an error for a resume", resumed(func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusForbidden) }), second + "HOST refused it (403), though it gave the manifest: run `docker login HOST`"},
		{"an index that names itself", says("/manifests/", "application/vnd.oci.image.index.v1+json", index), "HOST/app:1: its bytes are not those that the manifest names (manifest digest: \"sha256:HEX\" does not match requested digest: \"sha256:HEX\" for \"HOST/app@sha256:HEX\"): the image is damaged, or a proxy has changed it"},
		{"half a manifest", spoil("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			io.WriteString(w, "{")
		}), "HOST/app:1: the connection to HOST broke off: try again"},
		{"half a config", spoil(configOf(t), func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{") }), "HOST/app:1: reading the config: the manifest says that it has 488 bytes, the registry that it has 1: the image is damaged, or a proxy has changed it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantError(t, handled(t, false, tt.do), Options{}, tt.want) })
	}
}

// A config of many elements is not parsed, wherever it comes from.
func TestManyElements(t *testing.T) {
	dense := []byte(`{"history":[` + strings.Repeat("{},", maxCommas+1) + `{}]}`)
	h, n, err := v1.SHA256(bytes.NewReader(dense))
	if err != nil {
		t.Fatal(err)
	}
	ref := handled(t, false, first(manifested(t, func(m *v1.Manifest) { m.Config.Digest, m.Config.Size = h, n }), says(h.Hex, "", string(dense))))
	wantError(t, ref, Options{}, "HOST/app:1: its config: it has more than the 262144 elements that are read of a manifest or config")

	dir := t.TempDir()
	write := func(name string, list ...tarEntry) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, tarOf(t, list...), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	tests := map[string]string{
		"docker-archive:" + write("a.tar", fileOf("manifest.json", "["+strings.Repeat("{},", maxCommas)+"{},{}]")):                                           "docker-archive:TMP/a.tar: it has more than the 262144 elements that are read of a manifest or config",
		"oci-archive:" + write("b.tar", fileOf("index.json", `{"manifests":[`+strings.Repeat("{},", maxCommas)+"{},{}]}")):                                   "oci-archive:TMP/b.tar: index.json: it has more than the 262144 elements that are read of a manifest or config",
		"docker-archive:" + write("c.tar", fileOf("manifest.json", `[{"Config":"c","Layers":[`+strings.Repeat(`"",`, maxLayers)+`""]}]`), fileOf("c", `{}`)): "docker-archive:TMP/c.tar: manifest.json lists 1001 layers, more than the 1000 that are read: no file system lays so many over one another",
	}
	for ref, want := range tests {
		wantError(t, ref, Options{}, want)
	}
}

// An environment that no program starts in is an error, and one of very many variables.
func TestLargeEnvironment(t *testing.T) {
	long := "A=" + strings.Repeat("x", maxVariable-3)
	fill := make([]string, maxEnvironment/maxVariable+1)
	for i := range fill {
		fill[i] = long
	}
	for _, tt := range []struct {
		env  []string
		want string
	}{
		{[]string{long}, ""},
		{[]string{long + "x"}, "its config: the variable A has 131072 bytes: Linux starts no program with 131072 or more (argument list too long)"},
		{fill, "its config: its variables have 6422528 bytes: Linux starts no program with more than 6291456 (argument list too long)"},
		{make([]string, maxVariables+1), "its config: it has 4097 variables, more than the 4096 that are read"},
	} {
		raw, err := json.Marshal(v1.ConfigFile{Config: v1.Config{Env: tt.env}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := parseConfig(nil, raw); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%d variables: %q, want %q", len(tt.env), got, tt.want)
		}
	}
}

// A redirect is followed where docker follows it, but never with a login, nor by plain HTTP
// for a manifest, nor into a network that the registry is not in.
func TestFollow(t *testing.T) {
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	const blob = "https://a.example/v2/app/blobs/sha256:0"
	tests := []struct {
		method, from, peer, to string // the peer is who answers at from
		header                 http.Header
		insecure               bool
		want                   string // the error, or empty
	}{
		{"GET", "https://a.example/v2/app/manifests/1", "192.0.2.1", "https://b.example/x", nil, false, ""},
		{"GET", "https://a.example/v2/app/manifests/1", "192.0.2.1", "http://a.example/x", nil, false, "it redirects to http://a.example, which anybody on the way can change"},
		{"GET", "https://a.example/v2/app/manifests/1", "192.0.2.1", "http://a.example/x", nil, true, ""},
		{"GET", "https://a.example/v2/", "192.0.2.1", "http://b.example/", nil, false, "it redirects to http://b.example, which anybody on the way can change"},
		{"GET", "https://a.example/token", "192.0.2.1", "http://b.example/", nil, false, "it redirects to http://b.example, which anybody on the way can change"},
		{"GET", blob, "192.0.2.1", "http://b.example/x", nil, false, ""},
		{"GET", blob, "192.0.2.1", "gopher://b.example/x", nil, false, "it redirects to gopher:, which is not the address of a registry"},
		{"POST", "https://a.example/token", "192.0.2.1", "https://b.example/token", form, false, "it redirects to b.example, which must not get the login"},
		{"POST", "https://a.example/token", "192.0.2.1", "https://a.example/other", form, false, ""},
		{"POST", "https://a.example/v2/app/blobs/uploads/", "192.0.2.1", "https://b.example/uploads/", nil, false, ""},

		// A public registry has no business in an inner network.
		{"GET", blob, "192.0.2.1", "http://10.0.0.1/x", nil, false, "it redirects to 10.0.0.1, an address of an inner network"},
		{"GET", blob, "192.0.2.1", "http://[::ffff:192.168.0.1]/x", nil, false, "it redirects to ::ffff:192.168.0.1, an address of an inner network"},
		{"GET", blob, "192.0.2.1", "http://[fd12::1]:9000/x", nil, false, "it redirects to fd12::1, an address of an inner network"},
		{"GET", blob, "192.0.2.1", "http://0.0.0.0:5000/x", nil, false, "it redirects to 0.0.0.0, an address of an inner network"},
		{"GET", blob, "192.0.2.1", "http://localhost:5000/x", nil, false, "it redirects to localhost, an address of an inner network"},
		{"PUT", blob, "192.0.2.1", "http://127.0.0.1:5000/x", nil, false, "it redirects to 127.0.0.1, an address of an inner network"},
		{"GET", blob, "", "http://10.0.0.1/x", nil, false, "it redirects to 10.0.0.1, an address of an inner network"},
		// A company's registry, or one behind a company's proxy, keeps its blobs there.
		{"GET", blob, "10.9.9.9", "https://10.0.0.5:9000/x", nil, false, ""},
		{"GET", blob, "10.9.9.9", "http://10.0.0.5:9000/x", nil, false, ""},
		{"HEAD", blob, "172.16.1.1", "http://192.168.3.4:9000/x", nil, false, ""},
		{"GET", blob, "fd12::1", "http://[fd12::5]:9000/x", nil, false, ""},
		{"GET", blob, "127.0.0.1", "http://10.0.0.5:9000/x", nil, false, ""}, // by a tunnel
		{"GET", "https://a.example/v2/app/manifests/1", "10.9.9.9", "http://10.0.0.5/x", nil, false, "it redirects to http://10.0.0.5, which anybody on the way can change"},
		// That is no reason to ask a cloud's metadata service, or this machine.
		{"GET", blob, "10.9.9.9", "http://169.254.169.254/x", nil, false, "it redirects to 169.254.169.254, an address of an inner network"},
		{"GET", blob, "10.9.9.9", "http://[::ffff:169.254.169.254]/x", nil, false, "it redirects to ::ffff:169.254.169.254, an address of an inner network"},
		{"GET", blob, "10.9.9.9", "http://[fd00:ec2::254]/x", nil, false, "it redirects to fd00:ec2::254, an address of an inner network"},
		{"GET", blob, "10.9.9.9", "http://100.100.100.200/x", nil, false, "it redirects to 100.100.100.200, an address of an inner network"},
		{"GET", blob, "10.9.9.9", "http://127.0.0.1:5000/x", nil, false, "it redirects to 127.0.0.1, an address of an inner network"},
		{"GET", blob, "10.9.9.9", "http://localhost:5000/x", nil, false, "it redirects to localhost, an address of an inner network"},
		{"GET", "https://a.example/v2/", "10.9.9.9", "https://169.254.169.254/", nil, false, "it redirects to 169.254.169.254, an address of an inner network"},
		{"GET", blob, "127.0.0.1", "http://169.254.169.254/x", nil, false, "it redirects to 169.254.169.254, an address of an inner network"},
		// This machine may send to itself, and any host to itself.
		{"GET", "http://127.0.0.1/v2/app/blobs/sha256:0", "127.0.0.1", "http://localhost:5000/x", nil, false, ""},
		{"GET", "http://localhost/v2/app/blobs/sha256:0", "::1", "http://127.0.0.2:5000/x", nil, false, ""},
		{"GET", "http://10.0.0.1/v2/app/blobs/sha256:0", "10.0.0.1", "http://10.0.0.1/x", nil, true, ""},
	}
	for _, tt := range tests {
		var asked []string
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			asked = append(asked, req.URL.String())
			if ip := net.ParseIP(tt.peer); ip != nil {
				httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{Conn: connTo{addr: &net.TCPAddr{IP: ip, Port: 443}}})
			}
			resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}
			if len(asked) == 1 {
				resp.StatusCode = http.StatusPermanentRedirect
				resp.Header.Set("Location", tt.to)
			} else if secret := req.Header.Get("Authorization"); secret != "" && req.URL.Host != "a.example" {
				t.Errorf("%s %s to %s: told %s", tt.method, tt.from, tt.to, secret)
			}
			return resp, nil
		})
		c := &http.Client{Transport: login{bounded{base, tt.insecure}}}
		req, err := http.NewRequest(tt.method, tt.from, strings.NewReader("refresh_token=secret"))
		if err != nil {
			t.Fatal(err)
		}
		if tt.header != nil {
			req.Header = tt.header.Clone()
		}
		got := ""
		if resp, err := c.Do(req); err == nil {
			resp.Body.Close()
		} else if ue := (*url.Error)(nil); errors.As(err, &ue) {
			got = ue.Err.Error()
		}
		if n := len(asked); got != tt.want || n != 2 && got == "" || n != 1 && got != "" {
			t.Errorf("%s %s (%s) to %s: error %q, want %q, asked %q", tt.method, tt.from, tt.peer, tt.to, got, tt.want, asked)
		}
	}
	// Without end inside of an inner network as well.
	n := 0
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		n++
		httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{Conn: connTo{addr: &net.TCPAddr{IP: net.IP{10, 9, 9, 9}}}})
		return &http.Response{StatusCode: 302, Header: http.Header{"Location": {fmt.Sprintf("http://10.0.0.%d/x", n)}}, Body: http.NoBody, Request: req}, nil
	})
	c := &http.Client{Transport: bounded{base, false}}
	if _, err := c.Get(blob); !errors.Is(err, errRedirects) || n != maxRedirects {
		t.Errorf("error %v, asked %d times", err, n)
	}
}

// login adds a login to what is sent to one host, as go-containerregistry does.
type login struct{ base http.RoundTripper }

func (l login) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == "a.example" {
		req.Header.Set("Authorization", "Basic secret")
	}
	return l.base.RoundTrip(req)
}

// connTo is a connection to an address.
type connTo struct {
	net.Conn
	addr net.Addr
}

func (r connTo) RemoteAddr() net.Addr { return r.addr }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A reset stream of HTTP/2 is requested again; one that is always reset is an error.
func TestHTTP2Reset(t *testing.T) {
	layer := "/blobs/" + layerOf(t, 1)
	for part, want := range map[string]string{
		"/manifests/": "HOST/app:1: the connection to HOST broke off: try again",
		configOf(t):   "HOST/app:1: reading the config: the connection to HOST broke off: try again",
		layer:         "reading HOST/app:1: layer 2 (RUN build): the connection to HOST broke off: try again",
	} {
		resets := func(times int64) (string, *atomic.Int64) {
			var n atomic.Int64
			inner := handled(t, false, never)
			host, _, _ := strings.Cut(inner, "/")
			proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					t.Errorf("%s %s by %s", r.Method, r.URL, r.Proto)
				}
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, part) && n.Add(1) <= times {
					panic(http.ErrAbortHandler)
				}
				r.URL.Scheme, r.URL.Host, r.RequestURI = "http", host, ""
				resp, err := http.DefaultTransport.RoundTrip(r)
				if r.Context().Err() != nil {
					return // another layer has failed, and the client has given up
				}
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
				w.WriteHeader(resp.StatusCode)
				io.Copy(w, resp.Body)
			}))
			proxy.EnableHTTP2 = true
			proxy.Config.ErrorLog = log.New(io.Discard, "", 0)
			proxy.StartTLS()
			t.Cleanup(proxy.Close)
			return proxy.Listener.Addr().String() + "/app:1", &n
		}
		ref, n := resets(2)
		if wantApp(t, ref, Options{Insecure: true}); n.Load() != 3 {
			t.Errorf("%s: asked %d times", part, n.Load())
		}
		ref, _ = resets(1 << 30)
		wantError(t, ref, Options{Insecure: true}, want)
	}
}

// A download that trickles is given up; one with a slow reader is not.
func TestTrickle(t *testing.T) {
	trickle := func(pause time.Duration, n int) io.Reader {
		return readerFunc(func(p []byte) (int, error) {
			time.Sleep(pause)
			return copy(p, make([]byte, n)), nil
		})
	}
	tests := []struct {
		name  string
		body  io.Reader
		think time.Duration // the reader's pause after each piece
		took  time.Duration
		want  string
	}{
		{"a byte each 59 seconds", trickle(59*time.Second, 1), 0, 6 * 59 * time.Second, "fewer than 256 KiB in 5m0s"},
		{"many bytes, and still too few", trickle(time.Second, 800), 0, 300 * time.Second, "fewer than 256 KiB in 5m0s"},
		{"slow", trickle(time.Second, 1000), 0, 3000 * time.Second, "<nil>"},
		{"a slow reader", trickle(time.Millisecond, 1000), time.Minute, 3000 * (time.Minute + time.Millisecond), "<nil>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answers: []answer{respond(200, "", tt.body)}}
				req, err := http.NewRequestWithContext(t.Context(), "GET", "https://registry/v2/app/manifests/1", nil)
				if err != nil {
					t.Fatal(err)
				}
				p := newPatient(s, time.Minute, Sleep)
				resp, err := p.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				start := time.Now()
				for range 3000 {
					if _, err = resp.Body.Read(make([]byte, 4096)); err != nil {
						break
					}
					time.Sleep(tt.think)
				}
				if took := time.Since(start); fmt.Sprint(err) != tt.want || took != tt.took {
					t.Errorf("error %v after %v, want %s after %v", err, took, tt.want, tt.took)
				}
			})
		})
	}
}

// A Retry-After of years counts as the longest wait, not as none.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"30": 30 * time.Second, "65535": maxWait, "65536": maxWait, "99999999999999999999999999": maxWait,
		"-1": 0, "": 0, "soon": 0, "Fri, 31 Dec 9999 23:59:59 GMT": 0,
	} {
		if got := retryAfter(&http.Response{Header: http.Header{"Retry-After": {header}}}); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

// hangs sends the start of an answer, reports it on begun, and then sends nothing until the
// client gives up.
func hangs(part string, begun chan<- string, ended *sync.WaitGroup, start string) spoiler {
	return spoil(part, func(w http.ResponseWriter, r *http.Request) {
		ended.Add(1)
		defer ended.Done()
		if start != "" {
			io.WriteString(w, start)
			w.(http.Flusher).Flush()
		}
		begun <- part
		<-r.Context().Done()
	})
}

// An interrupted scan ends at once, wherever a server makes it wait, and leaves no
// connection behind.
func TestInterrupted(t *testing.T) {
	layer, config := "/blobs/"+layerOf(t, 1), configOf(t)
	tests := []struct {
		name, part, start string
		login             bool
	}{
		{"ping", "/v2/", "", false},
		{"ping's body", "/v2/", "x", false},
		{"token", "/token", "", true},
		{"token's body", "/token", "{", true},
		{"manifest", "/manifests/", "", false},
		{"manifest's body", "/manifests/", "{", false},
		{"config", config, "", false},
		{"config's body", config, "{", false},
		{"layer", layer, "", false},
		{"layer's body", layer, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			begun := make(chan string, 9)
			var ended sync.WaitGroup
			list := []spoiler{hangs(tt.part, begun, &ended, tt.start)}
			if tt.login {
				list = append(list, asksFor(`Bearer realm="http://HOST/token"`, ""))
			}
			interrupted(t, handled(t, false, first(list...)), begun)
			ended.Wait()
		})
	}
	t.Run("between attempts", func(t *testing.T) {
		begun := make(chan string, 9)
		ref := handled(t, false, spoil("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "9999")
			w.WriteHeader(http.StatusServiceUnavailable)
			begun <- "busy"
		}))
		interrupted(t, ref, begun)
	})
	daemons := map[string]func(begun chan<- string) (func(http.ResponseWriter), spoiler){
		"a daemon that says nothing": func(begun chan<- string) (func(http.ResponseWriter), spoiler) {
			return nil, func(_ http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/app:1/json") {
					return false
				}
				begun <- "inspect"
				<-r.Context().Done()
				return true
			}
		},
		"a daemon that saves for ever": func(begun chan<- string) (func(http.ResponseWriter), spoiler) {
			return nil, spoil("/images/get", func(_ http.ResponseWriter, r *http.Request) {
				begun <- "save"
				<-r.Context().Done()
			})
		},
		"a daemon that stops in a layer": func(begun chan<- string) (func(http.ResponseWriter), spoiler) {
			return nil, spoil("/images/get", func(w http.ResponseWriter, r *http.Request) {
				whole := tarOf(t, savedFiles(t, appImage, true)...)
				w.Write(whole[:3<<9])
				w.(http.Flusher).Flush()
				begun <- "layer"
				<-r.Context().Done()
			})
		},
		"a daemon without end": func(begun chan<- string) (func(http.ResponseWriter), spoiler) {
			return nil, spoil("/images/get", func(w http.ResponseWriter, r *http.Request) {
				tw := tar.NewWriter(w)
				tw.WriteHeader(&tar.Header{Name: "endless", Typeflag: tar.TypeReg, Size: 1 << 50})
				zeros := make([]byte, 1<<20)
				for i := 0; r.Context().Err() == nil; i++ {
					if _, err := tw.Write(zeros); err != nil {
						return
					}
					if i == 3 {
						begun <- "endless"
					}
				}
			})
		},
	}
	for name, of := range daemons {
		t.Run(name, func(t *testing.T) {
			begun := make(chan string, 9)
			saved, h := of(begun)
			daemonHandled(t, saved, h)
			interrupted(t, "docker:app:1", begun)
		})
	}
	t.Run("a pipe", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		begun := make(chan string, 1)
		begun <- "pipe"
		interrupted(t, fmt.Sprintf("docker-archive:/dev/fd/%d", r.Fd()), begun)
	})
}

// interrupted reads an image, is interrupted once a server has begun, and expects the
// context's error.
func interrupted(t *testing.T, ref string, begun <-chan string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-begun
		cancel()
	}()
	img, err := Open(ctx, ref, Options{})
	if err == nil {
		defer img.Close()
		_, err = read(ctx, img)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A hostile daemon costs a scan bounded memory and time, and one line of error.
func TestHostileDaemon(t *testing.T) {
	good := savedFiles(t, appImage, true)
	serve := func(list ...tarEntry) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.Write(tarOf(t, list...)) }
	}
	endless := func(w http.ResponseWriter, after []byte) {
		w.Write(after)
		chunk := make([]byte, 1<<20)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	header := func(name string, size int64) []byte {
		var b bytes.Buffer
		if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	defer func(all, beside int64) { maxStream, maxBeside = all, beside }(maxStream, maxBeside)
	maxStream, maxBeside = 1<<30, 64<<20
	tests := []struct {
		name  string
		saved func(http.ResponseWriter)
		want  string
	}{
		{"a file without end", func(w http.ResponseWriter) { endless(w, append(header("x", 1<<50), "text"...)) }, "reading docker:app:1: x: the archive has more than 64 MiB that belong to no layer: it is none of an image"},
		{"no end", func(w http.ResponseWriter) { endless(w, tarOf(t, good...)) }, "reading docker:app:1: the archive has more than 64 MiB that belong to no layer: it is none of an image"},
		{"a layer without end", func(w http.ResponseWriter) { endless(w, append(header("l/layer.tar", 1<<50), header("x", 1<<50)...)) }, "reading docker:app:1: l/layer.tar: the archive has more than the 1 GiB that are read"},
		{"a large manifest", serve(append(good, fileOf("manifest.json", "["+strings.Repeat(" ", maxJSON)+"]"))...), "reading docker:app:1: manifest.json is 33554434 bytes long, and no more than 33554432 are read of all documents"},
		{"only a large manifest", serve(fileOf("manifest.json", "["+strings.Repeat(" ", maxJSON)+"]")), "reading docker:app:1: manifest.json is 33554434 bytes long, and no more than 33554432 are read of all documents"},
		{"a large config", serve(fileOf("manifest.json", `[{"Config":"c.json"}]`), fileOf("c.json", "{"+strings.Repeat(" ", maxJSON)+"}")), "reading docker:app:1: the config: c.json is 33554434 bytes long, and no more than 33554432 are read of all documents"},
		{"nothing", func(http.ResponseWriter) {}, "reading docker:app:1: is no docker archive: it has no manifest.json (docker save writes one, docker export does not)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			daemon(t, tt.saved)
			wantError(t, "docker:app:1", Options{}, tt.want)
		})
	}
	t.Run("names that lead out", func(t *testing.T) {
		var list []tarEntry
		for _, f := range good {
			f.Name = "../../" + f.Name
			list = append(list, f)
		}
		daemon(t, serve(list...))
		wantApp(t, "docker:app:1", Options{})
	})
	t.Run("an endless answer", func(t *testing.T) {
		var sent atomic.Int64
		daemonHandled(t, nil, spoil("/app:1/json", func(w http.ResponseWriter, _ *http.Request) { forever(w, &sent) }))
		wantError(t, "docker:app:1", Options{}, "docker:app:1: the daemon at unix://TMP/docker.sock: its answer is larger than the 8388608 bytes that are read")
		if n := sent.Load(); n >= foreverBytes {
			t.Errorf("%d bytes were taken", n)
		}
	})
	t.Run("a text of megabytes", func(t *testing.T) {
		daemonHandled(t, nil, answers("/app:1/json", 500, redText))
		wantError(t, "docker:app:1", Options{}, "docker:app:1: the daemon at unix://TMP/docker.sock: error reading JSON: invalid character '<' looking for beginning of value")
		daemonHandled(t, nil, answers("/app:1/json", 500, `{"message":"disk\u001b[31m on fire"}`))
		wantError(t, "docker:app:1", Options{}, `docker:app:1: the daemon at unix://TMP/docker.sock: Error response from daemon: disk\x1b[31m on fire`)
	})
	t.Run("silence", func(t *testing.T) {
		silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		daemonHandled(t, nil, spoil("/app:1/json", silent))
		wantError(t, "docker:app:1", Options{Stall: 10 * time.Millisecond}, "docker:app:1: the daemon at unix://TMP/docker.sock stopped sending: no data for 10ms: look at its log, or start it again")

		defer func(of func(time.Duration) time.Duration) { saveStall = of }(saveStall)
		saveStall = func(time.Duration) time.Duration { return 10 * time.Millisecond }
		want := "reading docker:app:1: the daemon at unix://TMP/docker.sock stopped sending: no data for 10ms: look at its log, or start it again"
		daemonHandled(t, nil, spoil("/images/get", silent))
		wantError(t, "docker:app:1", Options{}, want)
		daemonHandled(t, nil, spoil("/images/get", func(w http.ResponseWriter, r *http.Request) {
			w.Write(header("x", 1<<20))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		wantError(t, "docker:app:1", Options{}, want)
	})
}
