package affinity

import "time"

// Outcome is one run, or the mean of those of one mode.
type Outcome struct {
	Mode Mode   `json:"mode"`
	Seed uint64 `json:"seed,omitempty"`

	Machines         int `json:"machines"`
	Instances        int `json:"instances"`
	Placed           int `json:"placed"`
	Waited           int `json:"refusedAtFirst"` // had no place when they came; tried again whenever something left
	Never            int `json:"neverPlaced"`
	WaitedGPU        int `json:"gpuRefusedAtFirst"` // of them, with a GPU
	NeverGPU         int `json:"gpuNeverPlaced"`
	RefusedThoughFit int `json:"refusedThoughFit"` // of those refused: brute force finds a place
	Wrong            int `json:"wrong"`            // grants of the allocator that the judge does not accept

	Together         int `json:"gpuWithCard"` // placed, with a GPU and a card
	OneSwitch        int `json:"gpuWithCardOneSwitch"`
	Broken           int `json:"gpuWithCardBroken"` // under different switches
	TogetherNUMANode int `json:"gpuWithCardOneNUMANode"`
	Cards            int `json:"cardAlone"` // placed, with a card and no GPU
	CardsNUMANode    int `json:"cardAloneOneNUMANode"`

	OneSwitchPercent       float64 `json:"oneSwitchPercent"`
	OneNUMANodePercent     float64 `json:"oneNUMANodePercent"` // GPU, card, cores and memory
	CardOneNUMANodePercent float64 `json:"cardOneNUMANodePercent"`
	GPUAllocatedPercent    float64 `json:"gpuAllocatedPercent"` // of the cluster's: mean over time, or at the end where nothing leaves
	GPUServedPercent       float64 `json:"gpuServedPercent"`    // of those asked for
	CPUServedPercent       float64 `json:"cpuServedPercent"`    // of the cores asked for
	PerSecond              float64 `json:"instancesPerSecond,omitempty"`
}

// tell fills in what follows from the counts.
func (r *replay) tell(took time.Duration) {
	o := &r.out
	o.Mode = r.mode
	o.Broken = o.Together - o.OneSwitch
	o.OneSwitchPercent = percent(float64(o.OneSwitch), float64(o.Together))
	o.OneNUMANodePercent = percent(float64(o.TogetherNUMANode), float64(o.Together))
	o.CardOneNUMANodePercent = percent(float64(o.CardsNUMANode), float64(o.Cards))
	held, wanted, passed := r.held, r.wanted, 1.0
	if r.departs {
		held, wanted, passed = r.sinceHeld, r.sinceWanted, r.passed
	}
	o.GPUAllocatedPercent = percent(held.gpus, passed*float64(r.gpus))
	o.GPUServedPercent, o.CPUServedPercent = percent(held.gpus, wanted.gpus), percent(held.cores, wanted.cores)
	if took > 0 {
		o.PerSecond = float64(o.Instances) / took.Seconds()
	}
}

func percent(part, of float64) float64 {
	if of == 0 {
		return 0
	}
	return 100 * part / of
}

// meanOf is the mean of the runs of a mode; counts are rounded, but what must be zero is summed up.
func meanOf(mode Mode, runs []Outcome) Outcome {
	m := Outcome{Mode: mode}
	n := 0
	for i := range runs {
		o := &runs[i]
		if o.Mode != mode {
			continue
		}
		n++
		from := o.counts()
		for k, to := range m.counts() {
			*to += *from[k]
		}
		shares := o.shares()
		for k, to := range m.shares() {
			*to += *shares[k]
		}
		m.RefusedThoughFit, m.Wrong = m.RefusedThoughFit+o.RefusedThoughFit, m.Wrong+o.Wrong
	}
	for _, c := range m.counts() {
		*c = (*c + n/2) / max(n, 1)
	}
	for _, s := range m.shares() {
		*s /= float64(max(n, 1))
	}
	return m
}

func (o *Outcome) counts() []*int {
	return []*int{
		&o.Machines, &o.Instances, &o.Placed, &o.Waited, &o.Never, &o.WaitedGPU, &o.NeverGPU, &o.Together, &o.OneSwitch, &o.Broken, &o.TogetherNUMANode, &o.Cards, &o.CardsNUMANode,
	}
}

func (o *Outcome) shares() []*float64 {
	return []*float64{
		&o.OneSwitchPercent, &o.OneNUMANodePercent, &o.CardOneNUMANodePercent, &o.GPUAllocatedPercent, &o.GPUServedPercent, &o.CPUServedPercent, &o.PerSecond,
	}
}
