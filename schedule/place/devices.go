package place

import (
	"fmt"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// GPUs and network cards, and what of a node is held of them together with zones. Devices are judged by themselves, zones by themselves, and both
// at once for who asks for both: how near they must be, and what the zones that go with the devices take of the node.

// asksDevices reports whether the class asks for GPUs or network cards.
func asksDevices(c *cluster.Class) bool { return !c.GPU.IsZero() || c.GPU.NIC.Count > 0 }

// asksBoth reports whether the class asks for zones beside devices, or for zones that are near each other.
func asksBoth(c *cluster.Class) bool {
	return !c.Zones.IsZero() && (asksDevices(c) || c.GPU.Near.Level != topology.Anywhere)
}

func fitsGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if !asksDevices(c) {
		return true
	}
	v := s.View(slot)
	_, ok := v.Offer(&c.GPU, nil)
	return ok
}

func commitsGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant *topology.Grant) bool {
	if !asksDevices(c) {
		return grant.GPUs == 0 && grant.NICs == 0
	}
	v, devices := s.View(slot), *grant
	devices.Zones = topology.ZoneGrant{}
	return v.Fits(&c.GPU, nil, &devices)
}

func whyGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	shape := s.Shape(slot)
	switch {
	case lacksDeviceReport(s, slot, c):
		add("node(s) had no fresh report of their devices")
	case shape.Devices != nil && len(shape.Devices.GPU) > 0:
		v := s.View(slot)
		add("node(s) had " + causes[v.Refusal(&c.GPU, nil).Cause])
	case shape.GPUs == 0 && !c.GPU.IsZero():
		add("node(s) had no GPU")
	case c.GPU.Milli > 0 && !shape.Shareable:
		add("node(s) didn't share their GPUs")
	case c.GPU.Total() <= s.GPUs(slot).Total(*shape):
		add("node(s) had enough GPU in sum but not on whole or single GPUs")
	default:
		add("Insufficient GPU")
	}
}

// lacksDeviceReport reports whether the class asks for what only an agent's report promises, and there is none, or it is too old.
func lacksDeviceReport(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	r := s.Report(slot)
	switch {
	case r == nil || r.Devices == nil:
		return c.GPU.NeedsReport()
	case r.Why == "":
		return false
	}
	return c.GPU.NeedsReport() || r.Devices.Owner == topology.OwnerHilbert
}

