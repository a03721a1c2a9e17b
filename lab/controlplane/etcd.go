package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// defaultEtcdQuotaBytes bounds the database: etcd's own default of 2 GiB fills up under repeated benchmark rounds.
	defaultEtcdQuotaBytes = 8 << 30
	// etcdReadyTimeout bounds how long etcd may take to elect itself and replay its log.
	etcdReadyTimeout = 60 * time.Second
	// brokenStopTimeout bounds the stop of an etcd whose raft loop or backend died; what it still holds then is leaked.
	brokenStopTimeout = 3 * time.Second
	// alarmInterval is how often etcd is asked whether it has run out of space.
	alarmInterval = 500 * time.Millisecond
)

// ErrNoSpace says that etcd can store nothing more: its disk is full, or its database reached the quota.
var ErrNoSpace = errors.New("etcd is out of space")

// etcdServer is one embedded etcd member. It listens on a Unix socket in a directory that only its owner may enter, so that
// it needs neither a port nor certificates, and nothing but this user's processes can reach it.
type etcdServer struct {
	server *embed.Etcd
	url    string
	fatal  *fatalHook
	stop   chan struct{}
	done   sync.WaitGroup
}

// etcdOptions says where etcd keeps its data and how much.
type etcdOptions struct {
	dir, sockets string
	quotaBytes   int64
	noFsync      bool
	log          io.Writer
	failed       func(error)
}

// startEtcd starts a single-member etcd and returns when it serves. A failure after that goes to o.failed.
func startEtcd(ctx context.Context, o etcdOptions) (*etcdServer, error) {
	hook := &fatalHook{dir: o.dir, failed: o.failed}
	cfg := embed.NewConfig()
	cfg.Name = "hilbert-lab"
	cfg.Dir = o.dir
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	socket := "unix://" + filepath.Join(o.sockets, "etcd.sock")
	// gRPC and HTTP on two sockets: on a shared one every request pays for telling them apart.
	cfg.ListenClientUrls = []url.URL{socketURL(o.sockets, "etcd.sock")}
	cfg.ListenClientHttpUrls = []url.URL{socketURL(o.sockets, "etcd-http.sock")}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ListenPeerUrls = nil // a single member has no peers
	cfg.EnableGRPCGateway = false
	cfg.QuotaBackendBytes = o.quotaBytes
	cfg.UnsafeNoFsync = o.noFsync
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(o.log, hook))

	e := &etcdServer{url: socket, fatal: hook, stop: make(chan struct{})}
	// etcd reports some failures of its start by a fatal log entry, which ends the goroutine: give it one of its own.
	started := make(chan error, 1)
	go func() {
		err := fmt.Errorf("start etcd in %s: it gave up, see the log", o.dir)
		defer func() { started <- hook.reason(err) }()
		e.server, err = embed.StartEtcd(cfg)
		if err != nil {
			err = fmt.Errorf("start etcd in %s: %w", o.dir, err)
		}
	}()
	select {
	case err := <-started:
		if err != nil {
			return nil, err
		}
	case <-time.After(etcdReadyTimeout):
		return nil, fmt.Errorf("start etcd in %s: nothing after %s", o.dir, etcdReadyTimeout)
	}
	select {
	case <-e.server.Server.ReadyNotify():
	case err := <-e.server.Err():
		e.close()
		return nil, fmt.Errorf("etcd in %s: %w", o.dir, hook.reason(err))
	case <-time.After(etcdReadyTimeout):
		e.close()
		return nil, fmt.Errorf("etcd in %s did not become ready within %s", o.dir, etcdReadyTimeout)
	case <-ctx.Done():
		e.close()
		return nil, fmt.Errorf("etcd in %s did not become ready: %w", o.dir, context.Cause(ctx))
	}
	e.done.Go(func() { e.watch(o) })
	return e, nil
}

// awaitEtcd returns when the etcd at address, which another process runs, takes connections.
func awaitEtcd(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, etcdReadyTimeout, fmt.Errorf("nothing after %s", etcdReadyTimeout))
	defer cancel()
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("the URL of etcd: %w", err)
	}
	network, where := "tcp", u.Host
	if u.Scheme == "unix" {
		network, where = "unix", u.Path
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, where)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("etcd at %s does not answer: %w (last try: %w)", address, context.Cause(ctx), err)
		}
	}
}

