package parse

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cluster/facts"
)

// The annotations by which the scheduler, the controllers and the drivers speak about claims and volumes.
const (
	// AnnotationSelectedNode of a claim names the node for which a volume is to be provisioned.
	AnnotationSelectedNode = "volume.kubernetes.io/selected-node"
	// AnnotationBoundByController of a volume says that no person has chosen its claim.
	AnnotationBoundByController = "pv.kubernetes.io/bound-by-controller"

	annotationBindCompleted = "pv.kubernetes.io/bind-completed"
	// noProvisioner is the provisioner of classes whose volumes people make.
	noProvisioner = "kubernetes.io/no-provisioner"
)

// storageParser reads claims and volumes, and what classes, drivers and nodes say of them. What is written for an in-tree driver reads as if it were for the CSI driver
// that has taken its volumes over.
//
// What it cannot read selects nothing: a claim whose selector is malformed matches no volume.
type storageParser struct{ *vocabulary }

// claimUses lists the pod's volumes that claims stand for, or that a CSI driver attaches without a claim.
func (p *storageParser) claimUses(pod *corev1.Pod) (uses []facts.ClaimUse) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			uses = append(uses, facts.ClaimUse{Claim: p.strings.get(v.PersistentVolumeClaim.ClaimName)})
		case v.Ephemeral != nil:
			uses = append(uses, facts.ClaimUse{Claim: p.strings.get(pod.Name + "-" + v.Name), Ephemeral: true})
		default:
			if h := p.inlineHandle(v, pod.Namespace); h.Driver != "" {
				uses = append(uses, facts.ClaimUse{Inline: h})
			}
		}
	}
	return uses
}

// Claim parses a claim.
func (p *storageParser) Claim(c *corev1.PersistentVolumeClaim) *facts.Claim {
	out := &facts.Claim{
		ClaimName: facts.ClaimName{Namespace: p.strings.get(c.Namespace), Name: c.Name}, UID: string(c.UID),
		Volume: c.Spec.VolumeName, Lost: c.Status.Phase == corev1.ClaimLost, Deleting: c.DeletionTimestamp != nil,
		SelectedNode: p.strings.get(c.Annotations[AnnotationSelectedNode]),
		Modes:        accessModes(c.Spec.AccessModes), Block: isBlock(c.Spec.VolumeMode),
	}
	out.StorageClass = p.storageClass(c.Annotations, c.Spec.StorageClassName)
	if controller := metav1.GetControllerOfNoCopy(c); controller != nil && controller.Kind == "Pod" {
		out.Pod = facts.UID(controller.UID)
	}
	_, completed := c.Annotations[annotationBindCompleted]
	out.Bound = out.Volume != "" && completed
	if size, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		out.Size, out.Sized = size.Value(), true
	}
	if c.Spec.VolumeAttributesClassName != nil {
		out.Attributes = p.strings.get(*c.Spec.VolumeAttributesClassName)
	}
	if c.Spec.Selector != nil {
		selector, err := p.constraints.selector(c.Spec.Selector)
		if err != nil {
			p.warner.Warn("persistentvolumeclaim "+c.Namespace+"/"+c.Name, "the selector is malformed, and selects no volume", "err", err)
		}
		out.Selector = selector
	}
	if !out.Bound {
		out.Version = c.ResourceVersion
	}
	return out
}

// storageClass is the name of a claim's or volume's class; the annotation comes first, as upstream has it.
func (p *storageParser) storageClass(annotations map[string]string, name *string) string {
	if class, ok := annotations[corev1.BetaStorageClassAnnotation]; ok {
		return p.strings.get(class)
	}
	if name != nil {
		return p.strings.get(*name)
	}
	return ""
}

func accessModes(list []corev1.PersistentVolumeAccessMode) (modes facts.AccessModes) {
	for _, mode := range list {
		switch mode {
		case corev1.ReadWriteOnce:
			modes |= facts.ReadWriteOnce
		case corev1.ReadOnlyMany:
			modes |= facts.ReadOnlyMany
		case corev1.ReadWriteMany:
			modes |= facts.ReadWriteMany
		case corev1.ReadWriteOncePod:
			modes |= facts.ReadWriteOncePod
		}
	}
	return modes
}

func isBlock(mode *corev1.PersistentVolumeMode) bool {
	return mode != nil && *mode == corev1.PersistentVolumeBlock
}

