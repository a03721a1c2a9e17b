package process

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	ledger "hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/lab/bench"
	"hilbert.dev/hilbert/schedule/inspect"
)

// request is one that the API server has answered, as its audit log has it.
type request struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }
	Received  time.Time          `json:"requestReceivedTimestamp"`
	Response  struct{ Code int } `json:"responseStatus"`
}

func (r *request) kind() string {
	return strings.TrimSuffix(r.Verb+" "+r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")
}

// requests are those of the controller's account, in the order in which they came. It makes them one after the other.
func (f *fleet) requests(from, until time.Time) (out []request) {
	f.t.Helper()
	file, err := os.Open(f.audit)
	f.must(err)
	defer func() { _ = file.Close() }() // it was only read
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if !strings.Contains(lines.Text(), account) || json.Unmarshal(lines.Bytes(), &r) != nil || r.User.Username != account || r.Received.Before(from) || r.Received.After(until) {
			continue
		}
		out = append(out, r)
	}
	f.must(lines.Err())
	if len(out) == 0 {
		f.t.Fatalf("the audit log has no request of %s", account)
	}
	slices.SortStableFunc(out, func(a, b request) int { return a.Received.Compare(b.Received) })
	return out
}

// tell logs what the controller asked of the API server between two times.
func (f *fleet) tell(what string, from, until time.Time) {
	f.t.Helper()
	by, seconds, said := make(map[string]int), make(map[int64]int), make(map[string]time.Time)
	total, writes, most := 0, 0, 0
	for _, r := range f.requests(from, until) {
		total++
		by[r.kind()]++
		seconds[r.Received.Unix()]++
		most = max(most, seconds[r.Received.Unix()])
		if slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) {
			writes++
		}
		if object := r.ObjectRef.Namespace + "/" + r.ObjectRef.Name; r.kind() == "patch verticalpodautoscalers/status" && said[object].IsZero() {
			said[object] = r.Received
		}
	}
	f.t.Logf("%s: %d requests in %s, %.1f in a second, %d at most; %.1f writes for each Deployment; %v",
		what, total, until.Sub(from).Round(100*time.Millisecond), float64(total)/until.Sub(from).Seconds(), most, float64(writes)/float64(*scaleDeployments), by)
	if len(said) == *scaleDeployments {
		f.t.Logf("%s: each has a status after %s", what, slices.MaxFunc(slices.Collect(maps.Values(said)), time.Time.Compare).Sub(from).Round(100*time.Millisecond))
	}
}

// costs logs what the controller has used since it was started.
func (f *fleet) costs(controller bench.Child, what string) {
	f.t.Helper()
	cpu, peak, err := controller.Cost()
	f.must(err)
	f.t.Logf("%s: the controller used %s of CPU, and %d MiB of memory at most", what, cpu, peak>>20)
}

// recommended fails unless each Deployment's VerticalPodAutoscaler says what its container should ask for.
func (f *fleet) recommended() {
	f.t.Helper()
	var list vpav1.VerticalPodAutoscalerList
	f.must(f.send("GET", vpaPath+"/verticalpodautoscalers", nil, &list))
	if len(list.Items) != *scaleDeployments {
		f.t.Errorf("%d VerticalPodAutoscalers, want %d", len(list.Items), *scaleDeployments)
	}
	for i := range list.Items {
		v := &list.Items[i]
		_, message, is := says(v, string(vpav1.RecommendationProvided))
		if r := v.Status.Recommendation; !is || r == nil || len(r.ContainerRecommendations) != 1 || r.ContainerRecommendations[0].Target.Cpu().IsZero() || r.ContainerRecommendations[0].Target.Memory().IsZero() {
			f.t.Errorf("nothing is recommended for %s/%s: %+v, %s", v.Namespace, v.Name, r, message)
		}
	}
}

// stage is what was changed of a Deployment in one round of the controller.
type stage struct {
	round int
	began time.Time // the round
	first time.Time // of its resizes
	pods  int
}

