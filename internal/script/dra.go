package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
)

// DRA reads an object of dynamic resource allocation, or that one is gone. A slice is a pool of its own, of which one node has the devices, numbered from 0; without
// a node all nodes have them.
//
//	dra class gpu resource=example.com/gpu created=5
//	dra slice s1 node=n1 devices=3
//	dra taint r pool=s1
//	dra claim c class=gpu count=2 owner=p uid=u version=7 protected deleting reserved=(p,q) on=n1 has=(s1/0,s1/1) ready=s1/0 failed=s1/0 needs=Ready
//	dra claim c gone
func DRA(t testing.TB, d *datadriven.TestData) facts.Event {
	t.Helper()
	kinds := map[string]facts.DRAKind{"claim": facts.ResourceClaimKind, "class": facts.DeviceClassKind, "slice": facts.ResourceSliceKind, "taint": facts.DeviceTaintRuleKind}
	kind, name := kinds[d.CmdArgs[0].Key], d.CmdArgs[1].Key
	if d.HasArg("gone") {
		gone := facts.DRAName{Kind: kind, Name: name}
		if kind == facts.ResourceClaimKind {
			gone.Namespace = "default"
		}
		return facts.DRARemoved{Name: gone}
	}
	r := draReader{t, d}
	switch kind {
	case facts.ResourceClaimKind:
		return facts.DRAUpserted{Object: r.claim(name)}
	case facts.DeviceClassKind:
		return facts.DRAUpserted{Object: &facts.DeviceClass{Name: name, Extended: r.text("resource", ""), Created: int64(r.number("created"))}}
	case facts.ResourceSliceKind:
		return facts.DRAUpserted{Object: &facts.ResourceSlice{Name: name, PoolID: facts.PoolID{Driver: "gpu", Pool: name}, Node: r.text("node", ""), Devices: r.number("devices")}}
	case facts.DeviceTaintRuleKind:
		return facts.DRAUpserted{Object: &facts.DeviceTaintRule{Name: name, Driver: "gpu", Pool: r.text("pool", "")}}
	}
	d.Fatalf(t, "dra: unknown kind %q", d.CmdArgs[0].Key)
	return nil
}

type draReader struct {
	t testing.TB
	d *datadriven.TestData
}

func (r draReader) text(key, otherwise string) string {
	r.d.MaybeScanArgs(r.t, key, &otherwise)
	return otherwise
}

func (r draReader) number(key string) int {
	n, err := strconv.Atoi(r.text(key, "0"))
	if err != nil {
		r.d.Fatalf(r.t, "dra: %s: %v", key, err)
	}
	return n
}

func (r draReader) list(key string) []string {
	for _, arg := range r.d.CmdArgs {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

func (r draReader) claim(name string) *facts.ResourceClaim {
	class := r.text("class", "gpu")
	c := &facts.ResourceClaim{
		ClaimName: facts.ClaimName{Namespace: "default", Name: name}, UID: r.text("uid", name), Pod: facts.UID(r.text("owner", "")),
		Requests:  facts.ClaimRequests{Key: class + " " + r.text("count", "1"), Classes: []facts.ClassUse{{Request: "r", Class: class}}, Spec: r.text("count", "1")},
		Protected: r.d.HasArg("protected"), Deleting: r.d.HasArg("deleting"), Version: uint64(r.number("version")),
	}
	for _, uid := range r.list("reserved") {
		c.ReservedFor = append(c.ReservedFor, facts.UID(uid))
	}
	if has := r.list("has"); len(has) > 0 {
		c.Allocation = &facts.ClaimAllocation{Nodes: OnNode(r.text("on", ""))}
		for _, text := range has {
			c.Allocation.Devices = append(c.Allocation.Devices, facts.AllocatedDevice{DeviceID: deviceID(text), Binding: r.list("needs"), Failure: r.list("fails")})
		}
	}
	for _, text := range r.list("ready") {
		for _, condition := range r.list("needs") {
			c.Conditions = append(c.Conditions, facts.DeviceCondition{DeviceID: deviceID(text), Type: condition})
		}
	}
	for _, text := range r.list("failed") {
		for _, condition := range r.list("fails") {
			c.Conditions = append(c.Conditions, facts.DeviceCondition{DeviceID: deviceID(text), Type: condition, Message: "it broke"})
		}
	}
	return c
}

func deviceID(text string) facts.DeviceID {
	pool, device, _ := strings.Cut(text, "/")
	return facts.DeviceID{Driver: "gpu", Pool: pool, Device: device}
}

// OnNode are the terms that one node matches, by its name.
func OnNode(name string) []facts.Term {
	return []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{name}}}}}
}

