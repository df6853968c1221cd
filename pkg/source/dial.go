package source

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// The address of a server is checked when it is dialled, after its name was resolved: a
// redirect may lead to a name of any server for the address of a cloud's metadata service.
// Behind a proxy only the proxy's address is known here.

// guard dials, and refuses addresses to which no request may go.
type guard struct {
	mu    sync.Mutex
	peers map[string]netip.Addr // of HOST:PORT, those that were dialled
}

// maxPeers bounds the hosts that a guard remembers: a registry may redirect to many.
const maxPeers = 1 << 12

// hop is a redirect on its way: from where it came, and to where it leads, as HOST:PORT.
type hop struct{ from, to string }

type hopKey struct{}

// redirected returns a request with its redirect, for the guard. One that follows none stays
// as it is.
func redirected(req *http.Request) *http.Request {
	if req.Response == nil || req.Response.Request == nil {
		return req
	}
	h := hop{portOf(req.Response.Request), portOf(req)}
	return req.WithContext(context.WithValue(req.Context(), hopKey{}, h))
}

// nat64 are the addresses by which hosts of IPv6 alone reach those of IPv4 (RFC 6052, 2.1),
// and shared those between a provider and its customers (RFC 6598), which some clouds and
// private networks use.
var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	shared = netip.MustParsePrefix("100.64.0.0/10")
)

// plainAddr returns the IPv4 address that an address of IPv6 stands for, else the address.
func plainAddr(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if b := addr.AsSlice(); nat64.Contains(addr) {
		addr, _ = netip.AddrFromSlice(b[12:])
	}
	return addr
}

// isMetadata reports whether a cloud gives a machine's secrets at an address.
func isMetadata(addr netip.Addr) bool {
	return addr.IsLinkLocalUnicast() || slices.Contains(metadata, addr)
}

// isPrivate reports whether an address is one of an inner network.
func isPrivate(addr netip.Addr) bool { return addr.IsPrivate() || shared.Contains(addr) }

// portOf returns the HOST:PORT of a request's server.
func portOf(req *http.Request) string {
	port := req.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[req.URL.Scheme]
	}
	return net.JoinHostPort(req.URL.Hostname(), port)
}

// allowed returns an error if a connection for a request may not go to an address.
func (g *guard) allowed(ctx context.Context, name string, addr netip.Addr) error {
	addr = plainAddr(addr)
	if isMetadata(addr) {
		return &innerError{name, addr}
	}
	h, ok := ctx.Value(hopKey{}).(hop)
	if !ok || h.to != name { // the user has named it, or it is the proxy
		return nil
	}
	g.mu.Lock()
	from, known := g.peers[h.from]
	g.mu.Unlock()
	switch {
	case !known: // behind a proxy
		return nil
	case addr.IsLoopback(), addr.IsUnspecified():
		known = from.IsLoopback()
	case isPrivate(addr):
		known = from.IsLoopback() || isPrivate(from)
	}
	if !known {
		return &innerError{name, addr}
	}
	return nil
}

// innerError is the error of a server at an address of an inner network to which a request
// may not go.
type innerError struct {
	name string // HOST:PORT
	addr netip.Addr
}

func (e *innerError) Error() string {
	host, _, err := net.SplitHostPort(e.name)
	if err != nil {
		host = e.name
	}
	if host == e.addr.String() {
		return host + " is an address of an inner network"
	}
	return host + " has the address " + e.addr.String() + " of an inner network"
}

// to reports whether the server is the one that a host names, with a port or without.
func (e *innerError) to(host string) bool {
	bare, _, err := net.SplitHostPort(e.name)
	return e.name == host || err == nil && bare == host
}

// dialContext is the DialContext of a transport.
func (g *guard) dialContext(ctx context.Context, network, name string) (net.Conn, error) {
	d := net.Dialer{
		Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, // as in remote.DefaultTransport
		ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return g.allowed(ctx, name, at.Addr())
		},
	}
	conn, err := d.DialContext(ctx, network, name)
	if err != nil {
		return nil, err
	}
	if at, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		g.mu.Lock()
		if len(g.peers) < maxPeers {
			g.peers[name] = at.AddrPort().Addr().Unmap()
		}
		g.mu.Unlock()
	}
	return conn, nil
}
