// Package apart configures hilbertds whose roles are split: dispatchers of which one leads, and schedulers in processes of their own (ADR 0021), with certificates of an authority of their own.
//
// It starts nothing. Whoever calls it starts the processes, and may kill, stop or cut them off from one another.
package apart

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	schedulerName  = "spiffe://lab/scheduler"
	dispatcherName = "dispatcher.lab"
	// life is how long a certificate is valid, and skew how far that begins in the past.
	life, skew = 24 * time.Hour, time.Hour
	// firstPort and ports are where FreeAddress looks; firstTaken is the first port that Linux gives out by itself.
	firstPort, firstTaken = 20_000, 32_768
	ports                 = firstTaken - firstPort
	portTries             = 100
)

// Files are a directory with the certificates of both sides.
type Files struct{ dir string }

// WriteFiles makes an authority, and a certificate of it for each side, in a directory that exists.
func WriteFiles(dir string) (Files, error) {
	f := Files{dir}
	authority, key, err := f.issue("ca", &x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true}, nil, nil)
	if err != nil {
		return f, err
	}
	_, _, err = f.issue("dispatcher", &x509.Certificate{DNSNames: []string{dispatcherName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, authority, key)
	if err != nil {
		return f, err
	}
	uri, err := url.Parse(schedulerName)
	if err != nil {
		return f, fmt.Errorf("name of schedulers: %w", err)
	}
	_, _, err = f.issue("scheduler", &x509.Certificate{URIs: []*url.URL{uri}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, authority, key)
	return f, err
}

// Dispatcher is what a HilbertConfiguration of a dispatcher has beside the rest; schedulers find it at address.
func (f Files) Dispatcher(address string) string {
	return fmt.Sprintf(`roles: [dispatcher, binder]
peers: {bindAddress: %q, tlsCertFile: %[2]s/dispatcher.crt, tlsPrivateKeyFile: %[2]s/dispatcher.key, caFile: %[2]s/ca.crt, schedulerNames: [%q]}
`, address, f.dir, schedulerName)
}

// Scheduler is the HilbertConfiguration of a scheduler that looks for its leader at addresses, HOST:PORT each.
func (f Files) Scheduler(addresses ...string) string {
	return fmt.Sprintf(`apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
roles: [scheduler]
server: {bindAddress: "-"}
peers: {addresses: ["%s"], tlsCertFile: %[2]s/scheduler.crt, tlsPrivateKeyFile: %[2]s/scheduler.key, caFile: %[2]s/ca.crt, serverName: %[3]s}
`, strings.Join(addresses, `", "`), f.dir, dispatcherName)
}

// FreeAddress is a loopback address that nobody listens on now. The kernel gives its port to nobody who asks for any, so that it is free as well when who has asked for it
// listens there later, or again.
func FreeAddress() (address string, err error) {
	for range portTries {
		n, randomErr := rand.Int(rand.Reader, big.NewInt(ports))
		if randomErr != nil {
			return "", fmt.Errorf("find a free port: %w", randomErr)
		}
		address = net.JoinHostPort("127.0.0.1", strconv.FormatInt(firstPort+n.Int64(), 10))
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err != nil {
			continue // somebody has it
		}
		if err = listener.Close(); err == nil {
			return address, nil
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// issue makes a certificate and its key, signed by parent, and by itself without one.
func (f Files) issue(name string, of, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate the key of %s: %w", name, err)
	}
	now := time.Now()
	of.SerialNumber, of.Subject = big.NewInt(now.UnixNano()), pkix.Name{CommonName: "lab"}
	of.NotBefore, of.NotAfter = now.Add(-skew), now.Add(life)
	if parent == nil {
		parent, signer = of, key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("parse the certificate of %s: %w", name, err)
	}
	if err := f.write(name+".crt", "CERTIFICATE", der); err != nil {
		return nil, nil, err
	}
	if der, err = x509.MarshalECPrivateKey(key); err != nil {
		return nil, nil, fmt.Errorf("encode the key of %s: %w", name, err)
	}
	return certificate, key, f.write(name+".key", "EC PRIVATE KEY", der)
}

func (f Files) write(name, kind string, der []byte) error {
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
