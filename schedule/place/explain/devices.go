package explain

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// How far a node is from holding what is asked of GPUs, network cards and exclusive CPUs together, and what would let it: more of them free, things
// less near each other, or less asked for. Each is tried on a copy of what the node has left before it is reported.

// lacksGPUs says how much is missing, where that is an amount.
func lacksGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(obstacle)) {
	v := s.View(slot).WithoutResources()
	add(missingOf(&v, c, v.Refusal(&c.GPU, nil)))
}

// lacksNear says nothing where devices alone are refused: then that is the obstacle.
func lacksNear(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(obstacle)) {
	if rules.FitsGPUs(s, slot, c) {
		v := s.View(slot)
		add(missingOf(&v, c, v.Refusal(&c.GPU, &c.NUMANodes)))
	}
}

// missingOf is the amount that a refusal is about. Of GPUs that must be near each other it is how many more have to be free in one place.
func missingOf(v *topology.View, c *cluster.Class, f topology.Refusal) obstacle {
	o := obstacle{asked: f.Asked, missing: f.Asked - f.Left}
	switch f.Cause {
	case topology.FewIdle, topology.FewGPUs, topology.Apart, topology.LargerThanMachine:
		if c.GPU.Whole == 0 {
			return obstacle{}
		}
		o.name, o.asked = spec.ResourceNvidiaGPU, int64(c.GPU.Whole)
		if lacks := v.Lacks(&c.GPU, &c.NUMANodes); len(lacks) > 0 {
			o.missing = int64(bits.OnesCount16(lacks[0].GPUs))
		} else {
			o.missing, o.small = o.asked, true
		}
	case topology.LittleCompute:
		o.name = spec.ResourceGPUMilli
	case topology.LittleGPUMemory:
		o.name = spec.ResourceGPUMemory
	default:
		return obstacle{}
	}
	return o
}

// holdsAll reports whether a node with that much left of its devices and NUMA nodes holds a pod of the class that asks for such devices.
func holdsAll(s *cluster.State, slot cluster.Slot, c *cluster.Class, v *topology.View, r *topology.Request) bool {
	g, ok := v.Offer(r, &c.NUMANodes)
	return ok && s.FitsExcess(slot, c, &g.NUMANodes)
}

// vacateGPUs is the fewest GPUs that would have to come free, or the least of one GPU.
func vacateGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) (Change, bool) {
	v := s.View(slot)
	for _, lack := range v.Lacks(&c.GPU, &c.NUMANodes) {
		var left rules.Unused
		supposed := left.Load(s, slot)
		lack.Apply(&supposed)
		if !holdsAll(s, slot, c, &supposed, &c.GPU) {
			continue
		}
		change := Change{Kind: Free, GPUs: indicesOf(lack.GPUs)}
		switch {
		case lack.Milli > 0:
			change.Resource, change.Amount, change.cost = spec.ResourceGPUMilli, int64(lack.Milli), share(int64(lack.Milli), int64(c.GPU.Milli))
		case lack.Memory > 0:
			change.Resource, change.Amount, change.cost = spec.ResourceGPUMemory, int64(lack.Memory), share(int64(lack.Memory), int64(lack.Memory)+int64(max(v.Devices.Memory[change.GPUs[0]], 0)))
		default:
			change.Resource, change.Amount = spec.ResourceNvidiaGPU, int64(len(change.GPUs))
			change.cost = share(change.Amount, int64(c.GPU.Whole))
			switch d := v.Shape.Devices; {
			case d != nil && d.Owner == topology.OwnerKubelet:
				change.GPUs = nil // which ones is the kubelet's choice
			case lack.Level > topology.Anywhere && c.GPU.Near.Required:
				change.Near = lack.Level.String()
			}
		}
		return change, true
	}
	return Change{}, false
}

func indicesOf(set uint16) (list []int) {
	for ; set != 0; set &= set - 1 {
		list = append(list, bits.TrailingZeros16(set))
	}
	return list
}

// widen is the closest level at which the node would hold the pod, if it must be closer.
func widen(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) (Change, bool) {
	asked := c.GPU.Near
	if !asked.Required {
		return Change{}, false
	}
	v := s.View(slot)
	for level := asked.Level; level > topology.Anywhere; {
		level--
		r := c.GPU
		if r.Near = (topology.Near{Level: level, Required: true}); level == topology.Anywhere {
			r.Near = topology.Near{Level: asked.Level}
		}
		if holdsAll(s, slot, c, &v, &r) {
			return Change{Kind: Widen, Near: level.String(), NearAsked: asked.Level.String(), cost: int64(asked.Level - level)}, true
		}
	}
	return Change{}, false
}

// widened continues "it would fit with".
func (c *Change) widened() string {
	enough, _ := topology.ParseLevel(c.Near)
	asked, _ := topology.ParseLevel(c.NearAsked)
	return "nearness " + within(enough) + " instead of " + within(asked) + ", on " + c.Node
}

