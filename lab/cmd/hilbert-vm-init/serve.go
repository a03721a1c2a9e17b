package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/lab/connect"
	"hilbert.dev/hilbert/lab/vm/wire"
)

// execTimeout bounds a command for which the host set no limit.
const execTimeout = time.Minute

// handler answers a request with a value for JSON, with bytes, or with an error.
type handler func(r *http.Request) (any, error)

// keeper keeps services running.
type keeper interface {
	states(r *http.Request) (any, error)
	define(r *http.Request) (any, error)
	order(r *http.Request) (any, error)
}

// serve answers the host until the machine ends.
func serve(problems []string) error {
	// Children must not inherit the console as their controlling terminal, and Ctrl-C on it must reach no process.
	_, _ = unix.Setsid()
	for _, e := range environment {
		name, value, _ := strings.Cut(e, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	var services keeper = newSupervisor()
	if hasSystemd() {
		services = newUnits()
		saved, err := savedProblems()
		if err != nil {
			return err
		}
		problems = append(problems, saved...)
	}
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET " + wire.PathReady:     func(*http.Request) (any, error) { return ready(problems) },
		"POST " + wire.PathExec:     run,
		"GET " + wire.PathFile:      readFile,
		"PUT " + wire.PathFile:      writeFile,
		"DELETE " + wire.PathFile:   removeFile,
		"GET " + wire.PathDir:       readDir,
		"POST " + wire.PathFiles:    readFiles,
		"POST " + wire.PathSignal:   sendSignal,
		"GET " + wire.PathServices:  services.states,
		"PUT " + wire.PathServices:  services.define,
		"POST " + wire.PathService:  services.order,
		"POST " + wire.PathPowerOff: powerOff,
	} {
		mux.HandleFunc(pattern, h.serve)
	}
	mux.HandleFunc("GET "+wire.PathTar, sendTar)
	server := http.Server{Addr: ":" + strconv.Itoa(wire.Port), Handler: orConnect(mux), ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

// orConnect connects the host to whatever the guest reaches, such as its pods.
func orConnect(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			connect.Serve(w, r, (&net.Dialer{}).DialContext)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// relay serves an address of a Service: it connects whoever comes to where the Service is served.
func relay(args []string) error {
	if len(args) != 2 {
		return errors.New("want an address to listen at and one to connect to")
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	return connect.Relay(l, args[1])
}

func (h handler) serve(w http.ResponseWriter, r *http.Request) {
	answer, err := h(r)
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, fs.ErrNotExist) {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	if raw, ok := answer.([]byte); ok {
		_, _ = w.Write(raw) // an error only means that the host has gone
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func decode[T any](r *http.Request) (v T, err error) {
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		return v, fmt.Errorf("request: %w", err)
	}
	return v, nil
}

func ready(problems []string) (any, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, err
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return nil, err
	}
	return wire.Ready{Kernel: unix.ByteSliceToString(name.Release[:]), UptimeMS: up.Nano() / 1e6, Problems: problems}, nil
}

func run(r *http.Request) (any, error) {
	request, err := decode[wire.ExecRequest](r)
	if err != nil {
		return nil, err
	}
	if len(request.Argv) == 0 {
		return nil, errors.New("nothing to run")
	}
	limit := execTimeout
	if request.TimeoutMS > 0 {
		limit = time.Duration(request.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, request.Argv[0], request.Argv[1:]...)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(request.Stdin), &stdout, &stderr
	command.Env = append(os.Environ(), request.Env...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second // a grandchild may hold the pipes open
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, err
	}
	return wire.ExecAnswer{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Status: statusOf(command.ProcessState)}, nil
}

func statusOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok {
		return exitStatus(status)
	}
	return state.ExitCode()
}

func readFile(r *http.Request) (any, error) { return os.ReadFile(r.FormValue("path")) }

func removeFile(r *http.Request) (any, error) { return struct{}{}, os.RemoveAll(r.FormValue("path")) }

// writeFile replaces a file whole, or writes once to one of the kernel's.
func writeFile(r *http.Request) (any, error) {
	path := r.URL.Query().Get("path")
	mode, err := strconv.ParseUint(r.URL.Query().Get("mode"), 8, 32)
	if err != nil {
		return nil, fmt.Errorf("mode: %w", err)
	}
	if strings.HasPrefix(path, "/sys/") || strings.HasPrefix(path, "/proc/") {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		return struct{}{}, writeRaw(path, data)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, r.Body)
	if err == nil {
		err = f.Chmod(fs.FileMode(mode))
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path) // a running executable cannot be written to, but replaced
	}
	if err != nil {
		_ = os.Remove(f.Name()) // err says what matters
	}
	return struct{}{}, err
}

func readDir(r *http.Request) (any, error) {
	path := r.FormValue("path")
	there, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	entries := make([]wire.Entry, 0, len(there))
	for _, t := range there {
		entry := wire.Entry{Name: t.Name(), Dir: t.IsDir()}
		if t.Type()&fs.ModeSymlink != 0 {
			entry.Link, _ = os.Readlink(filepath.Join(path, t.Name())) // gone meanwhile: no link
		}
		if info, err := t.Info(); err == nil {
			entry.Size = info.Size()
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func readFiles(r *http.Request) (any, error) {
	request, err := decode[wire.FilesRequest](r)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, glob := range request.Globs {
		paths, err := filepath.Glob(glob)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", glob, err)
		}
		for _, path := range paths {
			if data, err := os.ReadFile(path); err == nil {
				files[path] = string(data)
			}
		}
	}
	return files, nil
}

func sendSignal(r *http.Request) (any, error) {
	request, err := decode[wire.SignalRequest](r)
	if err != nil {
		return nil, err
	}
	pids := []int{request.PID}
	if request.PID == 0 {
		pids = processesNamed(request.Name)
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("no process %s: %w", request.Name, fs.ErrNotExist)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.Signal(request.Signal)); err != nil {
			return nil, fmt.Errorf("signal %d to process %d: %w", request.Signal, pid, err)
		}
	}
	return pids, nil
}

// processesNamed finds processes by the base name of their executable, in order.
func processesNamed(name string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is well-formed
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || filepath.Base(strings.TrimSuffix(target, " (deleted)")) != name {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

func powerOff(*http.Request) (any, error) {
	unix.Sync()
	return nil, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
