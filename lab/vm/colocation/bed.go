package colocation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
	"hilbert.dev/hilbert/topology"
)

const (
	// agentName is the agent's service in the guest, container the one container of the test bed's pods.
	agentName, container = "hilbertd", "main"
	// tick is the agent's.
	tick = 2 * time.Second
	// patience bounds what takes as long as it takes; poll is how often the guest is asked meanwhile: each answer costs it time.
	patience, poll = 3 * time.Minute, 300 * time.Millisecond
	// A node has settled when its services use less than settled CPUs during settleStep; it is not waited for longer than settleMost.
	settled, settleStep, settleMost = 0.35, 2 * time.Second, 6 * time.Second
	// caughtUp is the latency below which a server has no work left over from before.
	caughtUp = 200 * time.Millisecond
)

// Flags of the tests that measure.
var (
	RoundsFlag = flag.Int("colocation.rounds", 3, "rounds of the experiments in a guest, of all arms each")
	WindowFlag = flag.Duration("colocation.window", 15*time.Second, "for how long each arm of a round is watched")
	OutFlag    = flag.String("colocation.out", "", "the directory for results and pictures; none are written without")
)

// agentConfiguration is what deploy/agent.yaml has, but for a shorter tick. It wants the node's name, the reserved cores, and the floor: the cores of
// each NUMA node that reclaimed pods have at the least.
const agentConfiguration = `apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
roles: [agent]
clientConnection: {kubeconfig: /etc/hilbert/kubeconfig}
server: {bindAddress: "0.0.0.0:10462"}
node: {name: %s, kubeletThresholds: File, tickInterval: %s, reservedCores: %d, reclaimedCores: %d}
`

// Bed is a node for one test.
type Bed struct {
	*join.Node
	T testing.TB

	offline   []*Pod
	agentRuns bool
	reserved  int // cores
	entered   int // arms: pods' names have it, for an old one may not be gone yet
}

// NewBed is the shared node with definitions installed, and an agent of the tree at root that was started and stopped. The node's services are kept to
// the reserved cores, the first ones, where there are any.
func NewBed(t testing.TB, root string, reserved int) *Bed {
	t.Helper()
	b := &Bed{Node: vmtest.Node(t), T: t, reserved: reserved}
	kubeconfig, err := b.Plane.KubeconfigAt(vm.HostAddress, agentName, "system:masters")
	b.Must(err)
	b.Must(b.Plane.InstallDefinitions(t.Context()))
	b.agentRuns = true
	b.Must(b.StartAgent(t.Context(), root, agentName, string(kubeconfig), b.configuration(1)))
	b.Agent(false)
	if reserved > 0 {
		b.Set(systemCgroup+"/cpuset.cpus", fmt.Sprintf("0-%d", reserved-1))
	}
	t.Cleanup(func() {
		if t.Failed() {
			b.lastWords()
		}
	})
	return b
}

// lastWords are for people who look for the cause of a failure.
func (b *Bed) lastWords() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.T.Context()), 20*time.Second)
	defer cancel()
	for _, name := range []string{agentName, join.Kubelet} {
		text, err := b.Guest.Service(name).Log(ctx)
		if err != nil {
			text = err.Error()
		}
		b.T.Logf("%s said last:\n%s", name, text[max(0, len(text)-4000):])
	}
}

// Must ends the test on an error.
func (b *Bed) Must(err error) {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
}

// Eventually returns when check has no error. It ends the test after minutes.
func (b *Bed) Eventually(what string, check func() error) {
	b.T.Helper()
	if err := b.Within(patience, check); err != nil {
		b.T.Fatalf("%s: not within %s: %v", what, patience, err)
	}
}

// Within returns nil when check has no error, and its last error after a time.
func (b *Bed) Within(most time.Duration, check func() error) error {
	for begin := time.Now(); ; time.Sleep(poll) {
		err := check()
		if err == nil || time.Since(begin) > most {
			return err
		}
	}
}

// Agent starts or stops the agent, and returns when it is ready or gone.
func (b *Bed) Agent(runs bool) {
	b.T.Helper()
	if b.agentRuns == runs {
		return
	}
	service := b.Guest.Service(agentName)
	if b.agentRuns = runs; !runs {
		b.Must(service.Stop(b.T.Context()))
		return
	}
	b.Must(service.Start(b.T.Context()))
	b.Eventually("the agent is ready", func() error {
		_, err := b.AskAgent(b.T.Context(), "/readyz")
		return err
	})
}

// Set writes a file of the guest: a knob.
func (b *Bed) Set(path, value string) {
	b.T.Helper()
	b.Must(b.Guest.WriteString(b.T.Context(), path, value))
}

