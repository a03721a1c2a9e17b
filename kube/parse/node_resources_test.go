package parse_test

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/parse"
)

func TestNodeResources(t *testing.T) {
	got, err := parse.NodeResources([]spec.NodeResource{{Name: "example.com/net", Amount: 5}, {Name: "example.com/fpga", Amount: 2}})
	if want := "[{example.com/fpga 2} {example.com/net 5}]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
	for _, bad := range [][]spec.NodeResource{
		{{Name: "cpu", Amount: 1}},
		{{Name: "kubernetes.io/x", Amount: 1}},
		{{Name: "hilbert.dev/gpu-core", Amount: 1}},
		{{Name: "node.hilbert.dev/x", Amount: 1}},
		{{Name: "nvidia.com/gpu", Amount: 1}},
		{{Name: "example.com/fpga", Amount: -1}},
		{{Name: "example.com/fpga", Amount: 1 << 41}},
		{{Name: "example.com/fpga"}, {Name: "example.com/fpga"}},
		make([]spec.NodeResource, 17),
	} {
		if got, err := parse.NodeResources(bad); err == nil || got != nil {
			t.Errorf("%v is read as %v", bad, got)
		}
	}
}
