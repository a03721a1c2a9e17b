package cluster_test

import (
	"fmt"
	"math/bits"
	"slices"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

var (
	hallGPU = topology.GPU{
		Memory: 16 << 10, Grain: 10, Clients: 3, Strengths: topology.StrengthsOf(topology.Accounting, topology.Soft), Switch: 0, NUMANode: 0, Socket: 0,
	}
	hallMIG = topology.GPU{
		Memory: 16 << 10, Strengths: topology.StrengthsOf(topology.Hard), Switch: 1, NUMANode: 1, Socket: 1,
		Instances: []topology.Instance{{Name: "1g", Milli: 250, Memory: 4 << 10}, {Name: "2g", Milli: 500, Memory: 8 << 10}},
	}
	hallNIC = topology.NIC{Bandwidth: 50000, Functions: 2, RDMA: true}
)

// hallDevices are what nodes report; equal ones share a pointer.
var hallDevices = []*topology.Devices{
	{Owner: topology.OwnerHilbert, GPU: []topology.GPU{hallGPU, hallGPU, hallMIG}, NIC: []topology.NIC{hallNIC}},
	{Owner: topology.OwnerHilbert, GPU: []topology.GPU{hallGPU, hallGPU, hallMIG}, NIC: []topology.NIC{hallNIC}, ClosedGPUs: 2, ClosedNICs: 1},
	{Owner: topology.OwnerHilbert, GPU: []topology.GPU{hallGPU}, NIC: []topology.NIC{hallNIC, hallNIC}},
	{Owner: topology.OwnerKubelet, GPU: []topology.GPU{hallGPU, hallGPU}, NIC: []topology.NIC{hallNIC}},
	{Owner: topology.OwnerNone, GPU: []topology.GPU{hallGPU, hallMIG}},
}

var hallRequests = []topology.Request{
	{Whole: 1},
	{Whole: 2, Near: topology.Near{Level: topology.SameSwitch, Required: true}},
	{Milli: 250, Memory: 2 << 10},
	{Milli: 305, Isolation: topology.Soft},
	{Milli: 200, Isolation: topology.Hard},
	{Whole: 1, NIC: topology.NICRequest{Count: 1, RDMA: true, Bandwidth: 20000}, Near: topology.Near{Level: topology.SameNUMA, Required: true}},
	{NIC: topology.NICRequest{Count: 1, Function: true}},
}

// drawHallDevices draws what a pod might hold, sound or not.
func drawHallDevices(t *rapid.T) (g topology.Grant) {
	at := uint16(1) << rapid.IntRange(0, 2).Draw(t, "gpu index")
	switch rapid.IntRange(0, 4).Draw(t, "held device") {
	case 0:
		g = topology.Grant{GPUs: at, Milli: topology.FullGPU}
	case 1:
		g = topology.Grant{GPUs: at, Milli: 250, Memory: 2 << 10, Isolation: topology.Accounting}
	case 2:
		g = topology.Grant{GPUs: at, Milli: 310, Memory: 4 << 10, Isolation: topology.Soft}
	case 3:
		g = topology.Grant{GPUs: 4, Instance: 1, Isolation: topology.Hard} // as the annotation has it, without amounts
	default:
		g = topology.Grant{GPUs: at, Milli: topology.FullGPU, NICs: 1, NIC: topology.NICGrant{Bandwidth: 20000}}
	}
	return g
}

// overPromised says which device a pod was given beside the others that has not so much left; nothing where others were guessed, or hold what is
// not theirs.
func (h *hall) overPromised(slot cluster.Slot, uid facts.UID, grant *topology.Grant, displaces bool) string {
	if displaces || h.store.Pod(uid).Confirmed() || slices.ContainsFunc(h.store.PodsOn(slot), (*cluster.Pod).Guessed) {
		return ""
	}
	v := h.store.View(slot)
	for set := grant.GPUs; set != 0; set &= set - 1 {
		i := bits.TrailingZeros16(set)
		if grant.Instance > 0 { // strangers may hold what is not there to be held
			if n := v.Devices.Holders[i] >> (4 * (grant.Instance - 1)) & 15; n > 1 {
				return fmt.Sprintf("MIG instance %d of GPU %d is held by %d", grant.Instance-1, i, n)
			}
			continue
		}
		if v.Free[i] < 0 || v.Devices != nil && (v.Devices.Memory[i] < 0 || v.Devices.Clients[i] < 0) && v.Shape.Devices.Owner == topology.OwnerHilbert {
			return fmt.Sprintf("GPU %d is over-promised to %s: %+v", i, uid, *grant)
		}
	}
	for set := grant.NICs; set != 0; set &= set - 1 {
		if i := bits.TrailingZeros16(set); v.Devices.Bandwidth[i] < 0 || v.Devices.Functions[i] < 0 {
			return fmt.Sprintf("network card %d is over-promised to %s: %+v", i, uid, *grant)
		}
	}
	for i := range v.Resources {
		held := grant.Resources.Of(v.Resources[i].Name)
		for z, n := range held.NUMA {
			if n > 0 && v.ResourcesFree[i].NUMA[z] < 0 {
				return fmt.Sprintf("%s of NUMA node %d is over-promised to %s: %+v", v.Resources[i].Name, z, uid, *grant)
			}
		}
	}
	return ""
}
