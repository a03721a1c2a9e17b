package schedule

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/schedule/profiles"
)

// Reconfigure goes on with other settings: scores, curves and queues of profiles, backoff, conditions, units, evictions, events, and of binding what is not the number of
// writes in flight or their timeout. All else must be as it was; so must the names of profiles and their scheduler names, for pods carry the numbers of profiles. It fails,
// and changes nothing, on a score name that does not exist. It must not be called within Step.
//
// What was decided stands. Rankings of nodes are made anew when the next pods need them.
func (s *Scheduler) Reconfigure(cfg spec.Scheduling, now time.Time) error {
	set, err := profiles.New(&cfg)
	if err != nil {
		return err
	}
	set.Share(s.market)
	s.sharing.workers.idle()
	for _, in := range s.decisions.instances {
		in.placers.Use(set)
	}
	for _, w := range s.sharing.workers.list {
		w.placers.Use(set)
	}
	s.cfg = cfg
	s.waiting.retries.cfg = cfg.Backoff
	s.binder.Reconfigure(cfg.Binding, cfg.Conditions)
	s.blocked.explanations.interval = cfg.Conditions.MinInterval.D()
	s.gate.Reservations.SetMost(cfg.Units.MaxReservations)
	s.gangs.timers.reconfigure(cfg.Units, now)
	s.relief.Reconfigure(cfg.Evictions)
	s.podEvents.TellPlacements(cfg.Events.Scheduled)
	s.sharing.outsiders.config = nil // one that joins is told the new ones
	return nil
}
