package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/realnode"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/blkio"
	"hilbert.dev/hilbert/node/egress"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/rdt"
	"hilbert.dev/hilbert/node/store"
)

// governors returns the governors that the configuration switches on, and their metrics. Each divides one resource between online and reclaimed pods: disks,
// network or caches. In mode kubelet, the agent does not call them.
func governors(n *spec.Node, mode string, roots realnode.Roots, kernel enforce.Kernel, log *slog.Logger) (out []node.Governor, metrics []prometheus.Collector, err error) {
	l := &n.Lending
	lends := *l.Enabled && mode == spec.ModeAgent
	if !lends || !l.Network.Enabled {
		// The ceiling of an earlier run is pinned, and would hold for ever.
		if err := roots.Uncap(egressOptions(&l.Network, roots)); err != nil {
			log.Warn("the egress ceiling of before cannot be removed; the agent needs /sys/fs/bpf for that, and CAP_NET_ADMIN", "err", err)
		}
	}
	if !lends {
		return nil, nil, nil
	}
	params := blkio.ParamsOf(&l.IO)
	if err := params.Validate(); err != nil {
		return nil, nil, fmt.Errorf("node.lending.io: %w", err)
	}
	control := blkio.NewControl(kernel, os.DirFS(roots.Sys), hostMounts(roots.Proc), podsTop(kernel), params)
	control.KeepWeight(store.File(filepath.Join(n.StateDirectory, podsWeightFile)))
	out = append(out, &disks{control, l.IO, log})
	sent := &network{at: roots, wanted: l.Network, log: log}
	out, metrics = append(out, sent), append(metrics, sent)
	divided := newCaches(resctrl(roots), roots.Cgroups(), l.RDT, log)
	return append(out, divided), append(metrics, divided), nil
}

// resctrl is where the kernel's file system for caches and memory bandwidth is mounted, if it is.
func resctrl(roots realnode.Roots) rdt.Dir { return rdt.Dir(filepath.Join(roots.Sys, "fs", "resctrl")) }

func egressOptions(n *spec.LendingNetwork, roots realnode.Roots) egress.Options {
	const bytesInMegabit = 1e6 / 8
	out := egress.Options{
		Link: float64(n.LinkMbps) * bytesInMegabit, Incoming: n.Incoming,
		Cgroups: roots.Cgroups(), Proc: roots.Proc, Sys: roots.Sys, Pins: filepath.Join(roots.Sys, "fs", "bpf", "hilbert-egress"),
	}
	uplinks, _ := spec.ParseUplinks(n.Uplinks) // whoever wrote them was told of mistakes
	for _, one := range uplinks {
		out.Uplinks = append(out.Uplinks, egress.Uplink{Name: one.Name, Link: float64(one.Mbps) * bytesInMegabit})
	}
	return out
}

// hostMounts reads the mounts of the host, for paths in the configuration are its: the agent shares its PID namespace.
func hostMounts(proc string) func() (string, error) {
	return func() (string, error) {
		text, err := os.ReadFile(filepath.Join(proc, "1", "mountinfo"))
		return string(text), err
	}
}

// podsTop is the cgroup that contains all pods. Its name depends on the kubelet's cgroup driver.
func podsTop(kernel enforce.Kernel) string {
	const systemd, plain = "kubepods.slice", "kubepods"
	if _, err := kernel.Read(systemd + "/" + enforce.CPUWeight); err == nil {
		return systemd
	}
	return plain
}

// disks governs I/O by weights, io.cost and ceilings.
type disks struct {
	control *blkio.Control
	params  spec.LendingIO
	log     *slog.Logger
}

// Adjust implements node.Adjustable.
func (d *disks) Adjust(p *spec.LendingParameters) {
	if !reflect.DeepEqual(d.params, p.IO) {
		d.params = p.IO
		d.control.Set(blkio.ParamsOf(&p.IO))
	}
}

func (d *disks) Tick(_ time.Duration, pods []enforce.Pod) (knobs []enforce.DesiredKnob, notes []allocate.Note) {
	knobs, conditions := d.control.Tick(pods)
	for _, c := range conditions {
		notes = append(notes, allocate.Note(c))
	}
	return knobs, notes
}

func (d *disks) Close() {
	if err := d.control.Close(); err != nil {
		d.log.Warn("io.cost stays on", "err", err)
	}
}

// network governs what reclaimed pods send off the node and what comes in for them. It opens at the first call, again after the uplinks have changed or others are wanted, and takes
// all back when nothing is wanted any more.
type network struct {
	at      realnode.Roots
	wanted  spec.LendingNetwork
	log     *slog.Logger
	open    *egress.Egress
	control *egress.Control
	state   atomicState
	use     node.NetworkUse
	refused []allocate.Note // why it could not be opened; nil: it was not tried
	again   time.Duration   // when that is tried again
	checked time.Duration   // when the qdiscs of the uplinks were looked at
	taken   atomic.Int64    // uplinks without limits because others chose their qdiscs, for scrapes
}

// reopenAfter is for how long the uplinks are left alone after they could not be opened. A try may replace their qdisc, and with it goes what waits there, of online pods too.
const reopenAfter = time.Minute

