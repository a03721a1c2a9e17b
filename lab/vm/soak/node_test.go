package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/deploytest"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/topology"
)

const (
	reportsPath = "/apis/node.hilbert.dev/v1alpha1/customnoderesources"
	kubepods    = "/sys/fs/cgroup/kubepods"
	// container is the one container of the test bed's pods.
	container = "main"
	// watchdogStarts is what a watchdog that was killed gets to start in, before its silence begins to count.
	watchdogStarts = 6 * time.Second
)

// rig is the node, and what the sequence has done to it.
type rig struct {
	*deploytest.Cluster
	t    *testing.T
	disk deploytest.StateDisk

	machine Reading // what does not change
	wanted  map[string]*planned
	// known are the containers, and requested the pods' requests by UID, when the agent was last seen to be there and all was well.
	known     map[string]bool
	requested map[string]int64
	loans     loans
	service   *corev1.Pod
	risen     bool // the service is busy

	stopped, full, frozen, agentKilled bool      // killed since the disk was frozen
	agentSince, watchdogSince          time.Time // since when each is there, or away
}

// loans is what there was of loans beyond the floor.
type loans struct {
	steps int  // after how many steps there was one
	lasts bool // there was one after the last step
	left  int  // how many times the agent went away from one
	back  int  // and how many times, after it, all was as if nothing were lent
	open  bool // the agent went away from one, and that has not been so yet
	risen int  // how many times the service wanted CPUs of one
}

// note notes what was seen after a step.
func (l *loans) note(lent bool) {
	if l.lasts = lent; lent {
		l.steps++
	} else if l.open {
		l.back, l.open = l.back+1, false
	}
}

// away reports whether the agent cannot be there.
func (r *rig) away() bool { return r.stopped || r.frozen && r.agentKilled }

// read reads the node. Where the agent ought to be there and is not, that is an error.
func (r *rig) read(ctx context.Context) (*Reading, error) {
	out := r.machine
	out.Agent = Party{Away: r.away(), For: time.Since(r.agentSince)}
	out.Watchdog, out.Busy = Party{For: time.Since(r.watchdogSince)}, r.risen
	if !r.away() {
		if _, err := r.AskAgent(ctx, "/readyz"); err != nil {
			return nil, fmt.Errorf("the agent is not there: %w", err)
		}
	}
	var err error
	if out.Turn, err = r.Turn(ctx); err != nil {
		return nil, err
	}
	if out.Containers, err = r.containers(ctx); err != nil {
		return nil, err
	}
	if out.Pods, err = r.pods(ctx); err != nil {
		return nil, err
	}
	return &out, r.reported(ctx, &out)
}

