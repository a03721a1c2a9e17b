package diff

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deviceWorld is one case.
type deviceWorld struct {
	*rand.Rand
	nodes   []*corev1.Node
	classes []*resourcev1.DeviceClass
	slices  []*resourcev1.ResourceSlice
	rules   []*resourcev1.DeviceTaintRule
	claims  []*resourcev1.ResourceClaim
	pods    []*corev1.Pod
}

func drawDeviceWorld(r *rand.Rand) *deviceWorld {
	w := &deviceWorld{Rand: r}
	for i := range 1 + r.IntN(4) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("n%d", i), Labels: oneOf(r, nil, map[string]string{"zone": "a"}, map[string]string{"zone": "a"}, map[string]string{"zone": "b"}),
		}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: apiresource.MustParse("100")}
		for j := range extendedResources {
			switch r.IntN(4) {
			case 0: // more than all pods ask for: whether it is enough is for another plugin to say
				n.Status.Allocatable[extendedResource(j)] = apiresource.MustParse("1000")
			case 1:
				n.Status.Allocatable[extendedResource(j)] = apiresource.MustParse("0")
			}
		}
		w.nodes = append(w.nodes, n)
	}
	for i := range 3 {
		if r.IntN(12) > 0 {
			w.classes = append(w.classes, w.class(i))
		}
	}
	for i := range w.nodes {
		for j := range r.IntN(3) {
			w.slices = append(w.slices, w.pool(fmt.Sprintf("p%d-%d", i, j), i)...)
		}
	}
	for i := range r.IntN(2) {
		w.slices = append(w.slices, w.pool(fmt.Sprintf("fabric%d", i), -1)...)
	}
	for i := range r.IntN(2) {
		w.rules = append(w.rules, w.rule(i))
	}
	claims := 1 + r.IntN(6)
	for i := range claims {
		w.claims = append(w.claims, w.claim(i))
	}
	for i := range 2 + r.IntN(6) {
		w.pods = append(w.pods, w.pod(i, claims))
	}
	return w
}

// extendedResources is how many there are. Class i may stand for the one of that number.
const extendedResources = 2

func extendedResource(i int) corev1.ResourceName {
	return corev1.ResourceName(fmt.Sprintf("example.com/device%d", i))
}

// askExtended has the containers of a pod ask for extended resources: those that classes say, and those that they have of themselves.
func (w *deviceWorld) askExtended(p *corev1.Pod) {
	container := func(name string) corev1.Container {
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceName("cpu"): apiresource.MustParse("0")}}}
		for range 1 + w.IntN(2) {
			resource := extendedResource(w.IntN(extendedResources))
			if w.IntN(4) == 0 {
				resource = corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + w.className())
			}
			c.Resources.Requests[resource] = *apiresource.NewQuantity(int64(1+w.IntN(2)), apiresource.DecimalSI)
		}
		return c
	}
	p.Spec.Containers = []corev1.Container{container("main")}
	if w.IntN(3) == 0 {
		p.Spec.Containers = append(p.Spec.Containers, container("beside"))
	}
	if w.IntN(2) == 0 {
		c := container("first")
		if w.IntN(2) == 0 {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c, container("second"))
	}
}

// expressions of classes and requests. The last fails where a device has no model.
func (w *deviceWorld) selectors() []resourcev1.DeviceSelector {
	expression := oneOf(w.Rand, "", "", `device.driver == "d0"`, `"d0" in device.attributes && "model" in device.attributes["d0"] && device.attributes["d0"].model == "big"`,
		`"d0" in device.capacity && "memory" in device.capacity["d0"] && device.capacity["d0"].memory.compareTo(quantity("6")) >= 0`, `device.attributes["d0"].model == "big"`)
	if expression == "" {
		return nil
	}
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

func (w *deviceWorld) className() string { return fmt.Sprintf("class%d", w.IntN(3)) }

func (w *deviceWorld) class(i int) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class%d", i)}, Spec: resourcev1.DeviceClassSpec{Selectors: w.selectors()}}
	if i < extendedResources && w.IntN(4) > 0 {
		c.Spec.ExtendedResourceName = new(string(extendedResource(i)))
	}
	return c
}

