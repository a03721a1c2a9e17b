package standin_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/standin"
)

const namespace = "script"

// player plays the script against one server and remembers what later steps refer to.
type player struct {
	kubernetes.Interface
	config *rest.Config
	events watch.Interface
	start  string // the resource version at which events began
	uids   map[string]types.UID
	// customStart is the version at which ResourceRequests are watched.
	customStart string
}

// step is one request. It returns what is compared: no UID, time or version.
type step struct {
	name string
	do   func(ctx context.Context, p *player) (any, error)
}

// seen is what a scheduler reads of a pod.
func seen(p *player, pod *corev1.Pod, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if p.uids[pod.Name] == "" {
		p.uids[pod.Name] = pod.UID
	}
	version, _ := strconv.Atoi(pod.ResourceVersion)
	out := []any{
		"node", pod.Spec.NodeName, "scheduler", pod.Spec.SchedulerName, "priority", *pod.Spec.Priority, "phase", pod.Status.Phase, "annotations", pod.Annotations,
		"same", p.uids[pod.Name] == pod.UID && pod.UID != "", "versioned", version > 0, "created", !pod.CreationTimestamp.IsZero(), "nominated", pod.Status.NominatedNodeName,
	}
	for _, c := range pod.Status.Conditions {
		out = append(out, c.Type, c.Status, c.Reason)
	}
	return out, nil
}

func create(name string, change func(*corev1.Pod)) step {
	return step{"create " + name, func(ctx context.Context, p *player) (any, error) {
		no := false
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				SchedulerName: "hilbert", AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "main", Image: "none"}},
			},
		}
		if change != nil {
			change(pod)
		}
		made, err := p.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return seen(p, made, err)
	}}
}

func get(name string) step {
	return step{"get " + name, func(ctx context.Context, p *player) (any, error) {
		pod, err := p.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return seen(p, pod, err)
	}}
}

func bind(name, node string, change func(*player, *corev1.Binding)) step {
	return step{"bind " + name + " to " + node, func(ctx context.Context, p *player) (any, error) {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, UID: p.uids[name]}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		if change != nil {
			change(p, b)
		}
		return nil, p.CoreV1().Pods(namespace).Bind(ctx, b, metav1.CreateOptions{})
	}}
}

func wrongUID(_ *player, b *corev1.Binding) { b.UID = "another" }

func patch(name, text string) step {
	return step{"patch the status of " + name, func(ctx context.Context, p *player) (any, error) {
		pod, err := p.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, "status")
		return seen(p, pod, err)
	}}
}

func remove(name string, uid types.UID) step {
	return step{"delete " + name, func(ctx context.Context, p *player) (any, error) {
		now, options := int64(0), metav1.DeleteOptions{}
		options.GracePeriodSeconds = &now
		wanted := cmp.Or(uid, p.uids[name])
		options.Preconditions = &metav1.Preconditions{UID: &wanted}
		return nil, p.CoreV1().Pods(namespace).Delete(ctx, name, options)
	}}
}

// list compares the names that a field selector leaves, in order.
func list(selector string) step {
	return step{"list " + selector, func(ctx context.Context, p *player) (any, error) {
		pods, err := p.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range pods.Items {
			names = append(names, pods.Items[i].Name)
		}
		return []any{names, pods.ResourceVersion != ""}, nil
	}}
}

// lease plays the life of a Lease: what a leader election relies on.
func lease(name, holder string, with func(context.Context, *player, *coordinationv1.Lease) error) step {
	return step{name, func(ctx context.Context, p *player) (any, error) {
		seconds := int32(15)
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds}}
		if err := with(ctx, p, l); err != nil {
			return nil, err
		}
		got, err := p.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return *got.Spec.HolderIdentity, nil
	}}
}

func createLease(ctx context.Context, p *player, l *coordinationv1.Lease) error {
	_, err := p.CoordinationV1().Leases(namespace).Create(ctx, l, metav1.CreateOptions{})
	return err
}

func updateLease(version func(string) string) func(context.Context, *player, *coordinationv1.Lease) error {
	return func(ctx context.Context, p *player, l *coordinationv1.Lease) error {
		known, err := p.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
		if err != nil {
			return err
		}
		l.ResourceVersion = version(known.ResourceVersion)
		_, err = p.CoordinationV1().Leases(namespace).Update(ctx, l, metav1.UpdateOptions{})
		return err
	}
}

