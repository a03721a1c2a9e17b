package devices

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
)

// gpus is a slice of a node with devices gpu-0, gpu-1 and so on; the first is of model big, the others small.
func gpus(node string, count int, edit ...func(*resourcev1.ResourceSlice)) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-gpu"},
		Spec:       resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}},
	}
	for i := range count {
		model := "small"
		if i == 0 {
			model = "big"
		}
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}},
		})
	}
	for _, f := range edit {
		f(s)
	}
	return s
}

func class(name, expression string) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if expression != "" {
		c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
	}
	return c
}

func exactly(class string, count int64, edit ...func(*resourcev1.ExactDeviceRequest)) *resourcev1.ResourceClaim {
	r := &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}
	for _, f := range edit {
		f(r)
	}
	return &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: r}}}}}
}

// world is a Book with a real Allocator over objects as the API has them.
func world(t testing.TB, objects ...any) (*dra.Book, *parse.Parser) {
	b, p := dra.New(), parse.NewParser("hilbert", nil)
	b.SetAllocator(NewAllocator(t.Context(), time.Hour))
	for _, object := range objects {
		switch o := object.(type) {
		case *resourcev1.ResourceSlice:
			b.Set(p.ResourceSlice(o))
		case *resourcev1.DeviceClass:
			b.Set(p.DeviceClass(o))
		case *resourcev1.DeviceTaintRule:
			b.Set(p.DeviceTaintRule(o))
		}
	}
	return b, p
}

// take gives a pod, with a claim of its own, a place on node n1, and says which devices it got, or why none.
func take(b *dra.Book, p *parse.Parser, name string, claim *resourcev1.ResourceClaim) string {
	claim = claim.DeepCopy()
	claim.Namespace, claim.Name, claim.UID = "default", name, "uid"
	b.Set(p.ResourceClaim(claim))
	b.Use(&facts.Pod{UID: facts.UID(name), Namespace: "default", Name: name, ResourceClaims: []facts.ResourceClaimUse{{Claim: name}}})
	if conflict, _ := b.Take(facts.UID(name), &facts.Node{Name: "n1", Labels: map[string]string{"zone": "a"}}, func(string) bool { return false }); conflict != "" {
		return conflict
	}
	var out []string
	for _, o := range b.Obligations(facts.UID(name)) {
		if o.Protect {
			continue
		}
		for i := range 9 {
			if strings.Contains(o.Allocation, fmt.Sprintf(`"device":"gpu-%d"`, i)) {
				out = append(out, fmt.Sprintf("gpu-%d", i))
			}
		}
	}
	return strings.Join(out, " ")
}

