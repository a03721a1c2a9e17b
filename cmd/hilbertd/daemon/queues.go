package daemon

import (
	"context"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/write"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/inspect"
)

const (
	// queueStatusInterval is how often the status of Queues is written. Computing it walks over all pods.
	queueStatusInterval = 10 * time.Second
	// queueStatusesPerRound bounds the Queues that are written at once. If there are more, they take turns.
	queueStatusesPerRound = 1000
)

// queueWriter writes the status of Queues; write.QueueWriter implements it. It skips a status that is written already, and does not
// repeat a write that failed, so every status is handed to it each time.
type queueWriter interface {
	Write(ctx context.Context, name string, status write.QueueStatus) error
	Close()
}

// queueReporter writes the status of Queues while this process leads. With a nil writer it writes none.
type queueReporter struct {
	writer queueWriter
	next   time.Time
	from   int // index of the configured queue whose turn it is
}

// report hands the statuses to the writer when they are due, and returns the time until then; idlePoll if there are no queues.
func (q *queueReporter) report(s *schedule.Scheduler, now time.Time) time.Duration {
	if q.writer == nil || !s.Store().Quota().Configured() {
		return idlePoll
	}
	if left := q.next.Sub(now); left > 0 {
		return left
	}
	q.next = now.Add(queueStatusInterval)
	var list []inspect.QueueStatus
	for _, status := range inspect.QueueStatuses(s.Store()) {
		if status.Configured {
			list = append(list, status)
		}
	}
	for i := range min(len(list), queueStatusesPerRound) {
		status := &list[(q.from+i)%len(list)]
		if err := q.writer.Write(context.Background(), status.Name, kubeStatus(status)); err != nil {
			break // too many wait to be written; the next round has newer ones
		}
	}
	if q.from += queueStatusesPerRound; q.from >= len(list) {
		q.from = 0
	}
	return queueStatusInterval
}

// kubeStatus is a status as a Queue carries it.
func kubeStatus(s *inspect.QueueStatus) write.QueueStatus {
	k := write.QueueStatus{
		UID: s.UID, Generation: s.Generation, PendingUnits: int32(s.PendingUnits), PendingPods: int32(s.PendingPods), RunningPods: int32(s.RunningPods),
		Problem: facts.Condition{Reason: s.Reason, Message: s.Message}, Refuses: !s.Ready,
	}
	for _, a := range s.Amounts {
		for _, column := range []struct {
			list   *[]resource.Quantity
			amount int64
		}{{&k.Used, a.Used}, {&k.Borrowed, a.Borrowed}, {&k.FairShare, a.FairShare}} {
			if column.amount != 0 {
				*column.list = append(*column.list, resource.Quantity{Name: a.Resource, Amount: column.amount})
			}
		}
	}
	return k
}

func (q *queueReporter) close() {
	if q.writer != nil {
		q.writer.Close()
	}
}