// watch reports the first of: a server that died, an alarm for want of space.
func (e *etcdServer) watch(o etcdOptions) {
	tick := time.NewTicker(alarmInterval)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case err, open := <-e.server.Err():
			if open {
				o.failed(fmt.Errorf("etcd in %s: %w", o.dir, err))
			}
			return
		case <-tick.C:
			if len(e.server.Server.Alarms()) > 0 {
				o.failed(fmt.Errorf("%w: the database in %s reached its quota of %d MiB and is read-only now: "+
					"free space or start with an empty data directory", ErrNoSpace, o.dir, o.quotaBytes>>20))
				return
			}
		}
	}
}

func (e *etcdServer) close() {
	close(e.stop)
	e.done.Wait()
	if e.fatal.fired() {
		// Its raft loop is gone: an orderly stop would wait for it forever. What can be freed from outside is.
		for _, l := range e.server.Clients {
			_ = l.Close()
		}
		stopped := make(chan struct{})
		go func() { e.server.Server.HardStop(); close(stopped) }()
		select {
		case <-stopped:
		case <-time.After(brokenStopTimeout):
		}
		return
	}
	e.server.Close()
}

func socketURL(dir, name string) url.URL {
	return url.URL{Scheme: "unix", Path: filepath.Join(dir, name)}
}

// etcdLogger writes warnings and worse; a fatal or panic entry, which by default would end the process, goes to the hook.
func etcdLogger(w io.Writer, hook *fatalHook) *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig())
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), zapcore.ErrorLevel)
	return zap.New(core, zap.WithFatalHook(hook), zap.WithPanicHook(hook))
}

// fatalHook turns etcd's "log and exit the process" into a reported failure: the lab then stops in order and says why.
type fatalHook struct {
	dir    string
	failed func(error)

	mu  sync.Mutex
	err error
}

// OnWrite ends the goroutine that found itself unable to go on, as its caller does not expect to return.
func (h *fatalHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := fmt.Errorf("etcd in %s: %s", h.dir, entry.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok {
			err = fmt.Errorf("etcd in %s: %s: %w", h.dir, entry.Message, cause)
			if errors.Is(cause, syscall.ENOSPC) || strings.Contains(cause.Error(), syscall.ENOSPC.Error()) {
				err = fmt.Errorf("%w: the disk under %s is full: %s: %w", ErrNoSpace, h.dir, entry.Message, cause)
			}
		}
	}
	h.mu.Lock()
	first := h.err == nil
	if first {
		h.err = err
	}
	h.mu.Unlock()
	if first {
		h.failed(err)
	}
	runtime.Goexit()
}

func (h *fatalHook) fired() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err != nil
}

// reason prefers what etcd logged as fatal over err.
func (h *fatalHook) reason(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	return err
}

// Etcd is an etcd alone, for a control plane whose parts are separate processes (see Options.Etcd).
type Etcd struct {
	dir    *dataDir
	log    *partLog
	server *etcdServer
	failed chan error
}

// StartEtcd starts an etcd by the same options as Start would, and returns when it serves. Dir must not be shared with the
// API server's.
func StartEtcd(ctx context.Context, o Options) (_ *Etcd, err error) {
	c := &ControlPlane{failed: make(chan error, 1)}
	if c.dir, err = openDataDir(o.Dir); err != nil {
		return nil, err
	}
	e := &Etcd{dir: c.dir, failed: c.failed}
	defer func() {
		if err != nil {
			_ = e.Stop()
		}
	}()
	if c.log, err = startLog(o.Log, c.dir.logFile()); err != nil {
		return nil, err
	}
	e.log = c.log
	if e.server, err = startEtcd(ctx, c.etcdOptions(o)); err != nil {
		return nil, err
	}
	return e, nil
}

// URL is what Options.Etcd wants. It depends on the data directory alone.
func (e *Etcd) URL() string { return e.server.url }

// Failed receives one error when etcd dies or can store nothing more.
func (e *Etcd) Failed() <-chan error { return e.failed }

// Stop ends etcd and removes a temporary data directory.
func (e *Etcd) Stop() error {
	if e.server != nil {
		e.server.close()
	}
	var errs []error
	if e.log != nil {
		errs = append(errs, e.log.close())
	}
	return errors.Join(append(errs, e.dir.close())...)
}
