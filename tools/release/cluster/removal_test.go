package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"hilbert.dev/hilbert/tools/release/charttest"
)

var (
	nodes           = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	pods            = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	configMaps      = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	daemonSets      = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	reports         = schema.GroupVersionResource{Group: "node.hilbert.dev", Version: "v1alpha1", Resource: "customnoderesources"}
)

// kubelets stand in for the nodes' kubelets, as far as the removal needs them: the pod of the Job runs hilbertd itself, with the rights of the Job's account, and the pods
// of the cleanup are ready on the nodes that a test says are clean.
type kubelets struct {
	*lab
	program string
	ran     map[string]bool

	mu    sync.Mutex
	clean []string
	said  string
}

// serveRemoval starts the stand-ins, and ends them with the test.
func (l *lab) serveRemoval(t *testing.T) *kubelets {
	t.Helper()
	k := &kubelets{lab: l, program: filepath.Join(t.TempDir(), "hilbertd"), ran: make(map[string]bool)}
	if out, err := exec.CommandContext(t.Context(), "go", "-C", root, "build", "-o", k.program, "./cmd/hilbertd").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			k.turn(ctx, t, dir, &all)
			time.Sleep(50 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		all.Wait()
		if t.Failed() {
			t.Logf("the Job says %q", k.said)
		}
	})
	return k
}

// Write takes in what the Job says.
func (k *kubelets) Write(text []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.said += string(text)
	return len(text), nil
}

func (k *kubelets) heard() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.said
}

// says waits until the Job has said something.
func (k *kubelets) says(t *testing.T, want string) {
	t.Helper()
	eventually(t, "the Job says "+want, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !strings.Contains(k.said, want) {
			return fmt.Errorf("it says %q", k.said)
		}
		return nil
	})
}

// forget has no node clean, and nothing said.
func (k *kubelets) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clean, k.said = nil, ""
}

// cleaned marks a node as clean.
func (k *kubelets) cleaned(node string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clean = append(k.clean, node)
}

