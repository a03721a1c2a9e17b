package parse

import (
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cluster/facts"
)

// GroupResource is the API group of dynamic resource allocation (DRA).
const GroupResource = resourcev1.GroupName

// DRAResources are the resources of DRA objects, by their kind.
var DRAResources = map[facts.DRAKind]string{
	facts.ResourceClaimKind:   "resourceclaims",
	facts.DeviceClassKind:     "deviceclasses",
	facts.ResourceSliceKind:   "resourceslices",
	facts.DeviceTaintRuleKind: "devicetaintrules",
}

// claimParser reads the objects of dynamic resource allocation: claims, what they were given, and the classes, slices and rules that the allocator goes by. It keeps
// the specs of those that the allocator reads whole.
//
// Claims that ask for the same share what they ask for, so that a template's thousand claims cost one.
type claimParser struct {
	*vocabulary
	claimSpecs map[string]facts.ClaimRequests // what claims ask for, by its encoding
}

// resourceClaims lists the entries of the pod's spec.resourceClaims that ask for anything.
func (p *claimParser) resourceClaims(pod *corev1.Pod) (uses []facts.ResourceClaimUse) {
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		if entry.ResourceClaimName != nil {
			uses = append(uses, facts.ResourceClaimUse{Claim: p.strings.get(*entry.ResourceClaimName)})
			continue
		}
		use := facts.ResourceClaimUse{Generated: true}
		statuses := pod.Status.ResourceClaimStatuses
		if at := slices.IndexFunc(statuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == entry.Name }); at >= 0 {
			if statuses[at].ResourceClaimName == nil {
				continue // nothing had to be made of the template
			}
			use.Claim = *statuses[at].ResourceClaimName
		}
		uses = append(uses, use)
	}
	return uses
}

// ResourceClaim parses a claim.
func (p *claimParser) ResourceClaim(c *resourcev1.ResourceClaim) *facts.ResourceClaim {
	out := &facts.ResourceClaim{
		ClaimName: facts.ClaimName{Namespace: p.strings.get(c.Namespace), Name: c.Name}, UID: string(c.UID),
		Requests:  p.ClaimRequests(&c.Spec.Devices),
		Protected: slices.Contains(c.Finalizers, resourcev1.Finalizer), Deleting: c.DeletionTimestamp != nil,
	}
	out.Version, _ = strconv.ParseUint(c.ResourceVersion, 10, 64) // 0 on a server whose versions cannot be compared
	if controller := metav1.GetControllerOfNoCopy(c); controller != nil {
		out.Pod = facts.UID(controller.UID)
	}
	for i := range c.Status.ReservedFor {
		out.ReservedFor = append(out.ReservedFor, facts.UID(c.Status.ReservedFor[i].UID))
	}
	if c.Status.Allocation != nil {
		out.Allocation = p.Allocation(c.Status.Allocation)
	}
	for i := range c.Status.Devices {
		d := &c.Status.Devices[i]
		for j := range d.Conditions {
			if d.Conditions[j].Status == metav1.ConditionTrue {
				out.Conditions = append(out.Conditions, facts.DeviceCondition{
					DeviceID: facts.DeviceID{Driver: d.Driver, Pool: d.Pool, Device: d.Device}, Type: d.Conditions[j].Type, Message: d.Conditions[j].Message,
				})
			}
		}
	}
	return out
}

// maxClaimSpecs bounds the specs that are shared between claims.
const maxClaimSpecs = 1024

