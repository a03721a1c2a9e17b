package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyInto copies into out.
func (q *Queue) DeepCopyInto(out *Queue) {
	*out = *q
	q.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	q.Spec.DeepCopyInto(&out.Spec)
	q.Status.DeepCopyInto(&out.Status)
}

// DeepCopy returns a copy.
func (q *Queue) DeepCopy() *Queue {
	if q == nil {
		return nil
	}
	out := new(Queue)
	q.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy.
func (q *Queue) DeepCopyObject() runtime.Object { return q.DeepCopy() }

// DeepCopyInto copies into out.
func (s *QueueSpec) DeepCopyInto(out *QueueSpec) {
	*out = *s
	out.Guaranteed, out.Max = s.Guaranteed.DeepCopy(), s.Max.DeepCopy()
	if s.HistoryHalfLife != nil {
		out.HistoryHalfLife = new(*s.HistoryHalfLife)
	}
	if s.ReclaimMinRuntime != nil {
		out.ReclaimMinRuntime = new(*s.ReclaimMinRuntime)
	}
	out.NamespaceSelector = s.NamespaceSelector.DeepCopy()
}

// DeepCopyInto copies into out.
func (s *QueueStatus) DeepCopyInto(out *QueueStatus) {
	*out = *s
	out.Used, out.Borrowed, out.FairShare = s.Used.DeepCopy(), s.Borrowed.DeepCopy(), s.FairShare.DeepCopy()
	out.Conditions = slices.Clone(s.Conditions)
}

// DeepCopyObject returns a copy.
func (l *QueueList) DeepCopyObject() runtime.Object {
	out := &QueueList{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]Queue, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
