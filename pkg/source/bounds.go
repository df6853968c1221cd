package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/internal/plain"
)

const (
	// maxAnswer bounds an answer of a registry, except for blobs, in bytes.
	// Registries take manifests of 4 MiB (distribution-spec, "Pushing Manifests").
	maxAnswer    = 8 << 20
	maxComplaint = 32 << 10 // bytes of an error; the rest is not read
	maxRedirects = 10       // as in net/http

	// maxCommas bounds the elements of a manifest or config: a parser makes a
	// descriptor of 136 bytes of each, and of 8 MiB of "{}," more than a gigabyte.
	maxCommas = 1 << 18

	// maxVariable and maxEnvironment are Linux's limits of execve for a string, with its NUL, and
	// for all: MAX_ARG_STRLEN with pages of 4 KiB, and three quarters of _STK_LIM (fs/exec.c).
	// maxVariables bounds the number: each process of a start has a copy.
	maxVariable    = 128 << 10
	maxEnvironment = 6 << 20
	maxVariables   = 4096
)

var errRedirects = errors.New("it redirects without end")

// plainError names a host that would get a login by plain HTTP.
type plainError string

func (e plainError) Error() string { return "plain HTTP to " + string(e) }

// elsewhereError says where a registry redirects to, and why that is not followed.
type elsewhereError struct{ to, why string }

func (e *elsewhereError) Error() string {
	return "it redirects to " + plain.Name(e.to) + ", " + e.why
}

// bounded is a transport that limits what a registry can make us do.
// go-containerregistry reads manifests of 100 MiB, reads the answer to its ping to the
// end, follows redirects for ever and from TLS to plain HTTP, and sends a login by
// plain HTTP to a server at an address of an inner network that speaks nothing else.
type bounded struct {
	base     http.RoundTripper
	insecure bool // allows plain HTTP
}

func newBounded(insecure bool) bounded { return bounded{Transport(insecure), insecure} }

// Transport returns the HTTP transport to a server, which checks the addresses that it dials.
// insecure leaves certificates unverified.
func Transport(insecure bool) *http.Transport {
	rt := remote.DefaultTransport.(*http.Transport).Clone()
	rt.DialContext = (&guard{peers: map[string]netip.Addr{}}).dialContext
	if insecure {
		rt.TLSClientConfig.InsecureSkipVerify = true
	}
	return rt
}

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	first, n := req, 0
	for ; first.Response != nil && first.Response.Request != nil; n++ { // back through the redirects
		first = first.Response.Request
	}
	switch {
	case n >= maxRedirects:
		return nil, errRedirects
	case n == 0 && req.URL.Scheme == "http" && !b.insecure && !IsLoopback(req.URL.Hostname()):
		return nil, plainError(req.URL.Host)
	case n > 0:
		if err := b.follow(first, req); err != nil {
			return nil, err
		}
	}
	var peer atomic.Pointer[netip.Addr] // the server's address, or its proxy's
	req = redirected(req)
	resp, err := b.base.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		if a, ok := c.Conn.RemoteAddr().(*net.TCPAddr); ok {
			addr := a.AddrPort().Addr().Unmap()
			peer.Store(&addr)
		}
	}})))
	if err == nil {
		next, err := inward(req, resp, peer.Load())
		if err != nil || next != nil {
			resp.Body.Close()
		}
		switch {
		case err != nil:
			return nil, err
		case next != nil:
			return b.RoundTrip(next)
		}
	}
	switch {
	case err != nil:
	case resp.StatusCode >= 300:
		resp.Body = &cutBody{resp.Body, maxComplaint}
	case !isBlob(first):
		resp.Body = &boundedBody{resp.Body, maxAnswer, maxCommas}
	}
	return resp, err
}

// follow returns why a request does not follow a redirect. Blobs may lie anywhere:
// their digests are known, and no login goes there. A manifest that a tag names must
// come by TLS. The form with a login is for the token server alone.
func (b bounded) follow(first, req *http.Request) error {
	switch form := first.Header.Get("Content-Type") == "application/x-www-form-urlencoded"; {
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return &elsewhereError{req.URL.Scheme + ":", "which is not the address of a registry"}
	case first.URL.Scheme == "https" && req.URL.Scheme == "http" && !b.insecure && !strings.Contains(first.URL.Path, "/blobs/"):
		return &elsewhereError{"http://" + req.URL.Host, "which anybody on the way can change"}
	case form && first.Method == http.MethodPost && req.Method == http.MethodPost && req.URL.Host != first.URL.Host:
		return &elsewhereError{req.URL.Host, "which must not get the login"}
	}
	return nil
}

// metadata are the addresses at which clouds give a machine's secrets to any program on
// it, besides the link-local ones.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
	netip.MustParseAddr("168.63.129.16"),   // https://learn.microsoft.com/en-us/azure/virtual-network/what-is-ip-address-168-63-129-16
	netip.MustParseAddr("100.100.100.200"), // https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
}

// inward returns the request that follows an answer to an address of an inner network,
// or why it is not followed. Only a server in such a network may redirect there, as a
// company's registry does that keeps its blobs in a store beside it. No server may redirect
// to a cloud's metadata service. For another answer both results are nil.
// go-containerregistry refuses all of these redirects, and so does not get to see them.
func inward(req *http.Request, resp *http.Response, peer *netip.Addr) (*http.Request, error) {
	if resp.StatusCode < 300 || resp.StatusCode >= 400 || resp.StatusCode == http.StatusNotModified {
		return nil, nil
	}
	to, err := req.URL.Parse(resp.Header.Get("Location"))
	if err != nil || to.Hostname() == req.URL.Hostname() {
		return nil, nil
	}
	addr, err := netip.ParseAddr(to.Hostname())
	addr = plainAddr(addr)
	local := peer != nil && peer.IsLoopback()
	inner, may := true, false
	switch {
	case err != nil:
		inner, may = IsLoopback(to.Hostname()), local
	case isMetadata(addr):
	case addr.IsLoopback(), addr.IsUnspecified():
		may = local
	case isPrivate(addr):
		may = local || peer != nil && isPrivate(*peer)
	default:
		inner = false
	}
	switch {
	case inner && !may:
		return nil, &elsewhereError{to.Hostname(), "an address of an inner network"}
	case !inner, err != nil, req.Method != http.MethodGet && req.Method != http.MethodHead:
		return nil, nil // for the client to follow, or not
	}
	next := req.Clone(req.Context())
	next.URL, next.Host, next.Response = to, "", resp
	for _, secret := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
		next.Header.Del(secret)
	}
	return next, nil
}

// IsLoopback reports whether a host name is one of this machine.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.IsLoopback()
}

// isBlob reports whether a request is for a blob, whose size the manifest bounds.
func isBlob(req *http.Request) bool {
	return req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/blobs/")
}

// boundedBody is the body of a document. It bounds its bytes and elements.
type boundedBody struct {
	io.ReadCloser
	left, commas int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("its answer is larger than the %d bytes that are read", maxAnswer)
	}
	if b.commas -= bytes.Count(p[:n], []byte(",")); b.commas < 0 {
		return 0, errElements
	}
	return n, err
}

var errElements = fmt.Errorf("it has more than the %d elements that are read of a manifest or config", maxCommas)

// checkElements returns an error for a document that would take far more memory when it
// is parsed.
func checkElements(doc []byte) error {
	if bytes.Count(doc, []byte(",")) > maxCommas {
		return errElements
	}
	return nil
}

// cutBody is the beginning of a text for people.
type cutBody struct {
	io.ReadCloser
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