// ClaimRequests reads what a claim asks for. Claims that ask for the same share it.
func (p *claimParser) ClaimRequests(devices *resourcev1.DeviceClaim) facts.ClaimRequests {
	key, err := json.Marshal(devices)
	if err != nil {
		p.warner.Warn("resourceclaim", "the requests cannot be encoded", "err", err)
	}
	if known, ok := p.claimSpecs[string(key)]; ok {
		return known
	}
	out := facts.ClaimRequests{Key: string(key), Spec: devices.DeepCopy()}
	for i := range devices.Requests {
		r := &devices.Requests[i]
		if r.Exactly != nil {
			out.Classes = append(out.Classes, facts.ClassUse{Request: r.Name, Class: r.Exactly.DeviceClassName})
		}
		for j := range r.FirstAvailable {
			request := r.Name + "/" + r.FirstAvailable[j].Name
			out.Classes = append(out.Classes, facts.ClassUse{Request: request, Class: r.FirstAvailable[j].DeviceClassName})
			out.Alternatives = append(out.Alternatives, facts.Alternative{Request: request, Worth: int64(resourcev1.FirstAvailableDeviceRequestMaxSize - j)})
		}
	}
	if p.claimSpecs == nil || len(p.claimSpecs) >= maxClaimSpecs {
		p.claimSpecs = make(map[string]facts.ClaimRequests)
	}
	p.claimSpecs[out.Key] = out
	return out
}

// Allocation parses what a claim was given.
func (p *claimParser) Allocation(a *resourcev1.AllocationResult) *facts.ClaimAllocation {
	out := &facts.ClaimAllocation{}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		d := facts.AllocatedDevice{
			DeviceID: facts.DeviceID{Driver: p.strings.get(r.Driver), Pool: p.strings.get(r.Pool), Device: p.strings.get(r.Device)},
			Request:  p.strings.get(r.Request), Admin: r.AdminAccess != nil && *r.AdminAccess,
			Binding: r.BindingConditions, Failure: r.BindingFailureConditions,
		}
		if r.ShareID != nil {
			d.Share = string(*r.ShareID)
		}
		if len(r.ConsumedCapacity) > 0 {
			if consumed, err := json.Marshal(r.ConsumedCapacity); err == nil {
				d.Consumed = string(consumed)
			}
		}
		out.Devices = append(out.Devices, d)
	}
	if a.NodeSelector != nil {
		out.Nodes = []facts.Term{} // not nil: without a term that can match, nothing does
		for i := range a.NodeSelector.NodeSelectorTerms {
			if term, ok := p.constraints.term(&a.NodeSelector.NodeSelectorTerms[i]); ok {
				out.Nodes = append(out.Nodes, term)
			}
		}
	}
	return out
}

// DeviceClass parses a device class.
func (p *claimParser) DeviceClass(c *resourcev1.DeviceClass) *facts.DeviceClass {
	out := &facts.DeviceClass{Name: c.Name, Created: c.CreationTimestamp.UnixNano(), Spec: &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Spec: c.Spec}}
	if c.Spec.ExtendedResourceName != nil {
		out.Extended = p.strings.get(*c.Spec.ExtendedResourceName)
	}
	return out
}

// ResourceSlice parses a slice.
func (p *claimParser) ResourceSlice(s *resourcev1.ResourceSlice) *facts.ResourceSlice {
	out := &facts.ResourceSlice{
		Name: s.Name, PoolID: facts.PoolID{Driver: p.strings.get(s.Spec.Driver), Pool: p.strings.get(s.Spec.Pool.Name)},
		Devices: len(s.Spec.Devices), Spec: &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Spec: s.Spec},
	}
	if s.Spec.NodeName != nil {
		out.Node = p.strings.get(*s.Spec.NodeName)
	}
	return out
}

// DeviceTaintRule parses a rule. A rule without a selector is about no device in the API's documentation, and about all for kube-scheduler v1.37, as here.
func (p *claimParser) DeviceTaintRule(r *resourcev1.DeviceTaintRule) *facts.DeviceTaintRule {
	out := &facts.DeviceTaintRule{Name: r.Name, Spec: &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec}}
	if s := r.Spec.DeviceSelector; s != nil {
		if s.Driver != nil {
			out.Driver = p.strings.get(*s.Driver)
		}
		if s.Pool != nil {
			out.Pool = p.strings.get(*s.Pool)
		}
	}
	return out
}
