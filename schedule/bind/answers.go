package bind

import (
	"time"

	"hilbert.dev/hilbert/cluster"
)

// What an answer to a write means is decided here, by functions of the row and the answer. Each returns what follows, and the Binder does it.
//
// Example: the first Binding of a row is answered with a timeout. The API server may have bound the pod, so afterBinding has the same Binding repeated after a
// pause. The repetition is answered with Conflict, so the pod is read; afterRead finds it on the row's node, and it is bound.

// retryBase and retryMax bound the pause before an uncertain Binding is repeated, or the pod read again.
const (
	retryBase = 100 * time.Millisecond
	retryMax  = 10 * time.Second
)

func backoff(attempts int) time.Duration {
	return min(retryBase<<min(attempts-1, 10), retryMax)
}

type action uint8

const (
	isBound    action = iota // the Binding is certain
	isVanished               // the watch says what became of the pod
	isReleased               // the placement is given up, for message
	pauses                   // and then writes kind
	queues                   // goes on with its next write
	nominates                // the nomination is written: the victims are evicted
)

// nextStep is what follows for a row.
type nextStep struct {
	do      action
	kind    WriteKind
	pause   time.Duration
	message string
	unsent  bool // the API server has not been asked
}

func released(message string) nextStep { return nextStep{do: isReleased, message: message} }

func notSent(message string) nextStep {
	return nextStep{do: isReleased, message: "not sent: " + message, unsent: true}
}

// repeat counts one more attempt, and writes after a pause that grows with them.
func (r *row) repeat(kind WriteKind) nextStep {
	r.attempts++
	return nextStep{do: pauses, kind: kind, pause: backoff(r.attempts)}
}

// afterBinding decides after a Binding was answered. After maxAttempts that are unknown the pod is read.
func (r *row) afterBinding(result *Result, maxAttempts int) nextStep {
	switch result.Outcome {
	case Written:
		return nextStep{do: isBound}
	case Gone:
		return nextStep{do: isVanished}
	case Conflict: // bound already: by an earlier write of ours whose answer was lost, or by somebody else
		return nextStep{do: pauses, kind: ReadPod}
	case Refused, Withheld:
		if r.attempts == 0 {
			return released(result.Message)
		}
		r.refusal = result.Message
		return nextStep{do: pauses, kind: ReadPod}
	case NotSent:
		if r.attempts == 0 {
			return notSent(result.Message)
		}
		return nextStep{do: pauses, kind: ReadPod, pause: retryBase}
	default: // Unknown
		if (r.attempts+1)%maxAttempts == 0 {
			return r.repeat(ReadPod)
		}
		return r.repeat(WriteBinding)
	}
}

// afterRead decides after the pod was read.
func (r *row) afterRead(result *Result) nextStep {
	switch {
	case result.Outcome == Gone:
		return nextStep{do: isVanished}
	case result.Outcome == Written && result.Node == r.node:
		return nextStep{do: isBound}
	case result.Outcome == Written && result.Node != "":
		return nextStep{do: isVanished} // somebody else's; the watch moves it
	case result.Outcome == Written && r.refusal != "":
		return released(r.refusal)
	case result.Outcome == Written: // still unbound: the same Binding again, on the same node
		return r.repeat(WriteBinding)
	}
	return r.repeat(ReadPod)
}

// afterNomination decides after a nomination was answered. nodeGone says that the row's node does not exist any more.
func (r *row) afterNomination(result *Result, nodeGone bool) nextStep {
	switch {
	case result.Outcome == Written:
		return nextStep{do: nominates}
	case result.Outcome == Gone:
		return nextStep{do: isVanished}
	case result.Outcome == Refused:
		return released("nomination: " + result.Message)
	case result.Outcome == NotSent && r.attempts == 0:
		return notSent(result.Message)
	case nodeGone:
		return nextStep{do: isReleased, message: cluster.RejectNodeGone, unsent: true}
	}
	return r.repeat(WriteNomination) // the write can be repeated
}