// stagesHold fails unless all pods were changed in place, those that lost something one of a Deployment first, then a second, then the others, each stage after the one before was
// watched; and no more than one pod was restarted in a round, as many as the budget has in all.
func (f *fleet) stagesHold(began time.Time) {
	f.t.Helper()
	round, start := 0, began
	restarted := make(map[int]int)
	changed := make(map[string]bool)
	stages := make(map[string][]stage) // by Deployment
	for _, r := range f.requests(began, time.Now()) {
		switch kind := r.kind(); {
		case kind == "list verticalpodautoscalers": // a round begins
			round, start = round+1, r.Received
		case kind == "create pods/eviction" || kind == "delete pods":
			f.t.Errorf("%s of %s/%s: pods are changed in place", kind, r.ObjectRef.Namespace, r.ObjectRef.Name)
		case kind == "patch pods/resize" && r.Response.Code < 300 && !changed[r.ObjectRef.Name]:
			changed[r.ObjectRef.Name] = true
			deployment := r.ObjectRef.Name[:strings.LastIndexByte(r.ObjectRef.Name, '-')]
			if kindOf(deployment) == restarts {
				restarted[round]++
			}
			so := stages[deployment]
			if n := len(so); n == 0 || so[n-1].round != round {
				so = append(so, stage{round: round, began: start, first: r.Received})
			}
			so[len(so)-1].pods++
			stages[deployment] = so
		}
	}
	total := 0
	for round, n := range restarted {
		if total += n; n > 1 {
			f.t.Errorf("%d pods were restarted in round %d, want one at a time", n, round)
		}
	}
	if want := min(scaleBurst, f.count(restarts)); total != want {
		f.t.Errorf("%d pods were restarted, want as many as the budget has: %d", total, want)
	}
	for i := range *scaleDeployments {
		if name := nameOf(i); kindOf(name) == hasTooMuch {
			f.stagesOf(name, stages[name])
		}
	}
}

// stagesOf checks one Deployment that has too much: its canary is two pods.
func (f *fleet) stagesOf(name string, stages []stage) {
	f.t.Helper()
	most, pods := []int{1, 2, scaleReplicas}, 0
	for i, s := range stages {
		if pods += s.pods; pods > most[min(i, len(most)-1)] {
			f.t.Errorf("%s: %d pods were changed after stage %d, want at most %d", name, pods, i+1, most[min(i, len(most)-1)])
		}
		if i > 0 && s.first.Before(stages[i-1].began.Add(scaleWatch())) {
			f.t.Errorf("%s: stage %d came %s after the one before, which is watched for %s", name, i+1, s.first.Sub(stages[i-1].began), scaleWatch())
		}
	}
	if pods != scaleReplicas {
		f.t.Errorf("%s: %d pods were changed, want all %d", name, pods, scaleReplicas)
	}
}

// charge is where a pod is and what it asks for.
type charge struct {
	node        string
	cpu, memory int64
}

// ledgerAgrees fails unless the scheduler's ledger comes to have each pod as the API server has it, and no place that is kept.
func (f *fleet) ledgerAgrees() {
	f.t.Helper()
	list, err := f.pods.List(labels.Everything())
	f.must(err)
	want := make(map[string]charge)
	for _, p := range list {
		asks := p.Spec.Containers[0].Resources.Requests
		want[p.Namespace+"/"+p.Name] = charge{p.Spec.NodeName, asks.Cpu().MilliValue(), asks.Memory().Value()}
	}
	var got map[string]charge
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) {
		if got = f.ledger(); maps.Equal(got, want) {
			f.t.Logf("the ledger has %d pods as the API server has them", len(got))
			return
		}
	}
	n := 0
	for name, w := range want {
		if g := got[name]; g != w {
			if n++; n <= 5 {
				f.t.Errorf("pod %s: the ledger has %+v, the API server %+v", name, g, w)
			}
		}
	}
	f.t.Fatalf("the ledger has %d pods, %d of them otherwise than the API server, which has %d", len(got), n, len(want))
}

// ledger is what the scheduler has of each pod.
func (f *fleet) ledger() map[string]charge {
	f.t.Helper()
	stream, err := f.api.Get().AbsPath("/apis/visibility.hilbert.dev/v1alpha1/snapshots/current").Stream(f.t.Context())
	f.must(err)
	defer func() { _ = stream.Close() }() // it was only read
	dump, err := inspect.ReadDump(stream)
	f.must(err)
	_, err = ledger.Load(dump.Ledger) // a ledger that contradicts itself is not loaded
	f.must(err)
	out := make(map[string]charge)
	for i := range dump.Ledger.Pods {
		p := &dump.Ledger.Pods[i]
		out[p.Facts.Namespace+"/"+p.Facts.Name] = chargeOf(&p.Facts)
	}
	return out
}

func chargeOf(p *facts.Pod) charge {
	c := charge{node: string(p.Node)}
	for _, q := range p.Requirements.Requests {
		switch q.Name {
		case string(corev1.ResourceCPU):
			c.cpu = q.Amount
		case string(corev1.ResourceMemory):
			c.memory = q.Amount
		}
	}
	return c
}
