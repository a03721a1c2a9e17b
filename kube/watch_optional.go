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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/gentype"
	schedulingv1beta1client "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
)

const (
	// surveyPeriod is how often the API server is asked which of the APIs that it may lack it has now.
	surveyPeriod = 30 * time.Second
	// surveyJitter is the part of a period by which it may be longer.
	surveyJitter = 0.1
	// goneAfter surveys in a row must miss an API before what it told is forgotten: queues that vanish for a moment would lift every limit.
	goneAfter = 2
)

// optionals watches the APIs that an API server may lack: PodGroups of two groups, Queues, and CustomNodeResources. One that is not there is like one without
// objects, and is noticed when it comes.
type optionals struct {
	surveyor  *surveyor
	followers []*follower
	fresh     *freshness // of the CustomNodeResources
	health    *health
	period    time.Duration
}

// follower watches one API under the version that it is served under.
type follower struct {
	what string
	log  *slog.Logger
	// reflector makes what lists and watches a version; it is started once for each.
	reflector func(version string) (*cache.Reflector, error)
	// absent tells that there are no objects.
	absent func() error

	told    bool
	version string // empty: nothing runs
	missed  int    // surveys in a row
	stop    func()
}

func newOptionals(c *Connection, shared *http.Client, out outlet, parser func() *Parser, log *slog.Logger) (*optionals, error) {
	surveyor, surveyorErr := newSurveyor(c, shared)
	builtin, builtinErr := schedulingv1beta1client.NewForConfigAndClient(c, shared)
	if err := errors.Join(surveyorErr, builtinErr); err != nil {
		return nil, err
	}
	note := func(resource string) *health { return &health{log: log, what: "the API server (" + resource + ")"} }
	book := newUnitBook(out, log)
	groups := func(version string) (*cache.Reflector, error) {
		name := podGroups + "." + groupScheduling
		if version == schedulingv1beta1.SchemeGroupVersion.Version {
			client := builtin.PodGroups(metav1.NamespaceAll)
			return newReflector(name, source(client.List, client.Watch, "", note(name)), &schedulingv1beta1.PodGroup{},
				mirrorUnits(book.page(0), parser().PodGroup)), nil
		}
		gv := schema.GroupVersion{Group: groupScheduling, Version: version}
		client, err := ownClient[alphaPodGroup, listOf[alphaPodGroup]](c, shared, gv, podGroups)
		if err != nil {
			return nil, err
		}
		return newReflector(name, source(client.List, client.Watch, "", note(name)), &alphaPodGroup{}, mirrorUnits(book.page(0), parser().alphaPodGroup)), nil
	}
	sigs := func(version string) (*cache.Reflector, error) {
		name := podGroups + "." + groupSigs
		client, err := ownClient[sigsPodGroup, listOf[sigsPodGroup]](c, shared, schema.GroupVersion{Group: groupSigs, Version: version}, podGroups)
		if err != nil {
			return nil, err
		}
		return newReflector(name, source(client.List, client.Watch, "", note(name)), &sigsPodGroup{}, mirrorUnits(book.page(1), parser().sigsPodGroup)), nil
	}
	queues := func(string) (*cache.Reflector, error) {
		client, err := ownClient[v1alpha1.Queue, v1alpha1.QueueList](c, shared, v1alpha1.GroupVersion, v1alpha1.Queues)
		if err != nil {
			return nil, err
		}
		return newReflector(v1alpha1.Queues, source(client.List, client.Watch, "", note(v1alpha1.Queues)), &v1alpha1.Queue{}, mirrorQueues(out, parser())), nil
	}
	fresh := newFreshness(out, defaultStaleAfter, defaultLentStaleAfter)
	reports := func(string) (*cache.Reflector, error) {
		name := nodev1alpha1.CustomNodeResources
		client, err := ownClient[nodev1alpha1.CustomNodeResource, nodev1alpha1.CustomNodeResourceList](c, shared, nodev1alpha1.GroupVersion, name)
		if err != nil {
			return nil, err
		}
		return newReflector(name, source(client.List, client.Watch, "", note(name)), &nodev1alpha1.CustomNodeResource{}, mirrorReports(fresh, parser())), nil
	}
	return &optionals{
		fresh: fresh, surveyor: surveyor, period: surveyPeriod, health: note("discovery"),
		followers: []*follower{
			{what: podGroups + "." + groupScheduling, log: log, reflector: groups, absent: func() error { return book.page(0).send(facts.UnitsListed{}) }},
			{what: podGroups + "." + groupSigs, log: log, reflector: sigs, absent: func() error { return book.page(1).send(facts.UnitsListed{}) }},
			{what: v1alpha1.Queues + "." + v1alpha1.Group, log: log, reflector: queues, absent: func() error { return out.send(facts.QueuesListed{}) }},
			{what: nodev1alpha1.CustomNodeResources + "." + nodev1alpha1.Group, log: log, reflector: reports, absent: fresh.absent},
		},
	}, nil
}

