package parse

import (
	"fmt"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

func parseQueue(change func(*v1alpha1.QueueSpec)) *facts.Queue {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q", Generation: 3}}
	if change != nil {
		change(&q.Spec)
	}
	return NewParser("hilbert", nil).Queue(q)
}

func TestQueueAmounts(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		want  string
	}{
		"nothing":           {nil, "[]"},
		"cores":             {[]string{"cpu", "1500m"}, "[{cpu 1500}]"},
		"bytes":             {[]string{"memory", "2Ki"}, "[{memory 2048}]"},
		"zero is said":      {[]string{"cpu", "0", "nvidia.com/gpu", "0"}, "[{cpu 0} {hilbert.dev/gpu-milli 0}]"},
		"whole GPUs":        {[]string{"nvidia.com/gpu", "8"}, "[{hilbert.dev/gpu-milli 8000}]"},
		"parts of GPUs":     {[]string{"hilbert.dev/gpu-milli", "500"}, "[{hilbert.dev/gpu-milli 500}]"},
		"percent of GPUs":   {[]string{"hilbert.dev/gpu-core", "250"}, "[{hilbert.dev/gpu-milli 2500}]"},
		"all are summed":    {[]string{"hilbert.dev/gpu-core", "50", "hilbert.dev/gpu-milli", "500", "nvidia.com/gpu", "2"}, "[{hilbert.dev/gpu-milli 3000}]"},
		"both are summed":   {[]string{"hilbert.dev/gpu-milli", "500", "nvidia.com/gpu", "2", "pods", "9"}, "[{hilbert.dev/gpu-milli 2500} {pods 9}]"},
		"endless GPUs":      {[]string{"nvidia.com/gpu", "1E"}, fmt.Sprintf("[{hilbert.dev/gpu-milli %d}]", resource.MaxSum)},
		"endless cores":     {[]string{"cpu", "1E"}, fmt.Sprintf("[{cpu %d}]", math.MaxInt64)},
		"negative is none":  {[]string{"cpu", "-5"}, "[{cpu 0}]"},
		"sorted":            {[]string{"pods", "1", "cpu", "1", "memory", "1"}, "[{cpu 1000} {memory 1} {pods 1}]"},
		"extended resource": {[]string{"example.com/widget", "3"}, "[{example.com/widget 3}]"},
	} {
		guaranteed := parseQueue(func(s *v1alpha1.QueueSpec) { s.Guaranteed = list(c.names...) })
		most := parseQueue(func(s *v1alpha1.QueueSpec) { s.Max = list(c.names...) })
		if got := fmt.Sprint(guaranteed.Guaranteed); got != c.want || guaranteed.Max != nil {
			t.Errorf("%s: guaranteed %s, want %s; max %v", name, got, c.want, guaranteed.Max)
		}
		if got := fmt.Sprint(most.Max); got != c.want || most.Guaranteed != nil {
			t.Errorf("%s: max %s, want %s; guaranteed %v", name, got, c.want, most.Guaranteed)
		}
	}
}

func TestQueueFields(t *testing.T) {
	plain := parseQueue(nil)
	if got := fmt.Sprintf("%+v", *plain); got != "{Name:q Parent: UID: Generation:3 Guaranteed:[] Max:[] Weight:1 Sort:Default HalfLife:0 "+
		"BorrowsNothing:false KeepsBorrowed:false ReclaimMinRuntime:<nil> NeverPreempts:false Namespaces:<nil>}" {
		t.Errorf("plain: %s", got)
	}
	full := parseQueue(func(s *v1alpha1.QueueSpec) {
		s.Parent, s.Weight, s.SortPolicy, s.HistoryHalfLife = "p", 5, v1alpha1.SortFairHistory, &metav1.Duration{Duration: time.Hour}
		s.Borrowing, s.Reclaim, s.Preemption = v1alpha1.Never, v1alpha1.Never, v1alpha1.PreemptNever
	})
	if full.Parent != "p" || full.Weight != 5 || full.Sort != facts.FairHistory || full.HalfLife != int64(time.Hour) ||
		!full.BorrowsNothing || !full.KeepsBorrowed || !full.NeverPreempts {
		t.Errorf("full: %+v", full)
	}
	for said, want := range map[time.Duration]time.Duration{0: 0, time.Minute: time.Minute, -1: 0, 1 << 62: maxMinRuntime} {
		got := parseQueue(func(s *v1alpha1.QueueSpec) { s.ReclaimMinRuntime = &metav1.Duration{Duration: said} }).ReclaimMinRuntime
		if got == nil || *got != int64(want) {
			t.Errorf("a minimum runtime of %v is read as %v", said, got)
		}
	}
	for policy, want := range sortPolicies {
		if got := parseQueue(func(s *v1alpha1.QueueSpec) { s.SortPolicy = policy }); got.Sort != want {
			t.Errorf("%s: %v", policy, got.Sort)
		}
	}
	if got := parseQueue(func(s *v1alpha1.QueueSpec) { s.SortPolicy = v1alpha1.SortFairHistory }); got.HalfLife != int64(7*24*time.Hour) {
		t.Errorf("default half-life %s", time.Duration(got.HalfLife))
	}
	for weight, want := range map[int64]int64{-1: 1, 0: 1, 1 << 40: 1_000_000} {
		if got := parseQueue(func(s *v1alpha1.QueueSpec) { s.Weight = weight }); got.Weight != want {
			t.Errorf("weight %d: %d", weight, got.Weight)
		}
	}
}

