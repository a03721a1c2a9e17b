package kube

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
)

func TestRevGangDone(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	events := make(chan facts.Event, 100)
	sink := &podSink{out: outlet{context.Background(), events}, parser: parse.NewParser("hilbert", nil), seen: parse.NewFingerprints()}
	store := cluster.NewStore()
	apply := func() {
		for {
			select {
			case e := <-events:
				store.Apply(e)
			default:
				return
			}
		}
	}
	store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n1", Labels: map[string]string{}}})
	name := facts.UnitName{Namespace: "ns", Name: "train"}
	// the PodGroup says that it was scheduled: "this never goes back"
	store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: name, UID: "g", MinMember: 2, Scheduled: true}})
	pod := func(i int, generation int, node string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("train-%d", i), UID: types.UID(fmt.Sprintf("u%d-%d", i, generation)),
			Labels: map[string]string{spec.LabelPodGroup: "train"}}}
		p.Spec.SchedulerName, p.Spec.NodeName = "hilbert", node
		return p
	}
	say := func(what string) {
		apply()
		u := store.Units().Get(name)
		t.Logf("%-60s placed=%d running=%v need=%d waiting=%d", what, u.Placed(), u.Running(), u.Need(), len(u.Pods())-u.Placed())
	}
	_ = sink.Add(pod(0, 1, "n1"))
	_ = sink.Add(pod(1, 1, "n1"))
	say("both members run")
	// status.phase=Succeeded: the pod leaves the field selector, the watch says DELETED
	_ = sink.Delete(pod(0, 1, "n1"))
	say("index 0 succeeded")
	_ = sink.Delete(pod(1, 1, "n1"))
	say("index 1 failed")
	_ = sink.Add(pod(1, 2, ""))
	say("the Job controller makes index 1 anew")

	// the same through the path that the ledger's own tests and the simulator take
	store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: "sim"}, UID: "g2", MinMember: 2}})
	r := &facts.Requirements{}
	for i := range 2 {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprint("s", i)), Namespace: "ns", Name: fmt.Sprint("s", i), Ours: true, Node: "n1", Unit: "sim", Requirements: r}})
	}
	for i := range 2 {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprint("s", i)), Namespace: "ns", Name: fmt.Sprint("s", i), Ours: true, Node: "n1", Unit: "sim", Finished: true, Requirements: r}})
	}
	store.Apply(facts.PodRemoved{UID: "s1"})
	store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "s1b", Namespace: "ns", Name: "s1", Ours: true, Unit: "sim", Requirements: r}})
	u := store.Units().Get(facts.UnitName{Namespace: "ns", Name: "sim"})
	t.Logf("simulator's door, same history: running=%v need=%d", u.Running(), u.Need())
}
