package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/topology"
)

// maxGangRehearsals is how many gangs of one plan are rehearsed: each is a run of the scheduler. Which of more come first changes from plan to plan.
const maxGangRehearsals = 4

// againName ends the names of members that are made again in a rehearsal.
const againName = " again"

// GangShown is a gang that is to leave its nodes whole, since these have changed hands: all its members, and the nodes among which they have places once these are reserved.
type GangShown struct {
	Namespace string              `json:"namespace"`
	PodGroup  string              `json:"podGroup"`
	Why       string              `json:"why"`
	Workload  string              `json:"workload,omitempty"`
	Members   []reschedule.Member `json:"members"`
	Nodes     []string            `json:"nodes"`
}

// Wanted is the move as a Carrier takes it.
func (g *GangShown) Wanted() reschedule.Wanted {
	first := &g.Members[0]
	w := reschedule.Wanted{
		Pod: first.Pod, Namespace: g.Namespace, Name: first.Name, Workload: g.Workload, From: first.From, To: g.Nodes[0], Reason: reschedule.ReasonHands, Why: g.Why,
		Gang: &reschedule.GangMove{PodGroup: g.PodGroup, Members: g.Members, Nodes: g.Nodes},
	}
	if more := len(g.Nodes) - 1; more > 0 {
		w.To = fmt.Sprintf("%s and %d more", w.To, more)
	}
	return w
}

// leavingGang is a gang of which pods are to leave their nodes.
type leavingGang struct {
	facts.UnitName
	pods []int // of the view, in order
	why  string
}

// leavingGangs are those, by name. Their pods are not moved one by one.
func (j *judge) leavingGangs() []*leavingGang {
	by := make(map[facts.UnitName]*leavingGang)
	var list []*leavingGang
	for i := range j.view.Pods {
		p := &j.view.Pods[i]
		if p.Unit == "" || p.Leaves == "" {
			continue
		}
		name := facts.UnitName{Namespace: p.Namespace, Name: p.Unit}
		if by[name] == nil {
			by[name] = &leavingGang{UnitName: name, why: p.Leaves}
			list = append(list, by[name])
		}
		by[name].pods = append(by[name].pods, i)
		p.Leaves = ""
	}
	slices.SortFunc(list, func(a, b *leavingGang) int { return facts.CompareUnitNames(a.UnitName, b.UnitName) })
	return list
}

// moveGangs rehearses for each gang that is to leave whether all its members have places beside everything that is there, themselves included: so much has to be reserved before the first of
// them is evicted.
func (m *Moves) moveGangs(ctx context.Context, d *inspect.Dump, j *judge, kept [][]reschedule.Planned, gangs []*leavingGang) error {
	change, _ := moving(&j.view, kept)
	first, tried := 0, 0
	if len(gangs) > maxGangRehearsals {
		const scatters = 0x9E3779B97F4A7C15 // so that plans that are made every so many seconds do not all begin with the same
		first = int(uint64(d.Taken.Unix())*scatters>>33) % len(gangs)
	}
	for i := range gangs {
		g := gangs[(first+i)%len(gangs)]
		why := j.gangStays(d.Ledger, g)
		switch {
		case why != "":
		case tried == maxGangRehearsals:
			why = "its gang is rehearsed with a later plan"
		default:
			tried++
			beside, with := parted(d, g), change
			with.Add = slices.Concat(change.Add, j.again(g))
			forecast, err := NewForecast(ctx, beside, with)
			if err != nil {
				return err
			}
			if m.Interrupted = forecast.Interrupted; m.Interrupted {
				return nil
			}
			var nodes []string
			if nodes, why = placesOf(forecast, &with); why == "" {
				m.Gangs = append(m.Gangs, j.shownGang(g, nodes))
				d, change = beside, with // the next one finds its room beside this one
			}
		}
		if why == "" {
			continue
		}
		for _, i := range g.pods {
			m.stay(&j.view.Pods[i], why)
		}
	}
	return nil
}

