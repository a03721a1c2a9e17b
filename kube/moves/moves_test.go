package moves

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/kube/lease"
)

// web is a pod of a ReplicaSet on node a.
func web() *corev1.Pod {
	controls, seven := true, int32(7)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-0", UID: "u", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"example.com/x": "y", spec.AnnotationGPUs: "0"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: &controls}},
		},
		Spec: corev1.PodSpec{
			NodeName: "a", SchedulerName: "hilbert", PriorityClassName: "gold", Priority: &seven, SchedulingGates: []corev1.PodSchedulingGate{{Name: "gate"}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}}},
			Containers:          []corev1.Container{{Name: "main", Image: "i", Env: []corev1.EnvVar{{Name: "SECRET", Value: "x"}}, VolumeMounts: []corev1.VolumeMount{{Name: "v"}}}},
			Volumes:             []corev1.Volume{{Name: "v"}},
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}},
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpExists}}},
				{},
			}}}},
		},
	}
}

func carried() *reschedule.Carried {
	return &reschedule.Carried{Wanted: reschedule.Wanted{Pod: "u", Namespace: "ns", Name: "web-0", Workload: "ns/web", From: "a", To: "b", Reason: "make room", Why: "train waits"}}
}

// A target is what the pod asks for, on the node alone, where one of the pod's terms lets it be: an empty one selects no node. It has nothing that the policies refuse, and no more of the pod than placement asks.
func TestReservationOfATarget(t *testing.T) {
	pod := web()
	r, err := reservation(&carried().Wanted, pod, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, none := range []string{"SECRET", "volume", `"priority"`, "nodeName", "schedulingGates", "debugger", spec.AnnotationGPUs} {
		if strings.Contains(string(text), none) {
			t.Errorf("it has %s: %s", none, text)
		}
	}
	terms := r.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if f := terms[i].MatchFields; len(f) != 1 || f[0].Key != "metadata.name" || f[0].Values[0] != "b" {
			t.Errorf("term %d is not pinned: %+v", i, terms[i])
		}
	}
	if len(terms) != 2 || terms[0].MatchExpressions == nil || terms[1].MatchExpressions == nil || r.Spec.Count != 1 || r.Spec.Template.Spec.PriorityClassName != "gold" || r.Spec.Template.Labels["app"] != "web" {
		t.Errorf("got %s", text)
	}
	if o := r.Spec.Owners; len(o) != 1 || *o[0].Controller != (v1alpha1.ReservationController{Kind: "ReplicaSet", Name: "web"}) || o[0].Selector != nil || o[0].PodGroup != "" {
		t.Errorf("owners %+v", o)
	}
	if pod.Annotations[spec.AnnotationGPUs] == "" || pod.Spec.NodeName == "" || len(pod.Spec.Volumes) == 0 {
		t.Error("the pod was changed")
	}
	pod.Spec.Affinity, pod.OwnerReferences = nil, nil
	if got := template(pod, "b").Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; len(got) != 1 || len(got[0].MatchFields) != 1 {
		t.Errorf("without affinity: %+v", got)
	}
	if _, err := reservation(&carried().Wanted, pod, time.Hour); err == nil {
		t.Error("a target for a pod that nobody replaces")
	}
}

