package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// A hostile registry costs a scan a bounded number of bytes, and one line of error.
func TestHostileRegistry(t *testing.T) {
	answer := func(part string, h http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
				return false
			}
			h(w, r)
			return true
		}
	}
	away := func(to string) http.HandlerFunc {
		n := 0
		return func(w http.ResponseWriter, r *http.Request) {
			if n++; n > 100 {
				w.WriteHeader(http.StatusGone)
				return
			}
			w.Header().Set("Location", strings.ReplaceAll(to, "PATH", r.URL.Path))
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		forever(w, new(atomic.Int64))
	}
	sized := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		io.WriteString(w, `{"schemaVersion": 2, "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "size": 9000000000, "digest": "sha256:`+strings.Repeat("0", 64)+`"}}`)
	}
	layer := "/blobs/" + layerOf(t, 1)
	tests := []struct {
		name, part string
		do         http.HandlerFunc
		want       string
	}{
		{"manifest in a circle", "/manifests/", away("PATH"), "HOST/app:1: HOST redirects without end: try again later, or ask whoever runs it"},
		{"config in a circle", configOf(t), away("PATH"), "HOST/app:1: reading the config: HOST redirects without end: try again later, or ask whoever runs it"},
		{"layer in a circle", layer, away("PATH"), "reading HOST/app:1: layer 2 (RUN build): HOST redirects without end: try again later, or ask whoever runs it"},
		{"ping in a circle", "/v2/", away("/v2/"), `HOST/app:1: Get "https://HOST/v2/": http: server gave HTTP response to HTTPS client; Get "/v2/": stopped after 10 redirects`},
		{"manifest from a file", "/manifests/", away("file:///etc/passwd"), "HOST/app:1: the redirect of HOST is not followed: it redirects to file:, which is not the address of a registry: ask whoever runs it"},
		{"layer from a file", layer, away("file:///etc/passwd"), "reading HOST/app:1: layer 2 (RUN build): the redirect of HOST is not followed: it redirects to file:, which is not the address of a registry: ask whoever runs it"},
		{"manifest from the inner network", "/manifests/", away("http://169.254.169.254/PATH"), "HOST/app:1: the redirect of HOST is not followed: it redirects to 169.254.169.254, an address of an inner network: ask whoever runs it"},
		{"endless manifest", "/manifests/", endless, "HOST/app:1: its answer is larger than the 8388608 bytes that are read"},
		{"huge config", "/manifests/", sized, "HOST/app:1: its config is said to have 9000000000 bytes, more than the 8388608 that are read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantError(t, handled(t, false, answer(tt.part, tt.do)), Options{}, tt.want)
		})
	}
	// go-containerregistry reads answers that it ignores to their end.
	var sent atomic.Int64
	wantApp(t, handled(t, false, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			forever(w, &sent)
			return true
		}
		return false
	}), Options{})
	if n := sent.Load(); n == 0 || n >= foreverBytes {
		t.Errorf("%d bytes were taken of an answer that nobody reads", n)
	}
}

const foreverBytes = 128 << 20

// forever writes for as long as the client reads, up to foreverBytes, and counts.
func forever(w io.Writer, sent *atomic.Int64) {
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	for sent.Load() < foreverBytes {
		if _, err := w.Write(chunk); err != nil {
			return
		}
		sent.Add(int64(len(chunk)))
	}
}

