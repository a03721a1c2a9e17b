package egress

import "slices"

const (
	// MaxUplinks bounds the uplinks of a node.
	MaxUplinks = 8
	// maxSlots bounds the pods that are told apart, the last slot is for all others. A kubelet allows 110 pods by default.
	maxSlots = 512
	// restSlot is the last slot. Reclaimed pods there share the ceiling like all, and it is not known what each of them sends.
	restSlot = maxSlots - 1
	// noSlot is that of a pod that has none: it is not marked.
	noSlot = -1
	// maxVeths bounds the interfaces of pods that have slots.
	maxVeths = 4 * maxSlots
)

// Pod is a pod whose packets the programs must know. Others are not marked.
type Pod struct {
	// Cgroup is the pod's, below the root of the hierarchy.
	Cgroup string
	// Reclaimed: it shares the ceilings.
	Reclaimed bool
	// Background: it has said that its traffic is the least important. A reclaimed pod then has what the others leave below the ceiling; an online pod's packets get the kernel's
	// lowest priority, and no ceiling.
	Background bool
}

// slotTable says which pod is in which slot. The zero value is empty.
type slotTable struct{ holders [maxSlots]string }

// of is the pod's slot; noSlot: it has none of its own.
func (t *slotTable) of(cgroup string) int { return slices.Index(t.holders[:restSlot], cgroup) }

// take gives a pod a slot: its own, the wanted one if that is free, or the first that is. Fresh: it had none before. A pod that finds none shares restSlot.
func (t *slotTable) take(cgroup string, wanted int) (slot int, fresh bool) {
	if slot = t.of(cgroup); slot >= 0 {
		return slot, false
	}
	if wanted < 0 || wanted >= restSlot || t.holders[wanted] != "" {
		wanted = slices.Index(t.holders[:restSlot], "")
	}
	if wanted < 0 {
		return restSlot, false
	}
	t.holders[wanted] = cgroup
	return wanted, true
}

// free takes a pod's slot away; noSlot: it had none.
func (t *slotTable) free(cgroup string) (slot int) {
	if slot = t.of(cgroup); slot >= 0 {
		t.holders[slot] = ""
	}
	return slot
}
