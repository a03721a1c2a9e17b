package colocation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
	"hilbert.dev/hilbert/topology"
)

const (
	// nodesPerRack is how many nodes share a rack.
	nodesPerRack = 5
	// learnedFor is for how long agents have learned what services use when they start: as if they had run before.
	learnedFor = 4 * time.Minute
	// patience bounds what has to happen before the morning begins, and a step of the clock, in real time.
	patience = 2 * time.Minute
	// gpuNode is the node of the service on a part of a GPU.
	gpuNode = "gpu-0"
)

// bed is the cluster that is played on.
type bed struct {
	Options

	load   load
	clock  *clock.Stepped
	config *rest.Config
	client kubernetes.Interface
	fleet  *hollow.Fleet // of the GPU node
	agents *hollow.Agents
	names  []string
	racks  map[string]string // of nodes
	rounds []uint64          // of each agent's laws, up to the last step
	watch  *podWatch
	daemon chan error

	slowest time.Duration
	steps   int
	began   time.Time // when the morning began, in real time
}

// start brings the cluster up. What it has started ends with ctx and tasks, but for the agents and the fleet: see stop.
func (b *bed) start(ctx context.Context, plane *controlplane.ControlPlane, tasks *sync.WaitGroup) error {
	if err := plane.InstallDefinitions(ctx); err != nil {
		return err
	}
	b.config = plane.AdminConfig()
	b.config.QPS = -1
	var err error
	if b.client, err = kubernetes.NewForConfig(b.config); err != nil {
		return fmt.Errorf("client of the morning: %w", err)
	}
	if err := b.register(ctx); err != nil {
		return err
	}
	if err := b.createQueues(ctx); err != nil {
		return err
	}
	if b.watch, err = followPods(ctx, b.client, tasks); err != nil {
		return err
	}
	if err := b.startAgents(ctx); err != nil {
		return err
	}
	b.daemon = make(chan error, 1)
	tasks.Go(func() {
		b.daemon <- daemon.Run(ctx, configuration(), daemon.Options{Connection: b.config, Log: b.logger("hilbertd"), Clock: b.clock})
	})
	return nil
}

func (b *bed) stop() {
	if b.agents != nil {
		b.agents.Stop()
	}
	if b.fleet != nil {
		b.fleet.Stop()
	}
}

func (b *bed) logger(part string) *slog.Logger {
	to := b.Log
	if to == nil {
		to = io.Discard
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelWarn})).With(slog.String("part", part))
}

// agentConfig is the agents': as it comes, but that no core is reserved.
func (b *bed) agentConfig() spec.Node {
	config := spec.Default().Node
	config.ReservedCores = new(0)
	if b.NoLending {
		config.Lending.Enabled = new(false)
	}
	return config
}

// register makes the nodes.
func (b *bed) register(ctx context.Context) error {
	shapes := hollow.AgentShapes(b.Nodes, agentMachine(), b.agentConfig())
	b.racks = make(map[string]string, len(shapes))
	for i := range shapes {
		rack := fmt.Sprintf("rack-%d", i/nodesPerRack)
		shapes[i].Labels = map[string]string{hollow.LabelRack: rack, hollow.LabelBlock: "block-0", labelLends: "true"}
		b.names = append(b.names, shapes[i].Name)
		b.racks[shapes[i].Name] = rack
	}
	frozen, err := hollow.Run(ctx, b.config, shapes, hollow.Options{Frozen: true})
	if err != nil {
		return err
	}
	frozen.Stop() // it has nothing more to do
	gpus := hollow.Shape{Name: gpuNode, Labels: map[string]string{hollow.LabelGPUModel: "T4"}, Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		hollow.ResourceGPU: resource.MustParse("4"), hollow.ResourceGPUMilli: resource.MustParse("4000"),
	}}
	b.fleet, err = hollow.Run(ctx, b.config, []hollow.Shape{gpus}, hollow.Options{})
	return err
}

// agentMachine is the topology of machine.
func agentMachine() *topology.Machine {
	m := machine()
	return hollow.PairMachine(m.Cores, m.Memory/topology.Mebibyte)
}

// labelLends stands on nodes with an agent.
const labelLends = "lab.hilbert.dev/lends"

