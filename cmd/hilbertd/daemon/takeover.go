package daemon

import (
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/lease"
)

// leads begins to decide.
func (l *loop) leads() {
	l.phase = leading
	l.scheduler.Outside().Begin(l.term.Epoch())
	l.log.Info("leading", "nodes", l.scheduler.Store().Nodes(), "pods", l.scheduler.Store().Pods())
}

// handover waits until no write of the last leader can be under way, and then until the watch has told all of them. A watch whose lists are not complete, and one of a small
// cluster, lists everything again.
func (l *loop) handover(now time.Time) (wake time.Duration, busy bool) {
	if l.until.IsZero() {
		if !l.lists.Complete() {
			return idlePoll, false
		}
		l.until = now
		if l.boundByUs() { // another process has led, and may still believe that it does
			l.until = now.Add(l.config.LeaderElection.RenewDeadline.D())
		}
	}
	if left := l.until.Sub(now); left > 0 {
		return left, false
	}
	if l.lists.Complete() && l.scheduler.Store().Pods() > listAtMost {
		l.phase = catchingUp
		l.watch.CatchUp()
		return 0, true
	}
	if !l.listAnew() {
		return fencePoll, false
	}
	return 0, true
}

// listAnew lists everything again before it leads. False: that has to be tried again.
func (l *loop) listAnew() bool {
	if err := l.rewatch(); err != nil {
		l.log.Error("cannot list anew; trying again", "err", err)
		return false
	}
	l.phase = listing
	return true
}

// caughtUp begins to decide if the watch has told everything. Where that could not be found out, everything is listed again.
func (l *loop) caughtUp(event facts.CaughtUp) {
	switch {
	case l.phase != catchingUp:
	case event.Failure == "":
		l.leads()
	default:
		l.log.Warn("it could not be found out whether the watch has told all that the last leader did; listing everything", "why", event.Failure)
		if !l.listAnew() {
			l.phase = waiting // which tries it again
		}
	}
}

// boundByUs reports whether a pod of ours is bound already.
func (l *loop) boundByUs() bool {
	bound := false
	l.scheduler.Store().EachPod(func(pod *cluster.Pod) {
		bound = bound || pod.Ours && pod.Phase == cluster.Bound
	})
	return bound
}

// took begins a term.
func (l *loop) took(t term) {
	l.term, l.phase = t, waiting
	now := l.ports.now()
	switch t.Takeover() {
	case lease.Released:
		l.until = now
	case lease.Expired:
		l.until = now.Add(l.config.Scheduling.Binding.WriteTimeout.D())
	case lease.Absent:
		l.until = time.Time{}
	}
	l.meter.leader.Set(1)
	l.log.Info("holding the Lease", "lastHolder", t.Takeover(), "wait", max(l.until.Sub(now), 0))
}
