package layers

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

// openDaemon finds an image of a Docker daemon, or of Podman's service, which
// speaks the same protocol. The daemon exports the image as one stream.
func (img *Image) openDaemon(ctx context.Context, ref string) error {
	c, err := Daemon()
	if err != nil {
		return fmt.Errorf("DOCKER_HOST: %w: write it like unix:///var/run/docker.sock", err)
	}
	img.close = c.Close
	stall := img.opts.stall()
	found, err := inspect(ctx, c, ref, stall)
	if err != nil {
		return daemonError(err, c.DaemonHost())
	}
	if found.ID != "" {
		img.id = "daemon's " + found.ID
	}
	img.stream = func(ctx context.Context, img *Image) ([]*Layer, error) {
		rc, err := save(ctx, c, ref, saveStalls*stall)
		if err != nil {
			return nil, daemonError(err, c.DaemonHost())
		}
		defer rc.Close()
		list, err := img.indexStream(ctx, img.meter(rc, 0), "")
		if stalled := new(stalledError); errors.As(err, stalled) {
			err = daemonError(*stalled, c.DaemonHost())
		}
		if again, ierr := inspect(ctx, c, ref, stall); ierr != nil || again.ID != found.ID {
			img.id = "" // the name has moved on meanwhile
		}
		return list, err
	}
	return nil
}

// inspect asks a daemon what it has under a name, and gives up when no answer comes for
// so long.
func inspect(ctx context.Context, c *client.Client, ref string, stall time.Duration) (client.ImageInspectResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stall, stalledError(stall))
	defer cancel()
	found, err := c.ImageInspect(ctx, ref)
	if err != nil && errors.Is(context.Cause(ctx), stalledError(stall)) {
		err = stalledError(stall)
	}
	return found, err
}

// saveStalls is how many times as long as a registry a daemon may be silent while it
// saves an image: Docker puts all of it together on its disk before it sends a byte.
const saveStalls = 30

// save asks a daemon for an image, and gives up when nothing comes for so long.
func save(ctx context.Context, c *client.Client, ref string, stall time.Duration) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
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
		return nil, err
	}
	return &patientBody{ReadCloser: rc, timer: timer, stall: stall, cancel: cancel}, nil
}

// boundAnswer bounds documents and error texts of a daemon: the client reads them
// to their end.
func boundAnswer(resp *http.Response) {
	switch {
	case resp.StatusCode >= 300:
		resp.Body = &cutBody{resp.Body, maxComplaint}
	case resp.Request != nil && strings.HasSuffix(resp.Request.URL.Path, "/json"):
		resp.Body = &boundedBody{resp.Body, maxAnswer, maxCommas}
	}
}

// daemonHost is DOCKER_HOST, else the first socket that is there.
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

func daemonError(err error, host string) error {
	text := err.Error()
	var stalled stalledError
	switch {
	case errors.As(err, &stalled):
		return fmt.Errorf("the daemon at %s does not go on (%w): look at its log, or start it again", host, stalled)
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
