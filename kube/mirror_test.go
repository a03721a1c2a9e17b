package kube

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/kube/standin"
)

var kindNames = map[facts.WorkloadKind]string{
	facts.Service: "service", facts.ReplicationController: "rc", facts.ReplicaSet: "rs", facts.StatefulSet: "sts",
}

// describeStorage renders what is set of a storage object. Of a version it says only that there is one.
func describeStorage(o facts.StorageObject) string {
	v := reflect.ValueOf(o).Elem()
	text := reflect.TypeOf(o).String()
	for i := range v.NumField() {
		field := v.Field(i)
		switch name := v.Type().Field(i).Name; {
		case field.IsZero():
		case name == "Version":
			text += " Version"
		default:
			text += fmt.Sprintf(" %s:%v", name, field.Interface())
		}
	}
	return text
}

// describeOther renders what is neither about nodes nor about pods; nothing for an empty list.
func describeOther(event facts.Event) string {
	var lines []string
	switch e := event.(type) {
	case facts.NamespacesListed:
		for _, n := range e.Namespaces {
			lines = append(lines, describeOther(facts.NamespaceUpserted{Namespace: n}))
		}
	case facts.NamespaceUpserted:
		return fmt.Sprintf("namespace %s %v", e.Namespace.Name, e.Namespace.Labels)
	case facts.NamespaceRemoved:
		return "namespace " + e.Name + " gone"
	case facts.WorkloadsListed:
		for _, w := range e.Workloads {
			if w.Kind != e.Kind {
				return fmt.Sprintf("a workload of kind %d in a list of kind %d", w.Kind, e.Kind)
			}
			lines = append(lines, describeOther(facts.WorkloadUpserted{Workload: w}))
		}
	case facts.WorkloadUpserted:
		return fmt.Sprintf("%s %s/%s %s", kindNames[e.Workload.Kind], e.Workload.Namespace, e.Workload.Name, &e.Workload.Pods)
	case facts.WorkloadRemoved:
		return fmt.Sprintf("%s %s/%s gone", kindNames[e.Kind], e.Namespace, e.Name)
	case facts.StorageListed:
		for _, o := range e.Objects {
			if o.StorageName().Kind != e.Kind {
				return fmt.Sprintf("%v in a list of kind %d", o.StorageName(), e.Kind)
			}
			lines = append(lines, describeOther(facts.StorageUpserted{Object: o}))
		}
	case facts.StorageUpserted:
		return describeStorage(e.Object)
	case facts.StorageRemoved:
		return fmt.Sprintf("%+v gone", e.Name)
	case facts.BudgetsListed:
		for _, b := range e.Budgets {
			lines = append(lines, describeOther(facts.BudgetUpserted{Budget: b}))
		}
	case facts.BudgetUpserted:
		b := e.Budget
		return fmt.Sprintf("budget %s/%s %s allows %d disrupted %v", b.Namespace, b.Name, &b.Pods, b.Allowed, b.Disrupted)
	case facts.UnitsListed:
		for _, u := range e.Units {
			lines = append(lines, describeOther(facts.UnitUpserted{Unit: u}))
		}
	case facts.UnitUpserted:
		return fmt.Sprintf("unit %s min %d", e.Unit.UnitName, e.Unit.MinMember)
	case facts.UnitRemoved:
		return fmt.Sprintf("unit %s gone", e.Name)
	case facts.DRAListed:
		if len(e.Objects) == 0 { // the API server does not have them
			return ""
		}
	case facts.ReservationsListed:
		for _, r := range e.Reservations {
			lines = append(lines, describeOther(facts.ReservationUpserted{Reservation: r}))
		}
	case facts.ReservationUpserted:
		r := e.Reservation
		return fmt.Sprintf("reservation %s/%s of %d, priority %d, problem %q, places %v", r.Namespace, r.Name, r.Count, r.Template.Priority, r.Problem.Reason, r.Places)
	case facts.ReservationRemoved:
		return fmt.Sprintf("reservation %s gone", e.UID)
	case facts.QueuesListed:
		for _, q := range e.Queues {
			lines = append(lines, describeOther(facts.QueueUpserted{Queue: q}))
		}
	case facts.QueueUpserted:
		return fmt.Sprintf("queue %s below %q weight %d", e.Queue.Name, e.Queue.Parent, e.Queue.Weight)
	case facts.ReportsListed:
		for _, r := range e.Reports {
			lines = append(lines, describeOther(r))
		}
	case facts.NodeReported:
		numa := e.Report.NUMANodes.NUMANode[0]
		text := fmt.Sprintf("report %s %s %d/%d %v", e.Node, e.Report.NUMANodes.Ruler, numa.CPUs, numa.Memory, e.Report.Held)
		if h := e.Report.Headroom; h.State != facts.HeadroomUnsaid && e.Report.Why != facts.ReportMalformed {
			return fmt.Sprintf("%s lends %d/%d %s requests %d", strings.TrimSpace(text+" "+e.Report.Why), h.MilliCPU, h.Memory, h.State, len(e.Report.Evictions))
		}
		return strings.TrimSpace(text + " " + e.Report.Why)
	case facts.NodeReportRemoved:
		return "report " + e.Node + " gone"
	case facts.QueueRemoved:
		return fmt.Sprintf("queue %s gone", e.Name)
	case facts.BudgetRemoved:
		return fmt.Sprintf("budget %s/%s gone", e.Namespace, e.Name)
	default:
		return fmt.Sprintf("a %T", event)
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

func byApp(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func namespace(labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: labels}}
}

func claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "u"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod, corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Ki")}},
		},
	}
}

