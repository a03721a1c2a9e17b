package dumpfile

import (
	"encoding/json"
	"errors"
	"fmt"

	"hilbert.dev/hilbert/cluster/facts"
)

// draRecord is one object of dynamic resource allocation: the field of its kind is set. What only the allocator reads is kept as the door encodes it, and decoded
// there again (kube/devices).
type draRecord struct {
	Claim *resourceClaimRecord `json:"claim,omitempty"`
	Class *deviceClassRecord   `json:"class,omitempty"`
	Slice *sliceRecord         `json:"slice,omitempty"`
	Rule  *taintRuleRecord     `json:"rule,omitempty"`
}

type resourceClaimRecord struct {
	Namespace   string              `json:"namespace"`
	Name        string              `json:"name"`
	UID         string              `json:"uid"`
	Pod         facts.UID           `json:"pod,omitempty"`
	Requests    claimRequestsRecord `json:"requests"`
	Allocation  *allocationRecord   `json:"allocation,omitempty"`
	ReservedFor []facts.UID         `json:"reservedFor,omitempty"`
	Protected   bool                `json:"protected,omitempty"`
	Deleting    bool                `json:"deleting,omitempty"`
	Version     uint64              `json:"version,omitempty"`
	Conditions  []conditionOfDevice `json:"conditions,omitempty"`
}

type claimRequestsRecord struct {
	Key          string              `json:"key,omitempty"`
	Classes      []classUseRecord    `json:"classes,omitempty"`
	Alternatives []alternativeRecord `json:"alternatives,omitempty"`
	Spec         json.RawMessage     `json:"spec,omitempty"`
}

type classUseRecord struct {
	Request string `json:"request"`
	Class   string `json:"class"`
}

type alternativeRecord struct {
	Request string `json:"request"`
	Worth   int64  `json:"worth"`
}

type deviceIDRecord struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

type conditionOfDevice struct {
	deviceIDRecord

	Type    string `json:"type"`
	Message string `json:"message,omitempty"`
}

type allocationRecord struct {
	Devices []allocatedDeviceRecord `json:"devices,omitempty"`
	Nodes   *[]termRecord           `json:"nodes,omitempty"` // absent: everywhere
	Body    string                  `json:"body,omitempty"`
}

type allocatedDeviceRecord struct {
	deviceIDRecord

	Request  string   `json:"request,omitempty"`
	Admin    bool     `json:"admin,omitempty"`
	Share    string   `json:"share,omitempty"`
	Consumed string   `json:"consumed,omitempty"`
	Binding  []string `json:"binding,omitempty"`
	Failure  []string `json:"failure,omitempty"`
}

type deviceClassRecord struct {
	Name     string          `json:"name"`
	Extended string          `json:"extended,omitempty"`
	Created  int64           `json:"created,omitempty"`
	Spec     json.RawMessage `json:"spec,omitempty"`
}

type sliceRecord struct {
	Name    string          `json:"name"`
	Driver  string          `json:"driver"`
	Pool    string          `json:"pool"`
	Node    string          `json:"node,omitempty"`
	Devices int             `json:"devices,omitempty"`
	Spec    json.RawMessage `json:"spec,omitempty"`
}

type taintRuleRecord struct {
	Name   string          `json:"name"`
	Driver string          `json:"driver,omitempty"`
	Pool   string          `json:"pool,omitempty"`
	Spec   json.RawMessage `json:"spec,omitempty"`
}

type extendedContainerRecord struct {
	Index    int                     `json:"index"`
	Name     string                  `json:"name"`
	Ends     bool                    `json:"ends,omitempty"`
	Requests []extendedRequestRecord `json:"requests"`
}

type extendedRequestRecord struct {
	Resource string `json:"resource"`
	Place    int    `json:"place,omitempty"`
	Count    int64  `json:"count"`
}

func writeExtended(c facts.ExtendedContainer) extendedContainerRecord {
	return extendedContainerRecord{c.Index, c.Name, c.Ends, each(c.Requests, func(r facts.ExtendedRequest) extendedRequestRecord { return extendedRequestRecord(r) })}
}

func readExtended(r extendedContainerRecord) facts.ExtendedContainer {
	return facts.ExtendedContainer{
		Index: r.Index, Name: r.Name, Ends: r.Ends, Requests: each(r.Requests, func(r extendedRequestRecord) facts.ExtendedRequest { return facts.ExtendedRequest(r) }),
	}
}

// opaque encodes what only the door can read. What cannot be encoded is left out: nothing is chosen of it then.
func opaque(spec any) json.RawMessage {
	if spec == nil {
		return nil
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil
	}
	return text
}

// spec is what is read of it: the encoding, nil if there is none.
func specOf(text json.RawMessage) any {
	if text == nil {
		return nil
	}
	return text
}

