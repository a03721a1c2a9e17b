package affinity

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// Mode is who chooses devices, and how near they must be.
type Mode uint8

// The modes.
const (
	// Blind draws devices at random.
	Blind Mode = iota
	// First takes the lowest indices.
	First
	// Required demands one switch.
	Required
	// Preferred takes one switch where the machine has it.
	Preferred
	// Sought looks for one switch on every machine first.
	Sought
)

var modeNames = [...]string{"blind", "first", "required", "preferred", "sought"}

// Modes are all modes.
func Modes() []Mode { return []Mode{Blind, First, Required, Preferred, Sought} }

// String is the mode's name.
func (m Mode) String() string { return modeNames[m] }

// MarshalText is the mode's name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// ParseMode reads what String wrote.
func ParseMode(text string) (Mode, error) {
	i := slices.Index(modeNames[:], text)
	if i < 0 {
		return 0, fmt.Errorf("affinity: mode %q is not known; write one of %q", text, modeNames)
	}
	return Mode(i), nil
}

// aware reports whether the allocator chooses.
func (m Mode) aware() bool { return m >= Required }

// near is what an instance asks for. Only a GPU with a card is required to be near it.
func (m Mode) near(a *ask, must bool) topology.Near {
	if a.together() {
		return topology.Near{Level: topology.SameSwitch, Required: must || m == Required}
	}
	return topology.Near{Level: topology.SameNUMA, Required: must}
}

// choose finds devices, cores and memory on a machine whose counters have room. must is for an instance that shall be near though it need not.
func (m Mode) choose(n *node, a *ask, must bool, draw *rand.Rand) (*holding, bool) {
	if !m.aware() {
		return m.chooseBlind(n, a, draw)
	}
	request := a.device
	request.Near = m.near(a, must)
	v := n.view()
	numa := a.numa
	grant, ok := v.Offer(&request, &numa)
	if !ok {
		return nil, false
	}
	return &holding{ask: a, grant: grant}, true
}

// chooseBlind takes free GPUs, a card that has room, and cores as the kubelet's static CPU manager packs them: each by itself.
func (m Mode) chooseBlind(n *node, a *ask, draw *rand.Rand) (*holding, bool) {
	wanted := int64(a.device.NIC.Count) * int64(a.device.NIC.Bandwidth)
	if n.bandwidth() < wanted {
		return nil, false
	}
	h := &holding{ask: a}
	if count := a.device.Count(); count > 0 {
		h.grant.Milli = topology.FullGPU
		for _, i := range m.order(n.gpus, draw) {
			if n.free[i] == topology.FullGPU && bits.OnesCount16(h.grant.GPUs) < count {
				h.grant.GPUs |= 1 << i
			}
		}
	}
	order := m.order(cards, draw)
	for range a.device.NIC.Count {
		m.card(n, h, order)
	}
	n.packed(a, &h.grant.NUMANodes)
	return h, true
}

// order is the order in which devices are looked at.
func (m Mode) order(n int, draw *rand.Rand) []int {
	if m == Blind {
		return draw.Perm(n)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// card takes the bandwidth of one card: from the first that has it, or piece by piece.
func (m Mode) card(n *node, h *holding, order []int) {
	left := int32(h.ask.device.NIC.Bandwidth)
	for _, whole := range []bool{true, false} {
		for _, i := range order {
			room := n.devices.Bandwidth[i] - h.parts[i]
			if left == 0 || room <= 0 || (whole && room < left) {
				continue
			}
			part := min(room, left)
			h.parts[i] += part
			h.grant.NICs |= 1 << i
			left -= part
		}
	}
}

// packed takes cores of the NUMA node with the fewest free, then of the next. Memory is charged nowhere: it lies where it lies.
func (n *node) packed(a *ask, g *topology.NUMAGrant) {
	left := int32(a.numa.CPUs)
	for left > 0 {
		fewest := -1
		for z := range sockets {
			room := n.numa[z].CPUs - int32(g.CPUs[z])
			if room > 0 && (fewest < 0 || room < n.numa[fewest].CPUs-int32(g.CPUs[fewest])) {
				fewest = z
			}
		}
		if fewest < 0 {
			return // an odd core of the machine is in no NUMA node
		}
		taken := min(left, n.numa[fewest].CPUs-int32(g.CPUs[fewest]))
		g.CPUs[fewest] += uint16(taken)
		left -= taken
	}
}
