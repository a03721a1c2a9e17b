package controlplane

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/write"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
)

// sigsDefinition is as much of the CRD of scheduler-plugins as the test needs.
const sigsDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: podgroups.scheduling.x-k8s.io
spec:
  group: scheduling.x-k8s.io
  scope: Namespaced
  names: {kind: PodGroup, listKind: PodGroupList, plural: podgroups, singular: podgroup}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                minMember: {type: integer, format: int32}
                scheduleTimeoutSeconds: {type: integer, format: int32}
            status:
              type: object
              properties:
                phase: {type: string}
                running: {type: integer, format: int32}
`

// deployedUser is a connection of a user who may do what the deployed ClusterRole allows, and no more.
func deployedUser(t *testing.T, c *ControlPlane, admin kubernetes.Interface) *apiserver.Connection {
	t.Helper()
	text, err := os.ReadFile("../../deploy/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if role, ok := object.(*rbacv1.ClusterRole); ok && role.Name == "hilbertd" {
			if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "hilbertd"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hilbertd"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "hilbertd"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.UserKubeconfig(path, "hilbertd"); err != nil {
		t.Fatal(err)
	}
	connection, err := apiserver.Connect(path)
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

// lead returns a Fence that a held Lease keeps open.
func lead(t *testing.T, c *ControlPlane) *lease.Fence {
	t.Helper()
	config := spec.Default().LeaderElection
	config.LeaseDuration, config.RenewDeadline = spec.Duration(4*patience), spec.Duration(3*patience) // a busy machine is slow to renew
	fence := lease.NewFence(config.RenewDeadline.D(), patience)
	elector, err := lease.NewElector(c.AdminConfig(), config, fence, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	term, err := elector.Campaign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(term.Release)
	return fence
}

func post(t *testing.T, api rest.Interface, path, text string) {
	t.Helper()
	body, err := yaml.ToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

// The door of the product, as the user that deploy/ makes, reads and writes PodGroups of both APIs and Queues on a real API server.
func TestDoor(t *testing.T) {
	c := start(t, Options{})
	if err := c.InstallDefinitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin := client(t, c.AdminConfig())
	api := admin.Discovery().RESTClient()
	post(t, api, definitionsPath, sigsDefinition)
	if err := awaitEstablished(t.Context(), api, "podgroups.scheduling.x-k8s.io"); err != nil {
		t.Fatal(err)
	}
	group := func(name string, generation int32) *schedulingv1beta1.PodGroup {
		return &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{spec.AnnotationPreferredTopology: "host"}},
			Spec: schedulingv1beta1.PodGroupSpec{
				SchedulingPolicy:      schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: generation}},
				SchedulingConstraints: &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}},
			},
		}
	}
	groups := admin.SchedulingV1beta1().PodGroups("default")
	if _, err := groups.Create(t.Context(), group("builtin", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const sigsPath, queuePath = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups", "/apis/scheduling.hilbert.dev/v1alpha1/queues"
	post(t, api, sigsPath, "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: sigs}\nspec: {minMember: 4}")
	post(t, api, queuePath, "apiVersion: scheduling.hilbert.dev/v1alpha1\nkind: Queue\nmetadata: {name: team}\nspec: {guaranteed: {nvidia.com/gpu: 8}}")
	connection := deployedUser(t, c, admin)

	units, queues := watchUntilListed(t, connection)
	if got := units["default/builtin"]; got == nil || got.MinMember != 3 || got.Topology.Required != "rack" || got.Topology.Preferred != "host" ||
		got.Invalid != "" || got.Created == 0 || got.UID == "" {
		t.Errorf("builtin: %+v", got)
	}
	if got := units["default/sigs"]; got == nil || got.MinMember != 4 {
		t.Errorf("sigs: %+v", got)
	}
	if got := queues["team"]; got == nil || len(got.Guaranteed) != 1 || got.Guaranteed[0] != (resource.Quantity{Name: spec.ResourceGPUMilli, Amount: 8000}) || got.Weight != 1 {
		t.Errorf("queue: %+v", got)
	}
	fence := lead(t, c)
	writeUnits(t, connection, fence, units)
	stored, err := groups.Get(t.Context(), "builtin", metav1.GetOptions{})
	if err != nil || len(stored.Status.Conditions) != 1 {
		t.Fatalf("%v: %+v", err, stored)
	}
	if got := stored.Status.Conditions[0]; got.Type != schedulingv1beta1.PodGroupInitiallyScheduled || got.Status != metav1.ConditionTrue ||
		got.Reason != "Scheduled" || got.ObservedGeneration != stored.Generation {
		t.Errorf("condition %+v", got)
	}
	body, err := api.Get().AbsPath(sigsPath, "sigs").SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(body), `"phase":"Scheduling"`) {
		t.Errorf("%v: %s", err, body)
	}
	writeQueue(t, connection, fence, api, queuePath)
}

// watchUntilListed returns what the first lists tell.
func watchUntilListed(t *testing.T, connection *apiserver.Connection) (units map[string]*facts.Unit, queues map[string]*facts.Queue) {
	t.Helper()
	w, err := kube.StartWatch(t.Context(), connection, kube.WatchOptions{SchedulerName: "hilbert", Levels: []string{"rack", "host"}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	units, queues = make(map[string]*facts.Unit), make(map[string]*facts.Queue)
	timeout := time.After(patience)
	for lists := (kube.Lists{}); !lists.Complete(); {
		select {
		case event := <-w.Events():
			lists.Note(event)
			switch e := event.(type) {
			case facts.UnitsListed:
				for _, u := range e.Units {
					units[u.String()] = u
				}
			case facts.QueuesListed:
				for _, q := range e.Queues {
					queues[q.Name] = q
				}
			}
		case <-timeout:
			t.Fatalf("no list of %v", lists.Missing())
		}
	}
	return units, queues
}

// writeUnits tells both PodGroups that they wait, that they are whole, and that they wait again, which must not be told.
func writeUnits(t *testing.T, connection *apiserver.Connection, fence *lease.Fence, known map[string]*facts.Unit) {
	t.Helper()
	w, err := write.New(t.Context(), connection, fence, write.Options{Workers: 1, Timeout: patience, SchedulerName: "hilbert"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	write := func(name string, uid facts.UID, condition facts.UnitCondition, want bind.Outcome) {
		t.Helper()
		w.Start(bind.Write{Kind: bind.WriteUnitCondition, Unit: facts.UnitName{Namespace: "default", Name: name}, UnitUID: uid, UnitCondition: condition})
		if got := <-w.Results(); got.Outcome != want {
			t.Fatalf("%s: outcome %d (%s), want %d", name, got.Outcome, got.Message, want)
		}
	}
	waits := facts.UnitCondition{Reason: spec.ReasonWaitingForMembers, Message: "1 of 3"}
	for _, name := range []string{"builtin", "sigs"} {
		for _, condition := range []facts.UnitCondition{waits, waits, {Met: true, Reason: spec.ReasonScheduled}, waits} {
			write(name, known["default/"+name].UID, condition, bind.Written)
		}
	}
	write("nobody", "u", waits, bind.Gone)
	write("sigs", "another", waits, bind.Gone)
}

// writeQueue tells a Queue its status twice: what is not said the second time must be gone.
func writeQueue(t *testing.T, connection *apiserver.Connection, fence *lease.Fence, api rest.Interface, path string) {
	t.Helper()
	answers := make(chan bind.Outcome, 1)
	w, err := write.NewQueueWriter(t.Context(), connection, fence, patience, func(o bind.Outcome) { answers <- o })
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	read := func() (queue v1alpha1.Queue) {
		t.Helper()
		body, err := api.Get().AbsPath(path, "team").SetHeader("Accept", "application/json").DoRaw(t.Context())
		if err == nil {
			err = json.Unmarshal(body, &queue)
		}
		if err != nil {
			t.Fatal(err)
		}
		return queue
	}
	uid := facts.UID(read().UID)
	used := []resource.Quantity{{Name: "cpu", Amount: 1500}, {Name: spec.ResourceGPUMilli, Amount: 8500}}
	for _, status := range []write.QueueStatus{
		{UID: uid, Generation: 1, Used: used, Borrowed: used[1:], PendingUnits: 2},
		{UID: uid, Generation: 1, Used: used[1:], PendingUnits: 3, Problem: facts.Condition{Reason: spec.ReasonQueueParentMissing, Message: "none"}, Refuses: true},
	} {
		if err := w.Write(t.Context(), "team", status); err != nil {
			t.Fatal(err)
		}
		if got := <-answers; got != bind.Written {
			t.Fatalf("outcome %d", got)
		}
	}
	if err := w.Write(t.Context(), "team", write.QueueStatus{UID: "another", Generation: 1, PendingUnits: 9}); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; got == bind.Written {
		t.Error("what is meant for another Queue of the name is written")
	}
	s := read().Status
	if milli := s.Used[spec.ResourceGPUMilli]; len(s.Used) != 1 || milli.Value() != 8500 || len(s.Borrowed) != 0 || s.PendingUnits != 3 || s.ObservedGeneration != 1 {
		t.Errorf("status %+v", s)
	}
	if len(s.Conditions) != 1 || s.Conditions[0].Status != metav1.ConditionFalse || s.Conditions[0].Reason != spec.ReasonQueueParentMissing {
		t.Errorf("conditions %+v", s.Conditions)
	}
}
