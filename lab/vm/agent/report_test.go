package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

const (
	reportsPath = "/apis/node.hilbert.dev/v1alpha1/customnoderesources"
	// reportSlack is what a report may be late: the least time between two writes, and what the emulated machine needs.
	reportSlack = 45 * time.Second
)

// report is the node's CustomNodeResource, as the API server has it.
func (r *rig) report() (*v1alpha1.CustomNodeResource, error) { return r.reportOf(r.t.Context()) }

func (r *rig) reportOf(ctx context.Context) (*v1alpha1.CustomNodeResource, error) {
	data, err := r.Client.Discovery().RESTClient().Get().AbsPath(reportsPath, r.Name).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1alpha1.CustomNodeResource{}
	return out, json.Unmarshal(data, out)
}

// reported returns the report once check has no error.
func (r *rig) reported(what string, check func(*v1alpha1.CustomNodeResource) error) *v1alpha1.CustomNodeResource {
	r.t.Helper()
	var last *v1alpha1.CustomNodeResource
	r.eventually(reportSlack, "reported: "+what, func() (err error) {
		if last, err = r.report(); err == nil {
			err = check(last)
		}
		return err
	})
	return last
}

// numa are a report's NUMA nodes, by number.
func numa(o *v1alpha1.CustomNodeResource) map[int]spec.TopologyElement {
	out := make(map[int]spec.TopologyElement)
	for _, socket := range o.Status.Topology {
		for _, numa := range socket.Children {
			var number int
			if _, err := fmt.Sscan(numa.Name, &number); err == nil && numa.Type == spec.ElementNUMANode {
				out[number] = numa
			}
		}
	}
	return out
}

// allocated is what a report says that a pod holds.
func allocated(o *v1alpha1.CustomNodeResource, p *corev1.Pod) (out []spec.NUMAAllocation) {
	for _, numa := range numa(o) {
		for _, a := range numa.Allocations {
			if a.UID == string(p.UID) {
				out = append(out, a)
			}
		}
	}
	return out
}

