//go:build !linux

package egress

import "hilbert.dev/hilbert/node/advise"

// Egress is the ceiling in the kernel, which only Linux can have.
type Egress struct{}

var errNoLinux = &Unsupported{ReasonUnsupported, "the agent needs Linux"}

// Open fails.
func Open(Options) (*Egress, error) { return nil, errNoLinux }

// Remove does nothing.
func Remove(Options) error { return nil }

// Uplinks are none.
func (*Egress) Uplinks() []string { return nil }

// Traffic is none.
func (*Egress) Traffic() map[string]Traffic { return nil }

// Sent is not known.
func (*Egress) Sent() map[string]advise.Sample { return nil }

// Link is not known.
func (*Egress) Link() advise.Sample { return advise.Sample{} }

// SetCeiling fails.
func (*Egress) SetCeiling(uint64) error { return errNoLinux }

// SetReclaimed fails.
func (*Egress) SetReclaimed([]string) error { return errNoLinux }

// Counts fails.
func (*Egress) Counts() (Counts, error) { return Counts{}, errNoLinux }

// Close does nothing.
func (*Egress) Close() error { return nil }

// Detach does nothing.
func (*Egress) Detach() error { return nil }
