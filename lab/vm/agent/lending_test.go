package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// offersSoon has the agent offer what it finds idle within seconds, and not only what stayed so for three minutes; and whoever waits for an emulated CPU takes nothing of it away.
const offersSoon = `cpu: {margin: 0, marginShare: 0, riseAfter: 10s, delayLow: 50, delayHigh: 100, delayCritical: 200, pressureLow: 0.9, pressureHigh: 1, pressureCritical: 1}`

// lend has the agent lend until the test ends.
func (r *rig) lend() {
	r.t.Helper()
	r.reconfigure("lending: {enabled: false}", "writeInterval: 1s, kubeletThresholds: File, lending: {refreshInterval: 10s}")
}

// reconfigure starts the agent with a part of its configuration replaced, until the test ends.
func (r *rig) reconfigure(part, by string) {
	r.t.Helper()
	usual := fmt.Sprintf(agentConfiguration, r.Name, tick)
	if err := r.ReconfigureAgent(r.t.Context(), agentName, strings.Replace(usual, part, by, 1)); err != nil {
		r.t.Fatal(err)
	}
	r.ready()
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.ReconfigureAgent(ctx, agentName, usual); err != nil {
			r.t.Error(err)
		}
	})
}

// reclaiming has a pod ask for reclaimed resources.
func reclaiming(milli, memory string) trait {
	return func(p *corev1.Pod) {
		amounts := corev1.ResourceList{
			spec.ResourceReclaimedCPU: resource.MustParse(milli), spec.ResourceReclaimedMemory: resource.MustParse(memory),
		}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts, Limits: amounts}
	}
}

// pool is what a pod runs on.
func (r *rig) pool(p *corev1.Pod) (cpus topology.CPUSet, err error) {
	cpus, _, err = r.sees().where(p)
	return cpus, err
}

// TestLending: a reclaimed pod is bound only when the node has said for a while what it can lend, and is limited to what it asked for; cores that
// the online pod does not use come to it step by step; and when the online pod wants them, they are back within a few control periods.
func TestLending(t *testing.T) {
	long(t)
	r := newRig(t)
	r.lend()
	online := r.run(r.pod("online", requests("5")))[0]
	before, err := r.pool(online)
	if err != nil {
		t.Fatal(err)
	}
	// It sleeps: what it burned, the host would take from the emulation of all other CPUs. What is lent does not depend on it.
	batch := r.create(r.pod("batch", level(spec.QoSReclaimed), reclaiming("2000", "256Mi")))
	r.reported("headroom", func(o *v1alpha1.CustomNodeResource) error {
		if c := o.Status.Colocation; c == nil || len(c.NUMANodes) != 2 {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	begin := time.Now()
	r.eventually(patience+3*time.Minute, "the reclaimed pod is bound and runs", func() error {
		p, err := r.Client.CoreV1().Pods(batch.Namespace).Get(t.Context(), batch.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if batch = p; p.Status.Phase != corev1.PodRunning {
			return errors.New(string(p.Status.Phase))
		}
		return nil
	})
	t.Logf("bound and running %.0f s after its creation", time.Since(begin).Seconds())
	if got := batch.Annotations[spec.AnnotationReclaimed]; got != "2000m/256Mi" {
		t.Errorf("its Binding says %q", got)
	}
	cgroup, err := r.PodCgroup(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	r.eventually(tick+slack, "it is limited to what it asked for", func() error {
		limit, err := r.Guest.Field(t.Context(), cgroup+"/memory.max")
		if err == nil && limit != fmt.Sprint(256<<20) {
			err = fmt.Errorf("memory.max is %s", limit)
		}
		return err
	})
	var lent topology.CPUSet
	took := r.eventually(patience, "it has more than the floor", func() (err error) {
		if lent, err = r.pool(batch); err == nil && lent.Len() <= 2 {
			err = fmt.Errorf("it has %v", lent)
		}
		return err
	})
	t.Logf("%.0f s later it runs on %v; the online pod, which had %v, has the rest", took.Seconds(), lent, before)
	load := r.create(r.pod("load", requests("1"), does("burn", "7")))
	r.awaitRunning(load)
	took = r.eventually(patience, "the reclaimed pod has the floor", func() error {
		now, err := r.pool(batch)
		if err == nil && now.Len() > 2 {
			err = fmt.Errorf("it has %v", now)
		}
		return err
	})
	t.Logf("%.1f s after the online load was seen to run, the reclaimed pod had the floor", took.Seconds())
	if took > 30*time.Second {
		t.Errorf("what was lent came back only after %s", took)
	}
	r.reported("headroom has fallen", func(o *v1alpha1.CustomNodeResource) error {
		c := o.Status.Colocation
		if c == nil || c.Headroom.MilliCPU > 2000 || c.Suppression == spec.SuppressionNone {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	r.remove(load, batch, online)
}
