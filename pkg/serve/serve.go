// Package serve shows saved reports in a browser of this machine: an overview of those in files
// and directories, and each as the page that package report makes of it. It reads the files anew
// for each request, changes nothing, opens no file that it does not list, and answers requests
// for a loopback name and with the server's key alone. It scans no images, and starts no browser.
package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/imgcheck/imgcheck/pkg/report"
)

// Limits of the server.
const (
	maxConnections = 64
	maxHeader      = 16 << 10 // bytes
	headerTime     = 10 * time.Second
	// maxRead limits the bytes of JSON reports that an overview reads.
	maxRead = 512 << 20
	// maxPage limits a saved page of HTML, in bytes. One of forty images has 2 MB.
	maxPage = 64 << 20
)

// Server answers requests with pages of reports.
type Server struct {
	places  []place
	options report.Options
	// key is the first element of each path: other users of the machine reach its ports too, and
	// do not know the key.
	key string

	// One page is made at a time: a large report takes several times its size in memory.
	making sync.Mutex
}

// New returns a server of reports in files and directories. It is an error if one of the names
// cannot be shown: a file that is no report, or a directory that has none.
func New(names []string, o report.Options) (*Server, error) {
	s := &Server{options: o, key: rand.Text()}
	for _, name := range names {
		p, err := placeOf(name)
		if err != nil {
			return nil, err
		}
		s.places = append(s.places, p)
	}
	for at, p := range s.places {
		if err := p.check(at); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// URL returns the address to open first of a server that listens at addr: that of the report if
// there is one alone, otherwise that of the overview. It lets its reader see all reports.
func (s *Server) URL(addr net.Addr) string {
	return "http://" + addr.String() + "/" + s.key + "/" + s.start()
}

// start returns the path below the key to open first.
func (s *Server) start() string {
	if len(s.places) == 1 && !s.places[0].dir {
		return s.list()[0].link()
	}
	return ""
}

// list returns the files of all places.
func (s *Server) list() []file {
	var all []file
	for at, p := range s.places {
		for _, f := range p.files(at) {
			if f.name = p.name; p.dir {
				f.name = f.rel
				if len(s.places) > 1 {
					f.name = strings.TrimSuffix(p.name, "/") + "/" + f.rel
				}
			}
			all = append(all, f)
		}
	}
	return all
}

// Run answers connections until the context is done.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: http.StripPrefix("/"+s.key, s), ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, MaxHeaderBytes: maxHeader}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	err := server.Serve(netutil.LimitListener(l, maxConnections))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// The policy of pages that were saved as HTML, by any version of imgcheck or by somebody else:
// they have their own style, and run nothing.
const savedPolicy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request whose path is without the key.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", report.PagePolicy()+"; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	// A page of the web may give its own name the address of this machine, to read
	// the answers (DNS rebinding): its requests have that name.
	if !loopback(r.Host) {
		http.Error(w, "imgcheck serve answers at 127.0.0.1 and localhost alone", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "imgcheck serve only shows", http.StatusMethodNotAllowed)
		return
	}
	b, status, err := s.answer(r.URL.Path, h)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	w.WriteHeader(status)
	w.Write(b) // an error is the client's; one that does not read its answer keeps no other from theirs
}

// answer makes the page at a path below the key, or a redirect to it, and sets its headers.
func (s *Server) answer(path string, h http.Header) (page []byte, status int, err error) {
	s.making.Lock()
	defer s.making.Unlock()
	if start := s.start(); path == "/" && start != "" {
		h.Set("Location", start) // not by http.Redirect, which knows no key before the path
		return nil, http.StatusFound, nil
	}
	var b bytes.Buffer
	if path == "/" {
		if err := s.overview(&b); err != nil {
			return nil, http.StatusInternalServerError, err
		}
	} else {
		f := s.find(path)
		if f == nil {
			return nil, http.StatusNotFound, errors.New("no such report")
		}
		if err := f.page(&b, s.options); err != nil {
			return nil, http.StatusInternalServerError, fmt.Errorf("%s: %w", f.name, err)
		}
		if f.isPage() {
			h.Set("Content-Security-Policy", savedPolicy)
		}
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", fmt.Sprint(b.Len()))
	return b.Bytes(), http.StatusOK, nil
}

// loopback reports whether the Host of a request names this machine alone. Its port may be
// another one: that of a tunnel.
func loopback(host string) bool {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host {
		return false
	}
	name := u.Hostname()
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.IsLoopback()
	}
	return strings.EqualFold(name, "localhost")
}

// find returns the listed file with a path, or nil.
func (s *Server) find(path string) *file {
	for _, f := range s.list() {
		if f.path() == path {
			return &f
		}
	}
	return nil
}

// overview writes the overview of all files.
func (s *Server) overview(w io.Writer) error {
	var all []report.Saved
	left := int64(maxRead)
	for _, f := range s.list() {
		saved := report.Saved{Name: f.name}
		switch {
		case f.wrong != nil:
			saved.Says = f.wrong.Error()
		case f.isPage():
			b, err := f.saved(false)
			if err != nil {
				saved.Says = err.Error()
				break
			}
			saved.Link, saved.Says = f.link(), title(b)
		default:
			images, size, err := f.images(left)
			if left -= size; errors.Is(err, errTooMuch) {
				saved.Link = f.link()
			}
			if err != nil {
				saved.Says = err.Error()
				break
			}
			saved.Link, saved.Images = f.link(), thinned(images)
			if len(images) == 0 {
				saved.Says = "a report of no images"
			}
		}
		all = append(all, saved)
	}
	return report.OverviewHTML(w, all, s.options)
}

// thinned returns images without those parts of their reports that an overview does not show.
func thinned(images []report.Scanned) []report.Scanned {
	for i := range images {
		if d := images[i].Report; d != nil {
			d.Copies, d.Processes, d.GPUs, d.Sizes, d.Inventory, d.Plan = nil, nil, nil, nil, nil, nil
		}
	}
	return images
}

// title returns the title of a page.
func title(page []byte) string {
	_, after, _ := strings.Cut(string(page[:min(len(page), maxHead)]), "<title>")
	text, _, _ := strings.Cut(after, "</title>")
	return html.UnescapeString(text)
}