// pool draws a pool of one or two slices that a node has, or with a negative node several may have.
func (w *deviceWorld) pool(name string, node int) (list []*resourcev1.ResourceSlice) {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Driver, s.Spec.Pool = oneOf(w.Rand, "d0", "d0", "d1"), resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}
	each := false
	switch {
	case node >= 0:
		s.Spec.NodeName = &w.nodes[node].Name
	case w.IntN(3) == 0:
		s.Spec.AllNodes = new(true)
	case w.IntN(2) == 0:
		s.Spec.NodeSelector = w.zone()
	default:
		s.Spec.PerDeviceNodeSelection, each = new(true), true
	}
	counters := w.IntN(4) == 0
	for i := range 1 + w.IntN(4) {
		d := w.device(i)
		if each {
			switch w.IntN(3) {
			case 0:
				d.AllNodes = new(true)
			case 1:
				d.NodeName = &w.nodes[w.IntN(len(w.nodes))].Name
			default:
				d.NodeSelector = w.zone()
			}
		}
		if counters {
			d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourcev1.Counter{"slices": {Value: *apiresource.NewQuantity(int64(1+w.IntN(3)), apiresource.DecimalSI)}}}}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	list = append(list, s)
	if counters {
		second := s.DeepCopy()
		second.Name, second.Spec.Devices = name+"-counters", nil
		second.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "set", Counters: map[string]resourcev1.Counter{"slices": {Value: *apiresource.NewQuantity(4, apiresource.DecimalSI)}}}}
		list = append(list, second)
	}
	count := len(list)
	if w.IntN(10) == 0 {
		count++ // one is still to come
	}
	for _, slice := range list {
		slice.Spec.Pool.ResourceSliceCount = int64(count)
	}
	return list
}

func (w *deviceWorld) zone() *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "zone", Operator: oneOf(w.Rand, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{"a"}},
	}}}}
}

func (w *deviceWorld) device(i int) resourcev1.Device {
	d := resourcev1.Device{Name: fmt.Sprintf("dev%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}}
	if w.IntN(8) > 0 {
		d.Attributes["d0/model"] = resourcev1.DeviceAttribute{StringValue: new(oneOf(w.Rand, "big", "big", "small"))}
	}
	if w.IntN(4) > 0 {
		d.Attributes["d0/numa"] = resourcev1.DeviceAttribute{IntValue: new(int64(w.IntN(2)))}
	}
	if w.IntN(3) > 0 {
		d.Capacity["d0/memory"] = resourcev1.DeviceCapacity{Value: *apiresource.NewQuantity(int64(4+4*w.IntN(2)), apiresource.DecimalSI)}
		if w.IntN(3) == 0 {
			d.AllowMultipleAllocations = new(true)
		}
	}
	if w.IntN(8) == 0 {
		d.Taints = []resourcev1.DeviceTaint{w.taint()}
	}
	if w.IntN(8) == 0 {
		d.BindingConditions, d.BindingFailureConditions = []string{"Ready"}, []string{"Failed"}
		d.BindsToNode = new(w.IntN(2) == 0)
	}
	return d
}

func (w *deviceWorld) taint() resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{
		Key: oneOf(w.Rand, "t0", "t1"), Value: oneOf(w.Rand, "", "v"),
		Effect: oneOf(w.Rand, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNone),
	}
}

func (w *deviceWorld) rule(i int) *resourcev1.DeviceTaintRule {
	r := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rule%d", i)}, Spec: resourcev1.DeviceTaintRuleSpec{Taint: w.taint()}}
	if w.IntN(8) > 0 {
		r.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{
			Driver: oneOf(w.Rand, nil, nil, new("d0")), Pool: oneOf(w.Rand, nil, new("p0-0"), new("p1-0")), Device: oneOf(w.Rand, nil, new("dev0"), new("dev1")),
		}
	}
	return r
}

func (w *deviceWorld) tolerations() []resourcev1.DeviceToleration {
	return oneOf(w.Rand, nil, nil, nil, []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}},
		[]resourcev1.DeviceToleration{{Key: "t0", Operator: resourcev1.DeviceTolerationOpEqual, Value: "v", Effect: resourcev1.DeviceTaintEffectNoSchedule}})
}

