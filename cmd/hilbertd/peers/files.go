package peers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Files are the certificate of this process, its key, and the authorities whose certificates are believed, as PEM. They are read again at a handshake when one of them has changed.
type Files struct {
	Certificate, Key, Authorities string
	// Names of the other side. Of a client: DNS names or URIs of which its certificate has one. Of the leader: the DNS name that its certificate must have; none: the host that is dialled.
	Names []string

	mu     sync.Mutex
	loaded *loadedFiles
	states [3]fileState
}

type loadedFiles struct {
	certificate tls.Certificate
	authorities *x509.CertPool
}

// fileState is what a file's age and size say; a rotated Secret is another file.
type fileState struct {
	changed time.Time
	size    int64
}

// load returns what the files say now. Files that cannot be read while they are being replaced leave what was read before.
func (f *Files) load() (*loadedFiles, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var states [3]fileState
	for i, path := range []string{f.Certificate, f.Key, f.Authorities} {
		info, err := os.Stat(path)
		if err != nil {
			return f.keep(fmt.Errorf("read certificates: %w", err))
		}
		states[i] = fileState{info.ModTime(), info.Size()}
	}
	if f.loaded != nil && states == f.states {
		return f.loaded, nil
	}
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return f.keep(fmt.Errorf("read the certificate %s and its key %s: %w", f.Certificate, f.Key, err))
	}
	text, err := os.ReadFile(f.Authorities)
	if err != nil {
		return f.keep(fmt.Errorf("read authorities: %w", err))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return f.keep(fmt.Errorf("%s has no certificate in it; want PEM", f.Authorities))
	}
	f.loaded, f.states = &loadedFiles{pair, pool}, states
	return f.loaded, nil
}

func (f *Files) keep(err error) (*loadedFiles, error) {
	if f.loaded != nil {
		return f.loaded, nil
	}
	return nil, err
}

// serverConfig is for each connection what the files say then.
func (f *Files) serverConfig() (*tls.Config, error) {
	if _, err := f.load(); err != nil {
		return nil, err
	}
	if len(f.Names) == 0 {
		return nil, errors.New("no client would be let in: name those that may come")
	}
	return &tls.Config{MinVersion: minVersion, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := f.load()
		if err != nil {
			return nil, err
		}
		return &tls.Config{
			MinVersion: minVersion, Certificates: []tls.Certificate{now.certificate}, ClientCAs: now.authorities, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
			SessionTicketsDisabled: true, // each connection is verified by the authorities of now
			VerifyConnection:       f.verifyClient,
		}, nil
	}}, nil
}

// verifyClient lets those clients in that are named.
func (f *Files) verifyClient(state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0] // it was verified
	for _, name := range leaf.DNSNames {
		if slices.Contains(f.Names, name) {
			return nil
		}
	}
	for _, uri := range leaf.URIs {
		if slices.Contains(f.Names, uri.String()) {
			return nil
		}
	}
	return fmt.Errorf("the client's certificate is for %v %v; want one of %v", leaf.DNSNames, leaf.URIs, f.Names)
}

// clientConfig is for one connection to a host.
func (f *Files) clientConfig(host string) (*tls.Config, error) {
	now, err := f.load()
	if err != nil {
		return nil, err
	}
	name := host
	if len(f.Names) > 0 {
		name = f.Names[0]
	}
	return &tls.Config{MinVersion: minVersion, Certificates: []tls.Certificate{now.certificate}, RootCAs: now.authorities, ServerName: name}, nil
}
