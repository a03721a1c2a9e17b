package node

import (
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/runtime"
)

// scored is a pod as Hilbert binds it, and its container with what the kubelet would give it.
func scored(uid string, level spec.QoSLevel, priority string, words ...string) runtime.Sandbox {
	s := sandbox(uid, 1, append([]string{"qos=" + string(level)}, words...)...)
	if priority != "" {
		s.Annotations[spec.AnnotationPriority] = priority
	}
	return s
}

func kubelets(score int) func(*runtime.Container) {
	return func(c *runtime.Container) { c.OOMScoreAdj = new(score) }
}

// Containers die in the order of their pods' levels and priorities, whatever the kubelet gave them; those that another scheduler bound no sooner than the kubelet wants.
func TestOOMScores(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	order := []struct {
		s       runtime.Sandbox
		kubelet int
	}{
		{scored("low", spec.QoSReclaimed, "-5", "besteffort"), 1000},
		{scored("high", spec.QoSReclaimed, "100000", "besteffort"), 1000},
		{scored("best", spec.QoSShared, "0", "besteffort"), 1000},
		{scored("web", spec.QoSShared, "1000", ""), 950},
		{scored("paid", spec.QoSShared, "1000000", ""), 500},
		{scored("own", spec.QoSDedicated, "0", ""), 900},
		{scored("agent", spec.QoSSystem, "0", ""), 990},
	}
	var got []int
	for _, x := range order {
		a := w.mustRun(x.s, kubelets(x.kubelet))
		if a.OOMScoreAdj == nil || a.Mark.Score == nil || *a.Mark.Score != x.kubelet {
			t.Fatalf("%s: %+v", x.s.Name, a)
		}
		got = append(got, *a.OOMScoreAdj)
	}
	descends := slices.Clone(got)
	slices.Sort(descends)
	slices.Reverse(descends)
	if !slices.Equal(got, descends) || len(slices.Compact(descends)) != len(got) {
		t.Errorf("in the order of levels and priorities they have %v", got)
	}
	if a := w.mustRun(scored("static", spec.QoSShared, ""), kubelets(-997)); a.OOMScoreAdj == nil || *a.OOMScoreAdj != -997 {
		t.Errorf("a Guaranteed pod that another scheduler bound: %v", a.OOMScoreAdj)
	}
	if a := w.mustRun(scored("silent", spec.QoSShared, "0")); a.OOMScoreAdj != nil || a.Mark.Score != nil {
		t.Errorf("the runtime did not say what the kubelet gave, and it is %v", a.OOMScoreAdj)
	}
}

// A reclaimed container that was created while no agent was there is raised to its place; an online one stays as it is.
func TestOOMScoresOfThoseThatRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lent, web := scored("lent", spec.QoSReclaimed, "0", "besteffort"), scored("web", spec.QoSShared, "0")
	w.unadjusted(lent, w.hardware.AllCPUs())
	w.unadjusted(web, w.hardware.AllCPUs())
	w.kernel.set(web.Cgroup+"/"+containerID(&web)+"/"+enforce.OOMScoreAdj, "900")
	w.start()
	w.has(lent, enforce.OOMScoreAdj, "968")
	w.ticks(2)
	w.has(web, enforce.OOMScoreAdj, "900")
}

// With the order Reclaimed all but reclaimed pods have what the kubelet gives them.
func TestOOMOrderReclaimed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.agent.Ask(time.Minute, func(a *Agent) { a.options.Config.Memory.OOM.Order = spec.OOMReclaimed })
	if a := w.mustRun(scored("web", spec.QoSShared, "0"), kubelets(900)); a.OOMScoreAdj != nil || a.Mark.Score != nil {
		t.Errorf("a shared container has %v", a.OOMScoreAdj)
	}
	if a := w.mustRun(scored("lent", spec.QoSReclaimed, "0", "besteffort"), kubelets(1000)); a.OOMScoreAdj == nil || *a.OOMScoreAdj != 968 {
		t.Errorf("a reclaimed container has %v", a.OOMScoreAdj)
	}
}

// What an online container requested is known after a restart of the agent, though the runtime then tells the agent's own score.
func TestRequestsAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	web := scored("web", spec.QoSShared, "0")
	a := w.mustRun(web, kubelets(900))
	running := w.running[web.UID]
	running.containers[0].OOMScoreAdj = a.OOMScoreAdj
	w.stop()
	w.start()
	var requests []int64
	w.agent.Ask(time.Minute, func(a *Agent) {
		for _, c := range a.node.Pods.AllContainers() {
			requests = append(requests, memoryRequest(c, advise.Known(1000)))
		}
	})
	if !slices.Equal(requests, []int64{100}) {
		t.Errorf("it requested %v thousandths of the memory, not 100", requests)
	}
}