func TestVeto(t *testing.T) {
	for want, change := range map[string]func(*corev1.Pod){
		"":                  func(*corev1.Pod) {},
		"its annotations":   func(p *corev1.Pod) { p.Annotations[spec.AnnotationDoNotDisrupt] = "true" },
		"nobody would":      func(p *corev1.Pod) { p.OwnerReferences = nil },
		"claims of devices": func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} },
		"volumes that stand for": func(p *corev1.Pod) {
			p.Spec.Volumes[0].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{}
		},
		"claims, for which no place": func(p *corev1.Pod) { p.Spec.Volumes[0].Ephemeral = &corev1.EphemeralVolumeSource{} },
		"reclaimed_cores":            func(p *corev1.Pod) { p.Labels[spec.LabelQoS] = "reclaimed_cores" },
		"level reclaimed_cores":      func(p *corev1.Pod) { p.Annotations[spec.AnnotationKatalystQoS] = "reclaimed_cores" },
	} {
		pod := web()
		change(pod)
		if got := veto(pod); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// server answers as an API server that has what is set.
type server struct {
	pod      *corev1.Pod
	target   *v1alpha1.Reservation
	evict    int // the code of the answer
	causes   []metav1.StatusCause
	bodies   []string
	failures int // of reads that are to fail
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := func(code int, object any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(object)
	}
	body, _ := io.ReadAll(r.Body)
	failure := func(code int) {
		answer(code, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Message: "no", Details: &metav1.StatusDetails{Causes: s.causes}})
	}
	switch {
	case s.failures > 0:
		s.failures--
		failure(http.StatusInternalServerError)
	case strings.HasSuffix(r.URL.Path, "/eviction"):
		s.bodies = append(s.bodies, string(body))
		if s.evict >= http.StatusMultipleChoices {
			failure(s.evict)
			return
		}
		answer(s.evict, &metav1.Status{Status: metav1.StatusSuccess})
	case r.Method != http.MethodGet:
		s.bodies = append(s.bodies, r.Method+" "+r.URL.Path)
		answer(http.StatusCreated, map[string]any{})
	case strings.Contains(r.URL.Path, "/pods/") && s.pod != nil:
		answer(http.StatusOK, s.pod)
	case strings.HasSuffix(r.URL.Path, "/reservations") && s.target != nil:
		answer(http.StatusOK, &v1alpha1.ReservationList{Items: []v1alpha1.Reservation{*s.target, {ObjectMeta: metav1.ObjectMeta{Name: "somebody's", Labels: map[string]string{spec.LabelMove: ""}}}}})
	case strings.Contains(r.URL.Path, "/reservations/") && s.target != nil:
		answer(http.StatusOK, s.target)
	default:
		failure(http.StatusNotFound)
	}
}

func start(t *testing.T, s http.Handler) (*Client, *lease.Fence) {
	t.Helper()
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	fence := lease.NewFence(time.Hour, time.Minute)
	fence.Renewed(time.Now())
	c, err := New(&rest.Config{Host: listening.URL}, fence, time.Minute, time.Hour, "hilbert-system")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, fence
}

func TestSee(t *testing.T) {
	placed := func(state string) *v1alpha1.Reservation {
		r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: nameOf("u")}}
		if state != "" {
			r.Status.Places = []v1alpha1.ReservedPlace{{State: state, Reason: "RoomTaken", Message: "m"}}
			if state == "Consumed" {
				r.Status.Places[0].Pod = "p"
			}
		}
		return r
	}
	served := placed("Lost")
	served.Status.Places[0].Pod = "p"
	now := metav1.Now()
	leaving, other, elsewhere, succeeded, failed, deleted := web(), web(), web(), web(), web(), placed("Reserved")
	succeeded.Status.Phase, failed.Status.Phase, deleted.DeletionTimestamp = corev1.PodSucceeded, corev1.PodFailed, &now
	leaving.DeletionTimestamp, other.UID, elsewhere.Spec.NodeName = &now, "another", "c"
	for name, c := range map[string]struct {
		s     server
		stage reschedule.Stage
		want  reschedule.Seen
	}{
		"nothing yet":                      {server{pod: web()}, reschedule.Rehearsed, reschedule.Seen{Known: true, Running: true, Place: reschedule.Absent, Why: "there is no Reservation any more"}},
		"asked":                            {server{pod: web(), target: placed("")}, reschedule.Reserving, reschedule.Seen{Known: true, Running: true, Place: reschedule.Asked}},
		"reserved":                         {server{pod: web(), target: placed("Reserved")}, reschedule.Reserving, reschedule.Seen{Known: true, Running: true, Place: reschedule.Reserved}},
		"lost":                             {server{pod: web(), target: placed("Lost")}, reschedule.Reserving, reschedule.Seen{Known: true, Running: true, Place: reschedule.Lost, Why: "RoomTaken: m"}},
		"served elsewhere":                 {server{target: served}, reschedule.Requeued, reschedule.Seen{Known: true, Gone: true, Place: reschedule.Lost, Why: "RoomTaken: m", Served: true, Replacement: "p"}},
		"being deleted":                    {server{pod: leaving, target: placed("Reserved")}, reschedule.Evicting, reschedule.Seen{Known: true, Evicted: true, Place: reschedule.Reserved}},
		"deleted by others":                {server{pod: leaving, target: placed("Reserved")}, reschedule.Reserving, reschedule.Seen{Known: true, Place: reschedule.Reserved}},
		"its successor":                    {server{pod: other, target: placed("Consumed")}, reschedule.Replacing, reschedule.Seen{Known: true, Gone: true, Place: reschedule.Consumed, Why: "pod p has it", Replacement: "p"}},
		"gone":                             {server{target: placed("Reserved")}, reschedule.Replacing, reschedule.Seen{Known: true, Gone: true, Place: reschedule.Reserved}},
		"it has ended":                     {server{pod: succeeded, target: placed("Reserved")}, reschedule.Evicting, reschedule.Seen{Known: true, Gone: true, Place: reschedule.Reserved}},
		"it has failed":                    {server{pod: failed, target: placed("Reserved")}, reschedule.Evicting, reschedule.Seen{Known: true, Gone: true, Place: reschedule.Reserved}},
		"its Reservation is being deleted": {server{pod: web(), target: deleted}, reschedule.Evicting, reschedule.Seen{Known: true, Running: true, Place: reschedule.Absent, Why: "there is no Reservation any more"}},
		"on another node by now":           {server{pod: elsewhere, target: placed("Reserved")}, reschedule.Reserving, reschedule.Seen{Known: true, Place: reschedule.Reserved}},
	} {
		client, _ := start(t, &c.s)
		m := carried()
		m.Stage = c.stage
		got, err := client.See(t.Context(), m)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	client, _ := start(t, &server{pod: web(), failures: 1})
	if got, err := client.See(t.Context(), carried()); err == nil || got.Known {
		t.Errorf("what cannot be read is known: %+v", got)
	}
}

