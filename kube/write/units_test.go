package write

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/optional"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/schedule/bind"
)

// unitWrite is about the PodGroup of standin.PodGroupText.
func unitWrite(met bool, reason, message string) bind.Write {
	name := facts.UnitName{Namespace: "ml", Name: "g"}
	return bind.Write{
		Kind: bind.WriteUnitCondition, Namespace: name.Namespace, Name: name.Name, Unit: name, UnitUID: "u",
		UnitCondition: facts.UnitCondition{Met: met, Reason: reason, Message: message},
	}
}

// sigsWrite is about the one of standin.SigsPodGroupText.
func sigsWrite(met bool, reason, message string) bind.Write {
	w := unitWrite(met, reason, message)
	w.UnitUID = "s"
	return w
}

// said renders the conditions of a PodGroup, without their times.
func said(u *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	var out []string
	for _, c := range conditions {
		m, ok := c.(map[string]any)
		if !ok || m["lastTransitionTime"] == "" || m["lastTransitionTime"] == nil {
			return fmt.Sprintf("malformed: %v", c)
		}
		out = append(out, fmt.Sprint(m["type"], "=", m["status"], " ", m["reason"], " ", m["message"], " of ", m["observedGeneration"]))
	}
	return strings.Join(out, "; ")
}

func since(u *unstructured.Unstructured) any {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] != "Other" {
			return m["lastTransitionTime"]
		}
	}
	return nil
}

func (r *rig) expect(t *testing.T, write bind.Write, want bind.Outcome) {
	t.Helper()
	if got := r.do(t, write); got.Outcome != want {
		t.Fatalf("outcome %d (%s), want %d", got.Outcome, got.Message, want)
	}
}

func TestUnitConditionWrite(t *testing.T) {
	for version, condition := range map[string]string{
		"v1beta1": "PodGroupInitiallyScheduled", "v1alpha3": "PodGroupInitiallyScheduled", "v1alpha2": "PodGroupScheduled",
	} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, 1, time.Minute)
			r.server.Offer(standin.PodGroups, version)
			r.expect(t, unitWrite(false, "WaitingForMembers", "2 of 3"), bind.Gone)
			group := standin.With(standin.FromYAML(t, strings.Replace(standin.PodGroupText, "v1beta1", version, 1)), int64(4), "metadata", "generation")
			other := map[string]any{"type": "Other", "status": "True", "lastTransitionTime": "2026-11-21T00:00:00Z", "reason": "R", "message": "M", "observedGeneration": int64(1)}
			r.server.Set(standin.With(group, []any{other}, "status", "conditions"))
			stored := func() *unstructured.Unstructured { return r.server.Stored(standin.PodGroups, "ml", "g") }
			show := func(status, reason, message string) string {
				return condition + "=" + status + " " + reason + " " + message + " of 4; Other=True R M of 1"
			}
			now := time.Now()
			r.writer.now = func() time.Time { return now }

			r.expect(t, unitWrite(false, "WaitingForMembers", "2 of 3"), bind.Written)
			if got, want := said(stored()), show("False", "WaitingForMembers", "2 of 3"); got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
			first := since(stored())
			now = now.Add(time.Minute)
			r.expect(t, unitWrite(false, "Unschedulable", "no room"), bind.Written)
			if got, want := said(stored()), show("False", "Unschedulable", "no room"); got != want || since(stored()) != first {
				t.Fatalf("got %s since %v, want %s since %v", got, since(stored()), want, first)
			}
			version := stored().GetResourceVersion()
			r.expect(t, unitWrite(false, "Unschedulable", "no room"), bind.Written)
			if stored().GetResourceVersion() != version {
				t.Error("what is said already was written again")
			}
			r.expect(t, unitWrite(true, "Scheduled", "whole"), bind.Written)
			if got, want := said(stored()), show("True", "Scheduled", "whole"); got != want || since(stored()) == first {
				t.Fatalf("got %s since %v, want %s", got, since(stored()), want)
			}
			r.expect(t, unitWrite(false, "Unschedulable", "again"), bind.Written)
			if got, want := said(stored()), show("True", "Scheduled", "whole"); got != want {
				t.Errorf("what was met is taken back: %s", got)
			}
		})
	}
}

