package soak

import (
	"context"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// startService runs the online service, which does nothing yet. Its processes are stopped and continued by signals: a frozen cgroup would tell containerd that the
// container is paused.
func (r *rig) startService(ctx context.Context) error {
	p := r.pod(Action{Pod: service, Level: Shared, MilliCPU: serviceMilliCPU})
	p.Spec.Containers[0].Args = []string{"burn", serviceThreads}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} { // it may use what it finds; the limit of its card is the API server's wish
		delete(p.Spec.Containers[0].Resources.Limits, name)
	}
	p, err := r.RunPod(ctx, p)
	if err != nil {
		return err
	}
	r.service = p
	r.wanted[service] = &planned{name: service, level: Shared, milliCPU: serviceMilliCPU}
	return r.serviceWants(ctx, false)
}

// serviceWants has the service want all CPUs that it can get, or none.
func (r *rig) serviceWants(ctx context.Context, all bool) error {
	signal := syscall.SIGSTOP
	if all {
		signal = syscall.SIGCONT
	}
	pids, err := r.PIDs(ctx, r.service, container)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := r.Guest.SignalPID(ctx, pid, signal); err != nil {
			return fmt.Errorf("the online service: %w", err)
		}
	}
	if r.risen = all; all && r.loans.lasts {
		r.loans.risen++
	}
	return nil
}

// awaitLoan returns when CPUs are lent beyond the floor, or after a time, and notes which. It asks seldom, and only for what it has to know.
func (r *rig) awaitLoan(ctx context.Context, most time.Duration) error {
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	for begin := time.Now(); time.Since(begin) < most; time.Sleep(lendPause) {
		reading := r.machine
		reading.Pods = pods
		if reading.Containers, err = r.containers(ctx); err != nil {
			return err
		}
		if reading.lends() {
			r.loans.note(true)
			return nil
		}
	}
	r.loans.note(false)
	return nil
}
