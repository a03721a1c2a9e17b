package policy

import (
	"context"
	"encoding/json"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// agentUser is the account that agents share; nodeName is where a token that is bound to a pod says on which node that runs.
	agentUser      = "system:serviceaccount:hilbert-system:hilbert-agent"
	controllerUser = "system:serviceaccount:hilbert-system:hilbert-controller"
	nodeName       = "authentication.kubernetes.io/node-name"
	nodesPath      = "/apis/node.hilbert.dev/v1alpha1/customnoderesources"
)

// agents are the agent of n1, the agent of n3, and one whose token is bound to no pod.
var agents struct{ n1, n3, unbound kubernetes.Interface }

// controller is the account of hilbertd with the role controller.
var controller kubernetes.Interface

// prepareNodes makes the agents, the controller, and the CustomNodeResources n1, n2 and n4, which has been told a configuration.
func prepareNodes(ctx context.Context) error {
	for _, a := range []struct {
		to *kubernetes.Interface
		on []string
	}{{&agents.n1, []string{"n1"}}, {&agents.n3, []string{"n3"}}, {&agents.unbound, nil}} {
		config := plane.AdminConfig()
		config.Impersonate = rest.ImpersonationConfig{UserName: agentUser, Groups: []string{"system:authenticated"}, Extra: map[string][]string{}}
		if a.on != nil {
			config.Impersonate.Extra[nodeName] = a.on
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		*a.to = client
	}
	config := plane.AdminConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: controllerUser, Groups: []string{"system:authenticated"}}
	var err error
	if controller, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: "agents"}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"node.hilbert.dev"}, Resources: []string{"*"}, Verbs: []string{"*"},
	}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{user(agentUser), user(controllerUser), user("system:node:n1")},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := plane.InstallDefinitions(ctx); err != nil {
		return err
	}
	for _, name := range []string{"n1", "n2"} {
		if err := send(ctx, admin, "POST", customNode(name), false); err != nil {
			return err
		}
	}
	configured := customNode("n4")
	tell("a")(configured)
	if err := send(ctx, admin, "POST", configured, false); err != nil {
		return err
	}
	return prepareTides(ctx)
}

// customNode is a CustomNodeResource that these own.
func customNode(name string, owners ...map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "node.hilbert.dev/v1alpha1", "kind": "CustomNodeResource",
		"metadata": map[string]any{"name": name, "ownerReferences": owners},
	}
}

func ownedBy(apiVersion, kind, name string) map[string]any {
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": "1"}
}

func send(ctx context.Context, user kubernetes.Interface, verb string, o map[string]any, dry bool, under ...string) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	path := []string{nodesPath}
	if verb != "POST" {
		path = append(append(path, o["metadata"].(map[string]any)["name"].(string)), under...)
	}
	r := user.Discovery().RESTClient().Verb(verb).AbsPath(path...).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json")
	if dry {
		r = r.Param("dryRun", metav1.DryRunAll)
	}
	return r.Body(body).Do(ctx).Error()
}

// tell makes a CustomNodeResource say that a configuration of this hash is in force.
func tell(hash string) func(map[string]any) {
	return func(o map[string]any) {
		o["spec"] = map[string]any{"configuration": map[string]any{"name": "default", "revision": "1", "hash": hash}}
	}
}

func createsNode(user kubernetes.Interface, name string, owners ...map[string]any) func(context.Context) error {
	return func(ctx context.Context) error { return send(ctx, user, "POST", customNode(name, owners...), true) }
}

// updatesNode changes one that is there, or its status.
func updatesNode(user kubernetes.Interface, name string, owner map[string]any, under ...string) func(context.Context) error {
	return changesNode(user, name, func(o map[string]any) {
		if owner != nil {
			o["metadata"].(map[string]any)["ownerReferences"] = []any{owner}
		}
	}, under...)
}