func TestPhaseWrite(t *testing.T) {
	for name, c := range map[string]struct {
		phase string
		met   bool
		want  string
	}{
		"waits":                  {"", false, "Pending"},
		"waits on":               {"Pending", false, "Pending"},
		"whole at once":          {"", true, "Scheduling"},
		"whole":                  {"Pending", true, "Scheduling"},
		"never taken back":       {"Scheduling", false, "Scheduling"},
		"runs":                   {"Running", true, "Running"},
		"its controller's phase": {"Failed", true, "Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, time.Minute)
			r.server.Offer(standin.SigsPodGroups, "v1alpha1")
			group := standin.With(standin.FromYAML(t, standin.SigsPodGroupText), int64(2), "status", "running")
			if c.phase != "" {
				group = standin.With(group, c.phase, "status", "phase")
			}
			r.server.Set(group)
			r.expect(t, sigsWrite(c.met, "R", "M"), bind.Written)
			stored := r.server.Stored(standin.SigsPodGroups, "ml", "g")
			phase, _, _ := unstructured.NestedString(stored.Object, "status", "phase")
			running, _, _ := unstructured.NestedInt64(stored.Object, "status", "running")
			if phase != c.want || running != 2 {
				t.Errorf("phase %q, running %d; want %q", phase, running, c.want)
			}
		})
	}
}

// A unit is told where it is: in the API server's own API first, else in the sigs'.
func TestUnitIsFoundInEitherAPI(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	r.server.Offer(standin.PodGroups, "v1beta1")
	r.server.Offer(standin.SigsPodGroups, "v1alpha1")
	r.server.Set(standin.FromYAML(t, standin.SigsPodGroupText))
	r.expect(t, sigsWrite(false, "R", "M"), bind.Written)
	if phase, _, _ := unstructured.NestedString(r.server.Stored(standin.SigsPodGroups, "ml", "g").Object, "status", "phase"); phase != "Pending" {
		t.Errorf("phase %q", phase)
	}
	r.server.Set(standin.FromYAML(t, standin.PodGroupText))
	r.expect(t, unitWrite(true, "R", "M"), bind.Written)
	if got := said(r.server.Stored(standin.PodGroups, "ml", "g")); !strings.Contains(got, "=True") {
		t.Errorf("conditions %q", got)
	}
	if phase, _, _ := unstructured.NestedString(r.server.Stored(standin.SigsPodGroups, "ml", "g").Object, "status", "phase"); phase != "Pending" {
		t.Errorf("the other PodGroup of the name has phase %q", phase)
	}
}

// A PodGroup that was made anew under its name gets nothing of what was meant for the one before, whenever that was: before it is read, or between the read and the patch.
func TestUnitConditionOfAnotherUID(t *testing.T) {
	for name, x := range map[string]struct {
		resource, version, text string
		write                   bind.Write
	}{
		"upstream's": {standin.PodGroups, "v1beta1", standin.PodGroupText, unitWrite(true, "Scheduled", "whole")},
		"the sigs'":  {standin.SigsPodGroups, "v1alpha1", standin.SigsPodGroupText, sigsWrite(true, "Scheduled", "whole")},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, time.Minute)
			r.server.Offer(x.resource, x.version)
			group := standin.FromYAML(t, x.text)
			anew := standin.With(group, "another", "metadata", "uid")
			r.server.Set(anew)
			r.expect(t, x.write, bind.Gone)
			r.server.Set(group)
			r.server.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
				if request.Method == http.MethodPatch {
					r.server.Set(anew)
				}
				return false
			})
			r.expect(t, x.write, bind.Gone)
			if status, told, _ := unstructured.NestedMap(r.server.Stored(x.resource, "ml", "g").Object, "status"); told {
				t.Errorf("the new one is told %v", status)
			}
		})
	}
}