func (w *deviceWorld) capacity() *resourcev1.CapacityRequirements {
	if w.IntN(4) > 0 {
		return nil
	}
	return &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]apiresource.Quantity{"d0/memory": *apiresource.NewQuantity(int64(1+w.IntN(5)), apiresource.DecimalSI)}}
}

func (w *deviceWorld) request(name string) resourcev1.DeviceRequest {
	r := resourcev1.DeviceRequest{Name: name}
	all := func() (resourcev1.DeviceAllocationMode, int64) {
		if w.IntN(6) == 0 {
			return resourcev1.DeviceAllocationModeAll, 0
		}
		return resourcev1.DeviceAllocationModeExactCount, int64(1 + w.IntN(2))
	}
	if w.IntN(2) > 0 {
		r.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: w.className(), Selectors: w.selectors(), Tolerations: w.tolerations(), Capacity: w.capacity()}
		r.Exactly.AllocationMode, r.Exactly.Count = all()
		if w.IntN(8) == 0 {
			r.Exactly.AdminAccess = new(true)
		}
		return r
	}
	for i := range 2 + w.IntN(2) {
		sub := resourcev1.DeviceSubRequest{Name: fmt.Sprintf("s%d", i), DeviceClassName: w.className(), Selectors: w.selectors(), Tolerations: w.tolerations(), Capacity: w.capacity()}
		sub.AllocationMode, sub.Count = all()
		r.FirstAvailable = append(r.FirstAvailable, sub)
	}
	return r
}

func (w *deviceWorld) claim(i int) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("c%d", i)}}
	c.UID = uid(c.Name)
	requests := oneOf(w.Rand, 1, 1, 1, 2)
	for j := range requests {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, w.request(fmt.Sprintf("r%d", j)))
	}
	switch w.IntN(6) {
	case 0:
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: new(resourcev1.FullyQualifiedName("d0/numa"))}}
	case 1:
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{DistinctAttribute: new(resourcev1.FullyQualifiedName("d0/numa"))}}
	}
	if w.IntN(20) == 0 {
		c.DeletionTimestamp, c.Finalizers = &deleted, []string{resourcev1.Finalizer}
	}
	if w.IntN(4) == 0 {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p0", UID: uid(oneOf(w.Rand, "p0", "p1")), Controller: new(true)}}
	}
	return c
}

func (w *deviceWorld) pod(i, claims int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", i)}}
	p.UID, p.Spec.SchedulerName = uid(p.Name), schedulerName
	if w.IntN(4) == 0 {
		w.askExtended(p)
		if w.IntN(2) == 0 {
			return p
		}
	}
	used := make(map[string]bool)
	for range oneOf(w.Rand, 1, 1, 2) {
		claim := fmt.Sprintf("c%d", w.IntN(claims))
		if w.IntN(30) == 0 {
			claim = "missing"
		}
		if used[claim] {
			continue
		}
		used[claim] = true
		entry := corev1.PodResourceClaim{Name: claim, ResourceClaimName: new(claim)}
		if w.IntN(6) == 0 {
			entry.ResourceClaimName, entry.ResourceClaimTemplateName = nil, new("template")
			if w.IntN(4) > 0 {
				p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: claim, ResourceClaimName: oneOf(w.Rand, new(claim), new(claim), nil)})
			}
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, entry)
	}
	return p
}
