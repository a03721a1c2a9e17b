package sim

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

const numaWorkload = "nodes=12,pods=300,classes=16,minutes=5,numa=2,dedicated=30,bound=40"

// Agents keep promises of NUMA nodes if nothing goes wrong. If agents fall silent, move pods and admit foreign pods, no pod is promised what is not there,
// and at rest the ledger agrees with the nodes.
func TestNUMANodesAreGivenOnce(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for seed := range seedsToRun(t) {
		w := invent(t, numaWorkload, seed)
		o := options(seed)
		o.CheckEvery = stepsBetweenChecks()
		calm, err := Run(t.Context(), w, o)
		if err != nil {
			t.Fatal(err)
		}
		if calm.Faults["promise kept"] == 0 || calm.Faults["promise moved"]+calm.Faults["promise broken"] > 0 {
			t.Fatalf("seed %d: %v", seed, calm.Faults)
		}
		o.Schedulers, o.Faults, o.Preempt = 4, DefaultFaults(w), seed%2 == 1
		r, err := Run(t.Context(), w, o)
		if err != nil {
			t.Fatalf("%v\nreproduce it: hilbert sim --synthetic %s --faults --check --schedulers 4 --seed %d", err, numaWorkload, seed)
		}
		for name, n := range r.Faults {
			seen[name] += n
		}
	}
	for _, name := range []string{"promise kept", "promise moved", "promise moved at will", "strike: agent silence", "strike: agent claim"} {
		if seen[name] == 0 {
			t.Errorf("in all seeds there was never: %s", name)
		}
	}
}

// tellReport tells the scheduler of every report with a change.
func tellReport(change func(*facts.NodeReport)) func(facts.Event) facts.Event {
	changed := func(r facts.NodeReported) facts.NodeReported {
		copied := *r.Report
		change(&copied)
		return facts.NodeReported{Node: r.Node, Report: &copied}
	}
	return func(e facts.Event) facts.Event {
		switch e := e.(type) {
		case facts.NodeReported:
			return changed(e)
		case facts.ReportsListed:
			var list facts.ReportsListed
			for _, r := range e.Reports {
				list.Reports = append(list.Reports, changed(r))
			}
			return list
		}
		return e
	}
}

func TestChecksFindNUMAMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		told func(facts.Event) facts.Event
		want []string // one of these must be in the message
	}{
		{"NUMA nodes are doubled", tellReport(func(r *facts.NodeReport) {
			for z := range r.NUMANodes.NUMANode {
				r.NUMANodes.NUMANode[z].CPUs *= 2
			}
		}), []string{"must not go to node"}},
		{"old agents seem to bind pods that share CPUs", tellReport(func(r *facts.NodeReport) { r.NUMANodes.BindsShared = true }), []string{"where the agent keeps none there"}},
		{"old agents seem to separate pods", tellReport(func(r *facts.NodeReport) { r.NUMANodes.SeparatesBandwidth = true }), []string{"not separated by memory bandwidth"}},
		{"pods that load the memory are not seen", tellReport(func(r *facts.NodeReport) {
			r.Held = slices.Clone(r.Held)
			for i := range r.Held {
				r.Held[i].Grant.Bandwidth = topology.BandwidthUnsaid
			}
		}), []string{"of memory bandwidth, to one that is", "in NUMA nodes"}},
		{"threads are not seen", tellReport(func(r *facts.NodeReport) { r.NUMANodes.Threads = 1 }), []string{"no whole cores"}},
		{"the kubelet's nodes seem to be the agent's", tellReport(func(r *facts.NodeReport) {
			if r.NUMANodes.Ruler == topology.RulerKubelet {
				r.NUMANodes.Ruler = topology.RulerAgent
			}
		}), []string{"where the kubelet rules", "in NUMA nodes"}}, // after a relist the pods that are there are guessed
		{"holders are not seen", tellReport(func(r *facts.NodeReport) { r.Held = nil }), []string{"does not know", "must not go to node", "in NUMA nodes"}},
		{"stale reports are acted on", tellReport(func(r *facts.NodeReport) {
			if r.Why == facts.ReportStale {
				r.NUMANodes.Ruler = topology.RulerAgent
			}
		}), []string{"promises nothing"}},
	} {
		t.Run(c.name, func(t *testing.T) { expectViolation(t, numaWorkload, 20, c.told, c.want) })
	}
}

