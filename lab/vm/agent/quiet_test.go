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

// TestNodeIsQuiet: while a dedicated pod holds CPUs, no interrupt that the kernel lets go is left on them, nor may the host's services run there. The disk that holds
// containerd's files has the model that is configured.
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
}
