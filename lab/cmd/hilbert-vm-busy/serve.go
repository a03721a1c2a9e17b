package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// results is where serve, count, walk and storm leave what they did, below a container's root: memory, so that writing waits for no disk.
const results = "/dev/shm"

// shared is the directory that rename's requests and storm rename in, where a pod mounts one.
const shared = "/shared"

// queued bounds the requests that wait. When that many do, those who ask wait too, and their requests are late by as much.
const queued = 1 << 16

// server answers requests that come whether or not the last ones were answered, as many clients who know nothing of each other would send them.
type server struct {
	perSecond float64
	cost      time.Duration // CPU time of the thread that answers
	renames   int           // of a file in shared, by each request
	workers   int
	dir       string // shared
	requests  chan time.Duration
	out       *os.File
}

// serve answers until it is killed. For each request it leaves a line in the file requests: when it was to begin, and how much later its answer
// was ready, in microseconds of the time since boot. A client that is late for want of a CPU is part of that.
func serve(s server, results string) error {
	var err error
	if s.out, err = os.OpenFile(filepath.Join(results, "requests"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return err
	}
	s.requests = make(chan time.Duration, queued)
	runtime.GOMAXPROCS(s.workers + 2)
	for i := range s.workers {
		names, err := pair(s.dir, i, s.renames > 0)
		if err != nil {
			return err
		}
		go s.work(names)
	}
	go s.arrive()
	return nil
}

// arrive asks at times that make a Poisson process, the same at every start.
func (s *server) arrive() {
	random := rand.New(rand.NewPCG(1, 2))
	for at := sinceBoot(); ; {
		at += time.Duration(random.ExpFloat64() / s.perSecond * float64(time.Second))
		time.Sleep(at - sinceBoot())
		s.requests <- at
	}
}

func (s *server) work(names [2]string) {
	runtime.LockOSThread()
	for at := range s.requests {
		spend(s.cost)
		for range s.renames {
			names = swap(names)
		}
		fmt.Fprintf(s.out, "%d %d\n", at.Microseconds(), (sinceBoot() - at).Microseconds())
	}
}

// pair makes a file for a thread to rename, and returns its name and the other one.
func pair(dir string, thread int, wanted bool) (names [2]string, err error) {
	stem := filepath.Join(dir, fmt.Sprintf("%d-%d-%d", os.Getpid(), sinceBoot(), thread))
	names = [2]string{stem + "-a", stem + "-b"}
	if wanted {
		err = os.WriteFile(names[0], nil, 0o644)
	}
	return names, err
}

// swap renames a file from the first name to the second. Its thread ends where that fails: the directory was taken away.
func swap(names [2]string) [2]string {
	if err := unix.Rename(names[0], names[1]); err != nil {
		fmt.Fprintln(os.Stderr, "hilbert-vm-busy:", err)
		runtime.Goexit()
	}
	return [2]string{names[1], names[0]}
}

// spend uses CPU time of the calling thread.
func spend(cost time.Duration) {
	for until := threadTime() + cost; threadTime() < until; {
		for sum := range 1 << 12 {
			_ = sum
		}
	}
}

// sinceBoot is what /proc/uptime says, but finer.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // there is such a clock
	}
	return time.Duration(t.Nano())
}