// resourceClaims reads the entries of a pod's resourceClaims: NAME, or gen:NAME for one that is made from a template; gen: is not made yet.
func resourceClaims(list []string) (uses []facts.ResourceClaimUse) {
	for _, text := range list {
		name, generated := strings.CutPrefix(text, "gen:")
		uses = append(uses, facts.ResourceClaimUse{Claim: name, Generated: generated})
	}
	return uses
}

// Devices is a dra.Allocator that counts: a claim asks for a number of devices, and gets the first that are free. The Spec of its requests is the number.
type Devices struct {
	// Binding are the conditions that all devices have.
	Binding, Failure []string
	// Asked counts the questions.
	Asked int
}

var _ dra.Allocator = (*Devices)(nil)

// Allocate gives each claim the first devices that are free.
func (x *Devices) Allocate(q *dra.Query) (allocations []*facts.ClaimAllocation, refusal string) {
	x.Asked++
	var free []facts.DeviceID
	shared := make(map[string]bool) // pools that several nodes have
	for _, s := range q.Slices {
		shared[s.Pool] = s.Node == ""
		for i := range s.Devices {
			id := facts.DeviceID{Driver: s.Driver, Pool: s.Pool, Device: strconv.Itoa(i)}
			if !slices.ContainsFunc(q.Taken, func(d facts.AllocatedDevice) bool { return d.DeviceID == id }) {
				free = append(free, id)
			}
		}
	}
	for i := range q.Claims {
		text, _ := q.Claims[i].Spec.(string)
		count, err := strconv.Atoi(text)
		if err != nil || count > len(free) {
			return nil, "cannot allocate all claims"
		}
		a := &facts.ClaimAllocation{Nodes: OnNode(q.Node.Name)}
		if !slices.ContainsFunc(free[:count], func(id facts.DeviceID) bool { return !shared[id.Pool] }) {
			a.Nodes = nil
		}
		for _, id := range free[:count] {
			a.Devices = append(a.Devices, facts.AllocatedDevice{DeviceID: id, Binding: x.Binding, Failure: x.Failure})
			a.Body += id.Pool + "/" + id.Device + " "
		}
		allocations, free = append(allocations, a), free[count:]
	}
	return allocations, ""
}

// Exactly asks for all devices of the requests in sum.
func (x *Devices) Exactly(requests []facts.DeviceRequest) (out facts.ClaimRequests) {
	sum := 0
	for _, r := range requests {
		sum += int(r.Count)
		out.Key += fmt.Sprintf("%s %s %d;", r.Name, r.Class, r.Count)
		out.Classes = append(out.Classes, facts.ClassUse{Request: r.Name, Class: r.Class})
	}
	out.Spec = strconv.Itoa(sum)
	return out
}

// Taint leaves nothing of a slice that a rule is about.
func (x *Devices) Taint(slice *facts.ResourceSlice, _ []*facts.DeviceTaintRule) *facts.ResourceSlice {
	out := *slice
	out.Devices = 0
	return &out
}

// Explain says how many devices are taken.
func (x *Devices) Explain(q *dra.Query) string {
	all := 0
	for _, s := range q.Slices {
		all += s.Devices
	}
	return fmt.Sprintf("has %d of %d devices taken", len(q.Taken), all)
}
