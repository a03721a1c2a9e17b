package visibility

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/command"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	manifest "hilbert.dev/hilbert/deploy/visibility"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/lab/controlplane"
)

const (
	// patience bounds every wait; it is no measure of speed.
	patience = 90 * time.Second
	// own is hilbertd's namespace, and serviceName what its certificate is for.
	own         = "hilbert-system"
	serviceName = "hilbertd." + own + ".svc"
	apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"
	apiService  = apiServices + "/v1alpha1.visibility.hilbert.dev"
	group       = "/apis/visibility.hilbert.dev/v1alpha1"
)

// bed is a cluster with hilbertd's roles and certificate.
type bed struct {
	t        *testing.T
	plane    *controlplane.ControlPlane
	admin    kubernetes.Interface
	dir      string
	cert     []byte
	key      []byte
	hilbertd string // kubeconfig
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
	if err := plane.InstallAccess(t.Context(), "../../deploy/00-namespace.yaml", "../../deploy/rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	cert, key, err := visibility.MakeCertificate(serviceName, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	b.cert = cert
	b.key = key
	writeCertificate(t, b.dir, cert, key)
	b.hilbertd = b.user("system:serviceaccount:" + own + ":hilbertd")
	if err := plane.RouteToLocalhost(t.Context(), own, "hilbertd"); err != nil {
		t.Fatal(err)
	}
	return b
}

// writeCertificate puts what a replica serves with into a directory, as the kubelet does with a Secret.
func writeCertificate(t *testing.T, dir string, certificates, key []byte) {
	t.Helper()
	for name, data := range map[string][]byte{"tls.crt": certificates, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// user returns a kubeconfig with a client certificate for a user.
func (b *bed) user(name string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, strings.ReplaceAll(name, ":", "-")+".kubeconfig")
	if err := b.plane.UserKubeconfig(path, name); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// process is a hilbertd in this process.
type process struct {
	port   int
	cancel context.CancelFunc
	ended  chan error
}

// start starts a hilbertd as deploy/ does.
func (b *bed) start() *process {
	b.t.Helper()
	return b.startWith(b.dir)
}

// startWith starts one whose certificate is in a directory.
func (b *bed) startWith(dir string) *process {
	b.t.Helper()
	connection, err := apiserver.Connect(b.hilbertd)
	if err != nil {
		b.t.Fatal(err)
	}
	config := spec.Default()
	config.Server = spec.Server{BindAddress: "127.0.0.1:0", TLSCertFile: filepath.Join(dir, "tls.crt"), TLSPrivateKeyFile: filepath.Join(dir, "tls.key")}
	config.LeaderElection.Namespace = own
	config.LeaderElection.LeaseDuration, config.LeaderElection.RenewDeadline = spec.Duration(60*time.Second), spec.Duration(40*time.Second) // a busy machine is slow to renew
	config.LeaderElection.RetryPeriod = spec.Duration(200 * time.Millisecond)
	config.Scheduling.Binding.WriteTimeout = spec.Duration(10 * time.Second)
	ctx, cancel := context.WithCancel(b.t.Context())
	p := &process{cancel: cancel, ended: make(chan error, 1)}
	listening := make(chan string, 1)
	go func() {
		p.ended <- daemon.Run(ctx, config, daemon.Options{
			Connection: connection, Log: slog.New(slog.DiscardHandler), OnListen: func(address string) { listening <- address },
		})
	}()
	b.t.Cleanup(cancel)
	select {
	case address := <-listening:
		p.port = portOf(b.t, address)
	case err := <-p.ended:
		b.t.Fatalf("hilbertd did not start: %v", err)
	}
	return p
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	p.cancel()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
}

// route makes the APIService lead to a port, with a certificate that kube-apiserver is to demand there.
func (b *bed) route(port int, certificate []byte) {
	b.t.Helper()
	if err := b.plane.InstallAPIServices(b.t.Context(), manifest.APIService, port, certificate); err != nil {
		b.t.Fatal(err)
	}
}

// trust gives the APIService another caBundle.
func (b *bed) trust(certificates []byte) {
	b.t.Helper()
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": certificates}})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.admin.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(apiService).Body(body).Do(b.t.Context()).Error(); err != nil {
		b.t.Fatal(err)
	}
}

// eventually waits until something holds.
func (b *bed) eventually(what string, holds func() error) {
	b.t.Helper()
	err := errors.New("never tried")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	b.t.Fatalf("not within %s: %s: %v", patience, what, err)
}

// awaitAvailable waits until kube-apiserver says that the APIService answers.
func (b *bed) awaitAvailable() {
	b.t.Helper()
	b.eventually("the APIService is available", func() error {
		text, err := b.admin.Discovery().RESTClient().Get().AbsPath(apiService).SetHeader("Accept", "application/json").DoRaw(b.t.Context())
		if err != nil {
			return err
		}
		var object struct {
			Status struct{ Conditions []metav1.Condition }
		}
		if err := json.Unmarshal(text, &object); err != nil {
			return err
		}
		for _, c := range object.Status.Conditions {
			if c.Type == "Available" && c.Status == metav1.ConditionTrue {
				// kube-apiserver routes by its watch of APIServices, which may be behind what is stored.
				return b.admin.Discovery().RESTClient().Get().AbsPath("/apis/visibility.hilbert.dev/v1alpha1").Do(b.t.Context()).Error()
			}
		}
		return fmt.Errorf("%s", text)
	})
}

// asker is a user who asks kube-apiserver.
type asker struct{ client *http.Client }

func (b *bed) asker(config *rest.Config) *asker {
	b.t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		b.t.Fatal(err)
	}
	return &asker{client}
}

// withToken asks by a token of an account, which is made where there is none.
func (b *bed) withToken(namespace, account string) *asker {
	b.t.Helper()
	accounts := b.admin.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(b.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		b.t.Fatal(err)
	}
	made, err := accounts.CreateToken(b.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(b.plane.AdminConfig())
	config.BearerToken = made.Status.Token
	if err := os.WriteFile(filepath.Join(b.dir, account+".token"), []byte(made.Status.Token), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return b.asker(config)
}

// withCertificate asks by a client certificate.
func (b *bed) withCertificate(name string) *asker {
	b.t.Helper()
	config, err := apiserver.Connect(b.user(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return b.asker(config)
}

// hilbert runs the command line tool, with a kubeconfig.
func (b *bed) hilbert(kubeconfig string, args ...string) (out string, err error) {
	b.t.Helper()
	var buffer bytes.Buffer
	root := command.New()
	root.SetArgs(append(args, "--kubeconfig", kubeconfig))
	root.SetOut(&buffer)
	root.SetErr(&buffer)
	err = root.ExecuteContext(b.t.Context())
	return buffer.String(), err
}

// get asks kube-apiserver for a path.
func (b *bed) get(a *asker, path string, header http.Header) (code int, body string) {
	b.t.Helper()
	return fetch(b.t, a.client, b.plane.AdminConfig().Host+path, header)
}

// direct asks a hilbertd itself.
func (b *bed) direct(p *process, path string, header http.Header, certificates ...tls.Certificate) (code int, body string) {
	b.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, Certificates: certificates}, DisableKeepAlives: true,
	}}
	return fetch(b.t, client, "https://127.0.0.1:"+strconv.Itoa(p.port)+path, header)
}

func fetch(t *testing.T, client *http.Client, at string, header http.Header) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		request.Header = header
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// namespace makes a namespace.
func (b *bed) namespace(name string) {
	b.t.Helper()
	if _, err := b.admin.CoreV1().Namespaces().Create(b.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// bind gives a user a ClusterRole in a namespace, or with none in the cluster.
func (b *bed) bind(role, namespace, user string) {
	b.t.Helper()
	meta := metav1.ObjectMeta{GenerateName: "test-"}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	var err error
	if namespace == "" {
		_, err = b.admin.RbacV1().ClusterRoleBindings().Create(b.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = b.admin.RbacV1().RoleBindings(namespace).Create(b.t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// deleteNamespace deletes a namespace and reports whether it is gone in time, and else what stalls it.
func (b *bed) deleteNamespace(name string, within time.Duration) (gone bool, why string) {
	b.t.Helper()
	if err := b.admin.CoreV1().Namespaces().Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
	return b.namespaceGone(name, within)
}

func (b *bed) namespaceGone(name string, within time.Duration) (gone bool, why string) {
	b.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		n, err := b.admin.CoreV1().Namespaces().Get(b.t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, ""
		}
		if err != nil {
			b.t.Fatal(err)
		}
		for _, c := range n.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				why = string(c.Type) + ": " + c.Message
			}
		}
	}
	return false, why
}

// deadLeader writes a Lease whose holder will never renew it, and never lose it while the test runs.
func (b *bed) deadLeader() {
	b.t.Helper()
	holder, seconds, now := "hilbert-system/hilbertd-dead:10461_id", int32(3600), metav1.NowMicro()
	if _, err := b.admin.CoordinationV1().Leases(own).Create(b.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "hilbert"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}
