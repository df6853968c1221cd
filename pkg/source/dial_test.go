package source

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// resolve lets the names of the test lead to an address, as a server of names would.
func resolve(t *testing.T, to map[string]netip.Addr) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Authoritative, m.Additionals = true, true, nil
			if addr, ok := to[strings.TrimSuffix(q.Name.String(), ".")]; ok && q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: addr.As4()}}}
			}
			if out, err := m.Pack(); err == nil {
				conn.WriteTo(out, from)
			}
		}
	}()
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = was; conn.Close() })
}

// A redirect to a name of a metadata service is not followed, like one to its address.
func TestRedirectToName(t *testing.T) {
	resolve(t, map[string]netip.Addr{"meta.test": netip.MustParseAddr("169.254.169.254")})
	for _, part := range []string{"/manifests/", "/blobs/"} {
		ref := handled(t, false, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
				return false
			}
			http.Redirect(w, r, "http://meta.test"+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		})
		_, err := Open(t.Context(), ref, Options{})
		host, _, _ := strings.Cut(ref, "/")
		want := "the redirect of " + host + " is not followed: meta.test has the address 169.254.169.254 of an inner network: ask whoever runs it"
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", part, err, want)
		}
	}
	// Nor is it asked when the user names it.
	if _, err := Open(t.Context(), "meta.test/app:1", Options{Insecure: true}); err == nil || !strings.Contains(err.Error(), "meta.test is not asked: meta.test has the address 169.254.169.254") {
		t.Errorf("%v", err)
	}
}

// The addresses to which requests may go, by where they come from.
func TestGuard(t *testing.T) {
	g := &guard{peers: map[string]netip.Addr{}}
	for name, addr := range map[string]string{"public.test:443": "203.0.113.7", "company.test:443": "10.1.2.3", "here.test:443": "127.0.0.1"} {
		g.peers[name] = netip.MustParseAddr(addr)
	}
	for _, tt := range []struct {
		from, addr string
		ok         bool
	}{
		{"", "203.0.113.9", true},
		{"", "10.0.0.1", true},
		{"", "127.0.0.1", true},
		{"", "169.254.169.254", false},
		{"", "::ffff:169.254.169.254", false},
		{"", "64:ff9b::a9fe:a9fe", false},
		{"", "fe80::1%eth0", false},
		{"", "fd00:ec2::254", false},
		{"", "100.100.100.200", false},
		{"", "168.63.129.16", false},
		{"public.test:443", "203.0.113.9", true},
		{"public.test:443", "10.0.0.1", false},
		{"public.test:443", "::ffff:10.0.0.1", false},
		{"public.test:443", "64:ff9b::0a00:0001", false},
		{"public.test:443", "100.64.0.1", false},
		{"public.test:443", "fd12::1", false},
		{"public.test:443", "127.0.0.1", false},
		{"public.test:443", "0.0.0.0", false},
		{"public.test:443", "::1", false},
		{"company.test:443", "10.0.0.1", true},
		{"company.test:443", "127.0.0.1", false},
		{"here.test:443", "10.0.0.1", true},
		{"here.test:443", "127.0.0.1", true},
		{"here.test:443", "169.254.169.254", false},
	} {
		ctx := t.Context()
		if tt.from != "" {
			ctx = context.WithValue(ctx, hopKey{}, hop{tt.from, "to.test:443"})
		}
		err := g.allowed(ctx, "to.test:443", netip.MustParseAddr(tt.addr))
		var inner *innerError
		if (err == nil) != tt.ok || err != nil && !errors.As(err, &inner) {
			t.Errorf("from %q to %s: %v", tt.from, tt.addr, err)
		}
	}
	// The address of a proxy is not that of the redirect.
	ctx := context.WithValue(t.Context(), hopKey{}, hop{"public.test:443", "to.test:443"})
	if err := g.allowed(ctx, "proxy.test:3128", netip.MustParseAddr("10.0.0.1")); err != nil {
		t.Error(err)
	}
}
