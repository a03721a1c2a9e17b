package parse

import (
	"encoding/json"
	"testing"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// FuzzNodeReport: whatever a captured node writes into its CustomNodeResource, the ledger takes it and its books are sound, with a pod on the node that was promised something.
func FuzzNodeReport(f *testing.F) {
	whole := nodev1alpha1.CustomNodeResource{}
	whole.Name = "n"
	whole.Status.NodeStatus = *oneNUMANode()
	text, err := json.Marshal(&whole)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"metadata":{"name":"n"},"status":{"mode":"kubelet","threadsPerCore":-1,"topology":[{"type":"Socket","name":"0","children":[{"type":"NUMA","name":"99"}]}]}}`))
	f.Add([]byte(`{"metadata":{"name":"n"},"status":{"devices":{"gpus":[{"index":-1,"memoryMiB":9223372036854775807}],"owner":"hilbert"},"reclaimed":{"milliCPU":-9223372036854775808}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var n nodev1alpha1.CustomNodeResource
		if json.Unmarshal(data, &n) != nil {
			t.Skip()
		}
		store := cluster.NewStore()
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: 8000}}}})
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "u", Namespace: "ns", Name: "p", Node: "n", Requirements: &facts.Requirements{}}})
		p := NewParser("hilbert", nil)
		store.Apply(facts.NodeReported{Node: "n", Report: p.NodeReport(&n)})
		if err := store.Verify(); err != nil {
			t.Error(err)
		}
		store.Apply(facts.NodeReportRemoved{Node: "n"})
		if err := store.Verify(); err != nil {
			t.Errorf("after the report is gone: %v", err)
		}
	})
}
