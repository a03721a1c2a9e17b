package daemon

import (
	"context"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/inspect"
)

const (
	// queueStatusInterval is how often Queues are told what they have: it costs a walk over the pods.
	queueStatusInterval = 10 * time.Second
	// queueStatusesPerRound bounds the Queues that are told at once. With more, each has its turn.
	queueStatusesPerRound = 1000
)

// queueWriter writes the status of Queues; kube.QueueWriter implements it. What is written already it does not write again, and what failed
// is lost, so it is handed everything each time.
type queueWriter interface {
	Write(ctx context.Context, name string, status kube.QueueStatus) error
	Close()
}

// queueTeller tells Queues their status while this process leads. A nil writer tells nobody.
type queueTeller struct {
	writer queueWriter
	next   time.Time
	from   int // of the configured queues, whose turn it is
}

// tell hands the statuses over when it is time, and returns how long it is until then; idlePoll while there are no queues.
func (q *queueTeller) tell(s *schedule.Scheduler, now time.Time) time.Duration {
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
func kubeStatus(s *inspect.QueueStatus) kube.QueueStatus {
	k := kube.QueueStatus{
		Generation: s.Generation, PendingUnits: int32(s.PendingUnits), PendingPods: int32(s.PendingPods), RunningPods: int32(s.RunningPods),
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

func (q *queueTeller) close() {
	if q.writer != nil {
		q.writer.Close()
	}
}
