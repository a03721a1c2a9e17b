package write

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/optional"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/schedule/bind"
)

// The condition of a PodGroup takes one read and one patch. The read finds out which API has the PodGroup, since when its condition
// says what it says, that it never said that the unit was whole: that is never taken back, which is upstream's rule; and that it is the PodGroup
// that was decided about, by its UID. The patch carries the resource version that was read, so that no write in between is lost, and a PodGroup that
// was made anew in between gets nothing of what was meant for the one before.

// unitTries bounds the reads of a PodGroup that others change between the read and the patch.
const unitTries = 3

// groupAPIs knows the paths of the PodGroups that the API server has.
type groupAPIs struct {
	surveyor *apiserver.Surveyor

	mu    sync.Mutex
	known optional.APIs
	asked time.Time
}

// served answers from memory for as long as a Watch would not ask either.
func (g *groupAPIs) served(ctx context.Context, now time.Time) (optional.APIs, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.asked.IsZero() && now.Sub(g.asked) < optional.SurveyPeriod {
		return g.known, nil
	}
	known, err := optional.Survey(ctx, g.surveyor)
	if err != nil {
		return optional.APIs{}, err
	}
	g.known, g.asked = known, now
	return known, nil
}

// writeUnit tells a PodGroup its condition. One that no API has is Gone.
func (w *Writer) writeUnit(ctx context.Context, write *bind.Write) bind.Result {
	has, err := w.groups.served(ctx, w.now())
	if err != nil {
		return bind.Result{Outcome: bind.Unknown, Message: err.Error()}
	}
	for range unitTries {
		result, again := w.tryUnit(ctx, has, write)
		if !again {
			return result
		}
	}
	return bind.Result{Outcome: bind.Unknown, Message: fmt.Sprintf("the PodGroup was changed between each of %d reads and writes", unitTries)}
}

// tryUnit reads and patches once; again says that another writer was faster.
func (w *Writer) tryUnit(ctx context.Context, has optional.APIs, write *bind.Write) (result bind.Result, again bool) {
	path, body, result := w.findGroup(ctx, has, write.Unit, write.UnitUID)
	if body == nil {
		return result, false
	}
	patch, contentType, err := conditionPatch(body, has.PodGroups, path.sigs, write.UnitCondition, w.now())
	switch {
	case err != nil:
		return bind.Result{Outcome: bind.Refused, Message: err.Error()}, false
	case patch == nil:
		return bind.Result{Outcome: bind.Written}, false
	}
	result, a := w.status.send(ctx, &apiserver.Call{
		Method: http.MethodPatch, Path: path.path + "/status", ContentType: contentType, Accept: apiserver.ContentJSON, Body: patch,
	})
	return result, a.Code == http.StatusConflict || a.Code == http.StatusNotFound
}

// groupPath is where a PodGroup is.
type groupPath struct {
	path string
	sigs bool
}

// findGroup reads the PodGroup with a UID from the API that has it. Without one, body is nil and result says why: one of the name alone is another.
func (w *Writer) findGroup(ctx context.Context, has optional.APIs, unit facts.UnitName, uid facts.UID) (at groupPath, body []byte, result bind.Result) {
	result = bind.Result{Outcome: bind.Gone, Message: fmt.Sprintf("there is no PodGroup %s with the UID %s", unit, uid)}
	for _, api := range [...]struct {
		group, version string
	}{{parse.GroupScheduling, has.PodGroups}, {parse.GroupSigs, has.SigsPodGroups}} {
		if api.version == "" {
			continue
		}
		at = groupPath{
			path: "/apis/" + api.group + "/" + api.version + "/namespaces/" + unit.Namespace + "/" + parse.PodGroups + "/" + unit.Name,
			sigs: api.group == parse.GroupSigs,
		}
		found, a := w.status.send(ctx, &apiserver.Call{Method: http.MethodGet, Path: at.path, Accept: apiserver.ContentJSON})
		switch {
		case a.Code == http.StatusNotFound:
		case found.Outcome != bind.Written:
			return at, nil, found
		case uidOf(a.Body) != uid:
		default:
			return at, a.Body, bind.Result{}
		}
	}
	return at, nil, result
}

// uidOf is the UID of an object as it was read; empty: it cannot be read.
func uidOf(body []byte) facts.UID {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	return facts.UID(object.UID)
}

// conditionPatch makes the patch that tells a PodGroup, as it was read, its condition; nil if there is nothing to tell.
func conditionPatch(body []byte, version string, sigs bool, want facts.UnitCondition, now time.Time) (patch []byte, contentType string, err error) {
	if sigs {
		patch, err = phasePatch(body, want)
		return patch, apiserver.ContentMerge, err
	}
	var group parse.AlphaPodGroup // v1beta1 has the same fields
	if err := json.Unmarshal(body, &group); err != nil {
		return nil, "", fmt.Errorf("read the PodGroup: %w", err)
	}
	condition := metav1.Condition{
		Type: parse.ConditionInitiallyScheduled, Status: metav1.ConditionFalse, ObservedGeneration: group.Generation,
		LastTransitionTime: metav1.NewTime(now), Reason: cmp.Or(want.Reason, spec.ReasonUnschedulable), Message: want.Message,
	}
	if version == parse.PodGroupVersions[2] {
		condition.Type = parse.ConditionScheduled
	}
	if want.Met {
		condition.Status, condition.Reason = metav1.ConditionTrue, cmp.Or(want.Reason, spec.ReasonScheduled)
	}
	for i := range group.Status.Conditions {
		old := &group.Status.Conditions[i]
		switch {
		case old.Type != condition.Type:
		case old.Status == metav1.ConditionTrue && !want.Met:
			return nil, "", nil
		case old.Status == condition.Status && old.Reason == condition.Reason && old.Message == condition.Message && old.ObservedGeneration == condition.ObservedGeneration:
			return nil, "", nil
		case old.Status == condition.Status:
			condition.LastTransitionTime = old.LastTransitionTime
		}
	}
	p := groupPatch{}
	p.Metadata.ResourceVersion = group.ResourceVersion
	p.Status.Conditions = []metav1.Condition{condition}
	patch, err = json.Marshal(&p)
	return patch, apiserver.ContentStrategicMerge, err
}

// groupPatch is a patch of a PodGroup's status.
type groupPatch struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
		Phase      string             `json:"phase,omitempty"`
	} `json:"status"`
}

// phasePatch says with the phase, which is all that the PodGroup of the sigs has, what a condition would. It leaves alone a phase beyond
// those two, which is its own controller's.
func phasePatch(body []byte, want facts.UnitCondition) ([]byte, error) {
	var group parse.SigsPodGroup
	if err := json.Unmarshal(body, &group); err != nil {
		return nil, fmt.Errorf("read the PodGroup: %w", err)
	}
	phase := parse.PhasePending
	if want.Met {
		phase = parse.PhaseScheduling
	}
	if group.Status.Phase != "" && group.Status.Phase != parse.PhasePending || group.Status.Phase == phase {
		return nil, nil
	}
	p := groupPatch{}
	p.Metadata.ResourceVersion = group.ResourceVersion
	p.Status.Phase = phase
	return json.Marshal(&p)
}
