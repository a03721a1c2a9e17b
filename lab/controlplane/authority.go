package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// certificateLife is how long every certificate of a lab is valid. A lab lives for hours, a kept data directory for
	// weeks; certificates other than the CA's are issued anew at every start.
	certificateLife = 365 * 24 * time.Hour
	// clockSkew is how far a certificate's validity starts in the past.
	clockSkew = time.Hour
	// adminUser is the administrator's name; its group, system:masters, is what makes it cluster-admin.
	adminUser  = "hilbert-lab-admin"
	adminGroup = "system:masters"
)

// authority is the lab's own certificate authority. It signs the API server's certificate and every client's, so a
// certificate's common name and organisations are a user and groups that RBAC knows.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

// keyPair is a certificate and its private key, both PEM.
type keyPair struct{ certificate, key []byte }

// openAuthority loads the CA kept in dir, or makes one and keeps it there.
func openAuthority(dir string) (*authority, error) {
	certificateFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	certificatePEM, err := os.ReadFile(certificateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return makeAuthority(certificateFile, keyFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA key: %w", err)
	}
	certificateBlock, _ := pem.Decode(certificatePEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certificateBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("%s and %s are not PEM: remove the data directory to start afresh", certificateFile, keyFile)
	}
	certificate, err := x509.ParseCertificate(certificateBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", certificateFile, err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", keyFile, err)
	}
	if time.Now().After(certificate.NotAfter) {
		return nil, fmt.Errorf("the CA in %s expired on %s: remove the data directory to start afresh",
			certificateFile, certificate.NotAfter.Format(time.DateOnly))
	}
	return &authority{certificate: certificate, key: key, pem: certificatePEM}, nil
}

func makeAuthority(certificateFile, keyFile string) (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := certificateTemplate("hilbert-lab", nil)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the CA certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse the CA certificate just made: %w", err)
	}
	a := &authority{certificate: certificate, key: key, pem: certificatePEM(der)}
	// The key first: a certificate without its key would be taken for a whole CA by the next start.
	if err := os.WriteFile(keyFile, keyPEM, 0o600); err != nil {
		return nil, fmt.Errorf("keep the CA key: %w", err)
	}
	if err := os.WriteFile(certificateFile, a.pem, 0o600); err != nil {
		return nil, fmt.Errorf("keep the CA certificate: %w", err)
	}
	return a, nil
}

// client issues a client certificate: RBAC sees user and groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template, err := certificateTemplate(user, groups)
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a serving certificate for the names and addresses under which the API server is reached.
func (a *authority) server(names []string, addresses ...net.IP) (keyPair, error) {
	template, err := certificateTemplate("kube-apiserver", nil)
	if err != nil {
		return keyPair{}, err
	}
	template.DNSNames, template.IPAddresses = names, addresses
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign a certificate for %q: %w", template.Subject.CommonName, err)
	}
	return keyPair{certificate: certificatePEM(der), key: keyPEM}, nil
}

// keep writes the pair as name.crt and name.key in dir, readable by the owner only.
func (p keyPair) keep(dir, name string) (certificateFile, keyFile string, err error) {
	certificateFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := os.WriteFile(certificateFile, p.certificate, 0o600); err != nil {
		return "", "", fmt.Errorf("keep the certificate of %s: %w", name, err)
	}
	if err := os.WriteFile(keyFile, p.key, 0o600); err != nil {
		return "", "", fmt.Errorf("keep the key of %s: %w", name, err)
	}
	return certificateFile, keyFile, nil
}

// adminToken returns the administrator's bearer token and the file in which the API server finds it. Both are kept, so that a kubeconfig
// outlives a restart. A token and no certificate: the API server verifies a certificate's signature with every request, which costs a
// tenth of a Binding, and remembers a token.
func adminToken(dir string) (token, file string, err error) {
	file = filepath.Join(dir, "tokens.csv")
	kept, err := os.ReadFile(file)
	if err == nil {
		token, _, found := strings.Cut(string(kept), ",")
		if !found || token == "" {
			return "", "", fmt.Errorf("%s is not a token file: remove the data directory to start afresh", file)
		}
		return token, file, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("read the administrator's token: %w", err)
	}
	token = rand.Text()
	line := fmt.Sprintf("%s,%s,%s,%q\n", token, adminUser, adminUser, adminGroup)
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		return "", "", fmt.Errorf("keep the administrator's token: %w", err)
	}
	return token, file, nil
}

// signingKey returns the file of the key that signs service account tokens, made on the first start: tokens outlive a restart.
func signingKey(dir string) (string, error) {
	file := filepath.Join(dir, "service-account.key")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	_, keyPEM, err := newKey()
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, keyPEM, 0o600); err != nil {
		return "", fmt.Errorf("keep the service account key: %w", err)
	}
	return file, nil
}

func certificateTemplate(name string, organisations []string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a certificate serial: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: organisations},
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(certificateLife),
	}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// proxyName is the name in the certificate by which the API server's proxy proves itself to aggregated APIs.
const proxyName = "front-proxy-client"

// keepProxyClient issues that certificate. Its authority is another than that of users: whoever has a certificate of it may name any user.
func keepProxyClient(dir string) (pair keyPairFiles, ca string, err error) {
	dir = filepath.Join(dir, "front-proxy")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return pair, "", fmt.Errorf("keep the proxy's certificate: %w", err)
	}
	authority, err := openAuthority(dir)
	if err != nil {
		return pair, "", err
	}
	issued, err := authority.client(proxyName)
	if err != nil {
		return pair, "", err
	}
	pair.certificate, pair.key, err = issued.keep(dir, proxyName)
	return pair, filepath.Join(dir, "ca.crt"), err
}
