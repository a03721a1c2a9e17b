package security

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/kube/visibility"
)

// sigsPodGroups is as much of the definition of scheduler-plugins as hilbertd needs.
const sigsPodGroups = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podgroups.scheduling.x-k8s.io}
spec:
  group: scheduling.x-k8s.io
  scope: Namespaced
  names: {kind: PodGroup, listKind: PodGroupList, plural: podgroups, singular: podgroup}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// reported is a report's status, with this in colocation.evictions.
func reported(evictions string, at time.Time) string {
	return fmt.Sprintf(`{"status":{"mode":"agent","threadsPerCore":1,"observedAt":%[1]q,"summary":{"numaNodes":0,"freeCPUs":0,"dedicatedPods":0,"freeMemory":"0"},
"events":[{"reason":"ClockJumped","message":"by 1h","count":2,"first":"2026-01-01T00:00:00.000000Z","last":"2026-01-01T00:01:00.000000Z"}],
"colocation":{"headroom":{"milliCPU":4000,"memoryMiB":4096},"lent":{"milliCPU":0,"memoryMiB":0},"suppression":"None","evictions":[%[2]s]}}}`,
		at.UTC().Format(time.RFC3339), evictions)
}

// TestHilbertdAsksForWhatItMay runs hilbertd with its account's token while it has to do everything that it can do, and compares what it asked the API
// server for with what its roles grant: it is refused nothing, and no verb of its roles is unused.
func TestHilbertdAsksForWhatItMay(t *testing.T) {
	b := &cluster
	definition, err := yaml.ToJSON([]byte(sigsPodGroups))
	if err != nil {
		t.Fatal(err)
	}
	if err := send(t.Context(), b.admin, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(definition)); err != nil {
		t.Fatal(err)
	}
	if err := until(t.Context(), func() error {
		return gets(b.admin, "/apis/scheduling.x-k8s.io/v1alpha1/podgroups")(t.Context())
	}); err != nil {
		t.Fatal(err)
	}
	address := b.runHilbertd(t)
	// A standby, because a leader that wins at once may never have watched the Lease.
	b.runHilbertd(t)
	b.giveWork(t, address)
	b.giveVolumes(t)
	b.giveDevices(t)
	b.heldToItsCalls(t, "hilbertd", func() (map[string]bool, error) { return b.askedVerbs("hilbertd", "") })
}

