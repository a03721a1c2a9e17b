package visibility

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

// TestRotate: at each step every replica, and kube-apiserver, trusts those that are a step ahead or behind, and at the end nobody trusts the old certificate.
func TestRotate(t *testing.T) {
	const name = "hilbertd.hilbert-system.svc"
	now := time.Now()
	certificate, key, err := MakeCertificate(name, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	steps := []Serving{{Certificates: certificate, Key: key}}
	for range 3 {
		next, does, err := Rotate(&steps[len(steps)-1], name, now, time.Hour)
		if err != nil || does == "" {
			t.Fatalf("%q, %v", does, err)
		}
		steps = append(steps, next)
	}
	pair := func(s *Serving) *tls.Certificate {
		p, err := tls.X509KeyPair(s.Certificates, s.Key)
		if err != nil {
			t.Fatal(err)
		}
		return &p
	}
	leaf := func(s *Serving) *x509.Certificate {
		c, err := x509.ParseCertificate(pair(s).Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for i := range steps {
		for j := range steps {
			shown, own := leaf(&steps[i]), pair(&steps[j])
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(steps[j].Certificates)
			_, err := shown.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
			peers := &Peers{own: func() (*tls.Certificate, error) { return own, nil }}
			peer := peers.isOwn(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{shown}})
			if near := i-j <= 1 && j-i <= 1; near && (err != nil || !peer) {
				t.Errorf("step %d does not trust step %d: %v, a peer: %v", j, i, err, peer)
			}
			if i < 2 && j == 3 && (err == nil || peer) {
				t.Errorf("after the rotation step %d is trusted still", i)
			}
		}
	}
	other, otherKey, err := MakeCertificate(name, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]Serving{
		"no certificate": {Key: key}, "no PEM": {Certificates: []byte("x"), Key: key}, "a key of another": {Certificates: certificate, Key: otherKey},
		"a next key of nothing": {Certificates: certificate, Key: key, NextKey: otherKey}, "the next key of another": {Certificates: append(certificate, other...), Key: key, NextKey: key},
		"three certificates": {Certificates: append(append(certificate, other...), other...), Key: key},
	} {
		if next, does, err := Rotate(&s, name, now, time.Hour); err == nil {
			t.Errorf("%s: %s, %+v", what, does, next)
		}
	}
}
