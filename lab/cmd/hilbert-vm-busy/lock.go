package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockFile, in the directory that pods share, is what occupy and locks take the kernel's lock of.
	lockFile = "lock"
	// requestPause is what a request of locks takes without a lock, requestWindow over how long its time is the mean, requestMetric what the service calls that.
	requestPause, requestWindow = 500 * time.Millisecond, 5 * time.Second
	requestMetric               = "busy_request_seconds"
)

// openLock opens the file of the lock.
func openLock(dir string) (fd int, err error) {
	if fd, err = unix.Open(filepath.Join(dir, lockFile), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o644); err != nil {
		return -1, fmt.Errorf("open the file whose lock is taken: %w", err)
	}
	return fd, nil
}

// lock takes a file's lock, or gives it back. Go's scheduler interrupts threads that wait.
func lock(fd, how int) {
	for {
		switch err := unix.Flock(fd, how); err {
		case nil:
			return
		case unix.EINTR:
		default:
			panic(err) // a file that is open has a lock
		}
	}
}

// occupy has a thread hold the lock while it uses CPU time, again and again. Whoever limits its CPU has it hold the lock for longer.
func occupy(busy, idle time.Duration, dir string) error {
	fd, err := openLock(dir)
	if err != nil {
		return err
	}
	go func() {
		runtime.LockOSThread()
		for {
			lock(fd, unix.LOCK_EX)
			spend(busy)
			lock(fd, unix.LOCK_UN)
			time.Sleep(idle)
		}
	}()
	return nil
}

// requests is a service that needs the lock for each of its requests, and hardly any CPU.
type requests struct {
	mu           sync.Mutex
	begun, asked time.Time // of the window, and of the request that is under way
	done         int       // requests of the window
	mean         float64   // of the window before; 0: there was none
}

// locks has a service take the lock for each request, one after the other, and serve how long a request takes, as Prometheus reads it, on a port.
func locks(port int, dir string) error {
	fd, err := openLock(dir)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return fmt.Errorf("serve how long requests take: %w", err)
	}
	now := time.Now()
	r := &requests{begun: now, asked: now}
	go func() {
		for {
			time.Sleep(requestPause)
			lock(fd, unix.LOCK_EX)
			lock(fd, unix.LOCK_UN)
			r.answered(time.Now())
		}
	}()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				fmt.Fprintln(os.Stderr, "hilbert-vm-busy:", err)
				return
			}
			r.serve(connection)
		}
	}()
	return nil
}

// answered ends a request and begins the next.
func (r *requests) answered(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = now
	if r.done++; now.Sub(r.begun) >= requestWindow {
		r.mean = now.Sub(r.begun).Seconds() / float64(r.done)
		r.begun, r.done = now, 0
	}
}

// seconds is how long a request takes: what it took on average of late, or what the one takes that is under way, if that is more. 0: it is not known yet.
func (r *requests) seconds(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mean == 0 {
		return 0
	}
	return max(r.mean, now.Sub(r.asked).Seconds())
}

// serve gives one connection one answer.
func (r *requests) serve(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(time.Second))
	for lines := bufio.NewScanner(connection); lines.Scan() && lines.Text() != ""; {
	}
	number := ""
	if seconds := r.seconds(time.Now()); seconds > 0 {
		number = fmt.Sprintf("# TYPE %[1]s gauge\n%[1]s %[2]g\n", requestMetric, seconds)
	}
	fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(number), number)
}
