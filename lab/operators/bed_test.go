package operators

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
)

const (
	// patience bounds every wait; it is no measure of speed.
	patience = 4 * time.Minute
	pause    = 100 * time.Millisecond
	// rack is the label by which nodes are divided.
	rack = "example.com/rack"
)

// podGroups is the sigs' PodGroup, as far as Hilbert reads it.
const podGroups = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podgroups.scheduling.x-k8s.io, annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"}}
spec:
  group: scheduling.x-k8s.io
  names: {kind: PodGroup, listKind: PodGroupList, plural: podgroups, singular: podgroup}
  scope: Namespaced
  versions: [{name: v1alpha1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// workloads are Kueue's.
var workloads = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}

// bed is a control plane with controllers, nodes, hilbertd once a test has run it, and no other scheduler.
type bed struct {
	t          *testing.T
	dir        string
	kubeconfig string
	config     *rest.Config
	admin      kubernetes.Interface
	dynamic    dynamic.Interface
	mapper     *restmapper.DeferredDiscoveryRESTMapper
	programs   map[string]chan error // how each has ended
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func startBed(t *testing.T) *bed {
	t.Helper()
	if os.Getenv("HILBERT_OPERATORS") == "" {
		t.Skip("it builds an operator, for minutes: make operators-test")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{Controllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stopping, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := plane.Stop(stopping); err != nil {
			t.Error(err)
		}
	})
	b := &bed{t: t, dir: t.TempDir(), config: plane.AdminConfig(), programs: make(map[string]chan error)}
	b.kubeconfig = filepath.Join(b.dir, "kubeconfig")
	b.must(errors.Join(plane.WriteKubeconfig(b.kubeconfig), plane.InstallDefinitions(ctx)))
	b.admin, err = kubernetes.NewForConfig(b.config)
	b.must(err)
	plain := rest.CopyConfig(b.config)
	plain.ContentType, plain.AcceptContentTypes, plain.QPS = "application/json", "application/json", -1
	b.dynamic, err = dynamic.NewForConfig(plain)
	b.must(err)
	ask, err := discovery.NewDiscoveryClientForConfig(plain)
	b.must(err)
	b.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(ask))
	b.create(podGroups)
	return b
}

// runHilbertd runs Hilbert until the test ends, for pods that name its scheduler and for those that name one of these.
func (b *bed) runHilbertd(schedulerNames ...string) {
	b.t.Helper()
	c := spec.Default()
	if len(schedulerNames) > 0 {
		c.Scheduling.Profiles = []spec.SchedulingProfile{{Name: "operators", SchedulerNames: schedulerNames}}
	}
	c.Server.BindAddress = "-"
	c.LeaderElection.LeaseDuration, c.LeaderElection.RenewDeadline = spec.Duration(90*time.Second), spec.Duration(time.Minute) // a busy machine must not lose it
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, c, daemon.Options{Connection: b.config, Log: slog.New(slog.DiscardHandler)})
	}()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			b.t.Error(err)
		}
	})
}

// addNodes adds nodes of four CPUs, in racks.
func (b *bed) addNodes(racks ...string) {
	b.t.Helper()
	var shapes []hollow.Shape
	for i, in := range racks {
		name := fmt.Sprintf("%s-%d", in, i)
		shapes = append(shapes, hollow.Shape{Name: name, Labels: map[string]string{corev1.LabelHostname: name, rack: in}, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("20"),
		}})
	}
	fleet, err := hollow.Run(b.t.Context(), b.config, shapes, hollow.Options{})
	b.must(err)
	b.t.Cleanup(fleet.Stop)
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
		for name, ended := range b.programs {
			select {
			case err := <-ended:
				ended <- err
				b.t.Fatalf("%s: %s has ended: %v", what, name, err)
			default:
			}
		}
		if time.Since(begin) > patience {
			b.t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		time.Sleep(pause)
	}
}

// create creates the objects of a text, again until the API server takes them: a definition is not served at once, nor do webhooks answer at once.
func (b *bed) create(text string) {
	b.t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		o := &unstructured.Unstructured{}
		b.must(yaml.Unmarshal([]byte(document), &o.Object))
		if o.GetKind() == "" {
			continue
		}
		b.eventually("create "+o.GetKind()+" "+o.GetName(), func() error { return b.put(o) })
	}
}

