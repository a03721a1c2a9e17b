package agent

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/topology"
)

// kubepods is where the kubelet keeps the pods' cgroups; those of BestEffort and Burstable ones lie a level deeper.
const kubepods = "/sys/fs/cgroup/kubepods"

// kernel is what the guest's kernel says of all pods, at about one time.
type kernel struct {
	pods map[string]*group // by UID
}

// group is a cgroup of a pod or a container.
type group struct {
	dir        string
	set        topology.CPUSet // cpuset.cpus
	cpus, mems topology.CPUSet // effective
	idle       string
	groups     map[string]*group // of a pod: those of its containers and its sandbox, by ID
	tasks      []task            // of a container: all threads
}

// task is a thread.
type task struct {
	pid, tid   int
	began      string // tells it from a later one with the same number
	cpus, mems topology.CPUSet
}

func (t task) String() string { return fmt.Sprintf("%d/%d@%s", t.pid, t.tid, t.began) }

// look reads the cgroups of all pods, and the status of each of their tasks.
func (r *rig) look() (*kernel, error) {
	var globs []string
	for _, dir := range []string{"/pod*", "/*/pod*", "/pod*/*", "/*/pod*/*"} {
		for _, file := range []string{"cpuset.cpus", "cpuset.cpus.effective", "cpuset.mems.effective", "cpu.idle", "cgroup.procs"} {
			globs = append(globs, kubepods+dir+"/"+file)
		}
	}
	files, err := r.Guest.ReadFiles(r.t.Context(), globs...)
	if err != nil {
		return nil, err
	}
	k := &kernel{pods: make(map[string]*group)}
	var procs []string
	owners := make(map[string]*group) // by process
	for name, text := range files {
		if path.Base(name) != "cpu.idle" { // each cgroup once
			continue
		}
		g, err := readGroup(path.Dir(name), files)
		if err != nil {
			return nil, err
		}
		g.idle = strings.TrimSpace(text)
		k.add(g)
		for pid := range strings.FieldsSeq(files[g.dir+"/cgroup.procs"]) {
			owners[pid] = g
			procs = append(procs, "/proc/"+pid+"/task/*/status", "/proc/"+pid+"/task/*/stat")
		}
	}
	if len(procs) == 0 {
		return k, nil
	}
	tasks, err := r.Guest.ReadFiles(r.t.Context(), procs...)
	if err != nil {
		return nil, err
	}
	for name, text := range tasks {
		if path.Base(name) != "status" {
			continue
		}
		t, err := readTask(name, text, tasks[path.Dir(name)+"/stat"])
		if err != nil {
			return nil, err
		}
		g := owners[strconv.Itoa(t.pid)]
		g.tasks = append(g.tasks, t)
	}
	return k, nil
}

// add files a cgroup under its pod.
func (k *kernel) add(g *group) {
	name := path.Base(g.dir)
	if uid, ok := strings.CutPrefix(name, "pod"); ok {
		pod := k.pod(uid)
		g.groups = pod.groups
		*pod = *g
		return
	}
	k.pod(strings.TrimPrefix(path.Base(path.Dir(g.dir)), "pod")).groups[name] = g
}

func (k *kernel) pod(uid string) *group {
	if k.pods[uid] == nil {
		k.pods[uid] = &group{groups: make(map[string]*group)}
	}
	return k.pods[uid]
}

func readGroup(dir string, files map[string]string) (*group, error) {
	g := &group{dir: dir}
	for file, set := range map[string]*topology.CPUSet{
		"cpuset.cpus": &g.set, "cpuset.cpus.effective": &g.cpus, "cpuset.mems.effective": &g.mems,
	} {
		var err error
		if *set, err = topology.ParseCPUSet(strings.TrimSpace(files[dir+"/"+file])); err != nil {
			return nil, fmt.Errorf("%s/%s: %w", dir, file, err)
		}
	}
	return g, nil
}

