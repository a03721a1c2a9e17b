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
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	deployvisibility "hilbert.dev/hilbert/deploy/visibility"
	"hilbert.dev/hilbert/kube/agent"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/controller"
	"hilbert.dev/hilbert/kube/metrics"
	"hilbert.dev/hilbert/kube/moves"
	"hilbert.dev/hilbert/kube/requests"
	"hilbert.dev/hilbert/kube/tides"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/kube/vpa"
)

// deployed decodes everything under deploy/; an unknown field fails.
func deployed(t *testing.T) []runtime.Object {
	t.Helper()
	files, err := filepath.Glob("../deploy/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, err %v", files, err)
	}
	uninstall, err := filepath.Glob("../deploy/uninstall/*.yaml") // apart, so that apply -f deploy/ leaves it out
	if err != nil || len(uninstall) == 0 {
		t.Fatalf("files %v, err %v", uninstall, err)
	}
	controller, err := filepath.Glob("../deploy/controller/*.yaml") // apart too: only who writes NodeConfigurations, or wants recommendations, needs them
	if err != nil || len(controller) == 0 {
		t.Fatalf("files %v, err %v", controller, err)
	}
	files = slices.Concat(files, uninstall, controller, []string{"../deploy/metrics/metrics.yaml"}) // only whose HPAs go by Hilbert's metrics need the last
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

// The roles that are deployed grant what Permissions and OptionalPermissions list, to the verb, and to the agent what Permissions and KubeletPermissions list.
func TestRolesGrantThePermissions(t *testing.T) {
	grants(t, "hilbertd", slices.Concat(Permissions, OptionalPermissions))
	grants(t, "hilbert-metrics-server", metrics.Permissions)
	grants(t, "hilbert-controller", slices.Concat(controller.Permissions, moves.AdvicePermissions, moves.Permissions, moves.RequestPermissions, tides.Permissions, vpa.Permissions, vpa.ChangePermissions, requests.Permissions))
	grants(t, "hilbert-agent", slices.Concat(agent.Permissions, agent.KubeletPermissions))
}

// grants compares the roles whose names begin so with what they should permit.
func grants(t *testing.T, names string, permissions []apiserver.Permission) {
	t.Helper()
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
			if strings.HasPrefix(role.Name, names) { // others are for people
				add(role.Rules, false)
			}
		case *rbacv1.Role:
			if strings.HasPrefix(role.Name, names) {
				add(role.Rules, true)
			}
		}
	}
	wanted := make(map[string]bool)
	for _, p := range permissions {
		for _, verb := range p.Verbs {
			wanted[fmt.Sprintf("%s %s/%s local=%v", verb, p.Group, p.Resource, p.InLeaseNamespace)] = true
		}
	}
	if !maps.Equal(granted, wanted) {
		t.Errorf("%s: granted %v\nwanted  %v", names, granted, wanted)
	}
}

// manifests are the deployed objects that TestDeployment and TestDaemonSet look at, by name.
type manifests struct {
	deployment *appsv1.Deployment
	agent      *appsv1.DaemonSet
	watchdog   *appsv1.DaemonSet
	configs    map[string]*corev1.ConfigMap
	bound      map[string]bool // accounts that there are, and whether a ClusterRole is bound to them
}

func deployedManifests(t *testing.T) manifests {
	t.Helper()
	m := manifests{configs: make(map[string]*corev1.ConfigMap), bound: make(map[string]bool)}
	subjects := make(map[string]bool)
	for _, object := range deployed(t) {
		switch o := object.(type) {
		case *appsv1.Deployment:
			if o.Name == "hilbertd" {
				m.deployment = o
			}
		case *appsv1.DaemonSet:
			if o.Name == "hilbert-agent" { // the other one has its own test, in node/mps
				m.agent = o
			}
			if o.Name == "hilbert-watchdog" {
				m.watchdog = o
			}
		case *corev1.ConfigMap:
			m.configs[o.Namespace+"/"+o.Name] = o
		case *corev1.ServiceAccount:
			m.bound[o.Namespace+"/"+o.Name] = false
		case *rbacv1.ClusterRoleBinding:
			for _, s := range o.Subjects {
				subjects[s.Namespace+"/"+s.Name] = true
			}
		}
	}
	for account := range subjects {
		if _, there := m.bound[account]; !there {
			t.Errorf("a role is bound to %s, which is not there", account)
		}
		m.bound[account] = true
	}
	return m
}

// runs checks that a pod runs as an account with a role, and mounts its configuration where it looks for it. It returns the configuration.
func (m *manifests) runs(t *testing.T, namespace string, pod *corev1.PodSpec) string {
	t.Helper()
	if !m.bound[namespace+"/"+pod.ServiceAccountName] {
		t.Errorf("accounts %v, without %s", m.bound, pod.ServiceAccountName)
	}
	config := m.configs[namespace+"/"+pod.Volumes[0].ConfigMap.Name]
	mount := pod.Containers[0].VolumeMounts[0]
	if config == nil || mount.Name != pod.Volumes[0].Name {
		t.Fatal("the configuration is not mounted")
	}
	text, ok := config.Data[strings.TrimPrefix(pod.Containers[0].Args[0], "--config="+mount.MountPath+"/")]
	if !ok {
		t.Errorf("the ConfigMap has no %s", pod.Containers[0].Args[0])
	}
	return text
}

