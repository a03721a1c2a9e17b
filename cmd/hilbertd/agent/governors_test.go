package agent

import (
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/egress"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/rdt"
)

// All governors look where the rest of the agent does, and not at the machine that they happen to run on.
func TestGovernorsLookAtTheRoots(t *testing.T) {
	h := newHost(t)
	writeFile(t, filepath.Join(h.roots.Sys, "block/elsewhere/dev"), "259:77\n")
	writeFile(t, filepath.Join(h.roots.Sys, "block/elsewhere/device/model"), "")
	h.cgroups.Files["kubepods/cgroup.subtree_control"], h.cgroups.Files["kubepods/"+enforce.IOMax] = "io", ""
	l := &h.config.Node.Lending
	l.IO.Ceilings = []spec.IOCeiling{{Device: "elsewhere", ReadsPerSecond: 10}}
	l.Network.Enabled, l.RDT.Enabled, l.Network.Uplinks = true, true, []string{"eth7", "eth8=1000"}
	out, metrics, err := governors(&h.config.Node, spec.ModeAgent, h.roots, h.cgroups, slog.New(slog.DiscardHandler))
	if err != nil || len(out) != 3 || len(metrics) != 2 {
		t.Fatalf("%d governors, %d metrics, %v", len(out), len(metrics), err)
	}
	knobs, _ := out[0].Tick(0, []enforce.Pod{{Cgroup: "kubepods/besteffort/podbatch", Level: spec.QoSReclaimed}})
	if len(knobs) != 1 || knobs[0].Value != "259:77 riops=10" {
		t.Errorf("knobs %+v, want the ceiling of the disk that the roots have", knobs)
	}
	if len(h.uncapped) != 0 {
		t.Error("the ceiling that is wanted was removed")
	}
	sys := h.roots.Sys
	if n, ok := out[1].(*network); !ok || !reflect.DeepEqual(egressOptions(&n.wanted, n.at), egress.Options{
		Uplinks: []egress.Uplink{{Name: "eth7"}, {Name: "eth8", Link: 1.25e8}}, Cgroups: sys + "/fs/cgroup", Proc: h.roots.Proc, Sys: sys, Pins: sys + "/fs/bpf/hilbert-egress",
	}) {
		t.Errorf("network %+v", out[1])
	}
	if c, ok := out[2].(*caches); !ok || c.tree != rdt.Dir(sys+"/fs/resctrl") || c.cgroups != sys+"/fs/cgroup" {
		t.Errorf("caches %+v", out[2])
	}
}

// A ceiling of before goes when nobody wants one any more: its pins outlast the agent. Where that cannot be done the agent runs all the same.
func TestOldCeilingGoes(t *testing.T) {
	for name, c := range map[string]struct {
		mode  string
		setup func(*spec.Lending)
		want  int
	}{
		"no ceiling wanted":   {spec.ModeAgent, func(*spec.Lending) {}, 1},
		"no lending":          {spec.ModeAgent, func(l *spec.Lending) { l.Enabled, l.Network.Enabled = new(false), true }, 1},
		"the kubelet rules":   {spec.ModeKubelet, func(l *spec.Lending) { l.Network.Enabled = true }, 1},
		"a ceiling is wanted": {spec.ModeAgent, func(l *spec.Lending) { l.Network.Enabled = true }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.uncapErr = errors.New("read-only file system")
			c.setup(&h.config.Node.Lending)
			if _, _, err := governors(&h.config.Node, c.mode, h.roots, h.cgroups, slog.New(slog.DiscardHandler)); err != nil || len(h.uncapped) != c.want {
				t.Fatalf("removed %d times, %v", len(h.uncapped), err)
			}
			if c.want > 0 && h.uncapped[0].Pins != h.roots.Sys+"/fs/bpf/hilbert-egress" {
				t.Errorf("removed %+v", h.uncapped[0])
			}
		})
	}
}

// What the network's governor sees reaches the law of eviction.
func TestNetworkIsObserved(t *testing.T) {
	var n any = &network{}
	if _, ok := n.(node.NetworkObserver); !ok {
		t.Fatal("nobody asks it")
	}
	sent := map[string]advise.Sample{"kubepods/besteffort/podbatch": advise.Known(7)}
	got := networkUse(&egress.Sending{Known: true, Pressed: []string{"eth7"}, Floored: true, Pods: sent})
	want := node.NetworkUse{Network: evict.Network{Known: true, Pressed: []string{"eth7"}, Floored: true}, Sent: sent}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
}

