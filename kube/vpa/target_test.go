package vpa

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// objects answers by path, and notes what it was asked; without an answer there is none.
type objects struct {
	of    map[string]string
	asked []string
	fails bool
}

func (o *objects) get(_ context.Context, path string, _ map[string]string) ([]byte, error) {
	o.asked = append(o.asked, path)
	switch text, there := o.of[path]; {
	case o.fails:
		return nil, fmt.Errorf("get %s: %w", path, &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError}})
	case !there:
		return nil, fmt.Errorf("get %s: %w", path, apierrors.NewNotFound(schema.GroupResource{}, path))
	default:
		return []byte(text), nil
	}
}

func autoscaler(version, kind, name string) *Autoscaler {
	a := &Autoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "v"}}
	a.Spec.TargetRef.APIVersion, a.Spec.TargetRef.Kind, a.Spec.TargetRef.Name = version, kind, name
	return a
}

// A target is read in its own namespace. What cannot be is a problem of its object alone, and leads nowhere else.
func TestTargets(t *testing.T) {
	const web = `{"spec": {"selector": {"matchLabels": {"app": "web"}}}}`
	for name, c := range map[string]struct {
		object        *Autoscaler
		path, problem string
	}{
		"a Deployment":            {autoscaler("apps/v1", "Deployment", "web"), "/apis/apps/v1/namespaces/shop/deployments/web", ""},
		"a StatefulSet":           {autoscaler("apps/v1", "StatefulSet", "web"), "/apis/apps/v1/namespaces/shop/statefulsets/web", ""},
		"a DaemonSet":             {autoscaler("apps/v1", "DaemonSet", "web"), "/apis/apps/v1/namespaces/shop/daemonsets/web", ""},
		"a ReplicaSet":            {autoscaler("apps/v1", "ReplicaSet", "web"), "/apis/apps/v1/namespaces/shop/replicasets/web", ""},
		"a Job":                   {autoscaler("batch/v1", "Job", "web"), "/apis/batch/v1/namespaces/shop/jobs/web", ""},
		"a ReplicationController": {autoscaler("v1", "ReplicationController", "web"), "/api/v1/namespaces/shop/replicationcontrollers/web", ""},
		"one that is not there":   {autoscaler("apps/v1", "Deployment", "other"), "/apis/apps/v1/namespaces/shop/deployments/other", "Deployment other: there is none"},
		"an unknown kind":         {autoscaler("example.org/v1", "Web", "web"), "", "a Web of example.org/v1"},
		"a known kind of another": {autoscaler("example.org/v1", "Deployment", "web"), "", "a Deployment of example.org/v1"},
		"no name":                 {autoscaler("apps/v1", "Deployment", ""), "", "is no name"},
		"a path":                  {autoscaler("apps/v1", "Deployment", "../../../../v1/namespaces/other/secrets/s"), "", "is no name"},
		"another path":            {autoscaler("apps/v1", "Deployment", ".."), "", "is no name"},
	} {
		api := &objects{of: map[string]string{c.path: web}}
		if strings.Contains(c.problem, "there is none") {
			clear(api.of)
		}
		known := targets{api: api, known: make(map[string]*target)}
		selector, problem, err := known.selector(t.Context(), c.object, time.Unix(1000, 0))
		if err != nil || c.problem == "" != (problem == "") || !strings.Contains(problem, c.problem) {
			t.Errorf("%s: %q, %v", name, problem, err)
		}
		if asked := strings.Join(api.asked, " "); asked != c.path {
			t.Errorf("%s: it asks for %s, want %s", name, asked, c.path)
		}
		if c.problem == "" && (selector == nil || !selector.Matches(labels.Set{"app": "web"}) || selector.Matches(labels.Set{"app": "db"})) {
			t.Errorf("%s: it selects by %v", name, selector)
		}
	}
}

// A selector is believed for a while, and forgotten after it; a target that is not there is looked for each time, and one that could not be read is no target without pods.
func TestTargetsAreRemembered(t *testing.T) {
	api := &objects{of: map[string]string{"/apis/apps/v1/namespaces/shop/deployments/web": `{"spec": {"selector": {"matchLabels": {"app": "web"}}}}`}}
	known, now := targets{api: api, known: make(map[string]*target)}, time.Unix(1000, 0)
	look := func(name string) (string, error) {
		_, problem, err := known.selector(t.Context(), autoscaler("apps/v1", "Deployment", name), now)
		return problem, err
	}
	for i, step := range []struct {
		name   string
		passed time.Duration
		asked  int
		known  int
	}{{"web", 0, 1, 1}, {"web", targetsFor - time.Second, 1, 1}, {"none", 0, 2, 2}, {"none", 0, 3, 2}, {"web", time.Second, 4, 1}, {"web", 0, 4, 1}} {
		now = now.Add(step.passed)
		if _, err := look(step.name); err != nil || len(api.asked) != step.asked || len(known.known) != step.known {
			t.Errorf("step %d: asked %d times, want %d; %d are known, want %d; %v", i, len(api.asked), step.asked, len(known.known), step.known, err)
		}
	}
	api.fails, now = true, now.Add(targetsFor)
	if problem, err := look("web"); err == nil || problem != "" || !apierrors.IsInternalError(errors.Unwrap(err)) && !strings.Contains(err.Error(), "get ") {
		t.Errorf("a target that cannot be read: %q, %v", problem, err)
	}
}
