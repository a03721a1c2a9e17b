package policy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// prepareTides makes a node that has a label, an annotation and a taint of its own, and lets the controller patch nodes, as deploy/controller/tides.yaml does.
func prepareTides(ctx context.Context) error {
	meta := metav1.ObjectMeta{Name: "tides"}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "patch"},
	}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: controllerUser}},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "tide", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"note": "a"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "dedicated", Value: "tide", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	return err
}

// tideRows: what the controller may change of a node.
func tideRows() []request {
	const labels, taints, cordon = "may change the labels hilbert.dev/tide and hilbert.dev/tide-pool alone", "may change the taint hilbert.dev/tide alone", "may not cordon a node"
	const annotations, others = "may change the annotation hilbert.dev/tide-since alone", "leaves finalizers and owners as they are"
	const dedicated = `{"key":"dedicated","value":"tide","effect":"NoSchedule"}`
	patch := func(user kubernetes.Interface, body string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := user.CoreV1().Nodes().Patch(ctx, "tide", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	taint := func(effect string) string {
		return `{"spec":{"taints":[` + dedicated + `,{"key":"hilbert.dev/tide","value":"offline","effect":"` + effect + `"}]}}`
	}
	return []request{
		{"the controller gives a node to offline", patch(controller, `{"metadata":{"labels":{"hilbert.dev/tide":"offline","hilbert.dev/tide-pool":"p"},"annotations":{"hilbert.dev/tide-since":"x"}}}`), ""},
		{"the controller taints it", patch(controller, taint("NoSchedule")), ""},
		{"the controller has pods thrown out", patch(controller, taint("NoExecute")), taints},
		{"the controller takes another taint away", patch(controller, `{"spec":{"taints":[]}}`), taints},
		{"the controller changes another label", patch(controller, `{"metadata":{"labels":{"zone":"b"}}}`), labels},
		{"the controller takes another label away", patch(controller, `{"metadata":{"labels":{"zone":null}}}`), labels},
		{"the controller changes another annotation", patch(controller, `{"metadata":{"annotations":{"note":"b"}}}`), annotations},
		{"the controller adds another annotation", patch(controller, `{"metadata":{"annotations":{"other":"b"}}}`), annotations},
		{"the controller takes another annotation away", patch(controller, `{"metadata":{"annotations":{"note":null}}}`), annotations},
		{"the controller adds a finalizer", patch(controller, `{"metadata":{"finalizers":["example.com/f"]}}`), others},
		{"the controller adds an owner", patch(controller, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"u"}]}}`), others},
		{"the controller cordons a node", patch(controller, `{"spec":{"unschedulable":true}}`), cordon},
		{"an administrator changes a label", patch(admin, `{"metadata":{"labels":{"zone":"b"}}}`), ""},
	}
}
