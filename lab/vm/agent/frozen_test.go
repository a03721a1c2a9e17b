package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/deploytest"
)

// TestFrozenDisk: while the disk of the agent's state does not answer, pods start, as promised and in the usual time, and it is said. What was not on disk when the
// agent was killed is as before when it is back; a pod that came while it was away waits for it.
func TestFrozenDisk(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	disk := r.onStateDisk()
	r.watch()
	began := time.Now()
	before := r.run(r.dedicated("before", "1", "64Mi", spec.NUMABound, "sleep"))[0]
	usual := time.Since(began)
	if err := disk.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	during := r.run(r.dedicated("during", "2", "64Mi", spec.NUMABound, "sleep"))[0]
	took := time.Since(began)
	t.Logf("a pod started in %.1f s, and in %.1f s while the disk was frozen", usual.Seconds(), took.Seconds())
	if took > 3*usual+slack {
		t.Errorf("while the disk was frozen a pod took %v to start, and %v before", took, usual)
	}
	shared := r.run(r.pod("shared", requests("500m")))[0]
	pods := []*corev1.Pod{before, during, shared}
	k := r.sees()
	r.asPromised(k, before, 1)
	cpus := r.asPromised(k, during, 2)
	lives := r.settled(pods)
	// same: nothing about the first pods has changed.
	same := func(first int) error {
		k, err := r.look()
		if err != nil {
			return err
		}
		var errs []error
		for i, p := range pods[:first] {
			if now := k.lives(p); now != lives[i] {
				errs = append(errs, fmt.Errorf("was %s, is %s", lives[i], now))
			}
		}
		return errors.Join(errs...)
	}
	r.eventually(reportSlack, "the node says that the disk does not answer", func() error {
		o, err := r.report()
		if err == nil && !strings.Contains(condition(o, spec.ConditionAgentReady).Message, "the disk has not answered") {
			err = fmt.Errorf("it says %+v", o.Status.Conditions)
		}
		return err
	})
	if _, err := r.Guest.Signal(ctx, agentName, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	late := r.create(r.dedicated("late", "1", "64Mi", spec.NUMABound, "sleep"))
	r.always(10*time.Second, "all is as it was while the agent waits for its disk", func() error {
		if _, _, err := r.sees().where(late); err == nil {
			return errors.New("a dedicated pod has started")
		}
		return same(len(pods))
	})
	if err := disk.Thaw(ctx); err != nil {
		t.Fatal(err)
	}
	r.ready()
	r.always(2*tick, "the dedicated pods stay after the agent has come back", func() error { return same(2) })
	late = r.awaitRunning(late)
	r.asPromised(r.sees(), late, 1)
	if err := errors.Join(same(2), r.sees().alone(during, cpus)); err != nil {
		t.Error(err)
	}
	r.eventually(patience, "what was promised is on disk", func() error {
		text, err := r.Guest.ReadFile(ctx, agentCheckpoint)
		for _, p := range []*corev1.Pod{before, during, late} {
			if err == nil && !strings.Contains(text, string(p.UID)) {
				err = fmt.Errorf("pod %s is not", p.Name)
			}
		}
		return err
	})
}

// onStateDisk gives the agent a disk of its own until the test ends.
func (r *rig) onStateDisk() deploytest.StateDisk {
	r.t.Helper()
	disk := deploytest.StateDisk{Guest: r.Guest}
	agent := r.Guest.Service(agentName)
	if err := errors.Join(agent.Stop(r.t.Context()), disk.Mount(r.t.Context()), agent.Start(r.t.Context())); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = disk.Thaw(ctx) // it may be, and an agent that waits for it does not end
		if err := errors.Join(agent.Stop(ctx), disk.Unmount(ctx), agent.Start(ctx)); err != nil {
			r.t.Error(err)
		}
	})
	r.ready()
	return disk
}
