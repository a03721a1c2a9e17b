package node

import (
	"context"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/logpages"
)

// LogPages drops page cache of log files: logpages.Dropper.
type LogPages interface {
	Step(at time.Duration, budget, keep int64) logpages.Result
}

// logPages has pages of log files dropped beside the loop, a step at a time.
type logPages struct {
	node  *nodeState
	busy  bool
	bytes int64           // dropped since the start
	notes map[string]bool // as told
}

// drop begins a step of so many bytes.
func (l *logPages) drop(now time.Time, bytes, keep int64) {
	n := l.node
	if bytes <= 0 || l.busy || n.options.LogPages == nil || !n.Loop.Running() {
		return
	}
	l.busy = true
	at := now.Sub(n.Started)
	n.Loop.Work(func(context.Context) {
		result := n.options.LogPages.Step(at, bytes, keep)
		n.Loop.Post(func() {
			l.busy = false
			l.bytes += result.Bytes
			l.tell(result.Problems)
		})
	})
}

// reasonLogPages is of a directory of log files that cannot be worked on.
const reasonLogPages = "LogPagesUnread"

// tell tells what does not work once, and again when it has worked in between.
func (l *logPages) tell(problems []string) {
	told := make(map[string]bool, len(problems))
	for _, problem := range problems {
		if told[problem] = true; !l.notes[problem] {
			l.node.Events.Note(spec.PodRef{}, allocate.Note{Reason: reasonLogPages, Message: problem + ": page cache of its log files is not dropped"})
		}
	}
	l.notes = told
}
