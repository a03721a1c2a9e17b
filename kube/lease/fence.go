package lease

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"hilbert.dev/hilbert/kube/apiserver"
)

// ErrFenced is returned where a byte would have left this process though its leadership might end before the write does.
var ErrFenced = errors.New("leadership is running out")

// Fence says whether a write may start. A Lease alone is no fence: a process can be frozen between looking at it and sending, or its
// write can take longer than the Lease lasts. So a write may start only while
//
//	last renewal + renewDeadline − writeTimeout
//
// is ahead, where the renewal counts from just before its request was sent, and no write takes longer than writeTimeout. Others take the
// Lease no earlier than leaseDuration, which is longer than renewDeadline, after that renewal. Time is what passed on the monotonic clock
// or on the wall clock, whichever is more: the first stands still while a machine is suspended, the second can be set back.
//
// Its methods may be called from several goroutines.
type Fence struct {
	renewDeadline, writeTimeout time.Duration

	term    atomic.Uint64
	renewal atomic.Pointer[time.Time]

	mu    sync.Mutex
	conns map[*fencedConn]struct{}
}

// NewFence returns a Fence that is shut.
func NewFence(renewDeadline, writeTimeout time.Duration) *Fence {
	return &Fence{renewDeadline: renewDeadline, writeTimeout: writeTimeout, conns: make(map[*fencedConn]struct{})}
}

// Open reports whether a write that takes up to timeout may start.
func (f *Fence) Open(now time.Time, timeout time.Duration) bool { return f.left(now, timeout) > 0 }

// left is for how long the fence stays open if the Lease is not renewed.
func (f *Fence) left(now time.Time, timeout time.Duration) time.Duration {
	renewal := f.renewal.Load()
	if renewal == nil {
		return 0
	}
	elapsed := max(now.Sub(*renewal), now.Round(0).Sub(renewal.Round(0))) // Round(0) strips the monotonic reading
	return f.renewDeadline - timeout - elapsed
}

// Renewed opens the fence: the Lease was Renewed by a request that was about to be sent at the given time.
func (f *Fence) Renewed(sent time.Time) { f.renewal.Store(&sent) }

// Shut closes the fence and every connection that was made behind it, so that nothing that lies ready in one can leave later.
func (f *Fence) Shut() {
	f.renewal.Store(nil)
	f.term.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Conn.Close()
	}
	clear(f.conns)
}

// Dial makes connections that check the fence.
func (f *Fence) Dial(inner apiserver.Dial) apiserver.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		term := f.term.Load()
		if !f.Open(time.Now(), f.writeTimeout) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: ErrFenced}
		}
		conn, err := inner(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &fencedConn{Conn: conn, fence: f, term: term}
		f.mu.Lock()
		f.conns[c] = struct{}{}
		f.mu.Unlock()
		return c, nil
	}
}

// fencedConn checks the fence right before each Write system call: a process that was frozen after it decided to write does not send
// when it wakes. It sits below TLS and HTTP, so nothing is buffered beneath it. A connection of an earlier term never writes again.
type fencedConn struct {
	net.Conn
	fence *Fence
	term  uint64
}

func (c *fencedConn) Write(b []byte) (int, error) {
	now := time.Now()
	left := c.fence.left(now, c.fence.writeTimeout)
	if left <= 0 || c.fence.term.Load() != c.term {
		_ = c.Close()
		return 0, ErrFenced
	}
	// If the kernel's buffer is full, Write sleeps and tries again by itself; the deadline ends that.
	if err := c.SetWriteDeadline(now.Add(left)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *fencedConn) Close() error {
	c.fence.mu.Lock()
	delete(c.fence.conns, c)
	c.fence.mu.Unlock()
	return c.Conn.Close()
}
