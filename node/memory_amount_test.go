package node

import (
	"testing"
	"time"
)

// A reclaimed pod that names no amount of memory gets no limit that is made up: how much it may have is not known.
func TestNoAmountNoLimit(t *testing.T) {
	l := newLender(t)
	l.mustRun(sandbox("batch", 0, "qos=reclaimed_cores", "besteffort"))
	l.run(10)
	l.agent.Ask(time.Minute, func(a *Agent) {
		if limits := a.memory.advice.Limits; len(limits) > 0 {
			t.Errorf("limits %+v", limits)
		}
	})
}
