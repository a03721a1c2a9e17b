package waiting

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/facts"
)

// naive is the rule, worked out anew each time from all pods that wait.
type naive struct {
	most  int
	pods  map[facts.UID]Pod
	taken map[facts.UID]bool
}

// group is the pods that are taken in with one.
func (m *naive) group(of Pod) (list []Pod) {
	for _, p := range m.pods {
		same := p.Namespace == of.Namespace && p.Gang == of.Gang && (of.Gang != "" || p.Class == of.Class)
		if same && !m.taken[p.UID] {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, older)
	return list
}

func older(a, b Pod) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(string(a.UID), string(b.UID)))
}

func (m *naive) weight(p Pod) int { return min(1+p.Terms/TermsPerClass, m.most) }

// classes are the classes that are taken in, with their weights.
func (m *naive) classes(namespace string) map[Key]int {
	set := make(map[Key]int)
	for uid := range m.taken {
		if p := m.pods[uid]; p.Namespace == namespace {
			set[p.Class] = m.weight(p)
		}
	}
	return set
}

// next returns the pods that have to be taken in next, nil if none.
func (m *naive) next(namespace string) []Pod {
	var held []Pod
	for _, p := range m.pods {
		if p.Namespace == namespace && !m.taken[p.UID] {
			held = append(held, p)
		}
	}
	slices.SortFunc(held, older)
	classes, blocked := m.classes(namespace), false
	for _, p := range held {
		group, fresh, own := m.group(p), make(map[Key]int), make(map[Key]bool)
		for _, member := range group {
			own[member.Class] = true
			if classes[member.Class] == 0 {
				fresh[member.Class] = m.weight(member)
			}
		}
		if len(own) > m.most {
			continue
		}
		if len(fresh) == 0 || !blocked && (len(classes) == 0 || total(classes)+total(fresh) <= m.most) {
			return group
		}
		blocked = true
	}
	return nil
}

func total(weights map[Key]int) (sum int) {
	for _, w := range weights {
		sum += w
	}
	return sum
}

// ledger does what the ledger does with a Bound.
type ledger struct {
	Bound
	pods  map[facts.UID]Pod
	taken map[facts.UID]bool
}

func (l *ledger) judge(uid facts.UID) {
	p := l.pods[uid]
	if l.Admits(&p, nil) {
		l.Release(uid)
		if !l.taken[uid] {
			l.Count(p.Namespace, p.Class, p.Terms, 1)
			l.taken[uid] = true
		}
		return
	}
	if l.taken[uid] {
		l.Count(p.Namespace, p.Class, p.Terms, -1)
		delete(l.taken, uid)
	}
	if _, fresh := l.Hold(&p); fresh {
		for _, other := range l.pods {
			if other.Namespace == p.Namespace && other.Gang == p.Gang && l.taken[other.UID] {
				l.judge(other.UID)
			}
		}
	}
}

func (l *ledger) set(p Pod) {
	if old, known := l.pods[p.UID]; known && l.taken[p.UID] && (old.Class != p.Class || old.Namespace != p.Namespace) {
		l.pods[p.UID] = p
		admitted := l.Admits(&p, &old.Class)
		l.Count(old.Namespace, old.Class, old.Terms, -1)
		delete(l.taken, p.UID)
		if admitted {
			l.Count(p.Namespace, p.Class, p.Terms, 1)
			l.taken[p.UID] = true
			return
		}
	}
	l.pods[p.UID] = p
	l.judge(p.UID)
}

func (l *ledger) remove(uid facts.UID) {
	if p, known := l.pods[uid]; known && l.taken[uid] {
		l.Count(p.Namespace, p.Class, p.Terms, -1)
	}
	l.Release(uid)
	delete(l.pods, uid)
	delete(l.taken, uid)
}

func class(n int) (k Key) {
	k[0] = byte(n)
	return k
}

