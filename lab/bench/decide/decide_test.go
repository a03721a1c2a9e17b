package decide

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	scenarios "hilbert.dev/hilbert/bench"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/lab/bench"
)

// TestDecide: in every case, both sides place all pods under a load that stays level, and the result says so.
func TestDecide(t *testing.T) {
	small := slices.DeleteFunc(Cases(), func(name string) bool { return name == "gang512" }) // which 50 nodes have no room for
	result, err := Run(t.Context(), Options{Nodes: []int{50}, Cases: small, Rounds: 2, Duration: time.Millisecond, Least: 60})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := bench.WriteJSON(&text, result); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Cases []struct {
			Nodes                                     int
			Case                                      string
			HilbertPerSec, KubeSchedulerPerSec, Ratio float64
		}
	}
	if err := json.Unmarshal([]byte(text.String()), &back); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, c := range result.Cases {
		names = append(names, c.Case)
		if b := back.Cases[i]; b.Nodes != 50 || b.Case != c.Case || b.HilbertPerSec <= 0 || b.KubeSchedulerPerSec <= 0 || b.Ratio <= 0 {
			t.Errorf("%s: JSON has %+v", c.Case, b)
		}
		if c.States < 25 && c.Case != "preempt" && c.Case != "batch" {
			t.Errorf("%s: %d distinct states of 50 nodes", c.Case, c.States)
		}
		for name, s := range map[string]*Side{"hilbert": &c.Hilbert, "kube-scheduler": &c.KubeScheduler} {
			level := c.Pods
			if c.Case == "preempt" { // the last preemptor has its victim's place, and each in the end
				level = 50 * scenarios.PreemptVictims
			}
			if s.Pods != level || s.unplaced() > 0 || len(s.Rounds) != 2 {
				t.Errorf("%s of %s: %d pods, want %d; %d unplaced in %d rounds", name, c.Case, s.Pods, level, s.unplaced(), len(s.Rounds))
			}
			for _, r := range s.Rounds {
				victims := 0
				if c.Case == "preempt" {
					victims = r.Decisions
				}
				if r.Decisions < 60/c.Members || r.Victims != victims || r.CPUMicrosPerDecision <= 0 {
					t.Errorf("%s of %s: %+v, want %d victims", name, c.Case, r, victims)
				}
			}
		}
	}
	if !slices.Equal(names, small) {
		t.Errorf("rows: %v", names)
	}
	text.Reset()
	if err := result.WriteTable(&text); err != nil || !strings.Contains(text.String(), "antiaffinity") || !strings.Contains(text.String(), "whole default profile") {
		t.Errorf("table: %v\n%s", err, text.String())
	}
	t.Log(text.String())
}

// TestDecidePlaces: kube-scheduler's loop honours what the pods ask for, so that it is at work on the same problem.
func TestDecidePlaces(t *testing.T) {
	scenario := &scenarios.Scenario{Nodes: 60, Classes: 16, Case: scenarios.AntiAffinity, Fill: 10, Seed: 1}
	hilbert, err := newHilbertSide(scenario, 0)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := newKubeSide(scenario, 0, hilbert.ring)
	if err != nil {
		t.Fatal(err)
	}
	defer kube.stop()
	pods := kube.pods()
	if _, err := kube.decide(t.Context(), 5*pods, 0); err != nil {
		t.Fatal(err)
	}
	if len(kube.ring) != pods || pods < 30 {
		t.Fatalf("%d pods at first, %d in the end", pods, len(kube.ring))
	}
	nodes := make(map[string]scenarios.Node)
	for _, n := range scenario.GenerateNodes() {
		nodes[n.Name] = n
	}
	taken := make(map[string]*corev1.Pod)
	for _, pod := range kube.ring {
		node := nodes[pod.Spec.NodeName]
		if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) || node.Tainted && len(pod.Spec.Tolerations) == 0 {
			t.Errorf("%s is on %+v", pod.Name, node)
		}
		at := pod.Spec.NodeName + "/" + pod.Labels[scenarios.LabelApp]
		if other := taken[at]; other != nil {
			t.Errorf("%s and %s are both on %s", pod.Name, other.Name, at)
		}
		taken[at] = pod
	}
}

