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
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/schedule/inspect"
)

// RestartShown is a gang that would be in fewer domains of the label that it prefers if it restarted, as the scheduler rehearses it.
type RestartShown struct {
	Unit  string `json:"unit"`
	Label string `json:"label"`
	Now   int    `json:"domainsNow"`
	Then  int    `json:"domainsThen"`
	// Values of the label on the nodes that it would get.
	Values []string `json:"values"`
}

// String says in how many domains the gang is, and would be.
func (r *RestartShown) String() string {
	return fmt.Sprintf("%s: domains of %s %d, then %d (%s)", r.Unit, r.Label, r.Now, r.Then, strings.Join(r.Values, ", "))
}

// restart rehearses the restart of gangs, each by itself: they do not restart together.
func (m *Moves) restart(ctx context.Context, d *inspect.Dump, gangs []reschedule.Gang) error {
	labels := make(map[string]map[string]string)
	for _, n := range d.Ledger.Nodes {
		labels[n.Name] = n.Labels
	}
	for i := range gangs {
		g := &gangs[i]
		namespace, name, _ := strings.Cut(g.Name, "/")
		forecast, err := NewForecast(ctx, d, Change{Restart: []facts.UnitName{{Namespace: namespace, Name: name}}})
		if err != nil {
			return err
		}
		if m.Interrupted = forecast.Interrupted; m.Interrupted {
			return nil
		}
		members := make(map[PodName]bool)
		for k := range d.Ledger.Pods {
			if f := &d.Ledger.Pods[k].Facts; f.Namespace == namespace && f.Unit == name && f.Node != "" {
				members[PodName{f.Namespace, f.Name, f.Node}] = true
			}
		}
		then := make(spread)
		placed := 0
		for k := range forecast.Placed {
			if p := &forecast.Placed[k]; members[p.PodName] {
				placed++
				then.add(labels[p.Node], g.Label, p.Node)
			}
		}
		if placed == len(members) && len(then) < g.Domains && len(forecast.Evicted) == 0 {
			m.Restarts = append(m.Restarts, RestartShown{g.Name, g.Label, g.Domains, len(then), then.values()})
		}
	}
	return nil
}

// spread is the domains of a label that nodes are in. One without the label is a domain by itself.
type spread map[string]bool

func (s spread) add(labels map[string]string, key, node string) {
	value, ok := labels[key]
	if !ok {
		value = "node " + node
	}
	s[value] = true
}

func (s spread) values() []string {
	list := make([]string, 0, len(s))
	for value := range s {
		list = append(list, value)
	}
	slices.Sort(list)
	return list
}

// gangs are those of which all members run, and that prefer a label.
func (j *judge) gangs(l *cluster.Dump) (list []reschedule.Gang) {
	label := make(map[string]string)
	need := make(map[string]int)
	for i := range l.Units {
		u := &l.Units[i]
		if u.Known && u.Facts.Invalid == "" && u.Facts.Topology.Preferred != "" {
			name := u.Facts.Namespace + "/" + u.Facts.Name
			label[name], need[name] = u.Facts.Topology.Preferred, int(u.Facts.MinMember)
		}
	}
	members := make(map[string][]int) // of j.view.Pods
	for i := range j.view.Pods {
		p := &j.view.Pods[i]
		if name := p.Namespace + "/" + p.Unit; p.Unit != "" && label[name] != "" {
			members[name] = append(members[name], i)
		}
	}
	whole := make(map[string]int)
	for i := range l.Pods {
		f := &l.Pods[i].Facts
		if f.Unit != "" && !f.Finished && !f.Gated {
			whole[f.Namespace+"/"+f.Unit]++
		}
	}
	for name, pods := range members {
		pinned := slices.ContainsFunc(pods, func(i int) bool { return j.view.Pods[i].Pinned })
		if len(pods) < max(need[name], 2) || len(pods) != whole[name] || pinned {
			continue // it is in the making, or ends, or belongs where it is
		}
		g := reschedule.Gang{Name: name, Label: label[name]}
		now := make(spread)
		for _, i := range pods {
			n := j.nodes[j.view.Pods[i].Node]
			now.add(n.Labels, g.Label, n.Name)
			g.Holds += j.view.Pods[i].Weight()
		}
		g.Domains = len(now)
		if g.Domains > 1 {
			g.Least = j.leastDomains(pods, g.Label)
		}
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b reschedule.Gang) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// leastDomains is about how many domains of a label pods would need, were they placed anew. 0: they do not fit.
func (j *judge) leastDomains(pods []int, label string) int {
	free := slices.Clone(j.before)
	for _, i := range pods {
		free[j.view.Pods[i].Node].Give(&j.kinds[j.kind[i]], j.view.Pods[i].Grant)
	}
	var fits []int
	for _, d := range j.domains([]string{label}, nil) {
		n := 0
		for _, i := range pods {
			if j.takesFirst(free, d, &j.kinds[j.kind[i]]) {
				n++
			}
		}
		fits = append(fits, n)
	}
	slices.Sort(fits)
	left := len(pods)
	for i := range fits {
		if left -= fits[len(fits)-1-i]; left <= 0 {
			return i + 1
		}
	}
	return 0
}

// takesFirst gives a request the first of a domain's nodes that holds it.
func (j *judge) takesFirst(free []fragment.Node, d domain, r *fragment.Request) bool {
	for i := range d {
		if n := &j.view.Nodes[i]; !d[i] || n.Closed || n.Leaving != "" {
			continue
		}
		if gpu, ok := firstGPU(&free[i], r); ok {
			free[i].Take(r, gpu)
			return true
		}
	}
	return false
}
