package source

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// HostError explains in one line why a request to a host failed before it had an
// answer, or why its answer was not followed, and what to do. It returns nil for an
// error of another kind, and an error that is explained already as it is.
func HostError(host string, err error) error {
	var dns *net.DNSError
	var op *net.OpError
	var stalled stalledError
	var slow slowError
	var unsafe plainError
	var away *elsewhereError
	var inner *innerError
	var cert *tls.CertificateVerificationError
	text := err.Error()
	if errors.As(err, new(*transport.Error)) {
		text = "" // is the server's, which could hold any of the words below
	}
	switch {
	case errors.As(err, new(*fetchError)):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case strings.Contains(text, "parsing config file"):
		return fmt.Errorf("%w: repair it, or run `docker login`", oneLine{err})
	case errors.Is(err, errRedirects):
		return fmt.Errorf("%s redirects without end: try again later, or ask whoever runs it", host)
	case errors.As(err, &stalled):
		return fmt.Errorf("%s stopped sending: %w%s; try again later", host, stalled, attempts(err))
	case errors.As(err, new(waitedError)):
		return fmt.Errorf("%s does not answer: %w; try again later", host, brief(err))
	case errors.As(err, &slow):
		return fmt.Errorf("%s sends too slowly: %w; try again later", host, slow)
	case errors.As(err, &away):
		return fmt.Errorf("the redirect of %s is not followed: %w: ask whoever runs it", host, away)
	case errors.As(err, &inner) && inner.to(host):
		return fmt.Errorf("%s is not asked: %w, which no registry has: check the name", host, inner)
	case errors.As(err, &inner):
		return fmt.Errorf("the redirect of %s is not followed: %w: ask whoever runs it", host, inner)
	case strings.Contains(text, "SSRF protection: "): // ggcr looks first
		return fmt.Errorf("the redirect of %s is not followed: it leads to an address of an inner network (%s): ask whoever runs it", host, after(text, "SSRF protection: "))
	case strings.Contains(text, "unsupported protocol scheme"):
		return fmt.Errorf("the redirect of %s is not followed: it does not lead to a registry (%w): ask whoever runs it", host, brief(err))
	case strings.Contains(text, "www-authenticate"), strings.Contains(text, "refusing token-server redirect"):
		return fmt.Errorf("%s asks for a login in a way that is not supported (%w): ask whoever runs it", host, brief(err))
	case strings.Contains(text, "no token in bearer response"): // the answer may hold a secret nevertheless
		return fmt.Errorf("the token server of %s gives no token: run `docker login %s`, or ask whoever runs it", host, host)
	case strings.HasSuffix(text, " byte limit"): // ggcr's, of a token
		return fmt.Errorf("the answer of %s is too large (%w): ask whoever runs it", host, brief(err))
	case errors.As(err, &dns):
		return fmt.Errorf("cannot reach %s: no such host %q: check the name and the network", host, dns.Name)
	case strings.HasSuffix(text, "server gave HTTP response to HTTPS client"): // for a local host plain HTTP was tried, too
		return fmt.Errorf("%s speaks plain HTTP: add --insecure if that is meant", host)
	case errors.As(err, &cert):
		return fmt.Errorf("%s: its TLS certificate is not trusted (%w): install its CA, or add --insecure", host, cert.Err)
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return fmt.Errorf("cannot reach the proxy that the environment names for %s: %w: check HTTPS_PROXY and NO_PROXY", host, op.Err)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("cannot reach %s: %w: check the name, the port and the network", host, op.Err)
	case errors.As(err, &unsafe) && string(unsafe) != host:
		return fmt.Errorf("%s redirects to %s by plain HTTP, which anybody on the way can read: add --insecure if that is meant", host, plain.Name(string(unsafe)))
	case errors.As(err, &unsafe):
		return fmt.Errorf("%s does not speak TLS, and without it anybody on the way can read a login: add --insecure if that is meant", host)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), isReset(text):
		return fmt.Errorf("the connection to %s broke off: try again", host)
	case errors.As(err, new(*json.SyntaxError)), errors.As(err, new(*json.UnmarshalTypeError)):
		return fmt.Errorf("%s does not answer like a registry (%w): a proxy or a login page stands in its place", host, brief(err))
	case strings.Contains(text, "error verifying "), strings.Contains(text, "does not match requested digest"), strings.Contains(text, "does not match expected size"): // ggcr does not export the type
		return fmt.Errorf("its bytes are not those that the manifest names (%w): the image is damaged, or a proxy has changed it", err)
	case strings.Contains(text, "error getting credentials"):
		return fmt.Errorf("the credential helper failed (%w): repair it, or take it out of Docker's config.json", oneLine{err})
	}
	return nil
}

// attempts returns how many attempts an error is the last of, for a message.
func attempts(err error) string {
	var tried *triedError
	if !errors.As(err, &tried) {
		return ""
	}
	return fmt.Sprintf(" in %d attempts", tried.times)
}

// after returns the part of a text behind some words, on one line and bounded.
func after(text, words string) string {
	_, rest, _ := strings.Cut(text, words)
	return plain.Name(strings.Join(strings.Fields(rest), " "))
}

// brief returns an error whose text is one line of at most 600 characters, whatever a
// server put into it.
func brief(err error) error {
	line := oneLine{err}
	const most = 600
	if r := []rune(line.Error()); len(r) > most {
		return errors.New(string(r[:most-1]) + "…")
	}
	return line
}

// oneLine is an error whose text stays on one line, whatever a server put into it.
type oneLine struct{ error }

func (e oneLine) Error() string { return plain.Line(e.error.Error()) }
func (e oneLine) Unwrap() error { return e.error }
