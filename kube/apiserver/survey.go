package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// SurveyTimeout bounds the questions of one survey.
const SurveyTimeout = 15 * time.Second

// Surveyor asks which of the APIs are there. Any authenticated user may: the role system:discovery is everybody's.
type Surveyor struct{ client *discovery.DiscoveryClient }

func NewSurveyor(c *Connection, shared *http.Client) (*Surveyor, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(c, shared)
	if err != nil {
		return nil, err
	}
	return &Surveyor{client}, nil
}

// First returns the First of the versions that has the resource; empty: none does.
func (s *Surveyor) First(ctx context.Context, group string, versions []string, resource string) (string, error) {
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
