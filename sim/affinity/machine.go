package affinity

import (
	"errors"
	"fmt"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// What the devices are like that the trace does not tell.
const (
	switches      = 4
	sockets       = 2
	cards         = switches            // one a switch
	cardBandwidth = 100_000             // Mbit/s; 100 shares
	perShare      = cardBandwidth / 100 // Mbit/s
	gpuMemory     = 80 << 10            // MiB
	mebibyte      = topology.Mebibyte
	wholeCPU      = 1000 // millicores
)

// model is a kind of machine.
type model struct {
	name      string
	gpus      int
	shape     topology.Shape
	numaNodes topology.NUMAShape
	amount    amounts
}

// amounts are what is counted of a whole machine.
type amounts struct {
	cores, memory, disk, pods int64 // memory and disk in MiB
}

// newModel is the machine of a node, with the devices that the package's documentation states.
func newModel(n *facts.Node) (*model, error) {
	m := &model{name: n.Labels[trace.LabelRole], gpus: n.GPU.GPUs}
	for _, q := range n.Allocatable {
		switch q.Name {
		case resource.NameCPU:
			m.amount.cores = q.Amount / wholeCPU
		case resource.NameMemory:
			m.amount.memory = q.Amount / mebibyte
		case resource.NameEphemeralStorage:
			m.amount.disk = q.Amount / mebibyte
		case resource.NamePods:
			m.amount.pods = q.Amount
		}
	}
	if m.gpus%switches != 0 || m.gpus > topology.MaxGPUs {
		return nil, fmt.Errorf("affinity: node %s has %d GPUs: want a multiple of %d, at most %d", n.Name, m.gpus, switches, topology.MaxGPUs)
	}
	if m.amount.cores/sockets > 1<<16-1 || m.amount.cores < sockets {
		return nil, fmt.Errorf("affinity: node %s has %d cores", n.Name, m.amount.cores)
	}
	d := &topology.Devices{Owner: topology.OwnerHilbert}
	for i := range m.gpus {
		at := i / (m.gpus / switches)
		d.GPU = append(d.GPU, topology.GPU{
			Address: fmt.Sprintf("gpu-%d", i), Model: n.GPU.Model, Memory: gpuMemory,
			Switch: uint8(at), NUMANode: uint8(at * sockets / switches), Socket: uint8(at * sockets / switches),
		})
	}
	for at := range cards {
		d.NIC = append(d.NIC, topology.NIC{
			Address: fmt.Sprintf("nic-%d", at), Name: fmt.Sprintf("eth%d", at), Bandwidth: cardBandwidth, RDMA: true,
			Switch: uint8(at), NUMANode: uint8(at * sockets / switches), Socket: uint8(at * sockets / switches),
		})
	}
	m.shape = topology.Shape{GPUs: m.gpus, Model: n.GPU.Model, Devices: d}
	m.numaNodes = topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: sockets, Threads: 1}
	for z := range sockets {
		m.numaNodes.NUMANode[z] = topology.NUMACapacity{CPUs: uint16(m.amount.cores / sockets), Socket: uint8(z), Memory: uint32(m.amount.memory / sockets)}
	}
	return m, d.Check()
}

// ask is what an instance wants, in the units of the machines.
type ask struct {
	model   *model
	device  topology.Request // as a required instance asks; runs change how near
	numa    topology.NUMARequest
	amounts amounts
	app     int   // index of the application that has a limit for a machine, -1: none
	limit   int16 // instances of it that a machine may have
}

// errForeign is told of a workload that is no DLRM trace.
var errForeign = errors.New("affinity: not a DLRM workload")

