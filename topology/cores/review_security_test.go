package cores

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/topology"
)

func TestSecPools(t *testing.T) {
	t.Skip("issue 16: The node's promise holds when the agent, a disk or the hardware does not")
	d := Division{Shared: []PoolDemand{{"share", 12000}}}
	for i := 0; i < 14; i++ {
		d.Shared = append(d.Shared, PoolDemand{fmt.Sprintf("evil-%02d", i), 0})
	}
	d = d.normal()
	var count [topology.MaxNUMANodes]int
	count[0] = 16
	s := d.sizes(count, 2)
	t.Log("16 cores, share asks 12 CPUs =6 cores; 14 pools of 0 milli:", s.shared)
	count[0] = 14
	s = d.sizes(count, 2)
	t.Log("14 cores:", s.shared)
}
