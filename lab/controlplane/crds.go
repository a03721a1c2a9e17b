package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/deploy/crds"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	// establishPoll is how often a new definition is asked whether it is served.
	establishPoll = 50 * time.Millisecond
)

// InstallDefinitions creates Hilbert's custom resource definitions and returns when all of them are served. One that is there already
// stays as it is.
func (c *ControlPlane) InstallDefinitions(ctx context.Context) error {
	admin, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	api := admin.Discovery().RESTClient()
	names, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := install(ctx, api, name); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
	}
	return nil
}

func install(ctx context.Context, api rest.Interface, file string) error {
	text, err := fs.ReadFile(crds.Files, file)
	if err != nil {
		return err
	}
	body, err := yaml.ToJSON(text)
	if err != nil {
		return err
	}
	var named metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &named); err != nil {
		return err
	}
	err = createAt(ctx, api, definitionsPath, body)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return awaitEstablished(ctx, api, named.Name)
}

// awaitEstablished waits until the resource of a definition can be asked for.
func awaitEstablished(ctx context.Context, api rest.Interface, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("still not served after %s", readyTimeout))
	defer cancel()
	tick := time.NewTicker(establishPoll)
	defer tick.Stop()
	last := errors.New("never asked")
	for {
		body, err := api.Get().AbsPath(definitionsPath, name).SetHeader("Accept", "application/json").DoRaw(ctx)
		if err == nil {
			var established bool
			if established, last = isEstablished(body); established {
				return nil
			}
		} else if ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
	}
}

// isEstablished reads the conditions of a definition; err says what they lack.
func isEstablished(body []byte) (bool, error) {
	var definition struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(body, &definition); err != nil {
		return false, err
	}
	conditions := definition.Status.Conditions
	if slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == "Established" && c.Status == metav1.ConditionTrue }) {
		return true, nil
	}
	for _, c := range conditions {
		if c.Status == metav1.ConditionFalse && c.Message != "" {
			return false, errors.New(c.Message)
		}
	}
	return false, errors.New("not established")
}