// changesNode also annotates it, so that something is changed.
func changesNode(user kubernetes.Interface, name string, change func(map[string]any), under ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		body, err := admin.Discovery().RESTClient().Get().AbsPath(nodesPath, name).SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			return err
		}
		var o map[string]any
		if err := json.Unmarshal(body, &o); err != nil {
			return err
		}
		o["metadata"].(map[string]any)["annotations"] = map[string]any{"x": "y"}
		change(o)
		return send(ctx, user, "PUT", o, true, under...)
	}
}

// configurationRows: who says which configuration is in force on a node.
func configurationRows() []request {
	const written, deleted = "spec.configuration is the controller's; write a NodeConfiguration", "spec.configuration is the controller's; delete the NodeConfiguration"
	told := customNode("n3")
	tell("a")(told)
	nothing := func(o map[string]any) { delete(o, "spec") }
	other := func(o map[string]any) { o["spec"] = map[string]any{"refusedEvictions": []any{}} }
	return []request{
		{"the controller tells a node", changesNode(controller, "n1", tell("a")), ""},
		{"the controller tells a node something else", changesNode(controller, "n4", tell("b")), ""},
		{"the controller takes it back", changesNode(controller, "n4", nothing), ""},
		{"an agent tells itself", changesNode(agents.n1, "n1", tell("a")), written},
		{"an administrator tells a node", changesNode(admin, "n1", tell("a")), written},
		{"an administrator tells a node something else", changesNode(admin, "n4", tell("b")), written},
		{"an administrator creates a node that is told", func(ctx context.Context) error { return send(ctx, admin, "POST", told, true) }, written},
		{"an agent creates its own, told", func(ctx context.Context) error { return send(ctx, agents.n3, "POST", told, true) }, written},
		{"an administrator takes it back", changesNode(admin, "n4", nothing), deleted},
		{"an administrator writes over it", changesNode(admin, "n4", other), deleted},
		{"an administrator leaves it", changesNode(admin, "n4", tell("a")), ""},
		{"an administrator writes beside it", changesNode(admin, "n1", other), ""},
	}
}

func nodes() []request {
	own := func(writer, name string) string {
		return fmt.Sprintf("an agent writes that of its own node %s, not %s", writer, name)
	}
	const none, owner = "its token names none", "may name the Node of the same name, and nobody else"
	n1, n3 := ownedBy("v1", "Node", "n1"), ownedBy("v1", "Node", "n3")
	out := []request{
		{"an agent creates its own", createsNode(agents.n3, "n3"), ""},
		{"an agent creates its own, of its Node", createsNode(agents.n3, "n3", n3), ""},
		{"an agent creates another's", createsNode(agents.n1, "n3"), own("n1", "n3")},
		{"an agent creates its own, of another Node", createsNode(agents.n3, "n3", n1), owner},
		{"an agent without a node creates", createsNode(agents.unbound, "n3"), none},
		{"a kubelet creates another's", createsNode(node, "n3"), own("n1", "n3")},
		{"an administrator creates", createsNode(admin, "n3", ownedBy("v1", "ConfigMap", "x")), ""},
		{"an administrator updates", updatesNode(admin, "n2", ownedBy("v1", "ConfigMap", "x")), ""},
		{"an agent gives it to a ConfigMap", updatesNode(agents.n1, "n1", ownedBy("v1", "ConfigMap", "n1")), owner},
		{"an agent gives it to a Node of others", updatesNode(agents.n1, "n1", ownedBy("example.com/v1", "Node", "n1")), owner},
		{"an agent gives it to another Node", updatesNode(agents.n1, "n1", n3), owner},
		{"an agent gives it to its Node", updatesNode(agents.n1, "n1", n1), ""},
	}
	for name, user := range map[string]kubernetes.Interface{"an agent": agents.n1, "a kubelet": node} {
		out = append(out,
			request{name + " updates its own", updatesNode(user, "n1", nil), ""},
			request{name + " updates the status of its own", updatesNode(user, "n1", nil, "status"), ""},
			request{name + " updates another's", updatesNode(user, "n2", nil), own("n1", "n2")},
			request{name + " updates another's status", updatesNode(user, "n2", nil, "status"), own("n1", "n2")},
		)
	}
	return append(out, request{"an agent without a node updates a status", updatesNode(agents.unbound, "n1", nil, "status"), none})
}
