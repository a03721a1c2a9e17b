package diff

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install" // the conversions that the scheme needs
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"

	"hilbert.dev/hilbert/cluster/facts"
)

// TestPreemption compares preemption in as many histories as CASES would have contended, with the seed SEED.
func TestPreemption(t *testing.T) {
	seed := uint64(number(t, "SEED", 1))
	p := NewPlayer()
	for n := range uint64(number(t, "CASES", 4800) / JudgedPerCase / contendedEvery) {
		c := draw(seed, n*contendedEvery+contendedEvery-1)
		f, err := p.Play(c)
		if err != nil {
			t.Fatal(err)
		}
		if f != nil {
			text, err := Shrink(NewPlayer(), f).YAML()
			if err != nil {
				t.Fatal(err)
			}
			t.Fatalf("history %d:\n%s", n*contendedEvery+contendedEvery-1, text)
		}
	}
	t.Logf("%+v", p.contests)
	c := p.contests
	for what, count := range map[string]int{
		"choice": c.Chosen, "candidate": c.Candidates, "candidate with several victims": c.Several, "candidate against a budget": c.Violating,
		"candidate with constraints": c.Far, "terminating victim": c.Deleting,
	} {
		if count == 0 {
			t.Errorf("no %s was compared", what)
		}
	}
	if c.Tied+c.Miscounted > c.Candidates {
		t.Errorf("%d candidates were compared and %d nodes were not", c.Candidates, c.Tied+c.Miscounted)
	}
}

// TestPreemptionThatDiffersIsNoticed plays a case in which pod11 can have either node, and lets the ledger miss or make up one thing at a
// time.
func TestPreemptionThatDiffersIsNoticed(t *testing.T) {
	const text = `
profile: default
indexes: 4
seed: 1
preempts: 2
steps:
- node: {metadata: {name: node1}, status: {allocatable: {cpu: "2", pods: "9"}}}
- node: {metadata: {name: node2}, status: {allocatable: {cpu: "2", pods: "9"}}}
- budget: {metadata: {namespace: ns0, name: a}, spec: {selector: {matchLabels: {app: a}}}}
- pod:
    metadata: {namespace: ns0, name: pod1, uid: uid-pod1, labels: {app: a}}
    spec: {nodeName: node1, priority: 1, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
    status: {startTime: "2026-01-01T00:00:01Z"}
- pod:
    metadata: {namespace: ns0, name: pod2, uid: uid-pod2}
    spec: {nodeName: node1, priority: 2, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
    status: {startTime: "2026-01-01T00:00:02Z"}
- pod:
    metadata: {namespace: ns0, name: pod3, uid: uid-pod3}
    spec: {nodeName: node2, priority: 3, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
    status: {startTime: "2026-01-01T00:00:03Z"}
- judge:
    metadata: {namespace: ns0, name: pod11, uid: uid-pod11}
    spec: {schedulerName: hilbert, priority: 5, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
`
	c, err := ParseCase([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	judge := len(c.Steps) - 1
	change := func(step int, how func(pod *corev1.Pod)) func(o *ours) {
		pod := c.Steps[step].Pod
		if step == judge {
			pod = c.Steps[step].Judge
		}
		pod = pod.DeepCopy()
		how(pod)
		return func(o *ours) { o.store.Apply(facts.PodUpserted{Pod: o.parser.Pod(pod)}) }
	}
	for _, of := range []struct {
		what, want string
		mislead    func(o *ours)
	}{
		{"nothing", "", func(*ours) {}},
		{"no budget", "preempt cost", func(o *ours) { o.store.Apply(facts.BudgetRemoved{Namespace: "ns0", Name: "a"}) }},
		{"another start", "preempt cost", change(5, func(pod *corev1.Pod) { pod.Status.StartTime = nil })},
		{"another order", "preempt victims", change(3, func(pod *corev1.Pod) { pod.Spec.Priority = new(int32(3)) })},
		{"no victim", "preempt candidate", change(5, func(pod *corev1.Pod) { pod.Spec.Priority = new(int32(5)) })},
		{"another policy", "preempt never", change(judge, func(pod *corev1.Pod) { pod.Spec.PreemptionPolicy = new(corev1.PreemptNever) })},
	} {
		p := NewPlayer()
		u, err := newUpstream(&Profiles[0])
		if err != nil {
			t.Fatal(err)
		}
		o, err := newOurs(c, &Profiles[0], &u.weights)
		if err != nil {
			t.Fatal(err)
		}
		l := &life{waiting: make(map[string]*corev1.Pod), committed: make(map[string]*corev1.Pod)}
		step := func(s *Step) []Difference {
			differences, err := p.step(u, o, s, l)
			if err != nil {
				t.Fatal(err)
			}
			return differences
		}
		for i := range c.Steps {
			if differences := step(&c.Steps[i]); len(differences) > 0 {
				t.Fatalf("step %d: %v", i, differences)
			}
		}
		if p.contests.Candidates != 2 || p.contests.Violating != 1 || p.contests.Chosen != 1 {
			t.Fatalf("compared %+v", p.contests)
		}
		of.mislead(o)
		differences := step(&c.Steps[judge])
		kind := ""
		if len(differences) > 0 {
			kind = differences[0].Kind
		}
		if kind != of.want {
			t.Errorf("%s: %v, want %q", of.what, differences, of.want)
		}
	}
}

// TestContendedObjectsAreAdmitted: as TestGeneratedObjectsAreAdmitted, for what contention changes and adds.
func TestContendedObjectsAreAdmitted(t *testing.T) {
	budgets := 0
	for n := range uint64(60) {
		c := Generate(6, n)
		contend(c, 6, n)
		for _, s := range c.Steps {
			complaints := complain(t, &s)
			if s.Budget != nil {
				budgets++
				internal := new(policy.PodDisruptionBudget)
				if err := legacyscheme.Scheme.Convert(s.Budget, internal, nil); err != nil {
					t.Fatal(err)
				}
				complaints = policyvalidation.ValidatePodDisruptionBudget(internal, policyvalidation.PodDisruptionBudgetValidationOptions{})
			}
			for _, err := range complaints {
				t.Errorf("history %d: %v", n, err)
			}
		}
	}
	if budgets == 0 {
		t.Error("no budget was generated")
	}
}