// within says where things are that are near at a level.
func within(level topology.Level) string {
	return [...]string{"anywhere on the machine", "within one socket", "within one NUMA node", "below one PCIe switch"}[level]
}

// askLess is the most that the node would hold of what is asked for: of whole GPUs, of the compute of one, or of its memory.
func askLess(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) (Change, bool) {
	v, r := s.View(slot), c.GPU
	change := Change{Kind: Reduce}
	switch {
	case r.Whole > 1:
		change.Resource, change.Asked = spec.ResourceNvidiaGPU, int64(r.Whole)
		change.Amount = most(change.Asked, func(n int64) bool {
			r.Whole = int8(n)
			return holdsAll(s, slot, c, &v, &r)
		})
	case r.Milli > 1:
		change.Resource, change.Asked = spec.ResourceGPUMilli, int64(r.Milli)
		change.Amount = most(change.Asked, func(n int64) bool {
			r.Milli = int16(n)
			return holdsAll(s, slot, c, &v, &r)
		})
	}
	if change.Amount == 0 && c.GPU.Memory > 1 {
		r = c.GPU
		change.Resource, change.Asked = spec.ResourceGPUMemory, int64(r.Memory)
		change.Amount = most(change.Asked, func(n int64) bool {
			r.Memory = uint32(n)
			return holdsAll(s, slot, c, &v, &r)
		})
	}
	change.cost = share(change.Asked-change.Amount, change.Asked)
	return change, change.Amount > 0
}

// most is the most of something, less than what is asked for, that is held; 0 if not even 1 is. A node that holds more of it holds less of it too.
func most(asked int64, holds func(int64) bool) int64 {
	low, high := int64(0), asked // low is held, or nothing; high is not
	for high-low > 1 {
		if middle := low + (high-low)/2; holds(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// freeGPUs says which GPUs would have to come free, or how much of one.
func (c *Change) freeGPUs() string {
	switch c.Resource {
	case spec.ResourceGPUMilli:
		return fmt.Sprintf("%d/%d more compute free on GPU %d of %s", c.Amount, topology.FullGPU, c.GPUs[0], c.Node)
	case spec.ResourceGPUMemory:
		return fmt.Sprintf("%d MiB more memory free on GPU %d of %s", c.Amount, c.GPUs[0], c.Node)
	}
	names := make([]string, len(c.GPUs))
	for i, index := range c.GPUs {
		names[i] = strconv.Itoa(index)
	}
	what := "GPU " + names[0]
	if last := len(names) - 1; last > 0 {
		what = "GPUs " + strings.Join(names[:last], ", ") + " and " + names[last]
	}
	text := what + " of " + c.Node + " free"
	if level, ok := topology.ParseLevel(c.Near); ok && level != topology.Anywhere {
		text += ", so that enough are " + within(level)
	}
	return text
}

// gpuAmount renders what is asked of GPUs: "5 GPUs", "300/1000 of a GPU", "4096 MiB of GPU memory".
func gpuAmount(resource string, amount int64) string {
	switch {
	case resource == spec.ResourceGPUMilli:
		return fmt.Sprintf("%d/%d of a GPU", amount, topology.FullGPU)
	case resource == spec.ResourceGPUMemory:
		return fmt.Sprintf("%d MiB of GPU memory", amount)
	case amount == 1:
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", amount)
}

func sayGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) string {
	shape, free := s.Shape(slot), s.GPUs(slot)
	var largest int32
	idle := 0
	for i := range shape.GPUs {
		largest = max(largest, free[i])
		if free[i] == topology.FullGPU {
			idle++
		}
	}
	switch {
	case rules.LacksDeviceReport(s, slot, c):
		return "has no fresh report of its devices"
	case shape.Devices != nil && len(shape.Devices.GPU) > 0:
		return sayRefusal(s, slot, c, nil)
	case shape.GPUs == 0 && !c.GPU.IsZero():
		return "has no GPU"
	case c.GPU.Milli > 0 && !shape.Shareable:
		return "does not share its GPUs"
	case c.GPU.Milli > 0:
		return fmt.Sprintf("has at most %d/1000 free on one GPU (%d asked)", largest, c.GPU.Milli)
	}
	return fmt.Sprintf("has %d whole GPUs free of %d (%d asked)", idle, shape.GPUs, c.GPU.Whole)
}

func sayNear(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) string {
	if text := sayRefusal(s, slot, c, &c.NUMANodes); text != "" {
		return text
	}
	return "has no room for the whole cores or NUMA nodes that the pod would occupy"
}

// sayRefusal continues a sentence that begins with the node; empty if its devices and NUMA nodes do not refuse.
func sayRefusal(s *cluster.State, slot cluster.Slot, c *cluster.Class, z *topology.NUMARequest) string {
	v := s.View(slot)
	if z == nil { // devices by themselves
		v = v.WithoutResources()
	}
	if r := v.Refusal(&c.GPU, z); r.Cause != topology.Fits {
		return "cannot give what is asked for: " + r.String()
	}
	return ""
}
