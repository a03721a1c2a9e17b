package schedule

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/schedule/outside"
)

// BenchmarkOutside places pods of 16 classes on 20,000 nodes by schedulers elsewhere, over the codec and without a network. It reports CPU time of the leader's side and of the schedulers', what goes over the wire and what a scheduler holds.
func BenchmarkOutside(b *testing.B) {
	for _, schedulers := range []int{1, 3} {
		b.Run(fmt.Sprint("schedulers=", schedulers), func(b *testing.B) { benchOutside(b, 20_000, schedulers) })
	}
}

func benchOutside(b *testing.B, nodes, schedulers int) {
	b.Helper()
	runtime.LockOSThread() // so that CPU time can be told, which other work on the machine does not change
	defer runtime.UnlockOSThread()
	now := time.Unix(0, 0)
	s, err := New(Options{Config: spec.Default().Scheduling})
	if err != nil {
		b.Fatal(err)
	}
	codec, err := replica.NewCodec()
	if err != nil {
		b.Fatal(err)
	}
	for i := range nodes {
		s.Apply(facts.NodeUpserted{Node: benchNode(i)}, now)
	}
	followers := make(map[OutsideID]*Follower)
	for range schedulers {
		id, welcome, err := s.Outside().Join(hello(), now)
		if err != nil {
			b.Fatal(err)
		}
		if followers[id], err = NewFollower(welcome); err != nil {
			b.Fatal(err)
		}
	}
	w := &outsideBench{b: b, s: s, codec: codec, followers: followers, now: now}
	before := heapBytes()
	for w.round() > 0 {
		continue
	}
	b.ReportMetric(float64(w.sent)/float64(nodes*schedulers), "copy-B/node")
	w.place(2000) // indexes are built
	held := heapBytes() - before
	w.sent, w.received, w.theirs = 0, 0, 0
	began := threadTime()
	b.ResetTimer()
	for range b.N {
		w.place(2000)
	}
	pods := float64(2000 * b.N)
	b.ReportMetric(float64(w.sent)/pods, "sent-B/pod")
	b.ReportMetric(float64(w.received)/pods, "back-B/pod")
	b.ReportMetric(float64(w.theirs.Nanoseconds())/pods, "their-ns/pod")
	b.ReportMetric(float64(held)/float64(schedulers)/(1<<20), "MiB/scheduler")
	b.ReportMetric(float64((threadTime()-began-w.theirs).Nanoseconds())/pods, "our-ns/pod")
	runtime.KeepAlive(followers)
}

// outsideBench is a leader and its schedulers, without a network between them.
type outsideBench struct {
	b              *testing.B
	s              *Scheduler
	codec          *replica.Codec
	followers      map[OutsideID]*Follower
	now            time.Time
	next           int
	sent, received int64
	theirs         time.Duration
}

// round carries what is to be sent, and the answers.
func (w *outsideBench) round() (works int) {
	for _, send := range w.s.Outside().Works(w.now) {
		works++
		text, err := w.codec.Encode(send.Work)
		w.must(err)
		w.sent += int64(len(text))
		began := threadTime()
		var work outside.Work
		w.must(w.codec.Decode(text, &work))
		answer, err := w.followers[send.To].Do(&work)
		w.must(err)
		back, err := w.codec.Encode(answer)
		w.must(err)
		w.theirs += threadTime() - began
		w.received += int64(len(back))
		var read outside.Answer
		w.must(w.codec.Decode(back, &read))
		w.must(w.s.Outside().Answer(send.To, &read, w.now))
	}
	return works
}

func (w *outsideBench) must(err error) {
	if err != nil {
		w.b.Fatal(err)
	}
}

// place has pods come and be placed.
func (w *outsideBench) place(pods int) {
	for range pods {
		w.s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprint(w.next)), Name: fmt.Sprint(w.next), Namespace: "default", Ours: true, Requirements: benchRequirements(w.next % 16)}}, w.now)
		w.next++
	}
	for {
		if more := turn(w.s, w.now); w.round() == 0 && !more {
			return
		}
	}
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