// turn looks at all pods of Hilbert's namespace.
func (k *kubelets) turn(ctx context.Context, t *testing.T, dir string, all *sync.WaitGroup) {
	list, err := k.dynamic.Resource(pods).Namespace(charttest.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the test ends, or it will be there the next time
	}
	for i := range list.Items {
		pod := &list.Items[i]
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
		switch pod.GetLabels()["app.kubernetes.io/name"] {
		case "hilbert-cleanup":
			k.mu.Lock()
			clean := slices.Contains(k.clean, nodeOf(pod))
			k.mu.Unlock()
			if clean && phase == "Pending" {
				k.patch(ctx, pod.GetName(), `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
			}
		case "hilbert-removal":
			if name := string(pod.GetUID()); phase == "Pending" && !k.ran[name] {
				k.ran[name] = true
				all.Go(func() { k.run(ctx, t, pod, filepath.Join(dir, name)) })
			}
		}
	}
}

// nodeOf is the node that the controller of DaemonSets has made a pod for.
func nodeOf(pod *unstructured.Unstructured) string {
	text, _ := json.Marshal(pod.Object["spec"])
	for _, node := range []string{"n1", "n2", "n3"} {
		if strings.Contains(string(text), `"values":["`+node+`"]`) {
			return node
		}
	}
	return ""
}

// patch tells a pod's status, again until it is stored or the pod is gone.
func (k *kubelets) patch(ctx context.Context, pod, patch string) {
	for ctx.Err() == nil {
		_, err := k.dynamic.Resource(pods).Namespace(charttest.Namespace).Patch(ctx, pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if err == nil || apierrors.IsNotFound(err) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// run runs the container of the Job's pod.
func (k *kubelets) run(ctx context.Context, t *testing.T, pod *unstructured.Unstructured, kubeconfig string) {
	account, _, _ := unstructured.NestedString(pod.Object, "spec", "serviceAccountName")
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err := k.login(ctx, account, kubeconfig); err != nil {
		t.Errorf("a token of %s: %v", account, err)
		return
	}
	command := exec.CommandContext(ctx, k.program, append(args, "--kubeconfig", kubeconfig)...)
	command.Stdout, command.Stderr = k, k
	err := command.Run()
	if ctx.Err() != nil {
		return
	}
	code, phase := 0, "Succeeded"
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code, phase = exit.ExitCode(), "Failed"
	}
	k.patch(ctx, pod.GetName(), fmt.Sprintf(`{"status":{"phase":%q,"containerStatuses":[{"name":"removal","image":"x","imageID":"x","ready":false,"restartCount":0,`+
		`"state":{"terminated":{"exitCode":%d,"finishedAt":"2026-01-01T00:00:00Z"}}}]}}`, phase, code))
}

// login writes a kubeconfig of an account.
func (k *kubelets) login(ctx context.Context, account, file string) error {
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": account}, "spec": map[string]any{},
	}}
	got, err := k.dynamic.Resource(serviceAccounts).Namespace(charttest.Namespace).Create(ctx, request, metav1.CreateOptions{}, "token")
	if err != nil {
		return err
	}
	token, _, _ := unstructured.NestedString(got.Object, "status", "token")
	config, err := clientcmd.LoadFromFile(k.kubeconfig)
	if err != nil {
		return err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	return clientcmd.WriteToFile(*config, file)
}

// add makes a node, or a report.
func (l *lab) add(t *testing.T, resource schema.GroupVersionResource, kind, name string, labels map[string]any) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name, "labels": labels},
	}}
	if _, err := l.dynamic.Resource(resource).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestUninstallCleansNodes: helm uninstall by itself ends the agents, waits until each node has given back what they had set, and takes their reports away. It refuses,
// before anything has ended, where nobody would clean a node.
func TestUninstallCleansNodes(t *testing.T) {
	l := start(t)
	agent := map[string]any{"hilbert.dev/agent": "true", "kubernetes.io/os": "linux"}
	l.add(t, nodes, "Node", "n1", agent)
	l.add(t, nodes, "Node", "n2", agent)
	l.add(t, nodes, "Node", "n3", map[string]any{"kubernetes.io/os": "linux"}) // its label was taken off
	before, err := l.everything(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.install(t, "hilbert-crds", "v0.1.0", nil)
	l.install(t, "hilbert", "v0.1.0", map[string]any{"agent": map[string]any{"enabled": true}})
	l.mapper.Reset()
	for _, name := range []string{"n1", "n2", "n3"} {
		l.add(t, reports, "CustomNodeResource", name, nil)
	}
	k := l.serveRemoval(t)
	remove := func() error {
		uninstall := action.NewUninstall(l.helm(t))
		uninstall.WaitStrategy, uninstall.Timeout = kube.HookOnlyStrategy, patience
		_, err := uninstall.Run("hilbert")
		return err
	}
	if err := remove(); err == nil {
		t.Error("it is removed, though nobody cleans n3")
	}
	k.says(t, "nobody would clean them: n3; give them back the label")
	l.get(t, daemonSets, "hilbert-agent")
	l.get(t, deployments, "hilbertd")
	if err := l.dynamic.Resource(reports).Delete(t.Context(), "n3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- remove() }()
	k.says(t, "0 of 2 nodes are clean")
	if _, err := l.dynamic.Resource(daemonSets).Namespace(charttest.Namespace).Get(t.Context(), "hilbert-agent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("agents would set again what is given back: %v", err)
	}
	k.cleaned("n1")
	k.says(t, "1 of 2 nodes are clean")
	select {
	case err := <-ended:
		t.Fatalf("helm has not waited for n2: %v", err)
	default:
	}
	l.get(t, deployments, "hilbertd")
	if got := l.names(t, reports); !slices.Equal(got, []string{"n1", "n2"}) {
		t.Errorf("reports of %v are left while n2 is not clean", got)
	}
	k.cleaned("n2")
	if err := <-ended; err != nil {
		t.Fatalf("%v; the Job says %s", err, k.said)
	}
	if got := l.names(t, reports); len(got) > 0 {
		t.Errorf("reports of %v are left", got)
	}
	l.uninstall(t, "hilbert-crds")
	l.mapper.Reset()
	eventually(t, "nothing is left", func() error { return l.left(t, before) })
}

// TestNodesAreCleanedWhereAgentsGo: an upgrade to a release without agents, and a rollback to one, ends the agents and waits until each node has given back what they had set, before
// it changes anything else. Where nobody would clean a node both refuse, and agents stay. A release that never had agents goes back and forth without a wait.
func TestNodesAreCleanedWhereAgentsGo(t *testing.T) {
	l := start(t)
	l.add(t, nodes, "Node", "n1", map[string]any{"hilbert.dev/agent": "true", "kubernetes.io/os": "linux"})
	l.add(t, nodes, "Node", "n2", map[string]any{"kubernetes.io/os": "linux"})
	l.install(t, "hilbert-crds", "v0.1.0", nil)
	l.install(t, "hilbert", "v0.1.0", nil)
	l.mapper.Reset()
	k := l.serveRemoval(t)
	agents := func(on bool) map[string]any { return map[string]any{"agent": map[string]any{"enabled": on}} }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v; the Job says %s", err, k.heard())
		}
	}
	must(l.upgrade(t, "v0.1.1", nil)) // 2
	if said := k.heard(); said != "" {
		t.Errorf("an upgrade without agents runs the Job: %s", said)
	}
	must(l.rollback(t, 1)) // 3: the node n1 has the label, and there is no configuration by which anybody could clean it
	if got := l.names(t, daemonSets); len(got) > 0 {
		t.Errorf("a rollback without agents leaves %v", got)
	}
	// One that was tried before has ended the agents, and not waited for the nodes.
	gone := func(by string, tried bool, change func() error) {
		t.Helper()
		l.add(t, reports, "CustomNodeResource", "n2", nil)
		if err := change(); err == nil {
			t.Errorf("%s: agents go, though nobody cleans n2", by)
		}
		l.get(t, daemonSets, "hilbert-agent")
		must(l.dynamic.Resource(reports).Delete(t.Context(), "n2", metav1.DeleteOptions{}))
		for _, name := range []string{"hilbert-agent", "hilbert-watchdog"} {
			if tried {
				must(l.dynamic.Resource(daemonSets).Namespace(charttest.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
			}
		}
		k.forget()
		ended := make(chan error, 1)
		go func() { ended <- change() }()
		k.says(t, "0 of 1 nodes are clean")
		if got := l.names(t, daemonSets); !slices.Equal(got, []string{"hilbert-cleanup"}) {
			t.Errorf("%s: while nodes are cleaned there are %v", by, got)
		}
		select {
		case err := <-ended:
			t.Fatalf("%s: helm has not waited for n1: %v", by, err)
		default:
		}
		l.get(t, configMaps, "hilbert-agent")
		k.cleaned("n1")
		must(<-ended)
		if got := append(l.names(t, reports), l.names(t, daemonSets)...); len(got) > 0 {
			t.Errorf("%s: %v are left", by, got)
		}
	}
	must(l.upgrade(t, "v0.1.1", agents(true))) // 4
	l.add(t, reports, "CustomNodeResource", "n1", nil)
	gone("upgrade", true, func() error { return l.upgrade(t, "v0.1.1", agents(false)) }) // 5 fails, 6
	must(l.upgrade(t, "v0.1.1", agents(true)))                                           // 7
	l.add(t, reports, "CustomNodeResource", "n1", nil)
	gone("rollback", false, func() error { return l.rollback(t, 1) })
}
