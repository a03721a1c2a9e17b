package controlplane

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"hilbert.dev/hilbert/lab/connect"
)

// egressConfiguration has the API server ask for connections to pods and kubelets at a Unix socket. It wants the socket.
const egressConfiguration = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: %s}}}
`

// podProxy is where the API server asks for connections to pods.
type podProxy struct {
	socket string
	server *http.Server
}

// startPodProxy serves at a socket.
func startPodProxy(socket string, dial connect.DialFunc) (*podProxy, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("the way to pods: %w", err)
	}
	d := &podProxy{socket: socket, server: &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { connect.Serve(w, r, dial) }),
	}}
	go func() { _ = d.server.Serve(l) }() // until it is closed; the API server says what it cannot reach
	return d, nil
}

// configuration writes what tells the API server of it, and returns the file.
func (d *podProxy) configuration(dir string) (string, error) {
	file := filepath.Join(dir, "egress.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, egressConfiguration, d.socket), 0o600); err != nil {
		return "", fmt.Errorf("the way to pods: %w", err)
	}
	return file, nil
}

func (d *podProxy) close() { _ = d.server.Close() } // nothing is lost
