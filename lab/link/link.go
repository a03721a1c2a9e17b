// Package link is the way between two processes, as a test breaks it: a proxy for TCP and Unix sockets that delays what passes, holds it back and cuts connections.
//
// How a byte travels: it is read, waits until its time has come and the link is not held, and is written. The order of a connection's bytes is kept, and none is lost as long as the connection is
// there, as TCP has it: a network that swallows packets delivers them late, when they are sent again.
//
// Invariants: what waits is bounded, so a held link slows the sender down as a full socket does; a connection that is cut is closed on both sides; the end of the test ends everything.
//
// It knows nothing of what it carries.
package link

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

const (
	// chunk is how much is read at once, and chunks how many may wait in each direction.
	chunk, chunks = 32 << 10, 64
	// dialTimeout bounds the connection to the other side.
	dialTimeout = 5 * time.Second
)

// Link carries connections to one address.
type Link struct {
	network, target string
	listener        net.Listener
	open            sync.WaitGroup

	mu          sync.Mutex
	changed     chan struct{} // closed and made anew when the state below changes
	delay       time.Duration
	held, cut   bool
	closed      bool
	connections map[net.Conn]bool
}

// New listens on listen and carries what comes to target, until the test ends. The network is "tcp" or "unix".
func New(t testing.TB, network, listen, target string) *Link {
	t.Helper()
	listener, err := net.Listen(network, listen)
	if err != nil {
		t.Fatalf("link to %s: %v", target, err)
	}
	l := &Link{network: network, target: target, listener: listener, changed: make(chan struct{}), connections: make(map[net.Conn]bool)}
	l.open.Go(l.accept)
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Address is where to connect to.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Delay has each byte wait for so long in each direction.
func (l *Link) Delay(d time.Duration) { l.change(func() { l.delay = d }) }

// Hold lets nothing pass, not even the end of a connection, until Heal.
func (l *Link) Hold() { l.change(func() { l.held = true }) }

// Cut closes all connections, and new ones at once, until Heal.
func (l *Link) Cut() { l.change(func() { l.cut = true; l.closeAll() }) }

// Heal ends what Delay, Hold and Cut began.
func (l *Link) Heal() { l.change(func() { l.delay, l.held, l.cut = 0, false, false }) }

// close ends all connections, and returns when nothing of the link is left.
func (l *Link) close() error {
	l.change(func() { l.closed = true; l.closeAll() })
	err := l.listener.Close()
	l.open.Wait()
	if err != nil {
		return fmt.Errorf("close the link to %s: %w", l.target, err)
	}
	return nil
}

func (l *Link) change(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
	close(l.changed)
	l.changed = make(chan struct{})
}

// closeAll closes all connections, with the lock held.
func (l *Link) closeAll() {
	for c := range l.connections {
		_ = c.Close() // it may be closed already
	}
}

// keep remembers a connection; false: it was closed instead, for the link is cut.
func (l *Link) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.closed {
		_ = c.Close() // nobody has used it
		return false
	}
	l.connections[c] = true
	return true
}

func (l *Link) drop(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = c.Close() // the other direction may have closed it
	delete(l.connections, c)
}

func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && l.keep(near) {
			l.open.Go(func() { l.carry(near) })
		}
	}
}

// carry connects to the target and carries both directions until one side ends.
func (l *Link) carry(near net.Conn) {
	defer l.drop(near)
	ended := make(chan struct{})
	defer close(ended)
	if !l.pass(ended, time.Now()) {
		return
	}
	far, err := net.DialTimeout(l.network, l.target, dialTimeout)
	if err != nil || !l.keep(far) {
		return // as a refused connection, after it was accepted
	}
	defer l.drop(far)
	var both sync.WaitGroup
	both.Go(func() { l.stream(near, far) })
	both.Go(func() { l.stream(far, near) })
	both.Wait()
}

// waiting is what was read, and when.
type waiting struct {
	bytes []byte
	read  time.Time
}

// stream carries one direction. Its end ends the other too: what is carried here are streams of which no side is closed alone.
func (l *Link) stream(from, to net.Conn) {
	queue, ended := make(chan waiting, chunks), make(chan struct{})
	l.open.Go(func() {
		defer close(queue)
		for {
			buffer := make([]byte, chunk)
			n, err := from.Read(buffer)
			if n > 0 {
				select {
				case queue <- waiting{buffer[:n], time.Now()}:
				case <-ended:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	defer close(ended)
	defer func() { l.drop(from); l.drop(to) }()
	for w := range queue {
		if !l.pass(ended, w.read) {
			return
		}
		if _, err := to.Write(w.bytes); err != nil {
			return
		}
	}
	l.pass(ended, time.Now()) // the end travels as bytes do
}

// pass returns when what was read at a time may go on; false: the link is closed.
func (l *Link) pass(ended <-chan struct{}, read time.Time) bool {
	for {
		l.mu.Lock()
		held, closed, changed := l.held, l.closed || l.cut, l.changed
		wait := time.Until(read.Add(l.delay))
		l.mu.Unlock()
		if closed {
			return false
		}
		if !held && wait <= 0 {
			return true
		}
		var due <-chan time.Time
		if !held {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-ended:
			return false
		}
	}
}