// The Deployment has a standby, mounts the configuration where it looks for it, and runs as the account that the roles are bound to.
func TestDeployment(t *testing.T) {
	m := deployedManifests(t)
	if *m.deployment.Spec.Replicas < 2 {
		t.Error("no standby")
	}
	m.runs(t, m.deployment.Namespace, &m.deployment.Spec.Template.Spec)
}

// The agent runs on every node, as the account that the policies know, with what it needs of the host and no more: it writes to the cgroups, its
// own state and the runtime's socket, sees the processes of others, and has one capability.
func TestDaemonSet(t *testing.T) {
	m := deployedManifests(t)
	template := &m.agent.Spec.Template
	pod := &template.Spec
	config := m.runs(t, m.agent.Namespace, pod)
	if !strings.Contains(config, "roles: [agent]") {
		t.Errorf("no agent: %s", config)
	}
	policy, err := os.ReadFile("../deploy/policies/cnr-own-node.yaml")
	if account := "system:serviceaccount:" + m.agent.Namespace + ":" + pod.ServiceAccountName; err != nil || !strings.Contains(string(policy), "'"+account+"'") {
		t.Errorf("no policy knows %s: %v", account, err)
	}
	if len(pod.Tolerations) != 1 || pod.Tolerations[0].Operator != corev1.TolerationOpExists || pod.Tolerations[0].Key != "" {
		t.Error("some nodes have no agent")
	}
	if template.Labels[spec.LabelQoS] != string(spec.QoSSystem) || !pod.HostPID || pod.HostNetwork || pod.HostIPC {
		t.Error("it runs among those whom it places, or shares too little or too much with the host")
	}
	c := &pod.Containers[0]
	if c.SecurityContext.Privileged != nil || *c.SecurityContext.AllowPrivilegeEscalation ||
		!slices.Equal(c.SecurityContext.Capabilities.Add, []corev1.Capability{"DAC_OVERRIDE"}) {
		t.Error("it may more than it needs")
	}
	var written []string
	hosts := make(map[string]string)
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			hosts[v.Name] = v.HostPath.Path
			if secrets := "/var/lib/kubelet/pods"; strings.HasPrefix(secrets, strings.TrimSuffix(v.HostPath.Path, "/")+"/") {
				t.Errorf("%s: there are the Secrets of all pods of the node", v.HostPath.Path)
			}
		}
	}
	for _, mount := range c.VolumeMounts {
		if path, ok := hosts[mount.Name]; ok && path != mount.MountPath {
			t.Errorf("%s of the host is %s in the pod, where the agent does not look", path, mount.MountPath)
		}
		if !mount.ReadOnly {
			written = append(written, mount.MountPath)
		}
	}
	defaults := spec.Default().Node
	if want := []string{"/sys/fs/cgroup", filepath.Dir(defaults.NRISocket), defaults.StateDirectory, "/run/hilbert-watchdog", "/var/run/cdi"}; !slices.Equal(written, want) {
		t.Errorf("writes %v, want %v", written, want)
	}
}

// The watchdog outlives a bad image of the agent, asks nothing of the API server, and writes what it shares with the agent, cgroups and the runtime's socket.
func TestWatchdogDaemonSet(t *testing.T) {
	m := deployedManifests(t)
	set := m.watchdog
	pod := &set.Spec.Template.Spec
	c := &pod.Containers[0]
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		t.Error("it is updated along with others")
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.HostPID || pod.HostNetwork || pod.HostIPC ||
		*c.SecurityContext.AllowPrivilegeEscalation || len(c.SecurityContext.Capabilities.Add) > 0 || !slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Error("it may more than it needs")
	}
	if set.Spec.Template.Labels[spec.LabelQoS] != string(spec.QoSSystem) {
		t.Error("it would need the agent to start")
	}
	if c.Image != m.agent.Spec.Template.Spec.Containers[0].Image || pod.PriorityClassName != m.agent.Spec.Template.Spec.PriorityClassName {
		t.Error("its image or its priority is none of ours")
	}
	if text := m.configs[set.Namespace+"/"+pod.Volumes[0].ConfigMap.Name].Data["watchdog.yaml"]; !strings.Contains(text, "roles: [watchdog]") {
		t.Errorf("no watchdog: %s", text)
	}
	var written []string
	for _, mount := range c.VolumeMounts {
		if !mount.ReadOnly {
			written = append(written, mount.MountPath)
		}
	}
	if want := []string{"/sys/fs/cgroup", filepath.Dir(spec.Default().Node.NRISocket), "/run/hilbert-watchdog"}; !slices.Equal(written, want) {
		t.Errorf("writes %v, want %v", written, want)
	}
}