// script is the one table that both servers must answer equally.
var script = []step{
	{"make the namespace", func(ctx context.Context, p *player) (any, error) {
		_, err := p.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		return nil, err
	}},
	{"watch bound pods", func(ctx context.Context, p *player) (any, error) {
		pods, err := p.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		p.start = pods.ResourceVersion
		p.events, err = p.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: p.start, FieldSelector: "spec.nodeName!="})
		return len(pods.Items), err
	}},
	create("a", nil), create("a", nil), create("b", nil),
	create("gated", func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} }),
	create("preset", func(pod *corev1.Pod) { pod.Spec.NodeName = "n9" }),
	{"create in no namespace", func(ctx context.Context, p *player) (any, error) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}}}
		_, err := p.CoreV1().Pods("nowhere").Create(ctx, pod, metav1.CreateOptions{})
		return nil, err
	}},
	get("a"), get("missing"),
	patch("a", `{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}`),
	patch("a", `{"status":{"nominatedNodeName":"n1"}}`),
	patch("missing", `{"status":{"nominatedNodeName":"n1"}}`),
	patch("a", `{"metadata":{"uid":"another"},"status":{"nominatedNodeName":"n2"}}`),
	patch("a", `{"metadata":{"resourceVersion":"1"},"status":{"nominatedNodeName":"n2"}}`),
	bind("a", "n1", wrongUID),
	bind("a", "n1", func(_ *player, b *corev1.Binding) { b.Annotations = map[string]string{"promise": "0"} }),
	get("a"),
	bind("a", "n1", nil), bind("a", "n2", nil),
	bind("gated", "n1", nil), bind("missing", "n1", nil),
	bind("b", "", nil),
	bind("b", "n2", func(_ *player, b *corev1.Binding) { b.UID = "" }),
	get("b"),
	list(""), list("spec.nodeName="), list("spec.nodeName=n1"), list("status.phase!=Succeeded,status.phase!=Failed"),
	remove("b", "another"), remove("b", ""), remove("b", ""), get("b"),
	{"what the watch was told", func(ctx context.Context, p *player) (any, error) { return told(ctx, p.events, 5) }},
	{"a watch from a version in the past", func(ctx context.Context, p *player) (any, error) {
		w, err := p.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: p.start, FieldSelector: "spec.nodeName=n2"})
		if err != nil {
			return nil, err
		}
		return told(ctx, w, 3)
	}},
	{"a streamed list", func(ctx context.Context, p *player) (any, error) {
		yes := true
		w, err := p.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{
			SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		})
		if err != nil {
			return nil, err
		}
		return told(ctx, w, 4)
	}},
	lease("create a Lease", "one", createLease), lease("create it again", "two", createLease),
	lease("update it", "two", updateLease(func(v string) string { return v })),
	lease("update it from another version", "three", updateLease(func(string) string { return "1" })),
	{"an unknown resource", func(ctx context.Context, p *player) (any, error) {
		return nil, p.CoreV1().RESTClient().Get().AbsPath("/apis/nowhere.example/v1").Do(ctx).Error()
	}},
	{"a wrong token", func(ctx context.Context, p *player) (any, error) {
		config := rest.CopyConfig(p.config)
		config.BearerToken = "wrong"
		other, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		_, err = other.CoreV1().Pods(namespace).Get(ctx, "a", metav1.GetOptions{})
		return nil, err
	}},
}

// told reads n events of a watch.
func told(ctx context.Context, w watch.Interface, n int) (any, error) {
	defer w.Stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var out []string
	for len(out) < n {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				return nil, fmt.Errorf("the watch ended after %v", out)
			}
			o, ok := e.Object.(metav1.Object)
			if !ok {
				return nil, fmt.Errorf("%s of a %T after %v", e.Type, e.Object, out)
			}
			_, last := o.GetAnnotations()[metav1.InitialEventsAnnotationKey]
			out = append(out, fmt.Sprint(e.Type, " ", o.GetName(), " ", last))
		case <-ctx.Done():
			return nil, fmt.Errorf("only %v of %d events", out, n)
		}
	}
	return out, nil
}

// anyUID is what differs between the messages of two servers.
var anyUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// verdict is what is compared of a step: the answer's fields, or code, reason and message of its failure.
func verdict(answer any, err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s := status.Status()
		return fmt.Sprintf("%d %s: %s", s.Code, s.Reason, anyUID.ReplaceAllString(s.Message, "UID"))
	}
	return fmt.Sprint(answer, err)
}

func play(t *testing.T, kubeconfig string) []string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &player{Interface: client, config: config, uids: make(map[string]types.UID)}
	var out []string
	for _, s := range slices.Concat(script, customScript) {
		answer, err := s.do(t.Context(), p)
		out = append(out, verdict(answer, err))
	}
	return out
}

// TestScript: the stand-in answers one script of requests as a real API server does, refusals word by word.
func TestScript(t *testing.T) {
	dir := t.TempDir()
	server, err := standin.Start(standin.Hilbert())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	own, real := filepath.Join(dir, "standin"), filepath.Join(dir, "real")
	if err := server.WriteKubeconfig(own); err != nil {
		t.Fatal(err)
	}
	got := play(t, own)
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Benchmark: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plane.Stop(context.WithoutCancel(t.Context())) })
	if err := errors.Join(plane.WriteKubeconfig(real), plane.InstallDefinitions(t.Context())); err != nil {
		t.Fatal(err)
	}
	want := play(t, real)
	for i, s := range slices.Concat(script, customScript) {
		if got[i] != want[i] {
			t.Errorf("%s:\nstand-in %s\nreal     %s", s.name, got[i], want[i])
		} else {
			t.Logf("%s: %s", s.name, got[i])
		}
	}
}
