package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
)

// modelLock is a Lease in memory. Each request takes as long as the clock is moved by it.
type modelLock struct {
	holder string
	absent bool
	fail   error
	during func()
}

func (m *modelLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if m.absent {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "hilbert")
	}
	return &resourcelock.LeaderElectionRecord{HolderIdentity: m.holder}, nil, m.fail
}

func (m *modelLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	m.absent = false
	return m.Update(ctx, r)
}

func (m *modelLock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if m.during != nil {
		m.during()
	}
	if m.fail == nil {
		m.holder = r.HolderIdentity
	}
	return m.fail
}

func (m *modelLock) RecordEvent(string) {}
func (m *modelLock) Identity() string   { return "me" }
func (m *modelLock) Describe() string   { return "model" }

type lockModel struct {
	*fencedLock
	lease *modelLock
	now   time.Time
	lost  int
}

func newLockModel() *lockModel {
	m := &lockModel{lease: &modelLock{}, now: time.Now()}
	m.fencedLock = &fencedLock{
		Interface: m.lease, fence: NewFence(10*time.Second, 2*time.Second), now: func() time.Time { return m.now },
		holder: new(atomic.Pointer[string]), lose: func() { m.lost++ }, health: apiserver.Health{Log: slog.New(slog.DiscardHandler), What: "the Lease"},
	}
	return m
}

func (m *lockModel) hold(t *testing.T) {
	t.Helper()
	write := m.Update
	if m.lease.absent {
		write = m.Create
	}
	if err := write(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
		t.Fatal(err)
	}
}

func (m *lockModel) open() bool { return m.fence.Open(m.now, 2*time.Second) }

func TestFenceCountsFromBeforeTheRequest(t *testing.T) {
	m := newLockModel()
	m.lease.during = func() { m.now = m.now.Add(7 * time.Second) }
	m.hold(t) // the answer comes 7 s after the request was sent; 8 s are the most
	if !m.open() {
		t.Error("shut right after a slow renewal")
	}
	m.now = m.now.Add(time.Second)
	if m.open() {
		t.Error("the fence counts from the answer, not from the request")
	}
}

func TestFailedRenewalDoesNotMoveTheFence(t *testing.T) {
	m := newLockModel()
	m.hold(t)
	m.now = m.now.Add(5 * time.Second)
	m.lease.fail = errors.New("connection lost")
	if err := m.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err == nil {
		t.Fatal("no error")
	}
	m.now = m.now.Add(3 * time.Second)
	if m.open() {
		t.Error("a renewal that failed kept the fence open")
	}
}

func TestTakeover(t *testing.T) {
	cases := map[Takeover]*modelLock{Absent: {absent: true}, Released: {holder: ""}, Expired: {holder: "other"}}
	for want, lease := range cases {
		t.Run(want.String(), func(t *testing.T) {
			m := newLockModel()
			*m.lease = *lease
			_, _, _ = m.Get(t.Context())
			m.hold(t)
			if got := m.began(); got != want {
				t.Errorf("got %v", got)
			}
			_, _, _ = m.Get(t.Context()) // reading our own Lease later changes nothing
			if got := m.began(); got != want || m.lost != 0 {
				t.Errorf("after a renewal: %v, lost %d times", got, m.lost)
			}
		})
	}
}

// A process that was frozen while somebody else led must not lead on when it finds the Lease free: it missed a whole leadership.
func TestLeaseSeenElsewhereEndsTheTerm(t *testing.T) {
	for name, seen := range map[string]modelLock{"taken": {holder: "other"}, "taken and released": {holder: ""}, "deleted": {absent: true}} {
		t.Run(name, func(t *testing.T) {
			m := newLockModel()
			m.hold(t)
			*m.lease = seen
			_, _, _ = m.Get(t.Context())
			if m.open() || m.lost != 1 {
				t.Errorf("fence open: %v; told to lose %d times", m.open(), m.lost)
			}
			record := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
			if err := m.Update(t.Context(), record); !errors.Is(err, errNotOurs) {
				t.Errorf("took it again: %v", err)
			}
			if err := m.Create(t.Context(), record); !errors.Is(err, errNotOurs) {
				t.Errorf("made it again: %v", err)
			}
		})
	}
}

