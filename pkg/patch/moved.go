package patch

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// naming is the last step of publishing: a manifest gets a name.
type naming struct {
	raw []byte
	mt  types.MediaType
	// of is the digest of the image that the manifest is a patch of.
	of string
	// seen is the meaning of the name when it was looked up first. It must not have
	// changed.
	seen meaning
}

// meaning is the digest that a name has; empty if there is no such name.
type meaning struct {
	digest string
	// known is set if the name could be looked up: a user who may push need not be
	// one who may pull.
	known bool
	etag  string // of the manifest, if the registry gives it one
}

func (n *naming) digest() string { return digestOf(n.raw).String() }

// moved returns a [movedError] if the name has changed since it was looked up, except to
// the manifest that it is to have, which another client may have put there.
func (n *naming) moved(now meaning) error {
	if !n.seen.known || !now.known || now.digest == n.seen.digest || now.digest == n.digest() {
		return nil
	}
	return &movedError{n.seen.digest, now.digest}
}

// movedError is the error of a name that has changed since it was looked up.
type movedError struct{ from, to string }

func (e *movedError) Error() string {
	switch {
	case e.from == "":
		return fmt.Sprintf("it was not there and has become %s meanwhile: run again", e.to)
	case e.to == "":
		return fmt.Sprintf("it was %s and has gone meanwhile: run again", e.from)
	}
	return fmt.Sprintf("it has moved from %s to %s meanwhile: run again", e.from, e.to)
}

// lookFirst is a transport that looks up a tag once more, right before a manifest is put
// under it, and puts it only if the tag has the meaning that the [naming] in the request's
// context has seen. If the registry gives the manifest an ETag, the request has it as
// If-Match (RFC 9110, 13.1.1), so that a registry that heeds it checks once more itself.
type lookFirst struct{ base http.RoundTripper }

type namingKey struct{}

// RoundTrip implements [http.RoundTripper].
func (l *lookFirst) RoundTrip(req *http.Request) (*http.Response, error) {
	n, ok := req.Context().Value(namingKey{}).(*naming)
	if !ok || req.Method != http.MethodPut || !strings.Contains(req.URL.Path, "/manifests/") {
		return l.base.RoundTrip(req)
	}
	now, busy, err := l.look(req)
	if err == nil {
		err = n.moved(now)
	}
	if err != nil || busy != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return busy, err
	}
	if now.etag != "" && n.seen.known && now.digest == n.seen.digest {
		req = req.Clone(req.Context())
		req.Header.Set("If-Match", now.etag)
	}
	return l.base.RoundTrip(req)
}

// look looks up the tag of a request. busy is an answer of a busy registry: it becomes the
// answer to the request itself, whose sender knows how often to repeat it.
func (l *lookFirst) look(put *http.Request) (now meaning, busy *http.Response, err error) {
	for _, method := range []string{http.MethodHead, http.MethodGet} { // some do not answer HEAD as they should
		resp, err := l.base.RoundTrip(asking(put, method))
		if err != nil {
			return now, nil, err
		}
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
			resp.Request = put
			return now, resp, nil
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil:
			return now, nil, err
		case resp.StatusCode == http.StatusNotFound:
			return meaning{known: true}, nil, nil
		case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
			return now, nil, nil
		case resp.StatusCode != http.StatusOK:
			continue
		}
		now.digest = digestOf(raw).String()
		if method == http.MethodHead {
			now.digest = resp.Header.Get("Docker-Content-Digest")
		}
		if _, err := v1.NewHash(now.digest); err == nil {
			now.known = true
			if etag := resp.Header.Get("Etag"); strings.HasPrefix(etag, `"`) { // a weak one is not about bytes
				now.etag = etag
			}
			return now, nil, nil
		}
	}
	return meaning{}, nil, nil
}

// asking returns a request for the manifest that another request is about to replace.
func asking(put *http.Request, method string) *http.Request {
	req := put.Clone(put.Context())
	req.Method, req.Body, req.GetBody, req.ContentLength = method, nil, nil, 0
	req.Header.Del("Content-Type")
	for _, mt := range []types.MediaType{types.OCIManifestSchema1, types.OCIImageIndex, types.DockerManifestSchema2, types.DockerManifestList} {
		req.Header.Add("Accept", string(mt))
	}
	return req
}
