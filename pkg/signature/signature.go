// Package signature signs artifacts of a registry with a key, and says whether an artifact is
// signed by a key that a user has named. It does both without any service.
//
// A signature is a bundle of Sigstore beside the artifact, as a referrer of it: an envelope (DSSE) around
// a statement (in-toto) that names the digest of the artifact's manifest. cosign writes the same
// with `cosign sign --key` since its release 3, and verifies what Sign writes. The keys are
// those of cosign: ECDSA on P-256, and Ed25519.
//
// The package knows no certificates, no identities and no transparency log: a signature by a
// certificate of Fulcio is none of a key. It does not know what is signed.
package signature

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// The types of a bundle and of what it has, and the statement of a signature, as cosign 3.1
// writes them (pkg/oci/remote/write.go and pkg/types/predicate.go there).
const (
	bundleType    = "application/vnd.dev.sigstore.bundle.v0.3+json"
	payloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://sigstore.dev/cosign/sign/v1"
	contentKey    = "dev.sigstore.bundle.content"
	predicateKey  = "dev.sigstore.bundle.predicateType"
)

// Bounds of what is read: a bundle with an entry of a log has some 10 kB.
const (
	maxBundle  = 256 << 10 // bytes of a bundle
	maxBundles = 16        // referrers of an artifact that are looked at
	maxKeys    = 64        // keys that a user names
)

// bundle is the part of a bundle that decides (sigstore_bundle.proto and envelope.proto of
// sigstore/protobuf-specs).
type bundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey struct {
			Hint string `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	Envelope envelope `json:"dsseEnvelope"`
}

// envelope is an envelope of DSSE (https://github.com/secure-systems-lab/dsse/blob/master/envelope.md).
type envelope struct {
	Payload     []byte      `json:"payload"`
	PayloadType string      `json:"payloadType"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	Sig []byte `json:"sig"`
}

// statement is a statement of in-toto (https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md).
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     struct{}  `json:"predicate"`
}

type subject struct {
	Digest map[string]string `json:"digest"`
}

// encoding returns the bytes that are signed: DSSE's PAE
// (https://github.com/secure-systems-lab/dsse/blob/master/protocol.md).
func (e *envelope) encoding() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
}

// Keys are public keys, any of which may have signed.
type Keys struct{ list []crypto.PublicKey }

// ParseKeys parses public keys: PEM, as cosign and `openssl` write it, or the same without its first
// and last line, in one line; several are separated by commas there.
func ParseKeys(text string) (*Keys, error) {
	var k Keys
	ders, err := blocks(text)
	if err != nil {
		return nil, err
	}
	for _, der := range ders {
		key, err := x509.ParsePKIXPublicKey(der)
		if err != nil {
			return nil, errors.New("it has no public key: `cosign public-key` and `openssl pkey -pubout` write one")
		}
		if !known(key) {
			return nil, errUnknown
		}
		k.list = append(k.list, key)
	}
	return &k, nil
}

// blocks returns the bytes of public keys.
func blocks(text string) ([][]byte, error) {
	var out [][]byte
	if !strings.Contains(text, "-----BEGIN") {
		for one := range strings.SplitSeq(strings.TrimSpace(text), ",") {
			der, err := base64.StdEncoding.DecodeString(one)
			if err != nil || len(der) == 0 || len(out) == maxKeys {
				return nil, fmt.Errorf("it is no list of at most %d public keys", maxKeys)
			}
			out = append(out, der)
		}
		return out, nil
	}
	for rest := []byte(text); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if b.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("it has a %q, and a public key is asked for", strings.ToLower(b.Type))
		}
		if out = append(out, b.Bytes); len(out) > maxKeys {
			return nil, fmt.Errorf("it has more than %d keys", maxKeys)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no public key: `cosign public-key` and `openssl pkey -pubout` write one")
	}
	return out, nil
}

var errUnknown = errors.New("the key has another kind: ECDSA on P-256 and Ed25519 are known")

// known reports whether a key has a kind that is verified.
func known(key crypto.PublicKey) bool {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return true
	case *ecdsa.PublicKey:
		return key.Curve == elliptic.P256()
	}
	return false
}

// String returns the keys in one line, as ParseKeys takes them.
func (k *Keys) String() string {
	var out []string
	for _, key := range k.list {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			continue // it was parsed from such bytes
		}
		out = append(out, base64.StdEncoding.EncodeToString(der))
	}
	return strings.Join(out, ",")
}

