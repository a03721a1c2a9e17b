package visibility

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Serving is what hilbertd's replicas serve with. Certificates has the one that they show first; the others are those of replicas that are a step ahead or behind, whom
// they trust too. The APIService's caBundle is always equal to Certificates.
type Serving struct {
	Certificates []byte // PEM
	Key          []byte // of the first certificate
	NextKey      []byte // of the second one, which is to be the first; empty: none is to be
}

// Rotate takes the next of the three steps that replace a certificate while replicas take each step at moments of their own, and says what that step does. Each replica
// trusts the certificates of one that is a step ahead or behind, and so does kube-apiserver with the caBundle of either:
//
//	step  shown  trusted too
//	      old    –
//	1     old    new
//	2     new    old
//	3     new    –
//
// There is to be time between two steps until all replicas have taken the first.
func Rotate(s *Serving, name string, now time.Time, life time.Duration) (next Serving, does string, err error) {
	certificates, err := split(s.Certificates)
	if err != nil {
		return Serving{}, "", err
	}
	if _, err := tls.X509KeyPair(certificates[0], s.Key); err != nil {
		return Serving{}, "", fmt.Errorf("the key is not that of the first certificate: %w", err)
	}
	switch {
	case len(s.NextKey) == 0 && len(certificates) == 1:
		fresh, key, err := MakeCertificate(name, now, life)
		if err != nil {
			return Serving{}, "", err
		}
		return Serving{slices.Concat(certificates[0], fresh), s.Key, key}, "1 of 3: a new certificate is trusted, and the old one is shown", nil
	case len(certificates) != 2:
		return Serving{}, "", fmt.Errorf("%d certificates, want one, or two amid a rotation", len(certificates))
	case len(s.NextKey) == 0:
		return Serving{certificates[0], s.Key, nil}, "3 of 3: the old certificate is trusted no more", nil
	}
	if _, err := tls.X509KeyPair(certificates[1], s.NextKey); err != nil {
		return Serving{}, "", fmt.Errorf("the next key is not that of the second certificate: %w", err)
	}
	return Serving{slices.Concat(certificates[1], certificates[0]), s.NextKey, nil}, "2 of 3: the new certificate is shown, and the old one is trusted", nil
}

// split returns the certificates of a PEM text, each as PEM.
func split(text []byte) (list [][]byte, err error) {
	for len(bytes.TrimSpace(text)) > 0 {
		block, rest := pem.Decode(text)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("what should be certificates is no PEM of them")
		}
		list, text = append(list, pem.EncodeToMemory(block)), rest
	}
	if len(list) == 0 {
		return nil, errors.New("there is no certificate")
	}
	return list, nil
}
