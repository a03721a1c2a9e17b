//go:build !linux

package runqueue

// Probe is nothing: only Linux can have it.
type Probe struct{}

// New returns a probe that never looks.
func New(Options) *Probe { return &Probe{} }

// Check says that the node cannot have the probe.
func (*Probe) Check() error { return &Unsupported{"the agent needs Linux", nil} }

// Look says the same, where there are victims.
func (p *Probe) Look(victims, _ []string) (*Waits, error) {
	if len(victims) == 0 {
		return &Waits{}, nil
	}
	return nil, p.Check()
}

// Close does nothing.
func (*Probe) Close() error { return nil }
