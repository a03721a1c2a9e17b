package lease

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/kube/apiserver"
)

// wallOnly is t moved by d on the wall clock alone, as a suspended machine or a set clock moves it. The monotonic reading cannot be
// written, so the wall clock is what the result has, and elapsed time is then read off it.
func wallOnly(t time.Time, d time.Duration) time.Time { return t.Round(0).Add(d) }

func TestFenceOpen(t *testing.T) {
	const deadline, timeout = 10 * time.Second, 4 * time.Second
	start := time.Now()
	cases := map[string]struct {
		now  time.Time
		want bool
	}{
		"at the renewal":           {start, true},
		"just in time":             {start.Add(6*time.Second - 1), true},
		"a write could outlive it": {start.Add(6 * time.Second), false},
		"long after":               {start.Add(time.Hour), false},
		"the wall clock jumped":    {wallOnly(start, time.Hour), false},
		"the wall clock moved on":  {wallOnly(start, time.Second), true},
		"the wall clock was set back, the monotonic one counts": {start.Add(7 * time.Second), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := NewFence(deadline, timeout)
			if f.Open(start, timeout) {
				t.Fatal("a fence that was never opened is open")
			}
			f.Renewed(start)
			if got := f.Open(c.now, timeout); got != c.want {
				t.Errorf("open: %v", got)
			}
		})
	}
}

func TestFenceTakesTheLaterClock(t *testing.T) {
	f := NewFence(10*time.Second, 0)
	// A renewal whose wall reading is in the future: the wall clock was set back since. Monotonic time still runs.
	f.Renewed(time.Now().Add(-11 * time.Second))
	if f.Open(time.Now(), 0) {
		t.Error("open though 11 s passed on both clocks")
	}
	// Only the wall clock says that time passed: the machine was suspended.
	f.Renewed(time.Now().Round(0).Add(-11 * time.Second))
	if f.Open(time.Now(), 0) {
		t.Error("open though 11 s passed on the wall clock")
	}
}

func TestFenceFollowsRenewals(t *testing.T) {
	f := NewFence(10*time.Second, 0)
	start := time.Now()
	f.Renewed(start)
	f.Renewed(start.Add(8 * time.Second))
	if !f.Open(start.Add(15*time.Second), 0) {
		t.Error("shut though it was renewed")
	}
	f.Shut()
	if f.Open(start.Add(8*time.Second), 0) {
		t.Error("open after it was shut")
	}
}

// echo accepts connections and collects what arrives on them.
func echo(t *testing.T) (address string, received <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	out := make(chan string, 8)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				data, _ := io.ReadAll(conn)
				out <- string(data)
			}()
		}
	}()
	return listener.Addr().String(), out
}

func TestConnectionStopsAtTheFence(t *testing.T) {
	address, received := echo(t)
	f := NewFence(time.Hour, time.Minute)
	dial := f.Dial((&net.Dialer{}).DialContext)

	_, err := dial(t.Context(), "tcp", address)
	var op *net.OpError
	if !errors.Is(err, ErrFenced) || !errors.As(err, &op) || op.Op != "dial" {
		t.Fatalf("dial behind a shut fence: %v", err)
	}

	f.Renewed(time.Now())
	conn, err := dial(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("before")); err != nil {
		t.Fatal(err)
	}
	// The process freezes here, and wakes when the Lease has run out.
	f.Renewed(time.Now().Add(-59 * time.Minute))
	if n, err := conn.Write([]byte("after")); !errors.Is(err, ErrFenced) || n != 0 {
		t.Fatalf("wrote %d bytes, err %v", n, err)
	}
	if got := <-received; got != "before" {
		t.Errorf("the other side received %q", got)
	}
	f.Renewed(time.Now())
	if _, err := conn.Write([]byte("later")); err == nil {
		t.Error("a connection that met the shut fence was used again")
	}
}

func TestConnectionOfAnEarlierTermIsClosed(t *testing.T) {
	address, received := echo(t)
	f := NewFence(time.Hour, time.Minute)
	f.Renewed(time.Now())
	conn, err := f.Dial((&net.Dialer{}).DialContext)(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("first term")); err != nil {
		t.Fatal(err)
	}
	f.Shut()
	f.Renewed(time.Now())
	if _, err := conn.Write([]byte("second term")); err == nil {
		t.Error("wrote in a later term")
	}
	if got := <-received; got != "first term" {
		t.Errorf("the other side received %q", got)
	}
	if len(f.conns) != 0 {
		t.Errorf("%d connections are still tracked", len(f.conns))
	}
}

// A connection that was being made while the term ended belongs to no term.
func TestDialAcrossTermsIsUseless(t *testing.T) {
	address, _ := echo(t)
	f := NewFence(time.Hour, time.Minute)
	f.Renewed(time.Now())
	conn, err := f.Dial(func(ctx context.Context, network, address string) (net.Conn, error) {
		f.Shut()
		f.Renewed(time.Now())
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); !errors.Is(err, ErrFenced) {
		t.Errorf("err %v", err)
	}
}

func TestSocketGivesUpWhatIsNotAcknowledged(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has the option")
	}
	address, _ := echo(t)
	conn, err := apiserver.BoundUnacknowledged((&net.Dialer{}).DialContext, 1234*time.Millisecond)(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const tcpUserTimeout = 18
	if err := raw.Control(func(fd uintptr) {
		if got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout); err != nil || got != 1234 {
			t.Errorf("TCP_USER_TIMEOUT is %d ms, err %v", got, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
