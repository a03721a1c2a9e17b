package moves

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/reschedule"
)

// gangServer has pods of a gang, a Reservation, and answers evictions by the pod's name.
type gangServer struct {
	pods    map[string]*corev1.Pod
	target  *v1alpha1.Reservation
	refuses map[string]bool
	fails   map[string]bool
	asked   []string
}

func (s *gangServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := func(code int, object any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(object)
	}
	failure := func(code int, causes ...metav1.StatusCause) {
		answer(code, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Message: "no", Details: &metav1.StatusDetails{Causes: causes}})
	}
	parts := strings.Split(r.URL.Path, "/")
	switch name := parts[len(parts)-1]; {
	case name == "eviction":
		pod := parts[len(parts)-2]
		s.asked = append(s.asked, pod)
		switch {
		case s.fails[pod]:
			failure(http.StatusInternalServerError)
		case s.refuses[pod]:
			failure(http.StatusTooManyRequests, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: "one at a time"})
		case s.pods[pod] == nil:
			failure(http.StatusNotFound)
		default:
			answer(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess})
		}
	case name == "reservations" && s.target != nil:
		answer(http.StatusOK, &v1alpha1.ReservationList{Items: []v1alpha1.Reservation{*s.target}})
	case slices.Contains(parts, "reservations") && s.target != nil:
		answer(http.StatusOK, s.target)
	case slices.Contains(parts, "pods") && s.pods[name] != nil:
		answer(http.StatusOK, s.pods[name])
	default:
		failure(http.StatusNotFound)
	}
}

func gang() (*reschedule.Carried, *gangServer) {
	s := &gangServer{pods: make(map[string]*corev1.Pod), refuses: make(map[string]bool), fails: make(map[string]bool)}
	m := &reschedule.Carried{Wanted: reschedule.Wanted{
		Pod: "u0", Namespace: "ns", Name: "t0", Workload: "ns/train", From: "a", To: "b and 1 more", Reason: "hands", Why: "tide", Gang: &reschedule.GangMove{PodGroup: "train", Nodes: []string{"b", "c"}},
	}}
	for _, i := range []string{"0", "1", "2"} {
		pod := web()
		pod.Name, pod.UID, pod.Labels[spec.LabelPodGroup] = "t"+i, types.UID("u"+i), "train"
		s.pods[pod.Name] = pod
		m.Gang.Members = append(m.Gang.Members, reschedule.Member{Pod: "u" + i, Name: "t" + i, From: "a"})
	}
	return m, s
}

