package advise

import (
	"cmp"
	"math"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Profile is what a service asks of its pool: a ServiceProfile as the laws see it.
type Profile struct {
	// Name is what Service.Profile names.
	Name string `json:"name"`
	// Targets are of Service.Indicators, in their order.
	Targets []Target `json:"targets"`
	// LeastCPUs and MostCPUs bound the pool, in CPUs; LeastShare and MostShare by what its pods request, where that is known. 0: no such bound.
	// The narrowest bound counts; if bounds contradict each other, the upper one.
	LeastCPUs  int     `json:"leastCPUs,omitempty"`
	MostCPUs   int     `json:"mostCPUs,omitempty"`
	LeastShare float64 `json:"leastShare,omitempty"`
	MostShare  float64 `json:"mostShare,omitempty"`
	// Period is the time from one decision to the next. In between the error is averaged.
	Period time.Duration `json:"period"`
}

// ProfileOf is a ServiceProfile as the laws see it, with its namespace and name.
func ProfileOf(p *spec.NamedProfile) Profile {
	const percent = 100
	out := Profile{
		Name: p.String(), LeastCPUs: p.Bounds.MinCPUs, MostCPUs: p.Bounds.MaxCPUs,
		LeastShare: float64(p.Bounds.MinPercent) / percent, MostShare: float64(p.Bounds.MaxPercent) / percent,
		Period: cmp.Or(p.Period, spec.DefaultProfilePeriod).D(),
	}
	for _, in := range p.Indicators {
		out.Targets = append(out.Targets, Target{in.Target, in.Weight})
	}
	return out
}

// Target is what an indicator should be, in its own unit. Its error counts Weight times; 0 means once.
type Target struct {
	Value  float64 `json:"value"`
	Weight float64 `json:"weight,omitempty"`
}

// Pool is a shared pool with services that have a profile.
type Pool struct {
	Name string `json:"name"`
	// CPUs are those that it has now in all NUMA nodes; 0: not known. Requests is what its pods ask for, in CPUs.
	CPUs     int    `json:"cpus"`
	Requests Sample `json:"requests"`
}

// ProfileParams tune the law that steers pools. An error is the logarithm of an indicator over its target; gains are changes of the logarithm of
// the pool's size in one period. So the same gains serve pools of four CPUs and of four hundred.
type ProfileParams struct {
	// Above and Below are shares of the target by which an indicator may miss it without any reaction.
	Above float64 `json:"above"`
	Below float64 `json:"below"`
	// ErrorMost bounds the error both ways.
	ErrorMost float64 `json:"errorMost"`
	// IntegralUp and IntegralDown are for each unit of error, Proportional for each unit that it has changed since the period before.
	IntegralUp   float64 `json:"integralUp"`
	IntegralDown float64 `json:"integralDown"`
	Proportional float64 `json:"proportional"`
	// StepUp and StepDown are the shares by which a pool may grow (but always one CPU) and shrink in one period, GrowMost how many times as large (but
	// always two CPUs larger) it may become in four of them: what its indicator says now may be of what it had then.
	StepUp   float64 `json:"stepUp"`
	StepDown float64 `json:"stepDown"`
	GrowMost float64 `json:"growMost"`
	// LeadUp and LeadDown are the shares, and LeadCPUs the CPUs besides, by which the advice may differ from what the pool really has.
	LeadUp   float64 `json:"leadUp"`
	LeadDown float64 `json:"leadDown"`
	LeadCPUs float64 `json:"leadCPUs"`
	// A size that proved too small after shrinking is not tried again for HoldMin; if it hurts again sooner after that than the hold lasted, for twice
	// as long, up to HoldMax.
	HoldMin time.Duration `json:"holdMin"`
	HoldMax time.Duration `json:"holdMax"`
}

// ProfileDefaults are the parameters of the law for periods of some seconds.
func ProfileDefaults() ProfileParams {
	law := spec.DefaultNodeCPU().Profile
	return profileParams(&law)
}

// profileParams are the parameters that a node's configuration gives the law.
func profileParams(l *spec.ProfileLaw) ProfileParams {
	return ProfileParams{
		Above: l.Above, Below: l.Below, ErrorMost: l.ErrorMost, IntegralUp: l.IntegralUp, IntegralDown: l.IntegralDown, Proportional: l.Proportional,
		StepUp: l.StepUp, StepDown: l.StepDown, GrowMost: l.GrowMost, LeadUp: l.LeadUp, LeadDown: l.LeadDown, LeadCPUs: l.LeadCPUs,
		HoldMin: l.HoldMin.D(), HoldMax: l.HoldMax.D(),
	}
}

func (p *ProfileParams) checks() []check {
	return []check{
		{"profile.above", p.Above, 0, 10},
		{"profile.below", p.Below, 0, 0.95},
		{"profile.errorMost", p.ErrorMost, 0, 10},
		{"profile.integralUp", p.IntegralUp, 0, 10},
		{"profile.integralDown", p.IntegralDown, 0, 10},
		{"profile.proportional", p.Proportional, 0, 10},
		{"profile.stepUp", p.StepUp, 0, 10},
		{"profile.stepDown", p.StepDown, 0, 0.9},
		{"profile.growMost", p.GrowMost, 0, 100},
		{"profile.leadUp", p.LeadUp, 0, 10},
		{"profile.leadDown", p.LeadDown, 0, 1},
		{"profile.leadCPUs", p.LeadCPUs, 0, 1024},
		{"profile.holdMin", float64(p.HoldMin), 0, maxWait},
		{"profile.holdMax", float64(p.HoldMax), float64(p.HoldMin), maxWait},
	}
}

// ProfileState is what the law remembers: each pool and profile that was seen at the last tick, by name.
type ProfileState struct {
	Steerings []Steering `json:"steerings,omitempty"`
}

// Clone is a copy that shares nothing with m.
func (m *ProfileState) Clone() ProfileState { return ProfileState{slices.Clone(m.Steerings)} }

// find returns what is remembered of a pool and profile, or a beginning.
func (m *ProfileState) find(pool, profile string) Steering {
	i, ok := slices.BinarySearchFunc(m.Steerings, service{pool, profile}, func(s Steering, of service) int {
		return service{s.Pool, s.Profile}.compare(of)
	})
	if ok {
		return m.Steerings[i]
	}
	return Steering{Pool: pool, Profile: profile}
}

// service is the pods of one profile in one pool.
type service struct{ pool, profile string }

func (s service) compare(o service) int {
	return cmp.Or(cmp.Compare(s.pool, o.pool), cmp.Compare(s.profile, o.profile))
}

// steerPools is the law of profiles: how many CPUs each pool should have in which services with a profile run. A pool with several has what the
// neediest asks for. Pools without a known indicator are not in the result.
func steerPools(o *Observation, p *Params, m *ProfileState) map[string]int {
	seen := make(map[service][]*Service)
	for i := range o.Services {
		if s := &o.Services[i]; s.Profile != "" && s.Pool != "" {
			key := service{s.Pool, s.Profile}
			seen[key] = append(seen[key], s)
		}
	}
	if len(seen) == 0 {
		m.Steerings = nil
		return nil
	}
	keys := make([]service, 0, len(seen))
	for key := range seen {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, service.compare)
	out, next := make(map[string]int), make([]Steering, 0, len(keys))
	for _, key := range keys {
		i := slices.IndexFunc(o.Profiles, func(p Profile) bool { return p.Name == key.profile })
		if i < 0 {
			continue
		}
		profile, state := &o.Profiles[i], m.find(key.pool, key.profile)
		if cpus, ok := Steer(profile, &p.Profile, o.reading(profile, key.pool, seen[key]), &state); ok {
			out[key.pool] = max(out[key.pool], cpus)
		}
		next = append(next, state)
	}
	m.Steerings = next
	return out
}

// reading is what is seen of the pods of a profile in a pool.
func (o *Observation) reading(p *Profile, pool string, services []*Service) Reading {
	r := Reading{At: clamp(o.At, 0, math.MaxInt64/4)}
	r.Error, r.Whole = p.judge(services)
	for i := range o.NUMANodes {
		r.Most += divisible(&o.NUMANodes[i])
	}
	if i := slices.IndexFunc(o.Pools, func(p Pool) bool { return p.Name == pool }); i >= 0 {
		r.Has = clamp(o.Pools[i].CPUs, 0, mostCPUs)
		r.Requests = o.Pools[i].Requests
	}
	return r
}

// judge is the error of the worst indicator of the worst pod that is known, and whether all are.
func (p *Profile) judge(services []*Service) (worst Sample, all bool) {
	all = len(p.Targets) > 0
	for _, s := range services {
		for i, t := range p.Targets {
			e, ok := Sample{}, false
			if i < len(s.Indicators) {
				e, ok = t.miss(s.Indicators[i])
			}
			if !ok {
				all = false
			} else if !worst.Known || e.Value > worst.Value {
				worst = e
			}
		}
	}
	return worst, all
}

// miss is the error of one indicator. An indicator of 0 is as far below its target as can be.
func (t Target) miss(s Sample) (Sample, bool) {
	value, ok := amount(s, most)
	if !ok || !(t.Value > 0) || t.Value > most {
		return Sample{}, false
	}
	weight := t.Weight
	if !(weight > 0) {
		weight = 1
	}
	return Known(max(math.Log(value/t.Value), -most) * min(weight, most)), true
}
