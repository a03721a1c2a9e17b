package facts

import (
	"math"
	"math/bits"
	"slices"
)

// bestStorageScore is the score of a node whose storage stays free.
const bestStorageScore = 100

// Scores reports whether StorageScore may tell nodes apart.
func (v *VolumeNeeds) Scores() bool { return v != nil && len(v.Unbound) > 0 }

// StorageScore is the share of a node's storage that stays free with the pod's unbound claims there, in percent: of the volumes that are chosen for them, or,
// if none is, of what their driver can provision. It is the mean over the storage classes, and 0 where nothing is known. (Upstream's VolumeBinding, scoring.)
//
//	claim 2Gi, volume 10Gi on n1, 4Gi on n2     n1 80   n2 50
func (v *VolumeNeeds) StorageScore(n *Node) int64 {
	if !v.Scores() {
		return 0
	}
	choice, conflict := v.Choose(n)
	if conflict != NoVolumeConflict {
		return 0
	}
	volumes := slices.ContainsFunc(choice, func(b ClaimBinding) bool { return b.Volume != "" })
	var classes []storageUse
	for i := range choice {
		b, u := &choice[i], &v.Unbound[i]
		switch {
		case (b.Volume != "") != volumes:
		case volumes:
			use := useOf(&classes, u.StorageClass)
			use.requested, use.capacity = use.requested+u.Size, use.capacity+b.Size
		case b.Room != nil && b.Room.Told:
			use := useOf(&classes, u.StorageClass)
			use.requested, use.capacity = use.requested+u.Size, b.Room.Capacity // the claims of a class share it
		}
	}
	if len(classes) == 0 {
		return 0
	}
	var sum int64
	for i := range classes {
		sum += classes[i].free()
	}
	return int64(math.Round(float64(sum) / float64(len(classes))))
}

// storageUse is how much a pod would take of a storage class on a node, in bytes.
type storageUse struct {
	class               string
	requested, capacity int64
}

func useOf(list *[]storageUse, class string) *storageUse {
	at := slices.IndexFunc(*list, func(u storageUse) bool { return u.class == class })
	if at < 0 {
		at = len(*list)
		*list = append(*list, storageUse{class: class})
	}
	return &(*list)[at]
}

// free is the share that stays free, in percent; what is used is rounded down.
func (u *storageUse) free() int64 {
	if u.requested < 0 || u.capacity <= 0 || u.requested > u.capacity {
		return 0
	}
	high, low := bits.Mul64(uint64(u.requested), bestStorageScore)
	used, _ := bits.Div64(high, low, uint64(u.capacity))
	return bestStorageScore - int64(used)
}