func volume() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v", ResourceVersion: "7", Labels: map[string]string{"topology.kubernetes.io/zone": "a__b"}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast", VolumeMode: new(corev1.PersistentVolumeBlock), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("2Ki")},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func budget(selector *metav1.LabelSelector, allowed int32, disrupted ...string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: named("b"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}}
	b.Status.DisruptionsAllowed = allowed
	for _, name := range disrupted {
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = make(map[string]metav1.Time)
		}
		b.Status.DisruptedPods[name] = metav1.Unix(1_000_000, 0)
	}
	return b
}

// mirrored is, for each resource, what it holds at first, changes that nobody is told of, and one that is told.
var mirrored = map[string]struct {
	first  standin.Object
	listed string
	silent []standin.Object
	change standin.Object
	told   string
	gone   string
}{
	"namespaces": {
		first: namespace(map[string]string{"team": "b", "env": "a"}), listed: "namespace default [{env a} {team b}]",
		silent: []standin.Object{&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "b", "env": "a"}, Annotations: map[string]string{"x": "y"}},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		}},
		change: namespace(map[string]string{"team": "c"}), told: "namespace default [{team c}]", gone: "namespace default gone",
	},
	"services": {
		first:  &corev1.Service{ObjectMeta: named("s"), Spec: corev1.ServiceSpec{Selector: map[string]string{"b": "2", "app": "web"}}},
		listed: "service default/s app In [web], b In [2]",
		silent: []standin.Object{
			&corev1.Service{ObjectMeta: named("s"), Spec: corev1.ServiceSpec{Selector: map[string]string{"b": "2", "app": "web"}, ClusterIP: "10.0.0.1"}},
			&corev1.Service{ObjectMeta: named("external")},
		},
		change: &corev1.Service{ObjectMeta: named("s"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db"}}},
		told:   "service default/s app In [db]", gone: "service default/s gone",
	},
	"replicationcontrollers": {
		first:  &corev1.ReplicationController{ObjectMeta: named("c"), Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"app": "web"}}},
		listed: "rc default/c app In [web]",
		silent: []standin.Object{&corev1.ReplicationController{
			ObjectMeta: named("c"), Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"app": "web"}, MinReadySeconds: 5},
		}},
		change: &corev1.ReplicationController{ObjectMeta: named("c"), Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"app": "db"}}},
		told:   "rc default/c app In [db]", gone: "rc default/c gone",
	},
	"replicasets": {
		first:  &appsv1.ReplicaSet{ObjectMeta: named("r"), Spec: appsv1.ReplicaSetSpec{Selector: byApp("web")}},
		listed: "rs default/r app In [web]",
		silent: []standin.Object{
			&appsv1.ReplicaSet{ObjectMeta: named("r"), Spec: appsv1.ReplicaSetSpec{Selector: byApp("web")}, Status: appsv1.ReplicaSetStatus{Replicas: 3}},
			&appsv1.ReplicaSet{ObjectMeta: named("all"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{}}},
			&appsv1.ReplicaSet{ObjectMeta: named("none")},
			&appsv1.ReplicaSet{ObjectMeta: named("odd"), Spec: appsv1.ReplicaSetSpec{Selector: byApp("not a label value")}},
		},
		change: &appsv1.ReplicaSet{ObjectMeta: named("r"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}},
		}}},
		told: "rs default/r app Exists", gone: "rs default/r gone",
	},
	"statefulsets": {
		first:  &appsv1.StatefulSet{ObjectMeta: named("t"), Spec: appsv1.StatefulSetSpec{Selector: byApp("web")}},
		listed: "sts default/t app In [web]",
		silent: []standin.Object{&appsv1.StatefulSet{
			ObjectMeta: named("t"), Spec: appsv1.StatefulSetSpec{Selector: byApp("web")}, Status: appsv1.StatefulSetStatus{Replicas: 3},
		}},
		change: &appsv1.StatefulSet{ObjectMeta: named("t"), Spec: appsv1.StatefulSetSpec{Selector: byApp("db")}},
		told:   "sts default/t app In [db]", gone: "sts default/t gone",
	},
	"persistentvolumeclaims": {
		first:  claim(),
		listed: "*facts.Claim ClaimName:default/c UID:u StorageClass:fast Size:1024 Sized:true Modes:9 Version",
		change: func() standin.Object {
			c := claim()
			c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n1", "pv.kubernetes.io/bind-completed": "yes"}
			c.Spec.VolumeName = "v"
			return c
		}(),
		told: "*facts.Claim ClaimName:default/c UID:u StorageClass:fast Volume:v Bound:true SelectedNode:n1 Size:1024 Sized:true Modes:9",
		gone: "{Kind:1 Namespace:default Name:c} gone",
	},
	"persistentvolumes": {
		first:  volume(),
		listed: "*facts.Volume Name:v StorageClass:fast Size:2048 Modes:1 Block:true Labels:[{topology.kubernetes.io/zone a__b}] Nodes:[{[{kubernetes.io/hostname In [n1]}] []}] Zones:[{topology.kubernetes.io/zone In [a b]}] Available:true Version",
		change: func() standin.Object {
			v := volume()
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "c", UID: "u"}
			v.Spec.NodeAffinity, v.Labels, v.Status.Phase = nil, nil, corev1.VolumeBound
			return v
		}(),
		told: "*facts.Volume Name:v StorageClass:fast Size:2048 Modes:1 Block:true Claim:default/c ClaimUID:u",
		gone: "{Kind:2 Namespace: Name:v} gone",
	},
	"storageclasses": {
		first:  &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)},
		listed: "*facts.StorageClass Name:local Waits:true",
		silent: []standin.Object{&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
			MountOptions: []string{"ro"},
		}},
		change: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "csi.example.org",
			AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"b", "a"}}}}},
		},
		told: "*facts.StorageClass Name:local Driver:csi.example.org Attaches:csi.example.org Nodes:[{[{zone In [a b]}] []}]",
		gone: "{Kind:3 Namespace: Name:local} gone",
	},
	"csidrivers": {
		first:  &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example.org"}},
		listed: "*facts.StorageDriver Name:csi.example.org",
		silent: []standin.Object{&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example.org"}, Spec: storagev1.CSIDriverSpec{PodInfoOnMount: new(true)}}},
		change: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example.org"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}},
		told:   "*facts.StorageDriver Name:csi.example.org TellsCapacity:true",
		gone:   "{Kind:4 Namespace: Name:csi.example.org} gone",
	},
	"csistoragecapacities": {
		first: &storagev1.CSIStorageCapacity{
			ObjectMeta: named("a"), StorageClassName: "fast", Capacity: new(apiresource.MustParse("2Ki")),
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}},
		},
		listed: "*facts.StorageCapacity Namespace:default Name:a StorageClass:fast Nodes:{false [{zone In [a]}]} Most:2048 Capacity:2048 Told:true",
		silent: []standin.Object{&storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: map[string]string{"x": "y"}}, StorageClassName: "fast", Capacity: new(apiresource.MustParse("2048")),
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}},
		}},
		change: &storagev1.CSIStorageCapacity{
			ObjectMeta: named("a"), StorageClassName: "fast", Capacity: new(apiresource.MustParse("2Ki")), MaximumVolumeSize: new(apiresource.MustParse("1Ki")),
		},
		told: "*facts.StorageCapacity Namespace:default Name:a StorageClass:fast Nodes:{true []} Most:1024 Capacity:2048 Told:true",
		gone: "{Kind:5 Namespace:default Name:a} gone",
	},
	"csinodes": {
		first: &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"}},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "b", NodeID: "x"}, {Name: "a", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(2))}}}},
		},
		listed: "*facts.StorageNode Node:n1 Drivers:[{a 2 true} {b 0 false}] Migrated:[kubernetes.io/aws-ebs kubernetes.io/gce-pd]",
		silent: []standin.Object{&storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "a", NodeID: "y", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(2))}}, {Name: "b"}}},
		}},
		change: &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "a"}}}},
		told:   "*facts.StorageNode Node:n1 Drivers:[{a 0 false}]",
		gone:   "{Kind:6 Namespace: Name:n1} gone",
	},
	"volumeattachments": {
		first: &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "x"},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: "a", NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")}},
		},
		listed: "*facts.Attachment Name:x Node:n1 Driver:a Volume:v",
		silent: []standin.Object{&storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "x"},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: "a", NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")}},
			Status:     storagev1.VolumeAttachmentStatus{Attached: true},
		}},
		change: &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "a", NodeName: "n2"}},
		told:   "*facts.Attachment Name:x Node:n2 Driver:a",
		gone:   "{Kind:7 Namespace: Name:x} gone",
	},
	"poddisruptionbudgets": {
		first: budget(byApp("web"), 2, "web-2", "web-1"), listed: "budget default/b app In [web] allows 2 disrupted [web-1 web-2]",
		silent: []standin.Object{
			func() standin.Object {
				b := budget(byApp("web"), 2, "web-2", "web-1")
				b.Spec.MinAvailable = &intstr.IntOrString{IntVal: 3}
				b.Status.CurrentHealthy = 5
				return b
			}(),
			func() standin.Object {
				b := budget(&metav1.LabelSelector{}, 0)
				b.Name = "empty"
				return b
			}(),
		},
		change: budget(byApp("web"), 1, "web-2", "web-1"), told: "budget default/b app In [web] allows 1 disrupted [web-1 web-2]", gone: "budget default/b gone",
	},
}

