package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// accessPaths are the paths of the kinds that say who may do what; NAMESPACE stands for the object's own.
var accessPaths = map[string]string{
	"Namespace":          "/api/v1/namespaces",
	"ServiceAccount":     "/api/v1/namespaces/NAMESPACE/serviceaccounts",
	"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"Role":               "/apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/roles",
	"RoleBinding":        "/apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/rolebindings",
}

// workloadKinds are what manifests have beside them: a lab runs hilbertd itself, and so needs no pods of it, nor what goes with them.
var workloadKinds = []string{"Deployment", "DaemonSet", "Service", "PodDisruptionBudget", "PriorityLevelConfiguration", "FlowSchema"}

// InstallAccess creates the namespaces, accounts, roles, bindings and admission policies of manifests, in their order, and leaves out the workloads. The roles are those of
// production: a user with the name of an account has its rights (UserKubeconfig).
func (c *ControlPlane) InstallAccess(ctx context.Context, files ...string) error {
	admin, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	api := admin.Discovery().RESTClient()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		documents, err := jsonDocuments(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, document := range documents {
			if err := createAccess(ctx, api, document); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

func createAccess(ctx context.Context, api rest.Interface, document []byte) error {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(document, &o); err != nil {
		return err
	}
	if _, policy := policyResources[o.Kind]; policy {
		return ApplyPolicy(ctx, api, document)
	}
	path, access := accessPaths[o.Kind]
	switch {
	case access:
		if err := createAt(ctx, api, strings.Replace(path, "NAMESPACE", o.Namespace, 1), document); err != nil {
			return fmt.Errorf("create the %s %s: %w", o.Kind, o.Name, err)
		}
		return nil
	case o.Kind == "ConfigMap":
		return createRecord(ctx, api, o.Namespace, document)
	case slices.Contains(workloadKinds, o.Kind):
		return nil
	}
	return fmt.Errorf("the %s %s is neither about access nor a workload", o.Kind, o.Name)
}

// createRecord creates a ConfigMap that programs write, which is empty in the manifests; one with data configures a workload.
func createRecord(ctx context.Context, api rest.Interface, namespace string, document []byte) error {
	var m corev1.ConfigMap
	if err := json.Unmarshal(document, &m); err != nil || len(m.Data) > 0 {
		return err
	}
	if err := createAt(ctx, api, "/api/v1/namespaces/"+namespace+"/configmaps", document); err != nil {
		return fmt.Errorf("create the ConfigMap %s: %w", m.Name, err)
	}
	return nil
}

// RouteToLocalhost creates a Service by which kube-apiserver reaches programs of this machine: it takes no endpoints on loopback. Which program that is, the port of an APIService says.
func (c *ControlPlane) RouteToLocalhost(ctx context.Context, namespace, service string) error {
	admin, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	_, err = admin.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: service}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the Service %s/%s: %w", namespace, service, err)
	}
	return nil
}

// apiServicesPath is where APIServices live.
const apiServicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"

// InstallAPIServices creates the APIServices of a manifest with another port of their Service, and with the certificates that kube-apiserver is to trust there. One that is there already is
// replaced. kube-apiserver follows them a moment later.
func (c *ControlPlane) InstallAPIServices(ctx context.Context, manifest []byte, port int, caBundle []byte) error {
	admin, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	api := admin.Discovery().RESTClient()
	documents, err := jsonDocuments(manifest)
	if err != nil {
		return fmt.Errorf("read APIServices: %w", err)
	}
	for _, document := range documents {
		var o unstructured.Unstructured
		if err := json.Unmarshal(document, &o.Object); err != nil {
			return fmt.Errorf("read an APIService: %w", err)
		}
		if err := replaceAPIService(ctx, api, &o, port, caBundle); err != nil {
			return fmt.Errorf("the APIService %s: %w", o.GetName(), err)
		}
	}
	return nil
}

func replaceAPIService(ctx context.Context, api rest.Interface, o *unstructured.Unstructured, port int, caBundle []byte) error {
	if _, found, err := unstructured.NestedMap(o.Object, "spec", "service"); err != nil || !found {
		return errors.Join(errors.New("it names no Service"), err)
	}
	if err := unstructured.SetNestedField(o.Object, int64(port), "spec", "service", "port"); err != nil {
		return err
	}
	o.Object["spec"].(map[string]any)["caBundle"] = caBundle
	body, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	if err := api.Delete().AbsPath(apiServicesPath, o.GetName()).Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return createAt(ctx, api, apiServicesPath, body)
}

func createAt(ctx context.Context, api rest.Interface, path string, body []byte) error {
	return api.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

// jsonDocuments are the documents of a YAML file, as JSON.
func jsonDocuments(text []byte) (out [][]byte, err error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		body, err := yaml.ToJSON(document)
		if err != nil {
			return nil, err
		}
		out = append(out, body)
	}
}