// startAgents starts an agent on each node. They know what services use before the rise.
func (b *bed) startAgents(ctx context.Context) error {
	config := b.agentConfig()
	use := 0.0
	for i := range apps {
		use += b.load.tide.at(i, 0) / apps
	}
	state, err := hollow.LearnLawState(agentMachine(), &config, use*peakShare*serviceCPUs*servicesPerNode*1.3, learnedFor)
	if err != nil {
		return err
	}
	b.agents, err = hollow.RunAgents(ctx, b.config, b.names, hollow.AgentOptions{
		Machine: agentMachine(), Config: config, Model: b.load.model(), Clock: b.clock, LawState: state, Log: b.logger("agent"),
	})
	if err != nil {
		return err
	}
	b.rounds = make([]uint64, len(b.names))
	return nil
}

// configuration is hilbertd's. Its Lease lasts, so that a busy machine does not lose it.
func configuration() *spec.Configuration {
	const lease, renew = 90 * time.Second, 60 * time.Second
	c := spec.Default()
	c.Server.BindAddress = "-"
	c.LeaderElection.LeaseDuration, c.LeaderElection.RenewDeadline = spec.Duration(lease), spec.Duration(renew)
	c.Scheduling.NodeReports.Policies = spec.PoliciesIgnore // this control plane has none
	return c
}

// queues are the tenants of the jobs: each has a namespace and a part of what is lent.
var queues = []struct {
	name   string
	weight int64
}{{"analytics", 1}, {"training", 2}}

// createQueues makes namespaces, and the Queues that they feed.
func (b *bed) createQueues(ctx context.Context) error {
	objects, err := dynamic.NewForConfig(b.config)
	if err != nil {
		return fmt.Errorf("client of the queues: %w", err)
	}
	for _, q := range queues {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: q.name, Labels: map[string]string{spec.LabelQueue: q.name}}}
		if _, err := b.client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace %s: %w", q.name, err)
		}
		queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: q.name}, Spec: v1alpha1.QueueSpec{Weight: q.weight}}
		queue.APIVersion, queue.Kind = v1alpha1.GroupVersion.String(), "Queue"
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(queue)
		if err != nil {
			return fmt.Errorf("encode queue %s: %w", q.name, err)
		}
		if err := createObject(ctx, objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.Queues)), fields); err != nil {
			return fmt.Errorf("create queue %s: %w", q.name, err)
		}
	}
	return nil
}

// step lets a second pass, and returns when all that go by the clock are done with it.
func (b *bed) step(ctx context.Context) error {
	began := time.Now()
	b.clock.Advance(time.Second)
	for i, name := range b.names {
		if err := b.settle(ctx, i, name); err != nil {
			return err
		}
	}
	if err := b.quiet(ctx); err != nil {
		return err
	}
	b.slowest = max(b.slowest, time.Since(began))
	b.steps++
	if b.Speed <= 0 || b.began.IsZero() {
		return ctx.Err()
	}
	return pause(ctx, time.Duration(float64(time.Second)/b.Speed)-time.Since(began))
}

// settle waits until an agent has done all that a second asks for.
func (b *bed) settle(ctx context.Context, i int, name string) error {
	if b.NoLending { // its laws have no turn
		return nil
	}
	const look = time.Millisecond
	agent := b.agents.Agent(name)
	for end := time.Now().Add(patience); ; {
		n, settled := agent.Rounds()
		if settled && n > b.rounds[i] {
			b.rounds[i] = n
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the agent of %s has not come round within %s", name, patience)
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
}

// calm is for how long nothing may have come from the API server before the next second begins.
const calm = 10 * time.Millisecond

// quiet waits until what was written has had its consequences.
func (b *bed) quiet(ctx context.Context) error {
	for end := time.Now().Add(patience); b.agents.Busy() || time.Since(b.watch.lastEvent()) < calm; {
		if time.Now().After(end) {
			return fmt.Errorf("the API server has not become quiet within %s", patience)
		}
		if err := pause(ctx, calm/4); err != nil {
			return err
		}
	}
	select {
	case err := <-b.daemon:
		return fmt.Errorf("hilbertd ended: %w", errors.Join(err, ctx.Err()))
	default:
		return nil
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// until lets seconds pass until something holds.
func (b *bed) until(ctx context.Context, what string, holds func() (bool, string)) error {
	for end := time.Now().Add(patience); ; {
		ok, why := holds()
		if ok {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %s: %s: %s", patience, what, why)
		}
		if err := b.step(ctx); err != nil {
			return err
		}
		if err := pause(ctx, calm); err != nil { // who is not on the clock has a chance too
			return err
		}
	}
}

// rackList is the racks of pods' nodes, each once.
func (b *bed) rackList(nodes []string) []string {
	set := make(map[string]bool)
	for _, n := range nodes {
		set[b.racks[n]] = true
	}
	return slices.Sorted(maps.Keys(set))
}
