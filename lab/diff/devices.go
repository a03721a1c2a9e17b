package diff

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/devices"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// deviceReasons are what upstream's plugin says of pods and of nodes that it refuses.
var deviceReasons = []string{
	"cannot allocate all claims", "resourceclaim not available on the node", "device class", "is being deleted", "could not find", "not owner", "no such key",
}

// deviceCoverage counts what was judged: pods, nodes that let them in, pods that wait, pods whose nodes differ in score, claims by what happened to them.
type deviceCoverage struct {
	judged, feasible, waits, ranked, allocated, shared, returned, extended int

	refused map[string]int
}

func newDeviceCoverage() deviceCoverage {
	c := deviceCoverage{refused: make(map[string]int)}
	for _, reason := range deviceReasons {
		c.refused[reason] = 0
	}
	return c
}

func (c *deviceCoverage) add(other *deviceCoverage) {
	c.judged, c.feasible, c.waits, c.ranked = c.judged+other.judged, c.feasible+other.feasible, c.waits+other.waits, c.ranked+other.ranked
	c.allocated, c.shared, c.returned, c.extended = c.allocated+other.allocated, c.shared+other.shared, c.returned+other.returned, c.extended+other.extended
	for reason, n := range other.refused {
		c.refused[reason] += n
	}
}

// vacuous lists what never happened, so that nothing is known of it.
func (c *deviceCoverage) vacuous() (list []string) {
	for name, n := range map[string]int{
		"a node lets a pod in": c.feasible, "a pod waits": c.waits, "nodes differ in score": c.ranked,
		"a claim is allocated": c.allocated, "a claim is shared": c.shared, "devices are returned": c.returned,
		"a claim is made for extended resources": c.extended,
	} {
		if n == 0 {
			list = append(list, name)
		}
	}
	for _, reason := range deviceReasons {
		if c.refused[reason] == 0 {
			list = append(list, reason)
		}
	}
	slices.Sort(list)
	return list
}

// DeviceReport is what a run has found about ResourceClaims.
type DeviceReport struct {
	// Failure is the first difference; nil: none.
	Failure  error
	coverage deviceCoverage
}

// deviceShare: of so many pods that the options ask for, one is a pod with claims. An allocator takes a hundred times as long as a filter.
const deviceShare = 20

// runDevices plays as many worlds of devices as have about that share of the pods. Equal options give equal reports.
func runDevices(ctx context.Context, o Options) DeviceReport {
	worlds := uint64((o.Cases + deviceShare*podsPerWorld - 1) / (deviceShare * podsPerWorld))
	coverage, failure := playWorlds(ctx, o.Workers, worlds, newDeviceCoverage, func(number uint64, seen *deviceCoverage) error { return playDevices(o.Seed, number, seen) })
	return DeviceReport{Failure: failure, coverage: coverage}
}

func (r *DeviceReport) write(w io.Writer) {
	if r.Failure != nil {
		fmt.Fprintf(w, "---\n%v\n", r.Failure)
	}
	c := &r.coverage
	fmt.Fprintf(w, "%d pods with resource claims were judged: %d waited for their claims, %d nodes let them in, of %d these differed in score; %d claims were allocated, %d of them made for extended resources, %d shared, %d lost their devices again\n",
		c.judged, c.waits, c.feasible, c.ranked, c.allocated, c.extended, c.shared, c.returned)
	for _, reason := range deviceReasons {
		fmt.Fprintf(w, "  %8d times: %s\n", c.refused[reason], reason)
	}
}

// playDevices draws and plays one world.
func playDevices(seed, number uint64, seen *deviceCoverage) error {
	if err := drawDeviceWorld(rand.New(rand.NewPCG(seed, number))).compare(seen); err != nil {
		return fmt.Errorf("devices: world %d of seed %d: %w", number, seed, err)
	}
	return nil
}

