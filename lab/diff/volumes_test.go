package diff

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	upstreamruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/topology"
)

// TestVolumes draws claims, volumes and storage classes, and pods that use them, one after the other. Upstream's VolumeBinding, VolumeZone and
// VolumeRestrictions and our ledger must let each pod onto the same nodes; then it gets one of them on both sides, which promises volumes and nodes to its
// claims, and the next pod is judged.
func TestVolumes(t *testing.T) {
	cases := uint64(50_000)
	if testing.Short() {
		cases = 5_000
	}
	var seen volumeCoverage
	for number := range cases {
		w := drawVolumeWorld(rand.New(rand.NewPCG(1, number)))
		if err := w.compare(&seen); err != nil {
			t.Fatalf("case %d: %v", number, err)
		}
	}
	t.Logf("%+v", seen)
	if slices.Contains([]int{seen.feasible, seen.refused, seen.waits, seen.static, seen.provisioned}, 0) {
		t.Error("something never happened, so that nothing is known of it")
	}
}

// volumeCoverage counts what was judged: pods on nodes, pods that wait for their claims, and claims by what they were promised.
type volumeCoverage struct{ feasible, refused, waits, static, provisioned int }

// volumeWorld is one case.
type volumeWorld struct {
	*rand.Rand
	nodes   []*corev1.Node
	storage []runtime.Object
	pods    []*corev1.Pod
}

func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func drawVolumeWorld(r *rand.Rand) *volumeWorld {
	w := &volumeWorld{Rand: r}
	for i := range 1 + r.IntN(5) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: apiresource.MustParse("100"), corev1.ResourceCPU: apiresource.MustParse("100")}
		for _, key := range []string{"kubernetes.io/hostname", "zone", facts.LabelZone, facts.LabelZoneBeta} {
			if r.IntN(3) > 0 {
				n.Labels[key] = oneOf(r, "a", "b", "c")
			}
		}
		w.nodes = append(w.nodes, n)
	}
	for i := range 1 + r.IntN(3) {
		w.class(fmt.Sprintf("class%d", i))
	}
	for _, name := range []string{"csi0", "csi1"} {
		if r.IntN(2) == 0 {
			w.storage = append(w.storage, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{StorageCapacity: oneOf(r, nil, new(true), new(false))}})
		}
	}
	for i := range r.IntN(4) {
		w.capacity(fmt.Sprintf("room%d", i))
	}
	claims := 1 + r.IntN(5)
	for i := range r.IntN(6) {
		w.volume(i, claims)
	}
	for i := range claims {
		w.claim(i)
	}
	for i := range 1 + r.IntN(5) {
		w.pod(i, claims)
	}
	return w
}

func (w *volumeWorld) className() string {
	return oneOf(w.Rand, "class0", "class0", "class1", "class2", "")
}

func (w *volumeWorld) class(name string) {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: oneOf(w.Rand, "csi0", "csi1", "kubernetes.io/no-provisioner")}
	c.VolumeBindingMode = oneOf(w.Rand, new(storagev1.VolumeBindingImmediate), new(storagev1.VolumeBindingWaitForFirstConsumer), new(storagev1.VolumeBindingWaitForFirstConsumer))
	for range w.IntN(3) {
		term := corev1.TopologySelectorTerm{}
		for range 1 + w.IntN(2) {
			term.MatchLabelExpressions = append(term.MatchLabelExpressions, corev1.TopologySelectorLabelRequirement{
				Key: oneOf(w.Rand, "zone", facts.LabelZone), Values: oneOf(w.Rand, []string{"a"}, []string{"a", "b"}, []string{"c"}),
			})
		}
		c.AllowedTopologies = append(c.AllowedTopologies, term)
	}
	w.storage = append(w.storage, c)
}

func (w *volumeWorld) capacity(name string) {
	c := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, StorageClassName: w.className()}
	c.NodeTopology = oneOf(w.Rand, nil, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}}}})
	c.Capacity = oneOf(w.Rand, nil, new(apiresource.MustParse("3")), new(apiresource.MustParse("9")))
	c.MaximumVolumeSize = oneOf(w.Rand, nil, nil, new(apiresource.MustParse("2")))
	w.storage = append(w.storage, c)
}

