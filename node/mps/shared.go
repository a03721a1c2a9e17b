package mps

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"hilbert.dev/hilbert/topology"
)

// Shared is the memory that the daemon of a GPU shares with its clients: a tmpfs of bounded size, their /dev/shm. Each start of a daemon brings a new one, of another
// name.
type Shared struct {
	Name string // of its directory, below that of the GPU
	// Used: some container had it, or left something in it, as of Seen.
	Used bool
	Seen time.Time
}

// sharedName is what may be the name of a Shared.
var sharedName = regexp.MustCompile(`^shm-[0-9A-Za-z]{8,32}$`)

// ErrShared is memory that is, or may be, another namespace's.
var ErrShared = errors.New("the memory that the GPU's MPS daemon shares with its clients may hold what another namespace left; " +
	"the daemon starts again with a new one when nobody has it any more, which takes about a minute")

// Owners remembers to which namespace the shared memory of each GPU was given, so that it is never given to two.
//
// Example: a pod of namespace a gets shm-1, which nobody has used. A pod of a gets it too, one of b does not. When those of a have ended, the daemon starts with
// shm-2, which b may have. An agent that starts again knows no owners: then a memory that somebody has used is given only to those who have a running container on
// the GPU, for no other namespace was given it beside them.
type Owners struct {
	// Since is from when on all is remembered that was given.
	Since time.Time
	of    [topology.MaxGPUs]struct{ shared, namespace string }
}

// Give gives the shared memory of a GPU to a pod of a namespace, or says why not. running are the namespaces of the containers that run with it.
func (o *Owners) Give(gpu int, is Shared, namespace string, running []string) error {
	owner := &o.of[gpu]
	foreign := func(n string) bool { return n != namespace }
	switch {
	case slices.ContainsFunc(running, foreign):
		return fmt.Errorf("%w: a container of another namespace runs with it", ErrShared)
	case owner.shared == is.Name && owner.namespace == namespace:
	case owner.shared == is.Name:
		return fmt.Errorf("%w: it was given to a pod of another namespace", ErrShared)
	case !is.Used && is.Seen.After(o.Since), len(running) > 0: // nobody has had it, or the same namespace
	default:
		return fmt.Errorf("%w: it is not known whose it was", ErrShared)
	}
	owner.shared, owner.namespace = is.Name, namespace
	return nil
}
