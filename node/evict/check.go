package evict

import (
	"errors"
	"fmt"
	"strings"

	"hilbert.dev/hilbert/node/advise"
)

// Threshold is one of the kubelet's eviction thresholds: it evicts where less than Amount (bytes or inodes), or less than Share of the total, is
// available. One of both is 0.
type Threshold struct {
	// Signal is the kubelet's name: "memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree".
	// Others are passed over.
	Signal string  `json:"signal"`
	Soft   bool    `json:"soft,omitempty"`
	Amount float64 `json:"amount,omitempty"`
	Share  float64 `json:"share,omitempty"`
	// Total is what a share is of; 0: not known, and shares are compared with shares, amounts with amounts.
	Total float64 `json:"total,omitempty"`
}

// Check refuses marks that are not above the kubelet's thresholds: the kubelet would evict first, and it may choose an online pod. Both our
// marks must lie above both of its. The error names each pair.
func (p *Params) Check(kubelet []Threshold) error {
	var errs []error
	for _, t := range kubelet {
		for _, w := range p.watermarks() {
			if w.signal != t.Signal || t.Amount <= 0 && t.Share <= 0 {
				continue
			}
			// The soft mark is above the hard one.
			if !w.rule.Hard.above(&t) {
				errs = append(errs, fmt.Errorf("%s.hard: %s is not above the kubelet's %s threshold, %s of %s: raise the one or lower the other",
					w.name, w.rule.Hard.text(w.signal), t.kind(), t.mark().text(t.Signal), t.Signal))
			}
		}
	}
	return errors.Join(errs...)
}

// CheckReserve refuses marks within which the headroom of memory has its setpoint: reclaimed pods that hold all that they were told they may have would be evicted
// for it, come back elsewhere, and be told the same there. Nor may a pod that waits for memory at its own limit evict others while headroom is at its setpoint.
// Absolute marks need no check: headroom leaves advise.ReserveFactor times what they are on the machine.
func (p *Params) CheckReserve(laws *advise.Params) error {
	var errs []error
	reserve := laws.Watermark + laws.GrowthReserve
	for _, m := range []struct {
		name          string
		share, factor float64
	}{
		{"memory.soft.share", p.Memory.Soft.Share, advise.ReserveFactor},
		{"numaNode.soft.share", p.NUMANode.Soft.Share, advise.ReserveFactor},
		{"pressure.below.share", p.Pressure.Below.Share, 1},
	} {
		const rounding = 1e-9
		if want := m.share * m.factor; reserve < want-rounding {
			errs = append(errs, fmt.Errorf("growthReserve: %.4g %% and watermark, %.4g %%, are less than %.4g %%, which is %.4g times %s: raise growthReserve to %.4g %%, or lower %s",
				laws.GrowthReserve*percent, laws.Watermark*percent, want*percent, m.factor, m.name, (want-laws.Watermark)*percent, m.name))
		}
	}
	return errors.Join(errs...)
}

func (t *Threshold) mark() Mark { return Mark{Share: t.Share, Amount: t.Amount} }

func (t *Threshold) kind() string {
	if t.Soft {
		return "soft"
	}
	return "hard"
}

// above says whether a mark is above a threshold on any machine, or on that of the known total.
func (m Mark) above(t *Threshold) bool {
	if t.Total > 0 {
		return m.of(t.Total) > t.mark().of(t.Total)
	}
	return m.Share > t.Share && t.Share > 0 || m.Amount > t.Amount && t.Amount > 0
}

// text says a mark as people do.
func (m Mark) text(signal string) string {
	var parts []string
	if m.Share > 0 {
		parts = append(parts, fmt.Sprintf("%.4g %%", m.Share*percent))
	}
	switch {
	case m.Amount > 0 && strings.HasSuffix(signal, "inodesFree"):
		parts = append(parts, fmt.Sprintf("%.0f inodes", m.Amount))
	case m.Amount > 0:
		parts = append(parts, bytes(m.Amount))
	}
	return strings.Join(parts, " or ")
}