func (w *volumeWorld) modes() (modes []corev1.PersistentVolumeAccessMode) {
	for _, mode := range []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadWriteOncePod} {
		if w.IntN(2) == 0 {
			modes = append(modes, mode)
		}
	}
	return modes
}

// volume draws one; all have different sizes, for upstream chooses among equal ones at random.
func (w *volumeWorld) volume(i, claims int) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("v%d", i), Labels: map[string]string{}}}
	v.Spec.StorageClassName, v.Spec.AccessModes = w.className(), append(w.modes(), corev1.ReadWriteOnce)
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *apiresource.NewQuantity(int64(1+w.IntN(3)*10+i), apiresource.DecimalSI)}
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi0", VolumeHandle: v.Name}}
	v.Status.Phase = oneOf(w.Rand, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased)
	if w.IntN(6) == 0 {
		v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
	if w.IntN(4) == 0 {
		name := fmt.Sprintf("c%d", w.IntN(claims))
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: name, UID: oneOf(w.Rand, "", uid(name), "other")}
	}
	if w.IntN(3) == 0 {
		v.Labels["disk"] = oneOf(w.Rand, "ssd", "hdd")
	}
	if w.IntN(4) == 0 {
		v.Labels[oneOf(w.Rand, facts.LabelZone, facts.LabelZoneBeta)] = oneOf(w.Rand, "a", "a__b", "c", "a__")
	}
	if w.IntN(2) == 0 {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
		for range 1 + w.IntN(2) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms = append(v.Spec.NodeAffinity.Required.NodeSelectorTerms, corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: oneOf(w.Rand, "kubernetes.io/hostname", "zone"), Operator: oneOf(w.Rand, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{oneOf(w.Rand, "a", "b")},
				}},
			})
		}
	}
	w.storage = append(w.storage, v)
}

func (w *volumeWorld) claim(i int) {
	if w.IntN(12) == 0 {
		return
	}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("c%d", i), Annotations: map[string]string{}}}
	c.UID = uid(c.Name)
	c.Spec.AccessModes = append(w.modes(), corev1.ReadWriteOnce)
	if class := w.className(); w.IntN(10) == 0 {
		c.Annotations[corev1.BetaStorageClassAnnotation] = class
	} else {
		c.Spec.StorageClassName = oneOf(w.Rand, &class, &class, &class, nil)
	}
	if w.IntN(8) > 0 {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *apiresource.NewQuantity(int64(1+3*i), apiresource.DecimalSI)}
	}
	if w.IntN(8) == 0 {
		c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
	if w.IntN(6) == 0 {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
	}
	if w.IntN(4) == 0 {
		c.Spec.VolumeName = fmt.Sprintf("v%d", w.IntN(5))
		if w.IntN(4) > 0 {
			c.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
		}
	}
	if w.IntN(6) == 0 {
		c.Annotations["volume.kubernetes.io/selected-node"] = oneOf(w.Rand, "n0", "n1", "gone")
	}
	if w.IntN(20) == 0 {
		c.DeletionTimestamp, c.Finalizers = &deleted, []string{"kubernetes.io/pvc-protection"}
	}
	if w.IntN(20) == 0 {
		c.Status.Phase = corev1.ClaimLost
	}
	if w.IntN(4) == 0 {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p0", UID: uid(oneOf(w.Rand, "p0", "p1")), Controller: new(true)}}
	}
	w.storage = append(w.storage, c)
}

func (w *volumeWorld) pod(i, claims int) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", i)}}
	p.UID, p.Spec.SchedulerName = uid(p.Name), schedulerName
	used := make(map[string]bool)
	for range 1 + w.IntN(3) {
		claim := fmt.Sprintf("c%d", w.IntN(claims))
		if used[claim] {
			continue
		}
		used[claim] = true
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
			Name: claim, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
		})
	}
	if w.IntN(8) == 0 {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
		if w.IntN(3) > 0 {
			w.scratch(p)
		}
	}
	w.pods = append(w.pods, p)
}

