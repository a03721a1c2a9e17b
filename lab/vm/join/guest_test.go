package join_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
	"hilbert.dev/hilbert/lab/vm/wire"
)

// TestMachine: the guest is the machine that package vm says it is, by what its kernel found.
func TestMachine(t *testing.T) {
	long(t)
	n := vmtest.Node(t)
	for path, want := range map[string]string{
		"/sys/devices/system/cpu/online":                            "0-7",
		"/sys/devices/system/node/node0/cpulist":                    "0-3",
		"/sys/devices/system/node/node1/cpulist":                    "4-7",
		"/sys/devices/system/node/node1/distance":                   "21 10",
		"/sys/devices/system/cpu/cpu5/topology/physical_package_id": "1",
	} {
		if got, err := n.Guest.Field(t.Context(), path); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", path, got, err, want)
		}
	}
	classes, err := n.Guest.ReadFiles(t.Context(), "/sys/bus/pci/devices/*/class", "/sys/bus/pci/devices/*/numa_node")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for path, class := range classes {
		if device, ok := strings.CutSuffix(path, "/class"); ok {
			found[strings.TrimSpace(class)+" on node "+strings.TrimSpace(classes[device+"/numa_node"])]++
		}
	}
	for _, want := range []string{"0x030200 on node 0", "0x030200 on node 1", "0x020000 on node 0", "0x020000 on node 1"} {
		if found[want] != 1 {
			t.Errorf("PCI devices of class %s: got %d, want 1 (all: %v)", want, found[want], found)
		}
	}
}

// TestGuestCalls: what the host asks of the guest's first process happens, and what cannot be is said.
func TestGuestCalls(t *testing.T) {
	long(t)
	g := vmtest.Node(t).Guest
	ctx := t.Context()
	got, err := g.Exec(ctx, "/bin/sh", "-c", "echo out; echo err >&2; exit 3")
	if want := (vm.Result{Stdout: "out\n", Stderr: "err\n", Status: 3}); err != nil || got != want {
		t.Errorf("exec: got %+v, %v, want %+v", got, err, want)
	}
	if _, err := g.Exec(ctx, "/no/such/command"); err == nil {
		t.Error("exec of a command that is not there: no error")
	}
	short, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	got, err = g.Exec(short, "/bin/sh", "-c", "echo begun; sleep 600")
	if want := (vm.Result{Stdout: "begun\n", Status: 137}); err != nil || got != want {
		t.Errorf("exec of what does not end: got %+v, %v, want %+v", got, err, want)
	}
	const path = "/tmp/new/file"
	if err := g.WriteFile(ctx, path, strings.NewReader("#!/bin/sh\necho ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := g.Exec(ctx, path); err != nil || got.Stdout != "ran\n" {
		t.Errorf("an uploaded script: got %+v, %v", got, err)
	}
	if entries, err := g.ReadDir(ctx, "/tmp/new"); err != nil || len(entries) != 1 || entries[0].Name != "file" {
		t.Errorf("directory: got %+v, %v, want the file alone", entries, err)
	}
	if err := g.Remove(ctx, "/tmp/new"); err != nil {
		t.Error(err)
	}
	if _, err := g.ReadFile(ctx, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was removed: got %v, want that it is not there", err)
	}
	if err := g.WriteString(ctx, "/sys/fs/cgroup/no.such.knob", "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a knob that is not there: got %v", err)
	}
}

