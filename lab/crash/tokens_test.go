package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/lab/apart"
)

// The audience of schedulers' tokens, and the account of which they must be.
const (
	tokenAudience = "dispatchers.lab"
	tokenAccount  = "scheduler"
)

// TestTokensOnAnAPIServer: a scheduler with a good certificate joins only with a token of the named account, for the leader's audience, of a pod that there is. It is told why; what its file has is
// looked at again at each try. One that is there stays when its pod's token is worth nothing any more, and does not come back with it.
func TestTokensOnAnAPIServer(t *testing.T) {
	files, err := apart.WriteFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var addresses [2]string
	for i := range addresses {
		if addresses[i], err = apart.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	r := newRigOf(t, rigOptions{configure: func(i int, kubeconfig string) string {
		asks := fmt.Sprintf("tokenAudience: %s, tokenUsers: [system:serviceaccount:default:%s]", tokenAudience, tokenAccount)
		return fmt.Sprintf(configuration, kubeconfig, leaseSeconds) + with(t, files.Dispatcher(addresses[i]), asks)
	}})
	for _, account := range []string{tokenAccount, "other"} {
		if _, err := r.client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pod, err := r.client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "scheduler-0"}, Spec: corev1.PodSpec{ServiceAccountName: tokenAccount, SchedulerName: "nobody", Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := func(account, audience string, of *corev1.Pod) string {
		t.Helper()
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
		if of != nil {
			request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: of.Name, UID: of.UID}
		}
		answer, err := r.client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account, request, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status.Token
	}
	file := filepath.Join(r.dir, "token")
	show := func(text string) {
		t.Helper()
		next := file + ".next"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	show(token("other", tokenAudience, nil))
	configured := filepath.Join(r.dir, "scheduler.yaml")
	text := with(t, files.Scheduler(addresses[:]...), "tokenFile: "+file)
	if err := os.WriteFile(configured, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	scheduler, err := startHilbertd(r.dir, "scheduler", configured)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scheduler.kill() })
	log := filepath.Join(r.dir, "scheduler.log")
	seen := 0 // of the log
	says := func(want string) {
		t.Helper()
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if at := strings.Index(string(text[seen:]), want); at >= 0 {
				seen += at + len(want)
				return
			}
		}
		text, _ := os.ReadFile(log)
		t.Fatalf("the scheduler does not say %q within %s:\n%s", want, patience, text[max(0, len(text)-4000):])
	}
	const joined = `msg="deciding for a leader"`
	says("the token is of the user system:serviceaccount:default:other")
	show(token(tokenAccount, "https://kubernetes.default.svc.cluster.local", pod))
	says("the API server does not accept the token")
	bound := token(tokenAccount, tokenAudience, pod)
	show(bound)
	says(joined)
	zero := int64(0)
	if err := r.client.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	if err := r.addBatch(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	r.awaitBound(batchPods)
	if text, _ := os.ReadFile(log); strings.Contains(string(text[seen:]), "no leader gives work") && !r.lostLease() {
		t.Errorf("it was sent away, though it was there already:\n%s", text[seen:])
	}
	// The API server itself remembers for some seconds that the token was good.
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: bound, Audiences: []string{tokenAudience}}}
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		answer, err := r.client.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !answer.Status.Authenticated {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a token outlives its pod")
		}
	}
	leader, err := r.leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.daemons[leader].kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.restart(leader); err != nil {
		t.Fatal(err)
	}
	says("the API server does not accept the token")
	show(token(tokenAccount, tokenAudience, nil))
	says(joined)
}

// lostLease says whether a process has lost the Lease, as one does on a machine that is busy for longer than its deadline. Who decided for it then looks for a leader.
func (r *rig) lostLease() bool {
	r.t.Helper()
	for _, d := range r.daemons {
		text, err := os.ReadFile(filepath.Join(r.dir, d.name+".log"))
		if err != nil {
			r.t.Fatal(err)
		}
		if strings.Contains(string(text), `msg="lost the Lease`) {
			return true
		}
	}
	return false
}

// with writes more fields into the peers of a configuration.
func with(t *testing.T, text, fields string) string {
	t.Helper()
	before, after, found := strings.Cut(text, "peers: {")
	if !found {
		t.Fatalf("no peers in\n%s", text)
	}
	return before + "peers: {" + fields + ", " + after
}