// Only a disruption budget's no is a refusal; a dry run says that it is one; a deposed leader evicts nobody.
func TestEvict(t *testing.T) {
	budget := []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "it allows none"}}
	for name, c := range map[string]struct {
		code    int
		causes  []metav1.StatusCause
		refused string
		fails   bool
	}{
		"done":              {http.StatusCreated, nil, "", false},
		"gone":              {http.StatusNotFound, nil, "", false},
		"another's UID":     {http.StatusConflict, nil, "", false},
		"a budget":          {http.StatusTooManyRequests, budget, "its disruption budget refuses: it allows none", false},
		"two budgets":       {http.StatusForbidden, budget, "its disruption budget refuses: it allows none", false},
		"an API server's":   {http.StatusTooManyRequests, nil, "", true},
		"forbidden":         {http.StatusForbidden, nil, "", true},
		"nobody knows what": {http.StatusInternalServerError, nil, "", true},
	} {
		s := &server{evict: c.code, causes: c.causes}
		client, fence := start(t, s)
		for _, dry := range []bool{false, true} {
			do := client.Evict
			if dry {
				do = client.Ask
			}
			refused, err := do(t.Context(), carried())
			if refused != c.refused || (err != nil) != c.fails {
				t.Errorf("%s: refused %q, %v", name, refused, err)
			}
			if last := s.bodies[len(s.bodies)-1]; strings.Contains(last, "dryRun") != dry || !strings.Contains(last, `"uid":"u"`) {
				t.Errorf("%s, dry %v: sent %s", name, dry, last)
			}
		}
		fence.Shut()
		sent := len(s.bodies)
		if _, err := client.Evict(t.Context(), carried()); err == nil || len(s.bodies) != sent {
			t.Errorf("%s: a deposed leader evicts: %v", name, err)
		}
	}
}