// object is a pointer to a T that the machinery can carry.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// ownList is a pointer to a list of them.
type ownList[L any] interface {
	*L
	runtime.Object
}

// ownClient reads objects that only ownScheme knows, in JSON.
func ownClient[T, L any, O object[T], P ownList[L]](c *Connection, shared *http.Client, gv schema.GroupVersion, resource string) (*gentype.ClientWithList[O, P], error) {
	own := rest.CopyConfig(c)
	own.APIPath, own.GroupVersion = "/apis", &gv
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	own.NegotiatedSerializer = serializer.NewCodecFactory(ownScheme).WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(own, shared)
	if err != nil {
		return nil, err
	}
	return gentype.NewClientWithList[O, P](resource, client, runtime.NewParameterCodec(ownScheme), metav1.NamespaceAll,
		func() O { return new(T) }, func() P { return new(L) }), nil
}

// run surveys for ever, soon again when that fails, and lets the followers follow.
func (o *optionals) run(ctx context.Context) {
	var ageing sync.WaitGroup
	ageing.Go(func() { o.fresh.run(ctx) })
	defer func() {
		for _, f := range o.followers {
			f.end()
		}
		ageing.Wait()
	}()
	look := func(ctx context.Context) error {
		has, err := o.surveyor.survey(ctx)
		if err != nil {
			return err
		}
		return o.follow(ctx, has)
	}
	repeat(ctx, o.period, watchBackoffMax, o.health, look)
}

// repeat looks for ever: after each period, a little longer each time so that processes spread out, and sooner again while that fails, after at most
// most.
func repeat(ctx context.Context, period, most time.Duration, h *health, look func(context.Context) error) {
	backoff := wait.Backoff{Duration: watchBackoffFirst, Cap: most, Factor: watchBackoffFactor, Jitter: watchBackoffJitter, Steps: 16}
	failing := backoff
	for ctx.Err() == nil {
		err := look(ctx)
		h.note(err)
		pause := wait.Jitter(period, surveyJitter)
		if err != nil {
			pause = failing.Step()
		} else {
			failing = backoff
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (o *optionals) follow(ctx context.Context, has served) error {
	var errs []error
	for i, version := range [...]string{has.groups, has.sigs, has.queues, has.reports} {
		errs = append(errs, o.followers[i].follow(ctx, version))
	}
	return errors.Join(errs...)
}

// follow makes the follower watch a version, or none.
func (f *follower) follow(ctx context.Context, version string) error {
	if version == "" && f.version != "" {
		if f.missed++; f.missed < goneAfter {
			return nil
		}
	}
	f.missed = 0
	if f.told && version == f.version {
		return nil
	}
	if f.told {
		f.log.Info("the API server offers something else now", "api", f.what, "before", f.version, "now", version)
	}
	f.end()
	if version == "" {
		f.told = true
		return f.absent()
	}
	reflector, err := f.reflector(version)
	if err != nil {
		return err
	}
	f.told, f.version = true, version
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		reflector.RunWithContext(ctx)
	}()
	f.stop = func() {
		cancel()
		<-done
	}
	return nil
}

// end stops what runs and waits for it.
func (f *follower) end() {
	if f.stop != nil {
		f.stop()
	}
	f.stop, f.version = nil, ""
}
