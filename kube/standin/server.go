// Package standin is an API server for tests: an HTTPS endpoint that keeps what hilbertd watches and Leases in memory and treats them as
// the real one does, as far as hilbertd can tell.
//
// It knows list, watch and streamed lists with resource versions, Bindings with their UID precondition and their conflicts, status
// patches and optimistic concurrency on Leases, in the real one's words. Tests put faults in its way through Intercept.
//
// Invariants: resource versions only grow; a watch delivers every change after its resource version, once and in order. It is not a
// reference: what matters is run against the real API server too, in the lab.
package standin

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Intercept looks at a request before the server does; true means that it has answered.
type Intercept func(w http.ResponseWriter, r *http.Request) bool

// Server is the stand-in: the objects, as tests set them and look at them. Its history numbers their changes; its handler answers HTTP requests.
type Server struct {
	t       testing.TB
	http    *httptest.Server
	handler *handler
	users   users
	history *history

	mu      sync.Mutex
	nodes   map[string]*corev1.Node
	pods    map[string]*corev1.Pod
	others  map[string]map[string]runtime.Object // the rest of what is watched, by resource and namespace/name
	leases  map[string]*coordinationv1.Lease
	bound   map[string]int
	offered map[string]string // group/version by resource.group of optional
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		t: t, history: newHistory(), nodes: make(map[string]*corev1.Node), pods: make(map[string]*corev1.Pod),
		others: make(map[string]map[string]runtime.Object),
		leases: make(map[string]*coordinationv1.Lease), bound: make(map[string]int),
	}
	s.handler = &handler{t: t, server: s, asked: make(map[string]bool)}
	s.http = httptest.NewUnstartedServer(s.handler)
	s.http.EnableHTTP2 = true
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0) // clients hang up in the middle of handshakes all the time
	s.http.StartTLS()
	t.Cleanup(func() {
		s.BreakWatches()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Connection is how clients reach the server.
func (s *Server) Connection() *rest.Config {
	return &rest.Config{Host: s.http.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// Intercept puts f before the server; nil takes it away.
func (s *Server) Intercept(f Intercept) { s.handler.setIntercept(f) }

// WithoutStreaming makes the server refuse streamed lists, as older ones do.
func (s *Server) WithoutStreaming() { s.handler.refuseStreams() }

// Asked lists what was asked of the server, as "verb group/resource". A streamed list counts as a watch and as the list that it replaces.
func (s *Server) Asked() []string { return s.handler.remembered() }

// User makes a token known, and lets its user get paths, and do what is written as "verb resource.group namespace", or without a namespace in all of them.
func (s *Server) User(text, name string, paths ...string) {
	s.users.add(text, token{name: name}, paths)
}

// UserFor makes a token one of a user for an audience.
func (s *Server) UserFor(audience, text, name string) { s.users.add(text, token{name, audience}, nil) }

// Aggregate makes what serves TLS at an address of this host answer for the aggregated API.
func (s *Server) Aggregate(address string) { s.users.aggregate(address) }

// BreakWatches ends every watch under way.
func (s *Server) BreakWatches() {
	s.history.close(true)
	s.http.CloseClientConnections()
	s.history.close(false)
}

// Expire forgets the history, so that a watch cannot be resumed.
func (s *Server) Expire() { s.history.forget() }

// SetNode creates or replaces a node.
func (s *Server) SetNode(node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node = node.DeepCopy()
	before := s.nodes[node.Name]
	s.nodes[node.Name] = node
	if before == nil {
		s.history.note("nodes", "ADDED", node, nil)
		return
	}
	s.history.note("nodes", "MODIFIED", node, before)
}

// DeleteNode deletes a node.
func (s *Server) DeleteNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if node := s.nodes[name]; node != nil {
		delete(s.nodes, name)
		s.history.note("nodes", "DELETED", node.DeepCopy(), nil)
	}
}

// SetPod creates or replaces a pod.
func (s *Server) SetPod(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setPod(pod.DeepCopy())
}

func (s *Server) setPod(pod *corev1.Pod) {
	key := pod.Namespace + "/" + pod.Name
	before := s.pods[key]
	s.pods[key] = pod
	if before == nil {
		s.history.note("pods", "ADDED", pod, nil)
		return
	}
	s.history.note("pods", "MODIFIED", pod, before)
}

// DeletePod deletes a pod in the namespace.
func (s *Server) DeletePod(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := namespace + "/" + name
	if pod := s.pods[key]; pod != nil {
		delete(s.pods, key)
		s.history.note("pods", "DELETED", pod.DeepCopy(), nil)
	}
}

// Pod returns a copy of a pod, nil when there is none.
func (s *Server) Pod(namespace, name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[namespace+"/"+name].DeepCopy()
}

// Pods returns copies of all pods.
func (s *Server) Pods() []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*corev1.Pod, 0, len(s.pods))
	for _, pod := range s.pods {
		out = append(out, pod.DeepCopy())
	}
	return out
}

// BoundTwice lists pods that were bound more than once, which must never happen.
func (s *Server) BoundTwice() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for uid, times := range s.bound {
		if times > 1 {
			out = append(out, uid)
		}
	}
	return out
}

// SetLease creates or replaces a Lease.
func (s *Server) SetLease(lease *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease = lease.DeepCopy()
	s.history.stamp(lease)
	s.leases[lease.Namespace+"/"+lease.Name] = lease
}

// Lease returns a copy of a Lease, nil when there is none.
func (s *Server) Lease(namespace, name string) *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[namespace+"/"+name].DeepCopy()
}

// selected evaluates the field selectors that hilbertd uses: of the phases that a pod must not be in.
func selected(selector string, object runtime.Object) bool {
	pod, ok := object.(*corev1.Pod)
	if !ok || !strings.Contains(selector, "status.phase!=") {
		return true
	}
	phase := pod.Status.Phase
	if phase == "" {
		phase = corev1.PodPending
	}
	return !slices.Contains(strings.Split(selector, ","), "status.phase!="+string(phase))
}
