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

// Missing are none.
func (*Egress) Missing() []string { return nil }

// Taken are none.
func (*Egress) Taken() map[string]string { return nil }

// CheckQdiscs does nothing.
func (*Egress) CheckQdiscs() error { return nil }

// Crowded is none.
func (*Egress) Crowded() int { return 0 }

// Sent is not known.
func (*Egress) Sent() map[string]map[string]advise.Sample { return nil }

// SetRates fails.
func (*Egress) SetRates(string, Rates) error { return errNoLinux }

// SetPods fails.
func (*Egress) SetPods([]Pod) error { return errNoLinux }

// Counts fails.
func (*Egress) Counts() (map[string]Counts, error) { return nil, errNoLinux }

// Close does nothing.
func (*Egress) Close() error { return nil }

// Detach does nothing.
func (*Egress) Detach() error { return nil }
