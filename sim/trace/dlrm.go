package trace

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Names that the DLRM trace's constraints are given here.
const (
	// LabelRole tells the trace's two kinds of machine apart: HN has GPUs, CN has none.
	LabelRole = "dlrm.hilbert.dev/role"
	// ResourceRDMA is a share of a node's RDMA bandwidth; 100 is one NIC.
	ResourceRDMA = "hilbert.dev/rdma-share"
	// ResourceSpread plus an application's name is how the trace's max_instance_per_node is kept: every node has spreadUnits of it,
	// and an instance of an application that allows m on a node takes spreadUnits/m.
	ResourceSpread = "spread.hilbert.dev/"
)

const (
	// spreadUnits is divisible by 1 to 16, and for any m up to maxSpread exactly m instances fit.
	spreadUnits = 720_720
	maxSpread   = 800
	// maxSpreadApps leaves room in resource.Table for everything else.
	maxSpreadApps = resource.MaxKinds - 64
	// dlrmSpare is how many more nodes there are than the peak demand needs, in percent.
	dlrmSpare = 20
	// gpuColumn stands for whole GPUs among resource names while demand is summed up.
	gpuColumn = "gpu"
)

// dlrmMachine is a machine that instances of a role run on. The trace names no machines; these hold its largest instances and have the
// proportions of its sums.
type dlrmMachine struct {
	role       string
	cores, gib int64
	diskGiB    int64
	rdma       int64 // shares
	gpus       int
}

func dlrmMachines() []dlrmMachine {
	return []dlrmMachine{
		{role: "HN", cores: 128, gib: 1024, diskGiB: 6144, rdma: 400, gpus: 8},
		{role: "CN", cores: 384, gib: 2048, diskGiB: 8192, rdma: 400},
	}
}

