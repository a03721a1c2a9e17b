package link

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// echo answers what it is told.
func echo(t *testing.T, network, address string) string {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T, l *Link) net.Conn {
	t.Helper()
	c, err := net.Dial(l.network, l.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// say sends a text and wants it back.
func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(text))
	if _, err := io.ReadFull(c, back); err != nil || string(back) != text {
		t.Fatalf("%q came back, %v; want %q", back, err, text)
	}
}

// A link carries both kinds of connections, whole, and a delayed one as late as it should, each way.
func TestCarries(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		listen, target := "127.0.0.1:0", "127.0.0.1:0"
		if network == "unix" {
			listen, target = filepath.Join(t.TempDir(), "near"), filepath.Join(t.TempDir(), "far")
		}
		l := New(t, network, listen, echo(t, network, target))
		c := dial(t, l)
		say(t, c, string(make([]byte, 1<<20)))
		const delay = 20 * time.Millisecond
		l.Delay(delay)
		begin := time.Now()
		say(t, c, "late")
		if took := time.Since(begin); took < 2*delay {
			t.Errorf("%s: there and back in %s, each way delayed by %s", network, took, delay)
		}
		l.Heal()
		say(t, c, "healed")
	}
}

// What is held comes when the link is healed, and nothing before.
func TestHolds(t *testing.T) {
	l := New(t, "tcp", "127.0.0.1:0", echo(t, "tcp", "127.0.0.1:0"))
	c := dial(t, l)
	say(t, c, "before")
	l.Hold()
	if _, err := io.WriteString(c, "held"); err != nil {
		t.Fatal(err)
	}
	late := dial(t, l) // it is taken in, and goes nowhere
	if _, err := io.WriteString(late, "new"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{c, late} {
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Error("something passes a held link")
		}
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	l.Heal()
	for c, want := range map[net.Conn]string{c: "held", late: "new"} {
		back := make([]byte, len(want))
		if _, err := io.ReadFull(c, back); err != nil || string(back) != want {
			t.Errorf("%q came back, %v; want %q", back, err, want)
		}
	}
}

// A cut ends connections, those that were held too, and refuses new ones until the link is healed.
func TestCuts(t *testing.T) {
	l := New(t, "tcp", "127.0.0.1:0", echo(t, "tcp", "127.0.0.1:0"))
	c := dial(t, l)
	say(t, c, "before")
	l.Hold()
	l.Cut()
	for _, c := range []net.Conn{c, dial(t, l)} {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a cut connection reads")
		}
	}
	l.Heal()
	say(t, dial(t, l), "after")
}
