package hollow

import (
	"encoding/json"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/topology"
)

// LawState is what the laws remember after online pods have used so many CPUs of a machine for a while, with no reclaimed pods on it. An agent that
// starts with it offers at once what it would otherwise offer after three minutes.
type LawState struct {
	data   []byte
	uptime time.Duration
}

// LearnLawState runs the laws on such a machine for a time.
func LearnLawState(m *topology.Machine, config *spec.Node, use float64, during time.Duration) (LawState, error) {
	const each = time.Second
	params := advise.Defaults()
	var memory advise.State
	o := advise.Observation{}
	divisible := len(m.CPUs) - *config.ReservedCores*m.Threads()
	var total float64
	for i := range m.NUMA {
		n := &m.NUMA[i]
		cpus := n.CPUs.Len()
		if i == 0 {
			cpus -= *config.ReservedCores * m.Threads()
		}
		bytes := advise.Known(float64(n.Memory))
		total += bytes.Value
		o.NUMANodes = append(o.NUMANodes, advise.NUMANode{
			Divisible: cpus, Threads: m.Threads(), SharedUse: advise.Known(use * float64(cpus) / float64(divisible)),
			SharedDelay: advise.Known(0), LentUse: advise.Known(0), SharedRequests: advise.Known(0), MemoryTotal: bytes, MemoryFree: bytes,
			InactiveFile: advise.Known(0), ReclaimedMemory: advise.Known(0), PromisedUse: advise.Known(0),
			Reserved: int64(*config.ReservedMemory) * topology.Mebibyte,
		})
	}
	o.Node = advise.Node{MemoryTotal: advise.Known(total), MemoryAvailable: advise.Known(total), MemoryPressure: advise.Known(0), CPUPressure: advise.Known(0)}
	began := time.Now().Add(-during)
	for o.At = each; o.At <= during; o.At += each {
		o.Wall = began.Add(o.At)
		advise.Step(&o, &params, &memory)
	}
	data, err := json.Marshal(map[string]any{"advise": &memory})
	return LawState{data: data, uptime: during}, err
}