// Volume parses a volume.
func (p *storageParser) Volume(v *corev1.PersistentVolume) *facts.Volume {
	size := v.Spec.Capacity[corev1.ResourceStorage]
	out := &facts.Volume{
		Name: v.Name, StorageClass: p.storageClass(v.Annotations, &v.Spec.StorageClassName), Size: size.Value(),
		Modes: accessModes(v.Spec.AccessModes), Block: isBlock(v.Spec.VolumeMode), Labels: p.labels.of(v.Labels), Zones: p.zones(v.Labels),
		Available: v.Status.Phase == corev1.VolumeAvailable, Deleting: v.DeletionTimestamp != nil,
	}
	if v.Spec.VolumeAttributesClassName != nil {
		out.Attributes = p.strings.get(*v.Spec.VolumeAttributesClassName)
	}
	if ref := v.Spec.ClaimRef; ref != nil {
		out.Claim, out.ClaimUID = facts.ClaimName{Namespace: p.strings.get(ref.Namespace), Name: ref.Name}, string(ref.UID)
	}
	if out.Available || out.Claim != (facts.ClaimName{}) && out.ClaimUID == "" { // it may be bound yet
		out.Version = v.ResourceVersion
	}
	out.Nodes = p.volumeNodes(v)
	p.handle(v, out)
	return out
}

// zones reads the zone and region labels of a volume, which separate several zones by two underscores.
func (p *storageParser) zones(labels map[string]string) (zones []facts.Requirement) {
	for _, key := range facts.ZoneLabels() {
		text, ok := labels[key]
		if !ok {
			continue
		}
		values := strings.Split(text, "__")
		if slices.Contains(values, "") {
			continue // upstream cannot read it, and ignores it
		}
		zones = append(zones, facts.Requirement{Key: key, Operator: facts.In, Values: p.constraints.sortedSet(values)})
	}
	return zones
}

// StorageClass parses a storage class.
func (p *storageParser) StorageClass(c *storagev1.StorageClass) *facts.StorageClass {
	out := &facts.StorageClass{Name: c.Name, Driver: c.Provisioner, Waits: c.VolumeBindingMode != nil && *c.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer}
	if out.Driver == noProvisioner {
		out.Driver = ""
	}
	out.Attaches, out.InTree = attachedBy(c.Provisioner)
	if len(c.AllowedTopologies) > 0 {
		out.Nodes = []facts.Term{}
	}
	for i := range c.AllowedTopologies {
		var term facts.Term
		for _, e := range c.AllowedTopologies[i].MatchLabelExpressions {
			term.Expressions = append(term.Expressions, facts.Requirement{Key: p.strings.get(e.Key), Operator: facts.In, Values: p.constraints.sortedSet(e.Values)})
		}
		if len(term.Expressions) > 0 {
			out.Nodes = append(out.Nodes, term)
		}
	}
	return out
}

// StorageDriver parses a CSI driver.
func (p *storageParser) StorageDriver(d *storagev1.CSIDriver) *facts.StorageDriver {
	said := func(b *bool) bool { return b != nil && *b }
	return &facts.StorageDriver{Name: d.Name, TellsCapacity: said(d.Spec.StorageCapacity), Required: said(d.Spec.PreventPodSchedulingIfMissing)}
}

// StorageCapacity parses what a driver can provision for some nodes. One that names neither a capacity nor a size has room for nothing.
func (p *storageParser) StorageCapacity(c *storagev1.CSIStorageCapacity) *facts.StorageCapacity {
	out := &facts.StorageCapacity{Namespace: p.strings.get(c.Namespace), Name: c.Name, StorageClass: p.strings.get(c.StorageClassName), Most: -1}
	for _, limit := range [...]*apiresource.Quantity{c.Capacity, c.MaximumVolumeSize} {
		if limit != nil {
			out.Most = limit.Value()
		}
	}
	if c.Capacity != nil {
		out.Capacity, out.Told = c.Capacity.Value(), true
	}
	selector, err := p.constraints.selector(c.NodeTopology)
	if err != nil {
		p.warner.Warn("csistoragecapacity "+c.Namespace+"/"+c.Name, "the topology is malformed, and selects no node", "err", err)
	}
	out.Nodes = selector
	return out
}

// StorageResources are the resources of storage objects, by their kind.
var StorageResources = map[facts.StorageKind]string{
	facts.PersistentVolumeClaim: "persistentvolumeclaims",
	facts.PersistentVolume:      "persistentvolumes",
	facts.StorageClassKind:      "storageclasses",
	facts.CSIDriver:             "csidrivers",
	facts.CSIStorageCapacity:    "csistoragecapacities",
	facts.CSINode:               "csinodes",
	facts.VolumeAttachment:      "volumeattachments",
}
