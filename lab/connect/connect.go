// Package connect carries connections through an HTTP server, by the method CONNECT: from the API server to pods of a guest, whose addresses lead nowhere from the host.
//
// For example, the API server asks the lab's door for 10.88.0.5:10461, the door asks the guest's first process for the same, and that one dials the pod.
//
// Invariants: what was read of either side is written to the other one, and both are closed when both have ended or either has failed.
package connect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// timeout bounds the way to a connection.
const timeout = 30 * time.Second

// DialFunc makes a connection, as net.Dialer does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Serve answers a request of the method CONNECT with a connection that dial makes to the address that it names.
func Serve(w http.ResponseWriter, r *http.Request, dial DialFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	there, err := dial(ctx, "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer here.Close()
	if _, err := io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	Join(&conn{here, buffered.Reader}, there)
}

// Dial asks the server at the other end of a new connection for one to address. It takes the connection over.
func Dial(ctx context.Context, to net.Conn, address string) (_ net.Conn, err error) {
	defer func() {
		if err != nil {
			_ = to.Close()
		}
	}()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(timeout)
	}
	if err := to.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(to, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address); err != nil {
		return nil, fmt.Errorf("ask for a connection to %s: %w", address, err)
	}
	reader := bufio.NewReader(to)
	answer, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("ask for a connection to %s: %w", address, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // the status says the rest
		return nil, fmt.Errorf("connect to %s: %s: %s", address, answer.Status, text)
	}
	if err := to.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return &conn{to, reader}, nil
}

// conn reads first what was read too early.
type conn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *conn) Read(p []byte) (int, error) { return c.reader.Read(p) }

// CloseWrite says that nothing more will be written.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.New("it cannot be closed by half")
}

// Join carries bytes between two connections until both have ended, or one has failed.
func Join(a, b net.Conn) {
	ended := make(chan error, 2)
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, err := io.Copy(way[0], way[1])
			if half, ok := way[0].(interface{ CloseWrite() error }); err == nil && ok {
				err = half.CloseWrite()
			}
			ended <- err
		}()
	}
	if err := <-ended; err == nil {
		_ = <-ended // who is at the ends sees it
	}
}

// Relay accepts connections and joins each with a new one to an address, until the listener is closed.
func Relay(l net.Listener, to string) error {
	for {
		here, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer here.Close()
			there, err := net.DialTimeout("tcp", to, timeout)
			if err != nil {
				return // who connected sees that it is closed
			}
			defer there.Close()
			Join(here, there)
		}()
	}
}
