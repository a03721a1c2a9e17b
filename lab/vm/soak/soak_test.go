package soak

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/deploy/policies"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/deploytest"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
	"hilbert.dev/hilbert/topology"
)

const (
	// durationVariable and seedVariable say for how long, and with which seed.
	durationVariable, seedVariable = "HILBERT_SOAK", "HILBERT_SOAK_SEED"
	shortSoak                      = 2 * time.Minute
	agentService                   = "hilbertd"
	agentTick                      = 2 * time.Second
	// settleTime bounds how long the node may take until nothing is wrong any more. The slowest is a pod that starts after a restart of the kubelet.
	settleTime = 3 * time.Minute
	// pause is how often the node is read: each reading costs the guest time. lendPause is that while a loan is waited for, which needs calm.
	pause, lendPause = 700 * time.Millisecond, 3 * time.Second
	// The guest has more CPUs than others, so that there is something to lend beside dedicated pods.
	guestCPUs = 12
	// lendsWithin is how long a soak is in which something has to be lent.
	lendsWithin = 15 * time.Minute
	// pluginCards are the cards that the plugin brings: one for each shared pod, by NUMA node.
	pluginCards = "0,0,1,1"
	// service is the online pod whose use rises and falls, and how many threads it then keeps busy: as many CPUs as online pods request together, and the agent leaves a margin.
	service, serviceMilliCPU, serviceThreads = "service", 1000, "3"
)

const agentConfiguration = `apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
roles: [agent]
clientConnection: {kubeconfig: /etc/hilbert/kubeconfig}
server: {bindAddress: "0.0.0.0:10462"}
node:
  name: %s
  tickInterval: %s
  writeInterval: 1s
  plugins: {enabled: true, interval: 1s}
  lending: {interval: 10s, step: 25, targetUtilization: 95, refreshInterval: 10s}
`

var cluster *deploytest.Cluster //nolint:gochecknoglobals // ended after the tests, before the node

func TestMain(m *testing.M) {
	os.Exit(vmtest.Run(deploytest.Ending{Tests: m, Cluster: &cluster}, join.Options{Guest: vm.Options{CPUs: guestCPUs, Nodes: vm.Nodes, Forward: []int{join.AgentPort}}}))
}

// TestSoak: whatever happens to a node, and in whatever order, its promises hold, or it says that they do not. HILBERT_SOAK is for how long, HILBERT_SOAK_SEED
// the seed.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short")
	}
	duration, seed := settings(t)
	r := newRig(t)
	t.Logf("seed %d, for %v: %s=%d %s=%v repeats it", seed, duration, seedVariable, seed, durationVariable, duration)
	s := NewSequence(seed)
	var done []string
	counts := make(map[string]int)
	var slowest time.Duration
	step := func(a Action) {
		done = append(done, a.String())
		counts[strings.Fields(a.String())[0]]++
		began := time.Now()
		err := r.act(a)
		if err == nil && !(a.Kind == Lend && r.loans.lasts) { // a loan may be short: what is to come of it comes at once, and is judged then
			err = r.settle()
		}
		took := time.Since(began)
		slowest = max(slowest, took-a.waits())
		if t.Logf("%3d %s: %.1f s", len(done), a, took.Seconds()); err != nil {
			r.lastWords()
			t.Fatalf("after step %d, %v, of seed %d: %v\nall steps:\n%s", len(done), a, seed, err, strings.Join(done, "\n"))
		}
	}
	for begin := time.Now(); time.Since(begin) < duration; {
		step(s.Next())
	}
	for _, a := range s.End() {
		step(a)
	}
	step(Action{Kind: Wait, By: 4 * agentTick})
	t.Logf("%d steps (%s); the node took at most %.0f s until nothing was wrong", len(done), total(counts), slowest.Seconds())
	l := &r.loans
	t.Logf("CPUs were lent beyond the floor after %d steps; the agent went away from %d loans, of which %d were back while it was away or when it was back; the service wanted %d",
		l.steps, l.left, l.back, l.risen)
	if duration >= lendsWithin && (l.left == 0 || l.risen == 0) {
		t.Error("that says nothing of loans: the agent went away from none, or the service wanted none back")
	}
}

func total(counts map[string]int) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s %d", kind, counts[kind]))
	}
	return strings.Join(out, ", ")
}

func settings(t *testing.T) (duration time.Duration, seed uint64) {
	t.Helper()
	duration, seed = shortSoak, uint64(time.Now().UnixNano())%1_000_000
	var err error
	if text := os.Getenv(durationVariable); text != "" {
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", durationVariable, err)
		}
	}
	if text := os.Getenv(seedVariable); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	return duration, seed
}