const deviceWorkload = "nodes=12,pods=300,classes=16,minutes=5,numa=2,dedicated=10,devices=70"

// The same for GPUs, slices, instances and network cards.
func TestDevicesAreGivenOnce(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for seed := range seedsToRun(t) {
		w := invent(t, deviceWorkload, seed)
		o := options(seed)
		o.CheckEvery = stepsBetweenChecks()
		calm, err := Run(t.Context(), w, o)
		if err != nil {
			t.Fatalf("calm, seed %d: %v", seed, err)
		}
		if calm.Faults["promise kept"] == 0 || calm.Faults["promise moved"]+calm.Faults["promise broken"] > 0 {
			t.Fatalf("seed %d: %v", seed, calm.Faults)
		}
		o.Schedulers, o.Faults, o.Preempt = 4, DefaultFaults(w), seed%2 == 1
		r, err := Run(t.Context(), w, o)
		if err != nil {
			t.Fatalf("%v\nreproduce it: hilbert sim --synthetic %s --faults --check --schedulers 4 --seed %d", err, deviceWorkload, seed)
		}
		for name, n := range r.Faults {
			seen[name] += n
		}
	}
	for _, name := range []string{"promise kept", "promise moved", "promise moved at will", "GPU closed", "strike: agent silence", "strike: agent claim"} {
		if seen[name] == 0 {
			t.Errorf("in all seeds there was never: %s", name)
		}
	}
}

func TestChecksFindDeviceMistakes(t *testing.T) {
	t.Parallel()
	devices := func(change func(*topology.Devices)) func(facts.Event) facts.Event {
		return tellReport(func(r *facts.NodeReport) {
			if r.Devices != nil {
				copied := *r.Devices
				copied.GPU, copied.NIC = append([]topology.GPU(nil), copied.GPU...), append([]topology.NIC(nil), copied.NIC...)
				change(&copied)
				r.Devices = &copied
			}
		})
	}
	for _, c := range []struct {
		name string
		told func(facts.Event) facts.Event
		want []string // one of these must be in the message
	}{
		{"GPUs have too much memory", devices(func(d *topology.Devices) {
			for i := range d.GPU {
				d.GPU[i].Memory *= 2
				d.GPU[i].Grain = 1
			}
		}), []string{"must not go to node"}},
		{"network cards seem faster", devices(func(d *topology.Devices) {
			for i := range d.NIC {
				d.NIC[i].Functions *= 2
				d.NIC[i].Bandwidth *= 4
			}
		}), []string{"must not go to node"}},
		{"all devices seem to be under one switch", devices(func(d *topology.Devices) {
			for i := range d.GPU {
				d.GPU[i].Switch = 0
			}
			for i := range d.NIC {
				d.NIC[i].Switch = 0
			}
		}), []string{"not as near"}},
		{"holders are not seen", tellReport(func(r *facts.NodeReport) { r.HeldDevices = nil }), []string{"does not know", "must not go to node", "on devices"}},
		{"stale reports are acted on", tellReport(func(r *facts.NodeReport) {
			if r.Why == facts.ReportStale {
				r.Why = ""
			}
		}), []string{"too old"}},
	} {
		t.Run(c.name, func(t *testing.T) { expectViolation(t, deviceWorkload, 20, c.told, c.want) })
	}
}

// expectViolation runs simulations in which the scheduler is told something wrong, until a check finds it with one of the wanted messages. It tries
// at most so many seeds.
func expectViolation(t *testing.T, workload string, seeds uint64, told func(facts.Event) facts.Event, wanted []string) {
	t.Helper()
	for seed := range seeds {
		w := invent(t, workload, seed)
		o := options(seed)
		o.CheckEvery, o.Faults = 1, DefaultFaults(w)
		s, err := newSimulation(w, o)
		if err != nil {
			t.Fatal(err)
		}
		s.process.seams.told = told
		_, err = s.run(t.Context())
		var broken *Violation
		if !errors.As(err, &broken) {
			continue
		}
		for _, want := range wanted {
			if strings.Contains(broken.What, want) {
				return
			}
		}
		t.Fatalf("found, but as: %v", broken)
	}
	t.Error("not found")
}