// scratch makes the claim of a pod's ephemeral volume.
func (w *volumeWorld) scratch(p *corev1.Pod) {
	class := w.className()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.Name + "-scratch"}}
	c.UID, c.Spec.StorageClassName = uid(c.Name), &class
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: oneOf(w.Rand, p.UID, p.UID, "other"), Controller: new(true)}}
	w.storage = append(w.storage, c)
}

// volumePlugins are upstream's that are compared, and those that no framework is without.
var volumePlugins = []string{names.PrioritySort, names.DefaultBinder, names.VolumeRestrictions, names.VolumeBinding, names.VolumeZone}

// upstreamVolumes is upstream with these plugins on a cluster. Its informers are filled by hand.
type upstreamVolumes struct {
	ctx       context.Context
	framework framework.Framework
	cache     internalcache.Cache
	state     snapshotLister
}

func (w *volumeWorld) upstream(ctx context.Context) (*upstreamVolumes, error) {
	registerMetrics()
	c, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := &c.Profiles[0]
	known := func(name string) bool { return slices.Contains(volumePlugins, name) }
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled, func(e config.Plugin) bool { return !known(e.Name) })
	profile.PluginConfig = slices.DeleteFunc(profile.PluginConfig, func(e config.PluginConfig) bool { return !known(e.Name) })
	factory := informers.NewSharedInformerFactory(nil, 0)
	u := &upstreamVolumes{ctx: ctx, cache: internalcache.New(ctx, nil, false, false)}
	u.state.Snapshot = internalcache.NewEmptySnapshot()
	u.framework, err = upstreamruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		upstreamruntime.WithInformerFactory(factory),
		upstreamruntime.WithSnapshotSharedLister(&u.state), upstreamruntime.WithMutableSnapshotLister(&u.state),
		upstreamruntime.WithPodNominator(nobody{}), upstreamruntime.WithSharedDRAManager(noDevices{}), upstreamruntime.WithParallelism(1),
	)
	if err != nil {
		return nil, err
	}
	for _, object := range w.storage {
		if err := indexerOf(factory, object).Add(object); err != nil {
			return nil, err
		}
	}
	for _, n := range w.nodes {
		u.cache.AddNode(klog.Logger{}, n)
	}
	return u, nil
}

func indexerOf(factory informers.SharedInformerFactory, object runtime.Object) cache.Indexer {
	switch object.(type) {
	case *corev1.PersistentVolumeClaim:
		return factory.Core().V1().PersistentVolumeClaims().Informer().GetIndexer()
	case *corev1.PersistentVolume:
		return factory.Core().V1().PersistentVolumes().Informer().GetIndexer()
	case *storagev1.StorageClass:
		return factory.Storage().V1().StorageClasses().Informer().GetIndexer()
	case *storagev1.CSIDriver:
		return factory.Storage().V1().CSIDrivers().Informer().GetIndexer()
	default:
		return factory.Storage().V1().CSIStorageCapacities().Informer().GetIndexer()
	}
}

// judge returns which nodes a pod may go to, by the order of their names, and the state of its cycle.
func (u *upstreamVolumes) judge(pod *corev1.Pod) (fits []string, refusals []string, state fwk.CycleState, err error) {
	if err := u.cache.UpdateSnapshot(klog.Logger{}, u.state.Snapshot); err != nil {
		return nil, nil, nil, err
	}
	nodes, err := u.state.NodeInfos().List()
	if err != nil {
		return nil, nil, nil, err
	}
	state = framework.NewCycleState()
	_, status, _ := u.framework.RunPreFilterPlugins(u.ctx, state, pod)
	if !status.IsSuccess() {
		return nil, []string{status.Message()}, state, nil // an error too keeps the pod waiting
	}
	for _, node := range nodes {
		status := u.framework.RunFilterPlugins(u.ctx, state, pod, node)
		if status.IsSuccess() {
			fits = append(fits, node.Node().Name)
			continue
		}
		refusals = append(refusals, node.Node().Name+": "+status.Message())
	}
	slices.Sort(fits)
	return fits, refusals, state, nil
}

// place gives a pod a node: its volumes are assumed, and it is on the node for others.
func (u *upstreamVolumes) place(state fwk.CycleState, pod *corev1.Pod, node string) error {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	if status := u.framework.RunReservePluginsReserve(u.ctx, state, placed, node); !status.IsSuccess() {
		return fmt.Errorf("reserve: %s", status.Message())
	}
	return u.cache.AssumePod(klog.Logger{}, placed)
}

