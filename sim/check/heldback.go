package check

import (
	"cmp"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/waiting"
)

// HeldBack judges, by what the scheduler has been told, which pods it holds back because too many others of their namespace wait that are unlike them. most
// is how many different ones may wait, 0: any number.
//
// How many classes the pods are of lies between two counts that need no ledger: of different requirements, and of different requirements and labels. If
// even the first is too many, the bound is broken; if even the second is too few, pods are held back beside room.
func (c *Checker) HeldBack(store *cluster.Store, most int) {
	if store.Waiting().Due() {
		return // an answer has made room, which the next event gives out
	}
	if store.Waiting().Held() == 0 && (most == 0 || len(c.mirror.pods) <= most) {
		return // there are too few pods for any to be held back
	}
	crowds := make(map[string]*crowd)
	for _, uid := range slices.Sorted(maps.Keys(c.mirror.pods)) {
		p, m := store.Pod(uid), c.mirror.pods[uid]
		if p == nil || !m.ours || m.node != "" && !m.assumed {
			continue
		}
		back := p.Class.HeldBack != ""
		switch {
		case back && (m.leaving || most == 0):
			c.run.Violate("pod %s is held back; it is leaving or gated: %v, %d different pods may wait", uid, m.leaving, most)
		case m.leaving && !m.assumed || !m.mayWait():
			continue
		}
		if crowds[m.namespace] == nil {
			crowds[m.namespace] = newCrowd()
		}
		terms := p.Class.Terms() + p.Class.PodTerms()*(waiting.CountedTerm-1)
		if back {
			_, terms = store.Waiting().ClassOf(uid)
		}
		crowds[m.namespace].add(m, back, p.Created, min(1+terms/waiting.TermsPerClass, most))
	}
	for _, name := range slices.Sorted(maps.Keys(crowds)) {
		crowds[name].judge(c.run, name, most)
	}
}

// mayWait reports whether a place may be looked for, as far as the pod itself says.
func (m *mirrored) mayWait() bool {
	r := m.requirements
	return r.Impossible == "" && len(r.Unsupported) == 0 && r.PodTerms() <= facts.MaxPodTerms
}

// crowd is the pods of one namespace that wait.
type crowd struct {
	requirements map[string]bool // of the pods that are taken in
	all          map[string]int  // requirements and labels of these, and as how many classes they count
	back         []heldBack
}

type heldBack struct {
	*mirrored
	created int64
	weight  int
}

func newCrowd() *crowd {
	return &crowd{requirements: make(map[string]bool), all: make(map[string]int)}
}

func (m *mirrored) texts() (requirements, all string) {
	key := facts.Key(m.requirements.AppendKey(nil))
	requirements = string(key)
	for _, l := range m.labels {
		key.Text(l.Key)
		key.Text(l.Value)
	}
	return requirements, string(key)
}

func (c *crowd) add(m *mirrored, back bool, created int64, weight int) {
	if back {
		c.back = append(c.back, heldBack{m, created, weight})
		return
	}
	requirements, all := m.texts()
	c.requirements[requirements] = true
	c.all[all] = max(c.all[all], weight)
}

func sum(weights map[string]int) (sum int) {
	for _, w := range weights {
		sum += w
	}
	return sum
}

func (c *crowd) judge(run Run, namespace string, most int) {
	if most > 0 && len(c.requirements) > most {
		run.Violate("%d different pods wait in namespace %s, at most %d may", len(c.requirements), namespace, most)
	}
	slices.SortStableFunc(c.back, func(a, b heldBack) int { return cmp.Compare(a.created, b.created) })
	for _, first := range c.back {
		brings := make(map[string]int)
		for _, other := range c.back {
			if other.mirrored == first.mirrored || !first.unit.IsZero() && other.unit == first.unit {
				_, all := other.texts()
				brings[all] = max(brings[all], other.weight)
			}
		}
		if !first.unit.IsZero() && len(brings) > most {
			continue // perhaps it could never be taken in
		}
		if waits, more := sum(c.all), sum(brings); waits+more <= most {
			run.Violate("pod %s is held back with %d like it, though at most %d of %d different pods wait in namespace %s", first.uid, more, waits, most, namespace)
		}
		if _, all := first.texts(); first.unit.IsZero() && c.all[all] > 0 && !run.Constrained() {
			run.Violate("pod %s is held back, though one like it is not", first.uid)
		}
		return
	}
}