// deviceMatch is one case being played.
type deviceMatch struct {
	*deviceWorld
	instance
	u      *upstreamDevices
	store  *cluster.Store
	parser *parse.Parser
	known  map[string]*resourcev1.ResourceClaim // as both know them
	placed []*corev1.Pod
	seen   *deviceCoverage

	versions int
}

// compare judges and places one pod after the other on both sides. In between, pods leave, claims lose their devices, and slices, rules, classes and nodes change.
func (w *deviceWorld) compare(seen *deviceCoverage) error {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer cancel()
	u, err := newUpstreamDevices(ctx, w.nodes)
	if err != nil {
		return err
	}
	profile, err := rules.NewProfile(nil)
	if err != nil {
		return fmt.Errorf("our default profile: %w", err)
	}
	m := &deviceMatch{
		deviceWorld: w, instance: newInstance(&Case{Seed: w.Uint64(), Indexes: 4, Coarse: 4}, profile), u: u, store: cluster.NewStore(),
		parser: parse.NewParser(schedulerName, nil), known: make(map[string]*resourcev1.ResourceClaim), seen: seen,
	}
	m.store.ResourceClaims().SetAllocator(devices.NewAllocator(ctx, time.Hour))
	if err := m.begin(); err != nil {
		return err
	}
	for _, pod := range w.pods {
		if err := m.judge(pod); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		if err := m.happen(); err != nil {
			return err
		}
		if err := m.store.Verify(); err != nil {
			return err
		}
	}
	return nil
}