// newRig returns a node whose agent has a disk of its own and lends, with a watchdog.
func newRig(t *testing.T) *rig {
	t.Helper()
	cluster = &deploytest.Cluster{Node: vmtest.Node(t), Root: "../../.."}
	r := &rig{
		Cluster: cluster, t: t, disk: deploytest.StateDisk{Guest: cluster.Guest},
		wanted: make(map[string]*planned), known: make(map[string]bool), requested: make(map[string]int64),
	}
	ctx := t.Context()
	for _, start := range []func(context.Context) error{
		r.Install,
		r.disk.Mount,
		func(ctx context.Context) error {
			return r.StartAgent(ctx, agentService, fmt.Sprintf(agentConfiguration, r.Name, agentTick))
		},
		func(ctx context.Context) error { _, err := r.StartWatchdog(ctx); return err },
		func(ctx context.Context) error { return r.StartPlugin(ctx, r.Root, Plugin, pluginCards) },
		r.readMachine,
		r.startService,
	} {
		if err := start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	r.agentSince, r.watchdogSince = time.Now(), time.Now()
	if err := r.settle(); err != nil {
		r.lastWords()
		t.Fatalf("the node is not ready: %v", err)
	}
	return r
}

// readMachine reads what does not change.
func (r *rig) readMachine(ctx context.Context) error {
	r.machine.Reserved, r.machine.Floor = topology.CPUs(0), 1
	for numa := range vm.Nodes {
		text, err := r.Guest.Field(ctx, fmt.Sprintf("/sys/devices/system/node/node%d/cpulist", numa))
		if err != nil {
			return err
		}
		cpus, err := topology.ParseCPUSet(text)
		if err != nil {
			return err
		}
		r.machine.NUMA = append(r.machine.NUMA, cpus)
		r.machine.Online = r.machine.Online.Union(cpus)
	}
	return nil
}

// settle returns when nothing has been wrong with the node for two ticks.
func (r *rig) settle() error {
	ctx := r.t.Context()
	began, well := time.Now(), time.Time{}
	for {
		reading, err := r.read(ctx)
		var wrong []string
		if err != nil {
			wrong = []string{err.Error()}
		} else {
			wrong = Judge(reading)
		}
		switch {
		case len(wrong) > 0 && time.Since(began) > settleTime:
			return fmt.Errorf("%w, %v:\n%s", errTimes, settleTime, strings.Join(wrong, "\n"))
		case len(wrong) > 0:
			well = time.Time{}
		case well.IsZero():
			well = time.Now()
		case time.Since(well) > agentTick:
			r.isWell(reading)
			return nil
		}
		time.Sleep(pause)
	}
}

// waits is what of an action's time is waiting.
func (a Action) waits() time.Duration {
	if a.Kind == Wait {
		return a.By
	}
	return 0
}

// act does what an action says.
func (r *rig) act(a Action) error {
	ctx := r.t.Context()
	pods := r.Client.CoreV1().Pods(metav1.NamespaceDefault)
	switch a.Kind {
	case Create:
		r.wanted[a.Pod] = &planned{a.Pod, a.Level, a.MilliCPU}
		return r.create(ctx, a)
	case Resize:
		patch := fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":"%[2]dm"},"limits":{"cpu":"%[2]dm"}}}]}}`, container, a.MilliCPU)
		_, err := pods.Patch(ctx, a.Pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
		return missing(err)
	case Delete:
		delete(r.wanted, a.Pod)
		return missing(pods.Delete(ctx, a.Pod, metav1.DeleteOptions{}))
	case Wait:
		time.Sleep(a.By)
		return nil
	case Lend:
		return r.awaitLoan(ctx, a.By)
	case Rise, Fall:
		return r.serviceWants(ctx, a.Kind == Rise)
	case MoveClock:
		_, err := r.Guest.Shell(ctx, fmt.Sprintf("date -s @$(($(date +%%s) + %d))", int(a.By.Seconds())))
		return err
	}
	return r.disturb(ctx, a)
}

// missing forgives that a pod is not there: it may have been evicted.
func missing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// disturb does something to a process or the disk.
func (r *rig) disturb(ctx context.Context, a Action) error {
	switch a.Kind {
	case Kill:
		return r.kill(ctx, a.Service)
	case Stop:
		there, err := r.signal(ctx, agentService, syscall.SIGSTOP)
		r.leaves(func() { r.stopped = there })
		return err
	case Continue:
		_, err := r.signal(ctx, agentService, syscall.SIGCONT)
		r.stopped = false
		return err
	case Fill, Free:
		if r.full = a.Kind == Fill; r.frozen {
			return nil // it would wait, too
		}
		return r.filled(ctx)
	case Freeze:
		r.frozen, r.agentKilled = true, false
		return r.disk.Freeze(ctx)
	case Thaw:
		r.frozen = false
		return errors.Join(r.disk.Thaw(ctx), r.filled(ctx))
	}
	return fmt.Errorf("nobody knows how to do: %v", a)
}

// filled has the disk full or not, as it is to be.
func (r *rig) filled(ctx context.Context) error {
	if r.full {
		return r.disk.Fill(ctx)
	}
	return r.disk.Free(ctx)
}

// signal sends a signal to a service, which may not be there.
func (r *rig) signal(ctx context.Context, service string, signal syscall.Signal) (there bool, err error) {
	_, err = r.Guest.Signal(ctx, service, signal)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (r *rig) kill(ctx context.Context, service string) error {
	switch service {
	case Agent:
		_, err := r.signal(ctx, agentService, syscall.SIGKILL)
		r.leaves(func() { r.stopped, r.agentKilled = false, r.frozen })
		return err
	case Watchdog:
		_, err := r.signal(ctx, deploytest.WatchdogService, syscall.SIGKILL)
		r.watchdogSince = time.Now().Add(watchdogStarts)
		return err
	case Plugin:
		there, err := r.signal(ctx, join.PluginProgram, syscall.SIGKILL)
		if err == nil && !there {
			err = errors.New("the plugin was to be killed, and does not run")
		}
		return err
	}
	_, err := r.signal(ctx, service, syscall.SIGKILL)
	return err
}

// leaves has the agent leave, from now on if it was there.
func (r *rig) leaves(how func()) {
	there := !r.away()
	if how(); there {
		r.agentSince = time.Now()
		if r.loans.lasts {
			r.loans.left, r.loans.open = r.loans.left+1, true
		}
	}
}

// lentAmount is what every other reclaimed pod asks for: more than the floor, so that CPUs are lent.
const lentAmount = 3000

// asks reports whether a reclaimed pod asks for an amount.
func asks(a Action) bool { return asksFor(a.Level, a.Pod) }

// create creates a pod. A reclaimed one that asks for an amount is bound as the scheduler would do it minutes later, when the node has offered that for a while.
func (r *rig) create(ctx context.Context, a Action) error {
	p := r.pod(a)
	if asks(a) {
		p.Spec.SchedulerName = "by-hand"
	}
	p, err := r.Client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil || !asks(a) {
		return err
	}
	config := r.Plane.AdminConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: policies.Placer, Groups: []string{"system:authenticated"}}
	scheduler, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return scheduler.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Annotations: map[string]string{
			spec.AnnotationReclaimed: fmt.Sprintf("%dm/64Mi", lentAmount),
		}},
		Target: corev1.ObjectReference{Kind: "Node", Name: r.Name},
	}, metav1.CreateOptions{})
}

