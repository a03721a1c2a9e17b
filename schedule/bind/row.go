package bind

import (
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

type stage uint8

const (
	queued   stage = iota // waits for a place in flight
	inFlight              // the shell has it
	pausing               // its outcome is unknown; waits to be repeated or read
	waiting               // nothing to write until something is seen: victims have to leave
)

// row is one placement whose Binding is not certain yet. It begins in Propose and ends when the Binding is certain, one way or the other.
type row struct {
	pod      facts.UID
	node     string
	grant    topology.Grant
	stage    stage
	kind     WriteKind // WriteNomination, WriteVolume, then WriteBinding or ReadPod
	attempts int       // writes with an unknown outcome
	refusal  string    // a refusal that came after an unknown outcome
	decided  bool      // the outcome is known; the answer in flight only frees its place
	until    time.Time
	position int // in the heap of pausing rows
	// The order in which queued rows are served: priority and reclaimed are the pod's.
	priority  int32
	reclaimed bool
	sequence  uint64

	why       facts.Condition // WriteNomination
	nominated bool            // its nomination was sent
	evictions []*eviction     // that it waits for
	group     *planGroup      // rows of one Plan with victims, nil for a row on its own
	reclaims  bool            // the victims hold what their queues have borrowed

	claimProgress
}

// hasVictims reports whether some victims of the row may not have left yet.
func (r *row) hasVictims() bool {
	return (r.kind == WriteNomination || r.stage == waiting) && !r.bindsVolumes()
}

// bindsVolumes reports whether the victims of the row, and of its plan group, have left, and claims are being bound.
func (r *row) bindsVolumes() bool {
	return r.kind == WriteVolume || r.group != nil && r.group.bindsVolumes
}

// awaits reports whether the row waits for victims, its own or those of its plan group.
func (r *row) awaits() bool { return !r.bindsVolumes() && (r.hasVictims() || r.group.waits()) }

// unsent reports whether no Binding of the row was sent, so that its place can be given up without an answer.
func (r *row) unsent() bool {
	return r.stage == waiting || r.stage == queued && r.attempts == 0 || r.stage != inFlight && (r.kind == WriteNomination || r.kind == WriteVolume)
}

// servedBefore orders rows as units wait in a queue: by priority, then online before reclaimed pods, then by when they were queued.
func servedBefore(x, y *row) bool {
	switch {
	case x.priority != y.priority:
		return x.priority > y.priority
	case x.reclaimed != y.reclaimed:
		return y.reclaimed
	}
	return x.sequence < y.sequence
}
