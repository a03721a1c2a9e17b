package visibility

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/kube/standin"
)

// identityOf is a certificate and its key, and the authority that signed it, which may be itself.
type identityOf struct {
	tls.Certificate
	text string // PEM
}

// issue makes a certificate, signed by an authority or, without one, by itself.
func issue(t *testing.T, name string, authority *identityOf, usage x509.ExtKeyUsage) *identityOf {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: authority == nil, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{usage},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := template, any(key)
	if authority != nil {
		parent, signer = authority.Leaf, authority.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &identityOf{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

// bed is one replica behind a proxy, and the certificates of those who ask it.
type bed struct {
	authority, proxy, misnamed, user, serving *identityOf
	front                                     *FrontProxy
	standin                                   *standin.Server
	asked                                     []Question // of Answers
	answer                                    error
	leader                                    string
	data                                      map[string]string
}

// Answer implements Answers.
func (b *bed) Answer(_ context.Context, w io.Writer, q *Question) error {
	b.asked = append(b.asked, *q)
	if b.answer != nil {
		return b.answer
	}
	return WriteObject(w, q, struct {
		Says string `json:"says"`
	}{"hello"})
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{authority: issue(t, "front-proxy-ca", nil, x509.ExtKeyUsageClientAuth), front: &FrontProxy{}, standin: standin.New(t)}
	b.proxy = issue(t, "front-proxy-client", b.authority, x509.ExtKeyUsageClientAuth)
	b.misnamed = issue(t, "somebody", b.authority, x509.ExtKeyUsageClientAuth)
	b.user = issue(t, "front-proxy-client", nil, x509.ExtKeyUsageClientAuth)
	b.serving = issue(t, "hilbertd", nil, x509.ExtKeyUsageServerAuth)
	b.data = map[string]string{
		"requestheader-client-ca-file": b.authority.text, "requestheader-allowed-names": `["front-proxy-client"]`,
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`, "client-ca-file": b.user.text,
	}
	b.trust(t)
	return b
}

// trust puts the ConfigMap where the reflector would.
func (b *bed) trust(t *testing.T) {
	t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: proxyNamespace, Name: proxyConfigMap}, Data: b.data}
	if err := b.front.store(slog.New(slog.DiscardHandler)).Replace([]any{m}, ""); err != nil {
		t.Fatal(err)
	}
}

// serve starts a replica with these answers, and returns its address.
func (b *bed) serve(t *testing.T, answers Answers) (address string) {
	t.Helper()
	peers, err := NewPeers(b.standin.Connection(), func() (*tls.Certificate, error) { return &b.serving.Certificate, nil }, func() string { return b.leader })
	if err != nil {
		t.Fatal(err)
	}
	rights, err := NewReviewer(b.standin.Connection())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	s := &Server{Proxy: b.front, Peers: peers, Rights: rights, Answers: answers, Log: slog.New(slog.DiscardHandler)}
	s.Register(mux)
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{b.serving.Certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// get asks a replica with a certificate (nil: none) and headers.
func get(t *testing.T, address, path string, with *identityOf, header http.Header) (code int, body string, answered http.Header) {
	t.Helper()
	secure := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	if with != nil {
		secure.Certificates = []tls.Certificate{with.Certificate}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		request.Header = header
	}
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

func as(user string) http.Header { return http.Header{"X-Remote-User": {user}} }

const (
	redPath = "/apis/visibility.hilbert.dev/v1alpha1/namespaces/red/podexplanations/p"
	redMay  = "get podexplanations.visibility.hilbert.dev red"
	allMay  = "get snapshots.visibility.hilbert.dev"
)

// TestWhoAsks: a user is who the proxy says, if it is the proxy that says it; and is answered where the user may read.
func TestWhoAsks(t *testing.T) {
	b := newBed(t)
	b.standin.User("t", "ada", redMay)
	b.standin.User("u", "root", redMay, allMay)
	address := b.serve(t, b)
	for _, c := range []struct {
		name string
		path string
		with *identityOf
		as   http.Header
		code int
		want string
	}{
		{"the proxy", redPath, b.proxy, as("ada"), http.StatusOK, `"says": "hello"`},
		{"another namespace", strings.Replace(redPath, "red", "blue", 1), b.proxy, as("ada"), http.StatusForbidden, "ada may not get podexplanations"},
		{"the cluster", "/apis/visibility.hilbert.dev/v1alpha1/snapshots/current", b.proxy, as("ada"), http.StatusForbidden, "in the cluster"},
		{"a stranger's header", redPath, nil, as("ada"), http.StatusUnauthorized, "without the certificate"},
		{"a user's certificate", redPath, b.user, as("ada"), http.StatusUnauthorized, "not of the request-header CA"},
		{"another name of the same authority", redPath, b.misnamed, as("ada"), http.StatusUnauthorized, "not the proxy's name"},
		{"no user", redPath, b.proxy, nil, http.StatusUnauthorized, "names no user"},
		{"a false token", redPath, b.proxy, http.Header{"Authorization": {"Bearer x"}, "X-Remote-User": {"ada"}}, http.StatusUnauthorized, "does not know the token"},
		{"nothing there", "/apis/visibility.hilbert.dev/v1alpha1/pods/x", b.proxy, as("root"), http.StatusNotFound, "nothing at"},
	} {
		code, body, _ := get(t, address, c.path, c.with, c.as)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", c.name, code, body)
		}
		if code != http.StatusOK && !strings.Contains(body, `"kind":"Status"`) {
			t.Errorf("%s: %s is no Status", c.name, body)
		}
	}
	_, _, _ = get(t, address, redPath+"?names=all", b.proxy, as("ada"))
	_, _, _ = get(t, address, redPath+"?names=own", b.proxy, as("root"))
	if n := len(b.asked); n != 3 || !b.asked[0].OwnNamesOnly || !b.asked[1].OwnNamesOnly || b.asked[2].OwnNamesOnly {
		t.Errorf("asked %+v: others' names are for those who may see everything", b.asked)
	}
}

// TestTokens: a token counts on this host, for the process that it is sent to; from elsewhere it is not even looked at.
func TestTokens(t *testing.T) {
	b := newBed(t)
	b.standin.User("t", "ada", redMay)
	rights, err := NewReviewer(b.standin.Connection())
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	b.standin.Intercept(func(http.ResponseWriter, *http.Request) bool { asked++; return false })
	for _, s := range []*Server{
		{Rights: rights, Answers: b, Log: slog.New(slog.DiscardHandler)},
		{Rights: rights, Answers: b, Log: slog.New(slog.DiscardHandler), Proxy: b.front},
	} {
		for from, want := range map[string]int{"127.0.0.1:1": http.StatusOK, "[::1]:1": http.StatusOK, "10.0.0.1:1": http.StatusUnauthorized, "x": http.StatusUnauthorized} {
			before := asked
			r, w := httptest.NewRequest(http.MethodGet, "https://x"+redPath, http.NoBody), httptest.NewRecorder()
			r.RemoteAddr = from
			r.Header.Set("Authorization", "Bearer t")
			if s.serve(w, r); w.Code != want || want != http.StatusOK && asked != before {
				t.Errorf("from %s: %d %s", from, w.Code, w.Body)
			}
		}
	}
	for _, q := range b.asked {
		if !q.Here {
			t.Errorf("%+v is not for this process", q)
		}
	}
	b.standin.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "down", http.StatusInternalServerError)
		return true
	})
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "https://x"+redPath, http.NoBody)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Authorization", "Bearer new")
	if (&Server{Rights: rights, Answers: b, Log: slog.New(slog.DiscardHandler)}).serve(w, r); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without reviews: %d %s", w.Code, w.Body)
	}
}

// TestDiscovery is answered without a proxy, a ConfigMap, a leader, or anybody who has answers.
func TestDiscovery(t *testing.T) {
	b := newBed(t)
	b.front.trust.Store(nil)
	address := b.serve(t, nil)
	var list metav1.APIResourceList
	for _, path := range []string{"/apis", "/apis/visibility.hilbert.dev", "/apis/visibility.hilbert.dev/v1alpha1"} {
		code, body, _ := get(t, address, path, nil, nil)
		if code != http.StatusOK || json.Unmarshal([]byte(body), &list) != nil {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if list.GroupVersion != GroupVersion.String() || len(list.APIResources) != len(resources) {
		t.Errorf("discovery: %+v", list)
	}
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/api"} { // what kube-apiserver takes 404 for
		if code, _, _ := get(t, address, path, nil, nil); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, body, header := get(t, address, redPath, b.proxy, as("ada")); code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(body, "extension-apiserver-authentication-reader") {
		t.Errorf("without the ConfigMap: %d %s", code, body)
	}
}

// TestTrust: the ConfigMap counts as it is now, and one that would let users name others counts as none.
func TestTrust(t *testing.T) {
	b := newBed(t)
	b.standin.User("t", "ada", redMay)
	address := b.serve(t, b)
	code := func(with *identityOf) int {
		code, _, _ := get(t, address, redPath, with, as("ada"))
		return code
	}
	second := issue(t, "front-proxy-ca", nil, x509.ExtKeyUsageClientAuth)
	renewed := issue(t, "front-proxy-client", second, x509.ExtKeyUsageClientAuth)
	if got := []int{code(b.proxy), code(renewed)}; !slices.Equal(got, []int{200, 401}) {
		t.Errorf("before the rotation: %v", got)
	}
	b.data["requestheader-client-ca-file"] += second.text
	b.trust(t)
	if got := []int{code(b.proxy), code(renewed)}; !slices.Equal(got, []int{200, 200}) {
		t.Errorf("during the rotation: %v", got)
	}
	b.data["requestheader-client-ca-file"] = second.text
	b.trust(t)
	if got := []int{code(b.proxy), code(renewed)}; !slices.Equal(got, []int{401, 200}) {
		t.Errorf("after the rotation: %v", got)
	}
	b.data["client-ca-file"] += second.text
	b.trust(t)
	if got := code(renewed); got != 200 {
		t.Errorf("one authority for both, with a name required of the proxy: %d", got)
	}
	b.data["requestheader-allowed-names"] = "[]"
	b.trust(t)
	if got := code(renewed); got != 401 {
		t.Errorf("every user could name another: %d", got)
	}
	delete(b.data, "requestheader-client-ca-file")
	b.trust(t)
	if got := code(renewed); got != 401 {
		t.Errorf("no authority: %d", got)
	}
}

// TestIdentity: groups, UID and extra come along to the review.
func TestIdentity(t *testing.T) {
	b := newBed(t)
	b.data["requestheader-uid-headers"] = `["X-Remote-Uid"]`
	b.trust(t)
	r := httptest.NewRequest(http.MethodGet, "https://x"+redPath, http.NoBody)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{b.proxy.Leaf}}
	r.Header = http.Header{
		"X-Remote-User": {"ada"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"a", "system:authenticated"}, "X-Remote-Extra-Example.org%2fscope": {"x", "y"},
		"X-Remote-Extra-": {"z"},
	}
	user, err := b.front.User(r, time.Now())
	if err != nil || user.Username != "ada" || user.UID != "7" || !slices.Equal(user.Groups, []string{"a", "system:authenticated"}) || len(user.Extra) != 1 ||
		!slices.Equal(user.Extra["example.org/scope"], []string{"x", "y"}) {
		t.Errorf("%+v, %v", user, err)
	}
	if _, err := b.front.User(r, time.Now().Add(2*time.Hour)); err == nil {
		t.Error("the proxy's certificate has expired")
	}
}

// TestFollowerAsksTheLeader: a follower passes a question on, once, to who has the replicas' key and to nobody else; and never what the user sent.
func TestFollowerAsksTheLeader(t *testing.T) {
	b := newBed(t)
	b.standin.User("t", "ada", redMay)
	leader := b.serve(t, b)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	leadsAt := func(address string) {
		_, port, _ := net.SplitHostPort(address)
		b.leader = fmt.Sprintf("%s:%s_id", host, port)
	}
	leadsAt(leader)
	follower := b.serve(t, follows{})
	if code, body, _ := get(t, follower, redPath, b.proxy, as("ada")); code != http.StatusOK || !strings.Contains(body, "hello") {
		t.Errorf("through a follower: %d %s", code, body)
	}
	if len(b.asked) != 1 || !b.asked[0].OwnNamesOnly || b.asked[0].Namespace != "red" {
		t.Errorf("the leader was asked %+v", b.asked)
	}
	if code, _, _ := get(t, follower, strings.Replace(redPath, "red", "blue", 1), b.proxy, as("ada")); code != http.StatusForbidden {
		t.Errorf("another namespace, through a follower: %d", code)
	}
	recorded := make(chan *http.Request, 10)
	recorder := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { recorded <- r }))
	recorder.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	recorder.TLS = &tls.Config{Certificates: []tls.Certificate{issue(t, "hilbertd", nil, x509.ExtKeyUsageServerAuth).Certificate}, MinVersion: tls.VersionTLS12}
	recorder.StartTLS()
	defer recorder.Close()
	for _, c := range []struct{ name, at, want string }{
		{"somebody else", recorder.Listener.Addr().String(), "the certificate that hilbertd's replicas share"},
		{"another follower", follower, "does not lead any more"}, // or it would be asked again and again
		{"nobody", "127.0.0.1:1", "does not answer"},
	} {
		leadsAt(c.at)
		code, body, header := get(t, follower, redPath, b.proxy, as("ada"))
		if code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(body, c.want) {
			t.Errorf("%s leads: %d %s", c.name, code, body)
		}
	}
	for _, identity := range []string{"", "x", host + "_id", "ns/pod:1_id"} {
		b.leader = identity
		if code, body, _ := get(t, follower, redPath, b.proxy, as("ada")); code != http.StatusServiceUnavailable {
			t.Errorf("%q leads: %d %s", identity, code, body)
		}
	}
	if len(recorded) > 0 {
		t.Errorf("somebody else was asked: %v", (<-recorded).Header)
	}
	if code, _, _ := get(t, leader, redPath, b.user, nil); code != http.StatusUnauthorized {
		t.Errorf("as a replica without its key: %d", code)
	}
}

// follows is a replica that does not lead.
type follows struct{}

// Answer implements Answers.
func (follows) Answer(context.Context, io.Writer, *Question) error { return ErrFollowing }

// TestLeaderInAPod: a leader that is a pod is found by its address.
func TestLeaderInAPod(t *testing.T) {
	b := newBed(t)
	b.standin.User("t", "ada", redMay)
	_, port, _ := net.SplitHostPort(b.serve(t, b))
	b.standin.SetPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hilbert-system", Name: "hilbertd-1"}, Status: corev1.PodStatus{PodIP: "127.0.0.1"}})
	b.leader = "hilbert-system/hilbertd-1:" + port + "_id"
	follower := b.serve(t, follows{})
	if code, body, _ := get(t, follower, redPath, b.proxy, as("ada")); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	b.standin.DeletePod("hilbert-system", "hilbertd-1")
	if code, body, _ := get(t, follower, redPath, b.proxy, as("ada")); code != http.StatusOK { // its address is remembered
		t.Errorf("%d %s", code, body)
	}
}

// TestFailures: what went wrong inside is the log's, and a client that should come back is told so.
func TestFailures(t *testing.T) {
	b := newBed(t)
	b.standin.User("t", "ada", redMay)
	address := b.serve(t, b)
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{io.ErrUnexpectedEOF, http.StatusInternalServerError, "its log says why"},
		{Later(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "busy"), http.StatusTooManyRequests, "busy"},
	} {
		b.answer = c.err
		if code, body, _ := get(t, address, redPath, b.proxy, as("ada")); code != c.code || !strings.Contains(body, c.want) || strings.Contains(body, "EOF") {
			t.Errorf("%v: %d %s", c.err, code, body)
		}
	}
}

// Compile-time: a Reviewer says what users may.
var _ Rights = (*Reviewer)(nil)
