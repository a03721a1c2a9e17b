package requests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/requests/master"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
)

const (
	// patience bounds every wait; it is no measure of speed.
	patience = 4 * time.Minute
	own      = "hilbert-system"
	nodes    = 4
)

// bed is a cluster with Hilbert's kinds, policies and roles, a scheduler that leads, and nodes without kubelets.
type bed struct {
	t     *testing.T
	plane *controlplane.ControlPlane
	admin kubernetes.Interface
	dir   string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Controllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := plane.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	admin, err := kubernetes.NewForConfig(plane.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, plane: plane, admin: admin, dir: t.TempDir()}
	const deploy = "../../deploy/"
	err = errors.Join(
		plane.InstallAccess(t.Context(), deploy+"00-namespace.yaml", deploy+"rbac.yaml", deploy+"controller/controller.yaml", deploy+"controller/requests.yaml"),
		plane.InstallDefinitions(t.Context()), plane.InstallPolicies(t.Context()),
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for role, user := range map[string]string{"edit": "master", "view": "viewer"} {
		if _, err := admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	shapes := make([]hollow.Shape, nodes)
	for i := range shapes {
		shapes[i] = hollow.Shape{Name: fmt.Sprintf("n%d", i), Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}}
	}
	fleet, err := hollow.Run(t.Context(), plane.AdminConfig(), shapes, hollow.Options{Frozen: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Stop)
	b.start("scheduler", "hilbertd", b.configuration("hilbert"))
	return b
}

// as is a connection of a user.
func (b *bed) as(user string) *apiserver.Connection {
	b.t.Helper()
	path := filepath.Join(b.dir, filepath.Base(user)+".kubeconfig")
	if err := b.plane.UserKubeconfig(path, user); err != nil {
		b.t.Fatal(err)
	}
	connection, err := apiserver.Connect(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return connection
}

func (b *bed) configuration(leaseName string) *spec.Configuration {
	config := spec.Default()
	config.LeaderElection.Namespace, config.LeaderElection.Name = own, leaseName
	config.LeaderElection.LeaseDuration, config.LeaderElection.RenewDeadline = spec.Duration(15*time.Second), spec.Duration(10*time.Second)
	config.LeaderElection.RetryPeriod = spec.Duration(200 * time.Millisecond)
	config.Server.BindAddress = "-"
	return config
}

// controller starts a hilbertd that answers ResourceRequests.
func (b *bed) controller(name string) *process {
	config := b.configuration("hilbert-controller")
	config.Roles = []spec.Role{spec.RoleController}
	config.Controller.Requests.Enabled = true
	return b.start(name, "hilbert-controller", config)
}

type process struct {
	cancel context.CancelFunc
	ended  chan error
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	p.cancel()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
}

func (b *bed) start(name, account string, config *spec.Configuration) *process {
	b.t.Helper()
	out, err := os.Create(filepath.Join(b.dir, name+".log"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := out.Close(); err != nil {
			b.t.Error(err)
		}
		if text, err := os.ReadFile(out.Name()); b.t.Failed() {
			b.t.Logf("%s said (%v):\n%s", name, err, text)
		}
	})
	ctx, cancel := context.WithCancel(b.t.Context())
	p := &process{cancel: cancel, ended: make(chan error, 1)}
	log, connection := slog.New(slog.NewTextHandler(out, nil)), b.as("system:serviceaccount:"+own+":"+account)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.ended <- daemon.Run(ctx, config, daemon.Options{Connection: connection, Log: log})
	}()
	b.t.Cleanup(func() { // before its log is closed
		cancel()
		<-done
	})
	return p
}

func (b *bed) master(request string) *master.Client { return b.masterAs("master", request) }

func (b *bed) masterAs(user, request string) *master.Client {
	b.t.Helper()
	c, err := master.New(b.as(user), namespace, request)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// until waits until what is asked for is so.
func (b *bed) until(what string, ask func() error) {
	b.t.Helper()
	err := errors.New("not asked")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	b.t.Fatalf("%s: not so within %s: %v", what, patience, err)
}

// seen reads a request once.
func (b *bed) seen(name string) (out *v1alpha1.ResourceRequest, err error) {
	err = b.master(name).Watch(b.t.Context(), func(r *v1alpha1.ResourceRequest) (bool, error) {
		out = r
		return true, nil
	})
	return out, err
}

func (b *bed) counted(name string, least int32) error {
	r, err := b.seen(name)
	if err == nil && r.Status.Succeeded < least {
		err = fmt.Errorf("%d have succeeded", r.Status.Succeeded)
	}
	return err
}

// podOf is the name of the pod of a part.
func (b *bed) podOf(index int) string {
	b.t.Helper()
	r, err := b.seen("words")
	if err != nil {
		b.t.Fatal(err)
	}
	return request.NameOf(&request.Request{Key: request.Key{Namespace: namespace, Name: "words"}, UID: string(r.UID)}, "parts", index)
}

// kubelets run the pods of all nodes: each pod by a call of run, which says how it ends.
type kubelets struct {
	b     *bed
	run   func(*corev1.Pod) (message string, ends, fails bool)
	twice atomic.Value // a container that had two pods at once

	mu    sync.Mutex
	began map[types.UID]bool
	of    map[string]types.UID // the pod that a container has, by its name
}

func (b *bed) kubelets(run func(*corev1.Pod) (string, bool, bool)) *kubelets {
	k := &kubelets{b: b, run: run, began: make(map[types.UID]bool), of: make(map[string]types.UID)}
	k.twice.Store("")
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			k.watch(ctx)
		}
	}()
	b.t.Cleanup(func() {
		cancel()
		<-done
	})
	return k
}

func (k *kubelets) watch(ctx context.Context) {
	w, err := k.b.admin.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return
		}
		k.see(ctx, event.Type, pod)
	}
}

func (k *kubelets) see(ctx context.Context, what watch.EventType, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	container := pod.Labels[spec.LabelAsk] + " " + pod.Annotations[spec.AnnotationAskIndex]
	if what == watch.Deleted {
		if k.of[container] == pod.UID {
			delete(k.of, container)
		}
		return
	}
	if other := k.of[container]; other != "" && other != pod.UID {
		k.twice.Store(container)
	}
	k.of[container] = pod.UID
	switch {
	case pod.DeletionTimestamp != nil:
		now := int64(0)
		_ = k.b.admin.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	case pod.Spec.NodeName != "" && !k.began[pod.UID]:
		k.began[pod.UID] = true
		k.begin(ctx, pod.DeepCopy())
	}
}

func (k *kubelets) begin(ctx context.Context, pod *corev1.Pod) {
	message, ends, fails := k.run(pod)
	pod.Status.Phase = corev1.PodRunning
	status := corev1.ContainerStatus{Name: "worker"}
	if ends {
		status.State.Terminated = &corev1.ContainerStateTerminated{Message: message}
		if pod.Status.Phase = corev1.PodSucceeded; fails {
			pod.Status.Phase, status.State.Terminated.ExitCode, status.State.Terminated.Reason = corev1.PodFailed, 1, "Error"
		}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	for {
		_, err := k.b.admin.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		if err == nil || ctx.Err() != nil {
			return
		}
		fresh, err := k.b.admin.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || fresh.UID != pod.UID {
			return
		}
		fresh.Status.Phase, fresh.Status.ContainerStatuses = pod.Status.Phase, pod.Status.ContainerStatuses
		pod = fresh
	}
}
