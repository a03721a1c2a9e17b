package vpa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/recommend"
	"hilbert.dev/hilbert/control/vpa"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
)

// placeFor is for how long room is kept for a growth. If the controller is gone by then, it is free again.
const placeFor = 30 * time.Minute

// Writer carries out what was decided.
type Writer struct {
	api    *apiserver.Requester
	fence  *lease.Fence
	reader *Reader
	WriterOptions
}

// WriterOptions say how it is written.
type WriterOptions struct {
	// SchedulerName is who keeps room.
	SchedulerName string
	// Namespace is where checkpoints are.
	Namespace string
	// Timeout bounds one write.
	Timeout time.Duration
}

// NewWriter makes a writer of what was decided from a reader's views.
func NewWriter(c *apiserver.Connection, fence *lease.Fence, r *Reader, o WriterOptions) (*Writer, error) {
	api, err := apiserver.NewRequester(apiserver.ForPurpose(c, "recommendation", func(d apiserver.Dial) apiserver.Dial { return fence.Dial(apiserver.BoundUnacknowledged(d, o.Timeout)) }))
	if err != nil {
		return nil, fmt.Errorf("make a client for recommendations: %w", err)
	}
	return &Writer{api: api, fence: fence, reader: r, WriterOptions: o}, nil
}

// Close gives the connections back.
func (w *Writer) Close() { w.api.CloseIdle() }

// call makes one call, if the leadership lasts for it. An answer of one of the codes that are expected is no failure.
func (w *Writer) call(ctx context.Context, c *apiserver.Call, did string, expected ...int) error {
	if !w.fence.Open(time.Now(), w.Timeout) {
		return fmt.Errorf("%s: %w", did, lease.ErrFenced)
	}
	a := w.api.Do(ctx, c, w.Timeout)
	for _, code := range expected {
		if a.Err == nil && a.Code == code {
			return nil
		}
	}
	return a.Failure(did)
}

// Do carries out one action. What names it in metrics: status, checkpoint, reserve, release, resize or evict.
func (w *Writer) Do(ctx context.Context, a *vpa.Action, now time.Time) (what string, err error) {
	switch {
	case a.Status != nil:
		return "status", w.status(ctx, a.Object, a.Status, now)
	case a.Save != nil:
		return "checkpoint", w.save(ctx, a.Object, a.Save)
	case a.Forget != "":
		return "checkpoint", w.forget(ctx, a.Forget)
	case a.Reserve != nil:
		return "reserve", w.reserve(ctx, a.Reserve)
	case a.Release != nil:
		return "release", w.call(ctx, &apiserver.Call{
			Method: http.MethodDelete, Path: reservations(a.Release.Namespace) + "/" + a.Release.Name, ContentType: apiserver.ContentJSON, Accept: apiserver.ContentJSON,
		}, "release the Reservation "+a.Release.Namespace+"/"+a.Release.Name, http.StatusNotFound)
	case a.Resize != nil:
		return "resize", w.resize(ctx, a.Resize)
	case a.Evict != nil:
		return "evict", w.evict(ctx, a.Evict.Pod)
	}
	return "", nil
}

func (w *Writer) status(ctx context.Context, key vpa.Key, s *vpa.Status, now time.Time) error {
	known := w.reader.autoscalers[key]
	if known == nil {
		return nil
	}
	next := body(s, known.Status.Conditions, now.Truncate(time.Second))
	data, err := apiserver.StatusPatch(known.UID, &next)
	if err != nil {
		return fmt.Errorf("encode the status of VerticalPodAutoscaler %s: %w", key, err)
	}
	return w.call(ctx, &apiserver.Call{
		Method: http.MethodPatch, Path: Path(key.Namespace) + "/" + key.Name + "/status",
		ContentType: apiserver.ContentStatus, Accept: apiserver.AcceptMetadataJSON, Body: data,
	}, "write the status of VerticalPodAutoscaler "+key.String(), http.StatusNotFound)
}

func reservations(namespace string) string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + namespace + "/" + v1alpha1.Reservations
}