// ID names the keys shortly, in any order: by the first digits of the digest of each. Other keys
// have another ID.
func (k *Keys) ID() string {
	var out []string
	for _, key := range k.list {
		out = append(out, hex.EncodeToString(fingerprint(key)[:8]))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

// fingerprint returns the digest of a public key.
func fingerprint(key crypto.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return make([]byte, sha256.Size) // it was parsed from such bytes
	}
	sum := sha256.Sum256(der)
	return sum[:]
}

// verifies reports whether one of the keys has signed data. With a key for Ed25519, cosign 3.1.3 signs
// by Ed25519ph and verifies Ed25519: both are taken.
func (k *Keys) verifies(data, sig []byte) bool {
	sum, long := sha256.Sum256(data), sha512.Sum512(data)
	return slices.ContainsFunc(k.list, func(key crypto.PublicKey) bool {
		switch key := key.(type) {
		case ed25519.PublicKey:
			return ed25519.Verify(key, data, sig) || ed25519.VerifyWithOptions(key, long[:], sig, &ed25519.Options{Hash: crypto.SHA512}) == nil
		case *ecdsa.PublicKey:
			return ecdsa.VerifyASN1(key, sum[:], sig)
		}
		return false
	})
}

// UnsignedError is the error of an artifact without a signature by a key that was asked for.
type UnsignedError struct {
	Keys   string // their ID
	Others int    // signatures that were looked at: by other keys, or wrong
}

func (e *UnsignedError) Error() string {
	switch e.Others {
	case 0:
		return "not signed"
	case 1:
		return fmt.Sprintf("not signed by the key %s: the signature there is by another one, or wrong", e.Keys)
	}
	return fmt.Sprintf("not signed by the key %s: the %d signatures there are by others, or wrong", e.Keys, e.Others)
}

// Check returns nil if the artifact with a digest has a signature by one of the keys, and an
// [UnsignedError] if it has none. Another error says why that is not known.
func (k *Keys) Check(ctx context.Context, repo *source.Repository, artifact v1.Hash) error {
	list, err := repo.Referrers(ctx, artifact)
	if err != nil {
		return fmt.Errorf("looking for signatures: %w", err)
	}
	// Registries without support for artifact types give the config's.
	list = slices.DeleteFunc(list, func(d v1.Descriptor) bool {
		return d.ArtifactType != bundleType && d.ArtifactType != "" && d.ArtifactType != string(source.EmptyConfig)
	})
	if len(list) > maxBundles {
		list = list[:maxBundles]
	}
	unsigned := &UnsignedError{Keys: k.ID()}
	var failed error
	for _, d := range list {
		raw, err := fetch(ctx, repo, d.Digest)
		switch {
		case err != nil:
			failed = fmt.Errorf("reading a signature: %w", err)
			continue
		case raw == nil:
			continue
		case k.signed(raw, artifact):
			return nil
		}
		unsigned.Others++
	}
	if failed != nil {
		return failed
	}
	return unsigned
}

// fetch returns the bundle of a referrer, or nil if it has none.
func fetch(ctx context.Context, repo *source.Repository, digest v1.Hash) ([]byte, error) {
	doc, err := repo.Manifest(ctx, digest)
	if err != nil {
		return nil, err
	}
	m, err := v1.ParseManifest(bytes.NewReader(doc.Raw))
	if err != nil || m.ArtifactType != bundleType || len(m.Layers) != 1 || m.Layers[0].Size > maxBundle {
		return nil, nil
	}
	rc, err := repo.Blob(ctx, m.Layers[0], nil)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return io.ReadAll(io.LimitReader(rc, maxBundle)) // its own signature stands for its digest
}

// signed reports whether a bundle is a signature of an artifact by one of the keys.
func (k *Keys) signed(raw []byte, artifact v1.Hash) bool {
	var b bundle
	if json.Unmarshal(raw, &b) != nil || b.MediaType != bundleType || b.Envelope.PayloadType != payloadType || len(b.Envelope.Signatures) != 1 {
		return false
	}
	var s statement
	return k.verifies(b.Envelope.encoding(), b.Envelope.Signatures[0].Sig) &&
		json.Unmarshal(b.Envelope.Payload, &s) == nil && s.Type == statementType && s.PredicateType == predicateType &&
		slices.ContainsFunc(s.Subject, func(x subject) bool { return x.Digest["sha256"] == artifact.Hex }) && artifact.Algorithm == "sha256"
}
