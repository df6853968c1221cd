package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

// Daemon returns a client of the Docker daemon or Podman service that DOCKER_HOST
// names, else of the first one whose socket exists. The client bounds answers about
// images.
func Daemon() (*client.Client, error) {
	c, err := client.New(client.FromEnv, client.WithHost(daemonHost()), client.WithResponseHook(boundAnswer))
	if err != nil {
		return nil, fmt.Errorf("DOCKER_HOST: %w: write it like unix:///var/run/docker.sock", err)
	}
	return c, nil
}

// openDaemon opens an image of a Docker daemon, or of Podman's service, which speaks
// the same protocol. The daemon exports the image as one stream.
func openDaemon(ctx context.Context, ref string, o Options) (*Image, error) {
	c, err := Daemon()
	if err != nil {
		return nil, err
	}
	found, err := inspect(ctx, c, ref, o.stall())
	if err != nil {
		c.Close()
		return nil, DaemonError(c, err)
	}
	img := &Image{close: c.Close}
	if found.ID != "" {
		img.id = "daemon's " + found.ID
	}
	img.stream = &stream{
		open: func(ctx context.Context) (io.ReadCloser, error) { return save(ctx, c, ref, saveStall(o.stall())) },
		read: func(ctx context.Context) {
			if again, err := inspect(ctx, c, ref, o.stall()); err != nil || again.ID != found.ID {
				img.id = "" // the name means another image by now
			}
		},
	}
	return img, nil
}

// Save opens an image of a daemon as docker save writes it.
func Save(ctx context.Context, c *client.Client, ref string) (io.ReadCloser, error) {
	if _, err := inspect(ctx, c, ref, defaultStall); err != nil {
		return nil, DaemonError(c, err)
	}
	return save(ctx, c, ref, saveStall(defaultStall))
}

// inspect asks a daemon for an image, and gives up if no answer comes for so long.
func inspect(ctx context.Context, c *client.Client, ref string, stall time.Duration) (client.ImageInspectResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stall, stalledError(stall))
	defer cancel()
	found, err := c.ImageInspect(ctx, ref)
	if err != nil && errors.Is(context.Cause(ctx), stalledError(stall)) {
		err = stalledError(stall)
	}
	return found, err
}

// saveStall returns how long a daemon may be silent while it saves an image, for the time
// that a registry may be: Docker writes all of the image to its disk before it sends a byte.
// It is a variable so that tests can shorten this wait and no other.
var saveStall = func(stall time.Duration) time.Duration { return 30 * stall }

// save makes a daemon save an image, and gives up after a time without data.
func save(ctx context.Context, c *client.Client, ref string, stall time.Duration) (io.ReadCloser, error) {
	asked := ctx
	ctx, cancel := context.WithCancel(asked)
	timer := time.AfterFunc(stall, cancel)
	rc, err := c.ImageSave(ctx, []string{ref})
	if !timer.Stop() {
		if err == nil {
			rc.Close()
		}
		err = stalledError(stall)
	}
	if err != nil {
		cancel()
		return nil, DaemonError(c, err)
	}
	return &savedStream{newBody(asked, rc, "the daemon", newPatient(nil, stall, nil), timer, cancel), c}, nil
}

// savedStream is an image that a daemon sends.
type savedStream struct {
	*patientBody
	c *client.Client
}

// Read implements [io.Reader].
func (s *savedStream) Read(p []byte) (int, error) {
	n, err := s.patientBody.Read(p)
	if errors.As(err, new(stalledError)) || errors.As(err, new(slowError)) {
		err = &fetchError{DaemonError(s.c, err), err}
	}
	return n, err
}

// boundAnswer bounds documents and error texts of a daemon, which the client reads to
// their end.
func boundAnswer(resp *http.Response) {
	switch {
	case resp.StatusCode >= 300:
		resp.Body = &cutBody{resp.Body, maxComplaint}
	case resp.Request != nil && strings.HasSuffix(resp.Request.URL.Path, "/json"):
		resp.Body = &boundedBody{resp.Body, maxAnswer, maxCommas}
	}
}

// daemonHost returns DOCKER_HOST, else the first socket that exists.
func daemonHost() string {
	if h := os.Getenv(client.EnvOverrideHost); h != "" {
		return h
	}
	sockets := []string{"/var/run/docker.sock", "/run/podman/podman.sock"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		sockets = append(sockets, filepath.Join(dir, "podman", "podman.sock"), filepath.Join(dir, "docker.sock"))
	}
	for _, s := range sockets {
		if _, err := os.Stat(s); err == nil {
			return "unix://" + s
		}
	}
	return client.DefaultDockerHost
}

// DaemonError explains in one line what went wrong at a daemon, and what to do.
func DaemonError(c *client.Client, err error) error {
	host, text := c.DaemonHost(), err.Error()
	var stalled stalledError
	var slow slowError
	switch {
	case errors.As(err, &stalled):
		return fmt.Errorf("the daemon at %s stopped sending: %w: look at its log, or start it again", host, stalled)
	case errors.As(err, &slow):
		return fmt.Errorf("the daemon at %s sends too slowly: %w: look at its log, or start it again", host, slow)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case client.IsErrConnectionFailed(err), strings.Contains(text, "no such file or directory"), strings.Contains(text, "connection refused"):
		return fmt.Errorf("no daemon answers at %s: start Docker or Podman's service, or set DOCKER_HOST", host)
	case strings.Contains(text, "permission denied"):
		return fmt.Errorf("%s may not be opened: join the docker group, or run as root", host)
	case strings.Contains(strings.ToLower(text), "no such image"), strings.Contains(text, "not found"):
		return fmt.Errorf("the daemon has no such image: pull or build it, or leave `docker:` out to read it from its registry")
	}
	return fmt.Errorf("the daemon at %s: %w", host, brief(err))
}