func TestWatchOfWhatConstraintsSpeakOf(t *testing.T) {
	for _, streamed := range []bool{true, false} {
		for resource, c := range mirrored {
			t.Run(fmt.Sprintf("%s streamed=%v", resource, streamed), func(t *testing.T) {
				s := standin.New(t)
				if !streamed {
					s.WithoutStreaming()
				}
				s.Set(c.first)
				w := startWatch(t, s, quiet)
				seen := map[string]bool{next(t, w): true, next(t, w): true, next(t, w): true} // beside the empty ones of nodes and pods
				if !seen[c.listed] {
					t.Fatalf("got %v, want %q", seen, c.listed)
				}
				for _, silent := range c.silent {
					s.Set(silent)
				}
				s.Set(c.change)
				expect(t, w, c.told)
				s.Delete(c.change)
				s.Set(c.first)
				expect(t, w, c.gone, c.listed)
			})
		}
	}
}

// A service that loses its selector selects nothing any more.
func TestServiceWithoutSelectorIsGone(t *testing.T) {
	s := standin.New(t)
	c := mirrored["services"]
	s.Set(c.first)
	w := startWatch(t, s, quiet)
	for next(t, w) != c.listed {
	}
	s.Set(&corev1.Service{ObjectMeta: named("s")})
	for line := ""; line != c.gone; line = next(t, w) {
		if strings.HasPrefix(line, "service") {
			t.Fatal(line)
		}
	}
}

