package bench

import (
	"testing"
)

// TestGangs: the pods of a gang are alike and name its PodGroup, which has their priority and wants all of them.
func TestGangs(t *testing.T) {
	o := Options{Nodes: 500, Pods: 70, Mixed: true, Gang: 32}
	w, err := newWorkload(o)
	if err != nil {
		t.Fatal(err)
	}
	if o.gangs() != 3 {
		t.Fatalf("%d gangs", o.gangs())
	}
	members := make(map[string]int32)
	priority, app := make(map[string]string), make(map[string]string)
	for i := range o.Pods {
		pod := w.pod(i, podName(i), "x")
		group := *pod.Spec.SchedulingGroup.PodGroupName
		if members[group] > 0 && app[group] != pod.Labels["app"] {
			t.Errorf("%s has pods of %s and %s", group, app[group], pod.Labels["app"])
		}
		members[group]++
		priority[group], app[group] = pod.Spec.PriorityClassName, pod.Labels["app"]
	}
	for i := range o.gangs() {
		g := w.group(i, o.Pods)
		if g.Spec.SchedulingPolicy.Gang.MinCount != members[g.Name] || g.Spec.PriorityClassName != priority[g.Name] {
			t.Errorf("%+v, but it has %d pods of priority %q", g.Spec, members[g.Name], priority[g.Name])
		}
	}
	if single, err := newWorkload(Options{Nodes: 500, Pods: 70}); err != nil || single.pod(0, "p", "x").Spec.SchedulingGroup != nil {
		t.Errorf("a pod of no gang: %v", err)
	}
	if _, err := Schedule(t.Context(), Options{Nodes: 10, Pods: 10, Rounds: 1, Gang: 1}); err == nil {
		t.Error("gangs of one are taken")
	}
}

// TestRequests: what grows with the pods is counted, by verb and resource.
func TestRequests(t *testing.T) {
	before := requests{"POST pods/binding": 100}
	now, err := parseRequests([]byte(`# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 150
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 50
apiserver_request_total{code="200",component="apiserver",resource="podgroups",scope="resource",subresource="status",verb="PATCH",version="v1beta1"} 5
apiserver_request_total{code="200",component="apiserver",resource="podgroups",scope="resource",subresource="",verb="GET",version="v1beta1"} 5
apiserver_request_total{code="200",component="apiserver",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 77
apiserver_request_total{code="200",component="apiserver",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 7
apiserver_request_total{code="200",component="apiserver",resource="",scope="",subresource="/api",verb="GET",version=""} 7
apiserver_request_duration_seconds_count{verb="POST"} 9
`))
	if err != nil {
		t.Fatal(err)
	}
	r := now.since(before, 100)
	if got := r.String(); got != "POST pods/binding 1.000, GET podgroups 0.050, PATCH podgroups/status 0.050" {
		t.Error(got)
	}
	if r.writes() < 1.049 || r.writes() > 1.051 {
		t.Errorf("%v writes", r.writes())
	}
	if _, err := parseRequests([]byte(`apiserver_request_total{verb="GET",resource="pods"} many`)); err == nil {
		t.Error("many is a number")
	}
}
