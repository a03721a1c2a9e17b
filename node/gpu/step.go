package gpu

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/topology"
)

// Reason is why a GPU gives nothing new.
type Reason string

// The reasons. Where several hold, the first of this list counts.
const (
	// DriverAway: the driver does not answer.
	DriverAway Reason = "DriverAway"
	// Vanished: the driver answers, and does not know the GPU.
	Vanished Reason = "Vanished"
	// DuplicateUUID: two devices show one UUID, so it is unclear which of them is meant.
	DuplicateUUID Reason = "DuplicateUUID"
	// Replaced: another GPU is at its address, and a pod still holds the one before.
	Replaced Reason = "Replaced"
	// Unreadable: something that must be known of it is not.
	Unreadable Reason = "Unreadable"
	// Unhealthy: it has a fault, or had one a moment ago.
	Unhealthy Reason = "Unhealthy"
	// Reconfigured: its MIG mode changes at the next reset, or it is to be divided and is not.
	Reconfigured Reason = "Reconfigured"
	// Uninjectable: no CDI specification says how to put it into a container.
	Uninjectable Reason = "Uninjectable"
	// Foreign: a process uses it to which it was not given.
	Foreign Reason = "Foreign"
)

// Observation is what was seen at one moment.
type Observation struct {
	// Inventory is the driver's answer; nil: there was none, and Why says why. Gone: because certainly no driver runs.
	Inventory *Inventory
	Gone      bool
	Why       string
	Boot      string // names the start of the kernel
	Xids      []Xid  // what the kernel's log has; older ones may stand in it again
	Held      Held
	// Uninjectable (of package inject) and Foreign (of Strangers) are the addresses of GPUs that must not be given, with why.
	Uninjectable, Foreign map[string]string
}

// View is a node's GPUs at one moment.
type View struct {
	Version string // of the driver; empty: not known
	Slots   []Slot // by index; read-only
	Links   []uint8
	// Notes are what an operator should look at, beside the reasons of closed GPUs.
	Notes []string
}

// Step takes what was seen into the Memory and says what the GPUs are now.
func Step(p *Params, before State, o *Observation) (State, View) {
	s := step{Params: p, State: before.clone(), o: o}
	s.boot()
	here := s.claims()
	s.faults()
	if o.Inventory == nil {
		s.away()
	} else {
		s.present(here)
	}
	// A copy, so that the Memory and the View share nothing that the next Step changes.
	out := s.clone()
	return s.State, View{Version: out.Version, Slots: out.Slots, Links: out.Links, Notes: s.notes}
}

type step struct {
	*Params
	State

	o     *Observation
	notes []string
}

// boot forgets the faults of an earlier start of the kernel.
func (s *step) boot() {
	if s.o.Boot != s.Boot {
		s.Boot, s.XidsTo = s.o.Boot, 0
		s.forgetFaults()
	}
}

// claims gives a slot to each GPU that is here, in the order of their addresses, so that a node that is new is numbered as its driver does. It
// returns those that have one.
func (s *step) claims() map[string]*GPU {
	inv := s.o.Inventory
	if inv == nil {
		return nil
	}
	if s.Gone { // the driver was loaded anew, which resets the GPUs
		s.forgetFaults()
	}
	here := make(map[string]*GPU, len(inv.GPUs))
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		switch {
		case s.at(g.Address) != nil:
		case len(s.Slots) == topology.MaxGPUs:
			s.note("the GPU at %s is left out: there are %d already, counting those that are gone", g.Address, topology.MaxGPUs)
			continue
		default:
			s.Slots = append(s.Slots, Slot{Address: g.Address, Calm: s.Calm})
		}
		here[g.Address] = g
	}
	return here
}

// faults takes those of the kernel's log that are new.
func (s *step) faults() {
	to := s.XidsTo
	for _, x := range s.o.Xids {
		if x.At <= s.XidsTo || slices.Contains(s.IgnoredXids, x.Code) {
			continue
		}
		to = max(to, x.At)
		if slot := s.at(x.Address); slot != nil && !slices.Contains(slot.Faults, x.Code) {
			slot.Faults = append(slot.Faults, x.Code)
		}
	}
	s.XidsTo = to
}

