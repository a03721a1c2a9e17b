package mps

import (
	"errors"
	"fmt"
	"slices"
)

// User is the user that a container runs as.
type User struct {
	ID uint32
	// Mapped: the number counts in a user namespace of the pod's own. The kubelet gives each such pod users of the host that no other pod has, none of
	// them root. Which ones is not known here.
	Mapped bool
}

// String is like "user 1000".
func (u User) String() string {
	if u.Mapped {
		return fmt.Sprintf("user %d of a user namespace", u.ID)
	}
	return fmt.Sprintf("user %d", u.ID)
}

var (
	// ErrUser is a container of a user that the GPU's server does not serve now.
	ErrUser = errors.New("another user's processes share the GPU")
	// ErrHostRoot is a container that runs as root of the host.
	ErrHostRoot = errors.New("the container runs as root of the host, who controls the MPS daemon of the GPU")
)

// hostRootCure is what its owner can do about ErrHostRoot: many images run as root because nobody has said otherwise.
const hostRootCure = "give it another user (securityContext.runAsUser, with runAsNonRoot: true) or the pod a user namespace (hostUsers: false), " +
	"or ask for a hard slice (hilbert.dev/gpu-isolation: hard) or a whole GPU"

// Admit is nil if a container that runs as user may have a soft slice of a GPU beside those who hold slices of it.
//
// A control daemon obeys root of the host, whoever its clients are: root could end the server of all, lift their limits, and read what they share. So root is
// refused, even if it would be the first. A user that the server does not serve would not fail otherwise: it would wait. For example, users 1000 and 1000 may
// share a GPU, and users 1000 and 1001 may not; nor may two pods that have a user namespace each, whose users differ on the host.
func (p *Params) Admit(user User, holders []User) error {
	if user == (User{}) {
		return fmt.Errorf("%w: %s", ErrHostRoot, hostRootCure)
	}
	other := slices.IndexFunc(holders, func(holder User) bool { return holder != user || user.Mapped })
	if p.SeveralUsers || other < 0 {
		return nil
	}
	return fmt.Errorf("%w: those of %s, and the container is %s's: one server serves one user", ErrUser, holders[other], user)
}