func TestQueueSelectsNamespaces(t *testing.T) {
	labels := []facts.Label{{Key: "team", Value: "a"}}
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		selects  bool
	}{
		"none":      {nil, false},
		"all":       {&metav1.LabelSelector{}, true},
		"its label": {&metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}, true},
		"another":   {&metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}, false},
		"malformed": {appIs("not a label value"), false},
	} {
		seen := parseQueue(func(s *v1alpha1.QueueSpec) { s.NamespaceSelector = c.selector })
		if got := seen.Namespaces != nil && seen.Namespaces.Matches(labels); got != c.selects {
			t.Errorf("%s: selects %v", name, got)
		}
	}
}

// What a Queue is told reads back as the amounts that were told.
func TestQueueAmountsRoundTrip(t *testing.T) {
	p := NewParser("hilbert", nil)
	rapid.Check(t, func(t *rapid.T) {
		var told []resource.Quantity
		for _, name := range []string{"cpu", "hilbert.dev/gpu-milli", "hugepages-2Mi", "memory", "pods"} {
			if rapid.Bool().Draw(t, name) {
				told = append(told, resource.Quantity{Name: name, Amount: rapid.Int64Range(0, 1e15).Draw(t, name)})
			}
		}
		if got := p.amounts.shares(ResourceList(told)); fmt.Sprint(got) != fmt.Sprint(told) {
			t.Fatalf("told %v, read %v", told, got)
		}
	})
	if got := ResourceList([]resource.Quantity{{Name: "cpu", Amount: math.MaxInt64}}); len(got) != 0 {
		t.Errorf("what has no bound: %v", got)
	}
}

func TestSameQueueSeesEveryField(t *testing.T) {
	base := func() *facts.Queue {
		return &facts.Queue{Name: "q", Weight: 1, Namespaces: &facts.LabelSelector{}}
	}
	if !SameQueue(base(), base()) {
		t.Error("equal ones differ")
	}
	for name, change := range map[string]func(*facts.Queue){
		"name": func(q *facts.Queue) { q.Name = "r" }, "parent": func(q *facts.Queue) { q.Parent = "p" },
		"generation": func(q *facts.Queue) { q.Generation++ },
		"guaranteed": func(q *facts.Queue) { q.Guaranteed = []resource.Quantity{{Name: "cpu"}} },
		"max":        func(q *facts.Queue) { q.Max = []resource.Quantity{{Name: "cpu"}} },
		"weight":     func(q *facts.Queue) { q.Weight++ }, "sort": func(q *facts.Queue) { q.Sort = facts.Fair },
		"half-life": func(q *facts.Queue) { q.HalfLife++ }, "borrows": func(q *facts.Queue) { q.BorrowsNothing = true },
		"keeps": func(q *facts.Queue) { q.KeepsBorrowed = true }, "preempts": func(q *facts.Queue) { q.NeverPreempts = true },
		"min runtime": func(q *facts.Queue) { q.ReclaimMinRuntime = new(int64) }, "another min runtime": func(q *facts.Queue) { q.ReclaimMinRuntime = new(int64(1)) },
		"no namespaces": func(q *facts.Queue) { q.Namespaces = nil },
		"namespaces": func(q *facts.Queue) {
			q.Namespaces = &facts.LabelSelector{Expressions: []facts.Requirement{{Key: "a"}}}
		},
	} {
		other := base()
		change(other)
		if SameQueue(base(), other) || SameQueue(other, base()) {
			t.Errorf("%s is not seen", name)
		}
	}
}