// newAsk reads a task's requirements. apps numbers the applications, spread is what a node has of the resource that keeps one apart.
func newAsk(r *facts.Requirements, models map[string]*model, apps map[string]int, spread map[string]int64) (*ask, error) {
	if len(r.NodeSelector) != 1 || models[r.NodeSelector[0].Value] == nil {
		return nil, errForeign
	}
	a := &ask{model: models[r.NodeSelector[0].Value], app: -1, amounts: amounts{pods: 1}}
	a.device = topology.Request{Whole: r.GPU.Whole}
	for _, q := range r.Requests {
		switch {
		case q.Name == resource.NameCPU:
			a.amounts.cores = (q.Amount + wholeCPU - 1) / wholeCPU
		case q.Name == resource.NameMemory:
			a.amounts.memory = (q.Amount + mebibyte - 1) / mebibyte
		case q.Name == resource.NameEphemeralStorage:
			a.amounts.disk = (q.Amount + mebibyte - 1) / mebibyte
		case q.Name == trace.ResourceRDMA && q.Amount > 0:
			count := (q.Amount + 99) / 100
			a.device.NIC = topology.NICRequest{Count: uint8(count), RDMA: true, Bandwidth: uint32(q.Amount * perShare / count)}
		case spread[q.Name] > 0:
			if _, known := apps[q.Name]; !known {
				apps[q.Name] = len(apps)
			}
			a.app, a.limit = apps[q.Name], int16(min(spread[q.Name]/q.Amount, 1<<15-1))
		default:
			return nil, fmt.Errorf("%w: resource %s", errForeign, q.Name)
		}
	}
	a.numa = topology.NUMARequest{CPUs: uint16(a.amounts.cores), Binding: topology.Bound, Memory: uint32(a.amounts.memory)}
	return a, nil
}

func (a *ask) usage() usage {
	return usage{gpus: float64(a.device.Count()), cores: float64(a.amounts.cores)}
}

// together reports whether the instance wants a GPU and a card, which have to hang under one switch.
func (a *ask) together() bool { return a.device.Count() > 0 && a.device.NIC.Count > 0 }

// node is a machine with what is left of it.
type node struct {
	*model

	free    topology.Free
	devices topology.DeviceFree
	numa    topology.NUMAFree
	left    amounts
	spare   int // whole GPUs that are free
	apps    map[int]int16
	holders map[int]*holding // by task
}

func newNode(m *model) *node {
	return &node{
		model: m, free: topology.NewFree(m.shape), devices: topology.NewDeviceFree(m.shape.Devices), numa: topology.NewNUMAFree(&m.numaNodes),
		left: m.amount, spare: m.gpus, apps: make(map[int]int16), holders: make(map[int]*holding),
	}
}

func (n *node) view() topology.View {
	return topology.View{Shape: &n.shape, Free: &n.free, Devices: &n.devices, NUMANodes: &n.numaNodes, NUMAFree: &n.numa}
}

// counts reports whether the machine has as much as is asked for, whatever hangs where.
func (n *node) counts(a *ask) bool {
	if n.spare < a.device.Count() || n.left.cores < a.amounts.cores || n.left.memory < a.amounts.memory || n.left.disk < a.amounts.disk || n.left.pods < 1 {
		return false
	}
	return a.app < 0 || n.apps[a.app] < a.limit
}

// bandwidth is what is left of all cards, in Mbit/s.
func (n *node) bandwidth() (sum int64) {
	for i := range n.shape.Devices.NIC {
		sum += int64(n.devices.Bandwidth[i])
	}
	return sum
}

// holding is what an instance has.
type holding struct {
	ask   *ask
	grant topology.Grant
	parts [cards]int32 // Mbit/s of each card that were chosen blindly; the grant charges none then
}

// take gives an instance what was chosen for it.
func (n *node) take(task int, h *holding) {
	n.holders[task] = h
	n.move(h, 1)
}

// drop gives it back.
func (n *node) drop(task int) {
	n.move(n.holders[task], -1)
	delete(n.holders, task)
}

func (n *node) move(h *holding, sign int64) {
	a := h.ask
	n.left.cores -= sign * a.amounts.cores
	n.left.memory -= sign * a.amounts.memory
	n.left.disk -= sign * a.amounts.disk
	n.left.pods -= sign
	n.spare -= int(sign) * a.device.Count()
	if a.app >= 0 {
		n.apps[a.app] += int16(sign)
	}
	for i, part := range h.parts {
		n.devices.Bandwidth[i] -= int32(sign) * part
	}
	v := n.view()
	if sign > 0 {
		v.Commit(&h.grant)
		return
	}
	v.Release(&h.grant)
}
