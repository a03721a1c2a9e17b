package policy

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/spec"
)

// uplinkRows: who says which interfaces lead off a node, and how it is spelled.
func uplinkRows() []request {
	const kubelet, spelling, once = "an administrator says which interfaces lead off a node", "want the names of at most 8 network interfaces", "write each interface once"
	says := func(user kubernetes.Interface, uplinks, subresource string) func(context.Context) error {
		value, err := json.Marshal(uplinks)
		if err != nil {
			panic(err) // a mistake of ours
		}
		body := `{"metadata":{"annotations":{"` + spec.AnnotationUplinks + `":` + string(value) + `}}}`
		return func(ctx context.Context) error {
			_, err := user.CoreV1().Nodes().Patch(ctx, "n1", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, strings.Fields(subresource)...)
			return err
		}
	}
	begins := func(user kubernetes.Interface, name, uplinks string) func(context.Context) error {
		return func(ctx context.Context) error {
			o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{spec.AnnotationUplinks: uplinks}}}
			_, err := user.CoreV1().Nodes().Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	return []request{
		{"an administrator names uplinks", says(admin, "eth0, eth1=10000", ""), ""},
		{"an administrator names a bond's VLAN", says(admin, "bond0.100", ""), ""},
		{"a node is born with uplinks", begins(admin, "n9", "eth0"), ""},
		{"uplinks that are no names", says(admin, "eth0 eth1", ""), spelling},
		{"a node is born with uplinks that are no names", begins(admin, "n9", "../x"), spelling},
		{"an uplink's speed is no number", says(admin, "eth0=fast", ""), spelling},
		{"an uplink twice", says(admin, "eth0,eth1, eth0=5", ""), once},
		{"nine uplinks", says(admin, "a,b,c,d,e,f,g,h,i", ""), spelling},
		{"a kubelet names its uplinks", says(node, "lo", ""), kubelet},
		{"a kubelet names its uplinks by the status", says(node, "lo", "status"), kubelet},
	}
}
