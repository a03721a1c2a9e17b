package kube

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// deployed decodes everything under deploy/; an unknown field fails.
func deployed(t *testing.T) []runtime.Object {
	t.Helper()
	files, err := filepath.Glob("../deploy/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, err %v", files, err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			object, _, err := decoder.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			out = append(out, object)
		}
	}
	return out
}

// The roles that are deployed grant what Permissions and OptionalPermissions list, to the verb.
func TestRolesGrantThePermissions(t *testing.T) {
	granted := make(map[string]bool)
	add := func(rules []rbacv1.PolicyRule, local bool) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[fmt.Sprintf("%s %s/%s local=%v", verb, group, resource, local)] = true
					}
				}
			}
		}
	}
	for _, object := range deployed(t) {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			if strings.HasPrefix(role.Name, "hilbertd") { // others are for people
				add(role.Rules, false)
			}
		case *rbacv1.Role:
			if strings.HasPrefix(role.Name, "hilbertd") {
				add(role.Rules, true)
			}
		}
	}
	wanted := make(map[string]bool)
	for _, p := range slices.Concat(Permissions, OptionalPermissions) {
		for _, verb := range p.Verbs {
			wanted[fmt.Sprintf("%s %s/%s local=%v", verb, p.Group, p.Resource, p.InLeaseNamespace)] = true
		}
	}
	if !maps.Equal(granted, wanted) {
		t.Errorf("granted %v\nwanted  %v", granted, wanted)
	}
}

// The Deployment has a standby, mounts the configuration where it looks for it, and runs as the account that the roles are bound to.
func TestDeployment(t *testing.T) {
	var deployment *appsv1.Deployment
	var config *corev1.ConfigMap
	accounts := map[string]bool{}
	for _, object := range deployed(t) {
		switch o := object.(type) {
		case *appsv1.Deployment:
			deployment = o
		case *corev1.ConfigMap:
			config = o
		case *corev1.ServiceAccount:
			accounts[o.Namespace+"/"+o.Name] = true
		case *rbacv1.ClusterRoleBinding:
			for _, s := range o.Subjects {
				accounts[s.Namespace+"/"+s.Name] = accounts[s.Namespace+"/"+s.Name] && true
			}
		}
	}
	pod := deployment.Spec.Template.Spec
	if *deployment.Spec.Replicas < 2 {
		t.Error("no standby")
	}
	if !accounts[deployment.Namespace+"/"+pod.ServiceAccountName] || len(accounts) != 1 {
		t.Errorf("accounts %v", accounts)
	}
	if pod.Volumes[0].ConfigMap.Name != config.Name || pod.Containers[0].VolumeMounts[0].Name != pod.Volumes[0].Name {
		t.Error("the configuration is not mounted")
	}
	file := strings.TrimPrefix(pod.Containers[0].Args[0], "--config="+pod.Containers[0].VolumeMounts[0].MountPath+"/")
	if _, ok := config.Data[file]; !ok {
		t.Errorf("the ConfigMap has no %s", file)
	}
}
