// Command hilbert-vm-busy is what the containers of the VM test bed run: it sleeps, burns CPU, holds memory, or holds a sandbox open, as
// its first argument says. It is one static binary, so that an image is one file.
//
// Each mode runs until SIGTERM or SIGINT. What it does it says on standard output first, so that a test can wait for the line. What happened to
// it a test reads from the kernel; only what the kernel does not know, the work that was done and when requests were answered, it leaves in
// files of its own.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const usage = `hilbert-vm-busy MODE
  pause                  hold a pod's sandbox open and reap its orphans
  sleep                  do nothing
  burn [THREADS]         use THREADS CPUs as far as they are to be had (1)
  hold MEBIBYTES         allocate and touch memory, then do nothing
  print MEBIBYTES        print so much, in lines, then do nothing
  steps BUSY_MS IDLE_MS  one thread: burn for BUSY_MS of its own CPU time, sleep for IDLE_MS, again
  serve PER_SECOND COST_US WORKERS [RENAMES [BURST_MS]]
                         answer requests that come by chance, PER_SECOND of them, each for COST_US of CPU time and with RENAMES renames in /shared;
                         in the first quarter of every BURST_MS two and a half times as many come, in the rest half as many;
                         /dev/shm/requests has a line for each: when it was wanted, since boot, and after how long it was answered (microseconds)
  count THREADS          burn CPU, and count: /dev/shm/work has the pieces of 65536 loops that were done (0 threads: nothing is)
  send ADDRESS:PORT KIBIBYTES
                         send so much in a second by UDP, whether anybody receives it or not
  wake THREADS           work for a millisecond, sleep for one, again: /dev/shm/work has the milliseconds of work
  walk MEBIBYTES         write to all of its memory again and again: /dev/shm/work has the mebibytes
  cache MEBIBYTES [PAUSE_MS]
                         read a file through, so that it is page cache, once or again and again: /dev/shm/work has the mebibytes
  storm THREADS          rename files in /shared: /dev/shm/work has the renames
  occupy BUSY_MS IDLE_MS one thread: hold the lock of a file in /shared for BUSY_MS of its own CPU time, sleep without it for IDLE_MS, again
  locks PORT             ask for that lock twice a second, and serve how long that takes, busy_request_seconds, in Prometheus' text format`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hilbert-vm-busy:", err)
		os.Exit(2)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		args = []string{"sleep"}
	}
	if args[0] == "send" {
		return sendUntilEnd(args[1:])
	}
	numbers := make([]int, len(args)-1)
	for i, arg := range args[1:] {
		n, err := strconv.Atoi(arg)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is no number of things\n%s", arg, usage)
		}
		numbers[i] = n
	}
	switch mode := args[0]; {
	case mode == "pause":
		go reap()
	case mode == "sleep":
	case mode == "burn" && len(numbers) <= 1:
		burn(append(numbers, 1)[0])
	case mode == "hold" && len(numbers) == 1:
		held := hold(numbers[0])
		defer runtime.KeepAlive(held)
	case mode == "print" && len(numbers) == 1:
		if err := printLines(os.Stdout, numbers[0]); err != nil {
			return err
		}
	case mode == "steps" && len(numbers) == 2:
		go steps(time.Duration(numbers[0])*time.Millisecond, time.Duration(numbers[1])*time.Millisecond)
	case mode == "serve" && len(numbers) >= 3 && len(numbers) <= 5 && numbers[0] > 0 && numbers[2] > 0:
		s := server{perSecond: float64(numbers[0]), cost: time.Duration(numbers[1]) * time.Microsecond, workers: numbers[2], dir: shared}
		more := append(numbers[3:], 0, 0)
		s.renames, s.burst = more[0], time.Duration(more[1])*time.Millisecond
		if err := serve(s, results); err != nil {
			return err
		}
	case mode == "occupy" && len(numbers) == 2:
		if err := occupy(time.Duration(numbers[0])*time.Millisecond, time.Duration(numbers[1])*time.Millisecond, shared); err != nil {
			return err
		}
	case mode == "locks" && len(numbers) == 1:
		if err := locks(numbers[0], shared); err != nil {
			return err
		}
	case mode == "cache" && (len(numbers) == 1 || len(numbers) == 2):
		d := new(done)
		if err := errors.Join(d.cache(numbers[0], time.Duration(append(numbers[1:], 0)[0])*time.Millisecond), d.tally(results)); err != nil {
			return err
		}
	case len(numbers) == 1 && (mode == "count" || mode == "walk" || mode == "storm" || mode == "wake"):
		if err := work(mode, numbers[0]); err != nil {
			return err
		}
	default:
		return fmt.Errorf("do not know how to %q\n%s", args, usage)
	}
	awaitEnd(args)
	return nil
}

// awaitEnd says what is done, and returns when the container shall end.
func awaitEnd(args []string) {
	fmt.Fprintln(os.Stdout, "busy:", args)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}

// work does what can be counted.
func work(mode string, n int) error {
	d := new(done)
	switch mode {
	case "count":
		d.count(n)
	case "walk":
		d.walk(max(n, 1))
	case "wake":
		d.wake(n)
	case "storm":
		if err := d.storm(n, shared); err != nil {
			return err
		}
	}
	return d.tally(results)
}

// reap collects the children that a shared process namespace leaves to the sandbox.
func reap() {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	for range died {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
	}
}

// burn keeps n threads busy. Each has a thread of its own, so that /proc/PID/task tells them apart.
func burn(n int) {
	runtime.GOMAXPROCS(n + 1)
	for range n {
		go func() {
			runtime.LockOSThread()
			for sum := uint64(1); sum != 0; sum = sum*6364136223846793005 | 1 {
			}
		}()
	}
}

// hold touches every page, because the kernel charges memory only when it is touched.
func hold(mebibytes int) []byte {
	held := make([]byte, mebibytes<<20)
	for i := 0; i < len(held); i += os.Getpagesize() {
		held[i] = 1
	}
	return held
}

// printLines prints so much as a service that says much does.
func printLines(out io.Writer, mebibytes int) error {
	const length = 8 << 10
	line := []byte(strings.Repeat("x", length-1) + "\n")
	for range mebibytes << 20 / length {
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// steps is a service under load: work in short turns, so that what it waits for a CPU shows.
func steps(busy, idle time.Duration) {
	runtime.LockOSThread()
	for {
		spend(busy)
		time.Sleep(idle)
	}
}

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var used syscall.Rusage
	const thisThread = 1
	if err := syscall.Getrusage(thisThread, &used); err != nil {
		panic(err) // no pointer of ours can be wrong
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
