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

// server answers requests that come whether or not the last ones were answered, as many clients who know nothing of each other would send them.
type server struct {
	perSecond float64
	cost      time.Duration // CPU time of the thread that answers
	renames   int           // of a file in dir, by each request
	workers   int
	burst     time.Duration // between the beginnings of two bursts; 0: there are none
	dir       string
	out       int // file descriptor
}

// serve answers until it is killed. For each request it leaves a line in the file requests: when it was to begin, and how much later its answer
// was ready, in microseconds of the time since boot. A client that is late for want of a CPU is part of that.
func serve(s server, results string) (err error) {
	if s.out, err = unix.Open(filepath.Join(results, "requests"), unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY|unix.O_APPEND, 0o644); err != nil {
		return err
	}
	runtime.GOMAXPROCS(s.workers + 1)
	for i := range s.workers {
		names, err := pair(s.dir, i, s.renames > 0)
		if err != nil {
			return err
		}
		go s.work(i, names)
	}
	return nil
}

// work is a thread with clients of its own, who ask at times that make a Poisson process, the same at every start. It is client and server at
// once and sleeps in the kernel: Go's scheduler, which is dear where processors are emulated, has no part in it.
func (s *server) work(thread int, names [2]string) {
	runtime.LockOSThread()
	random := rand.New(rand.NewPCG(1, uint64(thread)))
	perSecond := s.perSecond / float64(s.workers)
	var line []byte
	for at := sinceBoot(); ; {
		at += time.Duration(random.ExpFloat64() / (perSecond * s.rate(at)) * float64(time.Second))
		sleepUntil(at)
		spend(s.cost)
		for range s.renames {
			names = swap(names)
		}
		line = fmt.Appendf(line[:0], "%d %d\n", at.Microseconds(), (sinceBoot() - at).Microseconds())
		if _, err := unix.Write(s.out, line); err != nil {
			panic(err) // or the answer would be lost without notice
		}
	}
}

// burstRate and calmRate are how many times as many requests come in the first quarter of a burst's period and in the rest. Their mean over it is 1.
const burstRate, calmRate, burstPart = 2.5, 0.5, 4

// rate is how many times as many requests come at a time as on average. All threads have their bursts at the same time.
func (s *server) rate(at time.Duration) float64 {
	switch {
	case s.burst == 0:
		return 1
	case at%s.burst < s.burst/burstPart:
		return burstRate
	}
	return calmRate
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

// sleepUntil returns at a time since boot, or at once where that has passed.
func sleepUntil(at time.Duration) {
	until := unix.NsecToTimespec(at.Nanoseconds())
	for unix.ClockNanosleep(unix.CLOCK_BOOTTIME, unix.TIMER_ABSTIME, &until, nil) == unix.EINTR { // Go's scheduler sends signals
	}
}
