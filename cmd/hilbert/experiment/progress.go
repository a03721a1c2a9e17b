package experiment

import (
	"fmt"
	"io"
	"time"

	"hilbert.dev/hilbert/cmd/hilbert/output"
)

// How often progress is told, on a terminal and elsewhere.
const (
	progressOnTerminal = 500 * time.Millisecond
	progressElsewhere  = 15 * time.Second
)

// progress tells now and then how far an experiment is: on one line of a terminal, on lines of their own elsewhere.
type progress struct {
	w           io.Writer
	began, told time.Time
	terminal    bool
}

func newProgress(w io.Writer) *progress {
	now := time.Now()
	return &progress{w: w, began: now, told: now, terminal: output.IsTerminal(w)}
}

// tell tells how far it is, if that was not told just before.
func (p *progress) tell(how string) {
	every, begin, end := progressElsewhere, "", "\n"
	if p.terminal {
		every, begin, end = progressOnTerminal, "\r", "\x1b[K"
	}
	if time.Since(p.told) < every {
		return
	}
	p.told = time.Now()
	fmt.Fprintf(p.w, "%s%v: %s%s", begin, time.Since(p.began).Round(time.Second), how, end)
}
