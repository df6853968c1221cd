package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// policyFrom returns the function that fetches the policies which a policy extends.
func policyFrom(c *cli.Context) policy.Fetch {
	return func(ref string) ([]byte, error) {
		at := strings.LastIndex(ref, "@sha256:")
		where, sum := ref[:at], ref[at+len("@sha256:"):]
		if rest, ok := strings.CutPrefix(where, "oci://"); ok {
			return policyInRegistry(c.Context, rest+"@sha256:"+sum, c.Bool("insecure"))
		}
		b, err := policyByHTTPS(c.Context, where, c.Bool("insecure"))
		if err != nil {
			return nil, err
		}
		if got := sha256.Sum256(b); hex.EncodeToString(got[:]) != sum {
			return nil, fmt.Errorf("its digest is sha256:%x, not the one that is written: somebody has changed it", got)
		}
		return b, nil
	}
}

func policyByHTTPS(ctx context.Context, where string, insecure bool) ([]byte, error) {
	u, err := url.Parse(where)
	if err != nil || u.Host == "" {
		return nil, errors.New("it is no address")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: source.Patient(source.Transport(insecure), source.Options{})}
	resp, err := client.Do(req)
	if err != nil {
		if explained := source.HostError(u.Host, err); explained != nil {
			err = explained
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", u.Host, resp.Status)
	}
	return readPolicyText(resp.Body)
}

// policyInRegistry returns the first blob of an artifact, as `oras push` makes it. The digest
// is that of the manifest, which has the blob's.
func policyInRegistry(ctx context.Context, name string, insecure bool) ([]byte, error) {
	ref, err := source.ParseReference(name, insecure)
	if err != nil {
		return nil, err
	}
	repo := source.NewRepository(ref.Context(), source.Options{Insecure: insecure})
	doc, err := repo.Get(ctx, ref)
	if err != nil {
		return nil, source.RegistryError(ref, err)
	}
	m, err := v1.ParseManifest(bytes.NewReader(doc.Raw))
	switch {
	case err != nil || len(m.Layers) != 1:
		return nil, errors.New("it is no artifact with one file: `oras push REPOSITORY .imgcheck.yaml` makes one")
	case m.Layers[0].Size > policy.MaxSize:
		return nil, fmt.Errorf("it is larger than %d KiB", policy.MaxSize>>10)
	}
	return source.ReadBlob(ctx, repo, m.Layers[0])
}

func readPolicyText(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, policy.MaxSize+1))
	if err == nil && len(b) > policy.MaxSize {
		err = fmt.Errorf("it is larger than %d KiB", policy.MaxSize>>10)
	}
	return b, err
}