// A gang's Reservation has a place for each member among its nodes, and is the PodGroup's. Another leader reads the same move from it.
func TestReservationOfAGang(t *testing.T) {
	m, s := gang()
	r, err := reservation(&m.Wanted, s.pods["t0"], time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Spec.Owners; r.Spec.Count != 3 || len(o) != 1 || o[0].PodGroup != "train" || o[0].Controller != nil {
		t.Errorf("%d places, owners %+v", r.Spec.Count, o)
	}
	var pinned []string
	for _, term := range r.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if f := term.MatchFields; len(f) == 1 && len(f[0].Values) == 1 { // Kubernetes allows one value
			pinned = append(pinned, f[0].Values[0])
		}
	}
	if !slices.Equal(pinned, []string{"b", "c", "b", "c"}) { // for each of the two terms of the pod that select nodes
		t.Errorf("it is pinned to %v", pinned)
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.Reservation, *record)
		want   bool
	}{
		"as it was written":  {func(*v1alpha1.Reservation, *record) {}, true},
		"fewer places":       {func(r *v1alpha1.Reservation, _ *record) { r.Spec.Count = 2 }, false},
		"no PodGroup's":      {func(r *v1alpha1.Reservation, _ *record) { r.Spec.Owners[0].PodGroup = "" }, false},
		"another first pod":  {func(_ *v1alpha1.Reservation, w *record) { w.Members[0].Pod = "u9" }, false},
		"a pod twice":        {func(_ *v1alpha1.Reservation, w *record) { w.Members[2] = w.Members[1] }, false},
		"a path, not a name": {func(_ *v1alpha1.Reservation, w *record) { w.Members[1].Name = "../../kube-system/pods/x" }, false},
		"one pod's":          {func(_ *v1alpha1.Reservation, w *record) { w.Members = nil }, false},
		"no nodes":           {func(_ *v1alpha1.Reservation, w *record) { w.Nodes = nil }, false},
		"more than may be": {func(r *v1alpha1.Reservation, w *record) {
			for i := range reschedule.MaxGang {
				w.Members = append(w.Members, reschedule.Member{Pod: fmt.Sprint("v", i), Name: fmt.Sprint("t", i)})
			}
			r.Spec.Count = int32(len(w.Members))
		}, false},
	} {
		s.target = r.DeepCopy()
		var what record
		if err := json.Unmarshal([]byte(r.Annotations[spec.AnnotationMove]), &what); err != nil {
			t.Fatal(err)
		}
		c.change(s.target, &what)
		text, err := json.Marshal(what)
		if err != nil {
			t.Fatal(err)
		}
		s.target.Annotations[spec.AnnotationMove] = string(text)
		client, _ := start(t, s)
		var got []reschedule.Wanted
		if err := client.Left(t.Context(), func(w reschedule.Wanted, _ time.Time) { got = append(got, w) }); err != nil {
			t.Fatal(err)
		}
		if is := len(got) == 1 && got[0].Gang != nil && slices.Equal(got[0].Gang.Members, m.Gang.Members) && got[0].Gang.PodGroup == "train"; is != c.want || !c.want && len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSeeGang(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gangServer)
		want   reschedule.Seen
	}{
		"all run, no place yet":  {func(s *gangServer) { s.target.Status.Places = nil }, reschedule.Seen{Running: true, Place: reschedule.Asked}},
		"all places":             {func(*gangServer) {}, reschedule.Seen{Running: true, Place: reschedule.Reserved}},
		"one is missing":         {func(s *gangServer) { s.target.Status.Places = s.target.Status.Places[:2] }, reschedule.Seen{Running: true, Place: reschedule.Asked}},
		"of an odd index":        {func(s *gangServer) { s.target.Status.Places[2].Index = 9 }, reschedule.Seen{Running: true, Place: reschedule.Asked}},
		"a Reservation of fewer": {func(s *gangServer) { s.target.Spec.Count = 2 }, reschedule.Seen{Running: true, Place: reschedule.Absent, Why: "there is no Reservation of all places any more"}},
		"one is gone":            {func(s *gangServer) { delete(s.pods, "t1") }, reschedule.Seen{Partly: true, Place: reschedule.Reserved}},
		"all are":                {func(s *gangServer) { clear(s.pods) }, reschedule.Seen{Gone: true, Evicted: true, Place: reschedule.Reserved}},
		"a pod of another gang":  {func(s *gangServer) { s.pods["t2"].Labels[spec.LabelPodGroup] = "other" }, reschedule.Seen{Running: true, Place: reschedule.Reserved, NoMember: "t2 is no member of the PodGroup train"}},
		"one has its place by its name": {func(s *gangServer) {
			s.pods["t1"].UID, s.target.Status.Places[0].State, s.target.Status.Places[0].Pod = "again", "Consumed", "t1"
		}, reschedule.Seen{Partly: true, Place: reschedule.Reserved, Why: "pod t1 has one"}},
	} {
		m, s := gang()
		s.target = &v1alpha1.Reservation{Spec: v1alpha1.ReservationSpec{Count: 3}}
		for i := range int32(3) {
			s.target.Status.Places = append(s.target.Status.Places, v1alpha1.ReservedPlace{Index: i, State: "Reserved"})
		}
		c.change(s)
		c.want.Known = true
		m.Stage = reschedule.Evicting
		client, _ := start(t, s)
		if got, err := client.See(t.Context(), m); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// If the first member is refused, nobody is evicted; after the first one all others are asked to leave, whatever becomes of one of them. EvictionRequests are not used.
func TestEvictGang(t *testing.T) {
	for name, c := range map[string]struct {
		refuses, fails, gone string
		begun                bool
		asked                int
		refused, follows     bool
	}{
		"all go":                           {asked: 3},
		"the first is refused":             {refuses: "t0", asked: 1, refused: true},
		"the first fails":                  {fails: "t0", asked: 1},
		"the second is refused":            {refuses: "t1", asked: 3, follows: true},
		"the second fails":                 {fails: "t1", asked: 3},
		"the first is gone":                {gone: "t0", refuses: "t1", asked: 3, follows: true},
		"begun, and the first is refused":  {refuses: "t0", begun: true, asked: 3, follows: true},
		"the last is gone, one is refused": {gone: "t2", refuses: "t0", begun: true, asked: 3, follows: true},
	} {
		m, s := gang()
		s.refuses[c.refuses], s.fails[c.fails], m.Begun = true, true, c.begun
		delete(s.pods, c.gone)
		client, _ := start(t, s)
		client.requests = true
		refused, err := client.Evict(t.Context(), m)
		if (refused != "") != c.refused || errors.Is(err, ErrFollows) != c.follows || (err != nil) != (c.follows || c.fails != "") || len(s.asked) != c.asked {
			t.Errorf("%s: refused %q, %v, asked %v", name, refused, err, s.asked)
		}
	}
	m, s := gang()
	s.refuses["t1"] = true
	client, _ := start(t, s)
	if refused, err := client.Ask(t.Context(), m); refused == "" || err != nil || len(s.asked) != 2 {
		t.Errorf("asked: %q, %v", refused, err)
	}
}
