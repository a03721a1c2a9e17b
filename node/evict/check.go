package evict

import (
	"errors"
	"fmt"
	"strings"
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
			if !above(&w.rule.Hard, &t) {
				errs = append(errs, fmt.Errorf("%s.hard: %s is not above the kubelet's %s threshold, %s of %s: raise the one or lower the other",
					w.name, markText(w.rule.Hard, w.signal), t.kind(), markText(t.mark(), t.Signal), t.Signal))
			}
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
func above(m *Mark, t *Threshold) bool {
	if t.Total > 0 {
		return markOf(*m, t.Total) > markOf(t.mark(), t.Total)
	}
	return m.Share > t.Share && t.Share > 0 || m.Amount > t.Amount && t.Amount > 0
}

// markText says a mark as people do.
func markText(m Mark, signal string) string {
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
