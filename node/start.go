package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/loop"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// startPause is how long is waited before the kernel is looked at again: a knob may be on its way.
const startPause = 20 * time.Millisecond

// StartContainer verifies that a container has what it was given, before its first instruction. The error fails its start; the kubelet makes another one.
// A pool may change between the creation and the start, and limits of memory are written beside the loop, so the kernel has applyTimeout to have them.
func (a *Agent) StartContainer(ctx context.Context, s runtime.Sandbox, c runtime.Container) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	var last error // what the kernel lacked
	for {
		wants, err := loop.Returned(ctx, a.node.Loop, func() (startCheck, error) { return a.admission.checkStart(&s, &c) })
		final := err != nil
		if !final {
			err = wants.check(a.node.options.Kernel)
			last = err
		} else if ctx.Err() != nil && last != nil { // the time is over, and that is why
			err = last
		}
		if err == nil {
			return nil
		}
		if !final {
			select {
			case <-ctx.Done():
			case <-time.After(startPause):
				continue
			}
		}
		a.node.Loop.Post(func() { a.admission.refuseStart(&s, err) })
		return fmt.Errorf("hilbert: container %s is not started: %w; the kubelet tries again", c.Name, err)
	}
}

// startCheck is what the kernel must have before a container starts.
type startCheck struct {
	container, pod string // directories
	cpus, mems     topology.CPUSet
	exact          bool // no CPU but these, else: some of them
	limited        bool // the pod has a limit of memory
}

// check compares it with the kernel. Where there is no such directory, as with runtimes that have containers in machines of their own, there is nothing to
// compare.
func (w *startCheck) check(k enforce.Kernel) error {
	if err := w.within(k, enforce.CPUSet, w.cpus, w.exact); err != nil {
		return err
	}
	if err := w.within(k, enforce.Mems, w.mems, true); err != nil {
		return err
	}
	if !w.limited {
		return nil
	}
	text, err := k.Read(w.pod + "/" + enforce.MemoryMax)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return err
	case strings.TrimSpace(text) == "max":
		return errors.New("its pod has no limit of memory yet")
	}
	return nil
}

func (w *startCheck) within(k enforce.Kernel, file string, want topology.CPUSet, exact bool) error {
	if want.IsEmpty() {
		return nil
	}
	text, err := k.Read(w.container + "/" + file)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	has, err := topology.ParseCPUSet(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	case has.IsEmpty() || exact && !has.Minus(want).IsEmpty():
		return fmt.Errorf("it has %s %q, and should have %v", file, strings.TrimSpace(text), want)
	}
	return nil
}

func absent(err error) bool { return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV) }

// checkStart compares what the runtime made with what was given, and says what the kernel must have.
func (d *admission) checkStart(s *runtime.Sandbox, c *runtime.Container) (wants startCheck, err error) {
	m, marked := runtime.ParseMark(c.Mark, c.ID)
	if d.node.Runtime.TellsMarks() {
		if !marked && runtime.NeedsAgent(s, c, d.injector.Ours()) {
			return wants, errors.New("it was made without Hilbert's agent")
		}
		if err := m.Check(c, d.injector.Files); err != nil {
			return wants, err
		}
	}
	p := d.node.Pods.Of(s.UID)
	placed, known := d.node.Placement(p)
	if !known || d.node.options.Mode != spec.ModeAgent || c.Cgroup == "" {
		return wants, nil
	}
	wants = startCheck{
		container: c.Cgroup, pod: p.Cgroup, cpus: placed.CPUs, mems: placed.Mems, exact: placed.Pool == "", limited: placed.MemoryMax > 0 && p.BestEffort && p.Cgroup != "",
	}
	if _, moves := d.knobs.memory.moveTarget(p.Cgroup); moves {
		wants.mems = topology.CPUSet{}
	}
	return wants, nil
}

// refuseStart says that a container was not started.
func (d *admission) refuseStart(s *runtime.Sandbox, why error) {
	d.node.Counts.NotStarted++
	d.node.Log.Warn("a container is not started", "pod", s.Namespace+"/"+s.Name, "err", why)
}
