package security

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

var dryRun = []string{metav1.DryRunAll}

// evicts asks for the eviction of a pod of the other tenant.
func evicts(user kubernetes.Interface, name string, dry []string) func(context.Context) error {
	return func(ctx context.Context) error {
		return user.PolicyV1().Evictions(theirs).Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: theirs, Name: name}, DeleteOptions: &metav1.DeleteOptions{DryRun: dry},
		})
	}
}

// sends is a dry request with a body.
func sends(user kubernetes.Interface, verb, path, body string) func(context.Context) error {
	return func(ctx context.Context) error { return send(ctx, user, verb, path, body, "dryRun=All") }
}

// gets is a read.
func gets(user kubernetes.Interface, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		return user.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Error()
	}
}

const (
	eventsPath = "/apis/events.k8s.io/v1/namespaces/theirs/events"
	event      = `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"false","namespace":"theirs"},"eventTime":"2026-01-01T00:00:00.000000Z","action":"Evict",` +
		`"reason":"Evicted","note":"no","type":"Warning","reportingController":"kubelet","reportingInstance":"n2","regarding":{"kind":"Pod","namespace":"theirs","name":"on-n2"}}`
)

// TestCapturedAgent: with the token of the agent of n1, who has captured that node harms itself alone.
func TestCapturedAgent(t *testing.T) {
	b := &cluster
	agent := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: "hilbert-agent"}
	cannot := func(verb, resource, group string) string {
		return fmt.Sprintf("cannot %s resource %q in API group %q", verb, resource, group)
	}
	replaces := func(under string) func(context.Context) error {
		return func(ctx context.Context) error {
			text, err := b.admin.Discovery().RESTClient().Get().AbsPath(nodesPath, "n2").SetHeader("Accept", "application/json").DoRaw(ctx)
			if err != nil {
				return err
			}
			return send(ctx, b.agent, "PUT", nodesPath+"/n2"+under, string(text), "dryRun=All")
		}
	}
	attempts := []attempt{
		{"replaces the status of the report of n2", replaces("/status"), "an agent writes that of its own node n1, not n2", b.withoutPolicies("hilbert-cnr-own-node")},
		{"creates the report of n3", sends(b.agent, "POST", nodesPath, report("n3")), "its own node n1, not n3", b.withoutPolicies("hilbert-cnr-own-node")},
	}
	for _, r := range []struct {
		name                  string
		try                   func(context.Context) error
		verb, group, resource string
	}{
		{"evicts a pod on n2", evicts(b.agent, "on-n2", nil), "create", "", "pods/eviction"},
		{"asks whether a pod on n2 may be evicted", evicts(b.agent, "on-n2", dryRun), "create", "", "pods/eviction"},
		{"evicts a pod on n1", evicts(b.agent, "on-n1", dryRun), "create", "", "pods/eviction"},
		{"writes an Event about somebody's pod", sends(b.agent, "POST", eventsPath, event), "create", "events.k8s.io", "events"},
		{"counts an Event on", sends(b.agent, "PATCH", eventsPath+"/true", `{"metadata":{"labels":{"a":"b"}}}`), "patch", "events.k8s.io", "events"},
		{"deletes a pod on n2", sends(b.agent, "DELETE", "/api/v1/namespaces/theirs/pods/on-n2", ""), "delete", "", "pods"},
		{"labels a pod on n1", sends(b.agent, "PATCH", "/api/v1/namespaces/theirs/pods/on-n1", `{"metadata":{"labels":{"a":"b"}}}`), "patch", "", "pods"},
		{"writes the status of a pod", sends(b.agent, "PATCH", "/api/v1/namespaces/theirs/pods/on-n1/status", `{"status":{"message":"x"}}`), "patch", "", "pods/status"},
		{"lists pods", gets(b.agent, "/api/v1/pods"), "list", "", "pods"},
		{"reads a Secret", gets(b.agent, "/api/v1/namespaces/theirs/secrets/password"), "get", "", "secrets"},
		{"lists Secrets", gets(b.agent, "/api/v1/secrets"), "list", "", "secrets"},
		{"reads ConfigMaps", gets(b.agent, "/api/v1/namespaces/kube-system/configmaps"), "list", "", "configmaps"},
		{"writes the Node n1", sends(b.agent, "PATCH", "/api/v1/nodes/n1", `{"metadata":{"labels":{"a":"b"}}}`), "patch", "", "nodes"},
		{"writes the status of n2", sends(b.agent, "PATCH", "/api/v1/nodes/n2/status", `{"status":{"phase":"Running"}}`), "patch", "", "nodes/status"},
		{"replaces the specification of its own report", sends(b.agent, "PATCH", nodesPath+"/n1", `{"metadata":{"annotations":{"a":"b"}}}`), "patch", "node.hilbert.dev", "customnoderesources"},
		{"deletes the report of n2", sends(b.agent, "DELETE", nodesPath+"/n2", ""), "delete", "node.hilbert.dev", "customnoderesources"},
		{"lists all reports", gets(b.agent, nodesPath), "list", "node.hilbert.dev", "customnoderesources"},
		{"creates a Queue", sends(b.agent, "POST", queuesPath, queue("evil")), "create", "scheduling.hilbert.dev", "queues"},
		{"asks for hilbertd's token", func(ctx context.Context) error {
			_, err := b.agent.CoreV1().ServiceAccounts(system).CreateToken(ctx, "hilbertd", &authenticationv1.TokenRequest{}, metav1.CreateOptions{DryRun: dryRun})
			return err
		}, "create", "", "serviceaccounts/token"},
		{"creates a Lease", sends(b.agent, "POST", "/apis/coordination.k8s.io/v1/namespaces/hilbert-system/leases",
			`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"another"}}`), "create", "coordination.k8s.io", "leases"},
	} {
		attempts = append(attempts, attempt{r.name, r.try, cannot(r.verb, r.resource, r.group), b.granted(agent, r.group, r.resource, r.verb)})
	}
	if err := send(t.Context(), b.admin, "POST", eventsPath, strings.Replace(event, `"false"`, `"true"`, 1)); err != nil {
		t.Fatal(err)
	}
	refuseEach(t, attempts)
	// What it is for works, so that the refusals are not those of a broken token.
	text, err := b.admin.Discovery().RESTClient().Get().AbsPath(nodesPath, "n1").SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := send(t.Context(), b.agent, "PUT", nodesPath+"/n1/status", string(text), "dryRun=All"); err != nil {
		t.Errorf("its own report: %v", err)
	}
}

