package diff

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"
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
)

// devicePlugins are upstream's that are compared, and those that no framework is without.
var devicePlugins = []string{names.PrioritySort, names.DefaultBinder, names.DynamicResources}

// upstreamDevices is upstream with the plugin DynamicResources on a cluster: its own manager of claims and its own tracker of slices and rules. Their informers are
// never started; what happens is told to their handlers by hand.
type upstreamDevices struct {
	ctx       context.Context
	framework framework.Framework
	cache     internalcache.Cache
	state     snapshotLister
	weight    int64

	claims  claimEvents
	classes cache.Indexer
	names   *extendedresourcecache.ExtendedResourceCache
	slices  fedInformer[*resourcev1.ResourceSlice]
	rules   fedInformer[*resourcev1.DeviceTaintRule]
}

// claimEvents keeps the handler that the cache of claims registers.
type claimEvents struct{ cache.ResourceEventHandler }

func (e *claimEvents) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	e.ResourceEventHandler = handler
	return registered{}, nil
}

// fedInformer is an informer whose store is filled by hand, and whose handler is called by hand.
type fedInformer[T cache.Object] struct {
	cache.TypedSharedIndexInformer[T]

	handler cache.TypedResourceEventHandler[T]
}

// AddTypedEventHandler keeps the handler.
func (f *fedInformer[T]) AddTypedEventHandler(handler cache.TypedResourceEventHandler[T], _ ...cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	f.handler = handler
	return registered{}, nil
}

// set tells of an object as it is now.
func (f *fedInformer[T]) set(object T) error {
	old, known, err := f.GetIndexer().Get(object)
	if err == nil {
		err = f.GetIndexer().Update(object)
	}
	if err != nil {
		return fmt.Errorf("tell upstream of %s: %w", object.GetName(), err)
	}
	if before, ok := old.(T); known && ok {
		f.handler.OnUpdate(before, object)
	} else {
		f.handler.OnAdd(object, false)
	}
	return nil
}

// remove tells that an object is gone.
func (f *fedInformer[T]) remove(object T) error {
	if err := f.GetIndexer().Delete(object); err != nil {
		return fmt.Errorf("tell upstream that %s is gone: %w", object.GetName(), err)
	}
	f.handler.OnDelete(cache.DeletedObject[T]{OptionalObj: object})
	return nil
}

// registered is the registration of a handler that has nothing to wait for.
type registered struct{}

func (registered) HasSynced() bool                     { return true }
func (registered) HasSyncedChecker() cache.DoneChecker { return registered{} }
func (registered) Name() string                        { return "by hand" }

func (registered) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// fedSlices and fedRules are what the tracker wants of its informers.
type fedSlices struct {
	resourceinformers.TypedResourceSliceInformer

	fed *fedInformer[*resourcev1.ResourceSlice]
}

func (f fedSlices) TypedInformer() resourceinformers.ResourceSliceIndexInformer { return f.fed }

type fedRules struct {
	resourceinformers.TypedDeviceTaintRuleInformer

	fed *fedInformer[*resourcev1.DeviceTaintRule]
}

func (f fedRules) TypedInformer() resourceinformers.DeviceTaintRuleIndexInformer { return f.fed }

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
	published, rules := factory.Resource().V1().ResourceSlices(), factory.Resource().V1().DeviceTaintRules()
	u.slices.TypedSharedIndexInformer = cache.NewTypedSharedIndexInformer[*resourcev1.ResourceSlice](published.Informer())
	u.rules.TypedSharedIndexInformer = cache.NewTypedSharedIndexInformer[*resourcev1.DeviceTaintRule](rules.Informer())
	followed, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true, EnableConsumableCapacity: true,
		SliceInformer: fedSlices{resourceinformers.ToTypedResourceSliceInformer(published), &u.slices},
		TaintInformer: fedRules{resourceinformers.ToTypedDeviceTaintRuleInformer(rules), &u.rules},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start upstream's tracker: %w", err)
	}
	claims := assumecache.NewAssumeCache(klog.Logger{}, &u.claims, "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, claims, followed, factory)
	u.classes = factory.Resource().V1().DeviceClasses().Informer().GetIndexer()
	resolver, ok := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache)
	if !ok {
		return nil, nil, fmt.Errorf("upstream resolves device classes with a %T", manager.DeviceClassResolver())
	}
	u.names = resolver
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
