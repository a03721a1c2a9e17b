package policy

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/deploy/policies"
	"hilbert.dev/hilbert/lab/controlplane"
)

// The namespaces of the tests.
const (
	plain     = "plain"     // allows nothing
	dedicated = "dedicated" // allows dedicated_cores
	system    = "system"    // allows system_cores
	both      = "both"      // allows both
)

// requiredPlugins is containerd's annotation; agentRequired what the policy writes there.
const (
	requiredPlugins = "required-plugins.noderesource.dev"
	agentRequired   = `["hilbert"]`
)

// patience bounds every wait; it is no measure of speed.
const patience = 60 * time.Second

// the plane and its users, started once.
var (
	plane                               *controlplane.ControlPlane
	admin, hilbertd, mover, owner, node kubernetes.Interface
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(ownProcess) != "" {
		os.Exit(m.Run())
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if plane, err = controlplane.Start(ctx, controlplane.Options{Benchmark: *pairs > 0}); err != nil {
		return 1, err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = errors.Join(err, plane.Stop(stopping))
	}()
	if err := prepare(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// prepare makes users, namespaces and a pod that is older than the policies; then the policies, and pods that are younger.
func prepare(ctx context.Context) error {
	users := []struct {
		to     *kubernetes.Interface
		user   string
		groups []string
	}{
		{&hilbertd, policies.Placer, []string{"system:serviceaccounts", "system:serviceaccounts:hilbert-system", "system:authenticated"}},
		{&mover, "system:serviceaccount:hilbert-system:hilbert-controller", []string{"system:serviceaccounts", "system:serviceaccounts:hilbert-system", "system:authenticated"}},
		{&owner, "ann", []string{"system:authenticated"}},
		{&node, "system:node:n1", []string{"system:nodes", "system:authenticated"}},
	}
	client, err := kubernetes.NewForConfig(plane.AdminConfig())
	if err != nil {
		return err
	}
	admin = client
	for _, u := range users {
		config := plane.AdminConfig()
		config.Impersonate = rest.ImpersonationConfig{UserName: u.user, Groups: u.groups}
		if client, err = kubernetes.NewForConfig(config); err != nil {
			return err
		}
		*u.to = client
	}
	for name, labels := range map[string]map[string]string{
		plain: {"hilbert.dev/allow-dedicated-cores": "false"}, dedicated: {"hilbert.dev/allow-dedicated-cores": "true"}, "hilbert-system": nil,
		system: {"hilbert.dev/allow-system-cores": "true"}, both: {"hilbert.dev/allow-dedicated-cores": "true", "hilbert.dev/allow-system-cores": "true", "resource.kubernetes.io/admin-access": "true"},
	} {
		if err := makeNamespace(ctx, name, labels); err != nil {
			return err
		}
	}
	for name, labels := range overNamespaces() {
		if err := makeNamespace(ctx, name, labels); err != nil {
			return err
		}
	}
	if err := errors.Join(grant(ctx), makeOvercommit(ctx)); err != nil {
		return err
	}
	old := pod("old", scheduler(spec.DefaultSchedulerName), gpus("1"), label(spec.LabelQoS, "gold"), annotation(spec.AnnotationNUMANodes, "0:8/4096Mi"),
		annotation(spec.AnnotationGPUs, "0,3"))
	if err := create(ctx, both, old); err != nil {
		return err
	}
	if err := prepareNodes(ctx); err != nil {
		return err
	}
	if err := prepareBounds(ctx); err != nil {
		return err
	}
	if err := prepareClaim(ctx); err != nil {
		return err
	}
	if err := prepareReservation(ctx); err != nil {
		return err
	}
	if err := plane.InstallPolicies(ctx); err != nil {
		return err
	}
	if err := errors.Join(awaitPolicies(ctx), awaitBounds(ctx)); err != nil {
		return err
	}
	return stock(ctx)
}

// makeNamespace makes a namespace whose owner may do all in it.
func makeNamespace(ctx context.Context, name string, labels map[string]string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := admin.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "owner"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ann"}, {Kind: rbacv1.ServiceAccountKind, Namespace: "hilbert-system", Name: "hilbert-controller"},
		},
	}, metav1.CreateOptions{})
	return err
}