func (b *bed) put(o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	mapping, err := b.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		b.mapper.Reset()
		return err
	}
	client := dynamic.ResourceInterface(b.dynamic.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		client = b.dynamic.Resource(mapping.Resource).Namespace(cmp.Or(o.GetNamespace(), "default"))
	}
	_, err = client.Create(b.t.Context(), o, metav1.CreateOptions{})
	return err
}

// operator is a program of others.
type operator struct {
	name, module, program string
	// definitions are files below the module's directory, as a pattern.
	definitions string
	// webhooks is the file of its webhooks there; "": none.
	webhooks string
	// config is its file of configuration, in which WEBHOOKS and HEALTH are ports, and CERTIFICATES a folder; "": none.
	config string
	// converted are the definitions whose versions the operator converts.
	converted []string
	// secret is where the operator expects its certificate, and objects that have to be there before.
	secret string
	// args are its arguments beside that.
	args []string
}

// start builds an operator, installs what it needs, and runs it until the test ends.
func (b *bed) start(o *operator) {
	b.t.Helper()
	in, err := filepath.Abs(o.name)
	b.must(err)
	dir := filepath.Join(b.dir, o.name)
	b.must(os.Mkdir(dir, 0o700))
	program := filepath.Join(dir, o.name)
	b.run(in, "go", "build", "-o", program, o.program)
	module := strings.TrimSpace(b.run(in, "go", "list", "-m", "-f", "{{.Dir}}", o.module))
	webhooks, health := freePort(b.t), freePort(b.t)
	certificate, key := makeCertificate(b.t)
	files, err := filepath.Glob(filepath.Join(module, o.definitions))
	b.must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		b.must(err)
		b.define(o, string(text), webhooks, certificate)
	}
	b.eventually("the definitions are served", b.served)
	certificates := filepath.Join(dir, "k8s-webhook-server", "serving-certs") // where controller-runtime looks, below TMPDIR
	b.must(errors.Join(
		os.MkdirAll(certificates, 0o700),
		os.WriteFile(filepath.Join(certificates, "tls.crt"), certificate, 0o600), os.WriteFile(filepath.Join(certificates, "tls.key"), key, 0o600),
	))
	if o.secret != "" {
		encoded := base64.StdEncoding.EncodeToString
		b.create(strings.NewReplacer("CERTIFICATE", encoded(certificate), "KEY", encoded(key)).Replace(o.secret))
	}
	args := slices.Clone(o.args)
	if o.config != "" {
		config := filepath.Join(dir, "config.yaml")
		text := strings.NewReplacer("WEBHOOKS", strconv.Itoa(webhooks), "HEALTH", strconv.Itoa(health), "CERTIFICATES", certificates).Replace(o.config)
		b.must(os.WriteFile(config, []byte(text), 0o600))
		args = append(args, "--config="+config)
	}
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+b.kubeconfig, "TMPDIR="+dir)
	b.launch(o.name, command)
	if o.webhooks == "" {
		return
	}
	b.eventually(o.name+" serves its webhooks", func() error {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("localhost:%d", webhooks), time.Second)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	text, err := os.ReadFile(filepath.Join(module, o.webhooks))
	b.must(err)
	b.installWebhooks(o.name, string(text), webhooks, certificate)
}

// define creates definitions; those that the operator converts say where.
func (b *bed) define(o *operator, text string, port int, certificate []byte) {
	b.t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		d := map[string]any{}
		b.must(yaml.Unmarshal([]byte(document), &d))
		if name, _, _ := unstructured.NestedString(d, "metadata", "name"); slices.Contains(o.converted, name) {
			b.must(unstructured.SetNestedMap(d, map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"},
				"clientConfig":             map[string]any{"url": fmt.Sprintf("https://localhost:%d/convert", port), "caBundle": base64.StdEncoding.EncodeToString(certificate)},
			}}, "spec", "conversion"))
		}
		data, err := yaml.Marshal(d)
		b.must(err)
		b.create(string(data))
	}
}

// served is an error until all definitions are.
func (b *bed) served() error {
	list, err := b.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	b.mapper.Reset()
	for i := range list.Items {
		o := list.Items[i].Object
		name, _, _ := unstructured.NestedString(o, "spec", "names", "kind")
		group, _, _ := unstructured.NestedString(o, "spec", "group")
		plural, _, _ := unstructured.NestedString(o, "spec", "names", "plural")
		versions, _, _ := unstructured.NestedSlice(o, "spec", "versions")
		version, _, _ := unstructured.NestedString(versions[0].(map[string]any), "name")
		kind := schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
		if _, err := b.dynamic.Resource(kind).List(b.t.Context(), metav1.ListOptions{Limit: 1}); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		if _, err := b.mapper.RESTMapping(schema.GroupKind{Group: group, Kind: name}, version); err != nil { // discovery lags behind
			return err
		}
	}
	return nil
}

