package diff

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // the conversions that the scheme needs
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

// TestGeneratedObjectsAreAdmitted: agreement on objects that cannot exist would prove nothing, and a difference on one would mislead.
func TestGeneratedObjectsAreAdmitted(t *testing.T) {
	complaints := make(map[string]int)
	for n := range uint64(300) {
		for _, s := range Generate(5, n).Steps {
			for _, err := range complain(t, &s) {
				kind := string(err.Type) + err.Detail
				if complaints[kind]++; complaints[kind] == 1 {
					t.Errorf("history %d: %v", n, err)
				}
			}
		}
	}
}

// complain returns what an API server would not admit about the object of a step.
func complain(t *testing.T, s *Step) field.ErrorList {
	t.Helper()
	pod := s.Pod
	if s.Judge != nil {
		pod = s.Judge
	}
	switch {
	case pod != nil:
		return complainPod(t, pod.DeepCopy())
	case s.Node != nil:
		node, internal := s.Node.DeepCopy(), new(core.Node)
		legacyscheme.Scheme.Default(node)
		if err := legacyscheme.Scheme.Convert(node, internal, nil); err != nil {
			t.Fatal(err)
		}
		return validation.ValidateNode(internal)
	case s.Namespace != nil:
		internal := new(core.Namespace)
		if err := legacyscheme.Scheme.Convert(s.Namespace, internal, nil); err != nil {
			t.Fatal(err)
		}
		return validation.ValidateNamespace(internal)
	}
	return nil
}

func complainPod(t *testing.T, pod *corev1.Pod) field.ErrorList {
	t.Helper()
	pod.DeletionTimestamp = nil // nobody creates one that is being deleted
	pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	for i := range pod.OwnerReferences {
		if pod.OwnerReferences[i].Controller == nil {
			pod.OwnerReferences[i].Controller = new(false)
		}
	}
	internal := new(core.Pod)
	legacyscheme.Scheme.Default(pod)
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		t.Fatal(err)
	}
	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &metav1.ObjectMeta{}, nil)
	// Features that are off by default, but that a cluster may have.
	options.AllowUserNamespacesHostNetworkSupport, options.AllowRestartAllContainers = true, true
	return validation.ValidatePodCreate(internal, options)
}
