package judge

import (
	"fmt"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// DeviceRefusal says why a pod must not be given these devices beside what the others hold; empty if it may.
func DeviceRefusal(d *topology.Devices, r *topology.Request, g *topology.Grant, others []topology.Grant) string {
	if bits.OnesCount16(g.GPUs) != r.Count() || bits.OnesCount16(g.NICs) != int(r.NIC.Count) {
		return fmt.Sprintf("%d GPUs and %d network cards where %d and %d are asked for", bits.OnesCount16(g.GPUs), bits.OnesCount16(g.NICs), r.Count(), r.NIC.Count)
	}
	if g.GPUs>>len(d.GPU) != 0 || g.NICs>>len(d.NIC) != 0 || g.GPUs&d.ClosedGPUs != 0 || g.NICs&d.ClosedNICs != 0 {
		return "a device that is not there, or closed"
	}
	for i := range d.GPU {
		if g.GPUs>>i&1 == 1 {
			if why := gpuRefusal(&d.GPU[i], r, g); why != "" {
				return fmt.Sprintf("GPU %d: %s", i, why)
			}
		}
	}
	for i := range d.NIC {
		if g.NICs>>i&1 == 1 && (r.NIC.RDMA && !d.NIC[i].RDMA || g.NIC.Bandwidth < r.NIC.Bandwidth || r.NIC.Function && !g.NIC.Function) {
			return fmt.Sprintf("network card %d is less than is asked for", i)
		}
	}
	if r.Near.Required && !r.Near.Relax && !isNear(d, r.Near.Level, g) {
		return "devices that are not as near as is required"
	}
	before := GivenTwice(d, others)
	if why := GivenTwice(d, append(slices.Clone(others), *g)); why != "" && before == "" {
		return why
	}
	return ""
}

// gpuRefusal says in what the part of a GPU that a pod is given falls short of its request, or is charged wrongly.
func gpuRefusal(gpu *topology.GPU, r *topology.Request, g *topology.Grant) string {
	switch grain := max(int16(gpu.Grain), 1); {
	case r.Milli == 0:
		if g.Milli != 1000 || gpu.Memory < r.Memory {
			return "it is not whole, or too small"
		}
	case g.Instance > 0:
		if int(g.Instance) > len(gpu.Instances) {
			return "no such instance"
		}
		if k := gpu.Instances[g.Instance-1]; int16(k.Milli) < r.Milli || k.Memory < r.Memory {
			return "the instance is too small"
		}
	case len(gpu.Instances) > 0:
		return "a slice beside instances"
	case g.Isolation < r.Isolation || !gpu.Strengths.Has(g.Isolation):
		return "it does not isolate so strongly"
	case g.Milli < r.Milli || g.Memory < r.Memory || g.Memory == 0 && gpu.Memory > 0:
		return "less than is asked for"
	case g.Isolation == topology.Soft && g.Milli%grain != 0 && g.Milli != 1000:
		return fmt.Sprintf("%d/1000, which is not rounded to the grain of %d", g.Milli, grain)
	case g.Isolation == topology.Soft && g.Milli < int16(gpu.Least):
		return fmt.Sprintf("%d/1000, and the driver limits no process to less than %d", g.Milli, gpu.Least)
	case g.Isolation == topology.Accounting && g.Milli != r.Milli:
		return "more than is asked for"
	}
	return ""
}

// isNear reports whether all devices of a grant are in one place: behind one PCI switch, in one NUMA node, or in one socket.
func isNear(d *topology.Devices, level topology.Level, g *topology.Grant) bool {
	var places []uint8
	of := func(pciSwitch, numa, socket uint8) {
		places = append(places, [...]uint8{topology.Anywhere: 0, topology.SameSocket: socket, topology.SameNUMA: numa, topology.SameSwitch: pciSwitch}[level])
	}
	for i, x := range d.GPU {
		if g.GPUs>>i&1 == 1 {
			of(x.Switch, x.NUMANode, x.Socket)
		}
	}
	for i, x := range d.NIC {
		if g.NICs>>i&1 == 1 {
			of(x.Switch, x.NUMANode, x.Socket)
		}
	}
	return len(slices.Compact(places)) <= 1 // equal ones stand together if all are
}

// GivenTwice names a device of which the grants together hold more than there is; empty if there is none.
func GivenTwice(d *topology.Devices, all []topology.Grant) string {
	if d == nil {
		return ""
	}
	for i := range d.GPU {
		var on []topology.Grant
		for _, g := range all {
			if g.GPUs>>i&1 == 1 {
				on = append(on, g)
			}
		}
		if why := gpuGivenTwice(&d.GPU[i], on); why != "" {
			return fmt.Sprintf("GPU %d: %s", i, why)
		}
		if !d.SeveralNamespaces && severalTenants(on) {
			return fmt.Sprintf("GPU %d: soft slices of several tenants", i)
		}
	}
	for i := range d.NIC {
		bandwidth, functions := int64(0), 0
		for _, g := range all {
			if g.NICs>>i&1 == 1 {
				bandwidth += int64(g.NIC.Bandwidth)
				if g.NIC.Function {
					functions++
				}
			}
		}
		if bandwidth > int64(d.NIC[i].Bandwidth) || functions > int(d.NIC[i].Functions) {
			return fmt.Sprintf("network card %d: %d Mbit/s and %d functions, of %d and %d", i, bandwidth, functions, d.NIC[i].Bandwidth, d.NIC[i].Functions)
		}
	}
	return ""
}

// gpuGivenTwice does so for one GPU.
func gpuGivenTwice(gpu *topology.GPU, on []topology.Grant) string {
	milli, memory, whole, slices, soft := 0, int64(0), 0, 0, 0
	instances := make(map[int8]int)
	for _, g := range on {
		switch {
		case g.Instance > 0:
			if instances[g.Instance]++; instances[g.Instance] > 1 {
				return fmt.Sprintf("instance %d twice", g.Instance-1)
			}
		case g.Milli == 1000 && g.Isolation == topology.IsolationAny:
			whole++
		default:
			milli, memory, slices = milli+int(g.Milli), memory+int64(g.Memory), slices+1
			if g.Isolation == topology.Soft {
				soft++
			}
		}
	}
	switch {
	case whole > 1 || whole == 1 && slices+len(instances) > 0:
		return fmt.Sprintf("whole to %d, and parts to %d", whole, slices+len(instances))
	case milli > 1000 || memory > int64(gpu.Memory) || slices > int(gpu.Clients):
		return fmt.Sprintf("%d/1000 and %d MiB in %d slices, of %d MiB in %d", milli, memory, slices, gpu.Memory, gpu.Clients)
	case soft > 0 && soft < slices || slices > 0 && len(instances) > 0:
		return "parts that do not mix"
	}
	return ""
}

// severalTenants reports whether there are soft slices of more than one tenant.
func severalTenants(on []topology.Grant) bool {
	of := make(map[topology.Tenant]bool)
	for _, g := range on {
		if g.Isolation == topology.Soft {
			of[g.Tenant] = true
		}
	}
	return len(of) > 1
}

// SameDevices reports whether two grants are of the same devices. The amounts of a MIG instance need not be in a grant.
func SameDevices(a, b topology.Grant) bool {
	return a.GPUs == b.GPUs && a.NICs == b.NICs && a.Instance == b.Instance && (a.Instance > 0 || a.GPUs == 0 || a.Milli == b.Milli && a.Memory == b.Memory)
}
