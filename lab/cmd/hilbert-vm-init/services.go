package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"hilbert.dev/hilbert/lab/vm/wire"
)

const (
	// restartDelay is the pause before a service that ended is started again, unless it asks for another.
	restartDelay = 200 * time.Millisecond
	// stopTimeout is what a service gets between SIGTERM and SIGKILL.
	stopTimeout = 10 * time.Second
)

// supervisor keeps services running.
type supervisor struct {
	mu       sync.Mutex
	services map[string]*service
}

// service is one process that is wanted. Its fields belong to the supervisor's lock.
type service struct {
	spec    wire.ServiceSpec
	state   wire.ServiceState
	process *os.Process   // nil: it does not run
	ended   chan struct{} // closed when process has ended
}

func newSupervisor() *supervisor { return &supervisor{services: map[string]*service{}} }

func (s *supervisor) states(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]wire.ServiceState, 0, len(s.services))
	for _, one := range s.services {
		out = append(out, one.state)
	}
	slices.SortFunc(out, func(a, b wire.ServiceState) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// define adds a service or changes it, and starts it unless it runs.
func (s *supervisor) define(r *http.Request) (any, error) {
	spec, err := decode[wire.ServiceSpec](r)
	if err != nil {
		return nil, err
	}
	if spec.Name == "" || strings.Contains(spec.Name, "/") || len(spec.Argv) == 0 {
		return nil, errors.New("a service needs a name and a command")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.services[spec.Name]
	if one == nil {
		one = &service{state: wire.ServiceState{Name: spec.Name}}
		s.services[spec.Name] = one
	}
	one.spec, one.state.Stopped = spec, false
	return struct{}{}, s.start(one)
}

func (s *supervisor) order(r *http.Request) (any, error) {
	s.mu.Lock()
	one := s.services[r.FormValue("name")]
	s.mu.Unlock()
	if one == nil {
		return nil, fmt.Errorf("no service %q: %w", r.FormValue("name"), fs.ErrNotExist)
	}
	do := r.FormValue("do")
	if do == "stop" || do == "restart" {
		if err := s.stop(one); err != nil {
			return nil, err
		}
	}
	if do == "start" || do == "restart" {
		s.mu.Lock()
		defer s.mu.Unlock()
		one.state.Stopped = false
		return struct{}{}, s.start(one)
	}
	if do != "stop" {
		return nil, fmt.Errorf("cannot %q a service: start, stop or restart", do)
	}
	return struct{}{}, nil
}

// start starts a service that does not run. The lock is held.
func (s *supervisor) start(one *service) error {
	if one.process != nil {
		return nil
	}
	logFile, err := os.OpenFile("/var/log/"+one.spec.Name+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer logFile.Close()
	cgroup, err := openCgroup("/sys/fs/cgroup/system.slice", "/"+one.spec.Name+".service")
	if err != nil {
		return err
	}
	defer cgroup.Close()
	command := exec.Command(one.spec.Argv[0], one.spec.Argv[1:]...)
	command.Env = append(os.Environ(), one.spec.Env...)
	command.Stdout, command.Stderr = logFile, logFile
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	if err := command.Start(); err != nil {
		return err
	}
	one.process, one.ended = command.Process, make(chan struct{})
	one.state.PID, one.state.Starts = command.Process.Pid, one.state.Starts+1
	go s.await(one, command)
	return nil
}

// openCgroup makes the slice, hands its controllers on, and makes the service's own cgroup in it.
func openCgroup(slice, name string) (*os.File, error) {
	if err := os.MkdirAll(slice+name, 0o755); err != nil {
		return nil, err
	}
	for _, controller := range []string{"+cpu", "+memory", "+pids"} {
		if err := writeRaw(slice+"/cgroup.subtree_control", []byte(controller)); err != nil {
			return nil, err
		}
	}
	return os.Open(slice + name)
}

// await records the end of a service's process and starts it again if that is wanted.
func (s *supervisor) await(one *service, command *exec.Cmd) {
	_ = command.Wait() // the state says it
	s.mu.Lock()
	one.process, one.state.PID, one.state.Status = nil, 0, statusOf(command.ProcessState)
	close(one.ended)
	delay := restartDelay
	if one.spec.RestartMS > 0 {
		delay = time.Duration(one.spec.RestartMS) * time.Millisecond
	}
	s.mu.Unlock()
	time.Sleep(delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.spec.Once || one.state.Stopped {
		return
	}
	if err := s.start(one); err != nil {
		say("start %s again: %v", one.spec.Name, err)
	}
}

// stop ends a service's process, but none of its children: a container outlives its runtime.
func (s *supervisor) stop(one *service) error {
	s.mu.Lock()
	one.state.Stopped = true
	process, ended := one.process, one.ended
	s.mu.Unlock()
	if process == nil {
		return nil
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-time.After(stopTimeout):
		}
	}
	return fmt.Errorf("%s does not end", one.spec.Name)
}
