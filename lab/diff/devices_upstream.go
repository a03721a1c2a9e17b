package diff

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	upstreamruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"hilbert.dev/hilbert/lab/fakeinformer"
)

// devicePlugins are upstream's that are compared, and those that no framework is without.
var devicePlugins = []string{names.PrioritySort, names.DefaultBinder, names.DynamicResources}

// upstreamDevices is upstream with the plugin DynamicResources on a cluster: its own manager of claims and its own tracker of slices and rules. Their informers are
// fed by hand.
type upstreamDevices struct {
	ctx       context.Context
	framework framework.Framework
	cache     internalcache.Cache
	state     snapshotLister
	weight    int64

	claims, classes, slices, rules *fakeinformer.Informer
	names                          *extendedresourcecache.ExtendedResourceCache
}

func newUpstreamDevices(ctx context.Context, nodes []*corev1.Node) (*upstreamDevices, error) {
	registerMetrics()
	c, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("upstream's default configuration: %w", err)
	}
	u := &upstreamDevices{ctx: ctx, cache: internalcache.New(ctx, nil, false, false)}
	u.state.Snapshot = internalcache.NewEmptySnapshot()
	profile := &c.Profiles[0]
	known := func(name string) bool { return slices.Contains(devicePlugins, name) }
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled, func(e config.Plugin) bool { return !known(e.Name) })
	profile.PluginConfig = slices.DeleteFunc(profile.PluginConfig, func(e config.PluginConfig) bool { return !known(e.Name) })
	for _, e := range profile.Plugins.MultiPoint.Enabled {
		if e.Name == names.DynamicResources {
			u.weight = int64(e.Weight)
		}
	}
	manager, factory, err := u.manager(ctx)
	if err != nil {
		return nil, err
	}
	u.framework, err = upstreamruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		upstreamruntime.WithInformerFactory(factory), upstreamruntime.WithSnapshotSharedLister(&u.state), upstreamruntime.WithMutableSnapshotLister(&u.state),
		upstreamruntime.WithPodNominator(nobody{}), upstreamruntime.WithSharedDRAManager(manager), upstreamruntime.WithParallelism(1),
	)
	if err != nil {
		return nil, fmt.Errorf("make upstream's framework: %w", err)
	}
	for _, n := range nodes {
		u.cache.AddNode(klog.Logger{}, n)
	}
	return u, nil
}

func (u *upstreamDevices) manager(ctx context.Context) (*dynamicresources.DefaultDRAManager, informers.SharedInformerFactory, error) {
	factory := informers.NewSharedInformerFactory(nil, 0)
	u.claims, u.classes = fakeinformer.Replace(factory, &resourcev1.ResourceClaim{}), fakeinformer.Replace(factory, &resourcev1.DeviceClass{})
	u.slices, u.rules = fakeinformer.Replace(factory, &resourcev1.ResourceSlice{}), fakeinformer.Replace(factory, &resourcev1.DeviceTaintRule{})
	followed, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true, EnableConsumableCapacity: true,
		SliceInformer: factory.Resource().V1().ResourceSlices(), TaintInformer: factory.Resource().V1().DeviceTaintRules(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start upstream's tracker: %w", err)
	}
	claims := assumecache.NewAssumeCache(klog.Logger{}, u.claims, "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, claims, followed, factory)
	resolver, ok := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache)
	if !ok {
		return nil, nil, fmt.Errorf("upstream resolves device classes with a %T", manager.DeviceClassResolver())
	}
	u.names = resolver
	if _, err := u.classes.AddEventHandler(resolver); err != nil {
		return nil, nil, fmt.Errorf("follow device classes: %w", err)
	}
	return manager, factory, nil
}

// provides is what NodeResourcesFit, which is not among the plugins here, has to say of extended resources: the node has them, or a class stands for them.
func (u *upstreamDevices) provides(pod *corev1.Pod, node fwk.NodeInfo) bool {
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if util.IsDRAExtendedResourceName(name) && !q.IsZero() && node.GetAllocatable().GetScalarResources()[name] == 0 && u.names.GetDeviceClass(name) == nil {
			return false
		}
	}
	return true
}

// judge returns which nodes a pod may go to, by the order of their names, each with its score, and why others are refused.
func (u *upstreamDevices) judge(pod *corev1.Pod) (fits []string, scores map[string]int64, refusals []string, err error) {
	if err := u.cache.UpdateSnapshot(klog.Logger{}, u.state.Snapshot); err != nil {
		return nil, nil, nil, fmt.Errorf("update upstream's snapshot: %w", err)
	}
	nodes, err := u.state.NodeInfos().List()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("list upstream's nodes: %w", err)
	}
	state := framework.NewCycleState()
	if _, status, _ := u.framework.RunPreFilterPlugins(u.ctx, state, pod); !status.IsSuccess() {
		return nil, nil, []string{status.Message()}, nil // an error too keeps the pod waiting
	}
	var feasible []fwk.NodeInfo
	for _, node := range nodes {
		if status := u.framework.RunFilterPlugins(u.ctx, state, pod, node); !status.IsSuccess() {
			refusals = append(refusals, status.Message()) // an error keeps upstream from placing the pod at all, and us from this node
			continue
		}
		if !u.provides(pod, node) {
			continue
		}
		feasible = append(feasible, node)
		fits = append(fits, node.Node().Name)
	}
	slices.Sort(fits)
	if len(feasible) == 0 {
		return fits, nil, refusals, nil
	}
	given, status := u.framework.RunScorePlugins(u.ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return nil, nil, nil, fmt.Errorf("upstream's scores: %w", status.AsError())
	}
	scores = make(map[string]int64)
	for _, s := range given {
		scores[s.Name] = s.TotalScore / u.weight
	}
	return fits, scores, refusals, nil
}
