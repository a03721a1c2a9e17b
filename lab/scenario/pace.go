package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// glance is the time between two looks.
	glance = 50 * time.Millisecond
	// quiet is how long nothing may have moved before what is there counts as the end, where it is what the file wants. Where it is not,
	// quietOtherwise is longer than hilbertd keeps silent about members that are missing (5 s) and about Queues (10 s).
	quiet, quietOtherwise = 300 * time.Millisecond, 12 * time.Second
	// admissionLag is how long the API server may take until it knows a priority class that was just created.
	admissionLag = 10 * time.Second
	// restTimeout bounds the wait until nothing moves.
	restTimeout = 60 * time.Second
)

// run lets virtual time pass and waits until nothing moves. It prints what has changed. wanted is what the file wants it and what follows in
// its block to print.
func (p *player) run(ctx context.Context, virtual time.Duration, wanted string) (string, error) {
	p.hilbertd.resume()
	p.paused = false
	began, until := time.Now(), p.passed+virtual
	last := began
	var seen []string
	moved := time.Now()
	for {
		now := time.Now()
		p.passed = min(p.passed+time.Duration(float64(now.Sub(last))*p.header.Pace), until)
		last = now
		v, err := p.look(ctx)
		if err != nil {
			return "", err
		}
		busy, err := p.turn(ctx, v)
		if err != nil {
			return "", err
		}
		lines := p.state(v).Lines()
		if busy || !slices.Equal(lines, seen) {
			seen, moved = lines, time.Now()
		}
		still := time.Since(moved)
		switch {
		case p.passed < until:
		case still > quietOtherwise, still > quiet && p.wants(v, wanted):
			return p.printer.Changes(p.state(v)), nil
		case time.Since(began) > restTimeout+p.header.real(virtual):
			return "", errors.New("there is no rest")
		}
		select {
		case <-p.hilbertd.ended:
			return "", fmt.Errorf("hilbertd has ended: %w", p.hilbertd.err)
		case <-time.After(glance):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// wants reports whether the file wants what would be printed now.
func (p *player) wants(v *view, wanted string) bool {
	trial := p.printer
	text := trial.Changes(p.state(v))
	return strings.HasPrefix(wanted, text)
}

// turn does what others than the scheduler do: pods whose time has come end or leave, and controllers make those anew that have gone. busy
// says that something has happened.
func (p *player) turn(ctx context.Context, v *view) (busy bool, err error) {
	for _, c := range p.sets {
		for _, m := range c.members {
			pod := v.pods[c.namespace+"/"+m.name]
			if !runs(pod) || pod.DeletionTimestamp != nil {
				continue
			}
			starts, ends := pod.Status.StartTime == nil, p.due(pod, p.ends, c.template.Duration)
			busy = busy || starts || ends
			if starts {
				err = p.patchStatus(ctx, pod, corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: time.Now()}})
			}
			if ends && err == nil {
				err = p.finish(ctx, pod)
			}
			if err != nil {
				return busy, err
			}
		}
		made, err := p.refill(ctx, c, v)
		if err != nil {
			return busy, err
		}
		busy = busy || made
	}
	for _, pod := range v.pods {
		if pod.DeletionTimestamp != nil && p.due(pod, p.leaves, grace) {
			busy = true
			if err := p.deletePod(ctx, pod, true); err != nil {
				return busy, err
			}
		}
	}
	return busy, nil
}

// grace is how long pods take to end, in virtual time: what they take in the simulator.
const grace = time.Second

// due reports whether something happens now that was to happen so long after it was first asked for; 0 is never.
func (p *player) due(pod *corev1.Pod, at map[types.UID]time.Duration, after time.Duration) bool {
	if after == 0 {
		return false
	}
	when, known := at[pod.UID]
	if !known {
		when = p.passed + after
		at[pod.UID] = when
	}
	return when <= p.passed
}

// refill makes the pods of a set that are not there.
func (p *player) refill(ctx context.Context, c *cast, v *view) (made bool, err error) {
	for _, m := range c.members {
		if v.pods[c.namespace+"/"+m.name] != nil || c.foreign != "" && m.made {
			continue
		}
		made, m.made = true, true
		pod := podObject(c, m, p.header, c.foreign)
		for end := time.Now().Add(admissionLag); ; time.Sleep(glance) {
			_, err = p.client.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{})
			if !apierrors.IsForbidden(err) || time.Now().After(end) {
				break
			}
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return made, fmt.Errorf("create pod %s/%s: %w", c.namespace, m.name, err)
		}
	}
	return made, nil
}