func TestBudgetChangesThatAreTold(t *testing.T) {
	events := make(chan facts.Event, 4)
	sink := mirrorBudgets(outlet{t.Context(), events}, parse.NewParser("hilbert", nil))
	_ = sink.Add(budget(byApp("web"), 2, "a"))
	for i, changed := range []*policyv1.PodDisruptionBudget{budget(byApp("web"), 2, "b"), budget(byApp("web"), 1, "b"), budget(byApp("db"), 1, "b")} {
		_ = sink.Update(changed)
		_ = sink.Update(changed)
		if len(events) != i+2 {
			t.Errorf("change %d: %d events", i, len(events))
		}
	}
}

func TestBudgetsThatSelectNothing(t *testing.T) {
	for name, selector := range map[string]*metav1.LabelSelector{"none": nil, "empty": {}, "malformed": byApp("not a label value")} {
		if got := parse.NewParser("hilbert", nil).Budget(budget(selector, 1)); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Changes of a pod that do not touch its class are told all the same where others' placement, or a preemption, depends on them.
func TestPodChangesThatAreTold(t *testing.T) {
	controls := true
	never := corev1.PreemptNever
	started := metav1.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		node   string
		change func(*corev1.Pod)
		told   bool
	}{
		"labels":            {"n1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} }, true},
		"a label's key":     {"n1", func(p *corev1.Pod) { p.Labels = map[string]string{"apps": "web"} }, true},
		"a label less":      {"n1", func(p *corev1.Pod) { p.Labels = nil }, true},
		"start":             {"n1", func(p *corev1.Pod) { p.Status.StartTime = &started }, true},
		"preemption policy": {"", func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never }, true},
		"nomination":        {"", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }, true},
		"owner": {"", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: &controls}}
		}, true},
		"nomination of a bound": {"n1", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }, false},
		"unit":                  {"n1", func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")} }, true},
		"deadline":              {"", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(60)) }, true},
		"annotations":           {"n1", func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false},
		"an owner of other kinds": {"", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Controller: &controls}}
		}, true}, // whether it may be moved
	} {
		t.Run(name, func(t *testing.T) {
			events := make(chan facts.Event, 2)
			sink := &podSink{out: outlet{t.Context(), events}, parser: parse.NewParser("hilbert", nil), watches: newPodWatches()}
			pod := standin.Pod("a", c.node)
			pod.Labels = map[string]string{"app": "web"}
			_ = sink.Add(pod)
			pod = pod.DeepCopy()
			c.change(pod)
			_ = sink.Update(pod)
			if told := len(events) == 2; told != c.told {
				t.Errorf("told: %v", told)
			}
		})
	}
}

