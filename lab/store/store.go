package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Kind is a database under an API server.
type Kind string

// The stores. Etcd is the lab's own, in its process.
const (
	Etcd       Kind = "etcd"
	SQLite     Kind = "sqlite"
	PostgreSQL Kind = "postgres"
)

// Kinds are all stores.
var Kinds = []Kind{Etcd, SQLite, PostgreSQL}

const (
	// Variable names the store of every control plane that does not say its own.
	Variable = "HILBERT_STORE"
	// KineVariable is where the program kine is. make kine builds it in bin.
	KineVariable = "HILBERT_KINE"

	// readyTimeout bounds a database's start, stopTimeout its orderly end.
	readyTimeout, stopTimeout = time.Minute, 10 * time.Second
	readyPoll                 = 50 * time.Millisecond
)

// ErrAbsent says that the programs of a store are not on this machine.
var ErrAbsent = errors.New("the store's program is absent")

// Chosen is the store that the environment names; etcd if it names none.
func Chosen() (Kind, error) {
	kind := Kind(os.Getenv(Variable))
	if kind == "" {
		return Etcd, nil
	}
	if !slices.Contains(Kinds, kind) {
		return "", fmt.Errorf("%s is %q: name one of %q", Variable, kind, Kinds)
	}
	return kind, nil
}

// Options says where a Server keeps its data.
type Options struct {
	// Dir keeps the data, Sockets the socket: its path is short.
	Dir, Sockets string
	// Log gets what the processes say.
	Log io.Writer
	// Failed is told of a process that ends by itself.
	Failed func(error)
}

// Server is a running database that speaks etcd's protocol.
type Server struct {
	url       string
	processes []*process // each needs those before it
	remove    []string   // directories
}

// Start starts kine over a database, and returns when it takes connections. The error is ErrAbsent where a program is missing.
func Start(ctx context.Context, kind Kind, o Options) (_ *Server, err error) {
	program, err := kine()
	if err != nil {
		return nil, err
	}
	s := new(Server)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	var endpoint string
	switch kind {
	case SQLite:
		endpoint = "sqlite://" + filepath.Join(o.Dir, "kine.db") + "?_journal_mode=WAL&_busy_timeout=30000&_synchronous=NORMAL&_txlock=immediate&_stmt_cache_size=20&cache=shared" // kine's defaults
	case PostgreSQL:
		if endpoint, err = s.startPostgreSQL(ctx, o); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("kine has no store %q", kind)
	}
	socket := filepath.Join(o.Sockets, "kine.sock")
	s.url = "unix://" + socket
	command := exec.Command(program, "--listen-address", s.url, "--endpoint", endpoint, "--metrics-bind-address", "0", "--datastore-max-open-connections", "100")
	command.Dir = o.Dir
	if err := s.start(command, o, syscall.SIGTERM); err != nil {
		return nil, err
	}
	return s, s.await(ctx, "kine", func() bool {
		_, err := os.Stat(socket)
		return err == nil
	})
}

// kine is the path of the program.
func kine() (string, error) {
	path := os.Getenv(KineVariable)
	if path == "" {
		return "", fmt.Errorf("%w: set %s to the path of kine, which make kine builds as bin/kine", ErrAbsent, KineVariable)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: %s: %w (make kine builds it)", ErrAbsent, KineVariable, err)
	}
	return filepath.Abs(path)
}

// URL is what an API server's --etcd-servers wants.
func (s *Server) URL() string { return s.url }

// Broken reports whether a process has ended by itself.
func (s *Server) Broken() bool {
	return slices.ContainsFunc(s.processes, func(p *process) bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
}

// Stop ends the processes, the last one first, and removes what was temporary.
func (s *Server) Stop() error {
	var errs []error
	for _, p := range slices.Backward(s.processes) {
		p.stop()
	}
	for _, dir := range s.remove {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// await returns when ready does, or a process has ended.
func (s *Server) await(ctx context.Context, what string, ready func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("nothing after %s", readyTimeout))
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	last := s.processes[len(s.processes)-1]
	for !ready() {
		select {
		case <-tick.C:
		case <-last.ended:
			return fmt.Errorf("%s ended as it started: %w, see the log", what, last.err)
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// process is one that ends with this one.
type process struct {
	command *exec.Cmd
	signal  syscall.Signal // ends it in order
	stopped chan struct{}  // its end is wanted
	ended   chan struct{}
	err     error // how it ended
}

// start runs a command until the Server stops. Its end before that is a failure.
func (s *Server) start(command *exec.Cmd, o Options, end syscall.Signal) error {
	p := &process{command: command, signal: end, stopped: make(chan struct{}), ended: make(chan struct{})}
	command.Stdout, command.Stderr = o.Log, o.Log
	if command.SysProcAttr == nil {
		command.SysProcAttr = new(syscall.SysProcAttr)
	}
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the death of the thread that has started a process counts as its parent's
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = command.Wait()
		close(p.ended)
		select {
		case <-p.stopped:
		default:
			o.Failed(fmt.Errorf("%s ended by itself: %w", filepath.Base(command.Path), p.err))
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", strings.Join(command.Args, " "), err)
	}
	s.processes = append(s.processes, p)
	return nil
}

func (p *process) stop() {
	close(p.stopped)
	_ = p.command.Process.Signal(p.signal)
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = p.command.Process.Kill()
		<-p.ended
	}
}
