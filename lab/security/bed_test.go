package security

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/lab/controlplane"
)

const (
	// system is where Hilbert runs; ours and theirs are the namespaces of two tenants.
	system, ours, theirs = "hilbert-system", "ours", "theirs"
	// patience bounds every wait; it is no measure of speed.
	patience = 90 * time.Second
	poll     = 20 * time.Millisecond
)

// bed is the cluster under attack, and who attacks it.
type bed struct {
	plane    *controlplane.ControlPlane
	auditLog string
	admin    kubernetes.Interface
	agent    kubernetes.Interface // of node n1
	kubelet  kubernetes.Interface // of node n1
	tenant   kubernetes.Interface // may edit the namespace ours
	hilbertd *rest.Config
}

var cluster bed

func TestMain(m *testing.M) {
	flag.Parse()
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
	dir, err := os.MkdirTemp("", "hilbert-security-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	b := &cluster
	b.auditLog = filepath.Join(dir, "audit.log")
	if b.plane, err = controlplane.Start(ctx, controlplane.Options{Controllers: true, NodeRestriction: true, AuditLog: b.auditLog}); err != nil {
		return 1, err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = errors.Join(err, b.plane.Stop(stopping))
	}()
	if err := b.prepare(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// prepare installs what deploy/ has of rules, two nodes with a pod each, and the users.
func (b *bed) prepare(ctx context.Context) (err error) {
	if b.admin, err = kubernetes.NewForConfig(b.plane.AdminConfig()); err != nil {
		return err
	}
	if err := b.plane.InstallDefinitions(ctx); err != nil {
		return err
	}
	if err := b.deploy(ctx); err != nil {
		return err
	}
	for _, name := range []string{ours, theirs} {
		if _, err := b.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, name := range []string{"n1", "n2"} {
		if err := b.addNode(ctx, name); err != nil {
			return err
		}
	}
	if err := b.users(ctx); err != nil {
		return err
	}
	if err := b.plane.InstallPolicies(ctx); err != nil {
		return err
	}
	return b.stock(ctx)
}

// deploy installs the namespace, accounts and roles of deploy/, and none of the workloads.
func (b *bed) deploy(ctx context.Context) error {
	objects, err := manifests()
	if err != nil {
		return err
	}
	create := metav1.CreateOptions{}
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Namespace:
			_, err = b.admin.CoreV1().Namespaces().Create(ctx, o, create)
		case *corev1.ServiceAccount:
			_, err = b.admin.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, create)
		case *rbacv1.ClusterRole:
			_, err = b.admin.RbacV1().ClusterRoles().Create(ctx, o, create)
		case *rbacv1.ClusterRoleBinding:
			_, err = b.admin.RbacV1().ClusterRoleBindings().Create(ctx, o, create)
		case *rbacv1.Role:
			_, err = b.admin.RbacV1().Roles(o.Namespace).Create(ctx, o, create)
		case *rbacv1.RoleBinding:
			_, err = b.admin.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, create)
		}
		if err != nil {
			return fmt.Errorf("deploy/: %w", err)
		}
	}
	return nil
}

func (b *bed) addNode(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if _, err := b.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
	node.Status = corev1.NodeStatus{
		Capacity: amounts, Allocatable: amounts, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	_, err := b.admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// users makes their credentials.
func (b *bed) users(ctx context.Context) (err error) {
	agent, err := b.tokenOf(ctx, system, "hilbert-agent", "n1")
	if err != nil {
		return err
	}
	if b.hilbertd, err = b.tokenOf(ctx, system, "hilbertd", "n2"); err != nil {
		return err
	}
	if _, err := b.admin.CoreV1().ServiceAccounts(ours).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "ann"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := b.admin.RbacV1().RoleBindings(ours).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "edit"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ours, Name: "ann"}},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	tenant, err := b.tokenOf(ctx, ours, "ann", "")
	if err != nil {
		return err
	}
	kubeconfig, err := b.plane.KubeconfigAt("127.0.0.1", "system:node:n1", "system:nodes")
	if err != nil {
		return err
	}
	kubelet, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return err
	}
	for _, u := range []struct {
		to   *kubernetes.Interface
		from *rest.Config
	}{{&b.agent, agent}, {&b.kubelet, kubelet}, {&b.tenant, tenant}} {
		if *u.to, err = kubernetes.NewForConfig(u.from); err != nil {
			return err
		}
	}
	return nil
}

// tokenOf has the API server issue a token for a pod of this account, on this node if one is named.
func (b *bed) tokenOf(ctx context.Context, namespace, account, node string) (*rest.Config, error) {
	p := pod(strings.TrimSuffix(account+"-"+node, "-"))
	p.Spec.ServiceAccountName, p.Spec.NodeName = account, node
	made, err := b.admin.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("pod of %s: %w", account, err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: made.Name, UID: made.UID},
	}}
	got, err := b.admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of %s: %w", account, err)
	}
	config := b.plane.AdminConfig()
	config.BearerToken = got.Status.Token
	return config, nil
}

