package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/peers"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/outside"
)

// maxCalls bounds what of schedulers in other processes waits for the loop.
const maxCalls = 64

// errEnded says that the loop runs no more.
var errEnded = errors.New("this process ends")

// desk is the loop's side of schedulers in other processes. What comes from them is run in the loop's goroutine; what goes to them is put into a channel of one, for each is sent something only
// after it has answered.
type desk struct {
	calls   chan func()
	ended   chan struct{}
	once    sync.Once
	members map[schedule.OutsideID]*seat // the loop's goroutine alone
}

// seat is one of them.
type seat struct {
	loop      *loop
	scheduler *schedule.Scheduler // of the term in which it joined
	id        schedule.OutsideID
	works     chan *outside.Work
	shed      bool // written before works is closed
}

func newDesk() *desk {
	return &desk{calls: make(chan func(), maxCalls), ended: make(chan struct{}), members: make(map[schedule.OutsideID]*seat)}
}

// do runs f in the loop's goroutine.
func (d *desk) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case d.calls <- func() { f(); close(done) }:
	case <-d.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-d.ended:
		return errEnded
	}
}

// take runs what waits.
func (d *desk) take() {
	for {
		select {
		case call := <-d.calls:
			call()
		default:
			return
		}
	}
}

// send sends what schedulers are to do now, and closes the streams of those that were shed.
func (d *desk) send(s *schedule.Scheduler, now time.Time) {
	for _, x := range s.Outside().Works(now) {
		if m := d.members[x.To]; m != nil {
			m.works <- x.Work // it has taken the last one
		}
	}
	for _, id := range s.Outside().Shed() {
		d.close(id, true)
	}
}

func (d *desk) close(id schedule.OutsideID, shed bool) {
	if m := d.members[id]; m != nil {
		m.shed = shed
		close(m.works)
		delete(d.members, id)
	}
}

// dismiss closes all streams: they are of a term that is over.
func (d *desk) dismiss() {
	for id := range d.members {
		d.close(id, false)
	}
}

// end lets nobody wait for the loop any more.
func (d *desk) end() {
	d.dismiss()
	d.once.Do(func() { close(d.ended) })
}

// door is where schedulers in other processes ask to be let in: their tokens are checked beside the loop, which waits for nobody.
type door struct {
	*loop
	tokens tokenCheck // nil: certificates suffice
}

// tokenCheck is nil if the token is of one who may decide for this process. Else the error says why not; peers.ErrUncertain: nobody could say.
type tokenCheck func(ctx context.Context, token string) error

// Join implements peers.Desk.
func (d *door) Join(ctx context.Context, h *outside.Hello, token string) (peers.Member, *outside.Welcome, error) {
	if d.tokens != nil {
		leads := false
		if err := d.desk.do(ctx, func() { leads = d.leadsNow() }); err != nil {
			return nil, nil, err
		}
		if !leads { // whose token it is, is the leader's question
			return nil, nil, peers.ErrStandby
		}
		if err := d.tokens(ctx, token); err != nil {
			return nil, nil, err
		}
	}
	return d.join(ctx, h)
}

// newTokenCheck asks the API server whose a token is. It has no part in the tokens of those who ask for metrics: they keep no scheduler out.
func newTokenCheck(c *apiserver.Connection, p *spec.Peers) (tokenCheck, error) {
	if p.TokenAudience == "" {
		return nil, nil
	}
	r, err := visibility.NewReviewer(c, p.TokenAudience)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, token string) error {
		if token == "" {
			return fmt.Errorf("it shows no token for the audience %s; set its peers.tokenFile", p.TokenAudience)
		}
		user, err := r.Identify(ctx, token)
		switch {
		case errors.Is(err, visibility.ErrUnauthenticated):
			return err
		case err != nil:
			return fmt.Errorf("%w: %w", peers.ErrUncertain, err)
		case !slices.Contains(p.TokenUsers, user.Username):
			return fmt.Errorf("the token is of the user %s; want one of %q", user.Username, p.TokenUsers)
		}
		return nil
	}, nil
}

func (l *loop) leadsNow() bool { return l.phase == leading && l.term != nil }

// join takes a scheduler in whose credentials are good.
func (l *loop) join(ctx context.Context, h *outside.Hello) (peers.Member, *outside.Welcome, error) {
	m := &seat{loop: l, works: make(chan *outside.Work, 1)}
	var welcome *outside.Welcome
	refused := peers.ErrStandby
	err := l.desk.do(ctx, func() {
		if !l.leadsNow() || ctx.Err() != nil {
			return
		}
		m.scheduler = l.scheduler
		if m.id, welcome, refused = l.scheduler.Outside().Join(h, l.ports.now()); refused == nil {
			l.desk.members[m.id] = m
		}
	})
	if err = errors.Join(err, refused); err != nil {
		return nil, nil, err
	}
	return m, welcome, nil
}

// Works implements peers.Member.
func (m *seat) Works() <-chan *outside.Work { return m.works }

// Shed implements peers.Member.
func (m *seat) Shed() bool { return m.shed }

// Answer implements peers.Member.
func (m *seat) Answer(ctx context.Context, a *outside.Answer) (err error) {
	failed := m.loop.desk.do(ctx, func() {
		if m.loop.scheduler == m.scheduler {
			err = m.scheduler.Outside().Answer(m.id, a, m.loop.ports.now())
		}
	})
	return errors.Join(failed, err)
}

// Leave implements peers.Member.
func (m *seat) Leave() {
	_ = m.loop.desk.do(context.Background(), func() { // an error: the loop has ended, and nobody decides any more
		delete(m.loop.desk.members, m.id)
		if m.loop.scheduler == m.scheduler {
			m.scheduler.Outside().Leave(m.id, m.loop.ports.now())
		}
	})
}

// servePeers opens the address for schedulers in other processes.
func servePeers(config *spec.Configuration, c *apiserver.Connection, l *loop, o Options) (*peers.Server, error) {
	tokens, err := newTokenCheck(c, &config.Peers)
	if err != nil {
		return nil, err
	}
	listener, err := peers.Listen(config.Peers.BindAddress)
	if err != nil {
		return nil, err
	}
	p := &config.Peers
	files := &peers.Files{Certificate: p.TLSCertFile, Key: p.TLSPrivateKeyFile, Authorities: p.CAFile, Names: p.SchedulerNames}
	s, err := peers.Serve(listener, &door{l, tokens}, files, l.log)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if o.OnPeersListen != nil {
		o.OnPeersListen(listener.Addr().String())
	}
	return s, nil
}
