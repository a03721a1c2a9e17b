package join_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
)

const (
	// contested is the CPU that the online pod and the hog are both put on, spare the one that the hog is moved to.
	contested, spare = "5", "6"
	// windows is how often each row is measured, window for how long: the row is the median. Where the host takes a guest's processor away,
	// the guest counts the time for whatever ran on it.
	windows, window = 3, 1500 * time.Millisecond
	// bestEffortWeight is kubepods/besteffort's cpu.weight as the kubelet sets it, plainWeight the kernel's default.
	bestEffortWeight, plainWeight = "1", "100"
	bestEffortCgroup              = "/sys/fs/cgroup/kubepods/besteffort"
	// settle is what the scheduler gets to act on a change.
	settle = 200 * time.Millisecond
	// attempts is how often a row is measured that is not as it should be: the host's other work comes and goes, the kernel's rule stays.
	attempts = 3
	// protected is how much of the CPU time that it wants an online pod gets at least where the hog is kept off, contestedAtMost how much at most
	// where it is not. With equal weights it would be a half; with the kubelet's, 39 for one CPU, it is 0.28.
	protected, contestedAtMost = 0.75, 0.5
	// aboveIdle is what a BestEffort pod gets at least beside a hog that is idle. The kernel weighs an idle pod as 3, and the cpu.weight of 1
	// that the kubelet gives each BestEffort pod as 10: of 13 parts the pod gets 10, not all.
	aboveIdle = 0.65
	// systemCPUs are those that the guest's services are kept to, as system cores are reserved on a real node.
	systemCgroup, systemCPUs = "/sys/fs/cgroup/system.slice", "0-3"
)

// protection says which of the protections are on.
type protection struct{ weight, cpuset, idle bool }

func (p protection) String() string {
	mark := func(on bool) string {
		if on {
			return "on"
		}
		return "off"
	}
	return mark(p.weight) + "\t" + mark(p.cpuset) + "\t" + mark(p.idle)
}

// load is how an online pod uses its CPU.
type load struct {
	name string
	args []string
}

// TestProtection: what each protection does for an online pod whose CPU a reclaimed hog wants too. It is the kernel's answer and needs no
// agent: what the agent may promise rests on it. The bands are wide, for the machine is emulated on few and shared processors.
func TestProtection(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: what the kernel does changes with the kernel only")
	}
	n := vmtest.Node(t)
	b := newBench(t, n)
	loads := []load{{"always busy", []string{"burn"}}, {"8 ms busy, 4 idle", []string{"steps", "8", "4"}}}
	classes := []struct {
		name      string
		resources corev1.ResourceRequirements
	}{{"Burstable", burstable("1")}, {"Guaranteed", guaranteed("1", "64Mi")}}
	table := &strings.Builder{}
	out := tabwriter.NewWriter(table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "online pod\tits load\thog\tweight\tcpuset\tidle\tCPU share\tof what it wanted\trun delay, ms/s\tper turn, ms")
	for _, class := range classes {
		for i, load := range loads {
			pod := b.run(fmt.Sprintf("online-%s-%d", strings.ToLower(class.name), i), class.resources, load.args...)
			b.pin(pod, contested)
			row := func(hog string, p protection, got usage) {
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", class.name, load.name, hog, p, got)
			}
			b.freeze(b.hog, true)
			row("none", protection{weight: true}, b.measure(pod, protection{weight: true}))
			b.freeze(b.hog, false)
			for _, p := range allProtections() {
				got := b.measure(pod, p)
				for range attempts - 1 {
					if judge(p, got) == nil {
						break
					}
					got = b.measure(pod, p)
				}
				row("burns", p, got)
				if err := judge(p, got); err != nil {
					t.Errorf("%s, %s, %+v: %v", class.name, load.name, p, err)
				}
			}
			b.end(pod)
		}
	}
	b.siblings(out)
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table)
}

func allProtections() (all []protection) {
	for i := range 8 {
		all = append(all, protection{weight: i&1 != 0, cpuset: i&2 != 0, idle: i&4 != 0})
	}
	return all
}