func TestAllocator(t *testing.T) {
	big := class("big", `device.attributes["gpu.example.com"].model == "big"`)
	all := class("all", "")
	admin := func(r *resourcev1.ExactDeviceRequest) { r.AdminAccess = new(true) }
	either := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{
			{Name: "two", DeviceClassName: "big", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2},
			{Name: "one", DeviceClassName: "all", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		},
	}}}}}
	tainted := func(s *resourcev1.ResourceSlice) {
		s.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	}
	shared := func(s *resourcev1.ResourceSlice) {
		s.Spec.Devices[0].AllowMultipleAllocations = new(true)
		s.Spec.Devices[0].Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}}
	}
	six := func(r *resourcev1.ExactDeviceRequest) {
		r.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("6Gi")}}
	}
	about := func(effect resourcev1.DeviceTaintEffect, s resourcev1.DeviceTaintSelector) *resourcev1.DeviceTaintRule {
		return &resourcev1.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{Name: "repair"},
			Spec:       resourcev1.DeviceTaintRuleSpec{DeviceSelector: &s, Taint: resourcev1.DeviceTaint{Key: "repair", Effect: effect}},
		}
	}
	tolerant := func(r *resourcev1.ExactDeviceRequest) {
		r.Tolerations = []resourcev1.DeviceToleration{{Key: "repair", Operator: resourcev1.DeviceTolerationOpExists}}
	}
	first := about(resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintSelector{Device: new("gpu-0")})
	for _, c := range []struct {
		name    string
		objects []any
		claims  []*resourcev1.ResourceClaim
		want    []string
	}{
		{"counts", []any{all, gpus("n1", 3)}, []*resourcev1.ResourceClaim{exactly("all", 2), exactly("all", 2), exactly("all", 1)}, []string{"gpu-0 gpu-1", refused, "gpu-2"}},
		{"a class selects", []any{big, gpus("n1", 3)}, []*resourcev1.ResourceClaim{exactly("big", 1), exactly("big", 1)}, []string{"gpu-0", refused}},
		{"other nodes' devices", []any{all, gpus("n2", 3)}, []*resourcev1.ResourceClaim{exactly("all", 1)}, []string{refused}},
		{"no class", []any{gpus("n1", 1)}, []*resourcev1.ResourceClaim{exactly("all", 1)}, []string{"request r: device class all does not exist"}},
		{"administration is beside", []any{all, gpus("n1", 1)}, []*resourcev1.ResourceClaim{exactly("all", 1, admin), exactly("all", 1), exactly("all", 1, admin)}, []string{"gpu-0", "gpu-0", "gpu-0"}},
		{"the first that is available", []any{all, big, gpus("n1", 2)}, []*resourcev1.ResourceClaim{either}, []string{"gpu-0"}},
		{"taints", []any{all, gpus("n1", 2, tainted)}, []*resourcev1.ResourceClaim{exactly("all", 1), exactly("all", 1)}, []string{"gpu-1", refused}},
		{"a rule about a device", []any{first, all, gpus("n1", 2)}, []*resourcev1.ResourceClaim{exactly("all", 1), exactly("all", 1), exactly("all", 1, tolerant)}, []string{"gpu-1", refused, "gpu-0"}},
		{"a rule that comes later", []any{all, gpus("n1", 2), first}, []*resourcev1.ResourceClaim{exactly("all", 2), exactly("all", 1)}, []string{refused, "gpu-1"}},
		{"a rule about a pool", []any{about(resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintSelector{Pool: new("n1")}), all, gpus("n1", 2)}, []*resourcev1.ResourceClaim{exactly("all", 1)}, []string{refused}},
		{"a rule about another pool", []any{about(resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintSelector{Pool: new("n2")}), all, gpus("n1", 2)}, []*resourcev1.ResourceClaim{exactly("all", 1)}, []string{"gpu-0"}},
		{"a rule about a driver", []any{about(resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintSelector{Driver: new("gpu.example.com")}), all, gpus("n1", 1)}, []*resourcev1.ResourceClaim{exactly("all", 1)}, []string{refused}},
		{"a rule without effect", []any{about(resourcev1.DeviceTaintEffectNone, resourcev1.DeviceTaintSelector{}), all, gpus("n1", 1)}, []*resourcev1.ResourceClaim{exactly("all", 1)}, []string{"gpu-0"}},
		{"shares", []any{all, gpus("n1", 1, shared)}, []*resourcev1.ResourceClaim{exactly("all", 1, six), exactly("all", 1, six)}, []string{"gpu-0", refused}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, p := world(t, c.objects...)
			for i, claim := range c.claims {
				if got := take(b, p, fmt.Sprintf("c%d", i), claim); got != c.want[i] {
					t.Errorf("claim %d gets %q, want %q", i, got, c.want[i])
				}
			}
			if err := b.Verify(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A pool that several nodes share, and one with a slice that has not come yet.
func TestAllocatorOfSharedPools(t *testing.T) {
	inZone := func(zone string) func(*resourcev1.ResourceSlice) {
		return func(s *resourcev1.ResourceSlice) {
			s.Spec.NodeName = nil
			s.Spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
			}}}
		}
	}
	b, p := world(t, class("all", ""), gpus("fabric", 1, inZone("a")))
	if got := take(b, p, "c", exactly("all", 1)); got != "gpu-0" {
		t.Errorf("in the zone: %q", got)
	}
	b, p = world(t, class("all", ""), gpus("fabric", 1, inZone("b")))
	if got := take(b, p, "c", exactly("all", 1)); got != refused {
		t.Errorf("in another zone: %q", got)
	}
	b, p = world(t, class("all", ""), gpus("n1", 1, func(s *resourcev1.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }))
	if got := take(b, p, "c", exactly("all", 1)); got != refused {
		t.Errorf("of half a pool: %q", got)
	}
}

// What a rule has tainted is free again once the rule is gone.
func TestTaintRuleIsLifted(t *testing.T) {
	b, p := world(t, class("all", ""), gpus("n1", 1))
	rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourcev1.DeviceTaintRuleSpec{
		DeviceSelector: &resourcev1.DeviceTaintSelector{}, Taint: resourcev1.DeviceTaint{Key: "k", Effect: resourcev1.DeviceTaintEffectNoSchedule},
	}}
	b.Changed()
	b.Set(p.DeviceTaintRule(rule))
	if nodes, _ := b.Changed(); len(nodes) != 1 {
		t.Errorf("a rule has changed the nodes %v", nodes)
	}
	if got := take(b, p, "c", exactly("all", 1)); got != refused {
		t.Errorf("with the rule: %q", got)
	}
	b.Remove(facts.DRAName{Kind: facts.DeviceTaintRuleKind, Name: "r"})
	if got := take(b, p, "c", exactly("all", 1)); got != "gpu-0" {
		t.Errorf("without the rule: %q", got)
	}
}

func TestExplain(t *testing.T) {
	b, p := world(t, class("gpu.example.com", ""), gpus("n1", 3))
	take(b, p, "c", exactly("gpu.example.com", 2))
	claim := exactly("gpu.example.com", 2)
	node := &facts.Node{Name: "n1"}
	needs := &facts.ClaimNeeds{Unallocated: []facts.ClaimRequests{p.ResourceClaim(claim).Requests}, Key: "k"}
	if got, want := b.View(node).Explain(node, needs), "has 2 of 3 devices of class gpu.example.com taken"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
