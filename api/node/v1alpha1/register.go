package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"hilbert.dev/hilbert/api/spec"
)

const (
	// Group and Version are the API group's.
	Group   = spec.NodeGroup
	Version = "v1alpha1"
	// CustomNodeResources is the resource, which has no namespace.
	CustomNodeResources = spec.NodePlural
	// ServiceProfiles is the resource of the ServiceProfiles, which belong to the namespace of their pods.
	ServiceProfiles = spec.ProfilePlural
	// NodeConfigurations is the resource of the NodeConfigurations, which have no namespace.
	NodeConfigurations = spec.NodeConfigurationPlural
)

// GroupVersion is the group and version of the types of this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme makes the types known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &CustomNodeResource{}, &CustomNodeResourceList{}, &ServiceProfile{}, &ServiceProfileList{}, &NodeConfiguration{}, &NodeConfigurationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
