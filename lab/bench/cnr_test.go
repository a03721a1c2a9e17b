package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/agent"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/topology"
)

var (
	reportWrites = flag.Int("report-writes", 0, "measure what a CustomNodeResource costs, by so many writes of each kind")
	reportRounds = flag.Int("report-rounds", 3, "repeat the measurement so often")
	reportChild  = flag.String("report-child", "", "be the etcd or the kube-apiserver of that measurement, in the directory that follows")
)

const (
	reportNodes    = 200 // that write in turn, of each kind
	reportInFlight = 8
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *reportChild == "" {
		os.Exit(m.Run())
	}
	if err := serveReports(*reportChild, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveReports is a child: CPU is counted by process.
func serveReports(part, dir string) error {
	ctx, cancel := EndWithParent(context.Background(), os.Stdin)
	defer cancel()
	etcdDir := filepath.Join(dir, "etcd")
	if part == "etcd" {
		etcd, err := controlplane.StartEtcd(ctx, controlplane.Options{Dir: etcdDir, Benchmark: true, Log: os.Stderr})
		if err != nil {
			return err
		}
		return errors.Join(Ready(os.Stdout), untilEnd(ctx, etcd.Failed()), etcd.Stop())
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Dir: filepath.Join(dir, "apiserver"), Etcd: "unix://" + filepath.Join(etcdDir, "etcd.sock"), Benchmark: true, Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	return errors.Join(plane.InstallDefinitions(ctx), plane.WriteKubeconfig(filepath.Join(dir, "kubeconfig")), Ready(os.Stdout),
		untilEnd(ctx, plane.Failed()), plane.Stop(context.WithoutCancel(ctx)))
}

func untilEnd(ctx context.Context, failed <-chan error) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// reportedMachine is a machine with some dedicated pods, and how it says so the n-th time. A write that changed nothing would be elided.
type reportedMachine struct {
	name    string
	machine *topology.Machine
	report  allocate.Report
}

func (m *reportedMachine) said(n int) *spec.NodeReport {
	r := m.report
	r.Pools = slices.Clone(r.Pools)
	r.Pools[0].Pods = n
	return report.Build(m.machine, &r, nil, []spec.NodeCondition{{Type: spec.ConditionAgentReady, Reason: spec.ReasonAgentRunning, True: true}})
}

// newReportedMachine has NUMA nodes of so many cores with two threads each, devices near each, and dedicated pods of two CPUs.
func newReportedMachine(name string, numaNodes, cores, devices, pods int) *reportedMachine {
	m := &reportedMachine{name: name, machine: &topology.Machine{}}
	m.report.Mode = spec.ModeAgent
	m.report.Shape = topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: uint8(numaNodes), Threads: 2}
	all := numaNodes * cores
	for z := range numaNodes {
		n := topology.NUMANode{ID: z, Memory: 256 << 30}
		for c := range cores {
			for t := range 2 {
				id := t*all + z*cores + c
				m.machine.CPUs = append(m.machine.CPUs, topology.CPU{ID: id, Core: z*cores + c, Socket: z * 2 / numaNodes, NUMA: z})
				n.CPUs.Add(id)
			}
		}
		m.machine.NUMA = append(m.machine.NUMA, n)
		m.report.Shape.NUMANode[z] = topology.NUMACapacity{CPUs: uint16(2 * cores), Memory: 256 << 10, Socket: uint8(z * 2 / numaNodes)}
		for d := range devices {
			m.machine.Devices = append(m.machine.Devices, topology.Device{
				Address: fmt.Sprintf("0000:%02x:%02x.0", 16+z, d), Kind: []topology.DeviceKind{topology.DeviceGPU, topology.DeviceNIC}[d%2], NUMA: z,
				Vendor: "0x10de", Model: "0x2330", Parent: "0000:3a:00.0", Names: []string{fmt.Sprint("dev", d)},
			})
		}
	}
	for p := range pods {
		h := allocate.Held{UID: fmt.Sprintf("5b4d5c2e-9f1e-4c50-8a51-%012d", p), Namespace: "production", Name: fmt.Sprintf("service-6d4cf56db6-%05d", p)}
		z, core := p%numaNodes, p/numaNodes
		h.Grant.CPUs[z], h.Grant.Memory[z] = 2, 4096
		h.CPUs = topology.CPUs(z*cores+core, all+z*cores+core)
		m.report.Held = append(m.report.Held, h)
	}
	m.report.Free = topology.NewNUMAFree(&m.report.Shape)
	m.report.Pools = []allocate.Pool{
		{Name: spec.PoolShare, CPUs: m.machine.AllCPUs()}, {Name: spec.PoolReclaimed, CPUs: topology.CPUs(1, 3)}, {Name: spec.PoolSystem, CPUs: topology.CPUs(0)},
	}
	return m
}

// TestReportCost prints what a write of a CustomNodeResource costs etcd and the API server, by size and by the way of writing: put is ours;
// bare is put without managed fields. Beside it stands what a kubelet writes: its Lease, every 10 s, and its Node's status, every 5 min.
// They take turns, so that what else the machine does falls on all. One watch, as hilbertd's, is open meanwhile.
func TestReportCost(t *testing.T) {
	if *reportWrites == 0 {
		t.Skip("a measurement: pass -report-writes")
	}
	b := startReports(t)
	none := newReportedMachine("-", 1, 1, 0, 0)
	small := newReportedMachine("2 NUMA nodes, 4 CPUs, no pods", 2, 1, 0, 0)
	medium := newReportedMachine("2 NUMA nodes, 128 CPUs, 4 devices, 20 pods", 2, 32, 2, 20)
	large := newReportedMachine("8 NUMA nodes, 256 CPUs, 16 devices, 60 pods", 8, 16, 2, 60)
	for round := range *reportRounds {
		for _, c := range []struct {
			machine *reportedMachine
			way     string
		}{
			{none, "lease"}, {none, "node"}, {small, "put"}, {medium, "put"}, {medium, "bare"}, {medium, "merge"}, {medium, "apply"}, {large, "put"},
		} {
			b.measure(t, c.machine, c.way, round)
		}
	}
}

type reportBench struct {
	etcd, server *process
	config       *rest.Config
	client       kubernetes.Interface
	reporters    []*agent.Reporter // the second half has no managed fields
	leases       []*coordinationv1.Lease
	count        int
}

func startReports(t *testing.T) *reportBench {
	t.Helper()
	b := &reportBench{}
	dir, err := os.MkdirTemp("", "hilbert-reports-") // a Unix socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, c := range []struct {
		part string
		to   **process
	}{{"etcd", &b.etcd}, {"kube-apiserver", &b.server}} {
		if *c.to, err = spawn(t.Context(), t.TempDir(), c.part, "-report-child="+c.part, dir); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*c.to).stop)
	}
	if b.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	b.config.QPS = -1
	if b.client, err = kubernetes.NewForConfig(b.config); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * reportNodes {
		b.addNode(t, i)
	}
	stream, err := b.client.Discovery().RESTClient().Get().AbsPath(reportsPath).Param("watch", "true").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, stream)
	}()
	t.Cleanup(func() {
		_ = stream.Close()
		<-done
	})
	return b
}