// An uplink that others have taken is told by name, beside what is told of the others.
func TestUplinkNotes(t *testing.T) {
	t.Parallel()
	got := uplinkNotes([]string{"eth9"}, map[string]string{"eth8": "it has qdisc tbf", "eth7": "it has qdisc htb"}, []string{"eth6"})
	var said []string
	for _, n := range got {
		said = append(said, n.Reason+" "+n.Message)
	}
	want := []string{spec.ReasonUplinkMissing + ".*eth9", egress.ReasonQdiscTaken + ".*eth7.*htb", egress.ReasonQdiscTaken + ".*eth8.*tbf", egress.ReasonUplinkPressed + ".*eth6"}
	if len(said) != len(want) {
		t.Fatalf("%q", said)
	}
	for i := range want {
		if !regexp.MustCompile(want[i]).MatchString(said[i]) {
			t.Errorf("%q, want %q", said[i], want[i])
		}
	}
}

// The programs must know reclaimed pods, and online ones whose traffic is background; nobody else.
func TestNetworkPods(t *testing.T) {
	got := networkPods([]enforce.Pod{
		{Cgroup: "web", Level: spec.QoSShared},
		{Cgroup: "copy", Level: spec.QoSShared, Background: true},
		{Cgroup: "batch", Level: spec.QoSReclaimed},
		{Cgroup: "mirror", Level: spec.QoSReclaimed, Background: true},
	})
	want := []egress.Pod{{Cgroup: "copy", Background: true}, {Cgroup: "batch", Reclaimed: true}, {Cgroup: "mirror", Reclaimed: true, Background: true}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
}

// Limits that are switched off while the agent runs are asked nothing of; other uplinks are opened by the next call.
func TestNetworkIsAdjusted(t *testing.T) {
	h := newHost(t)
	n := &network{at: h.roots, log: slog.New(slog.DiscardHandler)}
	if knobs, notes := n.Tick(0, nil); len(knobs)+len(notes) != 0 {
		t.Errorf("%v, %v though nothing is wanted", knobs, notes)
	}
	p := &spec.LendingParameters{Network: spec.LendingNetwork{Enabled: true, Uplinks: []string{"hilbert-none0"}, Incoming: true}}
	n.Adjust(p)
	if o := egressOptions(&n.wanted, n.at); !o.Incoming || len(o.Uplinks) != 1 {
		t.Errorf("%+v", o)
	}
	if _, notes := n.Tick(0, nil); len(notes) != 1 {
		t.Errorf("%v: an uplink that is not there, on whatever machine this is", notes)
	}
	n.Adjust(&spec.LendingParameters{})
	if _, notes := n.Tick(0, nil); len(notes) != 0 {
		t.Errorf("%v after it was switched off", notes)
	}
	// It was switched off before it was opened: what the agent of before has pinned must go.
	if len(h.uncapped) == 0 || h.uncapped[0].Pins != h.roots.Sys+"/fs/bpf/hilbert-egress" {
		t.Errorf("taken back: %+v", h.uncapped)
	}
	h.uncapErr = errors.New("read-only file system")
	if _, notes := n.Tick(0, nil); len(notes) != 1 || notes[0].Reason != spec.ReasonEgressFailed {
		t.Errorf("%v though the ceiling of before holds", notes)
	}
}

// Uplinks that cannot have their ceilings are left alone for a while: each try may replace their qdiscs. Other settings are tried at once.
func TestNetworkIsNotOpenedAtEachTick(t *testing.T) {
	h := newHost(t)
	n := &network{at: h.roots, log: slog.New(slog.DiscardHandler), wanted: spec.LendingNetwork{Enabled: true, Uplinks: []string{"hilbert-none0"}}}
	n.refused, n.again = []allocate.Note{{Reason: egress.ReasonNoTCX}}, time.Minute
	reason := func(at time.Duration) string {
		_, notes := n.Tick(at, nil)
		if len(notes) != 1 {
			t.Fatalf("%v: %v", at, notes)
		}
		return notes[0].Reason
	}
	if got := reason(time.Minute - 1); got != egress.ReasonNoTCX {
		t.Errorf("%s: it was tried too soon", got)
	}
	n.state.store(&egress.State{})
	if got := reason(time.Minute); got == egress.ReasonNoTCX || n.state.last.Load() != nil {
		t.Errorf("%s: it was not tried, or metrics still tell of uplinks", got)
	}
	n.refused, n.again = []allocate.Note{{Reason: egress.ReasonNoTCX}}, time.Hour
	n.Adjust(&spec.LendingParameters{Network: spec.LendingNetwork{Enabled: true, Uplinks: []string{"hilbert-none1"}}})
	if got := reason(2 * time.Minute); got == egress.ReasonNoTCX {
		t.Errorf("%s: other settings were not tried", got)
	}
}
