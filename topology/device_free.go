package topology

import "math/bits"

const (
	// MaxInstances is the most MIG instances of one GPU; no GPU has more than 7.
	MaxInstances = 8
	// MaxAmount is the most MiB of one GPU, and the most Mbit/s of one network card: the sum over all pods that share one then fits its counter.
	MaxAmount = 1 << 24
)

// DeviceFree is what is left of a node's devices beside the compute of its GPUs, which is Free. What is left may be negative where another party
// gave out more than there was. It is comparable.
type DeviceFree struct {
	Memory    [MaxGPUs]int32  // MiB
	Clients   [MaxGPUs]int8   // slices that may still be made
	Soft      [MaxGPUs]int8   // slices that are there and soft; the others are by accounting
	Tenants   [MaxGPUs]Tenant // the sum of theirs, see Tenant
	Holders   [MaxGPUs]uint32 // of each MIG instance, four bits for each; more than one is a mistake, which is counted
	Bandwidth [MaxNICs]int32  // Mbit/s
	Functions [MaxNICs]int16  // virtual functions
}

// NewDeviceFree is what an empty machine has; nil has nothing.
func NewDeviceFree(d *Devices) (f DeviceFree) {
	if d == nil {
		return f
	}
	for i := range min(len(d.GPU), MaxGPUs) {
		g := &d.GPU[i]
		f.Memory[i], f.Clients[i] = g.memory(), g.clients()
	}
	for i := range min(len(d.NIC), MaxNICs) {
		n := &d.NIC[i]
		f.Bandwidth[i], f.Functions[i] = int32(min(n.Bandwidth, MaxAmount)), int16(min(n.Functions, 1<<15-1))
	}
	return f
}

func (g *GPU) memory() int32 { return int32(min(g.Memory, MaxAmount)) }

func (g *GPU) clients() int8 { return int8(min(g.Clients, 1<<7-1)) }

// HoldsInstance reports whether some pod has the MIG instance of a GPU.
func (f *DeviceFree) HoldsInstance(gpu, instance int) bool {
	return f.Holders[gpu]>>(4*instance&31)&15 != 0
}

// View is one node to the fit functions: what it has and what is left of it. The ledger, the agent and the explanations all build one and call Offer, so
// they agree on what fits. Where Shape.Devices is nil, Devices is not read and may be nil; then GPUs are only counters and there is no network card.
// NUMANodes and NUMAFree may be nil: then nothing is promised by NUMA node. A View is made on the stack and owns nothing.
type View struct {
	Shape     *Shape
	Free      *Free
	Devices   *DeviceFree
	NUMANodes *NUMAShape
	NUMAFree  *NUMAFree
	// Resources are what plugins bring, sorted by name, and ResourcesFree what is left of it. Nil: nothing of that is counted by NUMA node.
	Resources     []Resource
	ResourcesFree *ResourceFree
}

// Commit takes what a grant says from Free, Devices and NUMAFree, whether it fits or not.
func (v *View) Commit(g *Grant) { v.move(g, 1) }

// Release gives it back, exactly.
func (v *View) Release(g *Grant) { v.move(g, -1) }

func (v *View) move(g *Grant, sign int32) {
	if v.NUMAFree != nil {
		v.NUMAFree.move(&g.NUMANodes, sign)
	}
	v.moveResources(g, int64(sign))
	d := v.Shape.Devices
	if d == nil {
		v.Free.move(*g, -sign*int32(g.Milli))
		return
	}
	for set := g.GPUs; set != 0; set &= set - 1 {
		i := bits.TrailingZeros16(set)
		v.Free[i] -= sign * int32(g.Milli)
		if i < len(d.GPU) {
			v.Devices.moveGPU(&d.GPU[i], i, g, sign)
		}
	}
	for set := g.NICs; set != 0; set &= set - 1 {
		i := bits.TrailingZeros16(set)
		v.Devices.Bandwidth[i] -= sign * int32(g.NIC.Bandwidth)
		if g.NIC.Function {
			v.Devices.Functions[i] -= int16(sign)
		}
	}
}

// moveGPU charges all but the compute of a GPU, sign times.
func (f *DeviceFree) moveGPU(gpu *GPU, i int, g *Grant, sign int32) {
	switch {
	case g.Instance > 0:
		f.Memory[i] -= sign * int32(g.Memory)
		f.Holders[i] += uint32(sign) << (4 * int(g.Instance-1) & 31)
	case g.isWhole():
		f.Memory[i] -= sign * gpu.memory()
		f.Clients[i] -= int8(sign) * gpu.clients()
	default:
		f.Memory[i] -= sign * int32(g.Memory)
		f.Clients[i] -= int8(sign)
		if g.Isolation == Soft {
			f.Soft[i] += int8(sign)
			f.Tenants[i] += Tenant(int64(sign)) * g.Tenant
		}
	}
}