func TestNodeChangesThatAreTold(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"image":   func(n *corev1.Node) { n.Status.Images[0].Names[0] = "other:v1" },
		"size":    func(n *corev1.Node) { n.Status.Images[0].SizeBytes++ },
		"feature": func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"Flies"} },
	} {
		events := make(chan facts.Event, 2)
		sink := mirrorNodes(outlet{t.Context(), events}, parse.NewParser("hilbert", nil))
		node := standin.TypicalNode(1)
		_ = sink.Add(node)
		_ = sink.Update(standin.TypicalNode(1))
		if len(events) != 1 {
			t.Errorf("%d events for one node", len(events))
		}
		change(node)
		_ = sink.Update(node)
		if len(events) != 2 {
			t.Errorf("%s: not told", name)
		}
	}
}

func TestLists(t *testing.T) {
	all := []facts.Event{
		facts.NodesListed{},
		facts.PodsListed{},
		facts.NamespacesListed{},
		facts.BudgetsListed{},
		facts.WorkloadsListed{Kind: facts.Service},
		facts.WorkloadsListed{Kind: facts.ReplicationController},
		facts.WorkloadsListed{Kind: facts.ReplicaSet},
		facts.WorkloadsListed{Kind: facts.StatefulSet},
		facts.UnitsListed{},
		facts.QueuesListed{},
		facts.ReportsListed{},
		facts.FinishedListed{},
		facts.StorageListed{Kind: facts.PersistentVolumeClaim},
		facts.StorageListed{Kind: facts.PersistentVolume},
		facts.StorageListed{Kind: facts.StorageClassKind},
		facts.StorageListed{Kind: facts.CSIDriver},
		facts.StorageListed{Kind: facts.CSIStorageCapacity},
		facts.StorageListed{Kind: facts.CSINode},
		facts.StorageListed{Kind: facts.VolumeAttachment},
		facts.DRAListed{Kind: facts.ResourceClaimKind},
		facts.DRAListed{Kind: facts.DeviceClassKind},
		facts.DRAListed{Kind: facts.ResourceSliceKind},
		facts.DRAListed{Kind: facts.DeviceTaintRuleKind},
		facts.ReservationsListed{},
	}
	for left := range all {
		var lists Lists
		for i, event := range all {
			if i != left {
				lists.Note(event)
				lists.Note(event)
			}
		}
		lists.Note(facts.PodRemoved{})
		if got := lists.Missing(); lists.Complete() || !slices.Equal(got, resources[left:left+1]) {
			t.Errorf("without %T: missing %v", all[left], got)
		}
		lists.Note(all[left])
		if !lists.Complete() {
			t.Errorf("with everything: missing %v", lists.Missing())
		}
	}
}

// Every list that Lists waits for does come.
func TestWatchListsEverything(t *testing.T) {
	w := startWatch(t, standin.New(t), quiet)
	for lists := (Lists{}); !lists.Complete(); lists.Note(<-w.Events()) {
	}
}
