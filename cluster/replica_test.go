package cluster_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// copied is a ledger's copy that is fed through the wire.
type copied struct {
	codec   *replica.Codec
	feed    cluster.Feed
	replica *cluster.Replica
	started int
}

func newCopied(t interface{ Fatal(...any) }) *copied {
	codec, err := replica.NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	return &copied{codec: codec}
}

// next sends one Delta, with some pods, and returns the pods as the copy knows them.
func (c *copied) next(store *cluster.Store, pods ...*cluster.Pod) (known []*cluster.Pod, err error) {
	d := c.feed.Next(store)
	type message struct {
		Delta *replica.Delta
		Pods  []replica.Pod
	}
	m := message{Delta: d}
	for _, pod := range pods {
		m.Pods = append(m.Pods, c.feed.Pod(d, pod))
	}
	text, err := c.codec.Encode(m)
	if err != nil {
		return nil, err
	}
	var read message
	if err := c.codec.Decode(text, &read); err != nil {
		return nil, err
	}
	if read.Delta.Start {
		c.replica = cluster.NewReplica()
		c.started++
	}
	if err := c.replica.Take(read.Delta); err != nil {
		return nil, err
	}
	for i := range read.Pods {
		pod, err := c.replica.Pod(&read.Pods[i])
		if err != nil {
			return nil, err
		}
		known = append(known, pod)
	}
	return known, nil
}

// all sends Deltas until the copy is complete.
func (c *copied) all(store *cluster.Store, pods ...*cluster.Pod) ([]*cluster.Pod, error) {
	for {
		known, err := c.next(store, pods...)
		if err != nil || c.replica.Complete() {
			return known, err
		}
	}
}

// soften gives the ledger a pod with soft spread constraints.
func (w *town) soften(t *rapid.T) {
	uid := facts.UID(fmt.Sprint("p", rapid.IntRange(0, 11).Draw(t, "soft pod")))
	blue := facts.PodSelector{Namespaces: []string{"x"}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "color", Operator: facts.In, Values: []string{oneOf(t, "counted", "blue", "red")}}}}}
	soft := func(key string) facts.SpreadConstraint {
		return facts.SpreadConstraint{TopologyKey: key, MaxSkew: 1, MinDomains: 1, Pods: blue, HonorTaints: rapid.Bool().Draw(t, "taints")}
	}
	w.store.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: uid, Namespace: "x", Name: string(uid), Ours: true, Labels: []facts.Label{{Key: "color", Value: oneOf(t, "color", "blue", "red")}},
		Requirements: &facts.Requirements{
			Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 100}}, Spread: []facts.SpreadConstraint{soft("zone"), soft(facts.HostnameKey)},
		},
	}})
}

// waitingFor lists the pods that a copy may be asked about.
func (w *town) copyable() (pods []*cluster.Pod) {
	for i := range 12 {
		if pod := w.store.Pod(facts.UID(fmt.Sprint("p", i))); pod != nil && pod.Schedulable() && cluster.Copies(pod.Class) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// TestReplicaFollows plays random histories of a ledger. A copy that is fed now and then, over the wire, has the same columns as a Snapshot, decides alike, and goes on deciding alike when what it
// assumed comes true or does not.
func TestReplicaFollows(t *testing.T) {
	profile, err := rules.NewProfile(nil)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := &duo{town: newTown(), copied: newCopied(t), profile: profile, own: cluster.NewOptimisticSnapshot()}
		d.decides = place.NewPlacer(d.own, profile, 7, 4)
		for range rapid.IntRange(1, 8).Draw(t, "rounds") {
			d.live(t)
			pods := d.copyable()
			known, err := d.all(d.store, pods...)
			if err != nil {
				t.Fatal(err)
			}
			d.compare(t, pods, known)
			d.decide(t, pods, known)
		}
	})
}

// duo is a ledger with a Snapshot, and a copy.
type duo struct {
	*town
	*copied
	profile          *rules.Profile
	own              *cluster.Snapshot
	decides, follows *place.Placer
}

// live lets things happen to the ledger, and feeds the copy now and then.
func (d *duo) live(t *rapid.T) {
	for range rapid.IntRange(0, 25).Draw(t, "steps") {
		if rapid.IntRange(0, 3).Draw(t, "soft") == 0 {
			d.soften(t)
		} else {
			d.step(t)
		}
		if rapid.IntRange(0, 8).Draw(t, "fed") == 0 {
			if _, err := d.next(d.store); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (d *duo) compare(t *rapid.T, pods, known []*cluster.Pod) {
	d.own.Advance(d.store)
	if got, want := cluster.Columns(&d.replica.Snapshot().State, classesOf(known)), cluster.Columns(&d.own.State, classesOf(pods)); got != want {
		t.Fatalf("the copy:\n%s\nthe ledger:\n%s", got, want)
	}
	if err := d.replica.Snapshot().Verify(); err != nil {
		t.Fatal(err)
	}
}

// decide has both place the pods, of which some get these places.
func (d *duo) decide(t *rapid.T, pods, known []*cluster.Pod) {
	if d.follows == nil || d.started > 0 {
		d.follows, d.started = place.NewPlacer(d.replica.Snapshot(), d.profile, 7, 4), 0
	}
	for i, pod := range pods {
		want, fits := d.decides.Place(pod.Class)
		got, ok := d.follows.Place(known[i].Class)
		if ok != fits || ok && got != want {
			t.Fatalf("pod %s: the copy says %+v (%v), the ledger %+v (%v)", pod.UID, got, ok, want, fits)
		}
		if !ok {
			continue
		}
		d.own.Assume(want.Slot, pod, want.Grant)
		d.replica.Snapshot().Assume(got.Slot, known[i], got.Grant)
		if rapid.Bool().Draw(t, "comes true") {
			d.store.Commit(&cluster.Plan{Placements: []cluster.Placement{{Pod: pod.UID, Node: d.own.Node(want.Slot).Name, Grant: want.Grant}}, Revision: d.own.Revision()}, rules.Commits)
		}
	}
}

// classesOf lists the classes with constraints, each once, by number.
func classesOf(pods []*cluster.Pod) (list []*cluster.Class) {
	for _, pod := range pods {
		if pod.Class.Constraints != nil {
			list = append(list, pod.Class)
		}
	}
	slices.SortFunc(list, func(a, b *cluster.Class) int { return int(a.ID) - int(b.ID) })
	return slices.CompactFunc(list, func(a, b *cluster.Class) bool { return a.ID == b.ID })
}
