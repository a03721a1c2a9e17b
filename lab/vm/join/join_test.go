package join_test

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
)

func TestMain(m *testing.M) { os.Exit(vmtest.Run(m, join.Options{})) }

// long leaves a test out of the short form. lab/vm/agent, which is in it, boots the same node, has pods of its own refused by the plugin that they require, kills containerd and
// the kubelet, and judges by the guest's cgroups and devices; what is only here is about the test bed itself.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not with -short: lab/vm/agent boots the same node")
	}
}

// TestJoined: the guest is a node of the API server in this process; a pod bound to it runs, and is reached from here.
func TestJoined(t *testing.T) {
	long(t)
	n := vmtest.Node(t)
	ctx := t.Context()
	node, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("kubelet %s, runtime %s, kernel %s", node.Status.NodeInfo.KubeletVersion, node.Status.NodeInfo.ContainerRuntimeVersion, node.Status.NodeInfo.KernelVersion)
	pod, err := n.RunPod(ctx, n.BusyPod("joined", corev1.ResourceRequirements{}, "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	logs, err := n.Logs(ctx, pod, "main")
	if err != nil || !strings.Contains(logs, "busy: [sleep]") {
		t.Errorf("logs: got %q, %v; want the line that the workload begins with", logs, err)
	}
	out, err := n.ExecIn(ctx, pod, "main", "cat", "/proc/self/status")
	if err != nil || !strings.Contains(out, "Cpus_allowed_list:\t0-7") {
		t.Errorf("exec: got %q, %v; want the container to have all CPUs", out, err)
	}
	if err := n.DeletePod(ctx, pod); err != nil {
		t.Error(err)
	}
}
