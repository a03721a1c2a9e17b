// Package bench measures schedulers on a real control plane, beside the rate that the API server itself sets.
//
// One protocol holds for all contestants and is echoed in every result. etcd, the API server and each contestant are processes of
// their own, so that their CPU time is measured apart. Each round starts its contestant afresh, and the rounds of all contestants are
// interleaved, so that a machine that slows down slows down for all.
//
// Invariants: while the clock runs, only the contestant, etcd, the API server and the one watch that measures are at work.
// A round counts only if every pod was bound; anything else is an error, not a slower result.
//
// It does not judge placements, nor measure latency from creation to binding.
package bench

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Options says what to measure.
type Options struct {
	Nodes, Pods int
	// Mixed schedules sixteen classes of pods instead of one.
	Mixed bool
	// Gang makes gangs of so many pods each, with a PodGroup; 0: every pod is a unit of its own.
	Gang int
	// Rounds is how often each contestant runs.
	Rounds int
	// Only names the systems to run; empty is all.
	Only []string
	// Dir keeps the logs; "" is a temporary directory, removed unless the run fails.
	Dir string
	// Progress gets a line for each step.
	Progress io.Writer
}

// Bounds that a result depends on; they are part of the protocol.
const (
	// creators is how many pods and nodes are created, or deleted, at once.
	creators = 64
	// settle is how long after the last Binding CPU time still counts: events and other late writes are part of the price.
	settle = time.Second
	// stalled is how long a round may go without a new Binding before it has failed.
	stalled = 60 * time.Second
	// restCPU is the share of one core below which the control plane is at rest, seen over restWindow; restTimeout bounds the wait.
	restCPU, restWindow, restTimeout = 0.05, time.Second, 60 * time.Second
)

// Names of the Leases by which the harness holds the contestants back.
const (
	rawLease           = "raw-binder"
	kubeSchedulerLease = "kube-scheduler"
	hilbertLease       = "hilbert"
)

// System names, as in Options.Only and in results.
const (
	systemRaw           = "raw"
	systemKubeScheduler = "kube-scheduler"
	systemHilbert       = "hilbertd"
)

// contestant is one way to bind the pods.
type contestant struct {
	name, system string
	// scheduler is the schedulerName of the pods that it takes.
	scheduler string
	lease     string
	// command and args are the subcommand of this binary that runs it.
	command string
	args    []string
}

// contestants run in this order in every round.
var contestants = []contestant{
	{name: "raw-16", system: systemRaw, scheduler: "raw", lease: rawLease, command: "raw-binder", args: []string{"--in-flight=16"}},
	{name: "raw-64", system: systemRaw, scheduler: "raw", lease: rawLease, command: "raw-binder", args: []string{"--in-flight=64"}},
	{name: "raw-256", system: systemRaw, scheduler: "raw", lease: rawLease, command: "raw-binder", args: []string{"--in-flight=256"}},
	{name: systemKubeScheduler, system: systemKubeScheduler, scheduler: "default-scheduler", lease: kubeSchedulerLease, command: "kube-scheduler"},
	{name: systemHilbert, system: systemHilbert, scheduler: "hilbert", lease: hilbertLease, command: "hilbertd"},
}

// Systems lists what Options.Only may name.
func Systems() []string {
	var names []string
	for _, c := range contestants {
		if !slices.Contains(names, c.system) {
			names = append(names, c.system)
		}
	}
	return names
}

// choose returns the contestants of the systems named.
func choose(only []string) ([]contestant, error) {
	for _, name := range only {
		if !slices.Contains(Systems(), name) {
			return nil, fmt.Errorf("--only names %q: choose from %s", name, strings.Join(Systems(), ", "))
		}
	}
	if len(only) == 0 {
		return contestants, nil
	}
	var chosen []contestant
	for _, c := range contestants {
		if slices.Contains(only, c.system) {
			chosen = append(chosen, c)
		}
	}
	return chosen, nil
}

// withGangs turns gangs on in kube-scheduler; the others need no setting.
func withGangs(chosen []contestant) []contestant {
	chosen = slices.Clone(chosen)
	for i := range chosen {
		if chosen[i].system == systemKubeScheduler {
			chosen[i].args = append(slices.Clone(chosen[i].args), "--feature-gates=GenericWorkload=true")
		}
	}
	return chosen
}

func (o Options) validate() error {
	for _, v := range []struct {
		name  string
		value int
	}{{"--nodes", o.Nodes}, {"--pods", o.Pods - 1}, {"--rounds", o.Rounds}} {
		if v.value < 1 {
			return fmt.Errorf("%s is too small: give at least 1 (at least 2 pods: a rate needs two)", v.name)
		}
	}
	if o.Gang < 0 || o.Gang == 1 {
		return fmt.Errorf("--gang is %d: give the number of members of each gang, at least 2, or 0 for single pods", o.Gang)
	}
	return nil
}

