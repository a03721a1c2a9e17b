package moves

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// gangsMoveWhole has three gangs of offline work run on three nodes, and services need all but two: the smallest gang leaves its node whole, for places beside the others that were all reserved before
// the first of its pods was evicted.
func (b *bed) gangsMoveWhole(online int) {
	t := b.t
	t.Helper()
	list, err := b.admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: spec.LabelTide + "=" + spec.TideOffline})
	if err != nil || len(list.Items) < 4 {
		t.Fatalf("%d nodes of offline, %v", len(list.Items), err)
	}
	crews := []struct {
		name, cpu string
		members   int
	}{{"crew-a", "2", 3}, {"crew-b", "2", 3}, {"crew-c", "1", 2}}
	for i, c := range crews {
		b.crew(c.name, c.cpu, c.members, list.Items[i].Name)
	}
	const pods = 3 + 3 + 2
	b.until("the gangs run", func() error { return b.has("crew", pods) })
	judge := newJudge(t, b, "crew")
	before := b.crewOn("crew-c")
	b.change(map[string]any{"schedule": []spec.TideWindow{{Name: "all", Begins: time.Now().UTC().Add(-time.Minute).Format("2006-01-02T15:04:05"), Duration: spec.Duration(time.Hour), Online: online}}})
	b.until("services have their nodes, and the gangs run on two", func() error {
		if err := b.stand(online, *tideNodes-online); err != nil {
			return err
		}
		return b.has("crew", pods)
	})
	evicted, wrong := judge.verdict()
	for _, w := range wrong {
		t.Error(w)
	}
	after := b.crewOn("crew-c")
	if evicted != 2 || slices.ContainsFunc(before, func(p string) bool { return slices.Contains(after, p) }) {
		t.Errorf("%d pods were evicted; the gang that was to move had %v, and has %v", evicted, before, after)
	}
	b.change(map[string]any{"schedule": []spec.TideWindow{}})
	for _, c := range crews {
		b.end(c.name)
	}
	b.until("the gangs are gone", func() error { return b.has("crew", 0) })
}

// crew is a gang whose pods rather run on one node.
func (b *bed) crew(name, cpu string, members int, node string) {
	t := b.t
	t.Helper()
	b.group(name, members)
	labels := map[string]string{"crew": name}
	here := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}
	_, err := b.admin.AppsV1().ReplicaSets(metav1.NamespaceDefault).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(members)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				SchedulerName: "hilbert", SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &name}, NodeSelector: map[string]string{spec.LabelTide: spec.TideOffline},
				Tolerations: []corev1.Toleration{{Key: spec.LabelTide, Operator: corev1.TolerationOpEqual, Value: spec.TideOffline, Effect: corev1.TaintEffectNoSchedule}},
				Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: here}},
				}},
				Containers: []corev1.Container{{Name: "main", Image: "image", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}},
			},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// crewOn are the UIDs of a gang's pods.
func (b *bed) crewOn(name string) (uids []string) {
	b.t.Helper()
	list, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(b.t.Context(), metav1.ListOptions{LabelSelector: "crew=" + name})
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range list.Items {
		uids = append(uids, string(list.Items[i].UID))
	}
	return uids
}

// has is nil when so many pods of a label have places.
func (b *bed) has(selector string, want int) error {
	bound, err := b.bound(selector)
	if err == nil && bound != want {
		err = fmt.Errorf("%d of %d have places", bound, want)
	}
	return err
}