// grant creates the ClusterRole and its binding of deploy/rbac.yaml.
func grant(ctx context.Context) error {
	text, err := os.ReadFile("../../deploy/rbac.yaml")
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			return err
		}
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			_, err = admin.RbacV1().ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitPolicies waits until each policy is felt.
func awaitPolicies(ctx context.Context) error {
	return poll(ctx, patience, func() error {
		forged := pod("probe", annotation(spec.AnnotationNUMANodes, "0:1/0Mi"))
		if err := dryCreate(ctx, admin, plain, forged); err == nil {
			return errors.New("hilbert-pod-create is not in force")
		}
		if err := update(admin, both, "old", func(p *corev1.Pod) { p.Annotations[spec.AnnotationNUMANodes] = "0:1/0Mi" })(ctx); err == nil {
			return errors.New("hilbert-pod-update is not in force")
		}
		if err := update(admin, both, "old", func(p *corev1.Pod) { p.Annotations[requiredPlugins] = "[]" })(ctx); err == nil {
			return errors.New("hilbert-required-plugin is not in force")
		}
		if err := bindDry(ctx, admin, both, "old", bindingOf("old", annotation(spec.AnnotationNUMANodes, "0:1/0Mi"))); err == nil {
			return errors.New("hilbert-binding is not in force")
		}
		if err := patches(hilbertd, "old", `{"status":{"phase":"Failed"}}`, "status")(ctx); err == nil {
			return errors.New("hilbert-pod-status is not in force")
		}
		if err := patchesClaim(hilbertd, `{"metadata":{"labels":{"a":"b"}}}`)(ctx); err == nil {
			return errors.New("hilbert-resource-claim is not in force")
		}
		if err := keeps(admin, plain, saying("priority", 7))(ctx); err == nil {
			return errors.New("hilbert-reservation is not in force")
		}
		if err := lowers(over150, "main: cpu=667m; Burstable", "main=1000m at 150%", main("cpu=1"))(ctx); err != nil {
			return fmt.Errorf("hilbert-overcommit is not in force: %w", err)
		}
		for _, namespace := range []string{plain, over900} { // which a binding each holds to its percent
			forged := pod("probe", main("cpu=1"), annotation(spec.AnnotationRequestedCPU, "main=9000m at 900%"))
			if err := dryCreate(ctx, owner, namespace, forged); err == nil {
				return fmt.Errorf("hilbert-requested-cpu is not in force in %s", namespace)
			}
		}
		if err := createsNode(agents.unbound, "n3")(ctx); err == nil {
			return errors.New("hilbert-cnr-own-node is not in force")
		}
		if err := changesNode(admin, "n1", tell("a"))(ctx); err == nil {
			return errors.New("hilbert-cnr-configuration is not in force")
		}
		if err := nodeRows()[0].try(ctx); err != nil {
			return fmt.Errorf("hilbert-reclaimed-node is not in force: %w", err)
		}
		if err := dryCreate(ctx, admin, plain, pod("probe", main("=bytes=1"))); err == nil {
			return errors.New("hilbert-reclaimed is not in force")
		}
		reclaimed := label(spec.LabelQoS, string(spec.QoSReclaimed))
		if err := becomes(admin, plain, "main: cpu=0 millicpu=1k / millicpu=1k", main("cpu=1"), reclaimed)(ctx); err != nil {
			return err
		}
		return saysRequired(ctx, admin, plain, pod("probe", scheduler(spec.DefaultSchedulerName), gpus("1")), agentRequired)
	})
}

