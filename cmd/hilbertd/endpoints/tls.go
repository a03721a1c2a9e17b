package endpoints

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"sync"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

const (
	// CertificateCheck is how often the files are looked at while clients connect.
	CertificateCheck = 10 * time.Second
	// selfSignedFor is the lifetime of a self-signed certificate: longer than any process.
	selfSignedFor = 10 * 365 * 24 * time.Hour
)

// CertificateOf is the certificate of the configuration; nil: it names none, or nothing is served.
func CertificateOf(config spec.Server) *Certificate {
	if config.TLSCertFile == "" || config.BindAddress == nowhere {
		return nil
	}
	return &Certificate{certificate: config.TLSCertFile, key: config.TLSPrivateKeyFile, Now: time.Now}
}

// ServerTLS is the server's side of TLS: with a certificate from files, or for nil a self-signed one for the listener's address.
func ServerTLS(files *Certificate, address string) (*tls.Config, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if files == nil {
		certificate, err := selfSigned(address)
		if err != nil {
			return nil, fmt.Errorf("make a certificate: %w", err)
		}
		secure.Certificates = []tls.Certificate{certificate}
		return secure, nil
	}
	if _, err := files.Get(nil); err != nil {
		return nil, fmt.Errorf("server.tlsCertFile: %w", err)
	}
	secure.GetCertificate = files.Get
	return secure, nil
}

// Certificate reads a certificate again when its files have changed. If they cannot be read, the old one stays in use. A process has one reader of its files, so
// that what it shows and whom it knows as one of its own change at one time.
type Certificate struct {
	certificate, key string
	// Now is the time that the files are looked at by.
	Now func() time.Time

	mu      sync.Mutex
	loaded  *tls.Certificate
	changed time.Time // the newer of the files, when they were loaded
	checked time.Time
}

// Get is the certificate as tls.Config asks for it.
func (f *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Now()
	if f.loaded != nil && now.Before(f.checked.Add(CertificateCheck)) {
		return f.loaded, nil
	}
	f.checked = now
	changed, err := newest(f.certificate, f.key)
	if err == nil && (f.loaded == nil || !changed.Equal(f.changed)) {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(f.certificate, f.key); err == nil {
			f.loaded, f.changed = &pair, changed
		}
	}
	if f.loaded == nil {
		return nil, err
	}
	return f.loaded, nil
}

func newest(paths ...string) (newest time.Time, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return newest, err
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return newest, nil
}

// selfSigned makes a certificate for an address and this host. Its key never leaves memory.
func selfSigned(address string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "hilbertd"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(selfSignedFor), // clocks differ
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if host, err := os.Hostname(); err == nil {
		template.DNSNames = append(template.DNSNames, host)
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() && !ip.IsLoopback() {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
