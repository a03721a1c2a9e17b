package numa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/deploytest"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/vmtest"
	"hilbert.dev/hilbert/topology"
)

const (
	// The guest has three CPUs in each NUMA node: one for a pod of its own, and some for the pool.
	nodes, cpus = 4, 12
	// walked is the memory that each pod walks through, in MiB.
	walked = 64
	// samples is how often it is looked where thread and memory are, pause how long lies between two looks.
	samples, pause = 12, time.Second
	// patience bounds what takes as long as it takes.
	patience = 5 * time.Minute
	// local is the least share of pages beside the thread that counts as all: some are the runtime's, which another process had touched before.
	local         = 0.95
	container     = "main"
	configuration = `apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
roles: [agent]
clientConnection: {kubeconfig: /etc/hilbert/kubeconfig}
server: {bindAddress: "0.0.0.0:10462"}
node: {name: %s, tickInterval: 2s, writeInterval: 1s, lending: {enabled: false}}
`
)

var cluster *deploytest.Cluster //nolint:gochecknoglobals // ended after the tests, before the node

func TestMain(m *testing.M) {
	os.Exit(vmtest.Run(deploytest.Ending{Tests: m, Cluster: &cluster}, join.Options{Guest: vm.Options{CPUs: cpus, Nodes: nodes, Forward: []int{join.AgentPort}}}))
}