// addNode makes a Node with a Lease and a CustomNodeResource.
func (b *reportBench) addNode(t *testing.T, i int) {
	t.Helper()
	name := reportNode(i)
	_, nodeErr := b.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	lease, leaseErr := b.client.CoordinationV1().Leases(metav1.NamespaceDefault).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name},
	}, metav1.CreateOptions{})
	r, err := agent.NewReporter(b.config, name, time.Minute)
	if err := errors.Join(nodeErr, leaseErr, err); err != nil {
		t.Fatal(err)
	}
	if err := r.Report(t.Context(), newReportedMachine("-", 1, 1, 0, 0).said(0)); err != nil {
		t.Fatal(err)
	}
	b.reporters, b.leases = append(b.reporters, r), append(b.leases, lease)
	if i < reportNodes {
		return
	}
	if err := b.client.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(reportsPath, name).
		Body([]byte(`{"metadata":{"managedFields":[{}]}}`)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

func reportNode(i int) string { return fmt.Sprintf("node-%05d", i) }

const reportsPath = "/apis/" + spec.NodeAPIVersion + "/" + spec.NodePlural

// measure writes *reportWrites reports and prints what they cost.
func (b *reportBench) measure(t *testing.T, m *reportedMachine, way string, round int) {
	t.Helper()
	write := b.writerOf(m, way)
	b.writeAll(t, reportNodes, write) // all have this size
	before, err := cpuOf(b.etcd, b.server)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	b.writeAll(t, *reportWrites, write)
	took := time.Since(began)
	after, err := cpuOf(b.etcd, b.server)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(m.said(0).Status)
	if err != nil {
		t.Fatal(err)
	}
	each := func(i int) time.Duration { return (after[i] - before[i]) / time.Duration(*reportWrites) }
	t.Logf("round %d, %s, %d bytes, %-5s: %5.0f writes/s; CPU each: etcd %4d µs, API server %5d µs", round, m.name, len(body), way,
		float64(*reportWrites)/took.Seconds(), each(0).Microseconds(), each(1).Microseconds())
}

// writerOf is a way to write the n-th time for a node.
func (b *reportBench) writerOf(m *reportedMachine, way string) func(ctx context.Context, node, n int) error {
	switch way {
	case "put":
		return func(ctx context.Context, node, n int) error { return b.reporters[node].Report(ctx, m.said(n)) }
	case "bare":
		return func(ctx context.Context, node, n int) error {
			return b.reporters[reportNodes+node].Report(ctx, m.said(n))
		}
	case "lease":
		leases := b.client.CoordinationV1().Leases(metav1.NamespaceDefault)
		return func(ctx context.Context, node, n int) error {
			lease := b.leases[node]
			lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Unix(int64(n), 0)))
			next, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
			b.leases[node] = next
			return err
		}
	case "node":
		return func(ctx context.Context, node, n int) error {
			body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, time.Unix(int64(n), 0).UTC().Format(time.RFC3339))
			_, err := b.client.CoreV1().Nodes().Patch(ctx, reportNode(node), types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status")
			return err
		}
	}
	return func(ctx context.Context, node, n int) error { return b.patch(ctx, m, way, node, n) }
}

