package systemd

import (
	"fmt"
	"path"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/topology"
)

// TestSystemd: pods of three levels have what they should in slices and scopes; when systemd writes the attributes of its units anew, or is
// told to change them, and when the kubelet starts again, every knob is as wanted within one tick, and stays so.
func TestSystemd(t *testing.T) {
	r := newRig(t)
	own := amounts("2", "256Mi")
	dedicated := r.run(r.pod("own", spec.QoSDedicated, corev1.ResourceRequirements{Requests: own, Limits: own},
		map[string]string{spec.AnnotationNUMA: spec.NUMABound}), "0:2/256Mi")
	shared := r.run(r.pod("shared", spec.QoSShared, corev1.ResourceRequirements{Requests: amounts("500m", "64Mi")}, nil), "")
	reclaimed := r.run(r.pod("reclaimed", spec.QoSReclaimed, corev1.ResourceRequirements{}, nil), "")
	time.Sleep(tick + slack) // the pools have settled

	want := make(knobs)
	first, second, third := r.look(dedicated, want), r.look(shared, want), r.look(reclaimed, want)
	node0, err := r.Guest.Field(t.Context(), "/sys/devices/system/node/node0/cpulist")
	if err != nil {
		t.Fatal(err)
	}
	numa, err := topology.ParseCPUSet(node0)
	if err != nil {
		t.Fatal(err)
	}
	if first.cpus.Len() != 2 || first.cpus.Intersection(numa) != first.cpus || first.mems.String() != "0" || first.idle != "0" {
		t.Errorf("the dedicated pod has CPUs %v, memory of %v, idle %s; promised were two CPUs and memory of node 0", first.cpus, first.mems, first.idle)
	}
	if !second.cpus.Intersection(first.cpus).IsEmpty() || second.cpus.IsEmpty() || second.idle != "0" {
		t.Errorf("the shared pod has CPUs %v, idle %s, beside the dedicated pod's %v", second.cpus, second.idle, first.cpus)
	}
	if !third.cpus.Intersection(first.cpus.Union(second.cpus)).IsEmpty() || third.cpus.IsEmpty() || third.idle != "1" {
		t.Errorf("the reclaimed pod has CPUs %v, idle %s, beside %v and %v", third.cpus, third.idle, first.cpus, second.cpus)
	}
	if t.Failed() {
		t.FailNow()
	}
	for name, g := range map[string]group{"dedicated": first, "shared": second, "reclaimed": third} {
		t.Logf("%s: %s, CPUs %v, memory of %v, idle %s", name, g.dir, g.cpus, g.mems, g.idle)
	}
	r.provoke(want, []provocation{
		{"reload", "systemctl daemon-reload", reload, 1},
		{"property of the dedicated pod's slice", setProperty(first.dir, "AllowedCPUs=0-7 AllowedMemoryNodes=0-1"), reload, 2},
		{"property of its container's scope", setProperty(first.scope, "AllowedCPUs=0-7"), reload, 1},
		{"property of the reclaimed pod's slice", setProperty(third.dir, "CPUWeight=50 AllowedCPUs=0-7"), reload, 2},
		{"reload with those properties", "systemctl daemon-reload", reload, 5},
		{"reexec", "systemctl daemon-reexec", reload, 5},
		{"restart of the kubelet", "systemctl restart " + join.Kubelet, 40 * time.Second, 0},
		{"restart of containerd", "systemctl restart " + join.Containerd, 20 * time.Second, 0},
	})
	r.restartAgent(want)
	r.nobodyThere(first.cpus)
	r.goes(dedicated, shared, second.cpus.Union(first.cpus))
}

// reload is how long knobs are watched after systemd wrote them anew: some ticks.
const reload = 4 * tick

// provocation is something that others do to the pods' cgroups.
type provocation struct {
	name, command string
	after         time.Duration // that the knobs are watched
	reverts       float64       // knobs that it makes wrong, at least
}

func setProperty(cgroup, properties string) string {
	return fmt.Sprintf("systemctl set-property --runtime %s %s", path.Base(cgroup), properties)
}

// provoke does one thing after the other, each with the knobs watched.
func (r *rig) provoke(want knobs, all []provocation) {
	for _, p := range all {
		r.t.Run(p.name, func(t *testing.T) {
			r := &rig{r.Node, t}
			before := r.reverted()
			w := r.watch(p.command, p.after, want)
			t.Log(w)
			w.check(t, tick+slack)
			if n := r.reverted() - before; n < p.reverts {
				t.Errorf("the agent put back %v knobs, want at least %v: was nothing provoked?", n, p.reverts)
			}
		})
	}
}

