package egress

import (
	"errors"
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// The reasons why there can be no ceiling on this node.
const (
	ReasonNoUplink    = "NoUplink"    // no interface leads off the node, or the one named is not there
	ReasonNoTCX       = "NoTCX"       // the kernel is older than 6.6, or may not load programs
	ReasonNoFQ        = "NoFQ"        // the kernel has no qdisc that keeps packets until their time
	ReasonQdiscTaken  = "QdiscTaken"  // the uplink has a qdisc that was chosen by others
	ReasonUnsupported = "Unsupported" // it is no Linux
)

// ReasonUplinkPressed: an uplink is full, or loses packets.
const ReasonUplinkPressed = "UplinkPressed"

// Unsupported says why this node's egress can have no ceiling. Another try will not help until the node is changed.
type Unsupported struct{ Reason, Message string }

func (u *Unsupported) Error() string { return u.Reason + ": " + u.Message }

// ErrUplinkGone says that the uplink is not there any more. Detach, and Open again.
var ErrUplinkGone = errors.New("the uplink is gone")

// Options say where things are. The zero value of each is the usual place.
type Options struct {
	// Uplinks are the interfaces that lead off the node; none: those of the default routes of IPv4 and IPv6.
	Uplinks []string
	// Link is what they carry together, in bytes per second; 0: the sum of what their drivers say.
	Link float64
	// Cgroups, Proc and Sys are the file systems: "/sys/fs/cgroup", "/proc", "/sys". The agent needs the host's network and processes.
	Cgroups, Proc, Sys string
	// Pins is a directory of a BPF file system: "/sys/fs/bpf/hilbert-egress". Where there is none nothing is pinned, and all ends with the agent.
	Pins string
}

func (o Options) withDefaults() Options {
	for _, one := range []struct {
		value *string
		usual string
	}{{&o.Cgroups, "/sys/fs/cgroup"}, {&o.Proc, "/proc"}, {&o.Sys, "/sys"}, {&o.Pins, "/sys/fs/bpf/hilbert-egress"}} {
		if *one.value == "" {
			*one.value = one.usual
		}
	}
	return o
}

// Class is what one class of pods sent off the node since its counters were made. Bytes and Packets left; Delayed of them later than they
// came; Dropped did not leave.
type Class struct{ Packets, Bytes, Delayed, Dropped uint64 }

// Counts are both classes. All only grow, restarts of the agent included where there are pins.
type Counts struct{ Online, Reclaimed Class }

// Online is the rate, in bytes per second, at which online pods sent between two readings. It is not known if the counters went backwards.
func Online(before, now Counts, elapsed time.Duration) advise.Sample {
	if elapsed <= 0 || now.Online.Bytes < before.Online.Bytes {
		return advise.Sample{}
	}
	return advise.Known(float64(now.Online.Bytes-before.Online.Bytes) / elapsed.Seconds())
}

// Kernel is what Control needs of Egress.
type Kernel interface {
	// SetCeiling sets what reclaimed pods may send together, in bytes per second.
	SetCeiling(bytesPerSecond uint64) error
	// SetReclaimed says which pods those are, by their cgroups below the root of the hierarchy.
	SetReclaimed(cgroups []string) error
	Counts() (Counts, error)
	// Link is what the uplinks carry together, in bytes per second.
	Link() advise.Sample
	// Traffic is what each uplink has carried, by name.
	Traffic() map[string]Traffic
	// Sent is what each reclaimed pod that is marked has sent through its interfaces, to wherever, by cgroup; not known of one in the host's network.
	Sent() map[string]advise.Sample
}

// Control keeps the ceiling: its one caller calls Step at each tick.
type Control struct {
	kernel Kernel
	params Params
	memory Memory
	use    map[string]PressureMemory // by uplink
	out    map[string]PressureMemory // by uplink, of what is sent alone
	who    Senders
	counts Counts
	at     time.Duration
	read   bool // counts are those at time at
	set    uint64
}

// NewControl returns a Control of a kernel.
func NewControl(k Kernel, p Params) *Control { return &Control{kernel: k, params: p} }

// State is what Control last found. Ceiling is in bytes per second; 0: none was set yet.
type State struct {
	Counts  Counts
	Ceiling uint64
	Online  advise.Sample // bytes per second
	// Pressed are the uplinks that are full, or lose packets.
	Pressed []string
	Sending Sending
}

// Step counts, reckons the ceiling and sets it if it has changed by more than a hundredth, or to the floor. The pods are marked in any case.
// An error says what did not succeed; the next step tries again.
func (c *Control) Step(at time.Duration, cgroups []string) (State, error) {
	marked := c.kernel.SetReclaimed(cgroups)
	o := Observation{At: at, Link: c.kernel.Link()}
	counts, err := c.kernel.Counts()
	if err == nil && c.read {
		o.Online = Online(c.counts, counts, at-c.at)
	}
	if c.read = err == nil; c.read {
		c.counts, c.at = counts, at
	}
	var ceiling float64
	ceiling, c.memory = Ceiling(o, c.params, c.memory)
	want := max(uint64(ceiling), 1)
	var set error
	if difference := max(want, c.set) - min(want, c.set); c.set == 0 || difference > c.set/100 || ceiling == c.params.Floor && difference > 0 {
		if set = c.kernel.SetCeiling(want); set == nil {
			c.set = want
		}
	}
	state := State{Counts: c.counts, Ceiling: c.set, Online: o.Online}
	state.Pressed, state.Sending = c.pressed(at)
	left := advise.Sample{Value: float64(counts.Reclaimed.Bytes), Known: err == nil}
	state.Sending.Pods = c.who.Step(at, left, c.kernel.Sent())
	state.Sending.Floored = c.set == max(uint64(c.params.Floor), 1)
	state.Sending.Known = state.Sending.Known && c.set > 0 && set == nil
	return state, errors.Join(marked, err, set)
}

// pressed are the uplinks under pressure, and how they stand for what is sent alone.
func (c *Control) pressed(at time.Duration) (pressed []string, s Sending) {
	use, out := make(map[string]PressureMemory), make(map[string]PressureMemory)
	traffic := c.kernel.Traffic()
	s.Known = len(traffic) > 0
	for _, name := range slices.Sorted(maps.Keys(traffic)) {
		t := traffic[name]
		var is bool
		if is, use[name] = Pressure(at, t, c.use[name]); is {
			pressed = append(pressed, name)
		}
		if is, out[name] = Pressure(at, t.sending(), c.out[name]); is {
			s.Pressed = append(s.Pressed, name)
		}
		s.Known = s.Known && t.Sent.Known && t.Unsent.Known
	}
	c.use, c.out = use, out
	return pressed, s
}
