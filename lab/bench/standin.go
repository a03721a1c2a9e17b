package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/lab/hollow"
)

// StandinOptions says what to measure against the stand-in API server.
type StandinOptions struct {
	Nodes, Pods int
	// AllocatedPercent are the shares of the nodes that other pods hold beforehand; each is a measurement of its own.
	AllocatedPercent []int
	// Rounds is how often each is measured.
	Rounds int
	// Dir keeps the logs; "" is a temporary directory, removed unless the run fails.
	Dir string
	// Progress gets a line for each step.
	Progress io.Writer
}

const (
	// fillersPerNode is how many pods hold what is allocated beforehand on a node.
	fillersPerNode = 4
	// fullest is how much of what is left the pods may take, in percent: the last places are not what is measured.
	fullest = 90
	// leadTimeout bounds the wait until hilbertd leads.
	leadTimeout = 30 * time.Second
	// createTimeout bounds one creation.
	createTimeout = 10 * time.Second
)

func (o StandinOptions) validate() error {
	if err := (Options{Nodes: o.Nodes, Pods: o.Pods, Rounds: o.Rounds}).validate(); err != nil {
		return err
	}
	if len(o.AllocatedPercent) == 0 {
		return errors.New("--allocated is empty: give at least one percentage")
	}
	for _, p := range o.AllocatedPercent {
		if p < 0 || p > 99 {
			return fmt.Errorf("--allocated has %d: give percentages from 0 to 99", p)
		}
		var room int64
		for _, s := range hollow.Shapes(o.Nodes) {
			left := s.Allocatable.Cpu().MilliValue() * int64(100-p) / 100
			room += min(left/uniform[0].milliCPU, s.Allocatable.Pods().Value()-fillersPerNode)
		}
		if int64(o.Pods)*100 > room*fullest {
			return fmt.Errorf("%d pods are too many for %d nodes of which %d%% is allocated: %d would fit, and the benchmark fills at most %d%% of that; "+
				"give more --nodes or fewer --pods", o.Pods, o.Nodes, p, room, fullest)
		}
	}
	return nil
}

// Standin measures hilbertd, from the creation of pods to their Bindings, against a stand-in API server that is no limit.
func Standin(ctx context.Context, o StandinOptions) (_ *StandinResult, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	dir, finish, err := openLogs(o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = finish(err) }()
	result := &StandinResult{Protocol: newStandinProtocol(o)}
	rounds := make(map[int][]StandinRound)
	for i := range o.Rounds {
		for _, percent := range o.AllocatedPercent {
			h := &harness{options: Options{Nodes: o.Nodes, Pods: o.Pods, Progress: o.Progress}, dir: dir}
			h.work = workload{classes: uniform, shapes: hollow.Shapes(o.Nodes)}
			h.progress("round %d of %d: %d%% allocated", i+1, o.Rounds, percent)
			round, err := h.standinRound(ctx, percent)
			if err != nil {
				return nil, fmt.Errorf("round %d at %d%% allocated: %w", i+1, percent, err)
			}
			h.progress("  %.0f pods/s, %.0f µs of CPU a pod", round.PodsPerSecond, round.CPUMicrosPerPod)
			rounds[percent] = append(rounds[percent], round)
		}
	}
	for _, percent := range o.AllocatedPercent {
		result.Levels = append(result.Levels, newStandinLevel(percent, rounds[percent]))
	}
	return result, nil
}

// standinRound measures once, with processes of its own.
func (h *harness) standinRound(ctx context.Context, percent int) (_ StandinRound, err error) {
	defer h.stop()
	if err := h.startStandin(ctx); err != nil {
		return StandinRound{}, err
	}
	create, err := newCreator(h.config)
	if err != nil {
		return StandinRound{}, err
	}
	defer create.close()
	if err := h.fill(ctx, create, percent); err != nil {
		return StandinRound{}, err
	}
	child, err := spawn(ctx, h.dir, systemHilbert, systemHilbert, "--kubeconfig="+h.kubeconfig, "--dir="+h.dir)
	if err != nil {
		return StandinRound{}, err
	}
	defer child.stop()
	if err := h.awaitLeader(ctx, hilbertLease); err != nil {
		return StandinRound{}, err
	}
	return h.measureCreation(ctx, create, child)
}

// startStandin starts a stand-in API server with the nodes. It is to be stopped also after an error.
func (h *harness) startStandin(ctx context.Context) (err error) {
	h.kubeconfig = filepath.Join(h.dir, "kubeconfig")
	if h.server, err = spawn(ctx, h.dir, "stand-in", h.withDefinitions("standin-apiserver", "--kubeconfig="+h.kubeconfig)...); err != nil {
		return err
	}
	if err := h.connect(); err != nil {
		return err
	}
	fleet, err := hollow.Run(ctx, h.config, h.work.shapes, hollow.Options{Frozen: true})
	if err != nil {
		return err
	}
	fleet.Stop() // frozen, it has nothing more to do
	return h.prepare(ctx)
}

