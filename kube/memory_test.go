package kube

import (
	"runtime"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/kube/standin"
)

// heap is the live heap, in bytes.
func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// drain applies what waits in the channel to the ledger.
func drain(store *cluster.Store, events chan facts.Event) {
	for {
		select {
		case event := <-events:
			store.Apply(event)
		default:
			return
		}
	}
}

// BenchmarkMemory measures what a known node and a known pod cost, door and ledger together:
//
//	go test ./kube -run '^$' -bench Memory -benchtime 1x
func BenchmarkMemory(b *testing.B) {
	const nodes, pods = 10_000, 200_000
	for b.Loop() {
		events := make(chan facts.Event, 1)
		out := outlet{b.Context(), events}
		store := cluster.NewStore()
		nodeSink := mirrorNodes(out, parse.NewParser("hilbert", nil))
		podSink := &podSink{out: out, parser: parse.NewParser("hilbert", nil), watches: newPodWatches()}
		before := heap()
		for i := range nodes {
			if err := nodeSink.Add(standin.TypicalNode(i)); err != nil {
				b.Fatal(err)
			}
			drain(store, events)
		}
		withNodes := heap()
		for i := range pods {
			if err := podSink.Add(standin.TypicalPod(b, i)); err != nil {
				b.Fatal(err)
			}
			drain(store, events)
		}
		withPods := heap()
		b.ReportMetric((withNodes-before)/nodes, "bytes/node")
		b.ReportMetric((withPods-withNodes)/pods, "bytes/pod")
		runtime.KeepAlive(nodeSink)
		runtime.KeepAlive(podSink)
		runtime.KeepAlive(store)
	}
}

// An update that changes nothing costs next to nothing.
func BenchmarkUnchangedPod(b *testing.B) {
	events := make(chan facts.Event, 1)
	sink := &podSink{out: outlet{b.Context(), events}, parser: parse.NewParser("hilbert", nil), watches: newPodWatches()}
	pod := standin.TypicalPod(b, 1)
	_ = sink.Add(pod)
	b.ReportAllocs()
	for b.Loop() {
		_ = sink.Update(pod)
	}
}