func TestReserveAndGiveBackAndLeft(t *testing.T) {
	s := &server{pod: web()}
	client, _ := start(t, s)
	if err := client.Reserve(t.Context(), carried()); err != nil {
		t.Fatal(err)
	}
	if err := client.GiveBack(t.Context(), carried()); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/scheduling.hilbert.dev/v1alpha1/namespaces/ns/reservations"
	if got := strings.Join(s.bodies, "; "); got != "POST "+path+"; DELETE "+path+"/hilbert-move-u" {
		t.Errorf("sent %s", got)
	}
	s.pod.UID, s.bodies = "another", nil
	if err := client.Reserve(t.Context(), carried()); err != nil || s.bodies != nil {
		t.Errorf("a target for a pod that is gone: %v, %v", err, s.bodies)
	}
	target, err := reservation(&carried().Wanted, web(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s.target = target
	var left []reschedule.Wanted
	if err := client.Left(t.Context(), func(w reschedule.Wanted, _ time.Time) { left = append(left, w) }); err != nil || len(left) != 1 || left[0] != carried().Wanted {
		t.Errorf("left %+v, %v", left, err)
	}
	if s.target, err = reservation(&carried().Wanted, web(), time.Hour); err != nil {
		t.Fatal(err)
	}
	s.target.Name = nameOf("another") // only the controller makes one of that name, and anybody may write annotations
	if err := client.Left(t.Context(), func(w reschedule.Wanted, _ time.Time) {
		t.Errorf("goes on with a move of %s that another Reservation names", w.Pod)
	}); err != nil {
		t.Error(err)
	}
	for _, forged := range []string{"", ".", "../../other/pods/victim"} {
		w := carried().Wanted
		w.Name = forged
		if s.target, err = reservation(&w, web(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := client.Left(t.Context(), func(w reschedule.Wanted, _ time.Time) { t.Errorf("goes on with a move of %q", w.Name) }); err != nil {
			t.Error(err)
		}
	}
}

// unreadable are templates that the definition of Reservations lets anybody write, and from which no pod can be read.
var unreadable = []string{`{"spec":{"schedulerName":"hilbert","containers":"none"}}`, `{"spec":{"schedulerName":"hilbert","containers":[{"name":"c","resources":{"requests":{"cpu":"much"}}}]}}`, `"none"`}

// Whoever may write a Reservation may give it our label. If it cannot be read, the moves that a leader before has left are known all the same.
func TestLeftBesideUnreadable(t *testing.T) {
	target, err := reservation(&carried().Wanted, web(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := json.Marshal(target)
	if err != nil {
		t.Fatal(err)
	}
	for _, template := range unreadable {
		others := `{"metadata":{"namespace":"evil","name":"mine","labels":{"` + spec.LabelMove + `":""}},"spec":{"count":1,"owners":[{"podGroup":"g"}],"template":` + template + `}}`
		client, _ := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"metadata":{},"items":[`+others+`,`+string(ours)+`]}`)
		}))
		var left []reschedule.Wanted
		if err := client.Left(t.Context(), func(w reschedule.Wanted, _ time.Time) { left = append(left, w) }); err != nil || len(left) != 1 || left[0] != carried().Wanted {
			t.Errorf("beside %s: left %+v, %v", template, left, err)
		}
	}
}

// TestPermit: the Reservation is named by its UID, so that one which was made anew under its name evicts nobody; a deposed leader names nobody.
func TestPermit(t *testing.T) {
	var got []string
	code := http.StatusOK
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","message":"the UID is another"}`)
	}))
	t.Cleanup(listening.Close)
	fence := lease.NewFence(time.Hour, time.Minute)
	fence.Renewed(time.Now())
	client, err := New(&rest.Config{Host: listening.URL}, fence, time.Minute, time.Hour, "hilbert-system")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	permit := func() (bool, error) { return client.Permit(t.Context(), "ns", "growth", "r", []string{"a", "b"}) }
	if refused, err := permit(); err != nil || refused {
		t.Fatal(refused, err)
	}
	want := `PATCH /apis/scheduling.hilbert.dev/v1alpha1/namespaces/ns/reservations/growth application/merge-patch+json {"metadata":{"annotations":{"` + spec.AnnotationMayEvict + `":"a,b"},"uid":"r"}}`
	if len(got) != 1 || got[0] != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	for _, code = range []int{http.StatusConflict, http.StatusNotFound, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusGatewayTimeout} {
		if refused, err := permit(); err == nil || refused != (code < http.StatusInternalServerError) {
			t.Errorf("%d: refused for certain: %v, %v", code, refused, err)
		}
	}
	got = nil
	fence.Shut()
	if refused, err := permit(); err == nil || !refused || got != nil {
		t.Errorf("a deposed leader says who may be evicted: %v, %v, %q", refused, err, got)
	}
	listening.Close()
	fence = lease.NewFence(time.Hour, time.Minute)
	fence.Renewed(time.Now())
	if client, err = New(&rest.Config{Host: listening.URL}, fence, time.Minute, time.Hour, "hilbert-system"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if refused, err := permit(); err == nil || refused {
		t.Errorf("no answer is taken for one: %v, %v", refused, err)
	}
}
