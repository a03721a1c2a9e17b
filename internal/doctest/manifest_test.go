package doctest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	schedulingv1alpha1 "hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/internal/doctest"
)

// decode reads an object strictly as the kind that it names: a field that does not exist, or stands twice, is an error.
func decode(text string) error {
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
		return configuration(body)
	case "Queue":
		return yaml.UnmarshalStrict(body, new(schedulingv1alpha1.Queue))
	case "CustomNodeResource":
		return yaml.UnmarshalStrict(body, new(nodev1alpha1.CustomNodeResource))
	case "ServiceProfile":
		profile := new(nodev1alpha1.ServiceProfile)
		return errors.Join(yaml.UnmarshalStrict(body, profile), spec.ValidateProfile(&profile.Spec))
	}
	if _, _, err := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer().Decode(body, nil, nil); err != nil {
		return fmt.Errorf("%v: %w", object["kind"], err)
	}
	return nil
}

// configuration is read and judged as hilbertd does.
func configuration(body []byte) error {
	folder, err := os.MkdirTemp("", "doctest")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "hilbertd.yaml")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return err
	}
	_, err = daemon.LoadConfig(file)
	return err
}
