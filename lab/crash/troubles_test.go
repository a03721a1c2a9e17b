package crash

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"hilbert.dev/hilbert/lab/link"
)

// The troubles of a round. The first lot strike one at a time; those of the second may be there beside one of them.
const (
	killScheduler   = "kill -9 of a scheduler"
	killLeader      = "kill -9 of the leader"
	killStandby     = "kill -9 of the standby"
	killAPIServer   = "kill -9 of the API server"
	freezeScheduler = "SIGSTOP of a scheduler"
	freezeLeader    = "SIGSTOP of the leader, for longer than its lease"
	holdScheduler   = "a scheduler is out of reach"
	holdLeader      = "the leader is out of the API server's reach, for longer than its lease"
	cutLeader       = "connections of the leader to the API server are cut"

	cutScheduler  = "connections of a scheduler are cut"
	slowScheduler = "the way to a scheduler is slow"
	slowLeader    = "the way of the leader to the API server is slow"
	slowStore     = "the store is slow"
)

var (
	troubles    = []string{killScheduler, killLeader, killAPIServer, freezeScheduler, freezeLeader, holdScheduler, holdLeader, cutLeader, killStandby}
	besideThese = []string{cutScheduler, slowScheduler, slowLeader, slowStore}
)

// turn is what one round does, drawn before anything has begun.
type turn struct {
	after     int // pods of the batch that are bound before
	trouble   string
	beside    string // "" for none
	scheduler int    // that is struck
	other     int    // that is struck beside
	hold      time.Duration
	slow      time.Duration
}

// planTroubles has every trouble in as many rounds as there are, in an order of its own, before one comes again.
func planTroubles(random *rand.Rand, rounds int) (plan []turn) {
	var left []string
	for range rounds {
		if len(left) == 0 {
			left = append(left, troubles...)
			random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		t := turn{
			after: 1 + random.IntN(batchPods-batchPods/10), trouble: left[0], scheduler: random.IntN(outsideSchedulers), other: random.IntN(outsideSchedulers),
			hold: time.Duration(500+random.IntN(3500)) * time.Millisecond, slow: time.Duration(20+random.IntN(180)) * time.Millisecond,
		}
		if left = left[1:]; random.IntN(3) > 0 {
			t.beside = besideThese[random.IntN(len(besideThese))]
		}
		plan = append(plan, t)
	}
	return plan
}

func (o *outsideRig) say(format string, args ...any) {
	o.t.Logf("%6.2f s: %s", time.Since(o.began).Seconds(), fmt.Sprintf(format, args...))
}

// play begins a round's troubles, and ends them.
func (o *outsideRig) play(t turn, struck map[string]int) error {
	leader, err := o.leader(o.t.Context())
	if err != nil {
		return err
	}
	o.say("%s; beside: %q; leader %d, schedulers %d and %d, %s, slow by %s", t.trouble, t.beside, leader, t.scheduler, t.other, t.hold, t.slow)
	struck[t.trouble]++
	var healed []*link.Link
	if t.beside != "" {
		struck[t.beside]++
		healed = o.disturb(t, leader)
	}
	if err := o.strike(t, leader); err != nil {
		return fmt.Errorf("%s: %w", t.trouble, err)
	}
	if t.beside != "" {
		time.Sleep(t.hold)
	}
	for _, l := range healed {
		l.Heal()
	}
	o.say("healed")
	return nil
}

// disturb begins what is there beside, and returns the links to heal.
func (o *outsideRig) disturb(t turn, leader int) []*link.Link {
	switch t.beside {
	case cutScheduler:
		for _, l := range o.peers[t.other] {
			l.Cut()
		}
		return o.peers[t.other][:]
	case slowScheduler:
		for _, l := range o.peers[t.other] {
			l.Delay(t.slow)
		}
		return o.peers[t.other][:]
	case slowLeader:
		o.api[leader].Delay(t.slow)
		return o.api[leader : leader+1]
	default:
		o.plane.store.Delay(t.slow / 4) // each request waits for several answers of the store
		return []*link.Link{o.plane.store}
	}
}

// strike does what the round is for, and ends it.
func (o *outsideRig) strike(t turn, leader int) error {
	switch t.trouble {
	case killScheduler:
		if err := o.schedulers[t.scheduler].kill(); err != nil {
			return err
		}
		return o.restartScheduler(t.scheduler)
	case killLeader:
		o.leadersHit++
		if err := o.daemons[leader].kill(); err != nil {
			return err
		}
		return o.restart(leader)
	case killStandby:
		if err := o.daemons[1-leader].kill(); err != nil {
			return err
		}
		return o.restart(1 - leader)
	case killAPIServer:
		if err := o.plane.kill(); err != nil {
			return err
		}
		return o.plane.ready()
	case freezeScheduler:
		d := o.schedulers[t.scheduler]
		if err := d.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(t.hold)
		return d.signal(syscall.SIGCONT)
	case freezeLeader:
		o.leadersHit++
		if err := o.daemons[leader].signal(syscall.SIGSTOP); err != nil {
			return err
		}
		if err := o.succeeded(leader); err != nil {
			return err
		}
		return o.daemons[leader].signal(syscall.SIGCONT)
	case holdLeader:
		o.leadersHit++
		o.api[leader].Hold()
		defer o.api[leader].Heal()
		return o.succeeded(leader)
	case cutLeader:
		o.api[leader].Cut()
		defer o.api[leader].Heal()
		time.Sleep(t.hold)
		return nil
	default:
		for _, l := range o.peers[t.scheduler] {
			l.Hold()
			defer l.Heal()
		}
		time.Sleep(t.hold)
		return nil
	}
}

// succeeded waits for two leases, and until the other leads.
func (o *outsideRig) succeeded(leader int) error {
	time.Sleep(2 * leaseSeconds * time.Second)
	if err := o.awaitLeader(o.t.Context(), 1-leader); err != nil {
		return err
	}
	o.say("%s leads", o.daemons[1-leader].name)
	return nil
}
