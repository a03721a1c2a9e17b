package recommend

import "time"

// Follow is what a running pod should have next, when it has held and was last changed that long ago. It grows at once, if that is worth a call, and
// shrinks seldom. Memory never shrinks below what the recommendation says is the least.
func (p *Params) Follow(held Amounts, r *Recommendation, unchanged time.Duration) Amounts {
	may := unchanged >= p.ShrinkAfter
	return Amounts{
		CPU:    p.follow(held.CPU, r.Target.CPU, may),
		Memory: p.follow(held.Memory, max(r.Target.Memory, min(held.Memory, r.MemoryLeast)), may),
	}
}

// follow is one resource of Follow.
func (p *Params) follow(held, target float64, mayShrink bool) float64 {
	switch {
	case target > held*(1+p.GrowBy), mayShrink && target < held*(1-p.ShrinkBy):
		return target
	}
	return held
}
