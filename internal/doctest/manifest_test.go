package doctest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	schedulingv1alpha1 "hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/internal/doctest"
	"hilbert.dev/hilbert/kube/tides"
)

// decode reads an object strictly as the kind that it names: a field that does not exist, or stands twice, is an error.
func decode(t *testing.T, text string) error {
	t.Helper()
	var object map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		return err
	}
	doctest.Complete(object)
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	switch kind := object["kind"]; kind {
	case spec.ConfigurationKind:
		return configuration(t, body)
	case "Queue":
		return yaml.UnmarshalStrict(body, new(schedulingv1alpha1.Queue))
	case "ResourceRequest":
		return yaml.UnmarshalStrict(body, new(schedulingv1alpha1.ResourceRequest))
	case "Reservation":
		return yaml.UnmarshalStrict(body, new(schedulingv1alpha1.Reservation))
	case spec.TidePoolKind:
		pool := new(schedulingv1alpha1.TidePool)
		if err := errors.Join(yaml.UnmarshalStrict(body, pool), spec.ValidateTidePool(&pool.Spec)); err != nil {
			return err
		}
		_, err := tides.Windows(pool.Spec.Schedule)
		return err
	case "CustomNodeResource":
		return yaml.UnmarshalStrict(body, new(nodev1alpha1.CustomNodeResource))
	case spec.NodeConfigurationKind:
		_, err := configfile.ParseNodeConfiguration(body)
		return err
	case "ServiceProfile":
		profile := new(nodev1alpha1.ServiceProfile)
		return errors.Join(yaml.UnmarshalStrict(body, profile), spec.ValidateProfile(&profile.Spec))
	}
	scheme := runtime.NewScheme()
	kinds := runtime.SchemeBuilder{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, autoscalingv2.AddToScheme, schedulingv1.AddToScheme, schedulingv1beta1.AddToScheme,
	}
	if err := kinds.AddToScheme(scheme); err != nil {
		return err
	}
	if _, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(body, nil, nil); err != nil {
		return fmt.Errorf("%v: %w", object["kind"], err)
	}
	return nil
}

// configuration is read and judged as hilbertd does.
func configuration(t *testing.T, body []byte) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hilbertd.yaml")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return err
	}
	c, err := configfile.Load(file)
	if err != nil {
		return err
	}
	for _, w := range configfile.Warnings(body, c) {
		if !strings.Contains(w.Message, " roles is ") { // the page says whose file it is a part of
			err = errors.Join(err, w) // whoever copies it would be warned
		}
	}
	return err
}
