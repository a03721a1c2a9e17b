package diff

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// upstream is kube-scheduler without its loop: the real cache, the real snapshot and the real framework with the plugins of the default
// profile. Informers are never started; their indexers are filled by hand.
type upstream struct {
	ctx       context.Context // carries the silent logger that every upstream call wants
	framework framework.Framework
	weights   [len(scoreNames)]int64
	state     snapshotLister
	stores    stores

	preemption *defaultpreemption.DefaultPreemption

	cache  internalcache.Cache
	cancel context.CancelFunc
	nodes  map[string]*corev1.Node
	pods   map[string]*corev1.Pod // those in the cache, by UID
	// imagesMoved: some node's images changed. A NodeInfo in upstream's snapshot keeps the number of nodes that had an image when that
	// node itself changed last; all are refreshed, so that the comparison is with what a newly started scheduler would see.
	imagesMoved bool
}

// snapshotLister lets the snapshot be replaced under a framework that was built once.
type snapshotLister struct{ *internalcache.Snapshot }

// stores are the indexers behind the listers that plugins use.
type stores struct {
	namespaces, services, controllers, replicaSets, statefulSets, budgets cache.Indexer
}

func newUpstream(p *Profile) (*upstream, error) {
	registerMetrics()
	profile, err := p.upstream()
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(nil, 0)
	u := &upstream{
		ctx: klog.NewContext(context.Background(), klog.Logger{}),
		stores: stores{
			namespaces:   factory.Core().V1().Namespaces().Informer().GetIndexer(),
			services:     factory.Core().V1().Services().Informer().GetIndexer(),
			controllers:  factory.Core().V1().ReplicationControllers().Informer().GetIndexer(),
			replicaSets:  factory.Apps().V1().ReplicaSets().Informer().GetIndexer(),
			statefulSets: factory.Apps().V1().StatefulSets().Informer().GetIndexer(),
			budgets:      factory.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer(),
		},
	}
	for _, p := range profile.Plugins.MultiPoint.Enabled {
		if k := scoreIndex(p.Name); k >= 0 {
			u.weights[k] = int64(p.Weight)
		}
	}
	if err := u.reset(); err != nil {
		return nil, err
	}
	u.framework, err = runtime.NewFramework(u.ctx, plugins.NewInTreeRegistry(), profile,
		runtime.WithInformerFactory(factory),
		runtime.WithSnapshotSharedLister(&u.state),
		runtime.WithMutableSnapshotLister(&u.state),
		runtime.WithPodNominator(nobody{}),
		runtime.WithSharedDRAManager(noDevices{}),
		runtime.WithParallelism(1),
	)
	if err != nil {
		return nil, err
	}
	u.preemption, err = u.newPreemption()
	return u, err
}

// registerMetrics makes upstream's metrics exist. They are not registered, so they count nothing.
var registerMetrics = sync.OnceFunc(metrics.InitMetrics)

// noDevices stands for a cluster without dynamic resource allocation: no device class backs any extended resource.
type noDevices struct{ fwk.SharedDRAManager }

func (noDevices) DeviceClassResolver() fwk.DeviceClassResolver { return noClasses{} }

type noClasses struct{}

func (noClasses) GetDeviceClass(corev1.ResourceName) *resourceapi.DeviceClass { return nil }

// reset empties the cluster.
func (u *upstream) reset() error {
	if u.cancel != nil {
		u.cancel()
	}
	var ctx context.Context
	ctx, u.cancel = context.WithCancel(u.ctx)
	u.cache = internalcache.New(ctx, nil, false, false)
	u.state.Snapshot = internalcache.NewEmptySnapshot()
	u.nodes, u.pods = make(map[string]*corev1.Node), make(map[string]*corev1.Pod)
	u.imagesMoved = false
	for _, s := range []cache.Indexer{u.stores.namespaces, u.stores.services, u.stores.controllers, u.stores.replicaSets, u.stores.statefulSets, u.stores.budgets} {
		if err := s.Replace(nil, ""); err != nil {
			return fmt.Errorf("empty an indexer: %w", err)
		}
	}
	return nil
}
