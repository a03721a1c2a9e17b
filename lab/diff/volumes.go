package diff

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// volumeReasons are what upstream's plugins say of nodes that they refuse.
var volumeReasons = []string{
	"node(s) didn't match PersistentVolume's node affinity", "node(s) had no available volume zone", "node(s) didn't find available persistent volumes to bind",
	"node(s) did not have enough free storage", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", "node(s) had no available disk",
	"node(s) exceed max volume count", "CSI driver is not installed on the node",
}

// volumeCoverage counts what was judged: pods on nodes, why nodes were refused, pods that wait for their claims, and claims by what they were promised.
type volumeCoverage struct {
	judged, feasible, waits, static, provisioned, bound int
	scored, preferred                                   int // nodes whose scores were compared, and those that did not score 0

	refused map[string]int
}

func newVolumeCoverage() volumeCoverage {
	c := volumeCoverage{refused: make(map[string]int)}
	for _, reason := range volumeReasons {
		c.refused[reason] = 0
	}
	return c
}

func (c *volumeCoverage) add(other *volumeCoverage) {
	c.judged, c.feasible, c.waits = c.judged+other.judged, c.feasible+other.feasible, c.waits+other.waits
	c.scored, c.preferred = c.scored+other.scored, c.preferred+other.preferred
	c.static, c.provisioned, c.bound = c.static+other.static, c.provisioned+other.provisioned, c.bound+other.bound
	for reason, n := range other.refused {
		c.refused[reason] += n
	}
}