// writeAll makes the nodes write in turn; no node has two writes under way.
func (b *reportBench) writeAll(t *testing.T, writes int, write func(ctx context.Context, node, n int) error) {
	t.Helper()
	var group sync.WaitGroup
	errs := make([]error, reportInFlight)
	start := b.count
	b.count += writes
	for w := range reportInFlight {
		group.Go(func() {
			for i := w; i < writes && errs[w] == nil; i += reportInFlight {
				errs[w] = write(t.Context(), i%reportNodes, start+i) // reportNodes is a multiple of reportInFlight
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// patch writes the same by a patch.
func (b *reportBench) patch(ctx context.Context, m *reportedMachine, way string, node, n int) error {
	name := reportNode(node)
	said := m.said(n)
	data, err := json.Marshal(said.Status)
	if err != nil {
		return err
	}
	status := make(map[string]any)
	if err := json.Unmarshal(data, &status); err != nil {
		return err
	}
	status["observedAt"] = metav1.Now()
	status["conditions"] = []metav1.Condition{{Type: spec.ConditionAgentReady, Status: "True", Reason: spec.ReasonAgentRunning, LastTransitionTime: metav1.Unix(1_700_000_000, 0)}}
	body, err := json.Marshal(map[string]any{"apiVersion": spec.NodeAPIVersion, "kind": spec.NodeKind, "metadata": map[string]string{"name": name}, "status": status})
	if err != nil {
		return err
	}
	kind := types.MergePatchType
	if way == "apply" {
		kind = types.ApplyPatchType
	}
	request := b.client.Discovery().RESTClient().Patch(kind).AbsPath(reportsPath, name, "status").Body(body)
	if way == "apply" {
		request = request.Param("force", "true").Param("fieldManager", "agent")
	}
	return request.Do(ctx).Error()
}
