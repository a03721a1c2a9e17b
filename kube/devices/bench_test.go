package devices

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// BenchmarkOneDevice decides pods that each have a claim for one device, among 20,000 nodes with 8 devices each, a driver's CEL expression in the class; each
// decision's writes are answered. With full, nine nodes of ten have no free device.
func BenchmarkOneDevice(b *testing.B) {
	for _, full := range []bool{false, true} {
		b.Run(fmt.Sprintf("full=%v", full), func(b *testing.B) { oneDevice(b, 20_000, 8, full) })
	}
}

func oneDevice(b *testing.B, nodes, devices int, full bool) {
	_, p := world(b)
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling, Devices: NewAllocator(b.Context(), MaxTime), NoPodEvents: true})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Unix(0, 0)
	s.Apply(facts.DRAUpserted{Object: p.DeviceClass(class("gpu", `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model in ["big", "small"]`))}, now)
	taken := 0
	allocate := func(claim, node string, device int) {
		c := p.ResourceClaim(exactly("gpu", 1))
		c.ClaimName, c.UID = facts.ClaimName{Namespace: "default", Name: claim}, claim
		c.Allocation = &facts.ClaimAllocation{Devices: []facts.AllocatedDevice{{DeviceID: facts.DeviceID{Driver: "gpu.example.com", Pool: node, Device: fmt.Sprintf("gpu-%d", device)}}}}
		s.Apply(facts.DRAUpserted{Object: c}, now)
	}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 64_000}, {Name: resource.NameMemory, Amount: 256 << 30}, {Name: resource.NamePods, Amount: 110},
		}}}, now)
		s.Apply(facts.DRAUpserted{Object: p.ResourceSlice(gpus(name, devices))}, now)
		for d := range devices {
			if full && i%10 != 0 {
				allocate(fmt.Sprintf("taken-%d", taken), name, d)
				taken++
			}
		}
	}
	r := &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}, {Name: resource.NameMemory, Amount: 1 << 30}}, ScoreCPU: 1000, ScoreMemory: 1 << 30}
	next, bound := 0, 0
	one := func() {
		name := fmt.Sprintf("p%d", next)
		next++
		c := p.ResourceClaim(exactly("gpu", 1))
		c.ClaimName, c.UID, c.Pod = facts.ClaimName{Namespace: "default", Name: name}, name, facts.UID(name)
		s.Apply(facts.DRAUpserted{Object: c}, now)
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: "default", Name: name, Ours: true, Requirements: r, ResourceClaims: []facts.ResourceClaimUse{{Claim: name, Generated: true}},
		}}, now)
		for s.Step(now, 1) > 0 { // the first ends early, for it has looked at all nodes
			for writes := s.Ready(now); len(writes) > 0; writes = s.Ready(now) {
				for _, w := range append([]bind.Write(nil), writes...) {
					if w.Kind == bind.WriteBinding {
						bound++
					}
					s.Finish(bind.Result{ID: w.ID, Outcome: bind.Written}, now)
				}
			}
		}
	}
	one()
	b.ResetTimer()
	for b.Loop() {
		one()
	}
	if bound != next {
		b.Fatalf("%d of %d pods were bound", bound, next)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}