// vacuous lists what never happened, so that nothing is known of it.
func (c *volumeCoverage) vacuous() (list []string) {
	for name, n := range map[string]int{"a node lets a pod in": c.feasible, "a pod waits": c.waits, "a volume is promised": c.static, "a volume is provisioned": c.provisioned, "a claim is bound": c.bound, "a node scores": c.preferred} {
		if n == 0 {
			list = append(list, name)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(c.refused)) {
		if c.refused[reason] == 0 {
			list = append(list, reason)
		}
	}
	slices.Sort(list)
	return list
}

// VolumeReport is what a run has found about volumes.
type VolumeReport struct {
	// Failure is the first difference; nil: none.
	Failure  error
	coverage volumeCoverage
}

// runVolumes plays as many worlds of volumes as have about as many pods as the options ask for. Equal options give equal reports.
func runVolumes(ctx context.Context, o Options) VolumeReport {
	worlds := uint64((o.Cases + podsPerWorld - 1) / podsPerWorld)
	coverage, failure := playWorlds(ctx, o.Workers, worlds, newVolumeCoverage, func(number uint64, seen *volumeCoverage) error { return playVolumes(o.Seed, number, seen) })
	return VolumeReport{Failure: failure, coverage: coverage}
}

func (r *VolumeReport) write(w io.Writer) {
	if r.Failure != nil {
		fmt.Fprintf(w, "---\n%v\n", r.Failure)
	}
	c := &r.coverage
	fmt.Fprintf(w, "%d pods with volumes were judged: %d waited for their claims, %d nodes let them in; of their claims %d were promised volumes and %d provisioned, %d were bound in between; %d scores of nodes were equal, %d of them above 0\n",
		c.judged, c.waits, c.feasible, c.static, c.provisioned, c.bound, c.scored, c.preferred)
	for _, reason := range volumeReasons {
		fmt.Fprintf(w, "  %8d nodes: %s\n", c.refused[reason], reason)
	}
}

// playVolumes draws and plays one world.
func playVolumes(seed, number uint64, seen *volumeCoverage) error {
	if err := drawVolumeWorld(rand.New(rand.NewPCG(seed, number))).compare(seen); err != nil {
		return fmt.Errorf("volumes: world %d of seed %d: %w", number, seed, err)
	}
	return nil
}

// match is one case being played.
type match struct {
	*volumeWorld
	u        *upstreamVolumes
	store    *cluster.Store
	parser   *parse.Parser
	placed   []*corev1.Pod
	promised map[string]bool // claims that a volume is, or may be, promised to
	versions int
	seen     *volumeCoverage
	choosing instance // follows the ledger as a scheduler does
}

// compare judges and places one pod after the other on both sides. In between, claims are bound, pods leave, and nodes and attachments change.
func (w *volumeWorld) compare(seen *volumeCoverage) error {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer cancel()
	u, err := w.upstream(ctx)
	if err != nil {
		return err
	}
	m := &match{volumeWorld: w, u: u, store: cluster.NewStore(), parser: parse.NewParser(schedulerName, nil), promised: make(map[string]bool), seen: seen}
	profile, err := rules.NewProfile(nil)
	if err != nil {
		return err
	}
	m.choosing = newInstance(&Case{Seed: uint64(len(w.pods)), Indexes: 2}, profile)
	for _, n := range w.nodes {
		m.store.Apply(facts.NodeUpserted{Node: m.parser.Node(n)})
	}
	for _, object := range w.storage {
		m.store.Apply(facts.StorageUpserted{Object: m.fact(object)})
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

// fact parses an object.
func (m *match) fact(object runtime.Object) facts.StorageObject {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		return m.parser.Claim(o)
	case *corev1.PersistentVolume:
		return m.parser.Volume(o)
	case *storagev1.StorageClass:
		return m.parser.StorageClass(o)
	case *storagev1.CSIDriver:
		return m.parser.StorageDriver(o)
	case *storagev1.CSINode:
		return m.parser.StorageNode(o)
	case *storagev1.VolumeAttachment:
		return m.parser.Attachment(o)
	case *storagev1.CSIStorageCapacity:
		return m.parser.StorageCapacity(o)
	}
	return nil
}

// judge judges a pod on both sides, and places it.
func (m *match) judge(pod *corev1.Pod) error {
	theirs, refusals, state, err := m.u.judge(pod)
	if err != nil {
		return err
	}
	m.store.Apply(facts.PodUpserted{Pod: m.parser.Pod(pod)})
	ours := m.fits(m.store, pod)
	shares := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && m.promised[v.PersistentVolumeClaim.ClaimName]
	})
	if shares { // upstream may send the second pod of a claim to where the claim's volume is not
		theirs = slices.DeleteFunc(theirs, func(n string) bool { return !slices.Contains(ours, n) })
	}
	if !slices.Equal(theirs, ours) {
		return fmt.Errorf("upstream lets it onto %v (%q), Hilbert onto %v (%q)", theirs, refusals, ours, m.store.Pod(facts.UID(pod.UID)).Refusal())
	}
	if !shares {
		if err := m.compareScores(state, pod, ours); err != nil {
			return err
		}
	}
	if err := m.chooses(pod); err != nil {
		return err
	}
	m.seen.count(m, pod, refusals, len(ours))
	if len(ours) == 0 {
		return nil
	}
	node := oneOf(m.Rand, ours...)
	if err := m.u.place(state, pod, node); err != nil {
		return fmt.Errorf("on %s: %w", node, err)
	}
	plan := cluster.Plan{Placements: []cluster.Placement{{Pod: facts.UID(pod.UID), Node: node}}}
	if verdict := m.store.Commit(&plan, rules.Commits); !verdict.Committed {
		return fmt.Errorf("on %s: %v", node, verdict)
	}
	m.store.Consequences()
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	m.placed = append(m.placed, placed)
	for i := range pod.Spec.Volumes {
		m.promised[pod.Spec.Volumes[i].Name] = true
	}
	for _, o := range m.store.Volumes().Obligations(facts.UID(pod.UID)) {
		if o.Volume != "" {
			m.seen.static++
		} else {
			m.seen.provisioned++
			delete(m.promised, o.Claim.Name)
		}
	}
	return nil
}

// happen changes something on both sides.
func (m *match) happen() error {
	switch m.IntN(8) {
	case 0:
		return m.set(m.csiNode(m.nodes[m.IntN(len(m.nodes))].Name))
	case 1:
		return m.set(m.attachment(m.IntN(4)))
	case 2:
		return m.detach(fmt.Sprintf("a%d", m.IntN(4)))
	case 3, 4:
		if len(m.placed) == 0 {
			return nil
		}
		at := m.IntN(len(m.placed))
		pod := m.placed[at]
		if err := m.bindClaims(pod); err != nil {
			return err
		}
		if m.IntN(2) == 0 {
			return nil
		}
		m.placed = slices.Delete(m.placed, at, at+1)
		m.store.Apply(facts.PodRemoved{UID: facts.UID(pod.UID)})
		return m.u.cache.ForgetPod(klog.Logger{}, pod)
	}
	return nil
}