// judge holds one row to what the kernel should make of it: weight and cpuset protect; idle does not, for it orders a pod only among its siblings.
func judge(p protection, got usage) error {
	switch kept := p.weight || p.cpuset; {
	case kept && got.had < protected:
		return fmt.Errorf("the online pod has %.0f %% of the CPU time that it wants, want at least %.0f", 100*got.had, 100*protected)
	case !kept && got.had > contestedAtMost:
		return fmt.Errorf("the online pod has %.0f %% of the CPU time that it wants with nothing that protects it, want at most %.0f", 100*got.had, 100*contestedAtMost)
	}
	return nil
}

// bench is a node with a hog on the contested CPU.
type bench struct {
	t   *testing.T
	n   *join.Node
	ctx context.Context
	hog *corev1.Pod
	// pods are what is known of each, by name.
	pods map[string]podPlace
}

// podPlace is where a pod is in the guest: its cgroup with the weight that it began with, its container's cgroup, and its first process.
type podPlace struct {
	cgroup, weight, container string
	pid                       int
}

func newBench(t *testing.T, n *join.Node) *bench {
	b := &bench{t: t, n: n, ctx: t.Context(), pods: map[string]podPlace{}}
	b.set(systemCgroup+"/cpuset.cpus", systemCPUs)
	b.hog = b.run("hog", corev1.ResourceRequirements{}, "burn")
	b.pin(b.hog, contested)
	t.Cleanup(func() {
		b.ctx = context.WithoutCancel(b.ctx)
		b.end(b.hog)
		b.set(systemCgroup+"/cpuset.cpus", "0-7") // a cgroup with processes takes no empty set back
		b.set(bestEffortCgroup+"/cpu.weight", bestEffortWeight)
	})
	return b
}

func (b *bench) run(name string, resources corev1.ResourceRequirements, args ...string) *corev1.Pod {
	b.t.Helper()
	pod, err := b.n.RunPod(b.ctx, b.n.BusyPod(name, resources, args...))
	if err != nil {
		b.t.Fatal(err)
	}
	var place podPlace
	if place.cgroup, err = b.n.PodCgroup(b.ctx, pod); err != nil {
		b.t.Fatal(err)
	}
	if place.weight, err = b.n.Guest.Field(b.ctx, place.cgroup+"/cpu.weight"); err != nil {
		b.t.Fatal(err)
	}
	if place.container, err = b.n.ContainerCgroup(b.ctx, pod, "main"); err != nil {
		b.t.Fatal(err)
	}
	pids, err := b.n.PIDs(b.ctx, pod, "main")
	if err != nil {
		b.t.Fatal(err)
	}
	place.pid = pids[0]
	b.pods[name] = place
	return pod
}

func (b *bench) end(pod *corev1.Pod) {
	b.t.Helper()
	if err := b.n.DeletePod(b.ctx, pod); err != nil {
		b.t.Error(err)
	}
}

func (b *bench) set(path, value string) {
	b.t.Helper()
	if err := b.n.Guest.WriteString(b.ctx, path, value); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) pin(pod *corev1.Pod, cpus string) {
	b.t.Helper()
	b.set(b.pods[pod.Name].container+"/cpuset.cpus", cpus)
}

func (b *bench) freeze(pod *corev1.Pod, frozen bool) {
	b.t.Helper()
	b.set(b.pods[pod.Name].cgroup+"/cgroup.freeze", map[bool]string{true: "1", false: "0"}[frozen])
}

// apply switches the protections against the hog.
func (b *bench) apply(p protection) {
	b.t.Helper()
	b.set(bestEffortCgroup+"/cpu.weight", map[bool]string{true: bestEffortWeight, false: plainWeight}[p.weight])
	b.pin(b.hog, map[bool]string{true: spare, false: contested}[p.cpuset])
	hog := b.pods[b.hog.Name]
	b.set(hog.cgroup+"/cpu.idle", map[bool]string{true: "1", false: "0"}[p.idle])
	if !p.idle {
		// The kernel leaves a pod that was idle with its default weight, a hundred times that of its siblings.
		b.set(hog.cgroup+"/cpu.weight", hog.weight)
	}
}

// usage is what the busiest thread of a process got in a second of wall time: CPU, and time in which it could have run and did not, both in
// seconds; how long it waited for each turn, in milliseconds; and which part it had of the CPU time that it wanted.
type usage struct{ share, delay, perTurn, had float64 }

