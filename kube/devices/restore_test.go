package devices

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// TestRestore: what a file has of devices is the same after it was decoded, and devices can be chosen; what is no object is an error that says where.
func TestRestore(t *testing.T) {
	b, p := world(t, gpus("n1", 2), class("gpu", "true"))
	claim := exactly("gpu", 1)
	claim.Namespace, claim.Name, claim.UID = "default", "c", "u"
	b.Set(p.ResourceClaim(claim))
	want := b.Objects()
	d := &cluster.Dump{}
	for _, object := range b.Objects() {
		d.DRA = append(d.DRA, encoded(t, object))
	}
	if reflect.DeepEqual(d.DRA, want) {
		t.Fatal("nothing was encoded")
	}
	if err := Restore(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(d.DRA, want) {
		t.Errorf("got  %+v\nwant %+v", d.DRA, want)
	}
	if d.Allocator() == nil {
		t.Error("nobody chooses devices")
	}
	d.DRA = []facts.DRAObject{&facts.DeviceClass{Name: "broken", Spec: json.RawMessage(`{"spec": 5}`)}}
	if err := Restore(t.Context(), d); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a class that is none: %v", err)
	}
}

// encoded is an object as a file has it.
func encoded(t *testing.T, object facts.DRAObject) facts.DRAObject {
	t.Helper()
	raw := func(spec any) any {
		text, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		return json.RawMessage(text)
	}
	switch o := object.(type) {
	case *facts.ResourceClaim:
		out := *o
		out.Requests.Spec = raw(o.Requests.Spec)
		return &out
	case *facts.DeviceClass:
		out := *o
		out.Spec = raw(o.Spec)
		return &out
	case *facts.ResourceSlice:
		out := *o
		out.Spec = raw(o.Spec)
		return &out
	}
	return object
}
