package policy

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/spec"
)

// reservation is a Reservation whose template has what a pod needs.
func reservation(changes ...func(template, pod map[string]any)) map[string]any {
	pod := map[string]any{"schedulerName": spec.DefaultSchedulerName, "containers": []any{map[string]any{"name": "main", "image": "x"}}}
	template := map[string]any{"metadata": map[string]any{}, "spec": pod}
	for _, change := range changes {
		change(template, pod)
	}
	return map[string]any{
		"apiVersion": "scheduling.hilbert.dev/v1alpha1", "kind": "Reservation", "metadata": map[string]any{"name": "kept"},
		"spec": map[string]any{"template": template, "owners": []any{map[string]any{"podGroup": "train"}}},
	}
}

// saying sets a field of the template's spec.
func saying(field string, value any) func(template, pod map[string]any) {
	return func(_, pod map[string]any) { pod[field] = value }
}

// without takes one away.
func without(field string) func(template, pod map[string]any) {
	return func(_, pod map[string]any) { delete(pod, field) }
}

// labelled and annotated set what the template's pods have.
func labelled(key, value string) func(template, pod map[string]any) {
	return about("labels", key, value)
}

func annotated(key, value string) func(template, pod map[string]any) {
	return about("annotations", key, value)
}

func about(what, key, value string) func(template, pod map[string]any) {
	return func(template, _ map[string]any) {
		meta := template["metadata"].(map[string]any)
		if meta[what] == nil {
			meta[what] = map[string]any{}
		}
		meta[what].(map[string]any)[key] = value
	}
}

// prepareReservation makes a Reservation that is older than the policies, with what they refuse.
func prepareReservation(ctx context.Context) error {
	o := reservation(saying("priority", 7))
	o["metadata"].(map[string]any)["annotations"] = map[string]any{spec.AnnotationMayEvict: "before"}
	return sendReservation(ctx, admin, "POST", both, o, false)
}

func sendReservation(ctx context.Context, user kubernetes.Interface, verb, namespace string, o map[string]any, dry bool, under ...string) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	path, contentType := []string{"/apis/scheduling.hilbert.dev/v1alpha1/namespaces", namespace, "reservations"}, "application/json"
	if verb == "PATCH" {
		path, contentType = append(append(path, "kept"), under...), "application/merge-patch+json"
	}
	r := user.Discovery().RESTClient().Verb(verb).AbsPath(path...).SetHeader("Content-Type", contentType).SetHeader("Accept", "application/json")
	if dry {
		r = r.Param("dryRun", metav1.DryRunAll)
	}
	return r.Body(body).Do(ctx).Error()
}

// keeps creates a Reservation, dry.
func keeps(user kubernetes.Interface, namespace string, changes ...func(template, pod map[string]any)) func(context.Context) error {
	return keepsAs(user, namespace, "new", changes...)
}

// keepsAs creates one of a name, dry.
func keepsAs(user kubernetes.Interface, namespace, name string, changes ...func(template, pod map[string]any)) func(context.Context) error {
	return func(ctx context.Context) error {
		o := reservation(changes...)
		o["metadata"].(map[string]any)["name"] = name
		return sendReservation(ctx, user, "POST", namespace, o, true)
	}
}

// naming is a patch that names who is evicted; nil is nobody.
func naming(who any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{spec.AnnotationMayEvict: who}}}
}

// keepsNaming creates one that names who is evicted, dry.
func keepsNaming(user kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		o := reservation()
		o["metadata"].(map[string]any)["name"] = "new"
		o["metadata"].(map[string]any)["annotations"] = map[string]any{spec.AnnotationMayEvict: "u"}
		return sendReservation(ctx, user, "POST", plain, o, true)
	}
}

// changesKept patches the one that is there.
func changesKept(user kubernetes.Interface, patch map[string]any, under ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		return sendReservation(ctx, user, "PATCH", both, patch, true, under...)
	}
}

