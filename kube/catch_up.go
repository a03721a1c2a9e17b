package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
)

const (
	// catchUpMost bounds how long a Watch tries to find out whether it has seen everything.
	catchUpMost = 10 * time.Second
	// probeSeconds is how long the API server may keep a probe open. It sends a bookmark two seconds before that, at the latest a second and a quarter after
	// then (k8s.io/apiserver, storage/cacher).
	probeSeconds = 3
	// catchUpPoll is how often a watch is asked how far it is.
	catchUpPoll = 5 * time.Millisecond
)

// trackedWatches are the watches of which CatchUp asks how far they are, by resource.
type trackedWatches struct {
	mu sync.Mutex
	of map[string]*trackedWatch
}

func newTrackedWatches() *trackedWatches { return &trackedWatches{of: make(map[string]*trackedWatch)} }

// trackedWatch is the watch of one resource: how to ask the API server for the resource, and how far the watch is.
type trackedWatch struct {
	name   string
	source cache.ListerWatcher
	seen   func() string // the resource version up to which everything was delivered; empty: not known
}

// track adds the watch of a resource, in place of an earlier one.
func (c *trackedWatches) track(name string, source cache.ListerWatcher, seen func() string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[name] = &trackedWatch{name, source, seen}
}

func (c *trackedWatches) all() (out []*trackedWatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range writtenByLeaders {
		if r := c.of[name]; r != nil {
			out = append(out, r)
		}
	}
	return out
}

// CatchUp puts a facts.CaughtUp among the events: after all that the API server had agreed on before the call about what a leader writes (pods, volumes and
// their claims, device claims). It does so within seconds, without a list of everything; where it cannot, the event has the reason. It returns at once.
//
// How: a list of one object tells the newest resource version R. A second watch begins where the resource's own is, at L. All that it brings up to a bookmark of R or
// later is all that happened between L and R; so the resource's own watch has caught up as soon as it has delivered the last of that. A bookmark can be had from an API
// server only shortly before a watch ends, therefore the second one is a short one. Its own watch cannot tell: without changes it hears nothing for a minute.
//
// Example: a pod was bound at 120, while the pods' watch was at 110; a node changed at 125. R is 125. The second watch brings the pod at 120 and a bookmark of 125, and
// the event follows when the first watch has delivered 120.
func (w *Watch) CatchUp() {
	w.running.Go(func() {
		ctx, cancel := context.WithTimeoutCause(w.ctx, catchUpMost, fmt.Errorf("not within %s", catchUpMost))
		defer cancel()
		watches := w.tracked.all()
		errs := make([]error, len(watches))
		var group sync.WaitGroup
		for i, r := range watches {
			group.Go(func() { errs[i] = r.catchUp(ctx) })
		}
		group.Wait()
		event := facts.CaughtUp{}
		if err := errors.Join(errs...); err != nil {
			event.Failure = err.Error()
		}
		_ = outlet{w.ctx, w.events}.send(event) // who stops the watch wants no answer
	})
}

// catchUp returns when the watch has delivered all that was agreed on before the call.
func (r *trackedWatch) catchUp(ctx context.Context) error {
	newest, err := r.newest(ctx)
	if err != nil {
		return fmt.Errorf("read the resource version of %s: %w", r.name, err)
	}
	for {
		from := r.seen()
		if from == "" {
			return fmt.Errorf("%s: no list is complete yet", r.name)
		}
		if reached, err := atLeast(from, newest); err != nil || reached {
			return err
		}
		target, complete, err := r.probe(ctx, from, newest)
		if err != nil {
			return fmt.Errorf("look for changes of %s after %s: %w", r.name, from, err)
		}
		if complete {
			return r.await(ctx, target)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("look for changes of %s after %s: %w", r.name, from, context.Cause(ctx))
		}
	}
}

// newest is the resource version of everything that is agreed on now.
func (r *trackedWatch) newest(ctx context.Context) (string, error) {
	list, err := cache.ToListerWatcherWithContext(r.source).ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	meta, err := apimeta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	return meta.GetResourceVersion(), nil
}

// probe finds the last change between two resource versions: from itself if there is none. complete is false when the API server ended the watch before it had told all.
func (r *trackedWatch) probe(ctx context.Context, from, newest string) (last string, complete bool, err error) {
	seconds := int64(probeSeconds)
	w, err := cache.ToListerWatcherWithContext(r.source).WatchWithContext(ctx, metav1.ListOptions{
		ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		return "", false, err
	}
	defer w.Stop()
	last = from
	for {
		var event watch.Event
		var open bool
		select {
		case event, open = <-w.ResultChan():
		case <-ctx.Done():
			return "", false, context.Cause(ctx)
		}
		if !open {
			return "", false, nil
		}
		if event.Type == watch.Error {
			return "", false, apierrors.FromObject(event.Object)
		}
		version, err := resourceVersionOf(event.Object)
		if err != nil {
			return "", false, err
		}
		if event.Type != watch.Bookmark {
			last = version
		}
		if reached, err := atLeast(version, newest); err != nil || reached {
			return last, err == nil, err
		}
	}
}

// await returns when the watch has delivered what happened at a resource version.
func (r *trackedWatch) await(ctx context.Context, target string) error {
	tick := time.NewTicker(catchUpPoll)
	defer tick.Stop()
	for {
		seen := r.seen()
		if seen == "" {
			return fmt.Errorf("%s: the watch began anew", r.name)
		}
		if reached, err := atLeast(seen, target); err != nil || reached {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the watch of %s, which is at %s, to reach %s: %w", r.name, seen, target, context.Cause(ctx))
		}
	}
}

func resourceVersionOf(object runtime.Object) (string, error) {
	meta, err := apimeta.Accessor(object)
	if err != nil {
		return "", err
	}
	return meta.GetResourceVersion(), nil
}

// atLeast compares resource versions, which are numbers by Kubernetes' own conformance since 1.35.
func atLeast(version, least string) (bool, error) {
	order, err := resourceversion.CompareResourceVersion(version, least)
	return order >= 0, err
}

// writtenByLeaders are the watches of what decisions of an earlier leader change. Reservations and resource claims are only there where the API server has them.
var writtenByLeaders = []string{"pods", "persistentvolumeclaims", "persistentvolumes", v1alpha1.Reservations, "resourceclaims." + parse.GroupResource}
