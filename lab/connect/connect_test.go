package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// echo answers with what it gets, once it has got all of it.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				text, _ := io.ReadAll(c)
				_, _ = c.Write(text)
			}()
		}
	}()
	return l.Addr().String()
}

// TestWay: a connection through two servers and a relay carries both ways, and the end of one way leaves the other open; an address where nobody listens is an error that says so.
func TestWay(t *testing.T) {
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	go func() { _ = Relay(relay, echo(t)) }()
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Serve(w, r, func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "10.88.0.5:10461" {
				return nil, errors.New("no such pod")
			}
			return (&net.Dialer{}).DialContext(ctx, network, relay.Addr().String())
		})
	}))
	defer inner.Close()
	through := func(server *httptest.Server) DialFunc {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
			if err != nil {
				return nil, err
			}
			return Dial(ctx, c, address)
		}
	}
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Serve(w, r, through(inner)) }))
	defer outer.Close()
	c, err := through(outer)(t.Context(), "tcp", "10.88.0.5:10461")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := strings.Repeat("to and fro ", 100_000)
	go func() {
		_, _ = io.WriteString(c, want)
		_ = c.(*conn).CloseWrite()
	}()
	if got, err := io.ReadAll(c); err != nil || string(got) != want {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(want))
	}
	if _, err := through(outer)(t.Context(), "tcp", "10.88.0.6:10461"); err == nil || !strings.Contains(err.Error(), "no such pod") {
		t.Errorf("nobody there: %v", err)
	}
}
