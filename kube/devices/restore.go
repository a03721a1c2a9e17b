package devices

import (
	"context"
	"encoding/json"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// Restore makes a ledger that was read from a file one on which devices can be chosen: what only an Allocator reads is decoded, and the ledger gets one. It gives up
// when the context ends.
func Restore(ctx context.Context, d *cluster.Dump) error {
	for i, object := range d.DRA {
		restored, err := restore(object)
		if err != nil {
			return fmt.Errorf("devices: %s: %w", object.DRAName().Name, err)
		}
		d.DRA[i] = restored
	}
	d.SetAllocator(NewAllocator(ctx, MaxTime))
	return nil
}

func restore(object facts.DRAObject) (facts.DRAObject, error) {
	switch o := object.(type) {
	case *facts.ResourceClaim:
		out := *o
		return &out, decode[resourcev1.DeviceClaim](&out.Requests.Spec)
	case *facts.DeviceClass:
		out := *o
		return &out, decode[resourcev1.DeviceClass](&out.Spec)
	case *facts.ResourceSlice:
		out := *o
		return &out, decode[resourcev1.ResourceSlice](&out.Spec)
	case *facts.DeviceTaintRule:
		out := *o
		return &out, decode[resourcev1.DeviceTaintRule](&out.Spec)
	}
	return object, nil
}

// decode makes an object of its encoding; an object stays.
func decode[T any](spec *any) error {
	text, ok := (*spec).(json.RawMessage)
	if !ok {
		return nil
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read its spec: %w", err)
	}
	*spec = out
	return nil
}
