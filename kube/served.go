package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
)

// surveyTimeout bounds the questions of one survey.
const surveyTimeout = 15 * time.Second

// served is which of the APIs that an API server may lack are there.
type served struct {
	groups string // the version of scheduling.k8s.io's PodGroup; empty: none
	sigs   string // the same of scheduling.x-k8s.io
	queues string // the version of our Queue
	// reports is the version of our CustomNodeResource.
	reports string
}

// surveyor asks which of the APIs are there. Any authenticated user may: the role system:discovery is everybody's.
type surveyor struct{ client *discovery.DiscoveryClient }

func newSurveyor(c *Connection, shared *http.Client) (*surveyor, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(c, shared)
	if err != nil {
		return nil, err
	}
	return &surveyor{client}, nil
}

// survey asks for each API. An error means that it is not known, never that an API is not there.
func (s *surveyor) survey(ctx context.Context) (served, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	var out served
	var errs []error
	for _, ask := range []struct {
		group, resource string
		versions        []string
		into            *string
	}{
		{groupScheduling, podGroups, podGroupVersions[:], &out.groups},
		{groupSigs, podGroups, []string{versionSigs}, &out.sigs},
		{v1alpha1.Group, v1alpha1.Queues, []string{v1alpha1.Version}, &out.queues},
		{nodev1alpha1.Group, nodev1alpha1.CustomNodeResources, []string{nodev1alpha1.Version}, &out.reports},
	} {
		var err error
		*ask.into, err = s.first(ctx, ask.group, ask.versions, ask.resource)
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// first returns the first of the versions that has the resource; empty: none does.
func (s *surveyor) first(ctx context.Context, group string, versions []string, resource string) (string, error) {
	for _, version := range versions {
		gv := schema.GroupVersion{Group: group, Version: version}
		list, err := s.client.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return "", fmt.Errorf("ask for %s: %w", gv, err)
		case slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }):
			return version, nil
		}
	}
	return "", nil
}
