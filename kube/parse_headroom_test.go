package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

func amountsOf(cpu, memory int64) spec.ReclaimedAmounts {
	return spec.ReclaimedAmounts{MilliCPU: cpu, MemoryMiB: memory}
}

func zonesOf(amounts ...spec.ReclaimedAmounts) (list []spec.ZoneHeadroom) {
	for i, a := range amounts {
		list = append(list, spec.ZoneHeadroom{Name: fmt.Sprint(i), ReclaimedAmounts: a})
	}
	return list
}

// What contradicts itself lends nothing, and wants nobody evicted.
func TestParseColocation(t *testing.T) {
	wish := spec.EvictionRequest{Namespace: "ns", Name: "p", UID: "u", Reason: "MemoryPressure", Message: strings.Repeat("x", 400), Urgent: true}
	many := make([]spec.EvictionRequest, maxWishes+1)
	for name, c := range map[string]struct {
		said *spec.Colocation
		want facts.Headroom
		err  string
	}{
		"nothing": {},
		"zero":    {said: &spec.Colocation{}, want: facts.Headroom{State: facts.HeadroomOpen}},
		"whole": {
			said: &spec.Colocation{Headroom: amountsOf(3000, 2), Zones: zonesOf(amountsOf(1000, 1), amountsOf(2500, 1)), Evictions: []spec.EvictionRequest{wish}},
			want: facts.Headroom{State: facts.HeadroomOpen, MilliCPU: 3000, Memory: 2 << 20},
		},
		"closed": {
			said: &spec.Colocation{Headroom: amountsOf(3000, 2), Closed: "evicted 10:00"},
			want: facts.Headroom{State: facts.HeadroomClosed, MilliCPU: 3000, Memory: 2 << 20, Note: "evicted 10:00"},
		},
		"more than the zones": {said: &spec.Colocation{Headroom: amountsOf(3000, 2), Zones: zonesOf(amountsOf(1000, 2), amountsOf(1999, 0))}, err: "where the zones have 2999 and 2"},
		"negative":            {said: &spec.Colocation{Headroom: amountsOf(-1, 2)}, err: "-1 millicores"},
		"absurd":              {said: &spec.Colocation{Headroom: amountsOf(1, 1<<33)}, err: "8589934592 MiB"},
		"negative zone":       {said: &spec.Colocation{Zones: zonesOf(amountsOf(1, -2))}, err: "zone 0"},
		"no UID":              {said: &spec.Colocation{Evictions: []spec.EvictionRequest{{Namespace: "ns", Name: "p"}}}, err: "ns/p"},
		"twice":               {said: &spec.Colocation{Evictions: []spec.EvictionRequest{wish, wish}}, err: "twice"},
		"too many":            {said: &spec.Colocation{Evictions: many}, err: "257 evictions"},
	} {
		got, wishes, err := ParseColocation(c.said)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || got.State != facts.HeadroomMalformed || got.Note == "" || wishes != nil {
				t.Errorf("%s: %+v, %v, error %v; want one with %q", name, got, wishes, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want || c.said != nil && len(wishes) != len(c.said.Evictions) {
			t.Errorf("%s: %+v, %v, error %v; want %+v", name, got, wishes, err, c.want)
		}
		for _, w := range wishes {
			if w.UID != "u" || !w.Urgent || w.Reason != wish.Reason || len(w.Message) != maxWishNotes {
				t.Errorf("%s: wish %+v", name, w)
			}
		}
	}
}

// lentReport is a report of what a node lends.
func lentReport(began time.Time, observed time.Duration, c *spec.Colocation) *nodev1alpha1.CustomNodeResource {
	n := agentReport("n", 4, began, observed)
	n.Status.Colocation = c
	return n
}

// Headroom and wishes grow stale sooner than zones do, and by our clock.
func TestHeadroomGrowsStale(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	now := began
	told := &collector{}
	f := newFreshness(told, 10*time.Minute, time.Minute)
	f.now = func() time.Time { return now }
	m := mirrorReports(f, NewParser("hilbert", nil))
	lends := &spec.Colocation{Headroom: amountsOf(3000, 2), Evictions: []spec.EvictionRequest{{Namespace: "ns", Name: "p", UID: "u"}}}
	closed := &spec.Colocation{Headroom: amountsOf(3000, 2), Closed: "evicted"}
	const fresh, stale = " lends 3000/2097152 open wishes 1", " lends 3000/2097152 stale wishes 0"
	for i, step := range []struct {
		second int
		do     func()
		want   string
	}{
		{0, func() { _ = m.Update(lentReport(began, -30*time.Second, lends)) }, "report n agent 4/64 []" + fresh},
		{29, func() { _ = f.expire() }, ""},
		{30, func() { _ = f.expire() }, "report n agent 4/64 []" + stale}, // the zones are promised on
		{31, func() { _ = f.expire() }, ""},
		{40, func() { _ = m.Update(lentReport(began, -29*time.Second, lends)) }, "report n agent 4/64 []" + fresh}, // its clock is slow, but it runs
		{99, func() { _ = f.expire() }, ""},
		{100, func() { _ = f.expire() }, "report n agent 4/64 []" + stale},
		{120, func() { _ = m.Update(lentReport(began, 0, closed)) }, "report n agent 4/64 [] lends 3000/2097152 closed wishes 0"},
		{180, func() { _ = f.expire() }, "report n agent 4/64 []" + stale},
		{720, func() { _ = f.expire() }, "report n none 4/64 [] stale" + stale},
		{730, func() { _ = m.Update(lentReport(began, 1, nil)) }, "report n agent 4/64 []"},
		{800, func() { _ = f.expire() }, "report n agent 4/64 []"},
	} {
		now = began.Add(time.Duration(step.second) * time.Second)
		step.do()
		if got := told.take(); got != step.want {
			t.Errorf("step %d: told %q, want %q", i, got, step.want)
		}
	}
}

// The level is read of the labels, and of Katalyst's annotation.
func TestReclaimedLevel(t *testing.T) {
	p := NewParser("hilbert", nil)
	for _, c := range []struct {
		labels, annotations map[string]string
		want                bool
	}{
		{nil, nil, false},
		{map[string]string{spec.LabelQoS: string(spec.QoSReclaimed)}, nil, true},
		{map[string]string{spec.LabelQoS: string(spec.QoSShared)}, nil, false},
		{map[string]string{spec.LabelQoS: "odd"}, nil, false},
		{nil, map[string]string{spec.AnnotationKatalystQoS: string(spec.QoSReclaimed)}, true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: c.labels, Annotations: c.annotations}}
		if got := p.Pod(pod).Requirements.Reclaimed; got != c.want {
			t.Errorf("labels %v, annotations %v: reclaimed %v", c.labels, c.annotations, got)
		}
	}
}
