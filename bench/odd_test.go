package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// defaultIndexes is the default of scheduling.maxClassIndexes.
const defaultIndexes = 256

// The labels and images that rows of BenchmarkOdd ask for.
const (
	labelInstance = "instance-id" // another value on each node
	oddImages     = 200
	oddKeys       = 40
)

// BenchmarkOdd is placements per CPU-second where pods are unlike each other, or where one odd pod has come before. Each row runs on four states
// of the cluster.
func BenchmarkOdd(b *testing.B) {
	for _, state := range []string{"empty", "levelled", "jittered", "churned"} {
		for _, row := range oddRows {
			b.Run(state+"/"+row.name, func(b *testing.B) { benchmarkOdd(b, state, row) })
		}
	}
}

// oddRow is one mix of pods.
type oddRow struct {
	name    string
	classes int
	owned   bool
	// first comes once, before the others.
	first func(r *facts.Requirements)
	// edit makes a class of the mix.
	edit func(i int, r *facts.Requirements)
}

var oddRows = []oddRow{
	{name: "plain", classes: 1000, edit: oneSize},
	{name: "after=instance-id", classes: 1000, edit: oneSize, first: func(r *facts.Requirements) {
		r.NodeSelector = []facts.Label{{Key: labelInstance, Value: "i-7"}}
	}},
	{name: "after=made-up-keys", classes: 1000, edit: oneSize, first: func(r *facts.Requirements) {
		for i := range 16 {
			r.NodeSelector = append(r.NodeSelector, facts.Label{Key: fmt.Sprint("made-up-", i), Value: "x"})
		}
	}},
	{name: "image", classes: 1000, edit: func(i int, r *facts.Requirements) {
		oneSize(i, r)
		r.Images = []string{"image-0"}
	}},
	{name: "sizes=1000", classes: 1000, edit: ownSize},
	{name: "sizes=1000,owned", classes: 1000, owned: true, edit: ownSize},
	{name: "sizes=1000,selectors=40,images=200", classes: 1000, edit: func(i int, r *facts.Requirements) {
		ownSize(i, r)
		r.NodeSelector = []facts.Label{{Key: fmt.Sprint("key-", i%oddKeys), Value: "1"}}
		r.Images = []string{fmt.Sprint("image-", i%oddImages)}
	}},
	{name: "daemonset", classes: 20000, edit: func(i int, r *facts.Requirements) {
		oneSize(0, r)
		r.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{fmt.Sprintf("node-%06d", i)}}}}}
	}},
	{name: "antiaffinity", classes: 1000, edit: func(i int, r *facts.Requirements) {
		oneSize(0, r)
		r.AntiAffinity = []facts.AffinityTerm{{TopologyKey: LabelHostname, Pods: facts.PodSelector{
			Namespaces: []string{Namespace}, Labels: (&Class{Name: fmt.Sprint("class-", i)}).selector(),
		}}}
	}},
}

func oneSize(i int, r *facts.Requirements) {
	r.Tolerations = []facts.Toleration{{Key: fmt.Sprint("team-", i), Exists: true}}
}

func ownSize(i int, r *facts.Requirements) {
	*r = *requirements(1000+int64(i), 1<<30)
}

func requirements(cpu, memory int64) *facts.Requirements {
	return &facts.Requirements{
		Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: memory}}, ScoreCPU: cpu, ScoreMemory: memory,
	}
}

// oddCluster is a ledger in one of the four states, with a scheduler of default configuration.
func oddCluster(state string) *run {
	scenario := Scenario{Nodes: 20000, Classes: 1, Case: Basic, Seed: 42}
	store := cluster.NewStore(facts.SystemSpreadDefaults...)
	random := rand.New(rand.NewPCG(1, 2))
	for i, n := range scenario.GenerateNodes() {
		n.Tainted, n.Shunned = false, false
		if state == "empty" {
			n.CPU, n.Memory = 96000, 384<<30
		}
		node := n.ClusterNode()
		node.Labels[labelInstance], node.Labels[fmt.Sprint("key-", i%oddKeys)] = fmt.Sprint("i-", i), "1"
		if image := i % 4000 / 20; i%20 == 0 {
			node.Images = []facts.Image{{Name: fmt.Sprint("image-", image), Size: 600 << 20}}
			if image != 0 {
				node.Images = []facts.Image{{Name: "image-0", Size: 600 << 20}, node.Images[0]}
			}
		}
		store.Apply(facts.NodeUpserted{Node: node})
		for j := range 3 {
			if state == "jittered" || state == "churned" && random.IntN(2) == 0 {
				r := requirements(1000*(1+random.Int64N(8)), (1+random.Int64N(32))<<30)
				store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprintf("other-%d-%d", i, j)), Node: n.Name, Requirements: r}})
			}
		}
	}
	profile, err := rules.NewProfile(nil)
	if err != nil {
		panic(err)
	}
	snapshot := cluster.NewSnapshot()
	r := &run{store: store, market: profile.Market(), snapshot: snapshot, plan: cluster.Plan{Placements: make([]cluster.Placement, 1)}}
	r.placer = place.NewPlacer(snapshot, profile, 1, defaultIndexes)
	if state == "levelled" || state == "churned" {
		for i := range 200_000 {
			r.arrive(facts.UID(fmt.Sprint("own-", i)), &facts.Pod{Requirements: requirements(1000, 4<<30)})
		}
	}
	if state == "churned" {
		for i := range 200_000 {
			if random.IntN(2) == 0 {
				store.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint("own-", i))})
			}
		}
	}
	return r
}

// arrive adds a pod and places it.
func (r *run) arrive(uid facts.UID, pod *facts.Pod) {
	pod.UID, pod.Namespace, pod.Ours = uid, Namespace, true
	r.store.Apply(facts.PodUpserted{Pod: *pod})
	if !r.place(uid) {
		r.store.Apply(facts.PodRemoved{UID: uid})
	}
}

func benchmarkOdd(b *testing.B, state string, row oddRow) {
	r := oddCluster(state)
	pods := make([]facts.Pod, row.classes)
	for i := range pods {
		name := fmt.Sprint("class-", i)
		pods[i] = facts.Pod{Requirements: requirements(1000, 1<<30), Labels: []facts.Label{{Key: LabelApp, Value: name}}}
		row.edit(i, pods[i].Requirements)
		if row.owned {
			pods[i].Owner = facts.Owner{Kind: facts.ReplicaSet, Name: name}
			r.store.Apply(facts.WorkloadUpserted{Workload: &facts.Workload{
				Kind: facts.ReplicaSet, Namespace: Namespace, Name: name, Pods: (&Class{Name: name}).selector(),
			}})
		}
	}
	if row.first != nil {
		odd := requirements(1, 1)
		row.first(odd)
		r.arrive("odd", &facts.Pod{Requirements: odd})
	}
	for i := range min(len(pods), 1000) { // what is built once for a class is built
		r.arrive(facts.UID(fmt.Sprint("warm-", i)), &pods[i])
	}
	next := 0
	b.ReportAllocs()
	began := processTime()
	for b.Loop() {
		r.arrive(facts.UID(fmt.Sprint("pod-", next)), &pods[next%len(pods)])
		next++
	}
	used := float64(processTime() - began)
	b.ReportMetric(used/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)*1e9/used, "placements/cpu-s")
}
