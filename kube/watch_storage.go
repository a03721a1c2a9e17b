package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
)

// runStorage watches what pods' volumes depend on.
func (w *Watch) runStorage(ctx context.Context, clients *readers, out outlet, parser func() *parse.Parser, note func(string) *apiserver.Health) {
	name := func(kind facts.StorageKind) string { return parse.StorageResources[kind] }
	claims, kind := clients.core.PersistentVolumeClaims(metav1.NamespaceAll), facts.PersistentVolumeClaim
	w.run(ctx, name(kind), source(claims.List, claims.Watch, "", note(name(kind))), &corev1.PersistentVolumeClaim{}, mirrorStorage(out, kind, parser().Claim))
	volumes, kind := clients.core.PersistentVolumes(), facts.PersistentVolume
	w.run(ctx, name(kind), source(volumes.List, volumes.Watch, "", note(name(kind))), &corev1.PersistentVolume{}, mirrorStorage(out, kind, parser().Volume))
	classes, kind := clients.storage.StorageClasses(), facts.StorageClassKind
	w.run(ctx, name(kind), source(classes.List, classes.Watch, "", note(name(kind))), &storagev1.StorageClass{}, mirrorStorage(out, kind, parser().StorageClass))
	drivers, kind := clients.storage.CSIDrivers(), facts.CSIDriver
	w.run(ctx, name(kind), source(drivers.List, drivers.Watch, "", note(name(kind))), &storagev1.CSIDriver{}, mirrorStorage(out, kind, parser().StorageDriver))
	rooms, kind := clients.storage.CSIStorageCapacities(metav1.NamespaceAll), facts.CSIStorageCapacity
	w.run(ctx, name(kind), source(rooms.List, rooms.Watch, "", note(name(kind))), &storagev1.CSIStorageCapacity{}, mirrorStorage(out, kind, parser().StorageCapacity))
	nodes, kind := clients.storage.CSINodes(), facts.CSINode
	w.run(ctx, name(kind), source(nodes.List, nodes.Watch, "", note(name(kind))), &storagev1.CSINode{}, mirrorStorage(out, kind, parser().StorageNode))
	attachments, kind := clients.storage.VolumeAttachments(), facts.VolumeAttachment
	w.run(ctx, name(kind), source(attachments.List, attachments.Watch, "", note(name(kind))), &storagev1.VolumeAttachment{}, mirrorStorage(out, kind, parser().Attachment))
}
