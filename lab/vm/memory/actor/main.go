// Command actor performs, inside the guest, single steps of the agent: it shrinks a cgroup, holds knobs, protects a pod, makes swap. It runs the
// product's own code (node/shrink, node/enforce, node/advise) with arguments, so that a test can tell the control laws from the agent's loop.
//
// Each command writes one JSON object to standard output when it ends. Cgroup paths are relative to /sys/fs/cgroup.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/shrink"
)

const (
	hierarchy = "/sys/fs/cgroup"
	usage     = `actor COMMAND
  shrink CGROUP BYTES all|file STEP_BYTES REST_MS [ONLINE_CGROUP LIMIT]
  keep SECONDS CGROUP/FILE=VALUE...
  protect CGROUP CONTAINER_CGROUP REQUEST_BYTES
  swapon FILE MEBIBYTES
  swapoff FILE`
	// mib is a mebibyte.
	mib = 1 << 20
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "actor:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	kernel, err := enforce.OpenFiles(hierarchy, "/proc")
	if err != nil {
		return err
	}
	var out any
	switch {
	case len(args) >= 6 && args[0] == "shrink":
		out, err = doShrink(kernel, args[1:])
	case len(args) >= 3 && args[0] == "keep":
		out, err = doKeep(kernel, args[1:])
	case len(args) == 4 && args[0] == "protect":
		out, err = doProtect(kernel, args[1:])
	case len(args) == 3 && args[0] == "swapon":
		out, err = "on", swapOn(args[1], args[2])
	case len(args) == 2 && args[0] == "swapoff":
		out, err = "off", swapOff(args[1])
	default:
		err = errors.New(usage)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	return errors.Join(err, kernel.Close())
}

// numbers parses whole numbers.
func numbers(texts ...string) ([]int64, error) {
	var out []int64
	for _, text := range texts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w\n%s", text, err, usage)
		}
		out = append(out, n)
	}
	return out, nil
}

// doShrink carries one request out.
func doShrink(kernel *enforce.Files, args []string) (*shrink.Result, error) {
	n, err := numbers(args[1], args[3], args[4])
	if err != nil {
		return nil, err
	}
	p := shrink.Defaults()
	p.Step, p.Rest, p.Deadline = n[1], spec.Duration(time.Duration(n[2])*time.Millisecond), spec.Duration(30*time.Second)
	halt := func() bool { return false }
	if len(args) == 7 {
		limit, err := strconv.ParseFloat(args[6], 64)
		if err != nil {
			return nil, err
		}
		gauge := shrink.NewGauge(kernel, limit)
		gauge.Watch([]string{args[5]})
		halt = gauge.High
	}
	results := make(chan shrink.Result, 1)
	ctx, cancel := context.WithCancel(context.Background())
	worker, ended := shrink.New(kernel, p, halt, func(r shrink.Result) { results <- r }), make(chan struct{})
	go func() { worker.Run(ctx); close(ended) }()
	request := shrink.Request{Cgroup: args[0], Bytes: n[0], FileOnly: args[2] == "file"}
	for err = worker.Ask(request); errors.Is(err, shrink.ErrStopped); err = worker.Ask(request) {
		time.Sleep(time.Millisecond) // Run has not begun
	}
	if err != nil {
		cancel()
		return nil, err
	}
	r := <-results
	cancel()
	<-ended
	return &r, nil
}

// kept is what a table did.
type kept struct{ Ticks, Written, Reverted, Right, Gone, Refused int }

// doKeep keeps knobs as the agent does, at each half second.
func doKeep(kernel *enforce.Files, args []string) (*kept, error) {
	n, err := numbers(args[0])
	if err != nil {
		return nil, err
	}
	table := enforce.NewTable()
	for _, row := range args[1:] {
		path, value, _ := strings.Cut(row, "=")
		i := strings.LastIndexByte(path, '/')
		if err := table.Want("actor", enforce.Knob{Cgroup: path[:max(i, 0)], File: path[i+1:]}, value); err != nil {
			return nil, err
		}
	}
	out := &kept{}
	for until := time.Now().Add(time.Duration(n[0]) * time.Second); time.Now().Before(until); time.Sleep(500 * time.Millisecond) {
		o := table.Tick(kernel)
		out.Ticks++
		out.Written += o.Written
		out.Reverted += o.Reverted
		out.Right += o.Right
		out.Gone += o.Gone
		out.Refused += len(o.Refused)
	}
	return out, nil
}

// protection is what the laws said before and after their memory.low was written.
type protection struct {
	Recursive     bool
	Lows          []advise.MemoryLow
	Before, After advise.MemoryProtection
}

// doProtect has the memory laws protect one online pod, on its whole path.
func doProtect(kernel *enforce.Files, args []string) (*protection, error) {
	n, err := numbers(args[2])
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return nil, err
	}
	out := &protection{Recursive: shrink.Recursive(string(mounts), hierarchy)}
	dirs := []string{args[1]}
	for dir := args[0]; dir != ""; dir = dir[:max(strings.LastIndexByte(dir, '/'), 0)] {
		dirs = append(dirs, dir)
	}
	p, memory := spec.DefaultNodeMemory(), advise.MemoryState{}
	steer := func(second int) (advise.MemoryAdvice, error) {
		inactive, err := inactiveFile(kernel, args[1])
		if err != nil {
			return advise.MemoryAdvice{}, err
		}
		groups := shrink.Groups(kernel, dirs)
		o := advise.MemoryObservation{
			At: time.Duration(second) * time.Second, Total: advise.Known(4096 * mib), OnlinePressure: advise.Known(0), Recursive: out.Recursive, Groups: groups,
			Pods: []advise.MemoryPod{{
				ID: "online", Dir: args[0], NUMANode: advise.AnyNUMANode,
				Containers: []advise.MemoryContainer{{Dir: args[1], Request: n[0], Current: groups[0].Current, InactiveFile: inactive}},
			}},
		}
		return advise.StepMemory(&o, &p, &memory), nil
	}
	a, err := steer(1)
	if err != nil {
		return nil, err
	}
	table := enforce.NewTable()
	for _, low := range a.Lows {
		if err := table.Want("actor", enforce.Knob{Cgroup: low.Dir, File: enforce.MemoryLow}, strconv.FormatInt(low.Bytes, 10)); err != nil {
			return nil, err
		}
	}
	if o := table.Tick(kernel); len(o.Refused) > 0 {
		return nil, o.Refused[0].Err
	}
	out.Lows, out.Before = a.Lows, a.Protection[0]
	if a, err = steer(2); err != nil {
		return nil, err
	}
	out.After = a.Protection[0]
	return out, nil
}

// inactiveFile is the row of memory.stat.
func inactiveFile(kernel *enforce.Files, cgroup string) (advise.Sample, error) {
	text, err := kernel.Read(cgroup + "/memory.stat")
	if err != nil {
		return advise.Sample{}, err
	}
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "inactive_file" {
			n, err := strconv.ParseInt(value, 10, 64)
			return advise.Known(float64(n)), err
		}
	}
	return advise.Sample{}, fmt.Errorf("%s/memory.stat has no inactive_file", cgroup)
}