func (w *volumeWorld) hilbert() (*cluster.Store, *parse.Parser) {
	store, parser := cluster.NewStore(), parse.NewParser(schedulerName, nil)
	for _, n := range w.nodes {
		store.Apply(facts.NodeUpserted{Node: parser.Node(n)})
	}
	for _, object := range w.storage {
		var fact facts.StorageObject
		switch o := object.(type) {
		case *corev1.PersistentVolumeClaim:
			fact = parser.Claim(o)
		case *corev1.PersistentVolume:
			fact = parser.Volume(o)
		case *storagev1.StorageClass:
			fact = parser.StorageClass(o)
		case *storagev1.CSIDriver:
			fact = parser.StorageDriver(o)
		case *storagev1.CSIStorageCapacity:
			fact = parser.StorageCapacity(o)
		}
		store.Apply(facts.StorageUpserted{Object: fact})
	}
	return store, parser
}

// compare judges and places one pod after the other on both sides.
func (w *volumeWorld) compare(seen *volumeCoverage) error {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer cancel()
	u, err := w.upstream(ctx)
	if err != nil {
		return err
	}
	store, parser := w.hilbert()
	promised := make(map[string]bool) // claims that a volume is, or may be, promised to
	for _, pod := range w.pods {
		theirs, refusals, state, err := u.judge(pod)
		if err != nil {
			return err
		}
		store.Apply(facts.PodUpserted{Pod: parser.Pod(pod)})
		ours := w.fits(store, pod)
		shares := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && promised[v.PersistentVolumeClaim.ClaimName]
		})
		if shares { // upstream may send the second pod of a claim to where the claim's volume is not
			theirs = slices.DeleteFunc(theirs, func(n string) bool { return !slices.Contains(ours, n) })
		}
		if !slices.Equal(theirs, ours) {
			return fmt.Errorf("pod %s: upstream lets it onto %v (%q), Hilbert onto %v (%q)", pod.Name, theirs, refusals, ours, store.Pod(facts.UID(pod.UID)).Refusal())
		}
		seen.count(store, pod, len(w.nodes), len(ours))
		if len(ours) == 0 {
			continue
		}
		node := oneOf(w.Rand, ours...)
		if err := u.place(state, pod, node); err != nil {
			return fmt.Errorf("pod %s on %s: %w", pod.Name, node, err)
		}
		plan := cluster.Plan{Placements: []cluster.Placement{{Pod: facts.UID(pod.UID), Node: node}}}
		verdict := store.Commit(&plan, func(*cluster.State, cluster.Slot, *cluster.Class, *topology.Grant) string { return "" })
		if !verdict.Committed {
			return fmt.Errorf("pod %s on %s: %v", pod.Name, node, verdict)
		}
		store.Revolumed()
		for i := range pod.Spec.Volumes {
			promised[pod.Spec.Volumes[i].Name] = true
		}
		for _, o := range store.Volumes().Obligations(facts.UID(pod.UID)) {
			if o.Volume != "" {
				seen.static++
			} else {
				seen.provisioned++
				delete(promised, o.Claim.Name)
			}
		}
	}
	return store.Verify()
}

// fits returns which nodes our ledger lets a pod onto, as far as volumes go.
func (w *volumeWorld) fits(store *cluster.Store, pod *corev1.Pod) (fits []string) {
	record := store.Pod(facts.UID(pod.UID))
	if record.Refusal() != "" {
		return nil
	}
	for _, n := range w.nodes {
		if v := record.Class.Volumes; v == nil || v.Conflict(store.Node(store.Slot(n.Name))) == facts.NoVolumeConflict {
			fits = append(fits, n.Name)
		}
	}
	slices.Sort(fits)
	return fits
}

func (c *volumeCoverage) count(store *cluster.Store, pod *corev1.Pod, nodes, feasible int) {
	if store.Pod(facts.UID(pod.UID)).Refusal() != "" {
		c.waits++
		return
	}
	c.feasible += feasible
	c.refused += nodes - feasible
}
