package top

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/reporttest"
)

const topLendingText = `
NODE MODE READY OBSERVED NUMA CPUS FREE OF MEMORY FREE OF DEDICATED POOLS DEVICES HEADROOM LENT HELD DOWN EVICTIONS NOTE
n1 agent yes 10s 0 ........ 4 4 2Gi 2Gi 0 - - 2.5/1Gi 2/512Mi Weight 1
 1 ........ 4 4 2Gi 2Gi 0 - - 1/512Mi
n2 agent yes 60s 0 ........ 4 4 2Gi 2Gi 0 - - 2.5/1Gi STALE 2/512Mi Weight 0
 1 ........ 4 4 2Gi 2Gi 0 - - 1/512Mi STALE
n3 agent yes 10s 0 ........ 4 4 2Gi 2Gi 0 - - 2.5/1Gi CLOSED 2/512Mi Weight 0
 1 ........ 4 4 2Gi 2Gi 0 - - 1/512Mi CLOSED
n4 agent yes 10s 0 ........ 4 4 2Gi 2Gi 0 - - -
 1 ........ 4 4 2Gi 2Gi 0 - -

4 nodes: 32 of 32 CPUs can be promised, 0 pods have CPUs of their own.
`

func TestTopLending(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	view := &nodesView{}
	for name, change := range map[string]func(*v1alpha1.CustomNodeResource){
		"n1": func(c *v1alpha1.CustomNodeResource) {
			c.Status.Colocation.Evictions = []spec.EvictionRequest{{Namespace: "default", Name: "p", UID: "u"}}
		},
		"n2": func(c *v1alpha1.CustomNodeResource) { c.Status.ObservedAt = metav1.NewTime(noon.Add(-time.Minute)) },
		"n3": func(c *v1alpha1.CustomNodeResource) { c.Status.Colocation.Closed = "evicted" },
		"n4": func(c *v1alpha1.CustomNodeResource) { c.Status.Colocation = nil },
	} {
		c := reporttest.Lender(name, noon.Add(-10*time.Second))
		change(c)
		row := rowOfNode(c, noon, 15*time.Minute)
		view.Nodes = append(view.Nodes, row)
		if (row.Lending == nil) != (name == "n4") || row.Lending != nil && row.Lending.Problem != "" {
			t.Errorf("%s lends %+v", name, row.Lending)
		}
	}
	slices.SortFunc(view.Nodes, func(a, b nodeRow) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	if err := view.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	if squeezed(out.String()) != squeezed(topLendingText) {
		t.Errorf("got\n%s\nwant\n%s", squeezed(out.String()), topLendingText)
	}
}
