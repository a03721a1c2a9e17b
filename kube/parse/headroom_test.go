package parse

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

func amountsOf(cpu, memory int64) spec.ReclaimedAmounts {
	return spec.ReclaimedAmounts{MilliCPU: cpu, MemoryMiB: memory}
}

func numaOf(amounts ...spec.ReclaimedAmounts) (list []spec.NUMAHeadroom) {
	for i, a := range amounts {
		list = append(list, spec.NUMAHeadroom{Name: fmt.Sprint(i), ReclaimedAmounts: a})
	}
	return list
}

// What contradicts itself lends nothing, and wants nobody evicted.
func TestParseColocation(t *testing.T) {
	request := spec.EvictionRequest{Namespace: "ns", Name: "p", UID: "u", Reason: "MemoryPressure", Message: strings.Repeat("x", 400), Urgent: true}
	many := make([]spec.EvictionRequest, maxEvictionRequests+1)
	for name, c := range map[string]struct {
		said *spec.Colocation
		want facts.Headroom
		err  string
	}{
		"nothing": {},
		"zero":    {said: &spec.Colocation{}, want: facts.Headroom{State: facts.HeadroomOpen}},
		"whole": {
			said: &spec.Colocation{Headroom: amountsOf(3000, 2), NUMANodes: numaOf(amountsOf(1000, 1), amountsOf(2500, 1)), Evictions: []spec.EvictionRequest{request}},
			want: facts.Headroom{State: facts.HeadroomOpen, MilliCPU: 3000, Memory: 2 << 20},
		},
		"closed": {
			said: &spec.Colocation{Headroom: amountsOf(3000, 2), Closed: "evicted 10:00"},
			want: facts.Headroom{State: facts.HeadroomClosed, MilliCPU: 3000, Memory: 2 << 20, Note: "evicted 10:00"},
		},
		"more than the NUMA nodes": {said: &spec.Colocation{Headroom: amountsOf(3000, 2), NUMANodes: numaOf(amountsOf(1000, 2), amountsOf(1999, 0))}, err: "where the NUMA nodes have 2999 and 2"},
		"negative":                 {said: &spec.Colocation{Headroom: amountsOf(-1, 2)}, err: "-1 millicores"},
		"absurd":                   {said: &spec.Colocation{Headroom: amountsOf(1, 1<<33)}, err: "8589934592 MiB"},
		"negative NUMA node":       {said: &spec.Colocation{NUMANodes: numaOf(amountsOf(1, -2))}, err: "NUMA node 0"},
		"no UID":                   {said: &spec.Colocation{Evictions: []spec.EvictionRequest{{Namespace: "ns", Name: "p"}}}, err: "ns/p"},
		"twice":                    {said: &spec.Colocation{Evictions: []spec.EvictionRequest{request, request}}, err: "twice"},
		"too many":                 {said: &spec.Colocation{Evictions: many}, err: "257 evictions"},
	} {
		got, requests, err := NodeHeadroom(c.said)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || got.State != facts.HeadroomMalformed || got.Note == "" || requests != nil {
				t.Errorf("%s: %+v, %v, error %v; want one with %q", name, got, requests, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want || c.said != nil && len(requests) != len(c.said.Evictions) {
			t.Errorf("%s: %+v, %v, error %v; want %+v", name, got, requests, err, c.want)
		}
		for _, w := range requests {
			if w.UID != "u" || !w.Urgent || w.Reason != request.Reason || len(w.Message) != maxRequestNotes {
				t.Errorf("%s: request %+v", name, w)
			}
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