// reservationRows: what the template of a Reservation may say.
func reservationRows() []request {
	const move = "metadata.name: hilbert-move- is for targets of moves, which only the controller creates, not "
	const evicts = "metadata.annotations: only the controller says in autoscaling.hilbert.dev/may-evict who is evicted for a growth, not "
	const (
		leave, kubeSystem, stays = "spec.template.metadata.annotations: ", " is for the namespace kube-system; name another class", "spec.template: what is kept stays as it is"
		claims, volumes          = "spec.template.spec.resourceClaims: no devices are kept", "spec.template.spec.volumes: no volumes are kept"
	)
	volume := func(what string, of any) func(template, pod map[string]any) {
		return saying("volumes", []any{map[string]any{"name": "plain", "emptyDir": map[string]any{}}, map[string]any{"name": "v", what: of}})
	}
	level := func(l spec.QoSLevel) func(template, pod map[string]any) { return labelled(spec.LabelQoS, string(l)) }
	katalyst := func(l string) func(template, pod map[string]any) { return annotated(spec.AnnotationKatalystQoS, l) }
	no := func(l spec.QoSLevel, namespace string) string {
		return fmt.Sprintf("spec.template: the namespace %s may not have %s; an administrator may label it", namespace, l)
	}
	rows := []request{
		{"places are kept", keeps(owner, plain), ""},
		{"for pods with a class", keeps(owner, plain, saying("priorityClassName", "research"), labelled("app", "x"), annotated("example.com/x", "y"), volume("configMap", map[string]any{"name": "c"})), ""},
		{"for nobody's pods", keeps(owner, plain, without("schedulerName")), "spec.template.spec.schedulerName: name the scheduler"},
		{"for a scheduler without a name", keeps(owner, plain, saying("schedulerName", "")), "spec.template.spec.schedulerName: name the scheduler"},
		{"with a priority", keeps(owner, plain, saying("priority", 7)), "spec.template.spec.priority: the priority comes through a PriorityClass"},
		{"with a priority, as the administrator", keeps(admin, plain, saying("priority", 7)), "spec.template.spec.priority: "},
		{"system-node-critical", keeps(owner, plain, saying("priorityClassName", "system-node-critical")), "system-node-critical" + kubeSystem},
		{"system-cluster-critical", keeps(owner, plain, saying("priorityClassName", "system-cluster-critical")), "system-cluster-critical" + kubeSystem},
		{"system-node-critical in kube-system", keeps(admin, "kube-system", saying("priorityClassName", "system-node-critical")), ""},
		{"on a node", keeps(owner, plain, saying("nodeName", "n1")), "spec.template.spec.nodeName: a place is found by the scheduler"},
		{"for claims of devices", keeps(owner, plain, saying("resourceClaims", []any{map[string]any{"name": "gpu"}})), claims},
		{"for a claim of a volume", keeps(owner, plain, volume("persistentVolumeClaim", map[string]any{"claimName": "c"})), volumes},
		{"for a volume of the pod's own", keeps(owner, plain, volume("ephemeral", map[string]any{})), volumes},
		{"for lent room", keeps(owner, both, level(spec.QoSReclaimed)), `no place of the level "reclaimed_cores" is kept`},
		{"for lent room by Katalyst's name", keeps(owner, both, katalyst("reclaimed_cores")), `no place of the level "reclaimed_cores" is kept`},
		{"for no such level", keeps(owner, both, level("gold")), `no place of the level "gold" is kept`},
		{"for shared cores", keeps(owner, plain, level(spec.QoSShared), katalyst("dedicated_cores")), ""},
		{"for dedicated cores where they are allowed", keeps(owner, dedicated, level(spec.QoSDedicated)), ""},
		{"for dedicated cores where they are not", keeps(owner, plain, level(spec.QoSDedicated)), no(spec.QoSDedicated, plain)},
		{"for dedicated cores by Katalyst's name", keeps(owner, plain, katalyst("dedicated_cores")), no(spec.QoSDedicated, plain)},
		{"for dedicated cores where system cores are allowed", keeps(owner, system, level(spec.QoSDedicated)), no(spec.QoSDedicated, system)},
		{"for system cores where they are allowed", keeps(owner, system, level(spec.QoSSystem)), ""},
		{"for system cores where they are not", keeps(owner, plain, level(spec.QoSSystem)), no(spec.QoSSystem, plain)},
		{"for system cores where dedicated cores are allowed", keeps(owner, dedicated, level(spec.QoSSystem)), no(spec.QoSSystem, dedicated)},
		{"for system cores in kube-system", keeps(admin, "kube-system", level(spec.QoSSystem)), ""},
		{"for system cores in hilbert-system", keeps(admin, "hilbert-system", level(spec.QoSSystem)), ""},
		{"as a tenant, by the name of a move's target", keepsAs(owner, plain, "hilbert-move-u"), move},
		{"as the administrator, by the name of a move's target", keepsAs(admin, plain, "hilbert-move-u"), move},
		{"a move's target", keepsAs(mover, plain, "hilbert-move-u"), ""},
		{"by the name of what is nearly a move's target", keepsAs(owner, plain, "hilbert-moves"), ""},
		{"one that is older, for longer", changesKept(owner, map[string]any{"spec": map[string]any{"ttl": "48h"}}), ""},
		{"another template", changesKept(owner, map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}}}), stays},
		{"as a tenant, who is evicted for it", keepsNaming(owner), evicts},
		{"as the administrator, who is evicted for it", keepsNaming(admin), evicts},
		{"who is evicted for it", keepsNaming(mover), ""},
		{"of one that is older, as a tenant, who is evicted for it", changesKept(owner, naming("u")), evicts},
		{"of one that is older, who is evicted for it", changesKept(mover, naming("u")), ""},
		{"of one that is older, as a tenant, that nobody is evicted for it", changesKept(owner, naming(nil)), evicts},
		{"of one that is older, that nobody is evicted for it", changesKept(mover, naming(nil)), ""},
		{"a status", changesKept(admin, map[string]any{"status": map[string]any{"reserved": 1}}, "status"), ""},
	}
	for _, key := range []string{spec.AnnotationNUMANodes, spec.AnnotationGPUs, spec.AnnotationNICs, spec.AnnotationReclaimed, spec.AnnotationResources, spec.AnnotationResourceNUMANodes, spec.AnnotationPriority, spec.AnnotationReservation} {
		rows = append(rows, request{"with " + key, keeps(owner, plain, annotated(key, "1")), leave})
	}
	return rows
}