// rig is the node.
type rig struct {
	*deploytest.Cluster
	t    *testing.T
	numa [nodes]topology.CPUSet
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("not with -short")
	}
	cluster = &deploytest.Cluster{Node: vmtest.Node(t), Root: "../../.."}
	r := &rig{Cluster: cluster, t: t}
	if err := errors.Join(r.Install(t.Context()), r.StartAgent(t.Context(), "hilbertd", fmt.Sprintf(configuration, r.Name))); err != nil {
		t.Fatal(err)
	}
	for i := range r.numa {
		text, err := r.Guest.Field(t.Context(), fmt.Sprintf("/sys/devices/system/node/node%d/cpulist", i))
		if err == nil {
			r.numa[i], err = topology.ParseCPUSet(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("the agent is ready", func() error {
		_, err := r.AskAgent(t.Context(), "/readyz")
		return err
	})
	return r
}

func (r *rig) eventually(what string, check func() error) {
	r.t.Helper()
	for begin := time.Now(); ; time.Sleep(400 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(begin) > patience {
			r.t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
	}
}

// server is a pod with one thread that writes to all of its memory again and again.
func (r *rig) server(name string, level spec.QoSLevel, annotations ...string) *corev1.Pod {
	p := r.BusyPod(name, corev1.ResourceRequirements{}, "walk", strconv.Itoa(walked))
	p.Spec.NodeName, p.Spec.SchedulerName = "", spec.DefaultSchedulerName
	p.Labels, p.Annotations = map[string]string{spec.LabelQoS: string(level)}, map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[annotations[i]] = annotations[i+1]
	}
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("128Mi")}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	return p
}

func (r *rig) run(p *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	p, err := r.RunPod(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// allowed is where a pod may run and have memory.
func (r *rig) allowed(p *corev1.Pod) (cpus, mems topology.CPUSet) {
	r.t.Helper()
	cgroup, err := r.ContainerCgroup(r.t.Context(), p, container)
	if err != nil {
		r.t.Fatal(err)
	}
	for file, set := range map[string]*topology.CPUSet{"cpuset.cpus.effective": &cpus, "cpuset.mems.effective": &mems} {
		text, err := r.Guest.Field(r.t.Context(), cgroup+"/"+file)
		if err == nil {
			*set, err = topology.ParseCPUSet(text)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return cpus, mems
}

// look is where a pod's thread ran last, and how many of its anonymous pages are in each NUMA node.
type look struct {
	at    int
	pages [nodes]int
}

// beside is the share of the pages in the thread's NUMA node.
func (l *look) beside() float64 {
	sum := 0
	for _, n := range l.pages {
		sum += n
	}
	return float64(l.pages[l.at]) / float64(max(sum, 1))
}

// looks is that of some processes, all at about one time.
func (r *rig) looks(pids []int) []look {
	r.t.Helper()
	var names []string
	for _, pid := range pids {
		names = append(names, fmt.Sprintf("/proc/%d/task/*/stat", pid), fmt.Sprintf("/proc/%d/numa_maps", pid))
	}
	files, err := r.Guest.ReadFiles(r.t.Context(), names...)
	if err != nil {
		r.t.Fatal(err)
	}
	out, most := make([]look, len(pids)), make([]int, len(pids))
	for name, text := range files {
		i := slices.IndexFunc(pids, func(pid int) bool { return strings.HasPrefix(name, fmt.Sprintf("/proc/%d/", pid)) })
		if strings.HasSuffix(name, "numa_maps") {
			out[i].pages = anonymous(text)
			continue
		}
		if used, at := r.thread(text); used >= most[i] {
			most[i], out[i].at = used, at
		}
	}
	return out
}

// thread is what a thread has used, and the NUMA node in which it ran last, by its file stat.
func (r *rig) thread(stat string) (used, numa int) {
	r.t.Helper()
	const user, processor = 11, 36 // after the name
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	used, err := strconv.Atoi(fields[user])
	cpu, wrong := strconv.Atoi(fields[processor])
	numa = slices.IndexFunc(r.numa[:], func(cpus topology.CPUSet) bool { return cpus.Has(cpu) })
	if err = errors.Join(err, wrong); err != nil || numa < 0 {
		r.t.Fatalf("%s: CPU %d: %v", stat, cpu, err)
	}
	return used, numa
}

// anonymous are the anonymous pages of a process by NUMA node.
func anonymous(maps string) (out [nodes]int) {
	for line := range strings.Lines(maps) {
		if !strings.Contains(line, " anon=") {
			continue
		}
		for word := range strings.FieldsSeq(line) {
			var node, n int
			if _, err := fmt.Sscanf(word, "N%d=%d", &node, &n); err == nil && node < nodes {
				out[node] += n
			}
		}
	}
	return out
}

// promised is the one NUMA node that a pod's Binding promised.
func (r *rig) promised(p *corev1.Pod) int {
	r.t.Helper()
	g, err := topology.ParseNUMAGrant(p.Annotations[spec.AnnotationNUMANodes])
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range nodes {
		if g.NUMANodes() == 1<<i {
			return i
		}
	}
	r.t.Fatalf("pod %s was promised %v, want one NUMA node", p.Name, g)
	return 0
}

// says is what the node's report says of a condition.
func (r *rig) says(kind string) (status, message string) {
	r.t.Helper()
	var o v1alpha1.CustomNodeResource
	data, err := r.Client.Discovery().RESTClient().Get().AbsPath("/apis/node.hilbert.dev/v1alpha1/customnoderesources", r.Name).SetHeader("Accept", "application/json").DoRaw(context.WithoutCancel(r.t.Context()))
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range o.Status.Conditions {
		if c := &o.Status.Conditions[i]; c.Type == kind {
			return string(c.Status), c.Message
		}
	}
	return "", ""
}

// TestFourNUMANodes: a bound pod runs beside its memory, whether its CPUs are its own or shared; an unbound one may run and have memory everywhere. A memory-intensive pod runs in
// the NUMA nodes in which no sensitive one is, bound or not, and has all of these.
func TestFourNUMANodes(t *testing.T) {
	r := newRig(t)
	stock := r.run(r.server("stock", spec.QoSShared))
	zoned := r.run(r.server("zoned", spec.QoSShared, spec.AnnotationNUMA, spec.NUMABound))
	bound := r.run(r.server("bound", spec.QoSDedicated, spec.AnnotationNUMA, spec.NUMABound, spec.AnnotationMemoryBandwidth, spec.BandwidthSensitive))
	quiet := r.promised(bound)
	near := r.run(r.server("near", spec.QoSShared, spec.AnnotationNUMA, spec.NUMABound, spec.AnnotationMemoryBandwidth, spec.BandwidthIntensive))
	free := r.run(r.server("free", spec.QoSShared, spec.AnnotationMemoryBandwidth, spec.BandwidthIntensive))
	if r.promised(near) == quiet {
		t.Errorf("an intensive pod was promised NUMA node %d, where a sensitive one is", quiet)
	}

	r.eventually("who is bound is in the NUMA node of its promise, and who is intensive in no sensitive pod's", func() error {
		pool, mems := r.allowed(stock)
		if mems != topology.CPUs(0, 1, 2, 3) || pool.Intersection(r.numa[r.promised(zoned)]).IsEmpty() {
			return fmt.Errorf("stock may run on %v and have memory of %v", pool, mems)
		}
		for _, p := range []*corev1.Pod{zoned, bound, near} {
			in := r.promised(p)
			if cpus, mems := r.allowed(p); cpus.IsEmpty() || !cpus.Minus(r.numa[in]).IsEmpty() || mems != topology.CPUs(in) {
				return fmt.Errorf("%s was promised NUMA node %d, and may run on %v and have memory of %v", p.Name, in, cpus, mems)
			}
		}
		if cpus, _ := r.allowed(free); cpus != pool.Minus(r.numa[quiet]) || cpus == pool {
			return fmt.Errorf("free may run on %v; the pool has %v, the sensitive pod's NUMA node %v", cpus, pool, r.numa[quiet])
		}
		return nil
	})
	if status, message := r.says(spec.ConditionBandwidth); status == "True" {
		t.Errorf("the report says that they are not separated: %s", message)
	}

	pods := []*corev1.Pod{stock, zoned, bound, near, free}
	var walking []int
	for _, p := range pods {
		pids, err := r.PIDs(t.Context(), p, container)
		if err != nil {
			t.Fatal(err)
		}
		walking = append(walking, pids[0])
	}
	sums, seen := make([]float64, len(pods)), make([][nodes]int, len(pods))
	for range samples {
		time.Sleep(pause)
		for i, l := range r.looks(walking) {
			p := pods[i]
			sums[i] += l.beside()
			seen[i][l.at]++
			bounded := p == zoned || p == bound || p == near
			if share := l.beside(); bounded && share < local {
				t.Errorf("%s: %.0f %% of its pages are beside its thread, at NUMA node %d: %v", p.Name, 100*share, l.at, l.pages)
			}
			if p == free && l.at == quiet {
				t.Errorf("%s ran in NUMA node %d, where a sensitive pod is", p.Name, quiet)
			}
		}
	}
	for i, p := range pods {
		t.Logf("%s: %.0f %% of its pages beside its thread on average of %d looks; it was seen in NUMA nodes %v", p.Name, 100*sums[i]/samples, samples, seen[i])
	}
	const pagesOfMiB = 256
	if l := r.looks(walking)[len(walking)-1]; float64(l.pages[quiet]) > (1-local)*walked*pagesOfMiB {
		t.Errorf("free has %v pages, some of them in the sensitive pod's NUMA node %d", l.pages, quiet)
	}

	// The sensitive pod ends: all of the pool is for everybody again.
	if err := r.DeletePod(t.Context(), bound); err != nil {
		t.Fatal(err)
	}
	r.eventually("the intensive pod has all of its pool", func() error {
		pool, _ := r.allowed(stock)
		if cpus, _ := r.allowed(free); cpus != pool {
			return fmt.Errorf("it has %v of %v", cpus, pool)
		}
		return nil
	})
}