// makeCertificate makes a certificate for loopback that is its own authority, for a year: operators that renew theirs find it good under all names that they expect.
func makeCertificate(t *testing.T) (certificate, key []byte) {
	t.Helper()
	pair, err := rsa.GenerateKey(rand.Reader, 2048) // Kueue reads no other kind
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		DNSNames: []string{"localhost", "kueue-ca", "kueue-webhook-service.kueue-system.svc"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, pair.Public(), pair)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(pair)})
}

// launch starts a program, which is killed when the test ends; if that has failed, it shows what the program said last.
func (b *bed) launch(name string, command *exec.Cmd) {
	b.t.Helper()
	log, err := os.Create(command.Path + ".log")
	b.must(err)
	defer func() { b.must(log.Close()) }()
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	b.must(command.Start())
	ended := make(chan error, 1)
	b.programs[name] = ended
	go func() { ended <- command.Wait() }()
	b.t.Cleanup(func() {
		_ = command.Process.Kill()
		ended <- <-ended // it was killed
		if text, _ := os.ReadFile(log.Name()); b.t.Failed() {
			b.t.Logf("%s said last:\n%s", name, text[max(0, len(text)-6000):])
		}
	})
}

// installWebhooks installs an operator's webhooks, which are reached on loopback.
func (b *bed) installWebhooks(name, text string, port int, certificate []byte) {
	b.t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		o := &unstructured.Unstructured{}
		b.must(yaml.Unmarshal([]byte(document), &o.Object))
		hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		b.must(err)
		for _, hook := range hooks {
			config := hook.(map[string]any)["clientConfig"].(map[string]any)
			path, _, err := unstructured.NestedString(config, "service", "path")
			b.must(err)
			delete(config, "service")
			config["url"], config["caBundle"] = fmt.Sprintf("https://localhost:%d%s", port, path), certificate
		}
		if len(hooks) > 0 {
			data, err := yaml.Marshal(map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": map[string]any{"name": name + "-" + o.GetName()}, "webhooks": hooks})
			b.must(err)
			b.create(string(data))
		}
	}
}

// run runs a program to its end.
func (b *bed) run(dir string, argv ...string) string {
	b.t.Helper()
	command := exec.CommandContext(b.t.Context(), argv[0], argv[1:]...)
	command.Dir = dir
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		b.t.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, problems.String())
	}
	return out.String()
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// bound are the nodes of the pods, by the value of a label; a pod that waits is at "".
func (b *bed) bound(label string) map[string][]string {
	b.t.Helper()
	list, err := b.admin.CoreV1().Pods("default").List(b.t.Context(), metav1.ListOptions{LabelSelector: label})
	b.must(err)
	out := map[string][]string{}
	for i := range list.Items {
		p := &list.Items[i]
		out[p.Labels[label]] = append(out[p.Labels[label]], p.Spec.NodeName)
	}
	return out
}

// all reports whether there are so many pods, all of them with a node or none.
func all(nodes []string, want int, placed bool) error {
	n := 0
	for _, node := range nodes {
		if (node != "") == placed {
			n++
		}
	}
	if n != want || len(nodes) != want {
		return fmt.Errorf("the pods are on %q, want %d, placed: %v", nodes, want, placed)
	}
	return nil
}

// waits is an error until Hilbert has told so many pods why they wait.
func (b *bed) waits(want int) error {
	list, err := b.admin.CoreV1().Pods("default").List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	n := 0
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				n++
			}
		}
	}
	if n != want {
		return fmt.Errorf("%d pods were told, want %d", n, want)
	}
	return nil
}

// gang is an error unless there are so many pods with a label, all placed or none.
func (b *bed) gang(label string, want int, placed bool) func() error {
	return func() error {
		var nodes []string
		for _, of := range b.bound(label) {
			nodes = append(nodes, of...)
		}
		return all(nodes, want, placed)
	}
}

// unscheduled waits until there are so many pods with a label, of which none has a node, and none has been looked at: there is no scheduler yet.
func (b *bed) unscheduled(label string, want int) {
	b.t.Helper()
	b.eventually("the pods are there", b.gang(label, want, false))
	b.must(b.waits(0))
}

func nestedSlice(o *unstructured.Unstructured) ([]any, bool, error) {
	return unstructured.NestedSlice(o.Object, "status", "conditions")
}
