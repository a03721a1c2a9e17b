// Package charttest renders Hilbert's charts as helm does, for the tests of what they render.
//
// Data flow: Load packs a folder of deploy/charts as a release does, and reads the package; Render gives the text of each template for some values and some version of Kubernetes,
// after the values are checked against the chart's schema; Objects parses the text.
//
// Invariants: a value that the schema does not know is an error; what is rendered is a function of the arguments, but for certificates that a template
// generates. It installs nothing: tests of installations use helm's own actions.
package charttest

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/tools/release/artifacts"
)

// Namespace is where the chart is installed.
const Namespace = "hilbert-system"

// Load packs a chart of the tree below root, by its name, and reads the package.
func Load(root, name, version string) (*chartv2.Chart, error) {
	data, err := artifacts.PackChart(root, name, version, time.Unix(0, 0))
	if err != nil {
		return nil, err
	}
	c, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", name, err)
	}
	return c, nil
}

// Render renders a chart's templates for a version of Kubernetes such as v1.37.0, by their names: agent.yaml. A template that renders nothing is not there.
func Render(c *chartv2.Chart, namespace string, values map[string]any, kubernetes string) (map[string]string, error) {
	capabilities := common.DefaultCapabilities.Copy()
	version, err := common.ParseKubeVersion(kubernetes)
	if err != nil {
		return nil, err
	}
	capabilities.KubeVersion = *version
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "hilbert", Namespace: namespace, Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for name, text := range rendered {
		if strings.TrimSpace(text) != "" {
			out[path.Base(name)] = text
		}
	}
	return out, nil
}

// Objects parses rendered templates, in the order of their names.
func Objects(rendered map[string]string) (out []*unstructured.Unstructured, err error) {
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		objects, err := Parse(rendered[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

// Parse parses the documents of a manifest; a key that occurs twice is an error.
func Parse(text string) (out []*unstructured.Unstructured, err error) {
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var fields map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &fields); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		if len(fields) > 0 {
			out = append(out, &unstructured.Unstructured{Object: fields})
		}
	}
	return out, nil
}
