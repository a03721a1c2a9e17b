package moves

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/lab/hollow"
)

var tideNodes = flag.Int("tides.nodes", 10, "nodes of 8 CPUs of the TidePool")

const tidePoolsPath = "/apis/scheduling.hilbert.dev/v1alpha1/tidepools"

// TestTides: nodes of a TidePool change hands because services need fewer, by a cron window, and by a planned peak. Each pod that leaves for it has a reserved target before its
// eviction, services that grow in the window find their nodes, a new controller knows what the one before it had learnt, and with the pool its marks go. The controller is its own account under the policies.
func TestTides(t *testing.T) {
	b := newBed(t)
	const deploy = "../../deploy/"
	if err := b.plane.InstallAccess(t.Context(), deploy+"controller/tides.yaml"); err != nil {
		t.Fatal(err)
	}
	b.tidalNodes()
	n := *tideNodes
	services, jobs := n*2/5, n*4/5 // of 4 CPUs, on a fifth of the nodes; of 2 CPUs, on another fifth
	for i := range services {
		b.workload(fmt.Sprintf("web-%03d", i), "4", false)
	}
	b.all("services run", services)

	controller := b.tidal()
	pool := spec.TidePool{
		NodeSelector: &spec.PodSelector{MatchLabels: map[string]string{"pool": "tide"}}, Reserve: spec.TideReserve{Online: 2, Offline: 2},
		Lead: new(spec.Duration(0)), Stay: new(spec.Duration(0)), Hold: new(spec.Duration(time.Second)), Slack: new(0), NodesPerHour: new(1000), HeadroomPercent: new(0),
	}
	b.create(&pool)
	low := n / 5
	b.until("services have what they need, and offline the rest", func() error { return b.stand(low, n-low) })
	b.gangsMoveWhole(n - 2)
	b.until("offline has them again", func() error { return b.stand(low, n-low) })
	judge := newJudge(t, b, "app")
	for i := range jobs {
		b.workload(fmt.Sprintf("job-%03d", i), "2", true)
	}
	b.all("jobs run", services+jobs)

	// A window that has begun by the clock of its zone.
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now().In(zone).Add(-2 * time.Minute)
	day := spec.TideWindow{Name: "day", Cron: fmt.Sprintf("%d %d * * *", begun.Minute(), begun.Hour()), TimeZone: zone.String(), Duration: spec.Duration(6 * time.Hour), Online: n * 7 / 10}
	b.change(map[string]any{"schedule": []spec.TideWindow{day}})
	b.until("the window has its nodes, and no job is on them", func() error { return b.stand(day.Online, n-day.Online) })
	if !testing.Short() { // now services need twice as much, and find it
		for i := range services {
			b.workloadOf("grown", fmt.Sprintf("more-%03d", i), "4", false)
		}
		b.until("services have grown", func() error {
			bound, err := b.bound("grown")
			if err == nil && bound != services {
				err = fmt.Errorf("%d of %d have places", bound, services)
			}
			return err
		})
		for i := range services {
			b.end(fmt.Sprintf("more-%03d", i))
		}
	}
	b.change(map[string]any{"schedule": []spec.TideWindow{}})
	b.until("offline has them again", func() error { return b.stand(low, n-low) })

	// A peak that is planned, some seconds ahead.
	sale := spec.TideWindow{Name: "sale", Begins: time.Now().UTC().Add(3 * time.Second).Format("2006-01-02T15:04:05"), Duration: spec.Duration(time.Hour), Online: n * 7 / 10}
	b.change(map[string]any{"schedule": []spec.TideWindow{sale}})
	b.until("the peak has its nodes", func() error { return b.stand(sale.Online, n-sale.Online) })
	b.all("everything runs", services+jobs)
	b.until("each target is given back", func() error {
		list, err := b.reservations()
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are there", len(list.Items))
		}
		return err
	})

	controller = b.forecastOutlasts(controller)
	if err := b.admin.Discovery().RESTClient().Delete().AbsPath(tidePoolsPath + "/tide").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	b.until("no node has a mark any more", func() error {
		list, err := b.admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: spec.LabelTidePool})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d have", len(list.Items))
		}
		return err
	})
	controller.stop(t)
	events, err := b.admin.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=ChangesHands"})
	if err != nil || len(events.Items) == 0 {
		t.Errorf("no events: %v", err)
	}
	evicted, wrong := judge.verdict()
	for _, w := range wrong {
		t.Error(w)
	}
	if evicted == 0 {
		t.Error("nobody was evicted: no node had pods of the other side")
	}
	t.Logf("%d nodes: %d pods were moved while nodes changed hands, %d events", n, evicted, len(events.Items))
}