// pod is a pod of a level.
func (r *rig) pod(a Action) *corev1.Pod {
	p := r.BusyPod(a.Pod, corev1.ResourceRequirements{}, "sleep")
	p.Spec.NodeName, p.Spec.SchedulerName = "", spec.DefaultSchedulerName
	p.Labels, p.Annotations = map[string]string{}, map[string]string{}
	amounts := func(cpu, memory corev1.ResourceName) corev1.ResourceRequirements {
		list := corev1.ResourceList{cpu: *resource.NewMilliQuantity(a.MilliCPU, resource.DecimalSI), memory: resource.MustParse("64Mi")}
		return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	}
	switch a.Level {
	case Dedicated:
		p.Labels[spec.LabelQoS], p.Annotations[spec.AnnotationNUMA] = string(a.Level), spec.NUMABound
		p.Spec.Containers[0].Resources = amounts(corev1.ResourceCPU, corev1.ResourceMemory)
	case Shared:
		p.Spec.Containers[0].Resources = amounts(corev1.ResourceCPU, corev1.ResourceMemory)
		p.Spec.Containers[0].Resources.Requests[join.PluginResource] = resource.MustParse("1")
		p.Spec.Containers[0].Resources.Limits[join.PluginResource] = resource.MustParse("1")
	case Reclaimed:
		p.Labels[spec.LabelQoS] = string(a.Level)
		if asks(a) {
			p.Spec.Containers[0].Args = []string{"steps", "20", "20"} // what it uses, the host takes from the emulation of all other CPUs
			a.MilliCPU = lentAmount * milliPerCPU                     // the resource counts millicores
			p.Spec.Containers[0].Resources = amounts(spec.ResourceReclaimedCPU, spec.ResourceReclaimedMemory)
		}
	}
	return p
}
