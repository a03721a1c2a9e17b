package kube

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/conformance"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/kube/standin"
)

var rewriteEvents = flag.Bool("rewrite-events", false, "write what this door tells to the file that both doors are held to")

// recordedDoor plays the watch events that an API server sends into the sinks of the two watches of pods.
type recordedDoor struct {
	pods   map[string]*corev1.Pod
	events chan facts.Event
	sinks  map[bool]cache.ReflectorStore
	queued map[bool][]func(cache.ReflectorStore) error // by watch: of the finished
}

func newRecordedDoor(t testing.TB) *recordedDoor {
	d := &recordedDoor{pods: map[string]*corev1.Pod{}, events: make(chan facts.Event, 1), queued: map[bool][]func(cache.ReflectorStore) error{}}
	out, watches := outlet{t.Context(), d.events}, newPodWatches()
	d.sinks = map[bool]cache.ReflectorStore{
		false: &podSink{out: out, parser: parse.NewParser("hilbert", nil), watches: watches},
		true:  &finishedSink{out: out, parser: parse.NewParser("hilbert", nil), watches: watches},
	}
	return d
}

func (d *recordedDoor) Create(pod string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod, UID: types.UID(pod)}}
	p.Spec.SchedulerName, p.Status.Phase = "hilbert", corev1.PodPending
	if pod[0] == 'm' {
		p.Labels = map[string]string{spec.LabelPodGroup: conformance.Unit}
	}
	d.pods[pod] = p
	d.queue(false, func(s cache.ReflectorStore) error { return s.Add(p) })
}

func (d *recordedDoor) queue(finished bool, do func(cache.ReflectorStore) error) {
	d.queued[finished] = append(d.queued[finished], do)
}

// change makes a new object of a pod, as each watch event carries its own.
func (d *recordedDoor) change(pod string, change func(*corev1.Pod)) *corev1.Pod {
	p := d.pods[pod].DeepCopy()
	change(p)
	d.pods[pod] = p
	return p
}

func (d *recordedDoor) Bind(pod string) {
	p := d.change(pod, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = conformance.Node, corev1.PodRunning })
	d.queue(false, func(s cache.ReflectorStore) error { return s.Update(p) })
}

// Finish: the pod leaves one field selector, whose watch says that it is deleted and shows its last state there, and enters the other.
func (d *recordedDoor) Finish(pod string) {
	before := d.pods[pod]
	p := d.change(pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	d.queue(false, func(s cache.ReflectorStore) error { return s.Delete(before) })
	if pod[0] == 'm' {
		d.queue(true, func(s cache.ReflectorStore) error { return s.Add(p) })
	} else if err := d.sinks[true].Add(p); err != nil { // nothing is told of it
		panic(err)
	}
}

func (d *recordedDoor) Remove(pod string) {
	p := d.pods[pod]
	delete(d.pods, pod)
	if ended := p.Status.Phase == corev1.PodSucceeded; !ended || pod[0] == 'm' {
		d.queue(ended, func(s cache.ReflectorStore) error { return s.Delete(p) })
	}
}

func (d *recordedDoor) Deliver(finished bool) facts.Event {
	next := d.queued[finished][0]
	d.queued[finished] = d.queued[finished][1:]
	return d.told(next(d.sinks[finished]))
}

func (d *recordedDoor) List(finished bool) facts.Event {
	d.queued[finished] = nil
	var objects []any
	for _, p := range d.pods {
		if (p.Status.Phase == corev1.PodSucceeded) == finished {
			objects = append(objects, p)
		}
	}
	return d.told(d.sinks[finished].Replace(objects, ""))
}

func (d *recordedDoor) told(err error) facts.Event {
	if err != nil {
		panic(err)
	}
	select {
	case e := <-d.events:
		return e
	default:
		return nil
	}
}

// TestDoorsAgree: the simulator's door is held to the same file.
func TestDoorsAgree(t *testing.T) {
	got := conformance.Transcript(t, func() conformance.Door { return newRecordedDoor(t) })
	if *rewriteEvents {
		if err := os.WriteFile("../internal/conformance/testdata/events", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != conformance.Want() {
		t.Error("the door tells something else than recorded: go test ./kube -run TestDoorsAgree -rewrite-events, and look at the difference")
	}
}

// BenchmarkFinishedPods measures what finished pods cost, door and ledger together: 200,000 of single pods, and as many members of gangs.
//
//	go test ./kube -run '^$' -bench FinishedPods -benchtime 1x
func BenchmarkFinishedPods(b *testing.B) {
	const pods = 200_000
	for _, unit := range []string{"", "gang"} {
		b.Run("unit="+unit, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				events := make(chan facts.Event, 1)
				store := cluster.NewStore()
				sink := &finishedSink{out: outlet{b.Context(), events}, parser: parse.NewParser("hilbert", nil), watches: newPodWatches()}
				transform := sink.Transformer()
				raw, err := typicalFinished(b, 1, unit).Marshal()
				if err != nil {
					b.Fatal(err)
				}
				before, began := heap(), time.Now()
				list := make([]any, 0, pods)
				for i := range pods {
					pod := &corev1.Pod{}
					if err := pod.Unmarshal(raw); err != nil {
						b.Fatal(err)
					}
					pod.Name = fmt.Sprintf("%s-%06d", pod.Name, i)
					pod.UID = types.UID(pod.Name)
					read, err := transform(pod)
					if err != nil {
						b.Fatal(err)
					}
					list = append(list, read)
				}
				if err := sink.Replace(list, ""); err != nil {
					b.Fatal(err)
				}
				store.Apply(<-events)
				b.ReportMetric(float64(time.Since(began).Nanoseconds())/pods, "ns/pod")
				b.ReportMetric((heap()-before)/pods, "bytes/pod")
				runtime.KeepAlive(sink)
				runtime.KeepAlive(store)
			}
		})
	}
}

func typicalFinished(b *testing.B, i int, unit string) *corev1.Pod {
	pod := standin.TypicalPod(b, i)
	pod.Spec.SchedulerName, pod.Status.Phase = "hilbert", corev1.PodSucceeded
	if unit != "" {
		pod.Labels[spec.LabelPodGroup] = unit
	}
	return pod
}