func writeDRA(object facts.DRAObject) (r draRecord) {
	switch o := object.(type) {
	case *facts.ResourceClaim:
		r.Claim = &resourceClaimRecord{
			Namespace: o.Namespace, Name: o.Name, UID: o.UID, Pod: o.Pod, Requests: writeClaimRequests(&o.Requests), Allocation: writeAllocation(o.Allocation),
			ReservedFor: o.ReservedFor, Protected: o.Protected, Deleting: o.Deleting, Version: o.Version,
			Conditions: each(o.Conditions, func(c facts.DeviceCondition) conditionOfDevice {
				return conditionOfDevice{deviceIDRecord(c.DeviceID), c.Type, c.Message}
			}),
		}
	case *facts.DeviceClass:
		r.Class = &deviceClassRecord{o.Name, o.Extended, o.Created, opaque(o.Spec)}
	case *facts.ResourceSlice:
		r.Slice = &sliceRecord{o.Name, o.Driver, o.Pool, o.Node, o.Devices, opaque(o.Spec)}
	case *facts.DeviceTaintRule:
		r.Rule = &taintRuleRecord{o.Name, o.Driver, o.Pool, opaque(o.Spec)}
	}
	return r
}

func readDRA(r *draRecord) (facts.DRAObject, error) {
	switch {
	case r.Claim != nil:
		c := r.Claim
		claim := &facts.ResourceClaim{
			ClaimName: facts.ClaimName{Namespace: c.Namespace, Name: c.Name}, UID: c.UID, Pod: c.Pod, Requests: readClaimRequests(&c.Requests),
			Allocation: readAllocation(c.Allocation), ReservedFor: c.ReservedFor, Protected: c.Protected, Deleting: c.Deleting, Version: c.Version,
			Conditions: each(c.Conditions, func(c conditionOfDevice) facts.DeviceCondition {
				return facts.DeviceCondition{DeviceID: facts.DeviceID(c.deviceIDRecord), Type: c.Type, Message: c.Message}
			}),
		}
		if len(claim.Requests.Classes) > 0 && claim.Requests.Spec == nil {
			return nil, fmt.Errorf("devices: claim %s names classes and has no spec", claim.ClaimName)
		}
		return claim, nil
	case r.Class != nil:
		return &facts.DeviceClass{Name: r.Class.Name, Extended: r.Class.Extended, Created: r.Class.Created, Spec: specOf(r.Class.Spec)}, nil
	case r.Slice != nil:
		s := r.Slice
		return &facts.ResourceSlice{Name: s.Name, PoolID: facts.PoolID{Driver: s.Driver, Pool: s.Pool}, Node: s.Node, Devices: s.Devices, Spec: specOf(s.Spec)}, nil
	case r.Rule != nil:
		return &facts.DeviceTaintRule{Name: r.Rule.Name, Driver: r.Rule.Driver, Pool: r.Rule.Pool, Spec: specOf(r.Rule.Spec)}, nil
	}
	return nil, errors.New("devices: an object is of no kind; write one of claim, class, slice, rule")
}

func writeClaimRequests(q *facts.ClaimRequests) claimRequestsRecord {
	return claimRequestsRecord{
		q.Key, each(q.Classes, func(c facts.ClassUse) classUseRecord { return classUseRecord(c) }),
		each(q.Alternatives, func(a facts.Alternative) alternativeRecord { return alternativeRecord(a) }), opaque(q.Spec),
	}
}

func readClaimRequests(r *claimRequestsRecord) facts.ClaimRequests {
	return facts.ClaimRequests{
		Key: r.Key, Classes: each(r.Classes, func(c classUseRecord) facts.ClassUse { return facts.ClassUse(c) }),
		Alternatives: each(r.Alternatives, func(a alternativeRecord) facts.Alternative { return facts.Alternative(a) }), Spec: specOf(r.Spec),
	}
}

func writeAllocation(a *facts.ClaimAllocation) *allocationRecord {
	if a == nil {
		return nil
	}
	return &allocationRecord{each(a.Devices, func(d facts.AllocatedDevice) allocatedDeviceRecord {
		return allocatedDeviceRecord{deviceIDRecord(d.DeviceID), d.Request, d.Admin, d.Share, d.Consumed, d.Binding, d.Failure}
	}), writeTerms(a.Nodes), a.Body}
}

func readAllocation(r *allocationRecord) *facts.ClaimAllocation {
	if r == nil {
		return nil
	}
	return &facts.ClaimAllocation{Devices: each(r.Devices, func(d allocatedDeviceRecord) facts.AllocatedDevice {
		return facts.AllocatedDevice{
			DeviceID: facts.DeviceID(d.deviceIDRecord), Request: d.Request, Admin: d.Admin, Share: d.Share, Consumed: d.Consumed, Binding: d.Binding, Failure: d.Failure,
		}
	}), Nodes: readTerms(r.Nodes), Body: r.Body}
}
