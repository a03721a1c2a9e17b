package daemon

import (
	"log/slog"
	"path/filepath"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/egress"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/rdt"
)

// All governors look where the rest of the agent does, and not at the machine that they happen to run on.
func TestGovernorsLookAtTheRoots(t *testing.T) {
	h := newHost(t)
	writeFile(t, filepath.Join(h.roots.sys, "block/elsewhere/dev"), "259:77\n")
	writeFile(t, filepath.Join(h.roots.sys, "block/elsewhere/device/model"), "")
	h.cgroups.files["kubepods/cgroup.subtree_control"], h.cgroups.files["kubepods/"+enforce.IOMax] = "io", ""
	l := &h.config.Node.Lending
	l.IO.Ceilings = []spec.IOCeiling{{Device: "elsewhere", ReadsPerSecond: 10}}
	l.Network.Enabled, l.RDT.Enabled = true, true
	out, metrics, err := governors(l, h.roots, h.cgroups, slog.New(slog.DiscardHandler))
	if err != nil || len(out) != 3 || len(metrics) != 1 {
		t.Fatalf("%d governors, %d metrics, %v", len(out), len(metrics), err)
	}
	knobs, _ := out[0].Tick(0, []node.GovernedPod{{Cgroup: "kubepods/besteffort/podbatch", Level: spec.QoSReclaimed}})
	if len(knobs) != 1 || knobs[0].Value != "259:77 riops=10" {
		t.Errorf("knobs %+v, want the ceiling of the disk that the roots have", knobs)
	}
	sys := h.roots.sys
	if n, ok := out[1].(*network); !ok || n.options != (egress.Options{
		Cgroups: sys + "/fs/cgroup", Proc: h.roots.proc, Sys: sys, Pins: sys + "/fs/bpf/hilbert-egress",
	}) {
		t.Errorf("network %+v", out[1])
	}
	if c, ok := out[2].(*caches); !ok || c.tree != rdt.Dir(sys+"/fs/resctrl") || c.cgroups != sys+"/fs/cgroup" {
		t.Errorf("caches %+v", out[2])
	}
}