func TestReleaseOnlyWhenDrained(t *testing.T) {
	m := newLockModel()
	m.hold(t)
	if err := m.Update(t.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, errNotDrained) || m.lease.holder != "me" {
		t.Errorf("gave the Lease back before the writes were drained: %v, holder %q", err, m.lease.holder)
	}
	m.permitRelease()
	openDuring := true
	m.lease.during = func() { openDuring = m.open() }
	if err := m.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || m.lease.holder != "" {
		t.Errorf("err %v, holder %q", err, m.lease.holder)
	}
	if openDuring {
		t.Error("the fence was open while the Lease was given back")
	}
}

func TestElectorRefusesDurationsThatTruncate(t *testing.T) {
	config := spec.Default().LeaderElection
	config.LeaseDuration, config.RenewDeadline = spec.Duration(2900*time.Millisecond), spec.Duration(2500*time.Millisecond)
	fence := NewFence(config.RenewDeadline.D(), time.Second)
	if _, err := NewElector(&apiserver.Connection{Host: "http://localhost"}, config, fence, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("2.9 s count as 2 s in a Lease, which is less than the renew deadline")
	}
}

// TestLeader: a process knows who leads by what it read or wrote last, itself included.
func TestLeader(t *testing.T) {
	m := newLockModel()
	e := &Elector{}
	m.holder = &e.holder
	if got := e.Leader(); got != "" {
		t.Errorf("before anything was read, %q leads", got)
	}
	m.lease.holder = "other"
	if _, _, err := m.Get(t.Context()); err != nil || e.Leader() != "other" {
		t.Errorf("%q leads, %v", e.Leader(), err)
	}
	m.lease.holder = ""
	if _, _, err := m.Get(t.Context()); err != nil || e.Leader() != "" {
		t.Errorf("after it was given back, %q leads, %v", e.Leader(), err)
	}
	if err := m.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil || e.Leader() != "me" {
		t.Errorf("%q leads, %v", e.Leader(), err)
	}
}

// TestReleaseIsSeen: a standby takes the Lease when it is given back, and does not wait for its next turn to ask.
func TestReleaseIsSeen(t *testing.T) {
	client := fake.NewClientset().CoordinationV1()
	hours := func(n int) spec.Duration { return spec.Duration(time.Duration(n) * time.Hour) }
	config := spec.LeaderElection{Namespace: "kube-system", Name: "hilbert", LeaseDuration: hours(4), RenewDeadline: hours(3), RetryPeriod: hours(1)}
	holder, seconds, now := "other_1", int32(4*3600), metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: config.Namespace, Name: config.Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
	leases := client.Leases(config.Namespace)
	if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	e := &Elector{config: config, identity: "me_1", client: client, fence: NewFence(config.RenewDeadline.D(), time.Second), log: quiet, now: time.Now}
	terms := make(chan *Term, 1)
	go func() {
		term, err := e.Campaign(t.Context())
		if err != nil {
			t.Error(err)
		}
		terms <- term
	}()
	for asked := time.Now().Add(time.Minute); e.Leader() != holder; { // it has asked once
		if time.Now().After(asked) {
			t.Fatal("the Lease was not asked for")
		}
		time.Sleep(time.Millisecond)
	}
	giveUp := time.Now().Add(time.Minute) // far sooner than the retry, which is in an hour
	for done := false; !done; {           // a watch that begins later misses it, so it is given back until it is taken
		if time.Now().After(giveUp) {
			t.Fatal("the Lease was given back again and again, and nobody took it")
		}
		free := lease.DeepCopy()
		free.Spec.HolderIdentity = new(string)
		held := lease.DeepCopy()
		for _, l := range []*coordinationv1.Lease{held, free} {
			if _, err := leases.Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case term := <-terms:
			if done = true; term.Takeover() != Released {
				t.Errorf("taken over: %s", term.Takeover())
			}
			term.Abandon()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