func (w watched) check(t *testing.T, most time.Duration) {
	t.Helper()
	if w.status != 0 {
		t.Errorf("status %d: %s", w.status, w.said)
	}
	if w.wrong || w.longest > most {
		t.Errorf("knobs were wrong for %s at a stretch, in the end: %v; want no more than %s", w.longest, w.wrong, most)
	}
}

// restartAgent: what was made wrong while the agent was away is right when it is back.
func (r *rig) restartAgent(want knobs) {
	r.t.Run("reload without the agent", func(t *testing.T) {
		r := &rig{r.Node, t}
		away := fmt.Sprintf("systemctl stop %[1]s; systemctl daemon-reload; systemctl start %[1]s", agentName)
		w := r.watch(away, start, want)
		t.Log(w)
		w.check(t, w.took+start)
		if len(w.seen) == 0 {
			t.Error("no knob was wrong while the agent was away: was nothing provoked?")
		}
	})
}

// nobodyThere: while neither agent nor watchdog is there, systemd writes its units' attributes anew and the kubelet starts again. New Burstable and BestEffort pods run
// off the CPUs of the dedicated pod all the same: the kubelet's slices of these classes keep the CPUs that the agent gave them.
func (r *rig) nobodyThere(own topology.CPUSet) {
	r.t.Run("reload and restart of the kubelet while nobody is there", func(t *testing.T) {
		r := &rig{r.Node, t}
		ctx := t.Context()
		want := make(knobs)
		for _, class := range []string{"burstable", "besteffort"} {
			file := "/sys/fs/cgroup/kubepods.slice/kubepods-" + class + ".slice/cpuset.cpus"
			text, err := r.Guest.Field(ctx, file)
			if err != nil {
				t.Fatal(err)
			}
			if cpus, err := topology.ParseCPUSet(text); err != nil || cpus.IsEmpty() || !cpus.Intersection(own).IsEmpty() {
				t.Fatalf("%s is %q, %v; want CPUs, and none of the dedicated pod's %v", file, text, err, own)
			}
			want[file] = text
		}
		agent := r.Guest.Service(agentName)
		if err := agent.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"systemctl daemon-reload", "systemctl daemon-reexec", "systemctl restart " + join.Kubelet} {
			w := r.watch(command, reload, want)
			t.Logf("%s: %v", command, w)
			w.check(t, 0)
		}
		late := []*corev1.Pod{
			r.run(r.pod("late-burstable", spec.QoSShared, corev1.ResourceRequirements{Requests: amounts("500m", "64Mi")}, nil), ""),
			r.run(r.pod("late-besteffort", spec.QoSShared, corev1.ResourceRequirements{}, nil), ""),
		}
		for _, p := range late {
			scope, err := r.ContainerCgroup(ctx, p, container)
			if err != nil {
				t.Fatal(err)
			}
			text, err := r.Guest.Field(ctx, scope+"/cpuset.cpus.effective")
			if err != nil {
				t.Fatal(err)
			}
			if cpus, err := topology.ParseCPUSet(text); err != nil || cpus.IsEmpty() || !cpus.Intersection(own).IsEmpty() {
				t.Errorf("pod %s, which nobody placed, runs on %q, %v; want none of the dedicated pod's %v", p.Name, text, err, own)
			}
			if err := r.DeletePod(ctx, p); err != nil {
				t.Error(err)
			}
		}
		if err := agent.Start(ctx); err != nil {
			t.Fatal(err)
		}
		r.awaitAgent()
	})
}

// goes: when the dedicated pod goes, those who share get its CPUs, and a reload does not take them back.
func (r *rig) goes(dedicated, shared *corev1.Pod, all topology.CPUSet) {
	r.t.Run("the dedicated pod goes", func(t *testing.T) {
		r := &rig{r.Node, t}
		if err := r.DeletePod(t.Context(), dedicated); err != nil {
			t.Fatal(err)
		}
		time.Sleep(tick + slack)
		want := make(knobs)
		if got := r.look(shared, want); got.cpus != all {
			t.Fatalf("the shared pod has CPUs %v, want %v", got.cpus, all)
		}
		w := r.watch("systemctl daemon-reload", reload, want)
		t.Log(w)
		w.check(t, tick+slack)
	})
}
