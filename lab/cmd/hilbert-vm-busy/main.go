// Command hilbert-vm-busy is what the containers of the VM test bed run: it sleeps, burns CPU, holds memory, or holds a sandbox open, as
// its first argument says. It is one static binary, so that an image is one file.
//
// Each mode runs until SIGTERM or SIGINT. What it does it says on standard output first, so that a test can wait for the line. It
// measures nothing: a test reads what happened from the kernel.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const usage = `hilbert-vm-busy MODE
  pause                  hold a pod's sandbox open and reap its orphans
  sleep                  do nothing
  burn [THREADS]         use THREADS CPUs as far as they are to be had (1)
  hold MEBIBYTES         allocate and touch memory, then do nothing
  steps BUSY_MS IDLE_MS  one thread: burn for BUSY_MS of its own CPU time, sleep for IDLE_MS, again`

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
	case mode == "steps" && len(numbers) == 2:
		go steps(time.Duration(numbers[0])*time.Millisecond, time.Duration(numbers[1])*time.Millisecond)
	default:
		return fmt.Errorf("do not know how to %q\n%s", args, usage)
	}
	fmt.Fprintln(os.Stdout, "busy:", args)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
	return nil
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

// hold touches every page: memory that was only allocated is nobody's yet.
func hold(mebibytes int) []byte {
	held := make([]byte, mebibytes<<20)
	for i := 0; i < len(held); i += os.Getpagesize() {
		held[i] = 1
	}
	return held
}

// steps is a service under load: work in short turns, so that what it waits for a CPU shows.
func steps(busy, idle time.Duration) {
	runtime.LockOSThread()
	for {
		for until := threadTime() + busy; threadTime() < until; {
			for sum := range 1 << 12 {
				_ = sum
			}
		}
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