// TestAgainstTheRule plays random histories of pods that come, change and go. After each step the rule, worked out naively, finds nothing more to take
// in; what is taken in is what it names; and nothing is remembered of pods that are gone.
func TestAgainstTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &ledger{pods: make(map[facts.UID]Pod), taken: make(map[facts.UID]bool)}
		l.SetMost(rapid.IntRange(1, 4).Draw(t, "most"))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			uid := facts.UID(fmt.Sprint("p", rapid.IntRange(0, 19).Draw(t, "pod")))
			if rapid.IntRange(0, 2).Draw(t, "removes") == 0 {
				l.remove(uid)
			} else {
				p := Pod{UID: uid, Namespace: rapid.SampledFrom([]string{"a", "a", "a", "b"}).Draw(t, "namespace"), Created: int64(rapid.IntRange(0, 9).Draw(t, "created"))}
				p.Class = class(rapid.IntRange(0, 7).Draw(t, "class"))
				p.Terms = []int{0, 0, TermsPerClass - 1, TermsPerClass, 2 * TermsPerClass, 0, 1000, 3}[p.Class[0]]
				p.Gang = rapid.SampledFrom([]string{"", "", "", "g", "h"}).Draw(t, "gang")
				if old, known := l.pods[uid]; known {
					p.Namespace, p.Created = old.Namespace, old.Created
				}
				l.set(p)
			}
			settle(t, l)
			verify(t, l)
		}
		for uid := range l.pods {
			l.remove(uid)
			settle(t, l)
		}
		if len(l.namespaces)+len(l.held) > 0 {
			t.Fatalf("%d namespaces and %d pods are kept of none", len(l.namespaces), len(l.held))
		}
	})
}

func settle(t *rapid.T, l *ledger) {
	for {
		m := naive{l.most, l.pods, l.taken}
		want := make(map[facts.UID]bool)
		for _, namespace := range []string{"a", "b"} {
			for _, p := range m.next(namespace) {
				want[p.UID] = true
			}
		}
		list := l.Next()
		if list == nil {
			if len(want) > 0 {
				t.Fatalf("there is room for %v", want)
			}
			return
		}
		if !slices.ContainsFunc([]string{"a", "b"}, func(namespace string) bool {
			return slices.EqualFunc(m.next(namespace), list, func(p Pod, uid facts.UID) bool { return p.UID == uid })
		}) && !l.whole(list) {
			t.Fatalf("%v are taken in, not %v", list, want)
		}
		for _, uid := range list {
			l.judge(uid)
			if !l.taken[uid] {
				t.Fatalf("%s is not taken in, though it is its turn", uid)
			}
		}
	}
}

// whole reports whether the pods bring no class; then their turn does not matter.
func (l *ledger) whole(list []facts.UID) bool {
	m := naive{l.most, l.pods, l.taken}
	for _, uid := range list {
		if m.classes(l.pods[uid].Namespace)[l.pods[uid].Class] == 0 {
			return false
		}
	}
	return true
}

func verify(t *rapid.T, l *ledger) {
	m := naive{l.most, l.pods, l.taken}
	for _, namespace := range []string{"a", "b"} {
		if n := len(m.classes(namespace)); n > l.most {
			t.Fatalf("%d classes of namespace %s are taken in", n, namespace)
		}
	}
	for uid, p := range l.pods {
		if p.Gang == "" && !l.taken[uid] && m.classes(p.Namespace)[p.Class] > 0 {
			t.Fatalf("%s is held back, though pods like it are taken in", uid)
		}
		for other, q := range l.pods {
			if p.Gang != "" && q.Gang == p.Gang && q.Namespace == p.Namespace && l.taken[uid] != l.taken[other] {
				t.Fatalf("%s and %s are of one gang, and one is held back", uid, other)
			}
		}
	}
	if l.Held() != len(l.pods)-len(l.taken) {
		t.Fatalf("%d are held back of %d, %d are taken in", l.Held(), len(l.pods), len(l.taken))
	}
}
