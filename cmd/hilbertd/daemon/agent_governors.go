package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
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
)

// governors returns the governors that the configuration switches on, and their metrics. Each divides one resource between online and reclaimed pods: disks,
// network or caches. In mode kubelet, the agent does not call them.
func governors(n *spec.Node, mode string, roots realnode.Roots, kernel enforce.Kernel, log *slog.Logger) (out []node.Governor, metrics []prometheus.Collector, err error) {
	l := &n.Lending
	lends := *l.Enabled && mode == spec.ModeAgent
	if !lends || !l.Network.Enabled {
		// The ceiling of an earlier run is pinned, and would hold for ever.
		if err := roots.Uncap(egressOptions(l, roots)); err != nil {
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
	control.KeepWeight(node.File(filepath.Join(n.StateDirectory, podsWeightFile)))
	out = append(out, &disks{control, l.IO, log})
	if l.Network.Enabled {
		sent := &network{options: egressOptions(l, roots), log: log}
		out, metrics = append(out, sent), append(metrics, sent)
	}
	if l.RDT.Enabled {
		const percent = 100
		out = append(out, &caches{
			tree: rdt.Dir(filepath.Join(roots.Sys, "fs", "resctrl")), cgroups: roots.Cgroups(), log: log,
			params: rdt.Params{CacheShare: float64(l.RDT.CachePercent) / percent, BandwidthShare: float64(l.RDT.BandwidthPercent) / percent},
		})
	}
	return out, metrics, nil
}

func egressOptions(l *spec.Lending, roots realnode.Roots) egress.Options {
	const bytesInMegabit = 1e6 / 8
	return egress.Options{
		Uplinks: l.Network.Uplinks, Link: float64(l.Network.LinkMbps) * bytesInMegabit,
		Cgroups: roots.Cgroups(), Proc: roots.Proc, Sys: roots.Sys, Pins: filepath.Join(roots.Sys, "fs", "bpf", "hilbert-egress"),
	}
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

// network governs what reclaimed pods send off the node. It opens at the first call, and again after the uplink has gone.
type network struct {
	options egress.Options
	log     *slog.Logger
	open    *egress.Egress
	control *egress.Control
	state   atomicState
	use     node.NetworkUse
}

// Network implements node.NetworkObserver.
func (n *network) Network() node.NetworkUse { return n.use }

func (n *network) Tick(at time.Duration, pods []enforce.Pod) (_ []enforce.DesiredKnob, notes []allocate.Note) {
	n.use = node.NetworkUse{}
	if n.open == nil {
		e, err := egress.Open(n.options)
		if err != nil {
			if unsupported, ok := errors.AsType[*egress.Unsupported](err); ok {
				return nil, []allocate.Note{{Reason: unsupported.Reason, Message: unsupported.Message}}
			}
			return nil, []allocate.Note{{Reason: spec.ReasonEgressFailed, Message: err.Error()}}
		}
		n.open, n.control = e, egress.NewControl(e, egress.Defaults())
	}
	var reclaimed []string
	for _, p := range pods {
		if p.Level == spec.QoSReclaimed {
			reclaimed = append(reclaimed, p.Cgroup)
		}
	}
	state, err := n.control.Step(at, reclaimed)
	n.state.store(&state)
	n.use = networkUse(&state.Sending)
	if errors.Is(err, egress.ErrUplinkGone) {
		err = errors.Join(err, n.open.Detach())
		n.open = nil
	}
	if err != nil {
		notes = append(notes, allocate.Note{Reason: spec.ReasonEgressFailed, Message: err.Error()})
	}
	for _, name := range state.Pressed {
		notes = append(notes, allocate.Note{Reason: egress.ReasonUplinkPressed, Message: "the network interface " + name + " is full, or loses packets"})
	}
	return nil, notes
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

// caches governs the last-level cache and the memory bandwidth, where the processor can divide them.
type caches struct {
	tree    rdt.Tree
	cgroups string // where the hierarchy is mounted
	params  rdt.Params
	log     *slog.Logger
	control *rdt.Control
	looked  time.Duration
	notes   []allocate.Note
}

// cachesEvery is how often new threads are looked for.
const cachesEvery = 10 * time.Second

func (c *caches) Tick(at time.Duration, pods []enforce.Pod) ([]enforce.DesiredKnob, []allocate.Note) {
	if c.looked != 0 && at-c.looked < cachesEvery {
		return nil, c.notes
	}
	c.looked, c.notes = at, nil
	if err := c.step(pods); err != nil {
		c.notes = []allocate.Note{{Reason: spec.ReasonRDTFailed, Message: err.Error()}}
	}
	return nil, c.notes
}

func (c *caches) step(pods []enforce.Pod) (err error) {
	if c.control == nil {
		if c.control, err = rdt.Open(c.tree); err != nil {
			c.control = nil
			return err
		}
	}
	groups := make(map[rdt.Group][]string)
	for _, p := range pods {
		group := rdt.Online
		if p.Level == spec.QoSReclaimed {
			group = rdt.Reclaimed
		}
		groups[group] = append(groups[group], p.Cgroup)
	}
	return c.control.Step(c.params, c.cgroups, groups)
}

func (c *caches) Close() {
	if c.control == nil {
		return
	}
	if err := c.control.Close(); err != nil {
		c.log.Warn("remove the cache groups", "err", err)
	}
}
