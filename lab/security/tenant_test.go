package security

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

var tenantSubject = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ours, Name: "ann"}

// word is something that a pod of the tenant must never say: a promise, or a level that the namespace is not allowed.
type word struct {
	key, value string
	label      bool
}

var words = []word{
	{key: spec.AnnotationNUMANodes, value: "0:8/4096Mi"},
	{key: spec.AnnotationGPUs, value: "0"},
	{key: spec.AnnotationNICs, value: "eth0"},
	{key: spec.AnnotationReclaimed, value: "1000m/1024Mi"},
	{key: spec.AnnotationResources, value: "main/example.com/fpga=1"},
	{key: spec.AnnotationResourceNUMANodes, value: "example.com/fpga=0:1"},
	{key: spec.AnnotationPriority, value: "2000000000"},
	{key: spec.LabelQoS, value: string(spec.QoSDedicated), label: true},
	{key: spec.LabelQoS, value: string(spec.QoSSystem), label: true},
	{key: spec.AnnotationKatalystQoS, value: string(spec.QoSDedicated)},
	{key: spec.AnnotationKatalystQoS, value: string(spec.QoSSystem)},
}

func (w word) String() string { return w.key + "=" + w.value }

// field is where the word is in metadata.
func (w word) field() string {
	if w.label {
		return "labels"
	}
	return "annotations"
}

// on says it of an object.
func (w word) on(meta *metav1.ObjectMeta) {
	if w.label {
		metav1.SetMetaDataLabel(meta, w.key, w.value)
	} else {
		metav1.SetMetaDataAnnotation(meta, w.key, w.value)
	}
}

// saidBy says whether an object says it.
func (w word) saidBy(meta *metav1.ObjectMeta) bool {
	if w.label {
		return meta.Labels[w.key] == w.value
	}
	return meta.Annotations[w.key] == w.value
}

// way is how a tenant tries to have a pod say a word. It returns the pod's name.
type way struct {
	name string
	try  func(ctx context.Context, b *bed, w word, name string) error
	// needs are the resource and the verb that the tenant does not have.
	needs [2]string
	// policy refuses it; "": nothing in such a request can change what a pod says.
	policy string
}

