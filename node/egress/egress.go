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
	ReasonQdiscTaken  = "QdiscTaken"  // an uplink has a qdisc that was chosen by others; as an Unsupported: each has
	ReasonUnsupported = "Unsupported" // it is no Linux
)

// ReasonUplinkPressed: an uplink is full, or loses packets.
const ReasonUplinkPressed = "UplinkPressed"

// Unsupported says why this node's egress can have no ceiling. Another try will not help until the node is changed.
type Unsupported struct{ Reason, Message string }

func (u *Unsupported) Error() string { return u.Reason + ": " + u.Message }

// ErrUplinksChanged says that an uplink has gone, that one has come, or that the qdisc of one is another. Close, and Open again.
var ErrUplinksChanged = errors.New("the uplinks have changed")

// Uplink is an interface that leads off the node.
type Uplink struct {
	Name string
	// Link is what it carries, in bytes per second; 0: what its driver says.
	Link float64
}

// Options say where things are. The zero value of each is the usual place.
type Options struct {
	// Uplinks are the interfaces that lead off the node; none: those of the default routes of IPv4 and IPv6. Each has a ceiling of its own. One that is not there is left out
	// until it comes.
	Uplinks []Uplink
	// Link is what the uplinks without a Link of their own carry together, in bytes per second, each an equal part; 0: what their drivers say.
	Link float64
	// Incoming polices what comes in too.
	Incoming bool
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

// Class is what one class of pods sent by an uplink since its counters were made. Bytes and Packets left; Delayed of them later than they
// came; Dropped did not leave. Of what came in, Packets and Bytes were let through, and Dropped, of Refused bytes, was not.
type Class struct{ Packets, Bytes, Delayed, Dropped, Refused uint64 }

// came is how many bytes came in, whether they were let through or not.
func (c *Class) came() uint64 { return c.Bytes + c.Refused }

// Counts are both classes of an uplink, and what came in by it for reclaimed pods, where that is policed. All only grow, restarts of the agent included where there are pins.
type Counts struct{ Online, Reclaimed, Incoming Class }

// grown is the rate, in bytes per second, at which a counter grew between two readings. It is not known if it went backwards.
func grown(before, now uint64, elapsed time.Duration) advise.Sample {
	if elapsed <= 0 || now < before {
		return advise.Sample{}
	}
	return advise.Known(float64(now-before) / elapsed.Seconds())
}

// Rates are what reclaimed pods may send by an uplink, and receive, in bytes per second; Incoming 0: that is not bounded.
type Rates struct{ Outgoing, Incoming uint64 }

// Kernel is what Control needs of Egress.
type Kernel interface {
	// SetRates sets what reclaimed pods may send and receive together by an uplink.
	SetRates(uplink string, rates Rates) error
	// SetPods says which pods the programs must know.
	SetPods(pods []Pod) error
	// Counts are those of each uplink, by name.
	Counts() (map[string]Counts, error)
	// Traffic is what each uplink has carried, by name.
	Traffic() map[string]Traffic
	// Sent is how many bytes each pod that is known has sent off the node, by cgroup and uplink. A pod without a slot of its own is not in it.
	Sent() map[string]map[string]advise.Sample
}

// Control keeps the ceilings: its one caller calls Step at each tick.
type Control struct {
	kernel   Kernel
	params   Params
	incoming bool
	uplinks  map[string]*uplinkControl
	who      Senders
}

// uplinkControl is what Control keeps of an uplink.
type uplinkControl struct {
	name      string
	out, in   Memory
	use, sent PressureMemory // of both ways, of what is sent alone
	counts    Counts
	received  advise.Sample // by the interface, all pods together
	at        time.Duration
	read      bool // counts are those at time at
	set       Rates
}

// NewControl returns a Control of a kernel. Incoming: what comes in has a ceiling too.
func NewControl(k Kernel, p Params, incoming bool) *Control {
	return &Control{kernel: k, params: p, incoming: incoming, uplinks: map[string]*uplinkControl{}}
}

// State is what Control last found.
type State struct {
	// Uplinks are how they stand, by name.
	Uplinks map[string]UplinkState
	// Pressed are the uplinks that are full, or lose packets.
	Pressed []string
	Sending Sending
}

// UplinkState is how an uplink stands. Ceilings are in bytes per second; 0: none was set yet.
type UplinkState struct {
	Counts   Counts
	Ceilings Rates
	// Online is what online pods send, OnlineIncoming what comes in for them and the node, in bytes per second.
	Online, OnlineIncoming advise.Sample
}

// Step counts, reckons the ceilings of each uplink and sets those that have changed by more than a hundredth, or to the floor. The pods are marked in any case.
// An error says what did not succeed; the next step tries again.
func (c *Control) Step(at time.Duration, pods []Pod) (State, error) {
	errs := []error{c.kernel.SetPods(pods)}
	traffic := c.kernel.Traffic()
	counts, err := c.kernel.Counts()
	errs = append(errs, err)
	maps.DeleteFunc(c.uplinks, func(name string, _ *uplinkControl) bool { _, is := traffic[name]; return !is })
	state := State{Uplinks: make(map[string]UplinkState, len(traffic))}
	known, floored := len(traffic) > 0, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(traffic)) {
		u, t := c.uplinks[name], traffic[name]
		if u == nil {
			u = &uplinkControl{name: name}
			c.uplinks[name] = u
		}
		now, counted := counts[name]
		stands, err := c.step(u, at, &t, now, counted)
		state.Uplinks[name] = stands
		errs = append(errs, err)
		var full, sent bool
		full, u.use = Pressure(at, t, u.use)
		sent, u.sent = Pressure(at, t.sending(), u.sent)
		if full {
			state.Pressed = append(state.Pressed, name)
		}
		if sent {
			state.Sending.Pressed = append(state.Sending.Pressed, name)
			floored[name] = stands.Ceilings.Outgoing == max(uint64(c.params.Floor), 1)
		}
		known = known && t.Sent.Known && t.Unsent.Known && stands.Ceilings.Outgoing > 0 && err == nil
	}
	state.Sending.Known = known
	state.Sending.judge(floored, c.who.Step(at, c.kernel.Sent()))
	return state, errors.Join(errs...)
}