// begin tells both sides of all there is.
func (m *deviceMatch) begin() error {
	for _, n := range m.nodes {
		m.store.Apply(facts.NodeUpserted{Node: m.parser.Node(n)})
	}
	for _, c := range m.classes {
		if err := m.setClass(c); err != nil {
			return err
		}
	}
	for _, s := range m.slices {
		if err := m.setSlice(s); err != nil {
			return err
		}
	}
	for _, r := range m.rules {
		if err := m.setRule(r); err != nil {
			return err
		}
	}
	for _, c := range m.claims {
		if err := m.setClaim(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *deviceMatch) setClass(c *resourcev1.DeviceClass) error {
	if err := m.u.classes.Set(c); err != nil {
		return err
	}
	m.store.Apply(facts.DRAUpserted{Object: m.parser.DeviceClass(c)})
	return nil
}

func (m *deviceMatch) setSlice(s *resourcev1.ResourceSlice) error {
	m.store.Apply(facts.DRAUpserted{Object: m.parser.ResourceSlice(s)})
	return m.u.slices.Set(s)
}

func (m *deviceMatch) setRule(r *resourcev1.DeviceTaintRule) error {
	m.store.Apply(facts.DRAUpserted{Object: m.parser.DeviceTaintRule(r)})
	return m.u.rules.Set(r)
}

func (m *deviceMatch) setClaim(c *resourcev1.ResourceClaim) error {
	m.versions++
	c.ResourceVersion = strconv.Itoa(m.versions)
	m.known[c.Name] = c
	m.store.Apply(facts.DRAUpserted{Object: m.parser.ResourceClaim(c)})
	return m.u.claims.Set(c)
}

// judge judges a pod on both sides, and places it.
func (m *deviceMatch) judge(pod *corev1.Pod) error {
	theirs, scores, refusals, err := m.u.judge(pod)
	if err != nil {
		return err
	}
	m.store.Apply(facts.PodUpserted{Pod: m.parser.Pod(pod)})
	m.store.Consequences()
	record := m.store.Pod(facts.UID(pod.UID))
	m.snapshot.Advance(m.store)
	var ours []string
	var judged []rules.Judgement
	if record.Refusal() == "" {
		judged = m.placer.Judge(record.Class)
	}
	for _, j := range judged {
		if j.Refusal == "" {
			ours = append(ours, m.snapshot.Node(j.Slot).Name)
		}
	}
	slices.Sort(ours)
	if !slices.Equal(theirs, ours) {
		return fmt.Errorf("upstream lets it onto %v (%q), Hilbert onto %v (%q)", theirs, refusals, ours, m.refusal(pod))
	}
	if err := m.compareScores(judged, scores); err != nil {
		return err
	}
	m.count(record, refusals, scores)
	if len(ours) == 0 {
		return nil
	}
	best, chosen := m.placer.Best(record.Class), m.choose(record.Class)
	if m.snapshot.Node(best).Name != chosen {
		return fmt.Errorf("the best node is %s, and the index chooses %s", m.snapshot.Node(best).Name, chosen)
	}
	return m.place(pod, oneOf(m.Rand, ours...))
}

// refusal says why the nodes that Hilbert refuses are refused.
func (m *deviceMatch) refusal(pod *corev1.Pod) (list []string) {
	record := m.store.Pod(facts.UID(pod.UID))
	if record.Refusal() != "" {
		return []string{record.Refusal()}
	}
	for _, n := range m.nodes {
		slot := m.store.Slot(n.Name)
		if !rules.Fits(&m.store.State, slot, record.Class) {
			at := rules.FirstRefusal(&m.store.State, slot, record.Class)
			rules.Filters[at].Why(&m.store.State, slot, record.Class, func(phrase string) { list = append(list, n.Name+": "+phrase) })
		}
	}
	return list
}

// compareScores: a pod without prioritized lists gets no score of ours, and the same everywhere from upstream.
func (m *deviceMatch) compareScores(judged []rules.Judgement, theirs map[string]int64) error {
	var one *int64
	for _, j := range judged {
		if j.Refusal != "" {
			continue
		}
		node := m.snapshot.Node(j.Slot).Name
		want, scored := theirs[node], false
		for _, s := range j.Scores {
			if s.Plugin != names.DynamicResources {
				continue
			}
			if scored = true; s.Score != want {
				return fmt.Errorf("upstream scores %s with %d, Hilbert with %d", node, want, s.Score)
			}
		}
		if one == nil {
			one = &want
		}
		if !scored && *one != want {
			return fmt.Errorf("upstream's scores differ, and Hilbert has none: %v", theirs)
		}
	}
	return nil
}

func (m *deviceMatch) count(record *cluster.Pod, refusals []string, scores map[string]int64) {
	m.seen.judged++
	m.seen.feasible += len(scores)
	if record.Refusal() != "" {
		m.seen.waits++
	}
	if values := slices.Sorted(maps.Values(scores)); len(values) > 1 && values[0] != values[len(values)-1] {
		m.seen.ranked++
	}
	for _, r := range refusals {
		for reason := range m.seen.refused {
			if strings.Contains(r, reason) {
				m.seen.refused[reason]++
			}
		}
	}
}

// place gives a pod a node: Hilbert chooses the devices of its claims, and the API server tells both.
func (m *deviceMatch) place(pod *corev1.Pod, node string) error {
	plan := cluster.Plan{Placements: []cluster.Placement{{Pod: facts.UID(pod.UID), Node: node}}}
	if verdict := m.store.Commit(&plan, rules.Commits); !verdict.Committed {
		return fmt.Errorf("on %s: %v", node, verdict)
	}
	m.store.Consequences()
	if err := m.store.Verify(); err != nil {
		return fmt.Errorf("on %s: %w", node, err)
	}
	if err := m.makeClaims(pod); err != nil {
		return err
	}
	for _, o := range m.store.ResourceClaims().Obligations(facts.UID(pod.UID)) {
		if o.Protect || len(o.Mappings) > 0 {
			continue
		}
		claim := m.known[o.Claim.Name].DeepCopy()
		if claim.Status.Allocation != nil {
			m.seen.shared++
		}
		if o.Allocation != "" {
			claim.Status.Allocation = new(resourcev1.AllocationResult)
			if err := json.Unmarshal([]byte(o.Allocation), claim.Status.Allocation); err != nil {
				return fmt.Errorf("read what claim %s is given: %w", o.Claim, err)
			}
			claim.Status.Allocation.AllocationTimestamp = new(metav1.Now())
			m.seen.allocated++
		}
		claim.Finalizers = []string{resourcev1.Finalizer}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		if err := m.setClaim(claim); err != nil {
			return err
		}
	}
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	m.store.Apply(facts.PodUpserted{Pod: m.parser.Pod(placed)})
	m.placed = append(m.placed, placed)
	return nil
}

// makeClaims makes the claim for the extended resources of a pod, which asks for what upstream would ask for.
func (m *deviceMatch) makeClaims(pod *corev1.Pod) error {
	for _, o := range m.store.ResourceClaims().Obligations(facts.UID(pod.UID)) {
		if !o.Create {
			continue
		}
		spec, ok := o.Requests.Spec.(*resourcev1.DeviceClaim)
		if !ok {
			return fmt.Errorf("the claim of pod %s asks for a %T", pod.Name, o.Requests.Spec)
		}
		m.seen.extended++
		if err := m.setClaim(&resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Claim.Namespace, Name: o.Claim.Name, UID: types.UID(o.Claim.Name), Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
			},
			Spec: resourcev1.ResourceClaimSpec{Devices: *spec},
		}); err != nil {
			return err
		}
	}
	m.store.Consequences()
	return nil
}