// LoadDLRM reads the DLRM trace.
func LoadDLRM(path string) (*Workload, error) {
	var w *Workload
	err := withFile(path, func(r io.Reader) (err error) {
		w, err = ReadDLRM(path, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load dlrm: %w", err)
	}
	return w, nil
}

// dlrmKey is all that an instance's placement depends on, as the file spells it.
type dlrmKey struct{ role, app, cpu, gpu, rdma, memory, disk, spread string }

// ReadDLRM reads the instances of the DLRM trace: role, cpu_request (cores), gpu_request, rdma_request (percent of a NIC),
// memory_request and disk_request (GiB), max_instance_per_node (of one application; -1: any number), creation_time and deletion_time
// (seconds; empty: before the trace, after it). The trace has no nodes: for each role there are as many equal ones as the peak of its
// most wanted resource needs, and a fifth more. file is for messages.
func ReadDLRM(file string, r io.Reader) (*Workload, error) {
	t, err := newTable(file, r, "instance_sn", "role", "app_name", "cpu_request", "gpu_request", "rdma_request", "memory_request",
		"disk_request", "max_instance_per_node", "creation_time", "deletion_time")
	if err != nil {
		return nil, err
	}
	w := &Workload{Name: "dlrm " + file}
	names := make(unique)
	known := make(map[dlrmKey]*facts.Requirements)
	strs := make(map[string]string)
	spread := make(map[string]bool)
	for t.next() {
		task := Task{Name: t.name("instance_sn"), Group: share(strs, t.name("app_name"))}
		names.add(t, "instance_sn", task.Name)
		task.Created, task.Deleted = t.life("creation_time", "deletion_time")
		if task.Requirements = known[t.dlrmKey()]; task.Requirements == nil {
			task.Requirements = t.dlrmRequirements(task.Group, spread)
			known[t.dlrmKey().clone()] = task.Requirements
		}
		w.Tasks = append(w.Tasks, task)
	}
	if t.err == nil && len(w.Tasks) == 0 {
		t.line = 0
		t.fail("", "at least one instance", "only a header")
	}
	if t.err != nil {
		return nil, t.err
	}
	w.sort()
	w.Nodes = dlrmNodes(w.Tasks, spread)
	return w, nil
}

func (t *table) dlrmKey() dlrmKey {
	return dlrmKey{
		t.text("role"), t.text("app_name"), t.text("cpu_request"), t.text("gpu_request"), t.text("rdma_request"),
		t.text("memory_request"), t.text("disk_request"), t.text("max_instance_per_node"),
	}
}

// clone copies what refers to the record's memory, which is reused.
func (k dlrmKey) clone() dlrmKey {
	c := strings.Clone
	return dlrmKey{c(k.role), c(k.app), c(k.cpu), c(k.gpu), c(k.rdma), c(k.memory), c(k.disk), c(k.spread)}
}

func (t *table) dlrmRequirements(app string, spread map[string]bool) *facts.Requirements {
	machines := dlrmMachines()
	i := slices.IndexFunc(machines, func(m dlrmMachine) bool { return m.role == t.text("role") })
	if i < 0 {
		t.fail("role", "HN or CN", quote(t.text("role")))
		return nil
	}
	m := machines[i]
	r := &facts.Requirements{NodeSelector: []facts.Label{{Key: LabelRole, Value: m.role}}}
	r.Requests = requests(t.scaled("cpu_request", float64(m.cores), 1000), t.scaled("memory_request", float64(m.gib), 1024)<<20)
	if disk := t.scaled("disk_request", float64(m.diskGiB), 1024) << 20; disk > 0 {
		r.Requests = append(r.Requests, resource.Quantity{Name: resource.NameEphemeralStorage, Amount: disk})
	}
	if rdma := t.whole("rdma_request", 0, m.rdma); rdma > 0 {
		r.Requests = append(r.Requests, resource.Quantity{Name: ResourceRDMA, Amount: rdma})
	}
	r.GPU.Whole = int8(t.whole("gpu_request", 0, int64(m.gpus)))
	if limit := t.whole("max_instance_per_node", -1, maxSpread); limit == 0 {
		t.fail("max_instance_per_node", fmt.Sprintf("-1, or 1 to %d", maxSpread), "0")
	} else if limit > 0 {
		spread[app] = true
		if len(spread) > maxSpreadApps {
			t.fail("max_instance_per_node", fmt.Sprintf("at most %d applications with a limit", maxSpreadApps), "more")
		}
		r.Requests = append(r.Requests, resource.Quantity{Name: ResourceSpread + app, Amount: spreadUnits / limit})
	}
	return scored(r)
}

// dlrmNodes makes the nodes of each role.
func dlrmNodes(tasks []Task, spread map[string]bool) []*facts.Node {
	peaks := dlrmPeaks(tasks)
	var nodes []*facts.Node
	for _, m := range dlrmMachines() {
		amounts := []resource.Quantity{
			{Name: resource.NameCPU, Amount: m.cores * 1000},
			{Name: resource.NameMemory, Amount: m.gib << 30},
			{Name: resource.NameEphemeralStorage, Amount: m.diskGiB << 30},
			{Name: resource.NamePods, Amount: PodsPerNode},
			{Name: ResourceRDMA, Amount: m.rdma},
		}
		for _, app := range slices.Sorted(maps.Keys(spread)) {
			amounts = append(amounts, resource.Quantity{Name: ResourceSpread + app, Amount: spreadUnits})
		}
		count := int64(0)
		for _, q := range append(amounts, resource.Quantity{Name: gpuColumn, Amount: int64(m.gpus)}) {
			if peak := peaks[m.role][q.Name]; q.Amount > 0 {
				count = max(count, (peak+q.Amount-1)/q.Amount)
			}
		}
		count += (count*dlrmSpare + 99) / 100
		labels := map[string]string{LabelRole: m.role}
		shape := topology.Shape{GPUs: m.gpus}
		if m.gpus > 0 {
			shape.Model = "dlrm"
			labels[spec.LabelGPUModel] = shape.Model
		}
		for i := range count {
			nodes = append(nodes, &facts.Node{
				Name: fmt.Sprintf("%s-%04d", strings.ToLower(m.role), i), Labels: labels, Allocatable: amounts, GPU: shape,
			})
		}
	}
	return nodes
}

// dlrmPeaks returns by role and resource the most that was ever asked for at once.
func dlrmPeaks(tasks []Task) map[string]map[string]int64 {
	type change struct {
		at   int64
		sign int64
		task *Task
	}
	var changes []change
	for i := range tasks {
		changes = append(changes, change{tasks[i].Created, 1, &tasks[i]})
		if tasks[i].Deleted != Never {
			changes = append(changes, change{tasks[i].Deleted, -1, &tasks[i]})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.sign, a.sign)) })
	sums, peaks := make(map[string]map[string]int64), make(map[string]map[string]int64)
	for _, m := range dlrmMachines() {
		sums[m.role], peaks[m.role] = make(map[string]int64), make(map[string]int64)
	}
	for _, c := range changes {
		role := c.task.Requirements.NodeSelector[0].Value
		sum, peak := sums[role], peaks[role]
		add := func(name string, amount int64) {
			sum[name] += c.sign * amount
			peak[name] = max(peak[name], sum[name])
		}
		for _, q := range c.task.Requirements.Requests {
			add(q.Name, q.Amount)
		}
		add(resource.NamePods, 1)
		add(gpuColumn, int64(c.task.Requirements.GPU.Whole))
	}
	return peaks
}
