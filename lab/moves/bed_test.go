package moves

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

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
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Controllers: true, EvictionRequests: true})
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
		plane.InstallAccess(t.Context(), deploy+"00-namespace.yaml", deploy+"rbac.yaml", deploy+"controller/controller.yaml", deploy+"controller/advise.yaml", deploy+"controller/moves.yaml", deploy+"controller/eviction-requests.yaml"),
		plane.InstallDefinitions(t.Context()), plane.InstallPolicies(t.Context()),
	)
	if err != nil {
		t.Fatal(err)
	}
	b.scheduler()
	return b
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
	if err := b.plane.RouteToLocalhost(t.Context(), own, "hilbertd"); err != nil {
		t.Fatal(err)
	}
	config := b.configuration("hilbert")
	config.Server = spec.Server{BindAddress: "127.0.0.1:0", TLSCertFile: filepath.Join(b.dir, "tls.crt"), TLSPrivateKeyFile: filepath.Join(b.dir, "tls.key")}
	listening := make(chan string, 1)
	b.start("scheduler", "hilbertd", config, func(address string) { listening <- address })
	_, text, err := net.SplitHostPort(<-listening)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.plane.InstallAPIServices(t.Context(), manifest.APIService, port, certificate); err != nil {
		t.Fatal(err)
	}
	b.until("the APIService answers", func() error {
		return b.admin.Discovery().RESTClient().Get().AbsPath("/apis/visibility.hilbert.dev/v1alpha1").Do(t.Context()).Error()
	})
}

// controller starts a hilbertd that moves pods.
func (b *bed) controller(name string, changes ...func(*spec.Rescheduling)) *process {
	config := b.configuration("hilbert-controller")
	config.Roles, config.Server.BindAddress = []spec.Role{spec.RoleController}, "-"
	r := &config.Rescheduling
	r.Mode, r.Interval, r.MinAge, r.WorkloadCooldown = spec.ReschedulingAuto, spec.Duration(time.Second), 0, 0
	r.MaxInFlight, r.MaxMoves = 64, 64
	for _, change := range changes {
		change(r)
	}
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