// stock makes the pods that the table speaks of.
func stock(ctx context.Context) error {
	for _, p := range []*corev1.Pod{
		pod("free"), pod("online", label(spec.LabelQoS, string(spec.QoSShared)), annotation(spec.AnnotationPool, "ads")),
		pod("bound", scheduler(spec.DefaultSchedulerName), label(spec.LabelQoS, string(spec.QoSDedicated)), annotation(spec.AnnotationNUMA, spec.NUMABound)),
		pod("katalyst", annotation(spec.AnnotationKatalystQoS, string(spec.QoSShared))),
		pod("busy", main("cpu=1")), pod("lent", main("=cpu=1 memory=1G"), label(spec.LabelQoS, string(spec.QoSReclaimed))),
		pod("wired", asks(extendedNIC, "1")), pod("gpu", scheduler(spec.DefaultSchedulerName), gpus("1")), pod("placed", scheduler(spec.DefaultSchedulerName), gpus("2")),
	} {
		if err := create(ctx, both, p); err != nil {
			return fmt.Errorf("create %s: %w", p.Name, err)
		}
	}
	placed := bindingOf("placed", annotation(spec.AnnotationNUMANodes, "0:8/4096Mi"), annotation(spec.AnnotationGPUs, "0,1"))
	if err := hilbertd.CoreV1().Pods(both).Bind(ctx, placed, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind as hilbertd: %w", err)
	}
	got, err := admin.CoreV1().Pods(both).Get(ctx, "placed", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got.Spec.NodeName != "n1" || got.Annotations[spec.AnnotationNUMANodes] != "0:8/4096Mi" || got.Annotations[spec.AnnotationGPUs] != "0,1" ||
		got.Annotations[requiredPlugins] != agentRequired {
		return fmt.Errorf("placed: node %q, annotations %v", got.Spec.NodeName, got.Annotations)
	}
	return nil
}

// poll tries until there is no error.
func poll(ctx context.Context, patience time.Duration, try func() error) error {
	err := try()
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end) && ctx.Err() == nil; err = try() {
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// part is something that a pod or a Binding says.
type part func(meta *metav1.ObjectMeta, pod *corev1.PodSpec)

func label(key, value string) part {
	return func(meta *metav1.ObjectMeta, _ *corev1.PodSpec) { set(&meta.Labels, key, value) }
}

func annotation(key, value string) part {
	return func(meta *metav1.ObjectMeta, _ *corev1.PodSpec) { set(&meta.Annotations, key, value) }
}

func set(to *map[string]string, key, value string) {
	if *to == nil {
		*to = make(map[string]string)
	}
	(*to)[key] = value
}

func scheduler(name string) part {
	return func(_ *metav1.ObjectMeta, pod *corev1.PodSpec) { pod.SchedulerName = name }
}

func onNode(name string) part {
	return func(_ *metav1.ObjectMeta, pod *corev1.PodSpec) { pod.NodeName = name }
}

func gpus(amount string) part { return asks(spec.ResourceNvidiaGPU, amount) }

func asks(name corev1.ResourceName, amount string) part {
	return func(_ *metav1.ObjectMeta, pod *corev1.PodSpec) {
		pod.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse(amount)}
	}
}

// initAsks is the same for an init container.
func initAsks(name corev1.ResourceName, amount string) part {
	return func(_ *metav1.ObjectMeta, pod *corev1.PodSpec) {
		pod.InitContainers = []corev1.Container{{Name: "first", Image: "x", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{name: resource.MustParse(amount)},
		}}}
	}
}

func pod(name string, parts ...part) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "x", Resources: corev1.ResourceRequirements{},
	}}}}
	for _, say := range parts {
		say(&p.ObjectMeta, &p.Spec)
	}
	return p
}

func bindingOf(name string, parts ...part) *corev1.Binding {
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
	for _, say := range parts {
		say(&b.ObjectMeta, nil)
	}
	return b
}

func create(ctx context.Context, namespace string, p *corev1.Pod) error {
	_, err := admin.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
	return err
}

func dryCreate(ctx context.Context, user kubernetes.Interface, namespace string, p *corev1.Pod) error {
	_, err := user.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// saysRequired creates a pod, dry, and looks at what it then says of required plugins.
func saysRequired(ctx context.Context, user kubernetes.Interface, namespace string, p *corev1.Pod, want string) error {
	got, err := user.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil && got.Annotations[requiredPlugins] != want {
		return fmt.Errorf("%s is %q, want %q", requiredPlugins, got.Annotations[requiredPlugins], want)
	}
	return err
}

// update changes a pod of the stock, dry.
func update(user kubernetes.Interface, namespace, name string, change func(*corev1.Pod)) func(context.Context) error {
	return func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(p)
		_, err = user.CoreV1().Pods(namespace).Update(ctx, p, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
}

func bindDry(ctx context.Context, user kubernetes.Interface, namespace, name string, b *corev1.Binding) error {
	return user.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(name).SubResource("binding").
		Param("dryRun", metav1.DryRunAll).Body(b).Do(ctx).Error()
}

// verdict says what is wrong with an answer: nil where the request was refused with these words, or, without words, taken.
func verdict(err error, refused string) error {
	var status apierrors.APIStatus
	switch {
	case refused == "" && err == nil:
		return nil
	case refused == "":
		return fmt.Errorf("refused: %w", err)
	case err == nil:
		return fmt.Errorf("taken; want it refused with %q", refused)
	case !errors.As(err, &status) || !strings.Contains(err.Error(), refused) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'hilbert-"):
		return fmt.Errorf("got %w; want it refused by a policy with %q", err, refused)
	}
	return nil
}

func object(t *testing.T, document []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(document, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
