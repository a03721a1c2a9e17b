package visibility

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/kube/visibility"
)

func explanation(namespace, pod string) string {
	return group + "/namespaces/" + namespace + "/podexplanations/" + pod
}

// TestAggregatedAPI runs on one control plane: upstream starts the controllers once in a process.
func TestAggregatedAPI(t *testing.T) {
	b := newBed(t)
	for _, name := range []string{"red", "blue"} {
		b.namespace(name)
		if _, err := b.admin.CoreV1().Pods(name).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec:       corev1.PodSpec{SchedulerName: "hilbert", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.deadLeader()
	first := b.start()
	b.route(first.port, b.cert)
	b.awaitAvailable()
	b.withoutALeader()

	if err := b.admin.CoordinationV1().Leases(own).Delete(t.Context(), "hilbert", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.whoMaySeeWhat(first)
	b.forged(first)

	second := b.start()
	b.route(second.port, b.cert)
	b.awaitAvailable()
	b.throughAFollower()
	b.tokensStay()
	if !testing.Short() {
		b.rotation(first)
	}

	b.route(second.port, b.cert)
	b.awaitAvailable()
	second.stop(t)
	first.stop(t)
	b.withoutAnybody()
}

// withoutALeader: discovery is answered, namespaces are deleted, and who asks is told who should have answered.
func (b *bed) withoutALeader() {
	t := b.t
	t.Helper()
	b.namespace("gone")
	if gone, why := b.deleteNamespace("gone", patience); !gone {
		t.Errorf("with a dead leader a namespace stays: %s", why)
	}
	ada := b.withCertificate("ada")
	b.bind("view", "red", "ada")
	b.eventually("with a dead leader the answer names it", func() error {
		if code, body := b.get(ada, explanation("red", "p"), nil); code != http.StatusServiceUnavailable || !strings.Contains(body, "hilbertd-dead") {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
}

// rotation: the certificate is replaced in three steps, which the leader, a follower that is asked and the APIService take one after the other, in each order. Whoever asks
// meanwhile is answered, each time. At the end the old certificate serves nobody.
func (b *bed) rotation(leader *process) {
	t := b.t
	t.Helper()
	ada := b.withCertificate("ada")
	dir := t.TempDir()
	writeCertificate(t, dir, b.cert, b.key)
	follower := b.startWith(dir)
	b.route(follower.port, b.cert)
	b.awaitAvailable()
	ask := func(when string) {
		t.Helper()
		for range 5 {
			if code, body := b.get(ada, explanation("red", "p"), nil); code != http.StatusOK {
				t.Errorf("%s: %d %.300s", when, code, body)
			}
		}
	}
	b.eventually("the follower answers", func() error {
		if code, body := b.get(ada, explanation("red", "p"), nil); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	serving := visibility.Serving{Certificates: b.cert, Key: b.key}
	for step := 1; step <= 3; step++ {
		next, does, err := visibility.Rotate(&serving, serviceName, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(next.Certificates)
		takes := func(p *process, dir string) {
			writeCertificate(t, dir, next.Certificates, next.Key)
			b.eventually(does, func() error {
				ask(does)
				shown, err := tls.Dial("tcp", fmt.Sprint("127.0.0.1:", p.port), &tls.Config{InsecureSkipVerify: true})
				if err != nil {
					return err
				}
				defer func() { _ = shown.Close() }()
				// What is trusted beside it is read with what is shown.
				if at := shown.ConnectionState().PeerCertificates; !bytes.Equal(at[0].Raw, block.Bytes) || len(at) != strings.Count(string(next.Certificates), "BEGIN") {
					return errors.New("it shows the last step's still")
				}
				return nil
			})
		}
		order := []func(){func() { takes(leader, b.dir) }, func() { takes(follower, dir) }, func() { b.trust(next.Certificates) }}
		for i := range order {
			order[(i+step)%len(order)]()
			ask(does)
		}
		ask(does)
		serving = next
	}
	b.cert, b.key = serving.Certificates, serving.Key
	b.route(follower.port, b.cert)
	b.awaitAvailable()
	ask("after the rotation")
	follower.stop(t)
}

// whoMaySeeWhat: who may view a namespace sees its pods' explanations, by a certificate and by a token, and nothing else.
func (b *bed) whoMaySeeWhat(p *process) {
	t := b.t
	t.Helper()
	ada, eve := b.withCertificate("ada"), b.withCertificate("eve")
	b.bind("hilbert-cluster-viewer", "", "eve")
	b.eventually("the viewer of a namespace sees it", func() error {
		if code, body := b.get(ada, explanation("red", "p"), nil); code != http.StatusOK || !strings.Contains(body, `"kind": "PodExplanation"`) {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	b.eventually("the viewer of the cluster sees a snapshot", func() error { // kube-apiserver and hilbertd hear of a role's binding by watches of their own
		if code, body := b.get(eve, group+"/snapshots/current", nil); code != http.StatusOK {
			return fmt.Errorf("%d %.300s", code, body)
		}
		return nil
	})
	for _, c := range []struct {
		who  *asker
		path string
		want int
	}{
		{ada, explanation("blue", "p"), http.StatusForbidden},
		{ada, explanation("red", "none"), http.StatusNotFound},
		{ada, group + "/queuereports", http.StatusForbidden},
		{ada, group + "/snapshots/current", http.StatusForbidden},
		{ada, group + "/nodeexplanations/n1", http.StatusForbidden},
		{eve, explanation("blue", "p"), http.StatusOK},
		{eve, group + "/queuereports?limit=3", http.StatusOK},
		{eve, group + "/snapshots/current", http.StatusOK},
		{eve, group + "/nodeexplanations/n1", http.StatusNotFound},
		{eve, group + "/namespaces/red/podgroupexplanations/none", http.StatusNotFound},
		{eve, group + "/snapshots/other", http.StatusNotFound},
	} {
		if code, body := b.get(c.who, c.path, nil); code != c.want {
			t.Errorf("%s: %d, want %d: %.300s", c.path, code, c.want, body)
		}
	}
	if out, err := b.hilbert(b.user("ada"), "explain", "pod", "red/p"); err != nil || !strings.Contains(out, "red/p") {
		t.Errorf("hilbert explain, by a client certificate: %v %s", err, out)
	}
	if _, err := b.hilbert(b.user("ada"), "explain", "pod", "blue/p"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("hilbert explain in another namespace: %v", err)
	}
	for _, args := range [][]string{{"queue"}, {"snapshot"}} {
		if out, err := b.hilbert(b.user("eve"), args...); err != nil || len(out) == 0 {
			t.Errorf("hilbert %s: %v %s", args[0], err, out)
		}
		if _, err := b.hilbert(b.user("ada"), args...); err == nil {
			t.Errorf("hilbert %s is for viewers of the cluster", args[0])
		}
	}
	account := b.withToken("red", "ann")
	if code, body := b.get(account, explanation("red", "p"), nil); code != http.StatusForbidden {
		t.Errorf("an account without a role: %d %s", code, body)
	}
	b.bind("hilbert-viewer", "red", "system:serviceaccount:red:ann")
	b.eventually("an account sees its namespace", func() error {
		if code, body := b.get(account, explanation("red", "p"), nil); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	if code, body := b.direct(p, explanation("red", "p"), http.Header{"Authorization": {"Bearer x"}}); code != http.StatusUnauthorized {
		t.Errorf("a false token, at hilbertd itself: %d %s", code, body)
	}
}

// forged: who is not kube-apiserver's proxy names nobody, at hilbertd itself or through the proxy.
func (b *bed) forged(p *process) {
	t := b.t
	t.Helper()
	forged := http.Header{"X-Remote-User": {"eve"}, "X-Remote-Group": {"system:masters"}}
	if code, body := b.direct(p, explanation("red", "p"), forged); code != http.StatusUnauthorized {
		t.Errorf("without a certificate: %d %s", code, body)
	}
	config, err := clientcmd.BuildConfigFromFlags("", b.user("front-proxy-client"))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := b.direct(p, explanation("red", "p"), forged, certificate); code != http.StatusUnauthorized {
		t.Errorf("with the certificate of a user of that name: %d %s", code, body)
	}
	if code, body := b.get(b.withCertificate("ada"), explanation("blue", "p"), forged); code != http.StatusForbidden {
		t.Errorf("through the proxy: %d %s", code, body)
	}
	if code, body := b.direct(p, group, nil); code != http.StatusOK || !strings.Contains(body, "podexplanations") {
		t.Errorf("discovery: %d %s", code, body)
	}
}

// throughAFollower: a replica that follows answers as the leader does.
func (b *bed) throughAFollower() {
	t := b.t
	t.Helper()
	ada, eve := b.withCertificate("ada"), b.withCertificate("eve")
	b.eventually("a follower answers", func() error {
		if code, body := b.get(ada, explanation("red", "p"), nil); code != http.StatusOK || !strings.Contains(body, `"kind": "PodExplanation"`) {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	for path, want := range map[string]int{explanation("blue", "p"): http.StatusForbidden, explanation("red", "none"): http.StatusNotFound} {
		if code, body := b.get(ada, path, nil); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, body := b.get(eve, group+"/snapshots/current", nil); code != http.StatusOK || !strings.Contains(body, `"ledger"`) {
		t.Errorf("a snapshot: %d %.300s", code, body)
	}
}

// tokensStay: what stands in hilbertd's place sees who asks, and no credential.
func (b *bed) tokensStay() {
	t := b.t
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(b.dir, "tls.crt"), filepath.Join(b.dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan http.Header, 1000)
	recorder := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "podexplanations") {
			seen <- r.Header.Clone()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"APIResourceList","groupVersion":"visibility.hilbert.dev/v1alpha1","resources":[]}`)
	}))
	recorder.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	recorder.StartTLS()
	defer recorder.Close()
	b.route(portOf(t, recorder.Listener.Addr().String()), b.cert)
	b.awaitAvailable()
	account := b.withToken("red", "ann")
	b.eventually("the recorder is asked", func() error { // until kube-apiserver has heard of the new way, hilbertd is
		if code, body := b.get(account, explanation("red", "p"), nil); code != http.StatusOK || len(seen) == 0 {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	if _, err := b.hilbert(b.user("nobody"), "explain", "pod", "red/p", "--token-file", filepath.Join(b.dir, "ann.token")); err != nil {
		t.Errorf("hilbert explain, by a token: %v", err)
	}
	if len(seen) < 2 {
		t.Errorf("the recorder saw %d questions", len(seen))
	}
	for more := true; more; {
		select {
		case header := <-seen:
			if user := header.Get("X-Remote-User"); user != "system:serviceaccount:red:ann" {
				t.Errorf("the proxy names %q", user)
			}
			if carriesToken(header) {
				t.Errorf("the token is passed on: %v", header)
			}
		default:
			more = false
		}
	}
	// The recorder sees a token where one is sent: the user's own, to their own host.
	_, err = b.hilbert(b.user("nobody"), "explain", "pod", "red/p", "--token-file", filepath.Join(b.dir, "ann.token"), "--insecure-skip-tls-verify",
		"--server", recorder.URL)
	select {
	case header := <-seen:
		if !carriesToken(header) {
			t.Errorf("a token that is sent is not seen in %v", header)
		}
	default:
		t.Errorf("the recorder is not asked directly: %v", err)
	}
}

// carriesToken reports whether a request has a bearer token in any header.
func carriesToken(header http.Header) bool { return strings.Contains(fmt.Sprint(header), "Bearer") }

// withoutAnybody: with no hilbertd at all the deletion of namespaces stalls, which is why the APIService goes first when Hilbert is removed.
func (b *bed) withoutAnybody() {
	t := b.t
	t.Helper()
	eve := b.withCertificate("eve")
	b.eventually("the APIService is seen to be down", func() error {
		code, body := b.get(eve, group, nil)
		if code != http.StatusServiceUnavailable {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	// Whoever deletes namespaces reads all groups in one document, in which the API server notices only now and then that one does not answer.
	b.eventually("discovery has nothing new of the group", func() error {
		code, body := b.get(eve, "/apis", http.Header{"Accept": {"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}})
		var list apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK {
			return fmt.Errorf("%d, %v: %.300s", code, err, body)
		}
		for _, g := range list.Items {
			if g.Name == visibility.GroupVersion.Group && len(g.Versions) == 1 && g.Versions[0].Freshness == apidiscoveryv2.DiscoveryFreshnessStale {
				return nil
			}
		}
		return errors.New("it counts as current")
	})
	const stalled = "stalls"
	b.namespace(stalled)
	gone, why := b.deleteNamespace(stalled, time.Millisecond)
	b.eventually("its namespace's deletion says why it stalls", func() error {
		if gone, why = b.namespaceGone(stalled, time.Second); gone || !strings.Contains(why, "Discovery") {
			return fmt.Errorf("gone: %v; %s", gone, why)
		}
		return nil
	})
	if err := b.admin.Discovery().RESTClient().Delete().AbsPath(apiService).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	if gone, why := b.namespaceGone(stalled, patience); !gone {
		t.Errorf("without the APIService a namespace stays: %s", why)
	}
}