func queue(name string) string {
	return fmt.Sprintf(`{"apiVersion":"scheduling.hilbert.dev/v1alpha1","kind":"Queue","metadata":{"name":%q},"spec":{}}`, name)
}

// TestCapturedKubelet: a kubelet's certificate is good for its own node: the same request about n1 succeeds.
func TestCapturedKubelet(t *testing.T) {
	b := &cluster
	status := func(node string) func(context.Context) error {
		return sends(b.kubelet, "PATCH", "/api/v1/nodes/"+node+"/status", `{"status":{"phase":"Running"}}`)
	}
	token := func(on string) func(context.Context) error {
		return func(ctx context.Context) error {
			p, err := b.admin.CoreV1().Pods(theirs).Get(ctx, on, metav1.GetOptions{})
			if err != nil {
				return err
			}
			_, err = b.kubelet.CoreV1().ServiceAccounts(theirs).CreateToken(ctx, "default", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID},
			}}, metav1.CreateOptions{DryRun: dryRun})
			return err
		}
	}
	mirror := func(node string, change func(*corev1.Pod)) func(context.Context) error {
		return func(ctx context.Context) error {
			n, err := b.admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return err
			}
			p := pod("static-" + node)
			yes := true
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID, Controller: &yes}}
			p.Spec.NodeName, p.Spec.AutomountServiceAccountToken = node, new(bool)
			change(p)
			_, err = b.kubelet.CoreV1().Pods(ours).Create(ctx, p, metav1.CreateOptions{DryRun: dryRun})
			return err
		}
	}
	nothing := func(*corev1.Pod) {}
	for _, a := range []struct {
		name         string
		own, foreign func(context.Context) error
		words        string
	}{
		{"writes a Node's status", status("n1"), status("n2"), `node "n1" is not allowed to modify node "n2"`},
		{"evicts a pod", evicts(b.kubelet, "on-n1", dryRun), evicts(b.kubelet, "on-n2", dryRun), `spec.nodeName set to itself`},
		{"gets a pod's token", token("on-n1"), token("on-n2"), "bound to a pod scheduled on a different node"},
		{"creates a static pod", mirror("n1", nothing), mirror("n2", nothing), "spec.nodeName set to itself"},
		{
			"creates a pod", mirror("n1", nothing),
			mirror("n1", func(p *corev1.Pod) { delete(p.Annotations, corev1.MirrorPodAnnotationKey) }), "can only create mirror pods",
		},
	} {
		t.Run(a.name, func(t *testing.T) {
			if err := until(t.Context(), func() error { return a.own(t.Context()) }); err != nil {
				t.Errorf("its own: %v", err)
			}
			foreign := attempt{try: a.foreign, words: a.words}
			if err := foreign.refused(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
