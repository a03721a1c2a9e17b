package numa

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/hollow"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/topology"
)

// bed is a cluster of hollow agents.
type bed struct {
	t       *testing.T
	dir     string
	plane   *process
	config  *rest.Config
	client  kubernetes.Interface
	names   []string // of the nodes
	machine *topology.Machine
	node    spec.Node
	agents  *hollow.Agents
	made    []made // pods, by the number in their names
}

// made is a pod as it was made.
type made struct {
	kind

	scheduler string
	replaced  bool // by another one, later
}

// podName is the name of the i-th pod; number finds i.
func podName(i int) string { return fmt.Sprintf("pod-%06d", i) }

func (b *bed) number(name string) (i int, ok bool) {
	text, ok := strings.CutPrefix(name, "pod-")
	if i, err := strconv.Atoi(text); ok && err == nil && i < len(b.made) {
		return i, true
	}
	return 0, false
}

// newBed starts a control plane and registers nodes.
func newBed(t *testing.T, nodes int, write, refresh time.Duration) *bed {
	t.Helper()
	b := &bed{t: t, machine: hollow.BigMachine(numaMemory), node: spec.Default().Node}
	b.node.WriteInterval, b.node.RefreshInterval = spec.Duration(write), spec.Duration(refresh)
	b.node.ReservedCores = new(len(b.machine.NUMA))
	var err error
	if b.dir, err = os.MkdirTemp("", "hilbert-NUMA nodes-"); err != nil { // a Unix socket's path must be short
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(b.dir) })
	b.plane = spawn(t, b.dir, "control plane", "plane")
	if b.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig(b.dir)); err != nil {
		t.Fatal(err)
	}
	b.config.QPS = -1
	b.config.ContentType = runtime.ContentTypeProtobuf
	b.config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if b.client, err = kubernetes.NewForConfig(b.config); err != nil {
		t.Fatal(err)
	}
	shapes := hollow.AgentShapes(nodes, b.machine, b.node)
	fleet, err := hollow.Run(t.Context(), b.config, shapes, hollow.Options{Frozen: true})
	if err != nil {
		t.Fatal(err)
	}
	fleet.Stop() // frozen, it has nothing more to do
	for _, s := range shapes {
		b.names = append(b.names, s.Name)
	}
	return b
}