// Schedule runs the benchmark.
func Schedule(ctx context.Context, o Options) (_ *Result, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	chosen, err := choose(o.Only)
	if err != nil {
		return nil, err
	}
	work, err := newWorkload(o)
	if err != nil {
		return nil, err
	}
	dir, finish, err := openLogs(o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = finish(err) }()
	if o.Gang > 0 {
		chosen = withGangs(chosen)
	}
	h := &harness{options: o, work: work, dir: dir}
	defer h.stop()
	if err := h.start(ctx, chosen); err != nil {
		return nil, err
	}
	rounds := make(map[string][]Round, len(chosen))
	for i := range o.Rounds {
		for _, c := range chosen {
			h.progress("round %d of %d: %s", i+1, o.Rounds, c.name)
			round, err := h.round(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("round %d of %s: %w", i+1, c.name, err)
			}
			round.Round = i + 1
			h.progress("  %.0f pods/s, %.0f µs of CPU a pod", round.PodsPerSecond, round.SchedulerCPUMicrosPerPod)
			rounds[c.name] = append(rounds[c.name], round)
		}
	}
	return newResult(o, chosen, rounds), nil
}

// Protocol says how a result came about.
type Protocol struct {
	Nodes               int      `json:"nodes"`
	Pods                int      `json:"pods"`
	Classes             int      `json:"classes"`
	Gang                int      `json:"gang,omitempty"`
	Gangs               string   `json:"gangs,omitempty"`
	Requests            string   `json:"requests"`
	Rounds              int      `json:"rounds"`
	Order               []string `json:"order"`
	Cores               int      `json:"cores"`
	KubernetesVersion   string   `json:"kubernetesVersion"`
	Processes           string   `json:"processes"`
	ControlPlane        string   `json:"controlPlane"`
	Clock               string   `json:"clock"`
	CPU                 string   `json:"cpu"`
	Memory              string   `json:"memory"`
	Pod                 string   `json:"pod"`
	HollowNodes         string   `json:"hollowNodes"`
	Raw                 string   `json:"raw"`
	KubeScheduler       string   `json:"kubeScheduler"`
	Hilbert             string   `json:"hilbertd"`
	BetweenRounds       string   `json:"betweenRounds"`
	SettleSeconds       float64  `json:"settleSeconds"`
	RawConnections      int      `json:"rawConnections"`
	KubeSchedulerQPS    int      `json:"kubeSchedulerQPS"`
	RestCPUShareOfACore float64  `json:"restCPUShareOfACore"`
}

func newProtocol(o Options, chosen []contestant) Protocol {
	p := Protocol{
		Nodes: o.Nodes, Pods: o.Pods, Classes: len(uniform), Rounds: o.Rounds,
		Cores: runtime.NumCPU(), KubernetesVersion: KubernetesVersion,
		Processes:     "etcd, kube-apiserver, the contestant and the harness are one operating system process each; a contestant is started afresh for each round",
		ControlPlane:  "etcd without fsync on a Unix socket; kube-apiserver with TLS and RBAC on loopback, without priority and fairness and without in-flight limits; all clients are cluster-admin",
		Clock:         "rate = (pods - 1) / (last - first nodeName seen by one watch of the harness)",
		CPU:           "user + system time of each process from the release of the Lease to settleSeconds after the last nodeName, over pods; a contestant's start and sync do not count",
		Memory:        "largest resident set (VmHWM) of each process: the contestant's since its start, etcd's and the API server's since the Lease was released",
		Pod:           "all pods exist before the clock starts and their creator is idle",
		HollowNodes:   "Node objects that no process updates; pods stay Pending after they are bound",
		Raw:           "a writer that holds the pod and node watches of a scheduler and sends the i-th Binding for the i-th node; best median of 16, 64 and 256 in flight",
		KubeScheduler: "kube-scheduler of this Kubernetes version with its default profile, protobuf and a client rate limit that is never reached",
		Hilbert:       "hilbertd with its default configuration",
		BetweenRounds: "all pods are deleted, etcd is compacted, and the control plane is at rest before the next contestant starts; contestants are synced but do not lead until the harness releases their Lease",
		Requests:      "requests to the API server per pod, by its own count, between the two reads of the CPU time; without Leases, discovery, lists and watches",
		SettleSeconds: settle.Seconds(), RawConnections: rawConnections, KubeSchedulerQPS: schedulerQPS, RestCPUShareOfACore: restCPU,
	}
	if o.Gang > 0 {
		p.Gang = o.Gang
		p.Gangs = "each gang has a PodGroup (scheduling.k8s.io/v1beta1) with minCount of all its pods, which exists before them; kube-scheduler runs with " +
			"GenericWorkload on; raw writes Bindings and nothing about PodGroups"
		p.KubeScheduler += ", GenericWorkload on"
	}
	if o.Mixed {
		p.Classes = len(mixed)
	}
	for _, c := range chosen {
		p.Order = append(p.Order, c.name)
	}
	return p
}