// containers are the cgroups below kubepods that have processes.
func (r *rig) containers(ctx context.Context) (out []Container, err error) {
	var globs []string
	for _, dir := range []string{"/pod*/*", "/*/pod*/*"} {
		globs = append(globs, kubepods+dir+"/cgroup.procs", kubepods+dir+"/cpuset.cpus.effective")
	}
	files, err := r.Guest.ReadFiles(ctx, globs...)
	if err != nil {
		return nil, err
	}
	for name, procs := range files {
		dir := path.Dir(name)
		if path.Base(name) != "cgroup.procs" || strings.TrimSpace(procs) == "" {
			continue
		}
		cpus, err := topology.ParseCPUSet(strings.TrimSpace(files[dir+"/cpuset.cpus.effective"]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		id := path.Base(dir)
		out = append(out, Container{UID: strings.TrimPrefix(path.Base(path.Dir(dir)), "pod"), ID: id, CPUs: cpus, New: !r.known[id]})
	}
	return out, nil
}

// pods are those that are wanted and those that are there.
func (r *rig) pods(ctx context.Context) (out []Pod, err error) {
	list, err := r.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	events, err := r.Client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	reasons := make(map[string][]string)
	for i := range events.Items {
		e := &events.Items[i]
		reasons[e.Regarding.Name] = append(reasons[e.Regarding.Name], e.Reason)
	}
	there := make(map[string]bool)
	for i := range list.Items {
		p := podOf(&list.Items[i])
		there[p.Name] = true
		p.Wanted, p.Events, p.Known = r.wanted[p.Name] != nil, reasons[p.Name], -1
		if known, ok := r.requested[p.UID]; ok {
			p.Known = known
		}
		out = append(out, p)
	}
	for name, p := range r.wanted {
		if !there[name] {
			out = append(out, Pod{Name: name, Level: p.level, Wanted: true, Events: reasons[name]})
		}
	}
	return out, nil
}

// podOf is a pod as the API server has it.
func podOf(p *corev1.Pod) Pod {
	out := Pod{Name: p.Name, UID: string(p.UID), Exists: true, Level: Level(p.Labels[spec.LabelQoS])}
	requests := p.Spec.Containers[0].Resources.Requests
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		out.Running = s.Ready && p.DeletionTimestamp == nil
		if s.AllocatedResources != nil {
			requests = s.AllocatedResources // what the kubelet has given it
		}
	}
	out.MilliCPU = requests.Cpu().MilliValue()
	if cards, asks := p.Spec.Containers[0].Resources.Requests[join.PluginResource]; asks {
		out.Cards = cards.Value()
	}
	if out.Level == "" {
		out.Level = BestEffort
		if out.MilliCPU > 0 {
			out.Level = Shared
		}
	}
	if out.Level == Reclaimed {
		out.MilliCPU = 0
	}
	if grant, err := topology.ParseNUMAGrant(p.Annotations[spec.AnnotationNUMANodes]); err == nil && !grant.IsZero() {
		for numa := range topology.MaxNUMANodes {
			if grant.CPUs[numa] > 0 {
				out.Promised = append(out.Promised, numa)
			}
		}
	}
	if !out.Running {
		out.Says = says(p)
	}
	return out
}

// says is why a pod does not run; that it is being made is no reason.
func says(p *corev1.Pod) string {
	var out []string
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			out = append(out, c.Reason+": "+c.Message)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			out = append(out, w.Reason+": "+w.Message)
		}
	}
	if p.DeletionTimestamp != nil {
		out = append(out, "it is being deleted")
	}
	return strings.Join(out, "; ")
}

// reported reads what the report says that pods hold.
func (r *rig) reported(ctx context.Context, out *Reading) error {
	data, err := r.Client.Discovery().RESTClient().Get().AbsPath(reportsPath, r.Name).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return err
	}
	report := &v1alpha1.CustomNodeResource{}
	if err := json.Unmarshal(data, report); err != nil {
		return err
	}
	for _, socket := range report.Status.Topology {
		for _, numa := range socket.Children {
			for _, a := range numa.Allocations {
				cpus, err := topology.ParseCPUSet(a.CPUSet)
				if err != nil {
					return fmt.Errorf("the report: %s: %w", a.Name, err)
				}
				out.Allocations = append(out.Allocations, Allocation{UID: a.UID, CPUs: cpus, Moved: a.Moved})
			}
		}
	}
	out.CardsSay = "it has not registered"
	for _, resource := range report.Status.Resources {
		out.CardsSay = resource.Message
		for _, numa := range resource.NUMANodes {
			out.Cards += numa.Held
		}
	}
	return nil
}

// isWell remembers a reading with which nothing was wrong.
func (r *rig) isWell(reading *Reading) {
	r.loans.note(reading.lends())
	for i := range reading.Pods {
		if p := &reading.Pods[i]; p.Wanted && !p.Exists {
			delete(r.wanted, p.Name) // it was taken away, and that was said; events do not stay for ever
		}
	}
	if reading.Agent.Away {
		return
	}
	clear(r.known)
	clear(r.requested)
	for i := range reading.Containers {
		r.known[reading.Containers[i].ID] = true
	}
	for i := range reading.Pods {
		if p := &reading.Pods[i]; p.Exists {
			r.requested[p.UID] = p.MilliCPU
		}
	}
}

// lastWords are for people who look for the cause of a failure.
func (r *rig) lastWords() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if r.frozen {
		_ = r.disk.Thaw(ctx) // so that logs can be read
	}
	for _, name := range []string{agentService, deploytest.WatchdogService, join.Containerd, join.Kubelet} {
		text, err := r.Guest.Service(name).Log(ctx)
		if err != nil {
			text = err.Error()
		}
		r.t.Logf("%s said last:\n%s", name, text[max(0, len(text)-6000):])
	}
	sets, err := r.Guest.Shell(ctx, "cd "+kubepods+" && grep -H . $(find . -name cpuset.cpus -o -name cpuset.cpus.effective) | sort; ls /run/hilbert-watchdog; cat /run/hilbert-watchdog/plan.json")
	r.t.Logf("cpusets:\n%s%v", sets, err)
}

var errTimes = errors.New("not within its time")
