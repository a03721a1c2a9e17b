package artifacts

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

// The names of the checksums and of their signature.
const (
	sumsFile      = "SHA256SUMS"
	signatureFile = sumsFile + ".minisig"
)

// writeSums writes the checksum of every file, in the form that sha256sum -c reads.
func (r *Release) writeSums() error {
	entries, err := os.ReadDir(r.Out) // sorted
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.Out, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&text, "%s  %s\n", hex.EncodeToString(sum[:]), e.Name())
	}
	return r.create(sumsFile, []byte(text.String()))
}

// sign signs the checksums, and with them everything. Without a key it does nothing.
func (r *Release) sign() error {
	if r.Key == "" {
		return nil
	}
	text, err := os.ReadFile(r.Key)
	if err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	var key minisign.PrivateKey
	if err := key.UnmarshalText(text); err != nil {
		return fmt.Errorf("signing key %s: %w; hilbert-release key makes one", r.Key, err)
	}
	sums, err := os.ReadFile(filepath.Join(r.Out, sumsFile))
	if err != nil {
		return err
	}
	trusted := fmt.Sprintf("Hilbert %s, commit %s", r.Version, r.Commit)
	return r.create(signatureFile, minisign.SignWithComments(key, sums, trusted, "signature of "+sumsFile+" by Hilbert's release key"))
}

// MakeKey makes a pair of keys and writes the secret one, without a password, where only its owner reads it.
func MakeKey(secretFile, publicFile string) error {
	public, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	text, err := secret.MarshalText()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(secretFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("secret key: %w", err)
	}
	if _, err := file.Write(text); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	if text, err = public.MarshalText(); err != nil {
		return err
	}
	return os.WriteFile(publicFile, text, 0o644)
}