// conflictOnce answers the first Binding as the API server answers one about a pod that somebody else has bound, so that hilbertd has to read the pod; and the
// first Event as it answers one that is there already, so that hilbertd counts it on.
type conflictOnce struct {
	inner                   http.RoundTripper
	answered, answeredEvent atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (d *conflictOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	binding := strings.HasSuffix(r.URL.Path, "/binding") && !d.answered.Swap(true)
	event := strings.HasSuffix(r.URL.Path, "/namespaces/default/events") && !d.answeredEvent.Swap(true)
	if !binding && !event {
		return d.inner.RoundTrip(r)
	}
	conflict := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"message":"the pod is already assigned to a node"}`
	return &http.Response{
		StatusCode: http.StatusConflict, Status: "409 Conflict", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(strings.NewReader(conflict)),
	}, nil
}

// runHilbertd runs one with the token of its account, and returns where it answers.
func (b *bed) runHilbertd(t *testing.T) string {
	t.Helper()
	config := spec.Default()
	config.LeaderElection.Namespace = system
	config.Server.BindAddress = "127.0.0.1:0"
	// With a certificate it serves the aggregated API, and reads who its proxy is.
	certificate, key, err := visibility.MakeCertificate("localhost", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	config.Server.TLSCertFile, config.Server.TLSPrivateKeyFile = filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	if err := errors.Join(os.WriteFile(config.Server.TLSCertFile, certificate, 0o600), os.WriteFile(config.Server.TLSPrivateKeyFile, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	connection := rest.CopyConfig(b.hilbertd)
	connection.QPS = -1
	connection.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &conflictOnce{inner: inner} })
	return runHilbertd(t, config, daemon.Options{Connection: connection})
}

// runHilbertd runs a hilbertd until the test ends, and returns where it answers.
func runHilbertd(t *testing.T, config *spec.Configuration, o daemon.Options) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 1)
	o.Log, o.OnListen = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), func(a string) { address <- a }
	go func() { ended <- daemon.Run(ctx, config, o) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-address:
		return a
	case err := <-ended:
		ended <- nil
		t.Fatal(config.Roles, err)
	}
	return ""
}

// wants is a pod for hilbertd with so many CPUs.
func wants(name, cpu string, change func(*corev1.Pod)) *corev1.Pod {
	p := pod(name)
	p.Spec.SchedulerName = spec.DefaultSchedulerName
	if cpu != "" {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
	}
	if change != nil {
		change(p)
	}
	return p
}

// giveWork gives hilbertd something to do of each kind.
func (b *bed) giveWork(t *testing.T, address string) {
	t.Helper()
	ctx, create := t.Context(), metav1.CreateOptions{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}
	_, err := b.admin.SchedulingV1().PriorityClasses().Create(ctx, class, create)
	must(err)
	must(send(ctx, b.admin, "POST", queuesPath, queue("team")))
	_, err = b.admin.SchedulingV1beta1().PodGroups(theirs).Create(ctx, &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang"}, Spec: schedulingv1beta1.PodGroupSpec{
		SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}},
	}}, create)
	must(err)
	must(send(ctx, b.admin, "POST", "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/theirs/podgroups",
		`{"apiVersion":"scheduling.x-k8s.io/v1alpha1","kind":"PodGroup","metadata":{"name":"sigs"},"spec":{"minMember":2}}`))
	must(send(ctx, b.admin, "PATCH", nodesPath+"/n1/status", reported("", time.Now())))
	must(send(ctx, b.admin, "POST", "/apis/scheduling.hilbert.dev/v1alpha1/namespaces/theirs/reservations", `{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"Reservation",
"metadata":{"name":"kept"},"spec":{"count":1,"ttl":"1h","owners":[{"selector":{"matchLabels":{"app":"later"}}}],"template":{"spec":{"schedulerName":"hilbert",
"containers":[{"name":"main","image":"main","resources":{"requests":{"cpu":"100m"}}}]}}}}`))
	native, name := func(p *corev1.Pod) {
		gang := "gang"
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &gang}
	}, spec.LabelPodGroup
	for _, p := range []*corev1.Pod{
		wants("huge", "100", nil), wants("native-0", "100m", native), wants("native-1", "100m", native),
		wants("sigs-0", "100m", func(p *corev1.Pod) { p.Labels = map[string]string{name: "sigs"} }),
		wants("sigs-1", "100m", func(p *corev1.Pod) { p.Labels = map[string]string{name: "sigs"} }),
		wants("low-0", "6", nil), wants("low-1", "6", nil), wants("lent", "", lent),
	} {
		_, err := b.admin.CoreV1().Pods(theirs).Create(ctx, p, create)
		must(err)
	}
	for _, name := range []string{"low-0", "low-1", "native-1", "sigs-1", "lent"} {
		must(b.awaitPlace(ctx, name))
	}
	high := wants("high", "6", func(p *corev1.Pod) { p.Spec.PriorityClassName = class.Name })
	_, err = b.admin.CoreV1().Pods(theirs).Create(ctx, high, create)
	must(err)
	got, err := b.admin.CoreV1().Pods(theirs).Get(ctx, "lent", metav1.GetOptions{})
	must(err)
	// A budget that no controller has looked at refuses the eviction of a pod that runs. Then it is gone, and the pod is evicted.
	got.Status.Phase = corev1.PodRunning
	got, err = b.admin.CoreV1().Pods(theirs).UpdateStatus(ctx, got, metav1.UpdateOptions{})
	must(err)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "keep"}, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: got.Labels}, MinAvailable: new(intstr.FromInt32(1)),
	}}
	_, err = b.admin.PolicyV1().PodDisruptionBudgets(theirs).Create(ctx, budget, create)
	must(err)
	wish := fmt.Sprintf(`{"namespace":"theirs","name":"lent","uid":%q,"reason":"MemoryPressure","urgent":true}`, got.UID)
	must(send(ctx, b.admin, "PATCH", nodesPath+"/"+got.Spec.NodeName+"/status", reported(wish, time.Now())))
	must(until(ctx, func() error {
		text, err := b.admin.Discovery().RESTClient().Get().AbsPath(nodesPath, got.Spec.NodeName).SetHeader("Accept", "application/json").DoRaw(ctx)
		if err == nil && !strings.Contains(string(text), `"refusedEvictions":[{"name":"lent","namespace":"theirs"`) {
			return fmt.Errorf("the node is not told that a budget refuses: %s", text)
		}
		return err
	}))
	must(b.admin.PolicyV1().PodDisruptionBudgets(theirs).Delete(ctx, budget.Name, metav1.DeleteOptions{}))
	must(b.ask(ctx, address))
}

// lent makes a pod one of level reclaimed_cores.
func lent(p *corev1.Pod) {
	p.Labels = map[string]string{spec.LabelQoS: string(spec.QoSReclaimed)}
	amounts := corev1.ResourceList{spec.ResourceReclaimedCPU: resource.MustParse("500"), spec.ResourceReclaimedMemory: resource.MustParse("64Mi")}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts, Limits: amounts}
}

func (b *bed) awaitPlace(ctx context.Context, name string) error {
	return until(ctx, func() error {
		p, err := b.admin.CoreV1().Pods(theirs).Get(ctx, name, metav1.GetOptions{})
		if err == nil && p.Spec.NodeName == "" {
			return fmt.Errorf("%s is not placed: %+v", name, p.Status.Conditions)
		}
		return err
	})
}

// ask asks hilbertd why a pod waits, as its tenant. Whether it answers is no matter: it has to ask who that is, and whether they may.
func (b *bed) ask(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/apis/visibility.hilbert.dev/v1alpha1/namespaces/theirs/podexplanations/huge", http.NoBody)
	if err != nil {
		return err
	}
	got, err := b.tokenOf(ctx, theirs, "default", "")
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+got.BearerToken)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
