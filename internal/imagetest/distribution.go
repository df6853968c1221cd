package imagetest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Distribution starts Debian's docker-registry, the registry that most people run
// (https://github.com/distribution/distribution), with its data in dir. It appends
// more, which is YAML, to the configuration, and returns the registry's host:port
// and a function that ends it.
func Distribution(dir, more string) (host string, end func(), err error) {
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		return "", nil, errors.New("docker-registry is not here: install Debian's package docker-registry")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("starting docker-registry: %w", err)
	}
	host = l.Addr().String()
	l.Close()
	config := filepath.Join(dir, "config.yml")
	body := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s/data}}\nhttp: {addr: '%s', relativeurls: true}\n%s", dir, host, more)
	if err := os.WriteFile(config, []byte(body), 0o600); err != nil {
		return "", nil, fmt.Errorf("starting docker-registry: %w", err)
	}
	cmd := exec.Command(program, "serve", config)
	// REGISTRY_AUTH_FILE is a variable of Podman; docker-registry would read it as its own auth.file.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "REGISTRY_") })
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("starting docker-registry: %w", err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	end = func() { cmd.Process.Kill(); <-ended }
	for {
		if c, err := net.Dial("tcp", host); err == nil {
			c.Close()
			return host, end, nil
		}
		select {
		case <-ended:
			return "", nil, fmt.Errorf("docker-registry has ended: %s: %s", cmd.ProcessState, said.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
