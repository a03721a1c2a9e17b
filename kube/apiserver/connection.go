package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"hilbert.dev/hilbert/internal/version"
)

// Connection says how to reach an API server and as whom. Callers outside this package need not import client-go for it.
type Connection = rest.Config

// Dial makes a connection, as net.Dialer.DialContext does.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// dialTimeout bounds the wait for a TCP connection.
const dialTimeout = 10 * time.Second

// Connect reads a kubeconfig file; an empty name means the service account of the pod that this process runs in.
func Connect(kubeconfig string) (*Connection, error) {
	if kubeconfig == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("clientConnection.kubeconfig is empty and this is no pod in a cluster: %w; name a kubeconfig file", err)
		}
		return c, nil
	}
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("clientConnection.kubeconfig: read %s: %w", kubeconfig, err)
	}
	return c, nil
}

// ForPurpose returns a copy of the connection for one purpose, with sockets of its own: what fills one purpose's connection must not hold
// up another's. wrap, if set, wraps the dialer.
func ForPurpose(c *Connection, purpose string, wrap func(Dial) Dial) *Connection {
	own := rest.CopyConfig(c)
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	own.QPS, own.RateLimiter = -1, nil // what bounds us is named in the configuration, not a hidden bucket
	own.DisableCompression = true      // beside the API server CPU is scarcer than bandwidth
	own.UserAgent = cmp.Or(c.UserAgent, "hilbertd/"+version.Get().Version) + " " + purpose
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	if wrap != nil {
		dial = wrap(dial)
	}
	own.Dial = dial
	return own
}

// BoundUnacknowledged makes the kernel give a connection up when what was written to it has not been acknowledged for that long. Else
// it would go on sending it after this process has long taken it for lost.
func BoundUnacknowledged(inner Dial, after time.Duration) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := inner(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.(syscall.Conn); ok {
			if raw, err := tcp.SyscallConn(); err == nil {
				_ = raw.Control(func(fd uintptr) { // best effort: not every socket is TCP
					limitUnacknowledged(fd, after)
				})
			}
		}
		return conn, nil
	}
}

// BridgeLogs sends what the Kubernetes libraries log to log, warnings and errors only: their chatter repeats what this package says
// once. It is for a process that is all Hilbert's, because klog is global.
func BridgeLogs(log *slog.Logger) {
	klog.SetSlogLogger(slog.New(louder{log.Handler()}))
}

// louder drops records below warnings.
type louder struct{ slog.Handler }

func (h louder) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h louder) WithAttrs(attrs []slog.Attr) slog.Handler { return louder{h.Handler.WithAttrs(attrs)} }

func (h louder) WithGroup(name string) slog.Handler { return louder{h.Handler.WithGroup(name)} }

// Silence returns a context in which client-go logs nothing: this package says what is worth saying.
func Silence(ctx context.Context) context.Context {
	return klog.NewContext(ctx, klog.Logger{})
}