// TestDecideGangs: both sides place gangs whole and let them go whole, and kube-scheduler's gang plugin is at work.
func TestDecideGangs(t *testing.T) {
	const members = 8
	scenario := &scenarios.Scenario{Nodes: 60, Classes: 4, Case: scenarios.Basic, Fill: 50, Seed: 1}
	hilbert, err := newHilbertSide(scenario, members)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := newKubeSide(scenario, members, hilbert.ring)
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(kube.stop)
	defer stop()
	if len(kube.scheduler.Profiles[corev1.DefaultSchedulerName].ListPlugins().Permit.Enabled) == 0 {
		t.Error("kube-scheduler has no plugin that lets a gang's members wait for one another")
	}
	for name, side := range map[string]decider{"hilbert": hilbert, "kube-scheduler": kube} {
		pods := side.pods()
		round, err := side.decide(t.Context(), 3*pods/members, 0)
		if err != nil {
			t.Fatal(err)
		}
		if after := side.pods(); after != pods || pods < 10*members || round.unplaced > 0 {
			t.Errorf("%s: %d pods at first, %d in the end, %+v", name, pods, after, round)
		}
	}
	hilbert.scheduler.Store().Units().Each(func(u *cluster.Unit) {
		if u.Placed() != members || u.MinMember() != members {
			t.Errorf("%s has %d members placed, %d needed", u.UnitName, u.Placed(), u.MinMember())
		}
	})
	for _, g := range kube.gangs.ring {
		state, err := kube.scheduler.Cache.PodGroupStates().Get(scenarios.Namespace, g.group.Name)
		if err != nil || state.ScheduledPodsCount() != members {
			t.Errorf("%s: %v, %+v", g.group.Name, err, state)
		}
	}
	stop()
	if utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		t.Error("the feature gate stays on for rows without gangs")
	}
}

// TestDecideGangTooBig: a gang that the cluster has no room for is an error, not an empty row.
func TestDecideGangTooBig(t *testing.T) {
	if _, err := newHilbertSide(&scenarios.Scenario{Nodes: 20, Classes: 4, Case: scenarios.Basic, Fill: 60, Seed: 1}, 512); err == nil ||
		!strings.Contains(err.Error(), "--nodes") {
		t.Errorf("got %v", err)
	}
}

// TestDecideGivesUp: a gang that finds no room on kube-scheduler's side is counted and leaves.
func TestDecideGivesUp(t *testing.T) {
	const members = 8
	scenario := &scenarios.Scenario{Nodes: 30, Classes: 4, Case: scenarios.Basic, Fill: 40, Seed: 1}
	hilbert, err := newHilbertSide(scenario, members)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := newKubeSide(scenario, members, hilbert.ring)
	if err != nil {
		t.Fatal(err)
	}
	defer kube.stop()
	pods := kube.pods()
	kube.templates[kube.gangs.ring[0].class].Spec.NodeSelector = map[string]string{"no": "node"}
	round, err := kube.decide(t.Context(), 6, 0)
	if err != nil || round.unplaced == 0 {
		t.Fatalf("%v, %+v", err, round)
	}
	if kube.pods() != pods-round.unplaced*members || len(kube.gangs.ring) != kube.pods()/members {
		t.Errorf("%d pods of %d, %d gangs, %+v", kube.pods(), pods, len(kube.gangs.ring), round)
	}
}

// TestDecideBatches: in the batch case, kube-scheduler's batching is at work.
func TestDecideBatches(t *testing.T) {
	for c, want := range map[scenarios.Case]bool{scenarios.Batch: true, scenarios.Basic: false} {
		profile, err := kubeProfile(c)
		if err != nil {
			t.Fatal(err)
		}
		k, err := newKubeSide(&scenarios.Scenario{Nodes: 20, Classes: 1, Case: c, Fill: 10}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		signature := k.scheduler.Profiles[profile.SchedulerName].SignPod(t.Context(), k.pod(0, 0))
		if signed := signature != nil; signed != want {
			t.Errorf("case %s: pods have a signature to be batched by: %v", c, signed)
		}
		k.stop()
	}
}

func TestDecideOptions(t *testing.T) {
	good := Options{Nodes: []int{50}, Rounds: 1, Least: 1}
	for name, test := range map[string]struct {
		spoil func(*Options)
		want  string
	}{
		"no nodes":     {func(o *Options) { o.Nodes = nil }, "--nodes"},
		"few nodes":    {func(o *Options) { o.Nodes = []int{100, 3} }, "--nodes"},
		"no rounds":    {func(o *Options) { o.Rounds = 0 }, "--rounds"},
		"no decisions": {func(o *Options) { o.Least = 0 }, "--decisions"},
		"unknown case": {func(o *Options) { o.Cases = []string{"gangs"} }, "antiaffinity"},
	} {
		o := good
		test.spoil(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error about %s", name, err, test.want)
		}
	}
}
