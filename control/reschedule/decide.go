package reschedule

import (
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Planned is a pod that is to go from one node to another.
type Planned struct {
	Step

	From   int
	Reason string
	Why    string
	For    string // see Proposal
	// Net is the gain less the work that is lost, in thousandths of a GPU.
	Net float64
}

// Declined is a pod that would be moved, and why it is not.
type Declined struct {
	Pod int
	Why string
}

// Plan is what is to be moved.
type Plan struct {
	// Batches are in order. The moves of a batch need nothing of one another.
	Batches  [][]Planned
	Declined []Declined
	// Restarts are gangs that would be in fewer domains if they restarted. Nobody is moved for it.
	Restarts []Gang
}

// Moves is how many there are.
func (p *Plan) Moves() (n int) {
	for _, b := range p.Batches {
		n += len(b)
	}
	return n
}

// decision is one Decide.
type decision struct {
	v         *View
	judge     Judge
	p         *Params
	now       time.Time
	taken     int // moves that were accepted
	moving    map[int]bool
	workloads map[string]int // how many pods of each are moved already
	declined  map[int]bool
	plan      Plan
}

// Decide says which pods are moved, and in which order.
func Decide(v *View, judge Judge, p *Params, now time.Time) Plan {
	d := &decision{v: v, judge: judge, p: p, now: now, moving: make(map[int]bool), workloads: make(map[string]int), declined: make(map[int]bool)}
	var chosen [][]Planned
	for _, r := range Reasons() {
		if len(p.Only) > 0 && !slices.Contains(p.Only, r.Name) {
			continue
		}
		for _, proposal := range r.Propose(d) {
			if moves, ok := d.accept(&proposal); ok {
				chosen = append(chosen, moves)
			}
		}
	}
	var dropped []Planned
	d.plan.Batches, dropped = Batches(v, chosen)
	for _, m := range dropped {
		d.decline(m.Pod, m.Reason+": the room that it needs is not free before others have moved, in a circle")
	}
	return d.plan
}

// accept takes a proposal whole, or not at all.
func (d *decision) accept(proposal *Proposal) ([]Planned, bool) {
	if d.taken+len(proposal.Steps) > d.p.Most {
		return nil, false
	}
	lost := 0.0
	pods, workloads := make(map[int]bool), make(map[string]bool)
	for _, s := range proposal.Steps {
		p := &d.v.Pods[s.Pod]
		if !d.may(s.Pod, proposal.Must) || pods[s.Pod] || !proposal.Must && workloads[p.Workload] {
			return nil, false
		}
		pods[s.Pod], workloads[p.Workload] = true, true
		lost += d.lost(p)
	}
	net := proposal.Gain - lost
	if net <= 0 && !proposal.Must {
		d.decline(proposal.Steps[0].Pod, fmt.Sprintf("%s: it wins %.0f thousandths of a GPU, and %.0f are lost by beginning anew", proposal.Reason, proposal.Gain, lost))
		return nil, false
	}
	moves := make([]Planned, len(proposal.Steps))
	for i, s := range proposal.Steps {
		p := &d.v.Pods[s.Pod]
		d.moving[s.Pod] = true
		d.workloads[p.Workload]++
		moves[i] = Planned{Step: s, From: p.Node, Reason: proposal.Reason, Why: proposal.Why, For: proposal.For, Net: net / float64(len(proposal.Steps))}
	}
	d.taken += len(moves)
	return moves, true
}

// lost is the work that is lost when a pod begins anew, spread over the horizon, in thousandths of a GPU.
func (d *decision) lost(p *Pod) float64 { return d.p.lost(p, d.now) }

func (params *Params) lost(p *Pod, now time.Time) float64 {
	if !p.Loses || params.Horizon <= 0 {
		return 0
	}
	return p.Weight() * now.Sub(p.Began).Seconds() / params.Horizon.Seconds()
}

// may reports whether a pod may be moved, and remembers why not. must: its node is to be emptied.
func (d *decision) may(pod int, must bool) bool {
	if d.moving[pod] {
		return false
	}
	why := d.refusal(&d.v.Pods[pod], must)
	if why != "" && must {
		d.decline(pod, why)
	}
	return why == ""
}

// refusal says why a pod may not be moved; empty: it may.
func (d *decision) refusal(p *Pod, must bool) string {
	crowded, spent := d.crowded(p), d.spent(p)
	switch why := p.fixed(); {
	case why != "":
		return why
	case p.Unit != "":
		return "it is a member of a gang, which is moved on its restart only"
	case p.Protected != "":
		return p.Protected
	case crowded != "":
		return crowded
	case spent != "":
		return spent
	case must:
		return ""
	case p.Consent == spec.ConsentReluctant:
		return "its annotations prefer that it stays"
	case d.now.Sub(p.Began) < d.p.MinAge:
		return fmt.Sprintf("it has run for %v only", d.now.Sub(p.Began).Round(time.Second))
	}
	return d.cooling(p)
}

// cooling says why a pod is not moved again to a better place yet; empty: nothing of before keeps it.
func (d *decision) cooling(p *Pod) string {
	if at, why := d.v.History.pod(p); why != "" && d.now.Sub(at) < d.p.PodCooldown {
		return fmt.Sprintf("%s: %v ago", why, d.now.Sub(at).Round(time.Second))
	}
	at, known := d.v.History.workload(p.Workload, d.now)
	if d.workloads[p.Workload] > 0 || known && d.now.Sub(at) < d.p.WorkloadCooldown {
		return "another pod of its workload was just moved"
	}
	return ""
}

// crowded says why a pod may not be moved beside others of its workload; empty: it may. A service whose replicas have just enough to do misses its target as soon as a larger part of them
// begins anew at the same time, so those that start for another reason count too; not for a pod that starts itself, which serves nobody yet.
func (d *decision) crowded(p *Pod) string {
	r := d.v.Replicas[p.Workload]
	if r.All == 0 {
		return ""
	}
	away, most := r.Moving+d.workloads[p.Workload], max(r.All*d.p.WorkloadPercent/100, 1)
	if d.now.Sub(p.Began) >= StartTime {
		away += r.Starting
	}
	if away < most {
		return ""
	}
	return fmt.Sprintf("%d of the %d pods of its workload start or move, and %d may at once", away, r.All, most)
}

// spent says why a pod of online may not leave a node that went to offline yet; empty: it may. Nodes change hands again and again, and a workload that serves lacks each pod that is moved for StartTime:
// one of ten is more than an autoscaler leaves to spare. So by default a workload loses a thousandth of its pods' time to it, and so one of ten pods in 500 minutes. What it has not lost since
// its last move is saved up. Of a workload of which none was moved one pod may be.
func (d *decision) spent(p *Pod) string {
	r := d.v.Replicas[p.Workload]
	if !p.Online || r.All == 0 || d.p.WorkloadTimeLossPermille >= WholeWorkload || d.now.Sub(p.Began) < StartTime {
		return ""
	}
	away, saved, each := r.Moving+d.workloads[p.Workload], 1, StartTime*WholeWorkload/time.Duration(max(d.p.WorkloadTimeLossPermille, 1)*r.All)
	last, known := d.v.History.workload(p.Workload, d.now)
	if known {
		saved = int(d.now.Sub(last) / max(each, 1))
	}
	switch {
	case away < saved:
		return ""
	case !known:
		return fmt.Sprintf("another of the %d pods of its workload is moved, and one may be in %v", r.All, each)
	}
	return fmt.Sprintf("one of the %d pods of its workload may be moved in %v: the next at %s", r.All, each, last.Add(each*time.Duration(away+1)).UTC().Format(time.RFC3339))
}

func (d *decision) decline(pod int, why string) {
	if !d.declined[pod] {
		d.declined[pod] = true
		d.plan.Declined = append(d.plan.Declined, Declined{pod, why})
	}
}
