package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// TestGuest: who reaches the API server under another address may trust it there, and is a node to it; and it reaches a kubelet whose
// own address leads nowhere, as itself.
func TestGuest(t *testing.T) {
	const hostSeenByGuest, guest, node = "10.0.2.2", "192.0.2.15", "guest"
	c := start(t, Options{Addresses: []net.IP{net.ParseIP(hostSeenByGuest)}})
	admin := client(t, c.AdminConfig())
	kubelet := fakeKubelet(t)
	c.RouteKubelet(net.JoinHostPort(guest, "10250"), kubelet.Host)

	text, err := c.KubeconfigAt(hostSeenByGuest, "system:node:"+node, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	var dialled string
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = address
		return (&net.Dialer{}).DialContext(ctx, network, c.server.address)
	}
	asNode := client(t, config)
	created, err := asNode.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: node}, {Type: corev1.NodeInternalIP, Address: guest}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("a node registers itself over %s: %v", dialled, err)
	}
	if host, _, _ := net.SplitHostPort(dialled); host != hostSeenByGuest {
		t.Errorf("the node's kubeconfig leads to %s, want %s", dialled, hostSeenByGuest)
	}
	if _, err := asNode.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a node lists all secrets: got %v, want it forbidden", err)
	}

	if _, err := admin.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{NodeName: created.Name, Containers: []corev1.Container{{Name: "main", Image: "i"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	logs, err := admin.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if want := kubeletClientUser + " asks for /containerLogs/default/p/main"; err != nil || string(logs) != want {
		t.Errorf("logs: got %q, %v, want %q", logs, err, want)
	}
}

// fakeKubelet answers with who asks for what.
func fakeKubelet(t *testing.T) *url.URL {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s asks for %s", r.TLS.PeerCertificates[0].Subject.CommonName, r.URL.Path)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
