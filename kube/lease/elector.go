package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	coordinationapi "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
)

// Elector campaigns for the Lease that makes one process the leader, and opens and shuts the Fence as it is won, renewed and lost.
type Elector struct {
	config   spec.LeaderElection
	identity string
	client   coordinationv1.LeasesGetter
	fence    *Fence
	log      *slog.Logger
	now      func() time.Time
	holder   atomic.Pointer[string] // as the Lease was last read or written; nil: never
}

// NewElector returns an Elector with an identity of its own.
func NewElector(c *apiserver.Connection, config spec.LeaderElection, fence *Fence, log *slog.Logger) (*Elector, error) {
	// The Lease itself holds whole seconds, and others wait that long: a fraction that is cut off must not eat the safety margin.
	if whole := config.LeaseDuration.D().Truncate(time.Second); whole <= config.RenewDeadline.D() {
		return nil, fmt.Errorf("leaderElection.leaseDuration: %v counts as %v, which must be longer than renewDeadline (%v); write whole seconds",
			config.LeaseDuration.D(), whole, config.RenewDeadline.D())
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this process for the leader election: %w", err)
	}
	own := apiserver.ForPurpose(c, "leader-election", nil)
	own.Timeout = max(config.RenewDeadline.D()/2, time.Second) // a stuck request must leave time for another
	client, err := coordinationv1.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for the leader election: %w", err)
	}
	return &Elector{
		config: config, identity: host + "_" + string(uuid.NewUUID()), client: client, fence: fence, log: log, now: time.Now,
	}, nil
}

// Identity is what the Lease's holderIdentity says while this process leads.
func (e *Elector) Identity() string { return e.identity }

// Leader is the identity that the Lease had when this process last read or wrote it; empty: nobody's.
func (e *Elector) Leader() string {
	if holder := e.holder.Load(); holder != nil {
		return *holder
	}
	return ""
}

// Takeover is how a Term began.
type Takeover uint8

const (
	// Released: the last holder gave the Lease back, after its last write was answered.
	Released Takeover = iota + 1
	// Expired: the last holder did not renew the Lease; writes that it sent may still be under way.
	Expired
	// Absent: there was no Lease: nobody ever led here, or somebody deleted it under a leader's feet.
	Absent
)

func (t Takeover) String() string {
	return [...]string{"unknown", "released", "expired", "absent"}[t]
}

// Term is one leadership of this process.
type Term struct {
	takeover Takeover
	lock     *fencedLock
	cancel   context.CancelFunc
	lost     chan struct{}
}

// Campaign waits until this process holds the Lease. It fails only when ctx ends. At most one Term may be open at a time.
func (e *Elector) Campaign(ctx context.Context) (*Term, error) {
	run, cancel := context.WithCancel(apiserver.Silence(context.WithoutCancel(ctx)))
	lock := &fencedLock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.config.Namespace, Name: e.config.Name},
			Client:     e.client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.identity},
		},
		fence: e.fence, now: e.now, lose: cancel, holder: &e.holder, health: apiserver.Health{Log: e.log, What: "the leader election's Lease"},
	}
	term := &Term{lock: lock, cancel: cancel, lost: make(chan struct{})}
	won := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   e.config.LeaseDuration.D(),
		RenewDeadline:   e.config.RenewDeadline.D(),
		RetryPeriod:     e.config.RetryPeriod.D(),
		ReleaseOnCancel: true, // the lock permits it only once the writes are drained
		Name:            e.config.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(won) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("leaderElection: %w", err)
	}
	go func() {
		e.runAgainWhenFree(run, lock, elector.Run)
		e.fence.Shut()
		close(term.lost)
	}()
	select {
	case <-won:
		term.takeover = lock.began()
		return term, nil
	case <-term.lost:
	case <-ctx.Done():
		term.Release() // if it was won in this moment: nothing has been written under it
	}
	return nil, errors.Join(ctx.Err(), errors.New("the campaign for the Lease ended"))
}

// runAgainWhenFree runs an election until its Term ends. client-go asks for the Lease once in a retryPeriod; here it asks also when the Lease is seen to be free, for then
// nobody schedules.
func (e *Elector) runAgainWhenFree(ctx context.Context, lock *fencedLock, elect func(context.Context)) {
	for {
		round, again := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() {
			if e.awaitFree(round, lock.isLeading) {
				lock.unlessLeading(again)
			}
		})
		elect(round)
		again()
		watching.Wait()
		if ctx.Err() != nil || lock.isLeading() {
			return
		}
	}
}

