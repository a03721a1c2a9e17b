package kube

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	resourcev1client "k8s.io/client-go/kubernetes/typed/resource/v1"
	schedulingv1beta1client "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
	"k8s.io/client-go/tools/cache"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/optional"
	"hilbert.dev/hilbert/kube/parse"
)

// optionals watches the APIs that an API server may lack: PodGroups of two groups, Queues, CustomNodeResources, and what ResourceClaims depend on. One that is not there is like one without
// objects, and is noticed when it comes.
type optionals struct {
	surveyor  *apiserver.Surveyor
	followers []*apiserver.Follower
	fresh     *freshness      // of the CustomNodeResources
	tracked   *trackedWatches // what leaders write
	guard     *policyGuard    // nil: promises are made without policies too
	health    *apiserver.Health
	period    time.Duration
}

// healthOf is what tells of the trouble with a resource.
func healthOf(log *slog.Logger) func(resource string) *apiserver.Health {
	return func(resource string) *apiserver.Health {
		return &apiserver.Health{Log: log, What: "the API server (" + resource + ")"}
	}
}

func newOptionals(c *apiserver.Connection, shared *http.Client, out outlet, parser func() *parse.Parser, log *slog.Logger) (*optionals, error) {
	surveyor, surveyorErr := apiserver.NewSurveyor(c, shared)
	builtin, builtinErr := schedulingv1beta1client.NewForConfigAndClient(c, shared)
	devices, devicesErr := resourcev1client.NewForConfigAndClient(c, shared)
	if err := errors.Join(surveyorErr, builtinErr, devicesErr); err != nil {
		return nil, err
	}
	note, tracked := healthOf(log), newTrackedWatches()
	book := newUnitBook(out, log)
	groups := func(version string) (*cache.Reflector, error) {
		name := parse.PodGroups + "." + parse.GroupScheduling
		if version == schedulingv1beta1.SchemeGroupVersion.Version {
			client := builtin.PodGroups(metav1.NamespaceAll)
			return newReflector(name, source(client.List, client.Watch, "", note(name)), &schedulingv1beta1.PodGroup{},
				mirrorUnits(book.page(0), parser().PodGroup)), nil
		}
		gv := schema.GroupVersion{Group: parse.GroupScheduling, Version: version}
		client, err := apiserver.NewObjectClient[parse.AlphaPodGroup, parse.ListOf[parse.AlphaPodGroup]](ownScheme, c, shared, gv, parse.PodGroups)
		if err != nil {
			return nil, err
		}
		return newReflector(name, source(client.List, client.Watch, "", note(name)), &parse.AlphaPodGroup{}, mirrorUnits(book.page(0), parser().AlphaPodGroup)), nil
	}
	sigs := func(version string) (*cache.Reflector, error) {
		name := parse.PodGroups + "." + parse.GroupSigs
		client, err := apiserver.NewObjectClient[parse.SigsPodGroup, parse.ListOf[parse.SigsPodGroup]](ownScheme, c, shared, schema.GroupVersion{Group: parse.GroupSigs, Version: version}, parse.PodGroups)
		if err != nil {
			return nil, err
		}
		return newReflector(name, source(client.List, client.Watch, "", note(name)), &parse.SigsPodGroup{}, mirrorUnits(book.page(1), parser().SigsPodGroup)), nil
	}
	queues := func(string) (*cache.Reflector, error) {
		client, err := apiserver.NewObjectClient[v1alpha1.Queue, v1alpha1.QueueList](ownScheme, c, shared, v1alpha1.GroupVersion, v1alpha1.Queues)
		if err != nil {
			return nil, err
		}
		return newReflector(v1alpha1.Queues, source(client.List, client.Watch, "", note(v1alpha1.Queues)), &v1alpha1.Queue{}, mirrorQueues(out, parser())), nil
	}
	reserved := reservationFollowers(sharedClient{c, shared}, out, parser(), tracked, log)
	fresh := newFreshness(out, staleAges{defaultStaleAfter, defaultLentStaleAfter, defaultUsageStaleAfter})
	reports := func(string) (*cache.Reflector, error) {
		name := nodev1alpha1.CustomNodeResources
		client, err := apiserver.NewObjectClient[nodev1alpha1.CustomNodeResource, nodev1alpha1.CustomNodeResourceList](ownScheme, c, shared, nodev1alpha1.GroupVersion, name)
		if err != nil {
			return nil, err
		}
		return newReflector(name, source(client.List, client.Watch, "", note(name)), &nodev1alpha1.CustomNodeResource{}, mirrorReports(fresh, parser())), nil
	}
	return &optionals{
		fresh: fresh, tracked: tracked, surveyor: surveyor, period: optional.SurveyPeriod, health: note("discovery"),
		followers: append([]*apiserver.Follower{
			{What: parse.PodGroups + "." + parse.GroupScheduling, Log: log, Reflector: groups, Absent: func() error { return book.page(0).send(facts.UnitsListed{}) }},
			{What: parse.PodGroups + "." + parse.GroupSigs, Log: log, Reflector: sigs, Absent: func() error { return book.page(1).send(facts.UnitsListed{}) }},
			{What: v1alpha1.Queues + "." + v1alpha1.Group, Log: log, Reflector: queues, Absent: func() error { return out.send(facts.QueuesListed{}) }},
			reserved[0], reserved[1],
			{What: nodev1alpha1.CustomNodeResources + "." + nodev1alpha1.Group, Log: log, Reflector: reports, Absent: fresh.absent},
		}, draFollowers(devices, out, parser, tracked, log)...),
	}, nil
}

// run surveys for ever, soon again when that fails, and lets the followers follow.
func (o *optionals) run(ctx context.Context) {
	var ageing sync.WaitGroup
	ageing.Go(func() { o.fresh.run(ctx) })
	defer func() {
		for _, f := range o.followers {
			f.End()
		}
		ageing.Wait()
	}()
	look := func(ctx context.Context) error {
		if o.guard != nil { // before the first report
			if err := o.guard.look(ctx); err != nil {
				return err
			}
		}
		has, err := optional.Survey(ctx, o.surveyor)
		if err != nil {
			return err
		}
		return o.follow(ctx, has)
	}
	apiserver.Repeat(ctx, o.period, watchBackoffMax, o.health, look)
}

func (o *optionals) follow(ctx context.Context, has optional.APIs) error {
	var errs []error
	for i, version := range [...]string{has.PodGroups, has.SigsPodGroups, has.Queues, has.Reservations, has.Reservations, has.Reports, has.Devices, has.Devices, has.Devices, has.TaintRules} {
		errs = append(errs, o.followers[i].Follow(ctx, version))
	}
	return errors.Join(errs...)
}
