package parse

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"

	"hilbert.dev/hilbert/cluster/facts"
)

// Volumes of cloud providers were once written in words of their own ("in-tree": awsElasticBlockStore and others). CSI drivers have taken them over.
// Upstream's library translates them, so that both are counted as one and a node affinity is about the labels that the CSI driver sets.

// takenOver reports whether volumes of an in-tree plugin are attached by a CSI driver, as upstream has it. Of other plugins nothing is counted.
func takenOver(plugin string) bool {
	switch plugin {
	case plugins.AWSEBSInTreePluginName, plugins.PortworxVolumePluginName, plugins.GCEPDInTreePluginName, plugins.AzureDiskInTreePluginName, plugins.CinderInTreePluginName:
		return true
	}
	return false
}

// attachedBy returns the driver that attaches the volumes of a storage class; empty: that is not counted.
func attachedBy(provisioner string) (driver string, inTree bool) {
	translator := csitranslation.New()
	switch {
	case provisioner == noProvisioner:
		return "", false
	case !translator.IsMigratableIntreePluginByName(provisioner):
		return provisioner, false
	case !takenOver(provisioner):
		return "", false
	}
	driver, err := translator.GetCSINameFromInTreeName(provisioner)
	if err != nil {
		return "", false
	}
	return driver, true
}

// handle fills in by what a volume is counted, and what its node affinity is for CSI.
func (p *storageParser) handle(v *corev1.PersistentVolume, out *facts.Volume) {
	if source := v.Spec.CSI; source != nil {
		out.Handle = facts.VolumeHandle{Driver: p.strings.get(source.Driver), Handle: source.VolumeHandle}
		return
	}
	translator := csitranslation.New()
	if !translator.IsPVMigratable(v) {
		return
	}
	plugin, err := translator.GetInTreePluginNameFromSpec(v, nil)
	if err != nil || !takenOver(plugin) {
		return
	}
	translated, err := translator.TranslateInTreePVToCSI(klog.Logger{}, v)
	if err != nil || translated.Spec.CSI == nil {
		p.warner.Warn("persistentvolume "+v.Name, "it cannot be translated for its CSI driver: it is not counted among what is attached, and nodes that have the driver are refused",
			"plugin", plugin, "err", err)
		out.InTree, out.Translated = plugin, []facts.Term{}
		return
	}
	out.InTree, out.Translated = plugin, p.volumeNodes(translated)
	out.Handle = facts.VolumeHandle{Driver: p.strings.get(translated.Spec.CSI.Driver), Handle: translated.Spec.CSI.VolumeHandle}
}

// volumeNodes is the node affinity of a volume.
func (p *storageParser) volumeNodes(v *corev1.PersistentVolume) []facts.Term {
	affinity := v.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	terms := []facts.Term{} // not nil: without a term that can match, nothing does
	for i := range affinity.Required.NodeSelectorTerms {
		if term, ok := p.constraints.term(&affinity.Required.NodeSelectorTerms[i]); ok {
			terms = append(terms, term)
		}
	}
	return terms
}

// inlineHandle is by what a volume in a pod's own spec is counted; the zero value: it is not.
func (p *storageParser) inlineHandle(v *corev1.Volume, namespace string) (h facts.VolumeHandle) {
	translator := csitranslation.New()
	if !translator.IsInlineMigratable(v) {
		return h
	}
	plugin, err := translator.GetInTreePluginNameFromSpec(nil, v)
	if err != nil || !takenOver(plugin) {
		return h
	}
	translated, err := translator.TranslateInTreeInlineVolumeToCSI(klog.Logger{}, v, namespace)
	if err != nil || translated.Spec.CSI == nil {
		return h
	}
	return facts.VolumeHandle{Driver: p.strings.get(translated.Spec.CSI.Driver), Handle: translated.Spec.CSI.VolumeHandle}
}

// disks lists the volumes in a pod's own spec that two pods on one node must not both have.
func disks(s *corev1.PodSpec) (list []facts.Disk) {
	for i := range s.Volumes {
		switch v := &s.Volumes[i]; {
		case v.GCEPersistentDisk != nil:
			list = append(list, facts.Disk{Kind: "gcePersistentDisk", Name: v.GCEPersistentDisk.PDName, ReadOnly: v.GCEPersistentDisk.ReadOnly})
		case v.AWSElasticBlockStore != nil:
			list = append(list, facts.Disk{Kind: "awsElasticBlockStore", Name: v.AWSElasticBlockStore.VolumeID})
		case v.ISCSI != nil:
			list = append(list, facts.Disk{Kind: "iscsi", Name: v.ISCSI.IQN, ReadOnly: v.ISCSI.ReadOnly})
		case v.RBD != nil:
			list = append(list, facts.Disk{Kind: "rbd", Name: v.RBD.RBDPool + "/" + v.RBD.RBDImage, ReadOnly: v.RBD.ReadOnly, Monitors: slices.Clone(v.RBD.CephMonitors)})
		}
	}
	slices.SortFunc(list, facts.Disk.Compare)
	return list
}

// StorageNode parses what a node says of its drivers.
func (p *storageParser) StorageNode(n *storagev1.CSINode) *facts.StorageNode {
	out := &facts.StorageNode{Node: n.Name}
	for i := range n.Spec.Drivers {
		d := facts.NodeDriver{Name: p.strings.get(n.Spec.Drivers[i].Name)}
		if most := n.Spec.Drivers[i].Allocatable; most != nil && most.Count != nil {
			d.Limit, d.Limited = int64(*most.Count), true
		}
		out.Drivers = append(out.Drivers, d)
	}
	slices.SortStableFunc(out.Drivers, func(a, b facts.NodeDriver) int { return strings.Compare(a.Name, b.Name) })
	if list := n.Annotations[corev1.MigratedPluginsAnnotationKey]; list != "" {
		out.Migrated = p.constraints.sortedSet(strings.Split(list, ","))
	}
	return out
}

// Attachment parses that a volume is attached. One that names no PersistentVolume is of none.
func (p *storageParser) Attachment(a *storagev1.VolumeAttachment) *facts.Attachment {
	out := &facts.Attachment{Name: a.Name, Node: p.strings.get(a.Spec.NodeName), Driver: p.strings.get(a.Spec.Attacher)}
	if a.Spec.Source.PersistentVolumeName != nil {
		out.Volume = *a.Spec.Source.PersistentVolumeName
	}
	return out
}
