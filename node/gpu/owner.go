package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/topology"
)

// Setting says which party should give a node's GPUs out, as configured.
type Setting string

// The settings.
const (
	// SettingAuto leaves the GPUs to the kubelet where it offers some, and takes them if no other party offers any and all is there to inject them.
	SettingAuto Setting = "auto"
	// SettingHilbert takes them, unless another party offers them.
	SettingHilbert Setting = "hilbert"
	// SettingKubelet never takes them.
	SettingKubelet Setting = "kubelet"
)

// Check is nil, or what the setting must be.
func (s Setting) Check() error {
	switch s {
	case SettingAuto, SettingHilbert, SettingKubelet:
		return nil
	}
	return fmt.Errorf("owner of GPUs %q: want %s, %s or %s", s, SettingAuto, SettingHilbert, SettingKubelet)
}

// Evidence is what is known of the parties that offer a node's GPUs.
type Evidence struct {
	// NoneHere: no driver is loaded, and no function on the PCI bus is a GPU, so that nothing was asked: the other fields are not known.
	NoneHere bool
	// NodeKnown: the node's status was read, and Offered are the amounts in its capacity and its allocatable, by name, the larger of the two.
	NodeKnown bool
	Offered   map[string]int64
	// SlicesKnown: the ResourceSlices of this node were listed, or the server serves none; Slices is how many devices the driver
	// gpu.nvidia.com has in them.
	SlicesKnown bool
	Slices      int
	// Quiet is for how long no other party has offered GPUs, in seconds, as far as observed without a gap.
	Quiet int
	// GPUs is how many there ever were on the node. Ready: for one of them at least it is known how to put it into a container.
	GPUs  int
	Ready bool
	// Held: pods hold GPUs that we gave.
	Held bool
	// Untold says why pods could hold GPUs of the kubelet's that are not known; empty: none can.
	Untold string
	// Toolkit says why containers without a grant could have GPUs by NVIDIA's container toolkit; empty: they could not, or there is none.
	Toolkit string
}

// OwnerReason is why a party owns the GPUs, or none does.
type OwnerReason string

// The reasons.
const (
	OwnNoGPU         OwnerReason = "NoGPU"          // there is none
	OwnUnknown       OwnerReason = "Unknown"        // it is not known which party offers them
	OwnDRA           OwnerReason = "DRADriver"      // a DRA driver offers them
	OwnPlugin        OwnerReason = "DevicePlugin"   // node.status offers them
	OwnPluginBefore  OwnerReason = "PluginWas"      // node.status still has the name: the kubelet would refuse pods by it
	OwnSettings      OwnerReason = "Settings"       // the settings say so
	OwnUnready       OwnerReason = "NotInjectable"  // no CDI specification says how to put them into a container
	OwnSettling      OwnerReason = "Settling"       // a device plugin may still come
	OwnNoOther       OwnerReason = "NoOtherParty"   // no other party offers them
	OwnNobodyAtAll   OwnerReason = "NobodyOffers"   // they are the kubelet's, and it offers none
	OwnSeveralOthers OwnerReason = "SeveralDrivers" // a device plugin and a DRA driver
	OwnToolkitOpen   OwnerReason = "ToolkitOpen"    // NVIDIA's container toolkit gives them to whoever asks
	OwnContested     OwnerReason = "Contested"      // pods hold GPUs of ours, and another party offers them too
)

// Ownership says which party gives a node's GPUs out, and why.
type Ownership struct {
	Owner   topology.Owner
	Reason  OwnerReason
	Message string
	// Contested: pods hold GPUs that we gave, and now another party offers them. They have no owner until those pods are evicted, or the other one is removed.
	Contested bool
}

// DecideOwner says which party gives the GPUs out. When in doubt it is not us: two parties that give out one GPU are worse than none.
func DecideOwner(p *Params, e *Evidence) Ownership {
	own := decideOwner(p, e)
	switch {
	case own.Owner != topology.OwnerHilbert:
	case e.Untold != "":
		own = Ownership{Owner: topology.OwnerNone, Reason: OwnUnknown, Message: e.Untold}
	case e.Toolkit != "" && !p.IgnoreToolkit: // what is given out would not be its holder's alone
		own = Ownership{Owner: topology.OwnerNone, Reason: OwnToolkitOpen, Message: e.Toolkit}
	}
	if e.Held && own.Owner != topology.OwnerHilbert && (offered(e) > 0 || e.Slices > 0) {
		// Not the kubelet's: it may choose a GPU that such a pod holds, and what it counts is not what is left.
		own.Owner, own.Contested, own.Reason = topology.OwnerNone, true, OwnContested
		own.Message += "; pods hold GPUs that we gave: evict them, or remove the other one"
	}
	return own
}

