package autoscale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/cmd/hilbertd/reports"
	"hilbert.dev/hilbert/control/metrics"
	manifest "hilbert.dev/hilbert/deploy/metrics"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/lab/apart"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
)

const (
	// patience bounds every wait; it is no measure of speed.
	patience    = 3 * time.Minute
	pause       = 200 * time.Millisecond
	own         = "hilbert-system"
	serviceName = "hilbert-metrics." + own + ".svc"
)

// bed is a cluster with autoscalers, hollow nodes and the role's account and certificate.
type bed struct {
	t     *testing.T
	plane *controlplane.ControlPlane
	admin kubernetes.Interface
	dir   string
	port  int // of hilbertd, the same after it was started again
	stop  func()

	mu   sync.Mutex
	read map[metrics.Metric]float64 // what agents read of each pod
	mute bool
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func newBed(t *testing.T) *bed {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Controllers: true, Autoscaling: true})
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
	b := &bed{t: t, plane: plane, dir: t.TempDir(), read: make(map[metrics.Metric]float64)}
	b.admin, err = kubernetes.NewForConfig(plane.AdminConfig())
	b.must(err)
	b.must(plane.InstallAccess(t.Context(), "../../deploy/00-namespace.yaml", "../../deploy/metrics/metrics.yaml"))
	b.must(plane.RouteToLocalhost(t.Context(), own, "hilbert-metrics"))
	certificate, key, err := visibility.MakeCertificate(serviceName, time.Now(), time.Hour)
	b.must(errors.Join(err, os.WriteFile(filepath.Join(b.dir, "tls.crt"), certificate, 0o600), os.WriteFile(filepath.Join(b.dir, "tls.key"), key, 0o600)))
	address, err := apart.FreeAddress()
	b.must(err)
	b.port = int(netip.MustParseAddrPort(address).Port())
	shapes := []hollow.Shape{}
	for _, name := range []string{"n0", "n1"} {
		shapes = append(shapes, hollow.Shape{Name: name, Labels: map[string]string{corev1.LabelHostname: name}, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("200"),
		}})
	}
	fleet, err := hollow.Run(t.Context(), plane.AdminConfig(), shapes, hollow.Options{})
	b.must(err)
	t.Cleanup(fleet.Stop)
	return b
}

// route creates the APIServices, which lead to hilbertd's port.
func (b *bed) route() {
	b.t.Helper()
	certificate, err := os.ReadFile(filepath.Join(b.dir, "tls.crt"))
	b.must(err)
	b.must(b.plane.InstallAPIServices(b.t.Context(), manifest.APIServices, b.port, certificate))
}

// start runs the role metrics as deploy/metrics does, with shorter times.
func (b *bed) start(peaks ...spec.PlannedPeak) {
	b.t.Helper()
	kubeconfig := filepath.Join(b.dir, "hilbertd.kubeconfig")
	b.must(b.plane.UserKubeconfig(kubeconfig, "system:serviceaccount:"+own+":hilbert-metrics"))
	connection, err := apiserver.Connect(kubeconfig)
	b.must(err)
	c := spec.New()
	c.Roles = []spec.Role{spec.RoleMetrics}
	c.Server = spec.Server{
		BindAddress: fmt.Sprintf("127.0.0.1:%d", b.port), TLSCertFile: filepath.Join(b.dir, "tls.crt"), TLSPrivateKeyFile: filepath.Join(b.dir, "tls.key"),
	}
	c.Metrics.StaleAfter, c.Metrics.Peaks = spec.Duration(10*time.Second), peaks
	spec.Complete(c)
	ctx, cancel := context.WithCancel(context.Background())
	ended, listening := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- daemon.Run(ctx, c, daemon.Options{Connection: connection, Log: slog.New(slog.DiscardHandler), OnListen: func(at string) { listening <- at }})
	}()
	select {
	case <-listening:
	case err := <-ended:
		b.t.Fatalf("hilbertd did not start: %v", err)
	}
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(b.stop)
}

// agent runs an agent's sender on a node: with the token of a pod there, and readings of the node's pods each second.
func (b *bed) agent(node string) {
	b.t.Helper()
	accounts, pods := b.admin.CoreV1().ServiceAccounts(own), b.admin.CoreV1().Pods(own)
	if _, err := accounts.Get(b.t.Context(), "hilbert-agent", metav1.GetOptions{}); err != nil {
		_, err = accounts.Create(b.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "hilbert-agent"}}, metav1.CreateOptions{})
		b.must(err)
	}
	pod, err := pods.Create(b.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent-" + node},
		Spec:       corev1.PodSpec{ServiceAccountName: "hilbert-agent", NodeName: node, Containers: []corev1.Container{{Name: "agent", Image: "agent"}}},
	}, metav1.CreateOptions{})
	b.must(err)
	made, err := accounts.CreateToken(b.t.Context(), "hilbert-agent", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{spec.MetricsAudience}, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}, metav1.CreateOptions{})
	b.must(err)
	token := filepath.Join(b.dir, node+".token")
	b.must(os.WriteFile(token, []byte(made.Status.Token), 0o600))
	sender := reports.NewSender(spec.NodeMetrics{
		Address: fmt.Sprintf("127.0.0.1:%d", b.port), CAFile: filepath.Join(b.dir, "tls.crt"), ServerName: serviceName, TokenFile: token, Interval: spec.Duration(2 * time.Second),
	}, node, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { sender.Run(ctx) })
	both.Go(func() { b.observe(ctx, node, sender) })
	b.t.Cleanup(func() { cancel(); both.Wait() })
}

// observe reads what the pods of a node use, as the test says, until ctx ends.
func (b *bed) observe(ctx context.Context, node string, to *reports.Sender) {
	for ctx.Err() == nil {
		list, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		b.mu.Lock()
		if err == nil && !b.mute {
			for i := range list.Items {
				p := &list.Items[i]
				for m, value := range b.read {
					to.See(spec.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}, m, value, time.Now())
				}
			}
		}
		b.mu.Unlock()
		time.Sleep(pause)
	}
}

// say sets what agents read of each pod.
func (b *bed) say(read map[metrics.Metric]float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read, b.mute = read, false
}

// silence has agents read nothing any more.
func (b *bed) silence() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mute = true
}

// eventually returns when check has no error.
func (b *bed) eventually(what string, check func() error) {
	b.t.Helper()
	begin := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(begin) > patience {
			b.t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		time.Sleep(pause)
	}
}

// autoscaler is the HorizontalPodAutoscaler of a Deployment as it is now.
func (b *bed) autoscaler(name string) *autoscalingv2.HorizontalPodAutoscaler {
	b.t.Helper()
	h, err := b.admin.AutoscalingV2().HorizontalPodAutoscalers(metav1.NamespaceDefault).Get(b.t.Context(), name, metav1.GetOptions{})
	b.must(err)
	return h
}

func (b *bed) replicas(name string) int32 {
	b.t.Helper()
	d, err := b.admin.AppsV1().Deployments(metav1.NamespaceDefault).Get(b.t.Context(), name, metav1.GetOptions{})
	b.must(err)
	return *d.Spec.Replicas
}
