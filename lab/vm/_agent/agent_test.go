package agent_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
	"hilbert.dev/hilbert/lab/vm/wire"
)

func TestMain(m *testing.M) { os.Exit(vmtest.Run(m, join.Options{})) }

func res(cpu, mem string, limits bool) (r corev1.ResourceRequirements) {
	if cpu == "" {
		return
	}
	l := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(mem)}
	r.Requests = l
	if limits {
		r.Limits = l
	}
	return
}

func TestAgent(t *testing.T) {
	n := vmtest.Node(t)
	g, ctx := n.Guest, t.Context()
	b, err := os.Open("/tmp/hilbertd")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.WriteFile(ctx, "/usr/bin/hilbertd", b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.WriteString(ctx, "/etc/agent.yaml", "roles: [agent]\nlogging: {level: debug}\nnode: {name: vm}\n"); err != nil {
		t.Fatal(err)
	}
	// kernel facts: parent and child
	out, err := g.Shell(ctx, `cd /sys/fs/cgroup; mkdir -p t/c; echo +cpuset > t/cgroup.subtree_control; echo 0-1 > t/c/cpuset.cpus; echo 2-3 > t/cpuset.cpus; echo "disjoint: $(cat t/c/cpuset.cpus) effective $(cat t/c/cpuset.cpus.effective)"; echo 2 > t/c/cpuset.cpus; echo "then $(cat t/c/cpuset.cpus.effective)"; rmdir t/c t`)
	t.Logf("kernel: %s %v", out, err)
	old, err := n.RunPod(ctx, n.BusyPod("old", res("1", "64Mi", false), "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Define(ctx, wire.ServiceSpec{Name: "agent", Argv: []string{"/usr/bin/hilbertd", "--config=/etc/agent.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		log, _ := s.Log(ctx)
		t.Log(log)
	}()
	show := func(what string, pod *corev1.Pod) {
		cg, err := n.ContainerCgroup(ctx, pod, "main")
		pcg, err2 := n.PodCgroup(ctx, pod)
		if err != nil || err2 != nil {
			t.Errorf("%v %v", err, err2)
			return
		}
		f, _ := g.ReadFiles(ctx, cg+"/cpuset.cpus", cg+"/cpuset.cpus.effective", cg+"/cpuset.mems", pcg+"/cpuset.cpus", pcg+"/cpuset.mems", pcg+"/cpu.idle", cg+"/cpu.idle", cg+"/cpu.weight")
		var words []string
		for k, v := range f {
			words = append(words, strings.TrimPrefix(k, pcg)+"="+strings.TrimSpace(v))
		}
		st, _ := g.Shell(ctx, "for p in $(cat "+cg+"/cgroup.procs); do grep Cpus_allowed_list /proc/$p/status; cat /proc/$p/oom_score_adj; done")
		t.Logf("%s %s: %s | %s", what, pod.Name, strings.Join(words, " "), strings.ReplaceAll(st, "\n", " "))
	}
	time.Sleep(8 * time.Second)
	show("adopted", old)
	pod := n.BusyPod("own", res("2", "64Mi", true), "burn", "2")
	pod.Labels = map[string]string{"hilbert.dev/qos-level": "dedicated_cores"}
	pod.Annotations = map[string]string{"hilbert.dev/numa": "bound", "hilbert.dev/zones": "1:2/64Mi"}
	own, err := n.RunPod(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	show("dedicated", own)
	show("dedicated", old)
	pod = n.BusyPod("hog", res("", "", false), "burn", "2")
	pod.Labels = map[string]string{"hilbert.dev/qos-level": "reclaimed_cores"}
	hog, err := n.RunPod(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	show("reclaimed", hog)
	show("reclaimed", own)
	show("reclaimed", old)
	all, _ := g.Shell(ctx, `for p in /proc/[0-9]*; do l=$(grep Cpus_allowed_list $p/status 2>/dev/null); echo "$(cat $p/comm 2>/dev/null) $l"; done | grep -v '0-7' | sort | uniq -c`)
	t.Log(all)
	t.Log(g.Signal(ctx, "hilbertd", syscall.SIGKILL))
	time.Sleep(6 * time.Second)
	show("agent killed", own)
	show("agent killed", hog)
	t.Log(g.Signal(ctx, "containerd", syscall.SIGKILL))
	time.Sleep(20 * time.Second)
	show("containerd killed", own)
	show("containerd killed", hog)
	pod = n.BusyPod("late", res("2", "64Mi", true), "sleep")
	pod.Labels = map[string]string{"hilbert.dev/qos-level": "dedicated_cores"}
	late, err := n.RunPod(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	show("after", late)
	show("after", old)
	usage, _ := g.Shell(ctx, "cat /proc/$(pidof hilbertd)/stat | cut -d' ' -f14,15; grep VmRSS /proc/$(pidof hilbertd)/status")
	t.Log("agent cpu ticks and RSS:", usage)
	// broken promise: no room for 6 more
	pod = n.BusyPod("large", res("6", "64Mi", false), "sleep")
	pod.Labels = map[string]string{"hilbert.dev/qos-level": "dedicated_cores"}
	if _, err := n.Client.CoreV1().Pods("default").Create(ctx, pod, createOptions); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	events, _ := n.Client.CoreV1().Events("default").List(ctx, listOptions)
	for _, e := range events.Items {
		if e.InvolvedObject.Name == "large" {
			t.Log(e.Reason, e.Message)
		}
	}
}