// happen changes something on both sides.
func (m *deviceMatch) happen() error {
	switch m.IntN(8) {
	case 0:
		return m.setRule(m.rule(m.IntN(2)))
	case 1:
		r := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rule%d", m.IntN(2))}}
		m.store.Apply(facts.DRARemoved{Name: facts.DRAName{Kind: facts.DeviceTaintRuleKind, Name: r.Name}})
		found, _, err := m.u.rules.GetIndexer().Get(r)
		if old, ok := found.(*resourcev1.DeviceTaintRule); err == nil && ok {
			return m.u.rules.Remove(old)
		}
	case 2:
		return m.republish()
	case 3:
		return m.setClass(m.class(m.IntN(3)))
	case 4, 5:
		return m.leave()
	}
	return nil
}

// republish changes the first device of a slice, or takes the slice away.
func (m *deviceMatch) republish() error {
	if len(m.slices) == 0 {
		return nil
	}
	at := m.IntN(len(m.slices))
	s := m.slices[at].DeepCopy()
	if m.IntN(4) == 0 {
		m.slices = slices.Delete(m.slices, at, at+1)
		m.store.Apply(facts.DRARemoved{Name: facts.DRAName{Kind: facts.ResourceSliceKind, Name: s.Name}})
		return m.u.slices.Remove(s)
	}
	if len(s.Spec.Devices) > 0 {
		fresh := m.device(0)
		d := &s.Spec.Devices[0]
		d.Attributes, d.Taints = fresh.Attributes, fresh.Taints
	}
	m.slices[at] = s
	return m.setSlice(s)
}

// leave has a pod end. The controller of claims ends its reservations, and takes devices back that nobody uses any more.
func (m *deviceMatch) leave() error {
	if len(m.placed) == 0 {
		return nil
	}
	at := m.IntN(len(m.placed))
	pod := m.placed[at]
	m.placed = slices.Delete(m.placed, at, at+1)
	m.store.Apply(facts.PodRemoved{UID: facts.UID(pod.UID)})
	for _, name := range slices.Sorted(maps.Keys(m.known)) {
		claim := m.known[name].DeepCopy()
		mine := func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == types.UID(pod.UID) }
		if !slices.ContainsFunc(claim.Status.ReservedFor, mine) {
			continue
		}
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, mine)
		if len(claim.Status.ReservedFor) == 0 && m.IntN(3) > 0 {
			claim.Status.Allocation = nil
			m.seen.returned++
		}
		if err := m.setClaim(claim); err != nil {
			return err
		}
	}
	return nil
}
