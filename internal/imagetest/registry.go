package imagetest

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Server is a registry in this process, on a free port of the loopback interface. It keeps everything in memory.
type Server struct {
	Host string // host:port, the first part of a reference

	server   *http.Server
	mu       sync.Mutex
	requests map[string]int
}

// Registry starts a registry. The caller must Close it.
func Registry() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a registry: %w", err)
	}
	quiet := log.New(io.Discard, "", 0)
	handler := registry.New(registry.Logger(quiet))
	s := &Server{Host: listener.Addr().String(), requests: map[string]int{}}
	s.server = &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count(r)
		handler.ServeHTTP(w, r)
	})}
	go s.server.Serve(listener)
	return s, nil
}

func (s *Server) count(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[r.Method+" "+r.URL.Path]++
}

// Requests returns the number of requests for each "METHOD /path".
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// Push uploads an image as repository:tag and returns its reference with the host.
func (s *Server) Push(repoTag string, img v1.Image) (string, error) {
	ref, err := name.ParseReference(s.Host + "/" + repoTag)
	if err != nil {
		return "", fmt.Errorf("pushing %q: %w", repoTag, err)
	}
	if err := remote.Write(ref, img); err != nil {
		return "", fmt.Errorf("pushing %q: %w", repoTag, err)
	}
	return ref.Name(), nil
}

// Close stops the registry.
func (s *Server) Close() error { return s.server.Close() }

// PushIndex uploads an index and all its images as repository:tag.
func (s *Server) PushIndex(repoTag string, index v1.ImageIndex) error {
	ref, err := name.ParseReference(s.Host + "/" + repoTag)
	if err != nil {
		return fmt.Errorf("pushing %s: %w", repoTag, err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		return fmt.Errorf("pushing %s: %w", repoTag, err)
	}
	return nil
}