// Network implements node.NetworkObserver.
func (n *network) Network() node.NetworkUse { return n.use }

// Adjust implements node.Adjustable: other uplinks or limits are opened by the next call. What is pinned holds until then.
func (n *network) Adjust(p *spec.LendingParameters) {
	if reflect.DeepEqual(n.wanted, p.Network) {
		return
	}
	n.wanted, n.refused = p.Network, nil
	if n.open == nil {
		return
	}
	if n.wanted.Enabled {
		n.Close()
	} else if err := n.open.Detach(); err != nil {
		n.log.Warn("the egress ceiling cannot be taken back", "err", err)
	}
	n.open = nil
	n.taken.Store(0)
	n.state.last.Store(nil)
}

func (n *network) Tick(at time.Duration, pods []enforce.Pod) (_ []enforce.DesiredKnob, notes []allocate.Note) {
	n.use = node.NetworkUse{}
	if !n.wanted.Enabled {
		// What an earlier agent pinned, or could not be taken back, would hold for ever.
		if err := n.at.Uncap(egressOptions(&n.wanted, n.at)); err != nil {
			notes = append(notes, egressFailed(err))
		}
		return nil, notes
	}
	if n.open == nil {
		if n.refused != nil && at < n.again {
			return nil, n.refused
		}
		if n.refused = n.reopen(); n.refused != nil {
			n.taken.Store(0)
			n.state.last.Store(nil)                                         // what was known of the uplinks of before is so no more
			if n.again = at; n.refused[0].Reason != egress.ReasonNoUplink { // where no uplink is found none is touched
				n.again += reopenAfter
			}
			return nil, n.refused
		}
		n.checked = at
	}
	state, err := n.control.Step(at, networkPods(pods))
	n.state.store(&state)
	n.use = networkUse(&state.Sending)
	notes = n.notes(&state)
	if err == nil && at-n.checked >= reopenAfter {
		n.checked = at
		err = n.open.CheckQdiscs()
	}
	if errors.Is(err, egress.ErrUplinksChanged) {
		n.Close() // what is pinned stays until the next call has found the uplinks
		n.open = nil
	}
	if err != nil {
		notes = append(notes, egressFailed(err))
	}
	return nil, notes
}

// reopen opens the uplinks, or says why that cannot be.
func (n *network) reopen() []allocate.Note {
	e, err := egress.Open(egressOptions(&n.wanted, n.at))
	if unsupported, ok := errors.AsType[*egress.Unsupported](err); ok {
		return []allocate.Note{{Reason: unsupported.Reason, Message: unsupported.Message}}
	}
	if err != nil {
		return []allocate.Note{egressFailed(err)}
	}
	n.taken.Store(int64(len(e.Taken())))
	n.open, n.control = e, egress.NewControl(e, egress.Defaults(), n.wanted.Incoming)
	return nil
}

func egressFailed(err error) allocate.Note {
	return allocate.Note{Reason: spec.ReasonEgressFailed, Message: err.Error()}
}

// notes are what people should know of the uplinks.
func (n *network) notes(state *egress.State) (out []allocate.Note) {
	out = uplinkNotes(n.open.Missing(), n.open.Taken(), state.Pressed)
	if n.open.Crowded() > 0 {
		out = append(out, allocate.Note{Reason: spec.ReasonEgressCrowded, Message: "of some pods it is not counted what they send: there are more than the programs tell apart"})
	}
	return out
}

// uplinkNotes are about uplinks: those that are no interface, those without limits by name and reason, and those that are pressed.
func uplinkNotes(missing []string, taken map[string]string, pressed []string) (out []allocate.Note) {
	for _, name := range missing {
		out = append(out, allocate.Note{Reason: spec.ReasonUplinkMissing, Message: "the uplink " + name + " is no network interface of the node; the others have their limits, and it is looked for again"})
	}
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		out = append(out, allocate.Note{Reason: egress.ReasonQdiscTaken, Message: "the network interface " + name + " has no limits, the other uplinks have theirs: " + taken[name]})
	}
	for _, name := range pressed {
		out = append(out, allocate.Note{Reason: egress.ReasonUplinkPressed, Message: "the network interface " + name + " is full, or loses packets"})
	}
	return out
}

// networkPods are those whose packets the programs must know.
func networkPods(pods []enforce.Pod) (out []egress.Pod) {
	for _, p := range pods {
		if reclaimed := p.Level == spec.QoSReclaimed; reclaimed || p.Background {
			out = append(out, egress.Pod{Cgroup: p.Cgroup, Reclaimed: reclaimed, Background: p.Background})
		}
	}
	return out
}

// networkUse is what the agent may know of it.
func networkUse(s *egress.Sending) node.NetworkUse {
	return node.NetworkUse{Network: evict.Network{Known: s.Known, Pressed: s.Pressed, Floored: s.Floored}, Sent: s.Pods}
}

// Close leaves the ceiling where it is pinned: reclaimed pods run on.
func (n *network) Close() {
	if n.open == nil {
		return
	}
	if err := n.open.Close(); err != nil {
		n.log.Warn("close the egress ceiling", "err", err)
	}
}
