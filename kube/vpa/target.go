package vpa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// targetKinds are where targets are read, by API group and kind.
var targetKinds = map[string]string{
	"apps/v1 Deployment":       "/apis/apps/v1/namespaces/%s/deployments/%s",
	"apps/v1 StatefulSet":      "/apis/apps/v1/namespaces/%s/statefulsets/%s",
	"apps/v1 DaemonSet":        "/apis/apps/v1/namespaces/%s/daemonsets/%s",
	"apps/v1 ReplicaSet":       "/apis/apps/v1/namespaces/%s/replicasets/%s",
	"batch/v1 Job":             "/apis/batch/v1/namespaces/%s/jobs/%s",
	"v1 ReplicationController": "/api/v1/namespaces/%s/replicationcontrollers/%s",
}

// targetsFor is how long a target's selector is believed: it rarely changes.
const targetsFor = 5 * time.Minute

// targets remembers which pods targets select.
type targets struct {
	api   getter
	known map[string]*target // by path
}

type target struct {
	selector labels.Selector
	problem  string
	until    time.Time
}

// selector is what selects the pods of an object's target; a problem is what its status has to say.
func (t *targets) selector(ctx context.Context, a *Autoscaler, now time.Time) (labels.Selector, string, error) {
	ref := &a.Spec.TargetRef
	pattern := targetKinds[ref.APIVersion+" "+ref.Kind]
	if pattern == "" {
		return nil, fmt.Sprintf("spec.targetRef: pods of a %s of %s are not known; name a Deployment, StatefulSet, DaemonSet or ReplicaSet of apps/v1, a Job of batch/v1, or a ReplicationController of v1", ref.Kind, ref.APIVersion), nil
	}
	if len(content.IsPathSegmentName(ref.Name)) > 0 || ref.Name == "" {
		return nil, fmt.Sprintf("spec.targetRef.name: %q is no name", ref.Name), nil
	}
	path := fmt.Sprintf(pattern, a.Namespace, ref.Name)
	if k := t.known[path]; k != nil && now.Before(k.until) {
		return k.selector, k.problem, nil
	}
	for old, k := range t.known {
		if !now.Before(k.until) {
			delete(t.known, old)
		}
	}
	k, err := t.read(ctx, path)
	if err != nil {
		return nil, "", err
	}
	if k.until = now.Add(targetsFor); k.problem != "" {
		k.until = now // it is looked for again in the next round
		k.problem = fmt.Sprintf("spec.targetRef: %s %s: %s", ref.Kind, ref.Name, k.problem)
	}
	t.known[path] = k
	return k.selector, k.problem, nil
}

func (t *targets) read(ctx context.Context, path string) (*target, error) {
	data, err := t.api.get(ctx, path, map[string]string{"resourceVersion": "0"})
	if apierrors.IsNotFound(errors.Unwrap(err)) {
		return &target{problem: "there is none"}, nil
	}
	if err != nil {
		return nil, err
	}
	var object struct {
		Spec struct {
			Selector json.RawMessage `json:"selector"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	selector, problem := selectorOf(object.Spec.Selector)
	return &target{selector: selector, problem: problem}, nil
}

// selectorOf reads a selector: a LabelSelector, or the plain labels of a ReplicationController.
func selectorOf(text json.RawMessage) (labels.Selector, string) {
	var selected metav1.LabelSelector
	var plain map[string]string
	if json.Unmarshal(text, &selected) != nil || len(selected.MatchLabels)+len(selected.MatchExpressions) == 0 {
		if json.Unmarshal(text, &plain) != nil || len(plain) == 0 {
			return nil, "it selects no pods"
		}
		selected = metav1.LabelSelector{MatchLabels: plain}
	}
	selector, err := metav1.LabelSelectorAsSelector(&selected)
	if err != nil {
		return nil, "its selector cannot be read: " + err.Error()
	}
	return selector, ""
}