// step is that of one uplink.
func (c *Control) step(u *uplinkControl, at time.Duration, t *Traffic, now Counts, counted bool) (UplinkState, error) {
	out := Observation{At: at, Link: t.Link}
	in := out
	if elapsed := at - u.at; counted && u.read {
		out.Online = grown(u.counts.Online.Bytes, now.Online.Bytes, elapsed)
		all := t.Received.Value - u.received.Value
		if own := grown(u.counts.Incoming.came(), now.Incoming.came(), elapsed); t.Received.Known && u.received.Known && all >= 0 && own.Known {
			in.Online = advise.Known(max(all/elapsed.Seconds()-own.Value, 0))
		}
	}
	if u.read = counted; counted {
		u.counts, u.at, u.received = now, at, t.Received
	}
	var want Rates
	want.Outgoing, u.out = c.ceiling(out, u.out)
	if c.incoming {
		want.Incoming, u.in = c.ceiling(in, u.in)
	}
	var err error
	if floor := max(uint64(c.params.Floor), 1); differs(want.Outgoing, u.set.Outgoing, floor) || differs(want.Incoming, u.set.Incoming, floor) {
		if err = c.kernel.SetRates(u.name, want); err == nil {
			u.set = want
		}
	}
	return UplinkState{Counts: u.counts, Ceilings: u.set, Online: out.Online, OnlineIncoming: in.Online}, err
}

func (c *Control) ceiling(o Observation, m Memory) (uint64, Memory) {
	ceiling, m := Ceiling(o, c.params, m)
	return max(uint64(ceiling), 1), m
}

// differs reports whether a rate is worth setting.
func differs(want, set, floor uint64) bool {
	difference := max(want, set) - min(want, set)
	return set == 0 && want > 0 || difference > set/100 || want == floor && difference > 0
}