// Without the API there is no PodGroup, and nobody asks for it with every write.
func TestUnitConditionWithoutTheAPI(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	var questions atomic.Int32
	r.server.Intercept(func(http.ResponseWriter, *http.Request) bool { questions.Add(1); return false })
	for range 10 {
		r.expect(t, unitWrite(false, "R", "M"), bind.Gone)
	}
	if n := questions.Load(); n > 9 {
		t.Errorf("%d requests", n)
	}
	now := time.Now().Add(2 * optional.SurveyPeriod) // then it is noticed
	r.writer.now = func() time.Time { return now }
	r.fence.Renewed(now)
	r.server.Offer(standin.PodGroups, "v1beta1")
	r.server.Set(standin.FromYAML(t, standin.PodGroupText))
	r.expect(t, unitWrite(false, "R", "M"), bind.Written)
}

// Others may change a PodGroup between the read and the write: it is read again, not overwritten, and not for ever.
func TestUnitConditionConflicts(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	r.server.Offer(standin.PodGroups, "v1beta1")
	group := standin.FromYAML(t, standin.PodGroupText)
	r.server.Set(group)
	met := []any{map[string]any{"type": "PodGroupInitiallyScheduled", "status": "True", "lastTransitionTime": "2026-11-21T00:00:00Z", "reason": "Scheduled", "message": "", "observedGeneration": int64(0)}}
	var patches atomic.Int32
	r.server.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodPatch && patches.Add(1) == 1 {
			r.server.Set(standin.With(group, met, "status", "conditions")) // another leader was faster
		}
		return false
	})
	r.expect(t, unitWrite(false, "Unschedulable", "no room"), bind.Written)
	if got := said(r.server.Stored(standin.PodGroups, "ml", "g")); !strings.Contains(got, "=True Scheduled") || patches.Load() != 1 {
		t.Errorf("got %s after %d patches", got, patches.Load())
	}
	r.server.Set(group)
	patches.Store(0)
	r.server.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodPatch {
			patches.Add(1)
			r.server.Set(group)
		}
		return false
	})
	r.expect(t, unitWrite(false, "Unschedulable", "no room"), bind.Unknown)
	if patches.Load() != unitTries {
		t.Errorf("%d patches", patches.Load())
	}
}

func TestUnitConditionOutcomes(t *testing.T) {
	r := newRig(t, 1, 500*time.Millisecond) // what is refused with 429 is tried for so long
	r.server.Intercept(refuse(http.StatusInternalServerError))
	r.expect(t, unitWrite(true, "R", "M"), bind.Unknown) // the survey fails
	r.server.Intercept(nil)
	r.server.Offer(standin.PodGroups, "v1beta1")
	r.server.Set(standin.FromYAML(t, standin.PodGroupText))
	for code, want := range map[int]bind.Outcome{
		http.StatusForbidden: bind.Refused, http.StatusInternalServerError: bind.Unknown, http.StatusTooManyRequests: bind.Refused,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPatch} {
			r.server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
				if request.Method != method || !strings.Contains(request.URL.Path, "/ml/") {
					return false
				}
				http.Error(w, "no", code)
				return true
			})
			if got := r.doInTime(t, unitWrite(true, "R", "M")); got.Outcome != want {
				t.Errorf("%s %d: outcome %d (%s), want %d", method, code, got.Outcome, got.Message, want)
			}
		}
	}
	r.server.Intercept(nil)
	r.fence.Shut()
	r.expect(t, unitWrite(true, "R", "M"), bind.NotSent)
	if got := said(r.server.Stored(standin.PodGroups, "ml", "g")); got != "" {
		t.Errorf("conditions %s", got)
	}
}
