package moves

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	manifest "hilbert.dev/hilbert/deploy/visibility"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/lab/controlplane"
)

const (
	// patience bounds every wait; it is no measure of speed.
	patience    = 4 * time.Minute
	own         = "hilbert-system"
	serviceName = "hilbertd." + own + ".svc"
	apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"
)

// bed is a cluster with Hilbert's kinds, policies and roles, and a scheduler that leads and answers through the API server.
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
	for _, file := range []string{"00-namespace.yaml", "rbac.yaml", "controller/controller.yaml", "controller/advise.yaml", "controller/moves.yaml"} {
		b.apply(file)
	}
	if err := errors.Join(plane.InstallDefinitions(t.Context()), plane.InstallPolicies(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.scheduler()
	return b
}

// apply creates the roles and accounts of a file of deploy/.
func (b *bed) apply(file string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
	if err != nil {
		b.t.Fatal(err)
	}
	ctx := b.t.Context()
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			b.t.Fatal(err)
		}
		switch o := object.(type) {
		case *corev1.Namespace:
			_, err = b.admin.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
		case *corev1.ServiceAccount:
			_, err = b.admin.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRole:
			_, err = b.admin.RbacV1().ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = b.admin.RbacV1().ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.Role:
			_, err = b.admin.RbacV1().Roles(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = b.admin.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		}
		if err != nil {
			b.t.Fatalf("%s: %v", file, err)
		}
	}
}

// as is a connection of an account of hilbert-system.
func (b *bed) as(account string) *apiserver.Connection {
	b.t.Helper()
	path := filepath.Join(b.dir, account+".kubeconfig")
	if err := b.plane.UserKubeconfig(path, "system:serviceaccount:"+own+":"+account); err != nil {
		b.t.Fatal(err)
	}
	connection, err := apiserver.Connect(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return connection
}

// scheduler starts a hilbertd that leads, and the APIService through which it answers.
func (b *bed) scheduler() {
	t := b.t
	t.Helper()
	certificate, key, err := visibility.MakeCertificate(serviceName, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(b.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.admin.CoreV1().Services(own).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hilbertd"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := b.configuration("hilbert")
	config.Server = spec.Server{BindAddress: "127.0.0.1:0", TLSCertFile: filepath.Join(b.dir, "tls.crt"), TLSPrivateKeyFile: filepath.Join(b.dir, "tls.key")}
	listening := make(chan string, 1)
	b.start("scheduler", "hilbertd", config, func(address string) { listening <- address })
	_, port, err := net.SplitHostPort(<-listening)
	if err != nil {
		t.Fatal(err)
	}
	b.route(port, certificate)
}

// controller starts a hilbertd that moves pods.
func (b *bed) controller(name string) *process {
	config := b.configuration("hilbert-controller")
	config.Roles, config.Server.BindAddress = []spec.Role{spec.RoleController}, "-"
	r := &config.Rescheduling
	r.Mode, r.Interval, r.MinAge, r.WorkloadCooldown = spec.ReschedulingAuto, spec.Duration(time.Second), 0, 0
	r.MaxInFlight, r.MaxMoves = 64, 64
	config.Controller.Disturbances.PodsPerHour = 100_000
	return b.start(name, "hilbert-controller", config, nil)
}

func (b *bed) configuration(leaseName string) *spec.Configuration {
	config := spec.Default()
	config.LeaderElection.Namespace, config.LeaderElection.Name = own, leaseName
	config.LeaderElection.LeaseDuration, config.LeaderElection.RenewDeadline = spec.Duration(15*time.Second), spec.Duration(10*time.Second)
	config.LeaderElection.RetryPeriod = spec.Duration(200 * time.Millisecond)
	return config
}

func (b *bed) start(name, account string, config *spec.Configuration, listens func(string)) *process {
	ctx, cancel := context.WithCancel(b.t.Context())
	p := &process{cancel: cancel, ended: make(chan error, 1)}
	log, connection := b.log(name), b.as(account)
	go func() {
		p.ended <- daemon.Run(ctx, config, daemon.Options{Connection: connection, Log: log, OnListen: listens})
	}()
	b.t.Cleanup(cancel)
	return p
}

// route makes the APIService lead to a port, and waits until the API server follows it.
func (b *bed) route(port string, certificate []byte) {
	t := b.t
	t.Helper()
	text, err := yaml.ToJSON(manifest.APIService)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	of := object["spec"].(map[string]any)
	of["caBundle"] = certificate
	of["service"].(map[string]any)["port"] = json.Number(port)
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	api := b.admin.Discovery().RESTClient()
	if err := api.Post().AbsPath(apiServices).SetHeader("Content-Type", "application/json").Body(body).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	b.until("the APIService answers", func() error {
		return api.Get().AbsPath("/apis/visibility.hilbert.dev/v1alpha1").Do(t.Context()).Error()
	})
}

// until waits until what is asked for is so.
func (b *bed) until(what string, ask func() error) {
	b.t.Helper()
	err := errors.New("not asked")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	b.t.Fatalf("%s: not so within %s: %v", what, patience, fmt.Errorf("%w", err))
}
