package kube

import (
	"context"
	"errors"

	resourcev1 "k8s.io/api/resource/v1"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
)

// served is which of the APIs that an API server may lack are there.
type served struct {
	groups string // the version of scheduling.k8s.io's PodGroup; empty: none
	sigs   string // the same of scheduling.x-k8s.io
	queues string // the version of our Queue
	places string // the version of our Reservation
	// reports is the version of our CustomNodeResource.
	reports string
	devices string // the version of resource.k8s.io; empty: none that we know
	taints  string // the version of its DeviceTaintRule, which came later
}

// survey asks for each of the optional APIs. An error means that it is not known, never that an API is not there.
func survey(ctx context.Context, s *apiserver.Surveyor) (served, error) {
	ctx, cancel := context.WithTimeout(ctx, apiserver.SurveyTimeout)
	defer cancel()
	var out served
	var errs []error
	for _, ask := range []struct {
		group, resource string
		versions        []string
		into            *string
	}{
		{parse.GroupScheduling, parse.PodGroups, parse.PodGroupVersions[:], &out.groups},
		{parse.GroupSigs, parse.PodGroups, []string{parse.VersionSigs}, &out.sigs},
		{v1alpha1.Group, v1alpha1.Queues, []string{v1alpha1.Version}, &out.queues},
		{v1alpha1.Group, v1alpha1.Reservations, []string{v1alpha1.Version}, &out.places},
		{nodev1alpha1.Group, nodev1alpha1.CustomNodeResources, []string{nodev1alpha1.Version}, &out.reports},
		{parse.GroupResource, parse.DRAResources[facts.ResourceClaimKind], []string{resourcev1.SchemeGroupVersion.Version}, &out.devices},
		{parse.GroupResource, parse.DRAResources[facts.DeviceTaintRuleKind], []string{resourcev1.SchemeGroupVersion.Version}, &out.taints},
	} {
		var err error
		*ask.into, err = s.First(ctx, ask.group, ask.versions, ask.resource)
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}
