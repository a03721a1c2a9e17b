package cluster

import (
	"slices"

	"hilbert.dev/hilbert/topology"
)

// What may be given of a node's GPUs and network cards follows from the node and from its report. Without a report that names devices it is what the node
// says: so many GPUs. Hilbert owns them: what the report says, and of node.status nothing. The kubelet owns them: as many whole GPUs
// as node.status says, of which it chooses itself, and the network cards of the report. Nobody owns them: network cards alone. A report that is too
// old gives nothing: whoever would hand the devices out is silent. A report that says Hilbert, while the node offers whole GPUs by number, is older than the
// device plugin that has come: nobody owns them until the agent has seen it.

// shapeFrom is what a shape was made of.
type shapeFrom struct {
	gpu     topology.Shape // the node's
	devices *topology.Devices
	silent  bool
}

// reshape brings what may be given of a slot's devices in line with its node and its report, if it has a row, and reports whether it is something else than before. The
// counters are not looked at: recount does.
// So is the capacity.
func (s *Store) reshape(slot Slot) bool {
	row := s.rows[slot]
	if row == nil {
		return false
	}
	from := shapeFrom{gpu: s.nodes[slot].GPU}
	if row.report != nil {
		from.devices, from.silent = row.report.Devices, row.report.Why != ""
	}
	if row.from == from {
		return false
	}
	row.from, row.shape, row.devices = from, topology.Shape{}, nil
	if from.devices != nil {
		row.shape, row.devices = from.shape(), new(topology.DeviceFree)
	}
	s.hasGPUs[slot] = s.Shape(slot).GPUs > 0
	return true
}

// shape is what may be given where a report names devices.
func (f *shapeFrom) shape() topology.Shape {
	d := f.devices
	if d.Owner == topology.OwnerKubelet {
		d = counted(d, f.gpu.GPUs)
	}
	sold := d.Owner == topology.OwnerHilbert && f.gpu.GPUs > 0 && !f.gpu.Shareable
	if f.silent || sold {
		copied := *d
		if f.silent {
			copied.ClosedNICs = 1<<len(d.NIC) - 1
		}
		if d.Owner != topology.OwnerKubelet {
			copied.Owner = topology.OwnerNone
		}
		d = &copied
	}
	shape := topology.Shape{Model: f.gpu.Model, Devices: d}
	if d.Owner != topology.OwnerNone {
		shape.GPUs = len(d.GPU)
	}
	if shape.Model == "" && len(d.GPU) > 0 {
		shape.Model = d.GPU[0].Model
	}
	shape.Shareable = d.Owner == topology.OwnerHilbert && slices.ContainsFunc(d.GPU, func(g topology.GPU) bool { return g.Clients > 0 || len(g.Instances) > 0 })
	return shape
}

// counted is what the report says, with as many GPUs as the kubelet counts. Which of them they are is not known, so that they are nowhere, and have
// the least memory of all.
func counted(d *topology.Devices, count int) *topology.Devices {
	each := topology.GPU{Switch: topology.NoPlace, Zone: topology.NoPlace, Socket: topology.NoPlace}
	for i := range d.GPU {
		if i == 0 || d.GPU[i].Memory < each.Memory {
			each.Memory, each.Model = d.GPU[i].Memory, d.GPU[i].Model
		}
	}
	return &topology.Devices{
		Owner: topology.OwnerKubelet, NIC: d.NIC, ClosedNICs: d.ClosedNICs, GPU: slices.Repeat([]topology.GPU{each}, min(max(count, 0), topology.MaxGPUs)),
	}
}