func (u usage) String() string {
	return fmt.Sprintf("%.1f %%\t%.0f %%\t%.0f\t%.2f", 100*u.share, 100*u.had, 1000*u.delay, u.perTurn)
}

// measure applies the protections and returns the median of what was seen by share. The kubelet sets the weight anew each minute: a window in
// which it did so does not count.
func (b *bench) measure(pod *corev1.Pod, p protection) usage {
	b.t.Helper()
	var seen []usage
	for tries := 0; len(seen) < windows; tries++ {
		if tries == 3*windows {
			b.t.Fatal("the weight of " + bestEffortCgroup + " changes again and again")
		}
		b.apply(p)
		got := b.observe(pod)
		weight, err := b.n.Guest.Field(b.ctx, bestEffortCgroup+"/cpu.weight")
		if err != nil {
			b.t.Fatal(err)
		}
		if (weight == bestEffortWeight) == p.weight {
			seen = append(seen, got)
		}
	}
	slices.SortFunc(seen, func(a, b usage) int { return cmp.Compare(a.share, b.share) })
	return seen[len(seen)/2]
}

// observe watches one window, by the guest's clock: the samples hold the time that they were taken at.
func (b *bench) observe(pod *corev1.Pod) usage {
	b.t.Helper()
	time.Sleep(settle)
	before := b.sample(pod)
	time.Sleep(window)
	after := b.sample(pod)
	var busiest turns
	for name, now := range after.threads {
		if then := before.threads[name]; now.ran-then.ran >= busiest.ran {
			busiest = turns{now.ran - then.ran, now.waited - then.waited, now.count - then.count}
		}
	}
	elapsed := after.at - before.at
	return usage{
		share: busiest.ran / elapsed, delay: busiest.waited / elapsed, perTurn: 1000 * busiest.waited / max(1, busiest.count),
		had: busiest.ran / (busiest.ran + busiest.waited),
	}
}

// sample reads the clock and the threads in one request.
func (b *bench) sample(pod *corev1.Pod) sample {
	b.t.Helper()
	const clock = "/proc/uptime"
	files, err := b.n.Guest.ReadFiles(b.ctx, clock, fmt.Sprintf("/proc/%d/task/*/schedstat", b.pods[pod.Name].pid))
	if err != nil {
		b.t.Fatal(err)
	}
	s := sample{threads: map[string]turns{}}
	if _, err := fmt.Sscan(files[clock], &s.at); err != nil {
		b.t.Fatalf("%s says %q: %v", clock, files[clock], err)
	}
	delete(files, clock)
	for name, text := range files {
		var one turns
		if _, err := fmt.Sscan(text, &one.ran, &one.waited, &one.count); err != nil {
			b.t.Fatalf("%s says %q: %v", name, text, err)
		}
		s.threads[name] = turns{one.ran / 1e9, one.waited / 1e9, one.count}
	}
	return s
}

// sample is the time since the boot, and what schedstat says of each thread.
type sample struct {
	at      float64
	threads map[string]turns
}

// turns are the seconds that a thread ran and waited to run, and how often it was given the CPU.
type turns struct{ ran, waited, count float64 }

// siblings is what idle is for: it puts the hog behind the other BestEffort pods.
func (b *bench) siblings(out *tabwriter.Writer) {
	b.t.Helper()
	pod := b.run("sibling", corev1.ResourceRequirements{}, "burn")
	b.pin(pod, contested)
	shares := map[bool]float64{}
	for _, idle := range []bool{false, true} {
		p := protection{weight: true, idle: idle}
		got := b.measure(pod, p)
		for range attempts - 1 {
			if idle == (got.had > aboveIdle) {
				break
			}
			got = b.measure(pod, p)
		}
		shares[idle] = got.had
		fmt.Fprintf(out, "BestEffort\talways busy\tburns\t%s\t%s\n", p, got)
	}
	if shares[false] < 1-aboveIdle || shares[false] > aboveIdle || shares[true] < aboveIdle {
		b.t.Errorf("a BestEffort pod beside the hog has %.0f %% of the CPU time that it wants, and %.0f %% with the hog idle; want half, and more than %.0f",
			100*shares[false], 100*shares[true], 100*aboveIdle)
	}
	b.end(pod)
}