// tidal starts a hilbertd that has nodes of TidePools change hands, and moves nobody for other reasons.
func (b *bed) tidal() *process {
	config := b.configuration("hilbert-controller")
	config.Roles, config.Server.BindAddress = []spec.Role{spec.RoleController}, "-"
	config.Rescheduling.MaxInFlight, config.Rescheduling.MaxMoves = 64, 64
	config.Rescheduling.MaxWorkloadTimeLossPermille = reschedule.WholeWorkload // a day has a few minutes here
	config.Controller.Tides = spec.Tides{Enabled: true, Interval: spec.Duration(time.Second)}
	config.Controller.Disturbances = spec.Disturbances{PodsPerHour: 100_000, Burst: 100}
	return b.start("tides", "hilbert-controller", config, nil)
}

func (b *bed) tidalNodes() {
	t := b.t
	shapes := make([]hollow.Shape, *tideNodes)
	for i := range shapes {
		shapes[i] = hollow.Shape{Name: fmt.Sprintf("tide-%03d", i), Labels: map[string]string{"pool": "tide"}, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}}
	}
	fleet, err := hollow.Run(t.Context(), b.plane.AdminConfig(), shapes, hollow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Stop)
}

// workload creates a workload of one pod, of services or of offline work, that the judge looks at.
func (b *bed) workload(name, cpu string, offline bool) {
	b.t.Helper()
	b.workloadOf("app", name, cpu, offline)
}

func (b *bed) workloadOf(label, name, cpu string, offline bool) {
	b.t.Helper()
	labels := map[string]string{label: name}
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		SchedulerName: "hilbert", Containers: []corev1.Container{{Name: "main", Image: "image", Resources: corev1.ResourceRequirements{Requests: amounts}}},
	}}
	if offline {
		template.Spec.NodeSelector = map[string]string{spec.LabelTide: spec.TideOffline}
		template.Spec.Tolerations = []corev1.Toleration{{Key: spec.LabelTide, Operator: corev1.TolerationOpEqual, Value: spec.TideOffline, Effect: corev1.TaintEffectNoSchedule}}
	}
	_, err := b.admin.AppsV1().ReplicaSets(metav1.NamespaceDefault).Create(b.t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) end(name string) {
	b.t.Helper()
	background := metav1.DeletePropagationBackground
	if err := b.admin.AppsV1().ReplicaSets(metav1.NamespaceDefault).Delete(b.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) all(what string, want int) {
	b.t.Helper()
	b.until(what, func() error {
		bound, err := b.bound("app")
		if err == nil && bound != want {
			err = fmt.Errorf("%d of %d have places", bound, want)
		}
		return err
	})
}

func (b *bed) create(p *spec.TidePool) {
	b.t.Helper()
	body, err := json.Marshal(&v1alpha1.TidePool{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: spec.TidePoolKind}, ObjectMeta: metav1.ObjectMeta{Name: "tide"}, Spec: *p,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	err = b.admin.Discovery().RESTClient().Post().AbsPath(tidePoolsPath).SetHeader("Content-Type", "application/json").Body(body).Do(b.t.Context()).Error()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) change(fields map[string]any) {
	b.t.Helper()
	body, err := json.Marshal(map[string]any{"spec": fields})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.admin.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(tidePoolsPath + "/tide").Body(body).Do(b.t.Context()).Error(); err != nil {
		b.t.Fatal(err)
	}
}

// stand is nil when the sides have so many nodes, with the taint where it belongs, no pod is on a node of the other side, and the status says so.
func (b *bed) stand(online, offline int) error {
	ctx := b.t.Context()
	list, err := b.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=tide"})
	if err != nil {
		return err
	}
	side, on, off := make(map[string]string), 0, 0
	for i := range list.Items {
		n := &list.Items[i]
		side[n.Name] = n.Labels[spec.LabelTide]
		tainted := false
		for _, taint := range n.Spec.Taints {
			tainted = tainted || taint.Key == spec.LabelTide
		}
		switch {
		case side[n.Name] == spec.TideOffline && tainted:
			off++
		case side[n.Name] == spec.TideOnline && !tainted:
			on++
		}
	}
	if err := b.apart(ctx, side); on != online || off != offline || err != nil {
		return errors.Join(fmt.Errorf("%d online, %d offline; want %d and %d", on, off, online, offline), err, b.said())
	}
	return b.said()
}

// said is nil when the pool is satisfied.
func (b *bed) said() error {
	text, err := b.admin.Discovery().RESTClient().Get().AbsPath(tidePoolsPath+"/tide").SetHeader("Accept", "application/json").DoRaw(b.t.Context())
	if err != nil {
		return err
	}
	var p v1alpha1.TidePool
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	for _, c := range p.Status.Conditions {
		if c.Type == spec.ConditionTideSatisfied && c.Status == metav1.ConditionTrue && p.Status.ObservedGeneration == p.Generation {
			return nil
		}
	}
	return fmt.Errorf("not satisfied: %+v", p.Status)
}

// apart is nil when no pod is on a node of the other side.
func (b *bed) apart(ctx context.Context, side map[string]string) error {
	pods, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app"})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if node := p.Spec.NodeName; node != "" && (p.Spec.NodeSelector[spec.LabelTide] == spec.TideOffline) != (side[node] == spec.TideOffline) {
			return fmt.Errorf("%s is on %s, which is %s", p.Name, node, side[node])
		}
	}
	return nil
}
