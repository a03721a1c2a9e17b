package runqueue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Options say where the kernel's files are.
type Options struct {
	// Cgroups is where cgroup v2 is mounted.
	Cgroups string
	// Tracing is where tracefs is mounted.
	Tracing string
}

// Waits are what a Look has found since the one before.
type Waits struct {
	// Over is how long the programs looked; 0: they have only begun.
	Over time.Duration
	// Of is how long threads waited, by the victim's cgroup, and by that of who ran; NoPod is what is no pod, or is not known.
	Of map[string]map[string]time.Duration
	// Dropped is what found no room.
	Dropped time.Duration
}

// NoPod stands for all that is no pod.
const NoPod = ""

// Bounds of what is kept in the kernel.
const (
	maxPods    = 1024
	maxThreads = 16384
	maxPairs   = 4096
	// maxLevels is at how many levels of the hierarchy pods may be: the kubelet has those of class Guaranteed one above the others.
	maxLevels = 3
)

// Unsupported says why a node cannot have the probe.
type Unsupported struct {
	Message string
	Err     error // what the kernel said; nil: nothing
}

func (u *Unsupported) Error() string { return "run queues are not seen: " + u.Message }

func (u *Unsupported) Unwrap() error { return u.Err }

// fields are where sched_switch and sched_wakeup have what the programs read.
type fields struct {
	prevPID, prevState, nextPID int16
	wokenPID                    int16
}

var errNoField = errors.New("the event has no such field of that size")

// offsetOf reads from an event's format where a field is. The size is what the programs take it for.
func offsetOf(format, name string, size int) (int16, error) {
	for line := range strings.Lines(format) {
		declared, rest, ok := strings.Cut(strings.TrimSpace(line), ";")
		words := strings.Fields(declared)
		if !ok || !strings.HasPrefix(declared, "field:") || len(words) < 2 || words[len(words)-1] != name {
			continue
		}
		at, bytes := -1, -1
		for part := range strings.SplitSeq(rest, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
			n, err := strconv.ParseInt(value, 10, 16)
			switch {
			case err != nil:
			case key == "offset":
				at = int(n)
			case key == "size":
				bytes = int(n)
			}
		}
		if at >= 0 && bytes == size {
			return int16(at), nil
		}
	}
	return 0, fmt.Errorf("%s, %d bytes: %w", name, size, errNoField)
}

// fieldsOf reads both formats.
func fieldsOf(sched, wakeup string) (f fields, err error) {
	const pid, long = 4, 8
	for _, one := range []struct {
		at     *int16
		format string
		name   string
		size   int
	}{{&f.prevPID, sched, "prev_pid", pid}, {&f.prevState, sched, "prev_state", long}, {&f.nextPID, sched, "next_pid", pid}, {&f.wokenPID, wakeup, "pid", pid}} {
		if *one.at, err = offsetOf(one.format, one.name, one.size); err != nil {
			return f, err
		}
	}
	return f, nil
}

// depth is the level of a cgroup below the hierarchy's root.
func depth(cgroup string) int {
	cgroup = strings.Trim(cgroup, "/")
	if cgroup == "" {
		return 0
	}
	return strings.Count(cgroup, "/") + 1
}
