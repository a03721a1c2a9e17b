// Package optional is which of the APIs that Hilbert uses an API server may lack, and has.
//
// The watch asks for them each SurveyPeriod and follows those that are there; the writer asks to know where a PodGroup is. For example, on a cluster without Hilbert's definitions
// APIs.Queues is empty, and becomes v1alpha1 once they are applied.
//
// Invariants: an error means that it is not known, never that an API is not there. An API of which no version is served that Hilbert knows counts as absent.
// It watches and reads no object itself.
package optional

import (
	"context"
	"errors"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
)

// SurveyPeriod is how often the API server is asked which of the APIs that it may lack it has now.
const SurveyPeriod = 30 * time.Second

// APIs is which of them are there, each with the version to use; empty: it is not there.
type APIs struct {
	PodGroups     string // of scheduling.k8s.io
	SigsPodGroups string // of scheduling.x-k8s.io
	Queues        string
	Reservations  string
	Reports       string // CustomNodeResources
	Devices       string // ResourceClaims of resource.k8s.io
	TaintRules    string // its DeviceTaintRules, which came later
}

// Survey asks for each of them.
func Survey(ctx context.Context, s *apiserver.Surveyor) (APIs, error) {
	ctx, cancel := context.WithTimeout(ctx, apiserver.SurveyTimeout)
	defer cancel()
	var out APIs
	var errs []error
	for _, ask := range []struct {
		group, resource string
		versions        []string
		into            *string
	}{
		{parse.GroupScheduling, parse.PodGroups, parse.PodGroupVersions[:], &out.PodGroups},
		{parse.GroupSigs, parse.PodGroups, []string{parse.VersionSigs}, &out.SigsPodGroups},
		{v1alpha1.Group, v1alpha1.Queues, []string{v1alpha1.Version}, &out.Queues},
		{v1alpha1.Group, v1alpha1.Reservations, []string{v1alpha1.Version}, &out.Reservations},
		{nodev1alpha1.Group, nodev1alpha1.CustomNodeResources, []string{nodev1alpha1.Version}, &out.Reports},
		{parse.GroupResource, parse.DRAResources[facts.ResourceClaimKind], []string{resourcev1.SchemeGroupVersion.Version}, &out.Devices},
		{parse.GroupResource, parse.DRAResources[facts.DeviceTaintRuleKind], []string{resourcev1.SchemeGroupVersion.Version}, &out.TaintRules},
	} {
		var err error
		*ask.into, err = s.First(ctx, ask.group, ask.versions, ask.resource)
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}