// reserve asks the scheduler for room on the pod's node. The place is nobody's: no pod carries the label that its owner would have.
func (w *Writer) reserve(ctx context.Context, r *vpa.Reserve) error {
	from, err := json.Marshal(r.From)
	if err != nil {
		return fmt.Errorf("encode what pod %s asks for: %w", r.Pod.Name, err)
	}
	p := r.Pod
	o := v1alpha1.Reservation{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Reservation"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: r.Name, Labels: map[string]string{spec.LabelGrowth: p.UID}, Annotations: map[string]string{spec.AnnotationGrowthFrom: string(from)}},
		Spec: v1alpha1.ReservationSpec{
			Count: 1, TTL: &metav1.Duration{Duration: placeFor},
			Owners: []v1alpha1.ReservationOwner{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{spec.LabelGrowth: p.UID}}}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				SchedulerName: w.SchedulerName, PriorityClassName: p.PriorityClass,
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // the pod is there already
				Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{p.Node}}},
				}}}}},
				Containers: []corev1.Container{{Name: "growth", Resources: corev1.ResourceRequirements{Requests: list(r.Amounts)}}},
			}},
		},
	}
	data, err := json.Marshal(&o)
	if err != nil {
		return fmt.Errorf("encode the Reservation %s/%s: %w", o.Namespace, o.Name, err)
	}
	return w.call(ctx, &apiserver.Call{Method: http.MethodPost, Path: reservations(p.Namespace), ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON, Body: data},
		"reserve room for pod "+p.Namespace+"/"+p.Name, http.StatusConflict)
}

// list writes amounts as quantities; what is 0 is left out.
func list(a recommend.Amounts) corev1.ResourceList {
	out := corev1.ResourceList{}
	if a.CPU > 0 {
		out[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(a.CPU*1000+0.5), resource.DecimalSI)
	}
	if a.Memory > 0 {
		out[corev1.ResourceMemory] = *resource.NewQuantity(int64(a.Memory+0.5), resource.BinarySI)
	}
	return out
}

// resize changes a container's resources, of the pod with that UID and no other.
func (w *Writer) resize(ctx context.Context, r *vpa.Resize) error {
	resources := map[string]any{"requests": list(r.Requests)}
	if limits := list(r.Limits); len(limits) > 0 {
		resources["limits"] = limits
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.Pod.UID},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": r.Container, "resources": resources}}},
	})
	if err != nil {
		return fmt.Errorf("encode the resize of pod %s/%s: %w", r.Pod.Namespace, r.Pod.Name, err)
	}
	call := &apiserver.Call{Method: http.MethodPatch, ContentType: apiserver.ContentStrategicMerge, Body: data}
	call.About(r.Pod.Namespace, r.Pod.Name, "resize")
	return w.call(ctx, call, "resize pod "+r.Pod.Namespace+"/"+r.Pod.Name)
}

// ErrRefused is the answer that a pod may not be evicted now, by a disruption budget.
var ErrRefused = errors.New("the eviction is refused")

// evict evicts a pod. That it is gone is no failure.
func (w *Writer) evict(ctx context.Context, p *vpa.Pod) error {
	data, err := apiserver.EvictionBody(p.Namespace, p.Name, p.UID, false)
	if err != nil {
		return err
	}
	call := &apiserver.Call{Method: http.MethodPost, ContentType: apiserver.ContentJSON, Body: data}
	call.About(p.Namespace, p.Name, "eviction")
	did := "evict pod " + p.Namespace + "/" + p.Name
	if !w.fence.Open(time.Now(), w.Timeout) {
		return fmt.Errorf("%s: %w", did, lease.ErrFenced)
	}
	a := w.api.Do(ctx, call, w.Timeout)
	switch {
	case a.Err == nil && (a.Code == http.StatusNotFound || a.Code == http.StatusConflict):
		return nil
	case a.Err == nil && a.Code == http.StatusTooManyRequests:
		return fmt.Errorf("%s: %w: %s", did, ErrRefused, a.Status.Message)
	}
	return a.Failure(did)
}
