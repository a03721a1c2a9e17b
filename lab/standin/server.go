package standin

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// kinds are the resources that are always served: hilbertd writes or watches them, or a benchmark does. Custom resources are served for whom Start names them;
// without that it is as in a cluster without their definitions.
var kinds = map[string]schema.GroupVersionKind{
	"pods":                   corev1.SchemeGroupVersion.WithKind("Pod"),
	"nodes":                  corev1.SchemeGroupVersion.WithKind("Node"),
	"namespaces":             corev1.SchemeGroupVersion.WithKind("Namespace"),
	"services":               corev1.SchemeGroupVersion.WithKind("Service"),
	"replicationcontrollers": corev1.SchemeGroupVersion.WithKind("ReplicationController"),
	"replicasets":            appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
	"statefulsets":           appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	"poddisruptionbudgets":   policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	"persistentvolumeclaims": corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	"persistentvolumes":      corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
	"storageclasses":         storagev1.SchemeGroupVersion.WithKind("StorageClass"),
	"csidrivers":             storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
	"csistoragecapacities":   storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"),
	"csinodes":               storagev1.SchemeGroupVersion.WithKind("CSINode"),
	"volumeattachments":      storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"),
	"priorityclasses":        schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"),
	"leases":                 coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	"events":                 eventsv1.SchemeGroupVersion.WithKind("Event"),
	"podgroups":              schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"),
}

// maxStreams is how many requests one HTTP/2 connection may have under way, as the real one allows by default.
const maxStreams = 250

// readHeaderTimeout bounds the wait for a request's headers.
const readHeaderTimeout = 10 * time.Second

// Server is the stand-in at work.
type Server struct {
	http     *http.Server
	listener net.Listener
	token    string
	ca       []byte
	failed   chan error
}

// Start serves on a free port of the loopback interface until Stop. Beside the API server's own resources it has custom ones, such as Hilbert; nil: none.
func Start(custom map[string]schema.GroupVersionKind) (*Server, error) {
	const host = "127.0.0.1"
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, []net.IP{net.ParseIP(host)}, nil)
	if err != nil {
		return nil, fmt.Errorf("certificate of the stand-in API server: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the stand-in API server: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	h := &handler{store: newStore(kinds, custom), token: rand.Text()}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := h.store.collections["namespaces"].create(ns); err != nil {
			return nil, errors.Join(fmt.Errorf("namespace %s: %w", name, err), listener.Close())
		}
	}
	s := &Server{listener: listener, token: h.token, ca: certificate, failed: make(chan error, 1)}
	s.http = &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:  log.New(io.Discard, "", 0), // clients hang up in the middle of handshakes
	}
	go func() {
		if err := s.http.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serve: %w", err)
		}
	}()
	return s, nil
}

// Failed tells when the server has ended by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// WriteKubeconfig writes how to reach the server, and as whom.
func (s *Server) WriteKubeconfig(path string) error {
	const name = "stand-in"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + s.listener.Addr().String(), CertificateAuthorityData: s.ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: s.token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}

// Stop ends the server, its watches and all connections.
func (s *Server) Stop() error {
	if err := s.http.Close(); err != nil {
		return fmt.Errorf("stop the stand-in API server: %w", err)
	}
	return nil
}