// TestServices: a service that is killed comes back, one that is stopped does not, and what it says is kept.
func TestServices(t *testing.T) {
	long(t)
	g := vmtest.Node(t).Guest
	ctx := t.Context()
	s, err := g.Define(ctx, wire.ServiceSpec{Name: "sleeper", Argv: []string{"/bin/sh", "-c", "echo began; exec /sbin/hilbert-vm-busy sleep"}})
	if err != nil {
		t.Fatal(err)
	}
	state := func(what string, ok func(wire.ServiceState) bool) wire.ServiceState {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			got, err := s.State(ctx)
			if err == nil && ok(got) {
				return got
			}
			if time.Now().After(end) {
				t.Fatalf("%s: not so, but %+v, %v", what, got, err)
			}
		}
	}
	state("it runs", func(w wire.ServiceState) bool { return w.PID != 0 })
	if _, err := g.Signal(ctx, "hilbert-vm-busy", syscall.SIGKILL); err != nil {
		// The shell has perhaps not become the sleeper yet.
		t.Logf("first try: %v", err)
		state("it is the sleeper", func(wire.ServiceState) bool {
			_, err = g.Signal(ctx, "hilbert-vm-busy", syscall.SIGKILL)
			return err == nil
		})
	}
	after := state("it was started again", func(w wire.ServiceState) bool { return w.Starts == 2 && w.PID != 0 })
	if after.Status != 137 {
		t.Errorf("status of the killed one: got %d, want 137", after.Status)
	}
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // longer than the pause before a restart
	state("it stays stopped", func(w wire.ServiceState) bool { return w.PID == 0 && w.Stopped && w.Starts == 2 })
	if log, err := s.Log(ctx); err != nil || !strings.Contains(log, "began") {
		t.Errorf("log: got %q, %v", log, err)
	}
}

// TestCgroups: a pod is where its QoS class puts it, with the weights that its requests give; a cpuset written to its container holds for
// the process, its memory moves to the node that it may use, and each is seen in the kernel.
func TestCgroups(t *testing.T) {
	long(t)
	n := vmtest.Node(t)
	ctx := t.Context()
	pod, err := n.RunPod(ctx, n.BusyPod("cpuset", guaranteed("1", "128Mi"), "hold", "32"))
	if err != nil {
		t.Fatal(err)
	}
	cgroup, err := n.ContainerCgroup(ctx, pod, "main")
	if err != nil {
		t.Fatal(err)
	}
	if want := "/sys/fs/cgroup/kubepods/pod" + string(pod.UID) + "/"; !strings.HasPrefix(cgroup, want) {
		t.Errorf("cgroup of a Guaranteed pod: got %s, want below %s", cgroup, want)
	}
	for knob, want := range map[string]string{"cpu.max": "100000 100000", "memory.max": "134217728", "cpuset.cpus": ""} {
		if got, err := n.Guest.Field(ctx, cgroup+"/"+knob); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", knob, got, err, want)
		}
	}
	write(t, n, cgroup+"/cpuset.cpus", "6-7")
	write(t, n, cgroup+"/cpuset.mems", "1")
	pids, err := n.PIDs(ctx, pod, "main")
	if err != nil {
		t.Fatal(err)
	}
	status, err := n.Guest.ReadFile(ctx, fmt.Sprintf("/proc/%d/status", pids[0]))
	if err != nil || !strings.Contains(status, "Cpus_allowed_list:\t6-7\n") || !strings.Contains(status, "Mems_allowed_list:\t1\n") {
		t.Errorf("process: got %v\n%s\nwant CPUs 6-7 and memory of node 1", err, status)
	}
	// The process may still be touching what it is to hold.
	byNode, line := anonymousMiB(t, n, cgroup)
	for end := time.Now().Add(time.Minute); byNode[1] < 32 && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		byNode, line = anonymousMiB(t, n, cgroup)
	}
	if byNode[1] < 32 || byNode[0] > 2 {
		t.Errorf("anonymous memory by node: got %v MiB, want the 32 held on node 1 (all: %s)", byNode, line)
	}
	if err := n.DeletePod(ctx, pod); err != nil {
		t.Error(err)
	}
}