// What view, edit and admin take in: explanations and reading what has no secrets; of writing, only what is a namespace's. And nobody is let to a pod's proxy.
func TestPeoplesRoles(t *testing.T) {
	want := map[string][]string{
		"view": {
			"get podexplanations,podgroupexplanations,reservationexplanations.visibility.hilbert.dev", "get,list,watch serviceprofiles,customnoderesources,nodeconfigurations.node.hilbert.dev",
			"get,list,watch queues,reservations,resourcerequests,tidepools.scheduling.hilbert.dev",
		},
		"edit": {
			"create,update,patch,delete,deletecollection serviceprofiles.node.hilbert.dev",
			"create,update,patch,delete,deletecollection reservations,resourcerequests.scheduling.hilbert.dev",
		},
		"admin": nil, // it takes edit in
	}
	got := make(map[string][]string)
	for _, object := range deployed(t) {
		role, ok := object.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "pods/proxy") {
				t.Errorf("%s: %v", role.Name, rule)
			}
			for label, value := range role.Labels {
				if to, ok := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); ok && value == "true" {
					got[to] = append(got[to], strings.Join(rule.Verbs, ",")+" "+strings.Join(rule.Resources, ",")+"."+strings.Join(rule.APIGroups, ",")+strings.Join(rule.NonResourceURLs, ","))
				}
			}
		}
	}
	for _, to := range []string{"view", "edit", "admin"} {
		if !slices.Equal(got[to], want[to]) {
			t.Errorf("%s takes in %q, want %q", to, got[to], want[to])
		}
	}
	if len(got) > len(want) {
		t.Errorf("%v", got)
	}
}

// The APIService leads to a Service that leads to hilbertd, before it is ready too; hilbertd serves with the Secret that it mounts, and may read how the proxy
// proves itself.
func TestAggregation(t *testing.T) {
	var route struct {
		Spec struct {
			Group, Version        string
			InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify"`
			Service               struct {
				Namespace, Name string
				Port            int32
			}
		}
	}
	if err := yaml.Unmarshal(deployvisibility.APIService, &route); err != nil {
		t.Fatal(err)
	}
	if s := route.Spec; s.Group != visibility.GroupVersion.Group || s.Version != visibility.GroupVersion.Version || s.InsecureSkipTLSVerify {
		t.Errorf("%+v", s)
	}
	m := deployedManifests(t)
	pod := &m.deployment.Spec.Template.Spec
	leads, reads := false, false
	for _, object := range deployed(t) {
		switch o := object.(type) {
		case *corev1.Service:
			leads = leads || o.Namespace == route.Spec.Service.Namespace && o.Name == route.Spec.Service.Name && o.Spec.PublishNotReadyAddresses &&
				maps.Equal(o.Spec.Selector, m.deployment.Spec.Selector.MatchLabels) && o.Spec.Ports[0].Port == route.Spec.Service.Port &&
				o.Spec.Ports[0].TargetPort.StrVal == pod.Containers[0].Ports[0].Name
		case *rbacv1.RoleBinding:
			reads = reads || o.Namespace == "kube-system" && o.RoleRef.Name == "extension-apiserver-authentication-reader" && o.Subjects[0].Name == pod.ServiceAccountName
		}
	}
	if !leads || !reads {
		t.Errorf("the APIService leads to hilbertd: %v; hilbertd may read the proxy's authority: %v", leads, reads)
	}
	config := m.runs(t, m.deployment.Namespace, pod)
	at := pod.Containers[0].VolumeMounts[1].MountPath
	if pod.Volumes[1].Secret == nil || pod.Volumes[1].Secret.Optional != nil || !strings.Contains(config, "tlsCertFile: "+at+"/tls.crt\n") || !strings.Contains(config, "tlsPrivateKeyFile: "+at+"/tls.key\n") {
		t.Errorf("hilbertd does not serve with its Secret: %s", config)
	}
}

// Every port that a pod of ours serves is open to those who probe, scrape and ask, and no other is.
func TestNetworkPolicyAdmitsWhatIsServed(t *testing.T) {
	served, admitted := make(map[int32]bool), make(map[int32]bool)
	ports := func(pod *corev1.PodSpec) {
		for i := range pod.Containers {
			for _, p := range pod.Containers[i].Ports {
				served[p.ContainerPort] = true
			}
		}
	}
	for _, object := range deployed(t) {
		switch o := object.(type) {
		case *appsv1.Deployment:
			ports(&o.Spec.Template.Spec)
		case *appsv1.DaemonSet:
			ports(&o.Spec.Template.Spec)
		case *networkingv1.NetworkPolicy:
			for _, rule := range o.Spec.Ingress {
				for _, p := range rule.Ports {
					admitted[p.Port.IntVal] = true
				}
			}
		}
	}
	if len(served) == 0 || !maps.Equal(served, admitted) {
		t.Errorf("served %v, admitted %v", served, admitted)
	}
}
