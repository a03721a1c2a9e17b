package simulation

import (
	"fmt"
	"io"
	"time"

	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/sim"
)

const (
	// progressAfter is how long a command runs before it says how far it is, and progressEvery how often it does.
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// progress shows on a terminal how far a run is. On anything else it shows nothing.
type progress struct {
	w     io.Writer // nil: no terminal
	wall  func() time.Duration
	next  time.Duration
	shown bool
}

func newProgress(w io.Writer, wall func() time.Duration) *progress {
	p := &progress{wall: wall, next: progressAfter}
	if output.IsTerminal(w) {
		p.w = w
	}
	return p
}

func (p *progress) show(at sim.Progress) {
	if p.w == nil || p.wall() < p.next {
		return
	}
	p.next = p.wall() + progressEvery
	p.shown = true
	fmt.Fprintf(p.w, "\r%d of %d tasks arrived, %d placed, virtual time %v\x1b[K", at.Arrived, at.Tasks, at.Placed, at.Virtual.Round(time.Second))
}

// done takes the line away.
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
