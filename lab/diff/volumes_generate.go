package diff

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"hilbert.dev/hilbert/cluster/facts"
)

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
		for _, key := range []string{"kubernetes.io/hostname", "zone", facts.LabelZone, facts.LabelZoneBeta, "topology.gke.io/zone", "topology.ebs.csi.aws.com/zone"} {
			if r.IntN(3) > 0 {
				n.Labels[key] = oneOf(r, "a", "b", "c")
			}
		}
		w.nodes = append(w.nodes, n)
		if r.IntN(4) > 0 {
			w.storage = append(w.storage, w.csiNode(n.Name))
		}
	}
	for i := range 1 + r.IntN(3) {
		w.class(fmt.Sprintf("class%d", i))
	}
	for _, name := range drivers {
		if r.IntN(2) == 0 {
			w.storage = append(w.storage, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{
				StorageCapacity: oneOf(r, nil, new(true), new(false)), PreventPodSchedulingIfMissing: oneOf(r, nil, nil, new(true), new(false)),
			}})
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
	for i := range r.IntN(4) {
		w.storage = append(w.storage, w.attachment(i))
	}
	for i := range 1 + r.IntN(8) {
		w.pod(i, claims)
	}
	return w
}

// drivers are those of CSI; some have taken over in-tree plugins.
var drivers = []string{"csi0", "csi1", "ebs.csi.aws.com", "pd.csi.storage.gke.io"}

func (w *volumeWorld) csiNode(name string) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, driver := range drivers {
		if w.IntN(4) == 0 {
			continue
		}
		d := storagev1.CSINodeDriver{Name: driver, NodeID: name}
		switch w.IntN(6) {
		case 0:
		case 1:
			d.Allocatable = &storagev1.VolumeNodeResources{}
		default:
			d.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(w.IntN(4)))}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	if w.IntN(2) == 0 {
		n.Annotations = map[string]string{corev1.MigratedPluginsAnnotationKey: oneOf(w.Rand, "", "kubernetes.io/gce-pd", "kubernetes.io/gce-pd,kubernetes.io/aws-ebs,kubernetes.io/cinder")}
	}
	return n
}

func (w *volumeWorld) attachment(i int) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a%d", i)}}
	a.Spec.Attacher, a.Spec.NodeName = oneOf(w.Rand, "csi0", "csi0", "csi1", "ebs.csi.aws.com"), w.nodes[w.IntN(len(w.nodes))].Name
	a.Spec.Source.PersistentVolumeName = oneOf(w.Rand, nil, new(fmt.Sprintf("v%d", w.IntN(6))), new(fmt.Sprintf("v%d", w.IntN(6))), new(fmt.Sprintf("made-c%d", w.IntN(4))))
	return a
}

func (w *volumeWorld) className() string {
	return oneOf(w.Rand, "class0", "class0", "class0", "class0", "class0", "class0", "class1", "class1", "class2", "")
}

func (w *volumeWorld) class(name string) {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: oneOf(w.Rand, "csi0", "csi0", "csi1", "kubernetes.io/no-provisioner", "kubernetes.io/aws-ebs", "kubernetes.io/azure-file")}
	c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
	if w.IntN(6) == 0 {
		c.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
	}
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
		if w.IntN(5) == 0 {
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
	v.Spec.PersistentVolumeSource = w.source(v.Name)
	v.Status.Phase = oneOf(w.Rand, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased)
	if w.IntN(6) == 0 {
		v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
	if w.IntN(4) == 0 {
		name := fmt.Sprintf("c%d", w.IntN(claims))
		for _, other := range w.storage { // of two that are kept for one claim, upstream takes any
			if o, ok := other.(*corev1.PersistentVolume); ok && o.Spec.ClaimRef != nil && o.Spec.ClaimRef.Name == name {
				name = "another"
			}
		}
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
					Key: oneOf(w.Rand, "kubernetes.io/hostname", "zone", facts.LabelZone), Operator: oneOf(w.Rand, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{oneOf(w.Rand, "a", "b")},
				}},
			})
		}
	}
	w.storage = append(w.storage, v)
}

// source draws what a volume is; some are one and the same under two names.
func (w *volumeWorld) source(name string) (s corev1.PersistentVolumeSource) {
	name = oneOf(w.Rand, name, name, name, "shared")
	switch w.IntN(8) {
	case 0:
		s.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: oneOf(w.Rand, "vol-"+name, "aws://a/vol-"+name, "odd")}
	case 1:
		s.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: name}
	case 2:
		s.AzureFile = &corev1.AzureFilePersistentVolumeSource{ShareName: name, SecretName: "s"}
	case 3:
		s.NFS = &corev1.NFSVolumeSource{Server: name, Path: "/"}
	default:
		s.CSI = &corev1.CSIPersistentVolumeSource{Driver: oneOf(w.Rand, "csi0", "csi0", "csi1", "ebs.csi.aws.com"), VolumeHandle: oneOf(w.Rand, name, "vol-"+name)}
	}
	return s
}

// inline draws a volume in a pod's own spec.
func (w *volumeWorld) inline() (s corev1.VolumeSource) {
	name, readOnly := oneOf(w.Rand, "v0", "v1"), w.IntN(2) == 0
	switch w.IntN(6) {
	case 0:
		s.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name, ReadOnly: readOnly}
	case 1:
		s.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}
	case 2:
		s.ISCSI = &corev1.ISCSIVolumeSource{IQN: name, ReadOnly: readOnly}
	case 3:
		s.RBD = &corev1.RBDVolumeSource{CephMonitors: oneOf(w.Rand, nil, []string{"m"}, []string{"m", "n"}, []string{"o"}), RBDPool: "rbd", RBDImage: name, ReadOnly: readOnly}
	case 4:
		s.Cinder = &corev1.CinderVolumeSource{VolumeID: name}
	default:
		s.CSI = &corev1.CSIVolumeSource{Driver: "csi0"}
	}
	return s
}

func (w *volumeWorld) claim(i int) {
	if w.IntN(24) == 0 {
		return
	}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("c%d", i), Annotations: map[string]string{}}}
	c.UID = uid(c.Name)
	c.Spec.AccessModes = append(w.modes(), corev1.ReadWriteOnce)
	if class := w.className(); w.IntN(10) == 0 {
		c.Annotations[corev1.BetaStorageClassAnnotation] = class
	} else {
		c.Spec.StorageClassName = oneOf(w.Rand, &class, &class, &class, &class, &class, &class, &class, nil)
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
		if w.IntN(8) > 0 {
			c.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
		}
	}
	if w.IntN(6) == 0 {
		c.Annotations["volume.kubernetes.io/selected-node"] = oneOf(w.Rand, "n0", "n1", "gone")
	}
	if w.IntN(40) == 0 {
		c.DeletionTimestamp, c.Finalizers = &deleted, []string{"kubernetes.io/pvc-protection"}
	}
	if w.IntN(40) == 0 {
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
	if w.IntN(4) == 0 {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "inline", VolumeSource: w.inline()})
	}
	w.pods = append(w.pods, p)
}

// scratch makes the claim of a pod's ephemeral volume.
func (w *volumeWorld) scratch(p *corev1.Pod) {
	class := w.className()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.Name + "-scratch"}}
	c.UID, c.Spec.StorageClassName = uid(c.Name), &class
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: oneOf(w.Rand, p.UID, p.UID, "other"), Controller: new(true)}}
	if w.IntN(6) == 0 {
		c.Spec.VolumeName, c.Annotations = oneOf(w.Rand, "v0", "gone"), map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	}
	w.storage = append(w.storage, c)
}
