package explain

import (
	"encoding/json"
	"strings"
	"testing"

	kubevpa "hilbert.dev/hilbert/kube/vpa"
)

// TestExplainVPA: what the status says is told: numbers, where they come from, why pods do not have them, and the room that is kept.
func TestExplainVPA(t *testing.T) {
	var v kubevpa.Autoscaler
	if err := json.Unmarshal([]byte(`{
		"metadata": {"namespace": "shop", "name": "web", "annotations": {"autoscaling.hilbert.dev/mode": "InPlace"}},
		"spec": {"targetRef": {"kind": "Deployment", "name": "web"}, "updatePolicy": {"updateMode": "Off"}, "recommenders": [{"name": "hilbert"}]},
		"status": {
			"recommendation": {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "563m", "memory": "786432k"}, "lowerBound": {"cpu": "500m"}, "uncappedTarget": {"cpu": "563m"}}]},
			"conditions": [
				{"type": "RecommendationProvided", "status": "True", "message": "app: cpu: p98 + 10 %"},
				{"type": "LowConfidence", "status": "True", "message": "use is known for too short a time"},
				{"type": "NoPodsMatched", "status": "False"},
				{"type": "Applied", "status": "False", "reason": "Waiting", "message": "pod web-0: node n1 has no room\nstage one pod"}
			]
		}}`), &v); err != nil {
		t.Fatal(err)
	}
	a := answerOf(&v)
	a.Rooms = []growthRoom{{Reservation: "resize-1", State: "Waiting", Amounts: map[string]string{"memory": "450Mi", "cpu": "363m"}, Message: "0/1 nodes fit"}}
	var out strings.Builder
	if err := a.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	const want = `VerticalPodAutoscaler shop/web of Deployment web: recommender hilbert, mode InPlace (updateMode Off)

CONTAINER  RESOURCE  TARGET   LOWER  UPPER  UNCAPPED
app        cpu       563m     500m          563m
app        memory    786432k                

Why:
  app: cpu: p98 + 10 %

Also:
  LowConfidence: use is known for too short a time

Not applied (Waiting):
  pod web-0: node n1 has no room
  stage one pod

Room for growth in the namespace:
  resize-1: Waiting, cpu 363m, memory 450Mi: 0/1 nodes fit
`
	if out.String() != want {
		t.Errorf("it says\n%s\nwant\n%s", out.String(), want)
	}
	for _, silent := range []string{`{}`, `{"spec": {"recommenders": [{"name": "hilbert"}]}}`} {
		var v kubevpa.Autoscaler
		if err := json.Unmarshal([]byte(silent), &v); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		if err := answerOf(&v).WriteText(&out); err != nil || !strings.Contains(out.String(), "controller has not said anything") {
			t.Errorf("of %s it says %q, err %v", silent, out.String(), err)
		}
	}
}