// causes continue a phrase that begins with the nodes.
var causes = [...]string{
	topology.Fits:              "devices that have come free",
	topology.Contradictory:     "no way to meet a contradictory request",
	topology.NothingReported:   "no report of their devices",
	topology.NotOurs:           "GPUs that are not Hilbert's to give out so",
	topology.FewGPUs:           "fewer GPUs than asked for",
	topology.FewIdle:           "too few idle GPUs",
	topology.WeakIsolation:     "no GPU that isolates parts so strongly",
	topology.LittleCompute:     "too little compute left on single GPUs",
	topology.LittleGPUMemory:   "too little memory left on single GPUs",
	topology.NoRoomForSlice:    "compute and memory left, but not on one GPU that takes such a slice",
	topology.FewCards:          "too few network cards as asked for",
	topology.NoZones:           "too few exclusive cores in one set of zones",
	topology.Apart:             "GPUs enough, but not near enough to each other",
	topology.NoCardsBeside:     "no network cards left beside their GPUs",
	topology.NoZonesBeside:     "no exclusive cores left beside their devices",
	topology.LargerThanMachine: "no part as near together as asked for that could hold the pod, even an empty one",
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
	case lacksDeviceReport(s, slot, c):
		return "says nothing of its devices, or has not lately"
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

func fitsNear(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if !asksBoth(c) {
		return true
	}
	_, ok := s.Offer(slot, c)
	return ok
}

func commitsNear(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant *topology.Grant) bool {
	if !asksBoth(c) {
		return true
	}
	v := s.View(slot)
	return fitsNear(s, slot, c) && v.Fits(&c.GPU, &c.Zones, grant)
}

func whyNear(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	v := s.View(slot)
	if r := v.Refusal(&c.GPU, &c.Zones); r.Cause != topology.Fits {
		add("node(s) had " + causes[r.Cause])
		return
	}
	add("node(s) had no room for the rest of the cores or zones that the pod would hold")
}

func sayNear(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) string {
	if text := sayRefusal(s, slot, c, &c.Zones); text != "" {
		return text
	}
	return "has no room for the rest of the cores or zones that the pod would hold"
}

// sayRefusal continues a sentence that begins with the node; empty if its devices and zones do not refuse.
func sayRefusal(s *cluster.State, slot cluster.Slot, c *cluster.Class, z *topology.ZoneRequest) string {
	v := s.View(slot)
	if r := v.Refusal(&c.GPU, z); r.Cause != topology.Fits {
		return "cannot give what is asked for: " + r.String()
	}
	return ""
}

// unused is what a node has left: of CPUs and memory as a whole in millicores and bytes, and of GPUs, zones and devices.
type unused struct {
	cpu, memory int64
	gpus        topology.Free
	zones       topology.ZoneFree
	devices     topology.DeviceFree
}

// restOf copies what a node has left, and returns the node with that.
func (l *unused) load(s *cluster.State, slot cluster.Slot) topology.View {
	l.cpu, l.memory = s.Free(slot, resource.CPU), s.Free(slot, resource.Memory)
	v := s.View(slot)
	l.gpus = *v.Free
	v.Free = &l.gpus
	if v.Devices != nil {
		l.devices = *v.Devices
		v.Devices = &l.devices
	}
	if v.ZoneFree != nil {
		l.zones = *v.ZoneFree
		v.ZoneFree = &l.zones
	}
	return v
}

// grantsThatFit is how often, at most so many times, a node would offer a pod of the class GPUs, network cards and zones, each grant committed
// before the next is asked for.
func grantsThatFit(v *topology.View, left *unused, c *cluster.Class, most int64) (n int64) {
	switch {
	case c.Zones.IsZero() && v.Devices == nil:
		return min(most, countedThatFit(v.Shape, v.Free, &c.GPU))
	case !asksBoth(c) && v.Zones != nil && v.Zones.Ruler == topology.RulerKubelet && c.Zones.Binding == topology.Unbound && !asksDevices(c):
		return most
	}
	eachCPU, eachMemory := c.Amounts.Get(resource.CPU), c.Amounts.Get(resource.Memory)
	for n < most {
		grant, ok := v.Offer(&c.GPU, &c.Zones)
		if !ok {
			break
		}
		if !c.Zones.IsZero() {
			moreCPU, moreMemory := cluster.Excess(c, &grant.Zones)
			wantCPU, wantMemory := eachCPU+moreCPU, eachMemory+moreMemory
			if wantCPU > max(left.cpu, 0) || wantMemory > max(left.memory, 0) {
				break
			}
			left.cpu, left.memory = left.cpu-wantCPU, left.memory-wantMemory
		}
		v.Commit(&grant)
		n++
	}
	return n
}

// countedThatFit is grantsThatFit where GPUs are counters.
func countedThatFit(shape *topology.Shape, free *topology.Free, r *topology.Request) int64 {
	if r.NeedsReport() || r.Milli > 0 && !shape.Shareable {
		return 0
	}
	var idle, parts int64
	for i := range shape.GPUs {
		if free[i] == topology.FullGPU {
			idle++
		}
		if r.Milli > 0 && free[i] > 0 {
			parts += int64(free[i]) / int64(r.Milli)
		}
	}
	if r.Milli > 0 {
		return parts
	}
	return idle / int64(r.Whole)
}

// giveBack gives back what a pod on a node holds, for who supposes that it has left.
func giveBack(s *cluster.State, slot cluster.Slot, v *topology.View, left *unused, pod *cluster.Pod) {
	left.cpu += pod.Class.Amounts.Get(resource.CPU) + excessOf(pod, resource.CPU)
	left.memory += pod.Class.Amounts.Get(resource.Memory) + excessOf(pod, resource.Memory)
	if g := s.Held(slot, pod); !g.IsZero() {
		v.Release(&g)
	}
}
