package controlplane

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/lab/apart"
)

// patience bounds every wait; it is no measure of speed.
const patience = 60 * time.Second

func start(t *testing.T, o Options) *ControlPlane {
	t.Helper()
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("not within %s: %s", patience, what)
}

// TestRestart: a kept directory brings data and identities back, a temporary one is gone, and a stopped plane leaves no port open
// and no pile of goroutines.
func TestRestart(t *testing.T) {
	address, err := apart.FreeAddress() // a port that is free after the restart as well
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := start(t, Options{Dir: dir, Port: number})
	admin := client(t, c.AdminConfig())
	if _, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "v"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "sub", "kubeconfig")
	if err := c.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by another lab") {
		t.Errorf("a second plane on the same directory: got %v", err)
	}
	stop(t, c)
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Errorf("%s still answers after Stop", address)
	}
	afterFirst := settledGoroutines()

	c = start(t, Options{Dir: dir, Port: number})
	// The kubeconfig of before the restart still works: same CA, same port.
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := client(t, config).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || kept.Data["k"] != "v" {
		t.Errorf("data after the restart: %v, %v", kept, err)
	}
	if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig is readable by others: %v, %v", info.Mode(), err)
	}
	stop(t, c)
	// Upstream leaves some goroutines of process-wide parts behind on the first start; a second start must not add as many again.
	if leaked := settledGoroutines() - afterFirst; leaked > 25 {
		buffer := make([]byte, 1<<20)
		t.Errorf("%d goroutines more after the second start and stop\n%s", leaked, buffer[:runtime.Stack(buffer, true)])
	}
}

// settledGoroutines counts goroutines once their number no longer falls.
func settledGoroutines() int {
	last := runtime.NumGoroutine()
	for quiet := 0; quiet < 10; {
		time.Sleep(100 * time.Millisecond)
		now := runtime.NumGoroutine()
		if now < last {
			quiet = 0
		} else {
			quiet++
		}
		last = now
	}
	return last
}

// TestSecurity: TLS with the lab's CA only, nobody anonymous, and RBAC decides for a user's certificate.
func TestSecurity(t *testing.T) {
	c := start(t, Options{})
	dir := c.Dir()
	for _, config := range []*rest.Config{
		{Host: c.AdminConfig().Host, TLSClientConfig: rest.TLSClientConfig{CAData: c.AdminConfig().CAData}},
	} {
		_, err := client(t, config).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			t.Errorf("anonymous list: got %v, want unauthorized", err)
		}
	}
	if response, err := http.Get(c.AdminConfig().Host + "/readyz"); err == nil {
		_ = response.Body.Close()
		t.Error("a client that does not know the CA could connect")
	}

	path := filepath.Join(t.TempDir(), "user.kubeconfig")
	if err := c.UserKubeconfig(path, "system:hilbert", "schedulers"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	user := client(t, config)
	if _, err := user.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list without a role: got %v, want forbidden", err)
	}
	admin := client(t, c.AdminConfig())
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "schedulers"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "schedulers"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kube-scheduler"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role is granted", func() bool {
		_, err := user.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	if _, err := user.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list of secrets: got %v, want forbidden", err)
	}
	own := filepath.Join(t.TempDir(), "config")
	const theirs = "apiVersion: v1\nkind: Config\nclusters:\n- name: production\n  cluster: {server: 'https://example.com'}\n"
	if err := os.WriteFile(own, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteKubeconfig(own); err == nil || !strings.Contains(err.Error(), "production") {
		t.Errorf("overwrite of a foreign kubeconfig: got %v", err)
	}
	if err := c.WriteKubeconfig(path); err != nil {
		t.Errorf("overwrite of a lab's kubeconfig: %v", err)
	}
	stop(t, c)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary directory %s after Stop: %v", dir, err)
	}
}

// TestControllers: a Deployment gets its pods, and they go with it.
func TestControllers(t *testing.T) {
	c := start(t, Options{Controllers: true})
	admin := client(t, c.AdminConfig())
	replicas, labels := int32(3), map[string]string{"app": "web"}
	_, err := admin.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{SchedulerName: "hilbert", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := func() int {
		list, err := admin.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	eventually(t, "three pods", func() bool { return pods() == 3 })
	background := metav1.DeletePropagationBackground
	if err := admin.AppsV1().Deployments("default").Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no pods", func() bool { return pods() == 0 })
	select {
	case err := <-c.Failed():
		t.Errorf("a part died: %v", err)
	default:
	}
}

// TestFullStore: an etcd without space is told as such, once, and the plane still stops.
func TestFullStore(t *testing.T) {
	c := start(t, Options{EtcdQuotaBytes: 16 << 20})
	admin := client(t, c.AdminConfig())
	filling := true
	for i := 0; filling; i++ {
		_, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "ballast-"},
			BinaryData: map[string][]byte{"b": make([]byte, 512<<10)},
		}, metav1.CreateOptions{})
		filling = err == nil
		if i > 100 {
			t.Fatal("the quota was never enforced")
		}
	}
	select {
	case err := <-c.Failed():
		if !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "16 MiB") {
			t.Errorf("failure: got %v, want ErrNoSpace that names the quota", err)
		}
	case <-time.After(patience):
		t.Fatal("the failure was never told")
	}
}

func TestBadOptions(t *testing.T) {
	taken, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(broken, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.crt", "ca.key"} {
		if err := os.WriteFile(filepath.Join(broken, "pki", name), []byte("no"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"port in use":               {Options{Port: taken.Addr().(*net.TCPAddr).Port}, "is in use"},
		"directory is below a file": {Options{Dir: filepath.Join(file, "data")}, "cannot be made"},
		"CA is no PEM":              {Options{Dir: broken}, "not PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Start(t.Context(), test.options)
			if err == nil {
				stop(t, c)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// TestNeverReady: an API server without its etcd is given up within the caller's time, and the error says what was missing.
func TestNeverReady(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, enough)
	defer cancel()
	c, err := Start(ctx, Options{Etcd: "unix:///nonexistent/etcd.sock"})
	if err == nil {
		stop(t, c)
	}
	if !errors.Is(err, enough) || !strings.Contains(err.Error(), "etcd at unix:///nonexistent/etcd.sock does not answer") {
		t.Errorf("got %v, want the caller's cause and the etcd that is missing", err)
	}
}