func (s *step) forgetFaults() {
	for i := range s.Slots {
		s.Slots[i].Faults = nil
	}
}

// away closes everything at once where there is no driver, and after some patience where it just does not answer. What was closed stays so, for
// its own reason.
func (s *step) away() {
	s.Failures++
	s.Gone = s.Gone || s.o.Gone
	for i := range s.Slots {
		slot := &s.Slots[i]
		if slot.Closed != "" {
			slot.Calm = 0 // in a row means without a gap
		}
		if s.Gone || s.Failures >= s.Patience {
			slot.Closed, slot.Why, slot.Calm = DriverAway, s.o.Why, 0
		}
	}
}

// present judges what a whole inventory says.
func (s *step) present(here map[string]*GPU) {
	s.Failures, s.Gone, s.Version = 0, false, s.o.Inventory.Version
	doubled := s.doubled(here)
	for i := range s.Slots {
		s.judge(i, here[s.Slots[i].Address], doubled)
	}
	s.Links = s.linksByIndex(s.o.Inventory)
}

// doubled are the UUIDs that more than one device shows: GPUs and instances that are here, and GPUs that are gone but held. Whoever holds one
// that is gone must never find himself on another.
func (s *step) doubled(here map[string]*GPU) map[string]bool {
	count := make(map[string]int)
	for i := range s.Slots {
		slot := &s.Slots[i]
		g := here[slot.Address]
		if s.o.Held.GPUs&(1<<i) != 0 && (g == nil || g.UUID != slot.GPU.UUID) {
			count[slot.GPU.UUID]++
		}
		if g == nil {
			continue
		}
		count[g.UUID]++
		for k := range g.Instances {
			count[g.Instances[k].UUID]++
		}
	}
	out := make(map[string]bool)
	for uuid, n := range count {
		out[uuid] = n > 1 && uuid != ""
	}
	return out
}

// judge says of one index what it is now; g is what is at its address, nil for nothing.
func (s *step) judge(i int, g *GPU, doubled map[string]bool) {
	slot := &s.Slots[i]
	held := s.o.Held.GPUs&(1<<i) != 0
	if g == nil {
		slot.Faults = nil // when it comes back, it has been reset
		slot.Closed, slot.Why, slot.Calm = Vanished, "the driver no longer knows it", 0
		return
	}
	replaced := slot.GPU.UUID != "" && g.UUID != "" && g.UUID != slot.GPU.UUID
	if replaced && !held {
		s.note("GPU %d at %s is another one now: %s", i, slot.Address, g.UUID)
		slot.Faults, slot.Instances = nil, nil
	}
	reason, why := s.verdict(slot, g, doubled)
	if replaced && held && reason != DuplicateUUID {
		reason, why = Replaced, "pods hold "+slot.GPU.UUID+", and "+g.UUID+" is there now"
	}
	if !replaced || !held {
		s.remember(i, g)
	}
	slot.Calm = min(slot.Calm+1, s.Calm)
	if bad(reason) {
		slot.Calm = 0
	}
	switch {
	case reason != "":
		slot.Closed, slot.Why = reason, why
	case slot.Calm < s.Calm && slot.Closed != "":
		if !bad(slot.Closed) {
			slot.Closed = Unhealthy
		}
		slot.Why = fmt.Sprintf("well for %d of %d looks", slot.Calm, s.Calm)
	default:
		slot.Closed, slot.Why, slot.Calm = "", "", s.Calm
	}
}

// bad reports whether a GPU must show for some time that it is well again.
func bad(r Reason) bool {
	return r == Vanished || r == DuplicateUUID || r == Unhealthy || r == DriverAway
}