func decideOwner(p *Params, e *Evidence) Ownership {
	plugin := offered(e)
	of := func(owner topology.Owner, reason OwnerReason, message string) Ownership {
		return Ownership{Owner: owner, Reason: reason, Message: message}
	}
	switch {
	case plugin > 0 && e.Slices > 0:
		return of(topology.OwnerNone, OwnSeveralOthers, fmt.Sprintf("node.status offers %s, and ResourceSlices %d devices", names(e), e.Slices))
	case e.Slices > 0:
		return of(topology.OwnerNone, OwnDRA, fmt.Sprintf("ResourceSlices of gpu.nvidia.com offer %d devices", e.Slices))
	case plugin > 0: // whether a DRA driver offers them too need not be known: none of them is ours
		return of(topology.OwnerKubelet, OwnPlugin, "node.status offers "+names(e))
	case e.GPUs == 0 && e.NoneHere && !e.Held: // if the kubelet offers some nevertheless, from a bus that is not looked at, they are its own
		return of(topology.OwnerKubelet, OwnNoGPU, "the machine has none, so other parties were not asked")
	case e.GPUs == 0:
		return of(topology.OwnerNone, OwnNoGPU, "no GPU was ever seen")
	case !e.NodeKnown || !e.SlicesKnown:
		return unknown(e)
	case len(gpuNames(e)) > 0:
		return of(topology.OwnerNone, OwnPluginBefore,
			"node.status has "+names(e)+" from a device plugin of before: remove it from status.capacity, or restart the kubelet")
	case p.Owner == SettingKubelet:
		return of(topology.OwnerNone, OwnNobodyAtAll, "the settings leave the GPUs to the kubelet, which offers none")
	case p.Owner == SettingHilbert:
		return of(topology.OwnerHilbert, OwnSettings, "the settings say so, and no other party offers them")
	case p.Owner != SettingAuto:
		return of(topology.OwnerNone, OwnSettings, p.Owner.Check().Error())
	case e.Held:
		return of(topology.OwnerHilbert, OwnNoOther, "pods hold them, and no other party offers them")
	case !e.Ready:
		return of(topology.OwnerNone, OwnUnready, "no CDI specification says how to put them into a container")
	case e.Quiet < p.Settle:
		return of(topology.OwnerNone, OwnSettling, fmt.Sprintf("no other party has offered them for %d of %d s", e.Quiet, p.Settle))
	}
	return of(topology.OwnerHilbert, OwnNoOther, "no other party offers them")
}

// unknown is the ownership of GPUs while the parties that offer them are not known: none. What pods hold stays charged to them.
func unknown(e *Evidence) Ownership {
	what := "ResourceSlices"
	if !e.NodeKnown {
		what = "node.status"
	}
	return Ownership{Owner: topology.OwnerNone, Reason: OwnUnknown, Message: "it is not known who offers them: " + what + " was not read"}
}

// Vendor begins the names by which device plugins offer NVIDIA's GPUs: gpu, gpu.shared, mig-1g.10gb, and models that are passed through.
const Vendor = "nvidia.com/"

// gpuNames are the names by which node.status knows GPUs, even if it offers none now.
func gpuNames(e *Evidence) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(e.Offered)), func(name string) bool { return !strings.HasPrefix(name, Vendor) })
}

// offered is how many node.status offers, by whatever name.
func offered(e *Evidence) (total int64) {
	for _, name := range gpuNames(e) {
		total += max(e.Offered[name], 0)
	}
	return total
}

// Offers reports whether another party offers GPUs.
func Offers(e *Evidence) bool { return offered(e) > 0 || e.Slices > 0 }

// names renders what node.status has: "nvidia.com/gpu 8".
func names(e *Evidence) string {
	list := gpuNames(e)
	for i, name := range list {
		list[i] = fmt.Sprintf("%s %d", name, e.Offered[name])
	}
	return strings.Join(list, ", ")
}
