package place

import (
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/topology"
)

// drawDevices lets a request ask for more than compute.
func drawDevices(t *rapid.T, r *topology.Request) {
	how := rapid.IntRange(0, 11).Draw(t, "more of devices")
	switch {
	case r.Milli > 0 && how == 0:
		r.Memory = 1 << 10
	case r.Milli > 0 && how == 1:
		r.Isolation = topology.Soft
	case r.Milli > 0 && how == 2:
		r.Milli, r.Isolation = min(r.Milli, 300), topology.Hard
	case how == 3:
		r.NIC = topology.NICRequest{Count: 1, RDMA: true, Bandwidth: 30000}
	case how == 4:
		r.NIC = topology.NICRequest{Count: 1, Function: true}
		r.Near = topology.Near{Level: topology.SameSwitch, Required: true}
	case how == 5 && !r.IsZero():
		r.Near = topology.Near{Level: topology.SameNUMA, Required: rapid.Bool().Draw(t, "required")}
	}
}

// reportDevices draws what an agent says of devices; most say nothing.
func reportDevices(t *rapid.T) *topology.Devices {
	return rapid.SampledFrom([]*topology.Devices{nil, nil, nil, someDevices, fewDevices, countedDevices}).Draw(t, "devices")
}

var (
	someGPU = topology.GPU{
		Memory: 8 << 10, Grain: 20, Clients: 3, Strengths: topology.StrengthsOf(topology.Accounting, topology.Soft), Switch: 0, NUMANode: 0, Socket: 0,
	}
	otherGPU = topology.GPU{
		Memory: 8 << 10, Grain: 20, Clients: 2, Strengths: topology.StrengthsOf(topology.Soft, topology.Hard), Switch: 1, NUMANode: 1, Socket: 0,
		Instances: []topology.Instance{{Name: "1g", Milli: 300, Memory: 2 << 10}, {Name: "1g", Milli: 300, Memory: 2 << 10}},
	}
	someNIC = topology.NIC{Bandwidth: 50000, Functions: 2, RDMA: true}

	someDevices    = &topology.Devices{Owner: topology.OwnerHilbert, GPU: []topology.GPU{someGPU, someGPU, otherGPU}, NIC: []topology.NIC{someNIC, someNIC}}
	fewDevices     = &topology.Devices{Owner: topology.OwnerHilbert, GPU: []topology.GPU{someGPU, someGPU}, NIC: []topology.NIC{someNIC}, ClosedGPUs: 1}
	countedDevices = &topology.Devices{Owner: topology.OwnerKubelet, GPU: []topology.GPU{someGPU}, NIC: []topology.NIC{someNIC}}
)
