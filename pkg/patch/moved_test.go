package patch

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// heeding is a registry that gives manifests an ETag, and puts one under a tag only
// when If-Match is what the tag has (RFC 9110, 13.1.1). No known registry does.
type heeding struct{ http.Handler }

func (h heeding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.URL.Path, "/manifests/") {
		h.Handler.ServeHTTP(w, r)
		return
	}
	look := httptest.NewRecorder()
	h.Handler.ServeHTTP(look, httptest.NewRequest(http.MethodHead, r.URL.Path, nil))
	etag := fmt.Sprintf("%q", look.Header().Get("Docker-Content-Digest"))
	if want := r.Header.Get("If-Match"); r.Method == http.MethodPut && want != "" && want != etag {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	if r.Method != http.MethodPut && look.Code == http.StatusOK {
		w.Header().Set("Etag", etag)
	}
	h.Handler.ServeHTTP(w, r)
}

// move puts a manifest under a tag, past everybody who counts or interferes.
func (s *server) move(t *testing.T, repoTag string, raw []byte, mt string) {
	t.Helper()
	repo, tag, _ := strings.Cut(repoTag, ":")
	r := httptest.NewRequest(http.MethodPut, "http://"+s.host+"/v2/"+repo+"/manifests/"+tag, bytes.NewReader(raw))
	r.RequestURI = ""
	r.Header.Set("Content-Type", mt)
	w := httptest.NewRecorder()
	s.registry.ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		t.Errorf("moving %s: %d %s", repoTag, w.Code, w.Body)
	}
}

// A tag that another client moves before any request of a publication stays where it was
// moved to, with an error. A registry that ignores If-Match leaves the time between the
// last look and the PUT: docs/patch.md names it.
func TestTagMoves(t *testing.T) {
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	kinds := map[string]func(t *testing.T) *server{
		"go-containerregistry": func(t *testing.T) *server { return newServer(t) },
		"distribution":         func(t *testing.T) *server { return distribution(t) },
		"heeds If-Match":       func(t *testing.T) *server { return serve(t, heeding{registry.New(quiet)}) },
	}
	for kind, start := range kinds {
		for _, form := range []string{"in place", "over another", "new", "undo"} {
			t.Run(kind+"/"+form, func(t *testing.T) {
				s := start(t)
				other := imagetest.V1(t, "-- 0/f --\nnew\n")
				s.push(t, "app:other", other)
				raw, err := other.RawManifest()
				if err != nil {
					t.Fatal(err)
				}
				mt, err := other.MediaType()
				if err != nil {
					t.Fatal(err)
				}
				moved := digestOf(raw).String()
				windows, first := 0, 0
				if form == "over another" || form == "new" {
					first = 1 // by the first one Publish learns what it is to replace
				}
				for at := first; ; at++ {
					to := fmt.Sprintf("app:t%d", at)
					ref := s.push(t, "app:1", imagetest.V1(t, app))
					switch form {
					case "in place":
						ref = s.push(t, to, imagetest.V1(t, app))
					case "over another":
						s.push(t, to, imagetest.V1(t, "-- 0/f --\nold\n"))
					}
					b := open(t, ref, quick())
					p := patchAll(t, b, change())
					want := p[0].Digest
					if form == "undo" {
						if _, err := Publish(t.Context(), b, p, s.host+"/"+to, quick()); err != nil {
							t.Fatal(err)
						}
						want = b.Digest
					}
					when := ""
					s.reset(func(n int, _ http.ResponseWriter, r *http.Request) bool {
						if n == at {
							when = r.Method + " " + r.URL.Path
							s.move(t, to, raw, string(mt))
						}
						return false
					})
					if form == "undo" {
						_, err = Undo(t.Context(), s.host+"/"+to, quick())
					} else {
						_, err = Publish(t.Context(), b, p, s.host+"/"+to, quick())
					}
					s.reset(nil)
					now := s.digest(t, to)
					put := strings.HasPrefix(when, "PUT") && strings.HasSuffix(when, "/manifests/"+strings.TrimPrefix(to, "app:"))
					switch {
					case when == "":
						if err != nil || now != want {
							t.Fatalf("nobody has moved it: %v, it has %s", err, now)
						}
						if (windows > 0) != (kind != "heeds If-Match" || form == "new") {
							t.Errorf("the tag was overwritten in %d windows", windows)
						}
						return
					case err == nil && put && now == want:
						windows++
					case err == nil || now != moved:
						t.Errorf("moved before %s (request %d): error %v, it has %s", when, at, err, now)
					}
				}
			})
		}
	}
}
