package layers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"
)

// openDaemon finds an image of a Docker daemon, or of Podman's service, which
// speaks the same protocol. The daemon exports the image as one stream.
func (img *Image) openDaemon(ctx context.Context, ref string) error {
	c, err := client.New(client.FromEnv, client.WithHost(daemonHost()))
	if err != nil {
		return fmt.Errorf("DOCKER_HOST: %w: write it like unix:///var/run/docker.sock", err)
	}
	img.close = c.Close
	found, err := c.ImageInspect(ctx, ref)
	if err != nil {
		return daemonError(err, c.DaemonHost())
	}
	if found.ID != "" {
		img.id = "daemon's " + found.ID
	}
	img.stream = func(ctx context.Context, img *Image) ([]*Layer, error) {
		rc, err := c.ImageSave(ctx, []string{ref})
		if err != nil {
			return nil, daemonError(err, c.DaemonHost())
		}
		defer rc.Close()
		list, err := img.indexStream(ctx, img.meter(rc, 0), "")
		if again, ierr := c.ImageInspect(ctx, ref); ierr != nil || again.ID != found.ID {
			img.id = "" // the name has moved on meanwhile
		}
		return list, err
	}
	return nil
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
	switch {
	case client.IsErrConnectionFailed(err), strings.Contains(text, "no such file or directory"), strings.Contains(text, "connection refused"):
		return fmt.Errorf("no daemon answers at %s: start Docker or Podman's service, or set DOCKER_HOST", host)
	case strings.Contains(text, "permission denied"):
		return fmt.Errorf("%s may not be opened: join the docker group, or run as root", host)
	case strings.Contains(strings.ToLower(text), "no such image"), strings.Contains(text, "not found"):
		return fmt.Errorf("the daemon has no such image: pull or build it, or leave `docker:` out to read it from its registry")
	}
	return fmt.Errorf("the daemon at %s: %w", host, oneLine{err})
}
