package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/tools/release/charttest"
)

const root = "../../.."

// patience bounds how long the lab may take to start, and its controllers to follow: a minute on quiet cores.
const patience = 4 * time.Minute

// lab is a control plane in a process of its own.
type lab struct {
	kubeconfig string
	dynamic    dynamic.Interface
	discovery  discovery.DiscoveryInterface
	mapper     *restmapper.DeferredDiscoveryRESTMapper
}

// start starts a lab without anything of Hilbert, but for the namespace that charts are installed into.
func start(t *testing.T) *lab {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(root, "bin", "hilbert-lab"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: make lab", err)
		}
		t.Skipf("%v: make chart-test builds it", err)
	}
	l := &lab{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	command := exec.Command(program, "up", "--nodes", "0", "--kubeconfig", l.kubeconfig)
	log := &strings.Builder{}
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("the lab: %s", log)
		}
	})
	eventually(t, "the lab is up", func() error {
		if _, err := os.Stat(l.kubeconfig); err != nil {
			return err
		}
		config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
		if err != nil {
			return err
		}
		config.QPS = -1
		if l.dynamic, err = dynamic.NewForConfig(config); err != nil {
			return err
		}
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return err
		}
		l.discovery, l.mapper = client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
		_, err = client.ServerVersion()
		return err
	})
	l.clear(t)
	return l
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// clear deletes the definitions and policies that hilbert-lab up installs for those who try Hilbert by hand, and makes the namespace.
func (l *lab) clear(t *testing.T) {
	t.Helper()
	// up installs them after the API server answers: the last binding comes last.
	eventually(t, "hilbert-lab up has installed the policies", func() error {
		_, err := l.dynamic.Resource(policyBindings).Get(t.Context(), "hilbert-required-plugin", metav1.GetOptions{})
		return err
	})
	eventually(t, "definitions and policies are gone", func() error {
		var left []string
		for _, resource := range []schema.GroupVersionResource{policyBindings, policies, mutatingBindings, mutating, definitions} {
			for _, name := range l.names(t, resource) {
				if strings.HasPrefix(name, "hilbert-") || strings.HasSuffix(name, ".hilbert.dev") {
					left = append(left, name)
					_ = l.dynamic.Resource(resource).Delete(t.Context(), name, metav1.DeleteOptions{}) // again, until it is gone
				}
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": charttest.Namespace}}}
	if _, err := l.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// What controllers make in every namespace comes a moment later; it is not Hilbert's.
	eventually(t, "the namespace has what every namespace has", func() error {
		_, err := l.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(charttest.Namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err == nil {
			_, err = l.dynamic.Resource(serviceAccounts).Namespace(charttest.Namespace).Get(t.Context(), "default", metav1.GetOptions{})
		}
		return err
	})
}

// The resources that tests look at.
var (
	policies         = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	policyBindings   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
	mutating         = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"}
	mutatingBindings = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicybindings"}
	definitions      = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	deployments      = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	secrets          = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	services         = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// names lists what there is of a resource.
func (l *lab) names(t *testing.T, resource schema.GroupVersionResource) (names []string) {
	t.Helper()
	list, err := l.dynamic.Resource(resource).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		names = append(names, o.GetName())
	}
	return names
}

// get reads an object of Hilbert's namespace.
func (l *lab) get(t *testing.T, resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := l.dynamic.Resource(resource).Namespace(charttest.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// passing are kinds whose objects come and go without us.
var passing = []string{"Event", "Lease", "EndpointSlice", "Endpoints", "ControllerRevision", "IPAddress", "APIService", "LeaseCandidate", "StorageVersion"}

// everything lists every object of every kind, but for passing ones.
func (l *lab) everything(ctx context.Context) ([]string, error) {
	groups, err := l.discovery.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(passing, r.Kind) {
				continue
			}
			list, err := l.dynamic.Resource(version.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", r.Name, err)
			}
			for _, o := range list.Items {
				keys = append(keys, r.Kind+" "+o.GetNamespace()+"/"+o.GetName())
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}