// stock makes what is attacked: pods of the other tenant on both nodes, their Secret, and the reports of both nodes.
func (b *bed) stock(ctx context.Context) error {
	for _, node := range []string{"n1", "n2"} {
		p := pod("on-" + node)
		p.Spec.NodeName = node
		if _, err := b.admin.CoreV1().Pods(theirs).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := send(ctx, b.admin, "POST", nodesPath, report(node)); err != nil {
			return err
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password"}}
	_, err := b.admin.CoreV1().Secrets(theirs).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		// Nobody places it, unless a test starts hilbertd.
		SchedulerName: "nobody", Containers: []corev1.Container{{Name: "main", Image: "x"}},
	}}
}

const (
	nodesPath  = "/apis/node.hilbert.dev/v1alpha1/customnoderesources"
	queuesPath = "/apis/scheduling.hilbert.dev/v1alpha1/queues"
)

// report is a CustomNodeResource.
func report(node string) string {
	return fmt.Sprintf(`{"apiVersion":"node.hilbert.dev/v1alpha1","kind":"CustomNodeResource","metadata":{"name":%q}}`, node)
}

// send makes a request with a body of JSON, dry where query says so: "dryRun=All".
func send(ctx context.Context, user kubernetes.Interface, verb, path, body string, query ...string) error {
	kind := "application/json"
	if verb == "PATCH" {
		kind = "application/merge-patch+json"
	}
	r := user.Discovery().RESTClient().Verb(verb).AbsPath(path).SetHeader("Content-Type", kind).SetHeader("Accept", "application/json")
	for _, q := range query {
		key, value, _ := strings.Cut(q, "=")
		r = r.Param(key, value)
	}
	return r.Body([]byte(body)).Do(ctx).Error()
}

// until tries until there is no error, and returns the last one.
func until(ctx context.Context, try func() error) error {
	err := try()
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end) && ctx.Err() == nil; err = try() {
		time.Sleep(poll)
	}
	return err
}

// attempt is something that its user must not be able to do.
type attempt struct {
	name string
	try  func(context.Context) error
	// words are in the refusal.
	words string
	// without makes the attempt succeed and returns what restores the rule: a grant, or a policy less. It proves that it was this rule that refused it.
	without func(context.Context) (restore func(context.Context) error, err error)
}

// refused checks that an attempt is refused for the right reason.
func (a *attempt) refused(ctx context.Context) error {
	err := a.try(ctx)
	if err == nil {
		return errors.New("it was allowed")
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), a.words) {
		return fmt.Errorf("want it refused with %q, got %w", a.words, err)
	}
	return nil
}

// refuseEach runs all attempts, each with and without its rule.
func refuseEach(t *testing.T, attempts []attempt) {
	t.Helper()
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			ctx := t.Context()
			if err := until(ctx, func() error { return a.refused(ctx) }); err != nil { // a policy is in force about a second after it is made
				t.Fatal(err)
			}
			restore, err := a.without(ctx)
			if err != nil {
				t.Fatal(err)
			}
			open := until(ctx, func() error { return a.try(ctx) })
			if err := restore(ctx); err != nil {
				t.Fatal(err)
			}
			if open != nil {
				t.Errorf("without the rule it fails too: %v", open)
			}
			if err := until(ctx, func() error { return a.refused(ctx) }); err != nil {
				t.Errorf("after the rule was put back: %v", err)
			}
		})
	}
}

// granted gives an account a verb that it does not have.
func (b *bed) granted(subject rbacv1.Subject, group, resource string, verbs ...string) func(context.Context) (func(context.Context) error, error) {
	return func(ctx context.Context) (func(context.Context) error, error) {
		meta := metav1.ObjectMeta{Name: "loosened"}
		rules := []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}}
		roles, bindings := b.admin.RbacV1().ClusterRoles(), b.admin.RbacV1().ClusterRoleBindings()
		if _, err := roles.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		restore := func(ctx context.Context) error {
			return errors.Join(bindings.Delete(ctx, meta.Name, metav1.DeleteOptions{}), roles.Delete(ctx, meta.Name, metav1.DeleteOptions{}))
		}
		_, err := bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}, Subjects: []rbacv1.Subject{subject},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, errors.Join(err, roles.Delete(ctx, meta.Name, metav1.DeleteOptions{}))
		}
		return restore, nil
	}
}

// withoutPolicies takes admission policies out of force.
func (b *bed) withoutPolicies(names ...string) func(context.Context) (func(context.Context) error, error) {
	return func(ctx context.Context) (func(context.Context) error, error) {
		bindings := b.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
		restore := func(ctx context.Context) error { return b.plane.InstallPolicies(ctx) }
		for _, name := range names {
			if err := bindings.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return nil, errors.Join(err, restore(ctx))
			}
		}
		return restore, nil
	}
}

// all applies several.
func all(withouts ...func(context.Context) (func(context.Context) error, error)) func(context.Context) (func(context.Context) error, error) {
	return func(ctx context.Context) (func(context.Context) error, error) {
		var undo []func(context.Context) error
		restore := func(ctx context.Context) error {
			var errs []error
			for _, u := range slices.Backward(undo) {
				errs = append(errs, u(ctx))
			}
			return errors.Join(errs...)
		}
		for _, without := range withouts {
			u, err := without(ctx)
			if err != nil {
				return nil, errors.Join(err, restore(ctx))
			}
			undo = append(undo, u)
		}
		return restore, nil
	}
}
