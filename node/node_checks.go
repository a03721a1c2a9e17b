package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/events"
)

// missingTicks is for how many ticks a pod's cgroup must be gone before the pod is taken for gone.
const missingTicks = 2

// vanishedPods forgets pods whose cgroup the kubelet has removed, which it does last. The runtime should have told, but containerd (2.4.2) never tells
// of the end of a sandbox that it took over from before its own restart.
type vanishedPods struct{ node *nodeState }

// Tick implements ticker.
func (v vanishedPods) Tick(time.Time) (changed bool) {
	for _, p := range v.node.Pods.Sorted() {
		if p.Cgroup == "" {
			continue
		}
		switch _, err := v.node.options.Kernel.Read(p.Cgroup + "/" + enforce.CPUSet); {
		case err == nil:
			p.Seen, p.Missing = true, 0
		case p.Seen && errors.Is(err, fs.ErrNotExist):
			p.Missing++
		}
		if p.Missing >= missingTicks {
			v.node.Counts.Vanished++
			v.node.Log.Warn("a pod is gone, and the runtime did not say so", "pod", p.Ref.Namespace+"/"+p.Ref.Name)
			v.node.Pods.Forget(p)
			v.node.Manager.Release(p.Ref.UID)
			changed = true
		}
	}
	return changed
}

// maxBestEffortWeight is the cpu.weight of the kubelet's BestEffort cgroup beyond which it does not protect online pods. The kubelet makes it
// 1; the kernel's default is 100.
const maxBestEffortWeight = 10

// weightCheck looks at what protects online pods where they share a CPU with BestEffort ones. It is the kubelet's, and never written here.
type weightCheck struct{ node *nodeState }

// Tick implements ticker.
func (w weightCheck) Tick(time.Time) (changed bool) {
	problems := w.node.Events.Problems
	for _, p := range w.node.Pods.All() {
		above := path.Dir(p.Cgroup)
		if !p.BestEffort || above == "." || above == "/" {
			continue
		}
		text, err := w.node.options.Kernel.Read(above + "/" + enforce.CPUWeight)
		weight, parseErr := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || parseErr != nil {
			return false // not known, so nothing to say
		}
		if weight > maxBestEffortWeight {
			problems.Set(spec.ReasonBestEffortWeight, fmt.Sprintf("%s has cpu.weight %d; the kubelet makes it 1. Online pods are not protected from BestEffort ones on their CPUs", above, weight))
			return false
		}
		break // they share it
	}
	problems.Resolve(spec.ReasonBestEffortWeight)
	return false
}

// maxClockDrift is how far the wall clock may stray from the monotonic one between two ticks.
const maxClockDrift = 2 * time.Second

// clockCheck notes jumps of the wall clock. Nothing here depends on it; the times that people read do.
type clockCheck struct {
	events *events.Recorder
	last   time.Time // the last tick
}

// Tick implements ticker.
func (c *clockCheck) Tick(now time.Time) (changed bool) {
	if !c.last.IsZero() {
		c.compare(now.Round(0).Sub(c.last.Round(0)), now.Sub(c.last))
	}
	c.last = now
	return false
}

// compare is given how much time passed since the last tick by the wall clock and by the monotonic one.
func (c *clockCheck) compare(wall, monotonic time.Duration) {
	if jump := wall - monotonic; jump.Abs() > maxClockDrift {
		c.events.NoteTransient(spec.ReasonClockJumped, fmt.Sprintf("the clock jumped by %v", jump.Round(time.Second)))
	}
}
