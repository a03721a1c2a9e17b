package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/kube/parse"
)

// ownScheme knows the types that are not client-go's: Queues, CustomNodeResources, and PodGroups that we read by types of ours.
var ownScheme = newOwnScheme()

func newOwnScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		panic(err) // a mistake of ours, which every test finds
	}
	if err := nodev1alpha1.AddToScheme(s); err != nil {
		panic(err)
	}
	add := func(gv schema.GroupVersion, object, list runtime.Object) {
		s.AddKnownTypeWithName(gv.WithKind("PodGroup"), object)
		s.AddKnownTypeWithName(gv.WithKind("PodGroupList"), list)
		metav1.AddToGroupVersion(s, gv)
	}
	for _, version := range parse.PodGroupVersions[1:] {
		add(schema.GroupVersion{Group: parse.GroupScheduling, Version: version}, &parse.AlphaPodGroup{}, &parse.ListOf[parse.AlphaPodGroup]{})
	}
	add(schema.GroupVersion{Group: parse.GroupSigs, Version: parse.VersionSigs}, &parse.SigsPodGroup{}, &parse.ListOf[parse.SigsPodGroup]{})
	return s
}