// ways are all ways to write a pod.
func ways() []way {
	patch := func(under string) func(context.Context, *bed, word, string) error {
		return func(ctx context.Context, b *bed, w word, name string) error {
			if err := b.makePod(ctx, name); err != nil {
				return err
			}
			body := fmt.Sprintf(`{"metadata":{%q:{%q:%q}}}`, w.field(), w.key, w.value)
			return send(ctx, b.tenant, "PATCH", "/api/v1/namespaces/ours/pods/"+name+under, body)
		}
	}
	replace := func(under string) func(context.Context, *bed, word, string) error {
		return func(ctx context.Context, b *bed, w word, name string) error {
			if err := b.makePod(ctx, name); err != nil {
				return err
			}
			text, err := b.admin.Discovery().RESTClient().Get().AbsPath("/api/v1/namespaces/ours/pods", name).SetHeader("Accept", "application/json").DoRaw(ctx)
			if err != nil {
				return err
			}
			var p corev1.Pod
			if err := json.Unmarshal(text, &p); err != nil {
				return err
			}
			w.on(&p.ObjectMeta)
			if text, err = json.Marshal(&p); err != nil {
				return err
			}
			return send(ctx, b.tenant, "PUT", "/api/v1/namespaces/ours/pods/"+name+under, string(text))
		}
	}
	return []way{
		{"create", func(ctx context.Context, b *bed, w word, name string) error {
			p := pod(name)
			w.on(&p.ObjectMeta)
			_, err := b.tenant.CoreV1().Pods(ours).Create(ctx, p, metav1.CreateOptions{})
			return err
		}, [2]string{}, "hilbert-pod-create"},
		{"create on a node", func(ctx context.Context, b *bed, w word, name string) error {
			p := pod(name)
			p.Spec.NodeName = "n1"
			w.on(&p.ObjectMeta)
			_, err := b.tenant.CoreV1().Pods(ours).Create(ctx, p, metav1.CreateOptions{})
			return err
		}, [2]string{}, "hilbert-pod-create"},
		{"patch", patch(""), [2]string{}, "hilbert-pod-update"},
		{"update", replace(""), [2]string{}, "hilbert-pod-update"},
		{"apply", func(ctx context.Context, b *bed, w word, name string) error {
			if err := b.makePod(ctx, name); err != nil {
				return err
			}
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,%q:{%q:%q}}}`, name, w.field(), w.key, w.value)
			return b.tenant.CoreV1().RESTClient().Patch("application/apply-patch+yaml").Namespace(ours).Resource("pods").Name(name).
				Param("fieldManager", "ann").Body([]byte(body)).Do(ctx).Error()
		}, [2]string{}, "hilbert-pod-update"},
		{"patch the status", patch("/status"), [2]string{"pods/status", "patch"}, "hilbert-pod-update"},
		{"update the status", replace("/status"), [2]string{"pods/status", "update"}, "hilbert-pod-update"},
		{"patch ephemeralcontainers", patch("/ephemeralcontainers"), [2]string{"pods/ephemeralcontainers", "patch"}, ""},
		{"patch resize", patch("/resize"), [2]string{"pods/resize", "patch"}, ""},
		{"bind", func(ctx context.Context, b *bed, w word, name string) error {
			if err := b.makePod(ctx, name); err != nil {
				return err
			}
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
			w.on(&binding.ObjectMeta)
			return b.tenant.CoreV1().Pods(ours).Bind(ctx, binding, metav1.CreateOptions{})
		}, [2]string{"pods/binding", "create"}, "hilbert-binding"},
	}
}

// makePod makes a pod that waits, and says nothing.
func (b *bed) makePod(ctx context.Context, name string) error {
	_, err := b.tenant.CoreV1().Pods(ours).Create(ctx, pod(name), metav1.CreateOptions{})
	return err
}

// says tries a word by a way with a new pod and tells whether the pod then says it.
func (b *bed) says(ctx context.Context, w word, by *way, name string) (bool, error) {
	tried := by.try(ctx, b, w, name)
	var status apierrors.APIStatus
	if tried != nil && !errors.As(tried, &status) {
		return false, tried
	}
	p, err := b.admin.CoreV1().Pods(ours).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if tried == nil {
			return false, errors.New("the pod was taken and is gone")
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	said := w.saidBy(&p.ObjectMeta)
	return said, b.admin.CoreV1().Pods(ours).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
}

// TestTenantsWords: no way of writing a pod makes it say what its tenant may not. Where RBAC refuses the way, the tenant is given the right first, so
// that the policies are tried too. Without the way's policy some words are said: the attempts are real ones.
func TestTenantsWords(t *testing.T) {
	b, serial := &cluster, 0
	try := func(t *testing.T, w word, by *way) bool {
		t.Helper()
		serial++
		said, err := b.says(t.Context(), w, by, fmt.Sprintf("w%d", serial))
		if err != nil {
			t.Fatalf("%s: %v", w, err)
		}
		return said
	}
	for _, by := range ways() {
		t.Run(by.name, func(t *testing.T) {
			withouts := []func(context.Context) (func(context.Context) error, error){}
			if by.needs[0] != "" {
				for _, w := range words {
					if try(t, w, &by) {
						t.Errorf("said by RBAC's leave: %s", w)
					}
				}
				withouts = append(withouts, b.granted(tenantSubject, "", by.needs[0], by.needs[1]))
			}
			restore, err := all(withouts...)(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := restore(context.Background()); err != nil {
					t.Error(err)
				}
			})
			for _, w := range words {
				if err := until(t.Context(), func() error {
					if try(t, w, &by) {
						return errors.New("said") // the policies may have been put back a moment ago
					}
					return nil
				}); err != nil {
					t.Errorf("%s: %v", w, err)
				}
			}
			if by.policy == "" {
				return
			}
			putBack, err := b.withoutPolicies(by.policy)(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := until(t.Context(), func() error {
				if !slices.ContainsFunc(words, func(w word) bool { return try(t, w, &by) }) {
					return errors.New("without the policy no word is said: the attempts are no good")
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			if err := putBack(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// template says a word in the pods of a controller.
func template(name string, w word, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	p := pod(name)
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: p.Spec}
	t.Spec.RestartPolicy = restart
	w.on(&t.ObjectMeta)
	return t
}

// controllers create something of each kind that makes pods, as the tenant.
func controllers(short bool) map[string]func(ctx context.Context, b *bed, name string, w word) error {
	create, one := metav1.CreateOptions{}, int32(1)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	selector := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	}
	always, never := corev1.RestartPolicyAlways, corev1.RestartPolicyNever
	out := map[string]func(context.Context, *bed, string, word) error{
		"replicaset": func(ctx context.Context, b *bed, name string, w word) error {
			_, err := b.tenant.AppsV1().ReplicaSets(ours).Create(ctx, &appsv1.ReplicaSet{ObjectMeta: meta(name), Spec: appsv1.ReplicaSetSpec{
				Replicas: &one, Selector: selector(name), Template: template(name, w, always),
			}}, create)
			return err
		},
		"deployment": func(ctx context.Context, b *bed, name string, w word) error {
			_, err := b.tenant.AppsV1().Deployments(ours).Create(ctx, &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{
				Replicas: &one, Selector: selector(name), Template: template(name, w, always),
			}}, create)
			return err
		},
		"statefulset": func(ctx context.Context, b *bed, name string, w word) error {
			_, err := b.tenant.AppsV1().StatefulSets(ours).Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta(name), Spec: appsv1.StatefulSetSpec{
				Replicas: &one, Selector: selector(name), Template: template(name, w, always), ServiceName: "x",
			}}, create)
			return err
		},
		"daemonset": func(ctx context.Context, b *bed, name string, w word) error {
			_, err := b.tenant.AppsV1().DaemonSets(ours).Create(ctx, &appsv1.DaemonSet{ObjectMeta: meta(name), Spec: appsv1.DaemonSetSpec{
				Selector: selector(name), Template: template(name, w, always),
			}}, create)
			return err
		},
		"replicationcontroller": func(ctx context.Context, b *bed, name string, w word) error {
			t := template(name, w, always)
			_, err := b.tenant.CoreV1().ReplicationControllers(ours).Create(ctx, &corev1.ReplicationController{ObjectMeta: meta(name), Spec: corev1.ReplicationControllerSpec{
				Replicas: &one, Selector: map[string]string{"app": name}, Template: &t,
			}}, create)
			return err
		},
		"job": func(ctx context.Context, b *bed, name string, w word) error {
			_, err := b.tenant.BatchV1().Jobs(ours).Create(ctx, &batchv1.Job{ObjectMeta: meta(name), Spec: batchv1.JobSpec{Template: template(name, w, never)}}, create)
			return err
		},
	}
	if !short { // it starts with the next minute
		out["cronjob"] = func(ctx context.Context, b *bed, name string, w word) error {
			_, err := b.tenant.BatchV1().CronJobs(ours).Create(ctx, &batchv1.CronJob{ObjectMeta: meta(name), Spec: batchv1.CronJobSpec{
				Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template(name, w, never)}},
			}}, create)
			return err
		}
	}
	return out
}

// TestTenantsControllers: what a tenant has controllers make of a template says nothing either: each one is refused its pods, and says so. Without the policy
// each of them makes one.
func TestTenantsControllers(t *testing.T) {
	b := &cluster
	kinds := controllers(testing.Short())
	named := make(map[string]word)
	makeAll := func(round string) {
		for kind, make := range kinds {
			for i, w := range words {
				name := fmt.Sprintf("%s-%s-%d", kind, round, i)
				if err := make(t.Context(), b, name, w); err != nil {
					t.Fatalf("%s with %s: %v", kind, w, err)
				}
				named[name] = w
			}
		}
	}
	makeAll("held")
	refused := make(map[string]bool)
	if err := until(t.Context(), func() error {
		events, err := b.admin.CoreV1().Events(ours).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
		if err != nil {
			return err
		}
		for i := range events.Items {
			e := &events.Items[i]
			for name := range named {
				if e.InvolvedObject.Name == name || strings.HasPrefix(e.InvolvedObject.Name, name+"-") {
					if strings.Contains(e.Message, "ValidatingAdmissionPolicy 'hilbert-pod-create'") {
						refused[name] = true
					}
				}
			}
		}
		if len(refused) < len(named) {
			for name := range named {
				if !refused[name] {
					return fmt.Errorf("%s has not said that its pod was refused", name)
				}
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if said := b.podsThatSay(t); len(said) > 0 {
		t.Errorf("pods that say what they may not: %v", said)
	}
	clear(named)
	putBack, err := b.withoutPolicies("hilbert-pod-create")(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := putBack(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := until(t.Context(), func() error { return dryPod(t.Context(), b, words[0]) }); err != nil {
		t.Fatal(err)
	}
	makeAll("open")
	if err := until(t.Context(), func() error {
		said := b.podsThatSay(t)
		for name, w := range named {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(said)), func(p string) bool { return strings.HasPrefix(p, name+"-") }) {
				return fmt.Errorf("without the policy no pod of %s says %s", name, w)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// dryPod creates a pod with a word, dry.
func dryPod(ctx context.Context, b *bed, w word) error {
	p := pod("dry")
	w.on(&p.ObjectMeta)
	_, err := b.tenant.CoreV1().Pods(ours).Create(ctx, p, metav1.CreateOptions{DryRun: dryRun})
	return err
}

// podsThatSay are the pods of the tenant that say what they may not, by name.
func (b *bed) podsThatSay(t *testing.T) map[string]word {
	t.Helper()
	list, err := b.admin.CoreV1().Pods(ours).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	said := make(map[string]word)
	for i := range list.Items {
		for _, w := range words {
			if w.saidBy(&list.Items[i].ObjectMeta) {
				said[list.Items[i].Name] = w
			}
		}
	}
	return said
}

// TestTenantsReach: a tenant who may edit a namespace writes nothing that belongs to all.
func TestTenantsReach(t *testing.T) {
	b := &cluster
	var attempts []attempt
	for _, r := range []struct{ name, verb, path, body, group, resource string }{
		{"creates a Queue", "POST", queuesPath, queue("evil"), "scheduling.hilbert.dev", "queues"},
		{"writes a report", "PATCH", nodesPath + "/n1/status", reported("", time.Unix(0, 0)), "node.hilbert.dev", "customnoderesources/status"},
		{"creates a report", "POST", nodesPath, report("n7"), "node.hilbert.dev", "customnoderesources"},
		{"labels a namespace", "PATCH", "/api/v1/namespaces/ours", `{"metadata":{"labels":{"hilbert.dev/allow-dedicated-cores":"true"}}}`, "", "namespaces"},
		{"labels a Node", "PATCH", "/api/v1/nodes/n1", `{"metadata":{"labels":{"a":"b"}}}`, "", "nodes"},
		{
			"creates a priority class", "POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
			`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"evil"},"value":1000000}`, "scheduling.k8s.io", "priorityclasses",
		},
		{
			"creates a Lease", "POST", "/apis/coordination.k8s.io/v1/namespaces/hilbert-system/leases",
			`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"another"}}`, "coordination.k8s.io", "leases",
		},
		{
			"removes a policy", "DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/hilbert-pod-create", "",
			"admissionregistration.k8s.io", "validatingadmissionpolicybindings",
		},
		{
			"creates a pod in another namespace", "POST", "/api/v1/namespaces/theirs/pods",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"x"}]}}`, "", "pods",
		},
	} {
		verb := map[string]string{"POST": "create", "PATCH": "patch", "DELETE": "delete"}[r.verb]
		attempts = append(attempts, attempt{
			r.name, sends(b.tenant, r.verb, r.path, r.body), fmt.Sprintf("cannot %s resource %q in API group %q", verb, r.resource, r.group),
			b.granted(tenantSubject, r.group, r.resource, verb),
		})
	}
	refuseEach(t, attempts)
}
