package trace

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Bounds on single fields: more is a slip of the pen, and sums stay far from the ends of int64.
const (
	maxMilliCPU  = 10_000_000 // ten thousand cores
	maxMemoryMiB = 1 << 30    // a pebibyte
	maxModels    = 64
)

// Priorities of openb's QoS classes: online work goes before offline work. They matter only while pods queue.
const (
	priorityOnline    = 1000 // LS, Guaranteed
	priorityBurstable = 500
	priorityOffline   = 0 // BE, and where the trace does not say
)

// LoadOpenB reads the two files of the openb trace.
func LoadOpenB(nodesPath, podsPath string) (*Workload, error) {
	w := &Workload{Name: "openb " + podsPath}
	err := withFile(nodesPath, func(r io.Reader) (err error) {
		w.Nodes, err = ReadOpenBNodes(nodesPath, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load openb nodes: %w", err)
	}
	err = withFile(podsPath, func(r io.Reader) (err error) {
		w.Tasks, err = ReadOpenBPods(podsPath, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load openb pods: %w", err)
	}
	w.sort()
	return w, nil
}

func withFile(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return read(f)
}

// ReadOpenBNodes reads a node list: sn, cpu_milli, memory_mib, gpu (how many) and model. file is for messages.
func ReadOpenBNodes(file string, r io.Reader) ([]*facts.Node, error) {
	t, err := newTable(file, r, "sn", "cpu_milli", "memory_mib", "gpu", "model")
	if err != nil {
		return nil, err
	}
	var nodes []*facts.Node
	names := make(unique)
	labels := make(map[string]map[string]string) // by model; nodes share them
	for t.next() {
		n := &facts.Node{Name: t.name("sn")}
		names.add(t, "sn", n.Name)
		n.Allocatable = []resource.Quantity{
			{Name: resource.NameCPU, Amount: t.whole("cpu_milli", 0, maxMilliCPU)},
			{Name: resource.NameMemory, Amount: t.whole("memory_mib", 0, maxMemoryMiB) << 20},
			{Name: resource.NamePods, Amount: PodsPerNode},
		}
		n.GPU = t.gpus("gpu", "model")
		n.Labels = labels[n.GPU.Model]
		if n.Labels == nil && n.GPU.Model != "" {
			n.Labels = map[string]string{spec.LabelGPUModel: n.GPU.Model}
			labels[n.GPU.Model] = n.Labels
		}
		nodes = append(nodes, n)
	}
	if t.err == nil && len(nodes) == 0 {
		t.line = 0
		t.fail("", "at least one node", "only a header")
	}
	if t.err != nil {
		return nil, t.err
	}
	return nodes, nil
}

// gpus reads how many GPUs of which model a node has. A node without GPUs has no model either.
func (t *table) gpus(count, model string) topology.Shape {
	n := int(t.whole(count, 0, topology.MaxGPUs))
	if n == 0 {
		return topology.Shape{}
	}
	return topology.Shape{GPUs: n, Model: t.name(model), Shareable: true}
}

// openbKey is all that an openb task's placement depends on.
type openbKey struct {
	cpu, memoryMiB, gpus, milli int64
	models                      string
}

// ReadOpenBPods reads a pod list: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and where they are there gpu_spec, qos,
// creation_time and deletion_time (seconds). Without times every task is there from the beginning and stays. file is for messages.
func ReadOpenBPods(file string, r io.Reader) ([]Task, error) {
	t, err := newTable(file, r, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, err
	}
	var tasks []Task
	names := make(unique)
	known := make(map[openbKey]*facts.Requirements)
	groups := make(map[string]string)
	for t.next() {
		task := Task{Name: t.name("name"), Group: share(groups, t.text("qos"))}
		names.add(t, "name", task.Name)
		task.Created, task.Deleted = t.life("creation_time", "deletion_time")
		task.Priority = openbPriority(task.Group)
		key := t.openbKey()
		if known[key] == nil {
			known[key] = key.requirements()
		}
		task.Requirements = known[key]
		tasks = append(tasks, task)
	}
	if t.err == nil && len(tasks) == 0 {
		t.line = 0
		t.fail("", "at least one task", "only a header")
	}
	if t.err != nil {
		return nil, t.err
	}
	return tasks, nil
}

// share returns one copy of equal strings that does not refer to a record's memory.
func share(known map[string]string, text string) string {
	if s, ok := known[text]; ok {
		return s
	}
	s := strings.Clone(text)
	known[s] = s
	return s
}

func openbPriority(qos string) int32 {
	switch qos {
	case "LS", "Guaranteed":
		return priorityOnline
	case "Burstable":
		return priorityBurstable
	}
	return priorityOffline
}

func (t *table) openbKey() openbKey {
	k := openbKey{
		cpu:       t.whole("cpu_milli", 0, maxMilliCPU),
		memoryMiB: t.whole("memory_mib", 0, maxMemoryMiB),
		gpus:      t.whole("num_gpu", 0, topology.MaxGPUs),
	}
	if k.gpus == 1 {
		k.milli = t.whole("gpu_milli", 1, topology.FullGPU)
	} else { // several GPUs are whole ones, whatever the column repeats
		t.whole("gpu_milli", 0, topology.FullGPU)
	}
	if k.gpus > 0 {
		k.models = t.models("gpu_spec")
	}
	return k
}

// models reads a |-separated list of GPU models into canonical form: sorted, each once.
func (t *table) models(column string) string {
	text := t.text(column)
	if text == "" {
		return ""
	}
	models := strings.Split(text, "|")
	for i := range models {
		models[i] = strings.TrimSpace(models[i])
	}
	slices.Sort(models)
	models = slices.Compact(models)
	if models[0] == "" || len(models) > maxModels {
		t.fail(column, fmt.Sprintf("one to %d GPU models separated by |", maxModels), quote(text))
	}
	return strings.Join(models, "|")
}

func (k openbKey) requirements() *facts.Requirements {
	r := &facts.Requirements{Requests: requests(k.cpu, k.memoryMiB<<20)}
	switch {
	case k.gpus == 1 && k.milli < topology.FullGPU:
		r.GPU.Milli = int16(k.milli)
	default:
		r.GPU.Whole = int8(k.gpus)
	}
	if k.models != "" {
		r.Required = onModels(strings.Split(k.models, "|"))
	}
	return scored(r)
}

// requests lists what is asked for, without zeros.
func requests(cpu, memory int64) []resource.Quantity {
	var list []resource.Quantity
	if cpu > 0 {
		list = append(list, resource.Quantity{Name: resource.NameCPU, Amount: cpu})
	}
	if memory > 0 {
		list = append(list, resource.Quantity{Name: resource.NameMemory, Amount: memory})
	}
	return list
}

// onModels is the node affinity of a task that needs one of these GPU models.
func onModels(models []string) []facts.Term {
	return []facts.Term{{Expressions: []facts.Requirement{{Key: spec.LabelGPUModel, Operator: facts.In, Values: models}}}}
}
