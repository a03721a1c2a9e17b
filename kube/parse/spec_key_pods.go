package parse

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podAffinity spells out whom the pod wants near or far. The namespace decides what a term without namespaces means; nearly every pod
// has no term, and shares its Requirements across namespaces.
func (k *specKey) podAffinity(pod *corev1.Pod) {
	a := pod.Spec.Affinity
	if a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil {
		k.num(0)
		return
	}
	k.num(1)
	k.str(pod.Namespace)
	if near := a.PodAffinity; near != nil {
		k.podTerms(near.RequiredDuringSchedulingIgnoredDuringExecution, near.PreferredDuringSchedulingIgnoredDuringExecution)
	} else {
		k.podTerms(nil, nil)
	}
	if far := a.PodAntiAffinity; far != nil {
		k.podTerms(far.RequiredDuringSchedulingIgnoredDuringExecution, far.PreferredDuringSchedulingIgnoredDuringExecution)
	} else {
		k.podTerms(nil, nil)
	}
}

func (k *specKey) podTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	k.num(int64(len(required)))
	for i := range required {
		k.podTerm(&required[i])
	}
	k.num(int64(len(preferred)))
	for i := range preferred {
		k.num(int64(preferred[i].Weight))
		k.podTerm(&preferred[i].PodAffinityTerm)
	}
}

func (k *specKey) podTerm(t *corev1.PodAffinityTerm) {
	k.str(t.TopologyKey)
	k.labelSelector(t.LabelSelector)
	k.strings(t.Namespaces)
	k.labelSelector(t.NamespaceSelector)
}

func (k *specKey) labelSelector(s *metav1.LabelSelector) {
	if s == nil {
		k.num(-1)
		return
	}
	k.stringMap(s.MatchLabels)
	k.num(int64(len(s.MatchExpressions)))
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		k.str(e.Key)
		k.str(string(e.Operator))
		k.strings(e.Values)
	}
}

// spread spells the spread constraints out, with those of the pod's own labels that they name.
func (k *specKey) spread(pod *corev1.Pod) {
	constraints := pod.Spec.TopologySpreadConstraints
	k.num(int64(len(constraints)))
	if len(constraints) == 0 {
		return
	}
	k.str(pod.Namespace)
	for i := range constraints {
		c := &constraints[i]
		k.str(c.TopologyKey)
		k.num(int64(c.MaxSkew))
		k.str(string(c.WhenUnsatisfiable))
		k.flag(c.MinDomains != nil)
		if c.MinDomains != nil {
			k.num(int64(*c.MinDomains))
		}
		k.policy(c.NodeAffinityPolicy)
		k.policy(c.NodeTaintsPolicy)
		k.labelSelector(c.LabelSelector)
		k.num(int64(len(c.MatchLabelKeys)))
		for _, key := range c.MatchLabelKeys {
			value, ok := pod.Labels[key]
			k.str(key)
			k.flag(ok)
			k.str(value)
		}
	}
}

func (k *specKey) policy(p *corev1.NodeInclusionPolicy) {
	k.flag(p != nil)
	if p != nil {
		k.str(string(*p))
	}
}

// images spells out which images the pod uses; takes has told how many containers there are.
func (k *specKey) images(s *corev1.PodSpec) {
	for i := range s.InitContainers {
		k.str(s.InitContainers[i].Image)
	}
	for i := range s.Containers {
		k.str(s.Containers[i].Image)
	}
	for i := range s.Volumes {
		if image := s.Volumes[i].Image; image != nil {
			k.num(1)
			k.str(image.Reference)
		}
	}
	k.num(0)
}
