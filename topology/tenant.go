package topology

import (
	"crypto/sha256"
	"encoding/binary"
)

// Tenant is whose a slice of a GPU is: a number that stands for the namespace of its pod. The zero Tenant is that of pods of which no namespace is known.
//
// The soft slices of one GPU are one tenant's, for their programs meet in one server and in shared memory. DeviceFree adds up the tenants of a GPU's soft slices:
// all of n slices are t's if the sum is n times t, because no other namespaces add up to that, but for one chance in 2^64. So what is free stays a value that is
// counted up and down, and knows nothing of pods. Devices.SeveralNamespaces lifts the rule.
//
// Example: two soft slices of the namespace a leave the sum 2a. A third of a fits, for the sum is 2a; one of b does not, for it is not 2b. When both have ended, the
// sum is 0, and b's fits.
type Tenant uint64

// TenantOf is the tenant of a namespace's pods; of none it is zero.
func TenantOf(namespace string) Tenant {
	if namespace == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(namespace))
	return Tenant(binary.LittleEndian.Uint64(sum[:]))
}

// For is the grant as a pod of a tenant holds it: soft slices are their tenant's, nothing else is anybody's.
func (g Grant) For(t Tenant) Grant {
	if g.Tenant = 0; g.Isolation == Soft {
		g.Tenant = t
	}
	return g
}

// shares reports whether a GPU that has soft slices may give another to a tenant.
func (f *DeviceFree) shares(gpu int, t Tenant) bool {
	return f.Tenants[gpu] == Tenant(f.Soft[gpu])*t
}
