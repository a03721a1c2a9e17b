package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

const services = "/sys/fs/cgroup/system.slice"

// interrupts are the CPUs that may serve each interrupt, by its file.
func (r *rig) interrupts() map[string]topology.CPUSet {
	r.t.Helper()
	text, err := r.Guest.Shell(r.t.Context(), "cd /proc/irq && grep -H . */smp_affinity_list")
	if err != nil {
		r.t.Fatal(err)
	}
	out := make(map[string]topology.CPUSet)
	for line := range strings.Lines(text) {
		name, list, _ := strings.Cut(strings.TrimSpace(line), ":")
		if out[name], err = topology.ParseCPUSet(list); err != nil {
			r.t.Fatal(err)
		}
	}
	return out
}

// cpus are those of a file.
func (r *rig) cpus(file string) topology.CPUSet {
	r.t.Helper()
	text, err := r.Guest.Field(r.t.Context(), file)
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := topology.ParseCPUSet(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// TestNodeIsQuietAndOffloads: while a dedicated pod holds CPUs, no interrupt that the kernel lets go is left on them, nor may the host's services run there. The disk that holds
// containerd's files has the model that is configured. A reclaimed pod swaps step by step. The cleanup gives all of it back.
func TestNodeIsQuietAndOffloads(t *testing.T) {
	long(t)
	r := newRig(t)
	const swap = "/root/swap"
	if said, err := r.Guest.Shell(t.Context(), "dd if=/dev/zero of="+swap+" bs=1048576 count=192 && mkswap "+swap+" && swapon "+swap+" 2>&1"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	t.Cleanup(func() {
		if said, err := r.Guest.Shell(context.WithoutCancel(t.Context()), "swapoff "+swap+"; rm "+swap); err != nil {
			t.Logf("%v\n%s", err, said)
		}
	})
	affinity, wide := r.interrupts(), r.cpus(services+"/cpuset.cpus.effective")
	r.reconfigure("lending: {enabled: false}", `writeInterval: 1s, kubeletThresholds: File, quietCPUs: {interrupts: true, services: true}, memory: {swap: {share: 0.5}, offload: {share: 0.1, refaults: 1}}, `+
		`lending: {refreshInterval: 10s, io: {disks: [{device: /var/lib/containerd, model: {readBytes: 1000000000, sequentialReads: 100000, randomReads: 100000, `+
		`writeBytes: 1000000000, sequentialWrites: 100000, randomWrites: 100000}, quality: {leastPercent: 50, mostPercent: 200}}]}}`)
	own := r.run(r.dedicated("own", "2", "64Mi", spec.NUMABound))[0]
	held, _ := r.places(own)

	// Interrupts, and services.
	r.eventually(patience, "the host's services leave the pod's CPUs", func() error {
		if has := r.cpus(services + "/cpuset.cpus.effective"); has != wide.Minus(held) {
			return fmt.Errorf("they have %v, the pod holds %v", has, held)
		}
		return nil
	})
	moved, fixed := 0, 0
	for file, cpus := range r.interrupts() {
		switch {
		case cpus.Intersection(held).IsEmpty():
			if cpus != affinity[file] {
				moved++
			}
		default:
			if said, err := r.Guest.Shell(t.Context(), "echo "+wide.Minus(held).String()+" > /proc/irq/"+file); err == nil {
				t.Errorf("interrupt %s was on %v, and could be moved: %s", file, cpus, said)
			}
			fixed++
		}
	}
	t.Logf("%d interrupts were moved off %v, %d cannot be", moved, held, fixed)
	if moved == 0 {
		t.Error("no interrupt was moved")
	}

	// The disk.
	text, err := r.Guest.Shell(t.Context(), "cat /sys/fs/cgroup/io.cost.model /sys/fs/cgroup/io.cost.qos")
	if err != nil || !strings.Contains(text, "rseqiops=100000") || !strings.Contains(text, "enable=1 ctrl=user") {
		t.Errorf("io.cost: %v\n%s", err, text)
	}

	// Swap.
	r.offloads()

	r.clear()
	r.eventually(patience, "interrupts and services have their CPUs back", func() error { return r.asBefore(affinity, wide) })
	own = r.run(r.dedicated("own", "2", "64Mi", spec.NUMABound))[0]
	r.eventually(patience, "they leave the pod's CPUs again", func() error {
		if r.asBefore(affinity, wide) == nil {
			return errors.New("they have not")
		}
		return nil
	})
	if err := r.Guest.Service(agentName).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said, err := r.Guest.Shell(t.Context(), "/usr/bin/hilbertd --config=/etc/hilbert/agent.yaml --cleanup 2>&1"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if err := r.asBefore(affinity, wide); err != nil {
		t.Errorf("after the cleanup: %v", err)
	}
	if text, err := r.Guest.Shell(t.Context(), "cat /sys/fs/cgroup/io.cost.qos"); err != nil || strings.Contains(text, "enable=1") {
		t.Errorf("after the cleanup: %v\n%s", err, text)
	}
}

// asBefore says which interrupt, or whether the services, have other CPUs than they had.
func (r *rig) asBefore(affinity map[string]topology.CPUSet, wide topology.CPUSet) error {
	if has := r.cpus(services + "/cpuset.cpus.effective"); has != wide {
		return fmt.Errorf("services have %v, had %v", has, wide)
	}
	for file, cpus := range r.interrupts() {
		if before, known := affinity[file]; known && before != cpus {
			return fmt.Errorf("interrupt %s has %v, had %v", file, cpus, before)
		}
	}
	return nil
}

// offloads runs a reclaimed pod, and waits until some of it is in swap.
func (r *rig) offloads() {
	r.t.Helper()
	ctx := r.t.Context()
	batch := r.create(r.pod("batch", level(spec.QoSReclaimed), reclaiming("500", "256Mi"), does("hold", "150")))
	r.eventually(2*patience, "the reclaimed pod runs", func() error {
		p, err := r.Client.CoreV1().Pods(batch.Namespace).Get(ctx, batch.Name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = errors.New(string(p.Status.Phase))
		}
		if err == nil {
			batch = p
		}
		return err
	})
	inside, err := r.ContainerCgroup(ctx, batch, container)
	if err != nil {
		r.t.Fatal(err)
	}
	dir := r.cgroup(batch)
	r.eventually(patience, "some of it is in swap", func() error {
		used, err := r.Guest.Field(ctx, dir+"/memory.swap.current")
		if err == nil && used == "0" {
			var pod, own string
			if pod, err = r.Guest.Field(ctx, dir+"/memory.swap.max"); err == nil {
				own, err = r.Guest.Field(ctx, inside+"/memory.swap.max")
			}
			err = errors.Join(err, fmt.Errorf("nothing is; the pod may swap %s, its container %s", pod, own))
		}
		return err
	})
	pod, err := r.Guest.Field(ctx, dir+"/memory.swap.max")
	if err != nil || pod == "max" {
		r.t.Errorf("it may swap %s, %v", pod, err)
	}
}