// condition is one of a report's.
func condition(o *v1alpha1.CustomNodeResource, kind string) metav1.Condition {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// TestReport: what the API server has of the node is what its kernel has; and while nothing happens nothing is written.
func TestReport(t *testing.T) {
	r := newRig(t)
	pooled := map[string]*corev1.Pod{
		spec.PoolShare: r.pod("shared", requests("100m")), "default/ads": r.pod("ads", requests("1"), annotated(spec.AnnotationPool, "ads")),
		spec.PoolReclaimed: r.pod("reclaimed", level(spec.QoSReclaimed)), spec.PoolSystem: r.pod("system", level(spec.QoSSystem)),
	}
	for name, p := range pooled {
		pooled[name] = r.run(p)[0]
	}
	// Last, because a report is written for them at once; that pools have changed waits for the next one.
	own := r.run(r.dedicated("two", "2", "64Mi", spec.NUMABound), r.dedicated("one", "1", "64Mi", spec.NUMABound))
	k := r.sees()
	o := r.reported("what is held and pooled is what the kernel has", func(o *v1alpha1.CustomNodeResource) error {
		k = r.sees()
		return errors.Join(sameHeld(k, o, own), samePools(k, o, pooled))
	})
	if c := condition(o, spec.ConditionAgentReady); c.Status != metav1.ConditionTrue || o.Status.Mode != spec.ModeAgent {
		t.Errorf("mode %s, %+v; want an agent that is ready", o.Status.Mode, c)
	}
	r.sameMachine(o)
	if !testing.Short() {
		r.quiet(time.Minute, 1)
	}
}

// sameHeld compares what pods hold for themselves.
func sameHeld(k *kernel, o *v1alpha1.CustomNodeResource, own []*corev1.Pod) error {
	free := topology.CPUSet{}
	for _, numa := range numa(o) {
		set, err := topology.ParseCPUSet(numa.Allocatable.CPUSet)
		if err != nil {
			return err
		}
		free = free.Union(set)
	}
	for _, p := range own {
		cpus, mems, err := k.where(p)
		if err != nil {
			return err
		}
		free = free.Minus(cpus)
		told := topology.CPUSet{}
		for number, numa := range numa(o) {
			for _, a := range numa.Allocations {
				if a.UID != string(p.UID) {
					continue
				}
				set, err := topology.ParseCPUSet(a.CPUSet)
				if err != nil || !mems.Has(number) {
					return fmt.Errorf("pod %s holds %q of NUMA node %d, its memory is of %v: %w", p.Name, a.CPUSet, number, mems, err)
				}
				told = told.Union(set)
			}
		}
		if told != cpus {
			return fmt.Errorf("pod %s is said to hold %v, its tasks may run on %v", p.Name, told, cpus)
		}
	}
	if o.Status.Summary.FreeCPUs != free.Len() || o.Status.Summary.DedicatedPods != len(own) {
		return fmt.Errorf("summary %+v, want %d CPUs free and %d dedicated pods", o.Status.Summary, free.Len(), len(own))
	}
	return nil
}

// samePools compares the pools with where their pods run.
func samePools(k *kernel, o *v1alpha1.CustomNodeResource, pods map[string]*corev1.Pod) error {
	told := make(map[string]string)
	for _, p := range o.Status.Pools {
		told[p.Name] = p.CPUSet
	}
	for name, p := range pods {
		cpus, _, err := k.where(p)
		if err != nil {
			return err
		}
		if told[name] != cpus.String() {
			return fmt.Errorf("pool %s is said to have %q, the tasks of pod %s may run on %v", name, told[name], p.Name, cpus)
		}
	}
	return nil
}

// sameMachine compares the NUMA nodes with what the kernel says of them.
func (r *rig) sameMachine(o *v1alpha1.CustomNodeResource) {
	r.t.Helper()
	numaNodes := numa(o)
	if len(numaNodes) != 2 {
		r.t.Fatalf("%d NUMA nodes are reported, want 2", len(numaNodes))
	}
	for number, numa := range numaNodes {
		if want := r.numa(number); numa.Capacity.CPUSet != want.String() || numa.Capacity.CPUs != want.Len() {
			r.t.Errorf("NUMA node %d has %+v, want CPUs %v", number, numa.Capacity, want)
		}
		text, err := r.Guest.ReadFile(r.t.Context(), fmt.Sprintf("/sys/devices/system/node/node%d/meminfo", number))
		if err != nil {
			r.t.Fatal(err)
		}
		var node int
		var kib int64
		if _, err := fmt.Sscanf(strings.TrimSpace(text), "Node %d MemTotal: %d kB", &node, &kib); err != nil || numa.Capacity.MemoryMiB != kib>>10 {
			r.t.Errorf("NUMA node %d has %d MiB, want %d: %v", number, numa.Capacity.MemoryMiB, kib>>10, err)
		}
	}
}

// quiet counts the writes of the report for a while in which nothing happens.
func (r *rig) quiet(during time.Duration, most int) {
	r.t.Helper()
	// What has just happened may still have to be written.
	last, since := "", time.Now()
	r.eventually(2*time.Minute, "the report rests", func() error {
		o, err := r.report()
		if err == nil && o.ResourceVersion != last {
			last, since = o.ResourceVersion, time.Now()
		}
		if err == nil && time.Since(since) < 15*time.Second {
			err = errors.New("it has just been written")
		}
		return err
	})
	writes := make(map[string]bool)
	for begin := time.Now(); time.Since(begin) < during; time.Sleep(500 * time.Millisecond) {
		o, err := r.report()
		if err != nil {
			r.t.Fatal(err)
		}
		if o.ResourceVersion != last {
			writes[o.ResourceVersion] = true
		}
	}
	if r.t.Logf("%d writes in %s of quiet", len(writes), during); len(writes) > most {
		r.t.Errorf("%d writes of the report in %s in which nothing happened, want at most %d", len(writes), during, most)
	}
}