// layerOf returns the digest of a layer of appImage.
func layerOf(t *testing.T, i int) string {
	t.Helper()
	list, err := imagetest.V1(t, appImage).Layers()
	if err != nil {
		t.Fatal(err)
	}
	d, err := list[i].Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// Large registries redirect their clients to a store of blobs, by an address that is
// signed for a while. The login does not go to the store, and a download that breaks
// continues there, by way of the registry.
func TestBlobsElsewhere(t *testing.T) {
	secrets := map[string]string{"Basic": "Basic bWU6c2VjcmV0", "Bearer": "Bearer token"}
	for scheme, secret := range secrets {
		t.Run(scheme, func(t *testing.T) {
			blobs := map[string][]byte{}
			list, err := imagetest.V1(t, appImage).Layers()
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range list {
				rc, err := l.Compressed()
				if err != nil {
					t.Fatal(err)
				}
				if blobs["/"+layerOf(t, i)], err = io.ReadAll(rc); err != nil {
					t.Fatal(err)
				}
			}
			config, err := imagetest.V1(t, appImage).RawConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			blobs["/sha256:"+configOf(t)] = config

			var mu sync.Mutex
			asked := map[string][]string{} // of each blob: Range and signature
			store := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				for _, h := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
					if v := r.Header.Get(h); v != "" {
						t.Errorf("the other host gets %s: %s", h, v)
					}
				}
				b := blobs[r.URL.Path]
				asked[r.URL.Path] = append(asked[r.URL.Path], r.Header.Get("Range")+" "+r.URL.RawQuery)
				if len(asked[r.URL.Path]) == 1 && r.URL.Path == "/"+layerOf(t, 1) {
					w.Header().Set("Content-Length", fmt.Sprint(len(b)))
					w.Write(b[:10])
					return // and the server closes the connection
				}
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
			}))
			store.Config.ErrorLog = log.New(io.Discard, "", 0)
			store.Start()
			defer store.Close()
			_, port, err := net.SplitHostPort(store.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			signed := 0
			ref := handled(t, false, func(w http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case r.URL.Path == "/token":
					if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
						t.Errorf("the token is asked for by %s", user)
					}
					io.WriteString(w, `{"token": "token"}`)
				case r.Header.Get("Authorization") != secret:
					w.Header().Set("WWW-Authenticate", scheme+` realm="http://`+r.Host+`/token",service="test"`)
					w.WriteHeader(http.StatusUnauthorized)
				case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/"):
					signed++
					_, digest, _ := strings.Cut(r.URL.Path, "/blobs/")
					http.Redirect(w, r, fmt.Sprintf("http://localhost:%s/%s?signed=%d", port, digest, signed), http.StatusTemporaryRedirect)
				default:
					return false
				}
				return true
			})
			host, _, _ := strings.Cut(ref, "/")
			login := `{"auths": {"` + host + `": {"auth": "bWU6c2VjcmV0"}}}` // me:secret
			if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(login), 0o600); err != nil {
				t.Fatal(err)
			}
			wantApp(t, ref, Options{})
			again := asked["/"+layerOf(t, 1)]
			if len(asked) != 3 || len(again) != 2 || signed != 4 {
				t.Fatalf("asked %q, signed %d", asked, signed)
			}
			_, first, _ := strings.Cut(again[0], " ")
			if r, second, _ := strings.Cut(again[1], " "); r != "bytes=10-" || second == first {
				t.Errorf("asked %q", again)
			}
		})
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "a.localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true,
		"10.0.0.1": false, "127.0.0.1.example.com": false, "localhost.example.com": false, "registry.local": false, "": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// A client that writes to a registry waits as long as the registry asks for, and as long
// as it takes bytes.
func TestPushTransport(t *testing.T) {
	ask := func(t *testing.T, method string, body io.Reader, a answer) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://registry/v2/", body)
		if err != nil {
			t.Fatal(err)
		}
		c := &calm{*newPatient(&server{answers: []answer{a}}, defaultStall, Sleep)}
		return c.RoundTrip(req)
	}
	busy := func(code int, after string) answer { return respond(code, "Retry-After: "+after, http.NoBody) }
	// slow takes a body as a slow line does.
	slow := func(req *http.Request) (*http.Response, error) {
		for {
			if _, err := req.Body.Read(make([]byte, 1)); err != nil {
				return respond(201, "", http.NoBody)(req)
			}
			time.Sleep(9 * time.Minute)
			if req.Context().Err() != nil {
				return nil, req.Context().Err()
			}
		}
	}
	tests := []struct {
		name, method string
		body         io.Reader
		answer       answer
		took         time.Duration
		want         string
	}{
		{"done", "PUT", nil, respond(201, "", http.NoBody), 0, "201"},
		{"busy", "PUT", nil, busy(429, "30"), 30 * time.Second, "429"},
		{"broken", "GET", nil, busy(503, "7"), 7 * time.Second, "503"},
		{"for too long", "GET", nil, busy(503, "9999"), maxWait, "503"},
		{"no", "PUT", nil, busy(403, "30"), 0, "403"},
		{"busy, for how long is not said", "PUT", nil, respond(429, "", http.NoBody), 0, "429"},
		{"nothing comes", "GET", nil, givenUp(fails(context.Canceled)), defaultStall, "no data for 1m0s"},
		{"it thinks", "PUT", nil, givenUp(fails(context.Canceled)), pushStall, "no data for 10m0s"},
		{"slowly", "PATCH", strings.NewReader("abc"), slow, 27 * time.Minute, "201"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				resp, err := ask(t, tt.method, tt.body, tt.answer)
				got := fmt.Sprint(err)
				if err == nil {
					got = fmt.Sprint(resp.StatusCode)
					resp.Body.Close()
				}
				if diff := cmp.Diff(tt.want, got); diff != "" || time.Since(start) != tt.took {
					t.Errorf("after %v, want %v: %s", time.Since(start), tt.took, diff)
				}
				var stalled stalledError
				if errors.As(err, &stalled) && !stalled.Temporary() {
					t.Error("it is not asked again")
				}
			})
		})
	}
}
