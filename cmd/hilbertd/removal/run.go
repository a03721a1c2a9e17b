package removal

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/kube/reach"
)

// Namespace is where Hilbert is installed; the admission policies name its accounts there.
const Namespace = "hilbert-system"

// The DaemonSets. The agents' ConfigMap has their name.
const (
	Agent    = "hilbert-agent"
	Watchdog = "hilbert-watchdog"
	Cleanup  = "hilbert-cleanup"
)

const reportsPath = "/apis/" + v1alpha1.Group + "/" + v1alpha1.Version + "/" + v1alpha1.CustomNodeResources

// Options are where Hilbert is installed, and how often Run looks.
type Options struct {
	Target    reach.Target
	Namespace string
	Every     time.Duration
	Log       *slog.Logger
}

// remover is a Run.
type remover struct {
	Options
	inspector *reach.Inspector
}

// Run ends agents and watchdogs, and returns when every node is clean. ctx bounds how long it waits. What it may not do, and nodes that nobody would clean, end it at once.
func Run(ctx context.Context, o Options) error {
	inspector, err := reach.Reach(o.Target)
	if err != nil {
		return err
	}
	r := &remover{o, inspector}
	seen, err := r.look(ctx)
	if err != nil {
		return err
	}
	if v := Judge(seen); v.Refusal != nil {
		return v.Refusal // before any agent has ended
	}
	for _, name := range []string{Agent, Watchdog} {
		if err := r.end(ctx, name); err != nil {
			return fmt.Errorf("end the DaemonSet %s: %w", name, err)
		}
	}
	last := ""
	return r.until(ctx, func() (done bool, err error) {
		seen, err := r.look(ctx)
		if err != nil {
			return false, err
		}
		v := Judge(seen)
		if v.State != last && v.State != "" {
			r.Log.Info(v.State)
			last = v.State
		}
		for _, name := range v.Forget {
			if err := r.delete(ctx, reportsPath+"/"+url.PathEscape(name)); err != nil {
				return false, fmt.Errorf("delete the CustomNodeResource %s: %w", name, err)
			}
		}
		return v.Done(), v.Refusal
	})
}

// until tries something again and again. An API server that does not answer may come back; what it refuses, it will refuse again.
func (r *remover) until(ctx context.Context, try func() (done bool, err error)) error {
	for {
		done, err := try()
		switch {
		case done:
			return nil
		case err == nil:
		case exitcode.Of(err) != exitcode.Unreachable && ctx.Err() == nil:
			return err
		default:
			r.Log.Warn("this will be tried again", "error", err)
		}
		select {
		case <-time.After(r.Every):
		case <-ctx.Done():
			return fmt.Errorf("not all nodes are clean: %w; kubectl -n %s logs daemonset/%s -c cleanup says why", context.Cause(ctx), r.Namespace, Cleanup)
		}
	}
}

// look reads how far it is.
func (r *remover) look(ctx context.Context) (*Seen, error) {
	s := &Seen{Nodes: make(map[string]bool), Covered: make(map[string]bool)}
	if err := r.inspector.Each(ctx, reportsPath, func(o *metav1.PartialObjectMetadata) { s.Reports = append(s.Reports, o.Name) }); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list CustomNodeResources: %w", err)
	}
	var d appsv1.DaemonSet
	err := r.inspector.Get(ctx, r.daemonSet(Cleanup), &d)
	there := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read the DaemonSet %s: %w", Cleanup, err)
	}
	s.Cleanup = there && d.Status.ObservedGeneration >= d.Generation && d.Status.ObservedGeneration > 0
	s.Wanted, s.Ready = int(d.Status.DesiredNumberScheduled), int(d.Status.NumberReady)
	err = r.inspector.Get(ctx, "/api/v1/namespaces/"+url.PathEscape(r.Namespace)+"/configmaps/"+Agent, &metav1.PartialObjectMetadata{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read the ConfigMap %s: %w", Agent, err)
	}
	s.Configured = err == nil
	selector := labels.SelectorFromSet(d.Spec.Template.Spec.NodeSelector)
	if err := r.inspector.Each(ctx, "/api/v1/nodes", func(o *metav1.PartialObjectMetadata) {
		s.Nodes[o.Name] = true
		if there && selector.Matches(labels.Set(o.Labels)) {
			s.Covered[o.Name] = true
		}
	}); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return s, nil
}

// end deletes a DaemonSet and waits until its pods have ended.
func (r *remover) end(ctx context.Context, name string) error {
	if err := r.delete(ctx, r.daemonSet(name)+"?propagationPolicy=Foreground"); err != nil {
		return err
	}
	return r.until(ctx, func() (bool, error) {
		err := r.inspector.Get(ctx, r.daemonSet(name), &metav1.PartialObjectMetadata{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// delete deletes an object; one that is not there is deleted.
func (r *remover) delete(ctx context.Context, path string) error {
	err := r.inspector.Send(ctx, http.MethodDelete, path, nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (r *remover) daemonSet(name string) string {
	return "/apis/apps/v1/namespaces/" + url.PathEscape(r.Namespace) + "/daemonsets/" + name
}