// awaitFree returns true when the Lease is seen to be given back or deleted, and false when the context ends or this process leads. Whatever goes wrong is no matter: client-go asks
// too.
func (e *Elector) awaitFree(ctx context.Context, leading func() bool) bool {
	for ctx.Err() == nil && !leading() {
		w, err := e.client.Leases(e.config.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + e.config.Name})
		if err == nil {
			if e.freed(ctx, w) {
				return true
			}
		}
		select {
		case <-time.After(e.config.RetryPeriod.D()):
		case <-ctx.Done():
		}
	}
	return false
}

// freed follows a watch of the Lease until it ends, or says that this process holds the Lease, or that nobody does any more.
func (e *Elector) freed(ctx context.Context, w watch.Interface) bool {
	defer w.Stop()
	held := false
	for {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				return false
			}
			lease, ok := event.Object.(*coordinationapi.Lease)
			if !ok {
				return false
			}
			has := event.Type != watch.Deleted && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
			switch {
			case held && !has:
				return true
			case has && *lease.Spec.HolderIdentity == e.identity:
				return false
			}
			held = has
		case <-ctx.Done():
			return false
		}
	}
}

// Epoch names the term: who holds the Lease, and how often it has changed hands. No two terms have the same.
func (t *Term) Epoch() string {
	t.lock.mu.Lock()
	defer t.lock.mu.Unlock()
	return t.lock.Identity() + "/" + strconv.Itoa(t.lock.transitions)
}

// Takeover says how the Term began.
func (t *Term) Takeover() Takeover { return t.takeover }

// Lost is closed when the Lease is no longer ours. The Fence is shut by then.
func (t *Term) Lost() <-chan struct{} { return t.lost }

// Release gives the Lease back, so that a standby takes over at once. Call it only when every write has been answered.
func (t *Term) Release() {
	t.lock.permitRelease()
	t.Abandon()
}

// Abandon ends the Term without giving the Lease back: others wait until it expires. It returns when the election has stopped.
func (t *Term) Abandon() {
	t.cancel()
	<-t.lost
}

// errNotOurs ends a renewal when the Lease turns out to be somebody else's. client-go would take it again where it is free, and lead on
// as if nothing had happened in between.
var errNotOurs = errors.New("the Lease was taken or deleted while we held it")

// errNotDrained refuses to give the Lease back: client-go does so when it stops, whyever it stops.
var errNotDrained = errors.New("writes may be under way, so the Lease is left to expire")

// fencedLock opens the Fence with each request that holds the Lease, from just before the request was sent, and shuts it as soon as the
// Lease is seen not to be ours.
type fencedLock struct {
	resourcelock.Interface
	fence  *Fence
	now    func() time.Time
	lose   func()
	holder *atomic.Pointer[string]
	health apiserver.Health

	mu       sync.Mutex
	mayEnd   bool
	leading  bool
	lost     bool
	takeover Takeover // as the Lease was last read before we held it
	// transitions of the Lease, as it was last written.
	transitions int
}

func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case apierrors.IsNotFound(err):
		l.health.Succeeded()
		l.sawLocked(Absent, "")
	case err != nil:
		l.health.Failed(err)
	case record.HolderIdentity == "":
		l.health.Succeeded()
		l.sawLocked(Released, "")
	default:
		l.health.Succeeded()
		l.sawLocked(Expired, record.HolderIdentity)
	}
	return record, raw, err
}

func (l *fencedLock) sawLocked(takeover Takeover, holder string) {
	l.holder.Store(&holder)
	if !l.leading {
		l.takeover = takeover
		return
	}
	if holder != l.Identity() && !l.lost {
		l.lost = true
		l.fence.Shut()
		l.lose()
	}
}

func (l *fencedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(record, func() error { return l.Interface.Create(ctx, record) })
}

func (l *fencedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *fencedLock) hold(record resourcelock.LeaderElectionRecord, request func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if record.HolderIdentity == "" {
		if !l.mayEnd {
			return errNotDrained
		}
		l.fence.Shut()
		return request()
	}
	if l.lost {
		return errNotOurs
	}
	sent := l.now()
	if err := request(); err != nil {
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // else somebody was quicker: that is what a Lease is for
			l.health.Failed(err)
		}
		return err
	}
	l.health.Succeeded()
	l.leading, l.transitions = true, record.LeaderTransitions
	l.holder.Store(&record.HolderIdentity)
	l.fence.Renewed(sent)
	return nil
}

func (l *fencedLock) isLeading() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading
}

// unlessLeading calls f while no request for the Lease is under way, unless one has succeeded.
func (l *fencedLock) unlessLeading(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leading {
		f()
	}
}

// RecordEvent does nothing: the log and the Lease itself say who leads.
func (l *fencedLock) RecordEvent(string) {}

func (l *fencedLock) permitRelease() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mayEnd = true
}

func (l *fencedLock) began() Takeover {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takeover
}