func (m *match) set(object runtime.Object) error {
	m.versions++
	o, err := meta.Accessor(object)
	if err != nil {
		return fmt.Errorf("read the metadata of a %T: %w", object, err)
	}
	o.SetResourceVersion(fmt.Sprint(m.versions))
	if err := indexerOf(m.u.factory, object).Update(object); err != nil {
		return fmt.Errorf("tell upstream of %s: %w", o.GetName(), err)
	}
	m.store.Apply(facts.StorageUpserted{Object: m.fact(object)})
	return nil
}

func (m *match) detach(name string) error {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := indexerOf(m.u.factory, a).Delete(a); err != nil {
		return fmt.Errorf("tell upstream that %s is gone: %w", name, err)
	}
	m.store.Apply(facts.StorageRemoved{Name: facts.StorageName{Kind: facts.VolumeAttachment, Name: name}})
	return nil
}

// bindClaims does what the controller of volumes and the drivers do for a pod that has its node.
func (m *match) bindClaims(pod *corev1.Pod) error {
	claims := m.u.factory.Core().V1().PersistentVolumeClaims().Informer().GetIndexer()
	for _, o := range m.store.Volumes().Obligations(facts.UID(pod.UID)) {
		found, known, err := claims.GetByKey(o.Claim.String())
		stored, ok := found.(*corev1.PersistentVolumeClaim)
		if err != nil || !known || !ok {
			return fmt.Errorf("claim %s is promised something, and upstream does not know it: %w", o.Claim, err)
		}
		claim := stored.DeepCopy()
		volume, err := m.volumeOf(o.Volume, claim)
		if err != nil {
			return err
		}
		volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		volume.Status.Phase = corev1.VolumeBound
		claim.Spec.VolumeName = volume.Name
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		for _, object := range []runtime.Object{volume, claim} {
			if err := m.set(object); err != nil {
				return err
			}
		}
		delete(m.promised, claim.Name)
		m.seen.bound++
	}
	m.store.Apply(facts.PodUpserted{Pod: m.parser.Pod(pod)})
	return nil
}

// volumeOf is a copy of a volume, or one that is made for a claim.
func (m *match) volumeOf(name string, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	if name == "" {
		made := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "made-" + claim.Name}}
		made.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi0", VolumeHandle: made.Name}}
		made.Spec.StorageClassName = storagehelpers.GetPersistentVolumeClaimClass(claim)
		return made, nil
	}
	found, known, err := m.u.factory.Core().V1().PersistentVolumes().Informer().GetIndexer().GetByKey(name)
	volume, ok := found.(*corev1.PersistentVolume)
	if err != nil || !known || !ok {
		return nil, fmt.Errorf("volume %s is promised, and upstream does not know it: %w", name, err)
	}
	return volume.DeepCopy(), nil
}

// fits returns which nodes our rules let a pod onto.
func (w *volumeWorld) fits(store *cluster.Store, pod *corev1.Pod) (fits []string) {
	record := store.Pod(facts.UID(pod.UID))
	if record.Refusal() != "" {
		return nil
	}
	for _, n := range w.nodes {
		if rules.Fits(&store.State, store.Slot(n.Name), record.Class) {
			fits = append(fits, n.Name)
		}
	}
	slices.Sort(fits)
	return fits
}

func (c *volumeCoverage) count(m *match, pod *corev1.Pod, refusals []string, feasible int) {
	c.judged++
	if m.store.Pod(facts.UID(pod.UID)).Refusal() != "" {
		c.waits++
		return
	}
	c.feasible += feasible
	for _, r := range refusals {
		for reason := range c.refused {
			if strings.Contains(r, reason) {
				c.refused[reason]++
			}
		}
	}
}
