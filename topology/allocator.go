package topology

import "errors"

// What keeps a holding from being committed or adopted.
var (
	// ErrExpired: the allocator has moved on since the offer was made.
	ErrExpired = errors.New("the offer has expired")
	// ErrHeld: the id holds something already, or somebody else holds a part of it.
	ErrHeld = errors.New("already held")
	// ErrUnfit: it is not what this machine can give: cores that are not whole, reserved, or in other zones than the grant says.
	ErrUnfit = errors.New("this machine cannot give it")
)

// Holding is what one pod has for itself.
type Holding struct {
	Request ZoneRequest
	Grant   ZoneGrant
	CPUs    CPUSet
}

// Offer is a holding that can be had, as long as the allocator stays at the revision.
type Offer struct {
	Revision uint64
	Holding
	Kept bool // the promise is what is offered
}

// Division says what the pools of the CPUs that nobody holds should have.
type Division struct {
	Shared    []PoolDemand
	Reclaimed [MaxZones]int // cores, by zone
}

// PoolDemand is a shared pool and the sum of its pods' requests.
type PoolDemand struct {
	Name     string
	MilliCPU int64
}

// Pools divide the CPUs that nobody holds.
type Pools struct {
	Shared    map[string]CPUSet
	Reclaimed CPUSet // its intersection with a zone is the zone's part
	System    CPUSet // the reserved cores
}

// Mark is a point in the journal.
type Mark struct{ depth, length int }

// Allocator gives the CPUs and memory of one machine to pods.
type Allocator struct{}

// NewAllocator returns the allocator of an empty machine.
func NewAllocator(m *Machine, reserved CPUSet, reservedMemory uint32) (*Allocator, error) {
	return &Allocator{}, nil
}

// Reserve returns the lowest cores, in turn from each NUMA node.
func Reserve(m *Machine, cores int) CPUSet { return CPUSet{} }

// Shape is what the machine can promise.
func (a *Allocator) Shape() ZoneShape { return ZoneShape{} }

// Free is what is left of it.
func (a *Allocator) Free() ZoneFree { return ZoneFree{} }

// Revision grows with each change.
func (a *Allocator) Revision() uint64 { return 0 }

// Offer says what the request would be given: the promise if it still fits, else something equivalent from the zones in among.
func (a *Allocator) Offer(r ZoneRequest, promised ZoneGrant, among uint8) (Offer, bool) {
	return Offer{}, false
}

// Commit takes an offer for id.
func (a *Allocator) Commit(id string, o Offer) error { return nil }

// Adopt records what runs already.
func (a *Allocator) Adopt(id string, h Holding) error { return nil }

// Release gives back what id holds.
func (a *Allocator) Release(id string) bool { return false }

// Close keeps a zone from giving anything new, or opens it again.
func (a *Allocator) Close(zone int, closed bool) {}

// Divide divides the CPUs that nobody holds into pools.
func (a *Allocator) Divide(d Division) Pools { return Pools{} }

// Mark is where Rollback returns to.
func (a *Allocator) Mark() Mark { return Mark{} }

// Rollback undoes what was done since the mark.
func (a *Allocator) Rollback(m Mark) {}

// Verify checks the invariants.
func (a *Allocator) Verify() error { return nil }
