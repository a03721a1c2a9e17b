package controlplane

import (
	"context"
	"fmt"
	"net"
	"sync"

	"hilbert.dev/hilbert/lab/connect"
)

// kubeletClientUser is who the API server is for a kubelet that asks it.
const kubeletClientUser = "kube-apiserver-kubelet-client"

// RouteKubelet says where the API server reaches a kubelet that says of itself that it listens on address (host:port): kubectl logs and exec
// then work for a node whose own address leads nowhere from here, as a guest's behind a forwarded port. It may be called at any time.
func (c *ControlPlane) RouteKubelet(address, to string) { c.routes.set(address, to) }

// RoutePods says how the API server connects to pods, where Options.PodNetwork was set. It may be called at any time.
func (c *ControlPlane) RoutePods(dial connect.DialFunc) {
	c.routes.mu.Lock()
	defer c.routes.mu.Unlock()
	c.routes.pods = dial
}

// routes maps addresses of kubelets to where they are reached, and leads all others to pods. The zero value leads every address to itself.
type routes struct {
	mu   sync.Mutex
	to   map[string]string
	pods connect.DialFunc
}

func (r *routes) set(address, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to == nil {
		r.to = map[string]string{}
	}
	r.to[address] = to
}

func (r *routes) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	to, routed := r.to[address]
	pods := r.pods
	r.mu.Unlock()
	if !routed && pods != nil {
		return pods(ctx, network, address)
	}
	if !routed {
		to = address
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

// keepKubeletClient issues the certificate that the API server shows to kubelets.
func (a *authority) keepKubeletClient(dir string) (files keyPairFiles, err error) {
	pair, err := a.client(kubeletClientUser, adminGroup)
	if err != nil {
		return files, fmt.Errorf("certificate for kubelets: %w", err)
	}
	files.certificate, files.key, err = pair.keep(dir, kubeletClientUser)
	return files, err
}