// startAgents starts an agent on each node. prepare may give them faults before any has reported.
func (b *bed) startAgents(prepare func(i int) hollow.Fault) {
	b.t.Helper()
	log, err := os.Create(filepath.Join(b.t.TempDir(), "agents.log"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = log.Close() })
	b.agents, err = hollow.RunAgents(b.t.Context(), b.config, b.names, hollow.AgentOptions{
		Machine: b.machine, Config: b.node, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Faults: prepare,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.agents.Stop)
}

// hilbertd starts a scheduler that leads.
func (b *bed) hilbertd(name string, staleAfter time.Duration) *process {
	b.t.Helper()
	return spawn(b.t, b.dir, "hilbertd of "+name, "hilbertd", scheduler+"="+name, stale+"="+staleAfter.String())
}

// await waits until something holds; why says what does not.
func (b *bed) await(what string, pause time.Duration, holds func() (ok bool, why string)) {
	b.t.Helper()
	var why string
	for end := time.Now().Add(*patience); time.Now().Before(end); time.Sleep(pause) {
		var ok bool
		if ok, why = holds(); ok {
			return
		}
	}
	b.t.Fatalf("not after %s: %s: %s", *patience, what, why)
}

// settle waits until the judge is content, and the agents and their kernels agree with the API objects.
func (b *bed) settle(mayMove bool) *verdict {
	b.t.Helper()
	var v *verdict
	b.await("everything agrees", b.glance(), func() (bool, string) {
		if ok, why := b.calm(); !ok { // the judge is not cheap
			return false, why
		}
		o := b.objects()
		if v = o.judge(mayMove); len(v.wrong) == 0 {
			b.compare(o, v)
		}
		return v.verdict()
	})
	return v
}

// calm reports whether just the pods that should be there are bound and run, as far as the agents have heard.
func (b *bed) calm() (bool, string) {
	want, running := 0, 0
	for i := range b.made {
		if !b.made[i].replaced {
			want++
		}
	}
	for _, name := range b.names {
		running += len(b.agents.Agent(name).Running())
	}
	bound := b.agents.Bound()
	if bound == want && running == want {
		return true, ""
	}
	return false, fmt.Sprintf("of %d pods %d are bound and %d run: %s", want, bound, running, b.waiting())
}

// glance is the time between two looks at all objects.
func (b *bed) glance() time.Duration {
	return 300*time.Millisecond + time.Duration(len(b.names))*5*time.Millisecond
}

// compare holds the CustomNodeResources against the agents' Managers and the kernels of their nodes.
func (b *bed) compare(o *objects, v *verdict) {
	for _, name := range b.names {
		agent := b.agents.Agent(name)
		said, _, ok := agent.Look()
		if !ok {
			v.complain("the agent of %s does not come round", name)
			continue
		}
		if plain(said.Status.Topology) != plain(o.reports[name].Status.Topology) || said.Status.Summary != o.reports[name].Status.Summary {
			v.complain("node %s: the CustomNodeResource is not what its agent knows", name)
		}
		var taken topology.CPUSet
		for uid, cpus := range agent.Running() {
			if h := v.held[uid]; h.cpus != cpus || !cpus.Intersection(taken).IsEmpty() {
				v.complain("node %s: pod %s runs on %v and holds %v, others run on %v", name, uid, cpus, h.cpus, taken)
			}
			taken = taken.Union(cpus)
		}
	}
}

// plain makes what is empty and what is nil one.
func plain(numaNodes []spec.TopologyElement) string { return string(jsonOf(numaNodes)) }

// counts sums what has become of promises.
func (b *bed) counts() (sum allocate.Counts) {
	b.t.Helper()
	for _, name := range b.names {
		_, s, ok := b.agents.Agent(name).Look()
		if !ok {
			b.t.Fatalf("the agent of %s does not come round", name)
		}
		c := s.Allocated
		sum.Kept, sum.Moved, sum.Broken = sum.Kept+c.Kept, sum.Moved+c.Moved, sum.Broken+c.Broken
		sum.Forged, sum.Foreign, sum.Refused = sum.Forged+c.Forged, sum.Foreign+c.Foreign, sum.Refused+c.Refused
	}
	return sum
}

// reports is how many reports were written.
func (b *bed) reports() (sum uint64) {
	for _, name := range b.names {
		sum += b.agents.Agent(name).Reports()
	}
	return sum
}

// reported waits until so many nodes have reported.
func (b *bed) reported(nodes int) {
	b.t.Helper()
	b.await("the agents report", 100*time.Millisecond, func() (bool, string) {
		n := 0
		for _, name := range b.names {
			if b.agents.Agent(name).Reports() > 0 {
				n++
			}
		}
		return n >= nodes, fmt.Sprintf("%d of %d have", n, nodes)
	})
}

// cost is CPU time by process.
type cost struct{ agents, plane, hilbertd time.Duration }

func (b *bed) used(h *process) cost {
	b.t.Helper()
	return cost{used(b.t, os.Getpid()), used(b.t, b.plane.cmd.Process.Pid), used(b.t, h.cmd.Process.Pid)}
}

func (c cost) minus(d cost) cost {
	return cost{c.agents - d.agents, c.plane - d.plane, c.hilbertd - d.hilbertd}
}

func (c cost) over(n int) string {
	each := func(d time.Duration) int64 { return (d / time.Duration(max(n, 1))).Microseconds() }
	return fmt.Sprintf("agents %d µs, control plane %d µs, hilbertd %d µs", each(c.agents), each(c.plane), each(c.hilbertd))
}

// storm has every node write what it says once more, several times, and prints what that cost.
func (b *bed) storm(h *process, rounds int) {
	b.t.Helper()
	said := make([]*spec.NodeReport, len(b.names))
	size := 0
	for i, name := range b.names {
		var ok bool
		if said[i], _, ok = b.agents.Agent(name).Look(); !ok {
			b.t.Fatalf("the agent of %s does not come round", name)
		}
		size += len(jsonOf(said[i]))
	}
	before, began := b.used(h), time.Now()
	writes := rounds * len(b.names)
	err := each(b.t.Context(), writes, func(ctx context.Context, i int) error {
		return b.agents.Agent(b.names[i%len(b.names)]).Write(ctx, said[i%len(b.names)])
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("%d reports of %d bytes written in %.1f s; CPU by report: %s", writes, size/len(b.names), time.Since(began).Seconds(),
		b.used(h).minus(before).over(writes))
}
