package signature

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// Signer is a private key.
type Signer struct{ key crypto.Signer }

// ParseSigner parses a private key as PEM: one that `openssl` writes (PKCS #8), or cosign's, for which
// password is the one that it was encrypted with.
func ParseSigner(text, password string) (*Signer, error) {
	b, _ := pem.Decode([]byte(text))
	if b == nil {
		return nil, errors.New("it has no private key: `cosign generate-key-pair` and `openssl genpkey -algorithm ed25519` write one")
	}
	der := b.Bytes
	switch b.Type {
	case "PRIVATE KEY":
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		var err error
		if der, err = encrypted.Decrypt(der, []byte(password)); err != nil {
			return nil, errors.New("the key's password is another one: say it in the variable COSIGN_PASSWORD")
		}
	default:
		return nil, fmt.Errorf("it has a %q, and a private key in PKCS #8 or of cosign is asked for", b.Type)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("it has no private key in PKCS #8")
	}
	s, ok := key.(crypto.Signer)
	if !ok || !known(s.Public()) {
		return nil, errUnknown
	}
	return &Signer{s}, nil
}

// Keys returns the public key.
func (s *Signer) Keys() *Keys { return &Keys{[]crypto.PublicKey{s.key.Public()}} }

// sign returns the signature of data.
func (s *Signer) sign(data []byte) ([]byte, error) {
	hash := crypto.SHA256
	if _, ok := s.key.(ed25519.PrivateKey); ok {
		hash = crypto.Hash(0) // Ed25519 hashes itself
	}
	return crypto.SignMessage(s.key, rand.Reader, data, hash)
}

// bundle returns the signature of the artifact with a digest.
func (s *Signer) bundle(artifact v1.Hash) ([]byte, error) {
	payload, err := json.Marshal(statement{
		Type: statementType, Subject: []subject{{map[string]string{artifact.Algorithm: artifact.Hex}}}, PredicateType: predicateType,
	})
	if err != nil {
		return nil, err
	}
	b := bundle{MediaType: bundleType, Envelope: envelope{Payload: payload, PayloadType: payloadType}}
	b.VerificationMaterial.PublicKey.Hint = base64.StdEncoding.EncodeToString(fingerprint(s.key.Public()))
	sig, err := s.sign(b.Envelope.encoding())
	if err != nil {
		return nil, err
	}
	b.Envelope.Signatures = []signature{{sig}}
	return json.Marshal(b)
}

// Sign stores a signature of an artifact beside it, from where Check takes it. from and to are
// the artifact's repository.
func (s *Signer) Sign(ctx context.Context, from *source.Repository, to *source.Artifacts, artifact v1.Hash) error {
	doc, err := from.Manifest(ctx, artifact)
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	raw, err := s.bundle(artifact)
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	d, err := to.Blob(ctx, raw, types.MediaType(bundleType))
	if err == nil {
		_, err = to.Put(ctx, v1.Manifest{
			ArtifactType: bundleType, Layers: []v1.Descriptor{d},
			Subject:     &v1.Descriptor{MediaType: doc.MediaType, Size: int64(len(doc.Raw)), Digest: artifact},
			Annotations: map[string]string{contentKey: "dsse-envelope", predicateKey: predicateType},
		}, "")
	}
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	return nil
}
