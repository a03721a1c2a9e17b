package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// gangMembers divides batchPods.
	gangMembers = 8
	// partialFor is how long a gang may have some of its places, but not all: as long as it takes until another leads and has gone on, on a
	// busy machine.
	partialFor = 45 * time.Second
	// toldWithin is how long after the last Binding a PodGroup may still say something else.
	toldWithin = 45 * time.Second
)

// TestCrashGangs is the promise that a crash in the middle of the Bindings of a gang leaves none in part: who leads next makes it whole.
func TestCrashGangs(t *testing.T) {
	kills, freezes := 12, 3
	if testing.Short() {
		kills, freezes = 2, 1
	}
	r := newRig(t, gangMembers)
	r.survive(kills, freezes)
	r.awaitTold((kills + freezes) * batchPods / gangMembers)
	t.Logf("%d gangs were bound in part when somebody was struck", r.partial)
	if !testing.Short() && r.partial == 0 {
		t.Error("no strike hit a gang in the middle of its Bindings")
	}
}

func groupName(batch, gang int) string { return fmt.Sprintf("gang-%02d-%03d", batch, gang) }

// addGroups adds the PodGroups of a batch, if there are gangs.
func (r *rig) addGroups(ctx context.Context, batch int) error {
	if r.gang == 0 {
		return nil
	}
	for i := range batchPods / r.gang {
		g := &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: groupName(batch, i)},
			Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(r.gang)},
			}},
		}
		r.ledger.addGang(g.Name, r.gang)
		if _, err := r.client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Create(ctx, g, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// awaitTold returns when so many PodGroups say that they are scheduled.
func (r *rig) awaitTold(want int) {
	r.t.Helper()
	told := 0
	for end := time.Now().Add(toldWithin); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		list, err := r.client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		told = 0
		for i := range list.Items {
			if apimeta.IsStatusConditionTrue(list.Items[i].Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled) {
				told++
			}
		}
		if told == want {
			return
		}
	}
	r.t.Errorf("%d of %d PodGroups say that they are scheduled", told, want)
}

// gangAccount is how many members of a gang are bound, and since when it is neither whole nor unbound.
type gangAccount struct {
	needs, bound int
	since        time.Time
	told         bool // a breach
}

func (l *ledger) addGang(name string, needs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gangs[name] = &gangAccount{needs: needs}
}

func (l *ledger) bookGang(name string) {
	g := l.gangs[name]
	if g == nil {
		return
	}
	if g.bound == 0 {
		g.since = time.Now()
	}
	g.bound++
}

func (g *gangAccount) partial() bool { return g.bound > 0 && g.bound < g.needs }

// partial counts the gangs that have some of their places.
func (l *ledger) partial() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.gangs {
		if g.partial() {
			n++
		}
	}
	return n
}

// judgeGangs finds those that have had only some of their places for too long.
func (l *ledger) judgeGangs(now time.Time) {
	for name, g := range l.gangs {
		if g.partial() && !g.told && now.Sub(g.since) > partialFor {
			g.told = true
			l.breach("gang %s has %d of %d members bound since %s", name, g.bound, g.needs, now.Sub(g.since))
		}
	}
}

// TestJudgeGangs: a gang that stays in part is found, one that is whole or on its way is not.
func TestJudgeGangs(t *testing.T) {
	l := newLedger()
	for _, name := range []string{"whole", "part", "none", "fresh"} {
		l.addGang(name, 2)
	}
	bind := func(name, gang string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		pod.Spec.NodeName, pod.Spec.SchedulingGroup = "n", &corev1.PodSchedulingGroup{PodGroupName: &gang}
		l.see(pod)
		l.see(pod) // again is nothing new
	}
	for name, gang := range map[string]string{"a": "whole", "b": "whole", "c": "part", "d": "fresh"} {
		bind(name, gang)
	}
	l.breaches = nil // there is no node
	l.gangs["part"].since = time.Now().Add(-2 * partialFor)
	if n := l.partial(); n != 2 {
		t.Errorf("%d gangs in part, want 2", n)
	}
	for range 2 {
		if _, breaches, _ := l.count(); len(breaches) != 1 || !strings.Contains(breaches[0], "gang part has 1 of 2") {
			t.Errorf("breaches %v", breaches)
		}
	}
	bind("e", "part")
	if slices.ContainsFunc([]string{"whole", "part"}, func(name string) bool { return l.gangs[name].partial() }) {
		t.Error("a gang that became whole counts as in part")
	}
}