// anonymousMiB is how much of a cgroup's anonymous memory lies on each node, and the line that says so.
func anonymousMiB(t *testing.T, n *join.Node, cgroup string) (byNode [vm.Nodes]int, line string) {
	t.Helper()
	text, err := n.Guest.ReadFile(t.Context(), cgroup+"/memory.numa_stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ = strings.Cut(text, "\n")
	var bytes [vm.Nodes]int
	if _, err := fmt.Sscanf(line, "anon N0=%d N1=%d", &bytes[0], &bytes[1]); err != nil {
		t.Fatalf("memory.numa_stat begins %q: %v", line, err)
	}
	for i := range bytes {
		byNode[i] = bytes[i] >> 20
	}
	return byNode, line
}

// TestRequiredPlugin: a pod that names a plugin without which it must not start does not start without it.
func TestRequiredPlugin(t *testing.T) {
	long(t)
	n := vmtest.Node(t)
	pod := n.BusyPod("requires", corev1.ResourceRequirements{}, "sleep")
	pod.Annotations = map[string]string{"required-plugins.noderesource.dev": "[absent]"}
	pod, err := n.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod, err = n.AwaitPod(t.Context(), pod, func(p *corev1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running != nil {
				return nil
			}
			if w := c.State.Waiting; w != nil && w.Reason == "CreateContainerError" {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Status.ContainerStatuses)
	})
	if err != nil {
		t.Fatal(err)
	}
	if w := pod.Status.ContainerStatuses[0].State.Waiting; w == nil || !strings.Contains(w.Message, "absent") {
		t.Errorf("got %+v, want it refused for the plugin that is absent", pod.Status.ContainerStatuses[0].State)
	}
	if err := n.DeletePod(t.Context(), pod); err != nil {
		t.Error(err)
	}
}

// TestKill: kill -9 of the runtime and of the kubelet changes nothing that runs; both come back and go on.
func TestKill(t *testing.T) {
	long(t)
	n := vmtest.Node(t)
	ctx := t.Context()
	pod, err := n.RunPod(ctx, n.BusyPod("survivor", corev1.ResourceRequirements{}, "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	before := lifeOf(t, n, pod)
	for _, name := range []string{join.Containerd, join.Kubelet} {
		if _, err := n.Guest.Signal(ctx, name, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.AwaitContainerd(ctx); err != nil {
		t.Fatal(err)
	}
	// That both are at work again shows in a new pod.
	second, err := n.RunPod(ctx, n.BusyPod("after-kill", corev1.ResourceRequirements{}, "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{join.Containerd, join.Kubelet} {
		if state, err := n.Guest.Service(name).State(ctx); err != nil || state.Starts < 2 || state.PID == 0 {
			t.Errorf("%s: got %+v, %v, want it started again", name, state, err)
		}
	}
	if after := lifeOf(t, n, pod); after != before {
		t.Errorf("the pod's process: got %s, want %s as before", after, before)
	}
	now, err := n.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("restarts: got %+v, %v, want none", now.Status.ContainerStatuses, err)
	}
	for _, p := range []*corev1.Pod{pod, second} {
		if err := n.DeletePod(ctx, p); err != nil {
			t.Error(err)
		}
	}
}

// lifeOf tells one process from a later one with the same number: by when it started.
func lifeOf(t *testing.T, n *join.Node, pod *corev1.Pod) string {
	t.Helper()
	pids, err := n.PIDs(t.Context(), pod, "main")
	if err != nil {
		t.Fatal(err)
	}
	stat, err := n.Guest.ReadFile(t.Context(), fmt.Sprintf("/proc/%d/stat", pids[0]))
	if err != nil {
		t.Fatal(err)
	}
	const startTime = 20 // counted after the name, which may hold spaces
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	return fmt.Sprintf("process %d, started at %s", pids[0], fields[startTime-1])
}

func write(t *testing.T, n *join.Node, path, value string) {
	t.Helper()
	if err := n.Guest.WriteString(t.Context(), path, value); err != nil {
		t.Fatal(err)
	}
}

func guaranteed(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

func burstable(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}
