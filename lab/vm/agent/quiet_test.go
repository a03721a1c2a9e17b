package agent

import (
	"fmt"
	"strings"
	"testing"

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

// asBefore is nil when each interrupt, and the host's services, may use the CPUs that they could before the agent moved them.
func (r *rig) asBefore(interrupts map[string]topology.CPUSet, wide topology.CPUSet) error {
	r.t.Helper()
	for file, cpus := range r.interrupts() {
		if before, known := interrupts[file]; known && cpus != before {
			return fmt.Errorf("interrupt %s may be served by %v, before by %v", file, cpus, before)
		}
	}
	if now := r.cpus(services + "/cpuset.cpus.effective"); now != wide {
		return fmt.Errorf("the host's services have %v, before %v", now, wide)
	}
	return nil
}

// moved is how many interrupts have left CPUs that some could use before.
func (r *rig) moved(interrupts map[string]topology.CPUSet) (n int) {
	r.t.Helper()
	for file, cpus := range r.interrupts() {
		if before, known := interrupts[file]; known && cpus != before {
			n++
		}
	}
	return n
}

// TestNodeIsQuiet: while a dedicated pod holds CPUs, no interrupt that the kernel lets go is left on them, nor may the host's services run there. The disk that holds
// containerd's files has the model that is configured. Interrupts and services are given back when the pod ends, and when the agent is removed while a pod holds CPUs.
func TestNodeIsQuiet(t *testing.T) {
	long(t)
	r := newRig(t)
	affinity, wide := r.interrupts(), r.cpus(services+"/cpuset.cpus.effective")
	r.reconfigure("lending: {enabled: false}", `writeInterval: 1s, kubeletThresholds: File, quietCPUs: {interrupts: true, services: true}, `+
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

	// Given back.
	r.remove(own)
	took := r.eventually(patience, "interrupts and services have what they had before the pod", func() error { return r.asBefore(affinity, wide) })
	t.Logf("%.0f s after the pod was gone they had it", took.Seconds())
	own = r.run(r.dedicated("again", "2", "64Mi", spec.NUMABound))[0]
	r.eventually(patience, "interrupts and services are moved again", func() error {
		if n := r.moved(affinity); n == 0 || r.cpus(services+"/cpuset.cpus.effective") == wide {
			return fmt.Errorf("%d interrupts are", n)
		}
		return nil
	})
	agent := r.Guest.Service(agentName)
	if err := agent.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.moved(affinity) == 0 {
		t.Error("an agent that stops gives interrupts back, while its pod holds the CPUs")
	}
	if said, err := r.Guest.Shell(t.Context(), "/usr/bin/hilbertd --config=/etc/hilbert/agent.yaml --cleanup 2>&1"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if err := r.asBefore(affinity, wide); err != nil {
		t.Errorf("after the cleanup: %v", err)
	}
	if err := agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.ready()
	r.remove(own)
}
