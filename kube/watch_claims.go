package kube

import (
	"log/slog"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcev1client "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
)

// draFollowers watch what dynamic resource allocation depends on, in the order of the kinds. An API server before v1.34 does not have it, one before v1.37 no
// DeviceTaintRules.
func draFollowers(
	clients *resourcev1client.ResourceV1Client, out outlet, parser func() *parse.Parser, tracked *trackedWatches, log *slog.Logger,
) []*apiserver.Follower {
	note := healthOf(log)
	follower := func(kind facts.DRAKind, reflector func(name string) *cache.Reflector) *apiserver.Follower {
		name := parse.DRAResources[kind] + "." + parse.GroupResource
		return &apiserver.Follower{
			What: name, Log: log, Reflector: func(string) (*cache.Reflector, error) { return reflector(name), nil },
			Absent: func() error { return out.send(facts.DRAListed{Kind: kind}) },
		}
	}
	claims, classes := clients.ResourceClaims(metav1.NamespaceAll), clients.DeviceClasses()
	slices, rules := clients.ResourceSlices(), clients.DeviceTaintRules()
	return []*apiserver.Follower{
		follower(facts.ResourceClaimKind, func(name string) *cache.Reflector {
			from := source(claims.List, claims.Watch, "", note(name))
			reflector := newReflector(name, from, &resourcev1.ResourceClaim{}, mirrorDRA(out, facts.ResourceClaimKind, parser().ResourceClaim))
			tracked.track(name, from, reflector.LastSyncResourceVersion)
			return reflector
		}),
		follower(facts.DeviceClassKind, func(name string) *cache.Reflector {
			return newReflector(name, source(classes.List, classes.Watch, "", note(name)), &resourcev1.DeviceClass{}, mirrorDRA(out, facts.DeviceClassKind, parser().DeviceClass))
		}),
		follower(facts.ResourceSliceKind, func(name string) *cache.Reflector {
			return newReflector(name, source(slices.List, slices.Watch, "", note(name)), &resourcev1.ResourceSlice{}, mirrorDRA(out, facts.ResourceSliceKind, parser().ResourceSlice))
		}),
		follower(facts.DeviceTaintRuleKind, func(name string) *cache.Reflector {
			return newReflector(name, source(rules.List, rules.Watch, "", note(name)), &resourcev1.DeviceTaintRule{}, mirrorDRA(out, facts.DeviceTaintRuleKind, parser().DeviceTaintRule))
		}),
	}
}
