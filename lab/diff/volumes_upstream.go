package diff

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
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
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	upstreamruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// volumePlugins are upstream's that are compared, and those that no framework is without.
var volumePlugins = []string{names.PrioritySort, names.DefaultBinder, names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone}

// upstreamVolumes is upstream with these plugins on a cluster. Its informers are filled by hand.
type upstreamVolumes struct {
	ctx       context.Context
	framework framework.Framework
	factory   informers.SharedInformerFactory
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
	u := &upstreamVolumes{ctx: ctx, factory: factory, cache: internalcache.New(ctx, nil, false, false)}
	u.state.Snapshot = internalcache.NewEmptySnapshot()
	u.framework, err = upstreamruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		upstreamruntime.WithInformerFactory(factory), upstreamruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
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
	case *storagev1.CSINode:
		return factory.Storage().V1().CSINodes().Informer().GetIndexer()
	case *storagev1.VolumeAttachment:
		return factory.Storage().V1().VolumeAttachments().Informer().GetIndexer()
	default:
		return factory.Storage().V1().CSIStorageCapacities().Informer().GetIndexer()
	}
}

// scores returns upstream's scores of nodes that let the pod in, by name. It must not be asked where upstream falls over its own scores (see scored).
func (u *upstreamVolumes) scores(state fwk.CycleState, pod *corev1.Pod, fits []string) (map[string]int64, error) {
	var nodes []fwk.NodeInfo
	for _, name := range fits {
		node, err := u.state.NodeInfos().Get(name)
		if err != nil {
			return nil, fmt.Errorf("look up node %s: %w", name, err)
		}
		nodes = append(nodes, node)
	}
	if status := u.framework.RunPreScorePlugins(u.ctx, state, pod, nodes); !status.IsSuccess() {
		return nil, fmt.Errorf("prepare scores: %s", status.Message())
	}
	list, status := u.framework.RunScorePlugins(u.ctx, state, pod, nodes)
	if !status.IsSuccess() {
		return nil, fmt.Errorf("score: %s", status.Message())
	}
	scores := make(map[string]int64, len(list))
	for i := range list {
		scores[list[i].Name] = list[i].TotalScore
	}
	return scores, nil
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