// gangStays says why a gang cannot be moved whole, whatever room there is; empty: it can.
func (j *judge) gangStays(l *cluster.Dump, g *leavingGang) string {
	at := slices.IndexFunc(l.Units, func(u cluster.UnitRecord) bool { return u.Facts.UnitName == g.UnitName })
	if at < 0 || !l.Units[at].Known || l.Units[at].Facts.Invalid != "" {
		return "its PodGroup is not known, or not valid"
	}
	if len(required(l.Units[at].Facts.SubgroupTopology)) > 0 {
		return "the parts of its gang require domains of their own, for which no places can be kept together"
	}
	leaves := make(map[facts.UID]bool)
	for _, i := range g.pods {
		leaves[facts.UID(j.view.Pods[i].UID)] = true
	}
	for i := range l.Pods {
		if f := &l.Pods[i].Facts; f.Unit == g.Name && f.Namespace == g.Namespace && !f.Finished && !leaves[f.UID] {
			return fmt.Sprintf("its gang goes as a whole, and %s is not to leave %s", f.Name, cmp.Or(f.Node, "the queue"))
		}
	}
	if why := reschedule.GangRefusal(&j.view, g.pods, j.most); why != "" {
		return why
	}
	like := j.store.Pod(facts.UID(j.view.Pods[g.pods[0]].UID))
	for _, i := range g.pods {
		f := j.facts[facts.UID(j.view.Pods[i].UID)]
		if pod := j.store.Pod(f.UID); pod.Class != like.Class || pod.Priority != like.Priority {
			return fmt.Sprintf("%s and %s of its gang ask for different things, and places are kept for pods that are alike", like.Name, f.Name)
		}
		if len(f.Claims)+len(f.ResourceClaims) > 0 {
			return f.Name + " of its gang has claims, for which no place can be kept"
		}
		for _, b := range l.Budgets { // which may allow the first eviction and refuse the second
			if b.Namespace == f.Namespace && b.Pods.Matches(f.Labels) {
				return fmt.Sprintf("the disruption budget %s covers %s: it could tear its gang", b.Name, f.Name)
			}
		}
	}
	return ""
}

// again are the members of a gang as they will be made again. They evict nobody.
func (j *judge) again(g *leavingGang) (list []facts.Pod) {
	for _, i := range g.pods {
		f := *j.facts[facts.UID(j.view.Pods[i].UID)]
		f.UID, f.Name = f.UID+"+again", f.Name+againName
		f.Node, f.Grant, f.Started, f.Scheduled, f.Nominated, f.Placeholder, f.NeverPreempts = "", topology.Grant{}, 0, 0, "", "", true
		list = append(list, f)
	}
	return list
}

// parted is a dump in which those who run are no members of the gang any more, so that others can be made which are.
func parted(d *inspect.Dump, g *leavingGang) *inspect.Dump {
	out, ledger := *d, *d.Ledger
	ledger.Pods, ledger.Units = slices.Clone(ledger.Pods), slices.Clone(ledger.Units)
	for i := range ledger.Pods {
		if f := &ledger.Pods[i].Facts; f.Unit == g.Name && f.Namespace == g.Namespace {
			f.Unit, f.Subgroup = "", ""
		}
	}
	for i := range ledger.Units {
		if u := &ledger.Units[i]; u.Facts.UnitName == g.UnitName {
			u.Reached, u.Done, u.Facts.Scheduled = false, 0, false
		}
	}
	out.Ledger = &ledger
	return &out
}

// placesOf is on which nodes all that is made anew has places, once all that is moved has its own; or why that is not so.
func placesOf(f *Forecast, change *Change) (nodes []string, why string) {
	for i := range f.Unplaced {
		if u := &f.Unplaced[i]; u.Was != wasWaiting {
			return nil, fmt.Sprintf("rehearsed, its gang finds no room beside itself: %s/%s: %s", u.Namespace, strings.TrimSuffix(u.Name, againName), u.Why)
		}
	}
	added := 0
	last := change.Add[len(change.Add)-1]
	for i := range f.Placed {
		p := &f.Placed[i]
		if p.Was != wasAdded {
			continue
		}
		added++
		if p.Namespace == last.Namespace && slices.ContainsFunc(change.Add, func(a facts.Pod) bool {
			return a.Namespace == last.Namespace && a.Unit == last.Unit && a.Name == p.Name
		}) {
			nodes = append(nodes, p.Node)
		}
	}
	if added < len(change.Add) {
		return nil, "rehearsed, its gang would be evicted again"
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), ""
}

func (j *judge) shownGang(g *leavingGang, nodes []string) GangShown {
	out := GangShown{Namespace: g.Namespace, PodGroup: g.Name, Why: g.why, Workload: j.view.Pods[g.pods[0]].Workload, Nodes: nodes}
	for _, i := range g.pods {
		p := &j.view.Pods[i]
		out.Members = append(out.Members, reschedule.Member{Pod: p.UID, Name: p.Name, From: j.view.Nodes[p.Node].Name})
	}
	return out
}
