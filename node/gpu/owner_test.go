package gpu_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/topology"
)

// free is a node whose GPUs nobody else offers.
func free() gpu.Evidence {
	return gpu.Evidence{NodeKnown: true, SlicesKnown: true, Quiet: 1000, GPUs: 8, Ready: true}
}

// toolkitOpen is a node whose container toolkit gives GPUs to whoever asks.
func toolkitOpen(e *gpu.Evidence) { e.Toolkit = "set it" }

// TestToolkitIgnored: whoever says so has GPUs given out, whatever the toolkit is set to.
func TestToolkitIgnored(t *testing.T) {
	p, e := gpu.Defaults(), free()
	toolkitOpen(&e)
	if p.IgnoreToolkit = true; gpu.DecideOwner(&p, &e).Owner != topology.OwnerHilbert {
		t.Errorf("%+v", gpu.DecideOwner(&p, &e))
	}
}

func TestOwner(t *testing.T) {
	offers := func(name string, n int64) func(*gpu.Evidence) {
		return func(e *gpu.Evidence) { e.Offered = map[string]int64{"cpu": 64, name: n} }
	}
	for _, c := range []struct {
		name    string
		setting gpu.Setting
		change  func(*gpu.Evidence)
		owner   topology.Owner
		reason  gpu.OwnerReason
		says    string
	}{
		{"free", gpu.SettingAuto, nil, topology.OwnerHilbert, gpu.OwnNoOther, "no other party"},
		{"free and wanted", gpu.SettingHilbert, nil, topology.OwnerHilbert, gpu.OwnSettings, "settings"},
		{"free and not wanted", gpu.SettingKubelet, nil, topology.OwnerNone, gpu.OwnNobodyAtAll, "offers none"},
		{"a plugin", gpu.SettingAuto, offers("nvidia.com/gpu", 8), topology.OwnerKubelet, gpu.OwnPlugin, "nvidia.com/gpu 8"},
		{"a plugin, whatever the settings say", gpu.SettingHilbert, offers("nvidia.com/gpu", 8), topology.OwnerKubelet, gpu.OwnPlugin, ""},
		{"a plugin that divides", gpu.SettingHilbert, offers("nvidia.com/mig-1g.10gb", 3), topology.OwnerKubelet, gpu.OwnPlugin, "mig-1g.10gb 3"},
		{"a plugin that went", gpu.SettingHilbert, offers("nvidia.com/gpu", 0), topology.OwnerNone, gpu.OwnPluginBefore, "restart the kubelet"},
		{"our own name", gpu.SettingAuto, offers("hilbert.dev/gpu-core", 100), topology.OwnerHilbert, gpu.OwnNoOther, ""},
		{"a DRA driver", gpu.SettingHilbert, func(e *gpu.Evidence) { e.Slices = 8 }, topology.OwnerNone, gpu.OwnDRA, "8 devices"},
		{"a DRA driver, and nothing else known", gpu.SettingAuto, func(e *gpu.Evidence) { *e = gpu.Evidence{SlicesKnown: true, Slices: 8} }, topology.OwnerNone, gpu.OwnDRA, ""},
		{"both", gpu.SettingKubelet, func(e *gpu.Evidence) { offers("nvidia.com/gpu", 8)(e); e.Slices = 8 }, topology.OwnerNone, gpu.OwnSeveralOthers, "nvidia.com/gpu 8, and"},
		{"the node is not known", gpu.SettingHilbert, func(e *gpu.Evidence) { e.NodeKnown = false }, topology.OwnerNone, gpu.OwnUnknown, "node.status"},
		{"the slices are not known", gpu.SettingHilbert, func(e *gpu.Evidence) { e.SlicesKnown = false }, topology.OwnerNone, gpu.OwnUnknown, "ResourceSlices"},
		{"a plugin, and the slices are not known", gpu.SettingAuto, func(e *gpu.Evidence) { offers("nvidia.com/gpu", 8)(e); e.SlicesKnown = false }, topology.OwnerKubelet, gpu.OwnPlugin, ""},
		{"no GPU", gpu.SettingHilbert, func(e *gpu.Evidence) { e.GPUs = 0 }, topology.OwnerNone, gpu.OwnNoGPU, ""},
		{"no GPU, and nobody asked", gpu.SettingHilbert, func(e *gpu.Evidence) { *e = gpu.Evidence{NoneHere: true} }, topology.OwnerKubelet, gpu.OwnNoGPU, "has none"},
		{"none, though pods hold some, and nobody asked", gpu.SettingAuto, func(e *gpu.Evidence) { *e = gpu.Evidence{NoneHere: true, Held: true} }, topology.OwnerNone, gpu.OwnNoGPU, "ever seen"},
		{"GPUs that are gone, and nobody asked", gpu.SettingHilbert, func(e *gpu.Evidence) { *e = gpu.Evidence{NoneHere: true, GPUs: 2} }, topology.OwnerNone, gpu.OwnUnknown, ""},
		{"nothing to inject with", gpu.SettingAuto, func(e *gpu.Evidence) { e.Ready = false }, topology.OwnerNone, gpu.OwnUnready, ""},
		{"nothing to inject with, and wanted", gpu.SettingHilbert, func(e *gpu.Evidence) { e.Ready = false }, topology.OwnerHilbert, gpu.OwnSettings, ""},
		{"a plugin may come", gpu.SettingAuto, func(e *gpu.Evidence) { e.Quiet = 299 }, topology.OwnerNone, gpu.OwnSettling, "299 of 300 s"},
		{"held, after a restart", gpu.SettingAuto, func(e *gpu.Evidence) { e.Quiet, e.Ready, e.Held = 0, false, true }, topology.OwnerHilbert, gpu.OwnNoOther, "pods hold"},
		{"held, and a plugin came", gpu.SettingHilbert, func(e *gpu.Evidence) { offers("nvidia.com/gpu", 8)(e); e.Held = true }, topology.OwnerNone, gpu.OwnContested, "evict them"},
		{"held, and a DRA driver came", gpu.SettingAuto, func(e *gpu.Evidence) { e.Slices, e.Held = 8, true }, topology.OwnerNone, gpu.OwnContested, "evict them"},
		{"who holds GPUs of the kubelet's is not known", gpu.SettingHilbert, func(e *gpu.Evidence) { e.Untold = "not said" }, topology.OwnerNone, gpu.OwnUnknown, "not said"},
		{"nor while pods hold ours", gpu.SettingAuto, func(e *gpu.Evidence) { e.Untold, e.Held = "not said", true }, topology.OwnerNone, gpu.OwnUnknown, "not said"},
		{"a plugin, and it is not known", gpu.SettingAuto, func(e *gpu.Evidence) { offers("nvidia.com/gpu", 8)(e); e.Untold = "not said" }, topology.OwnerKubelet, gpu.OwnPlugin, ""},
		{"the toolkit gives them to all", gpu.SettingAuto, toolkitOpen, topology.OwnerNone, gpu.OwnToolkitOpen, "set it"},
		{"to all, and they are wanted", gpu.SettingHilbert, toolkitOpen, topology.OwnerNone, gpu.OwnToolkitOpen, "set it"},
		{"to all, while pods hold some", gpu.SettingAuto, func(e *gpu.Evidence) { toolkitOpen(e); e.Held = true }, topology.OwnerNone, gpu.OwnToolkitOpen, "set it"},
		{"to all, and a plugin gives them out", gpu.SettingAuto, func(e *gpu.Evidence) { toolkitOpen(e); offers("nvidia.com/gpu", 8)(e) }, topology.OwnerKubelet, gpu.OwnPlugin, ""},
		{"a setting that there is not", "plugin", nil, topology.OwnerNone, gpu.OwnSettings, `"plugin": want auto, hilbert or kubelet`},
	} {
		p, e := gpu.Defaults(), free()
		p.Owner = c.setting
		if c.change != nil {
			c.change(&e)
		}
		got := gpu.DecideOwner(&p, &e)
		if got.Owner != c.owner || got.Reason != c.reason || !strings.Contains(got.Message, c.says) || got.Contested != (c.reason == gpu.OwnContested) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestNeverSoldTwice: whatever is known, the GPUs are ours only if it is certain that nobody else offers them.
func TestNeverSoldTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := gpu.Defaults()
		p.Owner = rapid.SampledFrom([]gpu.Setting{gpu.SettingAuto, gpu.SettingHilbert, gpu.SettingKubelet, "", "x"}).Draw(r, "setting")
		e := gpu.Evidence{
			NodeKnown: rapid.Bool().Draw(r, "node"), SlicesKnown: rapid.Bool().Draw(r, "slicesKnown"), Slices: rapid.IntRange(0, 2).Draw(r, "slices"),
			Quiet: rapid.IntRange(0, 600).Draw(r, "quiet"), GPUs: rapid.IntRange(0, 2).Draw(r, "gpus"), Ready: rapid.Bool().Draw(r, "ready"),
			Held: rapid.Bool().Draw(r, "held"), NoneHere: rapid.Bool().Draw(r, "noneHere"),
			Toolkit: rapid.SampledFrom([]string{"", "set it"}).Draw(r, "toolkit"),
			Untold:  rapid.SampledFrom([]string{"", "not said"}).Draw(r, "untold"),
			Offered: rapid.MapOf(rapid.SampledFrom([]string{"cpu", "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/x"}),
				rapid.Int64Range(0, 2)).Draw(r, "offered"),
		}
		others := false
		for name := range e.Offered {
			others = others || name != "cpu"
		}
		switch own := gpu.DecideOwner(&p, &e); {
		case own.Message == "" || own.Reason == "":
			r.Fatalf("no reason: %+v", own)
		case own.Owner == topology.OwnerHilbert && (others || e.Slices > 0 || !e.NodeKnown || !e.SlicesKnown || e.GPUs == 0 || e.Untold != "" || e.Toolkit != ""):
			r.Fatalf("%+v gives %+v", e, own)
		case own.Owner == topology.OwnerKubelet && (e.Slices > 0 || e.Held):
			r.Fatalf("%+v gives %+v", e, own)
		}
	})
}