// Freeze stops a pod where it holds nothing of the kernel's, or lets it go on.
func (b *Bed) Freeze(p *Pod, frozen bool) {
	b.T.Helper()
	b.Set(p.Cgroup+"/cgroup.freeze", map[bool]string{true: "1", false: "0"}[frozen])
}

func (b *Bed) configuration(floor int) string {
	return fmt.Sprintf(agentConfiguration, b.Name, tick, b.reserved, floor)
}

// Floor starts the agent again with another floor, in cores.
func (b *Bed) Floor(cores int) {
	b.T.Helper()
	b.agentRuns = true
	b.Must(b.ReconfigureAgent(b.T.Context(), agentName, b.configuration(cores)))
}

// Pod is a running pod, and where the kernel has it.
type Pod struct {
	*corev1.Pod
	Cgroup, Container string // directories
	PID               int    // of its first process
	Job               string // of an offline pod: what is counted together over the rounds
}

// serves: it answers requests, and leaves word of them.
func (p *Pod) serves() bool { return p.Spec.Containers[0].Args[0] == "serve" }

// Run runs pods, all at once.
func (b *Bed) Run(pods ...*corev1.Pod) []*Pod {
	b.T.Helper()
	out, errs := make([]*Pod, len(pods)), make([]error, len(pods))
	var group sync.WaitGroup
	for i, pod := range pods {
		group.Go(func() { out[i], errs[i] = b.run(pod) })
	}
	group.Wait()
	b.Must(errors.Join(errs...))
	return out
}

func (b *Bed) run(pod *corev1.Pod) (_ *Pod, err error) {
	ctx := b.T.Context()
	p := new(Pod)
	if p.Pod, err = b.RunPod(ctx, pod); err != nil {
		return nil, err
	}
	if p.Cgroup, err = b.PodCgroup(ctx, p.Pod); err != nil {
		return nil, err
	}
	if p.Container, err = b.ContainerCgroup(ctx, p.Pod, container); err != nil {
		return nil, err
	}
	pids, err := b.PIDs(ctx, p.Pod, container)
	if err != nil {
		return nil, err
	}
	p.PID = pids[0]
	return p, nil
}

// Remove deletes pods, all at once, and returns when they are gone.
func (b *Bed) Remove(pods ...*Pod) {
	b.T.Helper()
	b.Must(b.remove(pods...))
}

