package trace

import (
	"math/rand/v2"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

const (
	gpuMemory    = 16 << 10 // MiB
	gpuGrain     = 12       // thousandths: some 80 multiprocessors
	gpuClients   = 6
	gpusOfSwitch = 2 // and one network card
	cardSpeed    = 100000
	cardShares   = 4 // virtual functions
	wholeOneIn   = 8
	migOneIn     = 4  // nodes: their last GPU is in instances
	commonPods   = 60 // percent of those with GPUs that ask for nothing else
)

// equip lets the agents of so many percent of the nodes with GPUs give them out. Nodes whose agents report nothing keep theirs.
func (s Synthetic) equip(w *Workload, random *rand.Rand) {
	at := make(map[string]int, len(w.Nodes))
	for i, n := range w.Nodes {
		at[n.Name] = i
	}
	for i := range w.Reports {
		n := w.Nodes[at[w.Reports[i].Node]]
		if n.GPU.GPUs == 0 || random.IntN(100) >= s.Devices {
			continue
		}
		report := *w.Reports[i].Report
		report.Devices = inventDevices(n.GPU, int(report.NUMANodes.NUMANodes), random)
		bare := *n
		bare.GPU = topology.Shape{}
		w.Nodes[at[n.Name]], w.Reports[i].Report = &bare, &report
	}
}

func inventDevices(shape topology.Shape, numaNodes int, random *rand.Rand) *topology.Devices {
	d := &topology.Devices{Owner: topology.OwnerHilbert}
	for i := range shape.GPUs {
		pciSwitch := uint8(i / gpusOfSwitch)
		numa := uint8(i * numaNodes / shape.GPUs)
		if i%gpusOfSwitch == 0 {
			d.NIC = append(d.NIC, topology.NIC{
				Bandwidth: cardSpeed, Functions: cardShares, RDMA: i%(2*gpusOfSwitch) == 0, Switch: pciSwitch, NUMANode: numa, Socket: numa / 2,
			})
		}
		d.GPU = append(d.GPU, topology.GPU{
			Model: shape.Model, Memory: gpuMemory, Grain: gpuGrain, Clients: gpuClients, Strengths: topology.StrengthsOf(topology.Accounting, topology.Soft),
			Switch: pciSwitch, NUMANode: numa, Socket: numa / 2,
		})
	}
	if random.IntN(migOneIn) == 0 {
		last := &d.GPU[shape.GPUs-1]
		last.Strengths, last.Clients = topology.StrengthsOf(topology.Hard), 0
		for range 2 {
			last.Instances = append(last.Instances, topology.Instance{Name: "1g", Milli: 250, Memory: gpuMemory / 4}, topology.Instance{Name: "2g", Milli: 250, Memory: gpuMemory / 4})
		}
	}
	return d
}

// disown gives the GPUs of so many percent of the nodes whose agents have them to a device plugin, two in three, or to nobody.
func (s Synthetic) disown(w *Workload, random *rand.Rand) {
	at := make(map[string]int, len(w.Nodes))
	for i, n := range w.Nodes {
		at[n.Name] = i
	}
	for i := range w.Reports {
		report := *w.Reports[i].Report
		if report.Devices == nil || random.IntN(100) >= s.Owners {
			continue
		}
		devices := *report.Devices
		devices.Owner = topology.OwnerNone
		if random.IntN(3) > 0 {
			devices.Owner = topology.OwnerKubelet
			if random.IntN(2) == 0 && len(devices.GPU[0].Instances) == 0 {
				devices.GPU = slices.Clone(devices.GPU)
				devices.GPU[0].Memory /= 2
			}
			counted := *w.Nodes[at[w.Reports[i].Node]]
			counted.GPU = Counted(&devices)
			w.Nodes[at[counted.Name]] = &counted
		}
		report.Devices = &devices
		w.Reports[i].Report = &report
	}
}

// wholly lets one in eight of the pods that ask for no device ask for one to three whole GPUs, so that there are more pods than a kubelet has GPUs. One in
// four of these asks for GPUs with all the memory that most have.
func (s Synthetic) wholly(w *Workload, random *rand.Rand) {
	type kind struct {
		of    *facts.Requirements
		count int8
		large bool
	}
	twins := make(map[kind]*facts.Requirements)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		k := kind{t.Requirements, int8(1 + random.IntN(3)), random.IntN(4) == 0}
		if random.IntN(wholeOneIn) > 0 || t.Requirements.GPU != (topology.Request{}) {
			continue
		}
		if twins[k] == nil {
			twin := *k.of
			twin.GPU.Whole = k.count
			if k.large {
				twin.GPU.Memory = gpuMemory
			}
			twins[k] = scored(&twin)
		}
		t.Requirements = twins[k]
	}
}

// Counted is what node.status says of GPUs that a device plugin offers: those that are in no instances.
func Counted(d *topology.Devices) (shape topology.Shape) {
	for i := range d.GPU {
		if len(d.GPU[i].Instances) == 0 {
			shape.GPUs, shape.Model = shape.GPUs+1, d.GPU[i].Model
		}
	}
	return shape
}

// specify lets pods with GPUs ask for more than so much of them: memory, isolation, network cards, nearness. Some that ask for none ask for a network card.
func (s Synthetic) specify(w *Workload, random *rand.Rand) {
	type kind struct {
		of  *facts.Requirements
		how int
	}
	twins := make(map[kind]*facts.Requirements)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		how := random.IntN(4)
		if random.IntN(100) < commonPods || t.Requirements.GPU.IsZero() && random.IntN(4) > 0 {
			continue
		}
		k := kind{t.Requirements, how}
		if twins[k] == nil {
			twin := *k.of
			askMore(&twin.GPU, how)
			twins[k] = scored(&twin)
		}
		t.Requirements = twins[k]
	}
}

// askMore makes a request for GPUs one of four kinds.
func askMore(r *topology.Request, how int) {
	switch {
	case r.IsZero():
		r.NIC = topology.NICRequest{Count: 1, Function: how%2 == 0, RDMA: how > 1}
	case r.Milli > 0:
		r.Isolation = []topology.Isolation{topology.IsolationAny, topology.Accounting, topology.Soft, topology.Hard}[how]
		r.Tenant = topology.Tenant(1 + r.Milli/10%3) // two pods that ask for as much are one team's
		if r.Isolation == topology.Hard {
			r.Milli = min(r.Milli, 250)
		} else {
			r.Memory = 2 << 10
		}
	default:
		r.NIC = topology.NICRequest{Count: 1, RDMA: how == 0, Bandwidth: 20000}
		r.Near = topology.Near{Level: topology.SameSwitch, Required: how < 2 && r.Whole <= gpusOfSwitch}
		if r.Whole > gpusOfSwitch {
			r.Near.Level = topology.SameNUMA
		}
	}
}