// fill creates the pods that hold percent of every node.
func (h *harness) fill(ctx context.Context, create *creator, percent int) error {
	if percent == 0 {
		return nil
	}
	return each(ctx, fillersPerNode*len(h.work.shapes), func(ctx context.Context, i int) error {
		shape := h.work.shapes[i/fillersPerNode]
		share := func(name corev1.ResourceName, unit int64) int64 {
			amount := shape.Allocatable[name]
			return amount.MilliValue() / unit * int64(percent) / 100 / fillersPerNode
		}
		pod := h.work.pod(0, fmt.Sprintf("filler-%06d", i), "filler")
		pod.Spec.NodeName = shape.Name
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(share(corev1.ResourceCPU, 1), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(share(corev1.ResourceMemory, 1000), resource.BinarySI),
		}
		return create.pod(ctx, i, pod)
	})
}

// awaitLeader returns when somebody holds the Lease.
func (h *harness) awaitLeader(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, leadTimeout, fmt.Errorf("nobody holds the Lease %s after %s", name, leadTimeout))
	defer cancel()
	for {
		lease, err := h.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		if err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case <-time.After(settle): // what a start leaves to do is not measured
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// measureCreation creates the pods and waits until the watch has seen all of them bound.
func (h *harness) measureCreation(ctx context.Context, create *creator, child *process) (StandinRound, error) {
	t, err := h.timeCreation(ctx, create, child, h.server)
	if err != nil {
		return StandinRound{}, err
	}
	r := StandinRound{Seconds: t.seconds, CreatedSeconds: t.created, PodsPerSecond: float64(h.options.Pods) / t.seconds}
	r.CPUMicrosPerPod, r.StandinCPUMicrosPerPod = t.cpuMicros[0], t.cpuMicros[1]
	r.PeakBytes, err = child.peak()
	return r, err
}

// creation is what came of the creation of all pods.
type creation struct {
	// seconds from the first creation to the last nodeName seen, and to the answer to the last creation.
	seconds, created float64
	cpuMicros        []float64 // of each process, for each pod
}

// timeCreation creates the pods and waits until the watch has seen all of them bound by child. It measures the CPU time of child and of other processes.
func (h *harness) timeCreation(ctx context.Context, create *creator, child *process, others ...*process) (c creation, err error) {
	measured := append([]*process{child}, others...)
	sink, err := h.watchBindings(ctx)
	if err != nil {
		return c, err
	}
	defer sink.stop()
	before, err := cpuOf(measured...)
	if err != nil {
		return c, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now()
	createdIn := make(chan time.Duration, 1)
	go func() {
		err := each(ctx, h.options.Pods, func(ctx context.Context, i int) error {
			return create.pod(ctx, i, h.work.pod(i, podName(i), hilbertLease))
		})
		if err != nil {
			cancel(fmt.Errorf("create the pods: %w", err))
		}
		createdIn <- time.Since(start)
	}()
	_, last, err := sink.await(ctx, h.options.Pods, child)
	if err != nil {
		return c, err
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return c, context.Cause(ctx)
	}
	after, err := cpuOf(measured...)
	if err != nil {
		return c, err
	}
	for i := range after {
		c.cpuMicros = append(c.cpuMicros, float64((after[i]-before[i]).Microseconds())/float64(h.options.Pods))
	}
	c.seconds, c.created = last.Sub(start).Seconds(), (<-createdIn).Seconds()
	return c, nil
}

// creator creates pods with as little CPU as a client can: it shares the machine with what is measured.
type creator struct{ connections []*apiserver.Requester }

func newCreator(config *apiserver.Connection) (*creator, error) {
	c := &creator{}
	for range rawConnections {
		r, err := apiserver.NewRequester(apiserver.ForPurpose(config, "create", nil))
		if err != nil {
			return nil, fmt.Errorf("client that creates pods: %w", err)
		}
		c.connections = append(c.connections, r)
	}
	return c, nil
}

func (c *creator) close() {
	for _, r := range c.connections {
		r.CloseIdle()
	}
}

// pod creates the i-th pod.
func (c *creator) pod(ctx context.Context, i int, pod *corev1.Pod) error {
	info, ok := apiruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), apiruntime.ContentTypeProtobuf)
	if !ok {
		return errors.New("client-go encodes no protobuf")
	}
	body, err := apiruntime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), pod)
	if err != nil {
		return fmt.Errorf("encode pod %s: %w", pod.Name, err)
	}
	answer := c.connections[i%len(c.connections)].Do(ctx, &apiserver.Call{
		Method: http.MethodPost, Path: "/api/v1/namespaces/" + pod.Namespace + "/pods", ContentType: apiserver.ContentProtobuf, Body: body,
	}, createTimeout)
	return answer.Failure("create pod " + pod.Name)
}