func readTask(name, status, stat string) (t task, err error) {
	if _, err := fmt.Sscanf(strings.ReplaceAll(name, "/", " "), " proc %d task %d status", &t.pid, &t.tid); err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	const began = 20 // counted after the name, which may hold spaces
	if fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]); len(fields) >= began {
		t.began = fields[began-1]
	}
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "Cpus_allowed_list":
			t.cpus, err = topology.ParseCPUSet(strings.TrimSpace(value))
		case "Mems_allowed_list":
			t.mems, err = topology.ParseCPUSet(strings.TrimSpace(value))
		}
		if err != nil {
			return t, fmt.Errorf("%s: %s: %w", name, line, err)
		}
	}
	return t, nil
}

// where is where the tasks of a pod may run, and their memory be: of its container, or of all that it has. The error says that not all may the
// same, or that there are none.
func (k *kernel) where(p *corev1.Pod) (cpus, mems topology.CPUSet, err error) {
	pod := k.pods[string(p.UID)]
	if pod == nil || pod.groups[containerID(p)] == nil {
		return cpus, mems, fmt.Errorf("pod %s has no cgroup", p.Name)
	}
	tasks := pod.groups[containerID(p)].tasks
	if len(tasks) == 0 {
		return cpus, mems, fmt.Errorf("pod %s has no task", p.Name)
	}
	for _, t := range tasks {
		if t.cpus != tasks[0].cpus || t.mems != tasks[0].mems {
			return cpus, mems, fmt.Errorf("pod %s: task %v may run on %v with memory of %v, task %v on %v with %v", p.Name,
				tasks[0], tasks[0].cpus, tasks[0].mems, t, t.cpus, t.mems)
		}
	}
	return tasks[0].cpus, tasks[0].mems, nil
}

// alone is nil when no task of any pod but one may run on some CPUs.
func (k *kernel) alone(p *corev1.Pod, cpus topology.CPUSet) error {
	for uid, pod := range k.pods {
		if uid == string(p.UID) {
			continue
		}
		for id, g := range pod.groups {
			for _, t := range g.tasks {
				if !t.cpus.Intersection(cpus).IsEmpty() {
					return fmt.Errorf("task %v of container %s of pod %s may run on %v, which meets %v of pod %s", t, id, uid, t.cpus, cpus, p.Name)
				}
			}
		}
	}
	return nil
}

// lives is a pod's processes and where all its tasks may run, as a text that changes when any of it does. The runtime's shims are not in it.
func (k *kernel) lives(p *corev1.Pod) string {
	cpus, mems, err := k.where(p)
	if err != nil {
		return err.Error()
	}
	var leader string
	for _, t := range k.pods[string(p.UID)].groups[containerID(p)].tasks {
		if t.pid == t.tid {
			leader = t.String()
		}
	}
	pod := k.pods[string(p.UID)]
	return fmt.Sprintf("%s: process %s on CPUs %v, memory of %v, pod's cpuset %v, idle %s", p.Name, leader, cpus, mems, pod.set, pod.idle)
}

// NUMA node is the CPUs of a NUMA node, as the guest's kernel has them.
func (r *rig) numa(node int) topology.CPUSet {
	r.t.Helper()
	text, err := r.Guest.Field(r.t.Context(), fmt.Sprintf("/sys/devices/system/node/node%d/cpulist", node))
	if err != nil {
		r.t.Fatal(err)
	}
	set, err := topology.ParseCPUSet(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return set
}

// sees is a look that cannot fail.
func (r *rig) sees() *kernel {
	r.t.Helper()
	k, err := r.look()
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

// places is where a pod's container runs.
func (r *rig) places(p *corev1.Pod) (cpus, mems topology.CPUSet) {
	r.t.Helper()
	cpus, mems, err := r.sees().where(p)
	if err != nil {
		r.t.Fatal(err)
	}
	return cpus, mems
}