func (b *Bed) remove(pods ...*Pod) error {
	errs := make([]error, len(pods))
	var group sync.WaitGroup
	for i, p := range pods {
		group.Go(func() { errs[i] = b.DeletePod(b.T.Context(), p.Pod) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// CPUs are those that a pod's processes may run on.
func (b *Bed) CPUs(p *Pod) (topology.CPUSet, error) {
	text, err := b.Guest.Field(b.T.Context(), p.Container+"/cpuset.cpus.effective")
	if err != nil {
		return topology.CPUSet{}, err
	}
	return topology.ParseCPUSet(text)
}

// Confine keeps all pods off the reserved cores, as an agent would, also where no agent runs. The kubelet writes this knob at its start alone.
func (b *Bed) Confine() {
	b.T.Helper()
	cpus := b.All()
	for cpu := range b.reserved {
		cpus = cpus.Minus(topology.CPUs(cpu))
	}
	b.Set(podsCgroup+"/cpuset.cpus", cpus.String())
}

// All are the CPUs that pods may run on.
func (b *Bed) All() topology.CPUSet {
	b.T.Helper()
	text, err := b.Guest.Field(b.T.Context(), podsCgroup+"/cpuset.cpus.effective")
	b.Must(err)
	set, err := topology.ParseCPUSet(text)
	b.Must(err)
	return set
}

// Job is an offline pod, before anybody says how it is to run.
type Job struct {
	Name   string
	Args   []string
	CPU    string // that it asks for where it asks
	Memory string // that it asks for as a reclaimed pod: its limit too
}

// Arm is one way to run offline pods beside an online one.
type Arm struct {
	Name, Title string
	Agent       bool
	Jobs        []Job
	Shape       func(*corev1.Pod, Job) // makes a BestEffort pod what the arm has
}

// Burstable has a job ask for CPU as services do.
func Burstable(p *corev1.Pod, j Job) {
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(j.CPU)}
}

// BestEffort leaves a job as it is.
func BestEffort(*corev1.Pod, Job) {}

// Reclaimed makes a job what Hilbert's policies and its scheduler make of a reclaimed pod.
func Reclaimed(p *corev1.Pod, j Job) {
	cpu, memory := resource.MustParse(j.CPU), resource.MustParse(j.Memory)
	amounts := spec.ReclaimedAmounts{MilliCPU: cpu.MilliValue(), MemoryMiB: memory.Value() >> 20}
	p.Labels = map[string]string{spec.LabelQoS: string(spec.QoSReclaimed)}
	p.Annotations = map[string]string{spec.AnnotationReclaimed: amounts.String()}
}

// Enter ends the jobs of the arm before and begins those of this one, and returns when the agent, if there is one, has placed all pods and the
// server has no work left over. Arms without an agent follow each other at once, pods coming and going at the same time, unless the server is late.
func (b *Bed) Enter(a Arm, online *Pod) {
	b.T.Helper()
	old := b.offline
	if a.Agent || b.agentRuns || b.caughtUp(online) != nil {
		b.Leave(online)
		b.Agent(a.Agent)
		old = nil
	}
	b.entered++
	var jobs []*corev1.Pod
	for _, job := range a.Jobs {
		pod := b.BusyPod(job.Name, corev1.ResourceRequirements{}, job.Args...)
		pod.Name = fmt.Sprintf("%s-%d", job.Name, b.entered)
		a.Shape(pod, job)
		jobs = append(jobs, pod)
	}
	var ending sync.WaitGroup
	var err error
	ending.Go(func() { err = b.remove(old...) })
	b.offline = b.Run(jobs...)
	ending.Wait()
	b.Must(err)
	for i, p := range b.offline {
		p.Job = a.Jobs[i].Name
		b.Eventually(p.Name+" works", func() error {
			_, err := b.done(p)
			return err
		})
	}
	if a.Agent && len(b.offline) > 0 {
		b.Eventually("online and offline pods are apart", func() error { return b.apart(online) })
	}
	b.settle()
}

// settle returns when the node's services have done what starting pods made them do, at the latest after a while.
func (b *Bed) settle() {
	b.T.Helper()
	last, begin := b.systemCPU(), time.Now()
	for time.Since(begin) < settleMost {
		time.Sleep(settleStep)
		now := b.systemCPU()
		if now-last < settled*settleStep.Seconds() {
			return
		}
		last = now
	}
}

// systemCPU is the CPU time of the node's services, in seconds.
func (b *Bed) systemCPU() float64 {
	b.T.Helper()
	text, err := b.Guest.ReadFile(b.T.Context(), systemFile)
	b.Must(err)
	used, err := after(text, "usage_usec ")
	b.Must(err)
	return used / 1e6
}

// Beside has what these pods do counted as offline work. They end with the next Leave.
func (b *Bed) Beside(offline ...*Pod) { b.offline = offline }

// Leave ends the jobs, and returns when nothing is left of them.
func (b *Bed) Leave(online *Pod) {
	b.T.Helper()
	b.Remove(b.offline...)
	b.offline = nil
	all := b.All()
	b.Eventually("the online pod has all CPUs", func() error {
		if cpus, err := b.CPUs(online); err != nil || cpus != all {
			return fmt.Errorf("it has %v of %v, %w", cpus, all, err)
		}
		return nil
	})
	b.CatchUp(online)
}

// CatchUp returns when a server has no work left over from before.
func (b *Bed) CatchUp(online *Pod) {
	b.T.Helper()
	b.Eventually("the server has caught up", func() error { return b.caughtUp(online) })
}

// caughtUp is nil where a server's last answer was in time, and for pods that are no servers.
func (b *Bed) caughtUp(online *Pod) error {
	if !online.serves() {
		return nil
	}
	last, err := b.lastLatency(online)
	if err == nil && last > caughtUp {
		err = fmt.Errorf("its last answer took %s", last)
	}
	return err
}

func (b *Bed) apart(online *Pod) error {
	own, err := b.CPUs(online)
	if err != nil {
		return err
	}
	for _, p := range b.offline {
		cpus, err := b.CPUs(p)
		if err != nil {
			return err
		}
		if both := own.Intersection(cpus); !both.IsEmpty() {
			return fmt.Errorf("%s has %v, %s %v", online.Name, own, p.Name, cpus)
		}
	}
	return nil
}

// lastLatency is that of the server's last answer.
func (b *Bed) lastLatency(online *Pod) (time.Duration, error) {
	out, err := b.Guest.Exec(b.T.Context(), "/bin/tail", "-n", "1", online.requests())
	if err != nil {
		return 0, err
	}
	one, err := parseAnswers(out.Stdout)
	if err != nil || len(one) == 0 {
		return 0, fmt.Errorf("no answer yet: %q %w", strings.TrimSpace(out.Stdout+out.Stderr), err)
	}
	return one[0].latency, nil
}

// done is the work that a job has done.
func (b *Bed) done(p *Pod) (pieces float64, err error) {
	text, err := b.Guest.ReadFile(b.T.Context(), p.work())
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(text, &pieces)
	return pieces, err
}