// verdict is why a GPU that is here gives nothing new; an empty reason: it may.
func (s *step) verdict(slot *Slot, g *GPU, doubled map[string]bool) (Reason, string) {
	if g.Lost != "" { // nothing else is known of it
		return Unhealthy, g.faults()
	}
	instances := slices.IndexFunc(g.Instances, func(in Instance) bool { return doubled[in.UUID] })
	switch {
	case doubled[g.UUID]:
		return DuplicateUUID, g.UUID + " is shown twice"
	case instances >= 0:
		return DuplicateUUID, g.Instances[instances].UUID + " is shown twice"
	case g.missing() != "":
		return Unreadable, "the driver does not say its " + g.missing()
	case g.faults() != "":
		return Unhealthy, g.faults()
	case len(slot.Faults) > 0:
		return Unhealthy, "Xid " + numbers(slot.Faults) + ", until the driver is loaded anew"
	case g.MIG == MIGChanging:
		return Reconfigured, "its MIG mode changes at the next reset"
	case g.MIG == MIGOn && len(g.Instances) == 0:
		return Reconfigured, "MIG is on, and it has no instance"
	}
	if why := s.o.Uninjectable[g.Address]; why != "" {
		return Uninjectable, why
	}
	if why := s.o.Foreign[g.Address]; why != "" {
		return Foreign, why
	}
	return "", ""
}

// remember keeps what is known of a GPU. Of one that is lost or half known, that is what was known before.
func (s *step) remember(i int, g *GPU) {
	slot := &s.Slots[i]
	if g.Lost != "" || g.missing() != "" && slot.GPU.missing() == "" {
		return
	}
	slot.GPU = *g
	slot.GPU.Processes = nil // they are of the moment
	slot.GPU.Instances = nil // they have places of their own
	slot.Instances = s.place(i, slot.Instances, g.Instances)
}

// place gives instances their index: the one that they had, else the first that is free. One that is gone keeps its place while it is held.
func (s *step) place(i int, had []SlotInstance, have []Instance) []SlotInstance {
	held := s.o.Held.Instances[i]
	out := slices.Clone(had)
	left := slices.Clone(have)
	for k := range out {
		at := slices.IndexFunc(left, func(in Instance) bool { return in.UUID == out[k].UUID && in.UUID != "" })
		out[k].Gone = at < 0
		if at >= 0 {
			out[k].Instance = left[at]
			left = slices.Delete(left, at, at+1)
		}
	}
	for _, in := range left {
		k := slices.IndexFunc(out, func(o SlotInstance) bool { return o.Gone })
		for k >= 0 && k < len(out) && (!out[k].Gone || held&(1<<k) != 0) {
			k++
		}
		switch {
		case in.UUID == "": // it cannot be named, so it cannot be given; the next look may know more
		case k >= 0 && k < len(out):
			out[k] = SlotInstance{Instance: in}
		case len(out) < topology.MaxInstances:
			out = append(out, SlotInstance{Instance: in})
		default:
			s.note("instance %s of GPU %d is left out: there are %d already", in.UUID, i, topology.MaxInstances)
		}
	}
	for len(out) > 0 && out[len(out)-1].Gone && held&(1<<(len(out)-1)) == 0 {
		out = out[:len(out)-1]
	}
	return out
}

// linksByIndex turns the driver's table into one by index. GPUs that are gone are connected to nothing.
func (s *step) linksByIndex(inv *Inventory) []uint8 {
	n := len(inv.GPUs)
	if len(inv.Links) != n*n {
		return nil
	}
	index := make([]int, n)
	for k := range inv.GPUs {
		index[k] = slices.IndexFunc(s.Slots, func(slot Slot) bool { return slot.Address == inv.GPUs[k].Address })
	}
	out := make([]uint8, len(s.Slots)*len(s.Slots))
	for a, i := range index {
		for b, j := range index {
			if i >= 0 && j >= 0 {
				out[i*len(s.Slots)+j] = inv.Links[a*n+b]
			}
		}
	}
	return out
}

func (s *step) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// Closed is the set of the GPUs that give nothing new.
func (v *View) Closed() (set uint16) {
	for i := range v.Slots {
		if v.Slots[i].Closed != "" {
			set |= 1 << i
		}
	}
	return set
}

// Open is how many GPUs may be given.
func (v *View) Open() int { return len(v.Slots) - bits.OnesCount16(v.Closed()) }

func numbers(list []int) string {
	var b strings.Builder
	for i, n := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}
