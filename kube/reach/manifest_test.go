package reach

import (
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
)

const manifest = `
# two kinds of pods
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  schedulerName: hilbert
  hostNetwork: true
  priorityClassName: system-node-critical
  containers:
    - name: c
      ports: [{containerPort: 80}]
      resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: hilbert
      containers: [{name: c, resources: {requests: {cpu: 500m}}}]
---
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: listed}
    spec: {containers: [{name: c}]}
`

func TestReadManifests(t *testing.T) {
	pods, err := ReadManifests(strings.NewReader(manifest), "hilbert", nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range pods {
		names = append(names, string(pods[i].UID))
	}
	if got := strings.Join(names, " "); got != "added:default/one added:shop/web-0 added:shop/web-1 added:default/listed" {
		t.Fatal(got)
	}
	one := &pods[0]
	amounts := map[string]int64{}
	for _, q := range one.Requirements.Requests {
		amounts[q.Name] = q.Amount
	}
	if amounts["cpu"] != 1000 || amounts["memory"] != 1<<30 {
		t.Errorf("requests %v: what has a limit only asks for the limit", amounts)
	}
	if len(one.Requirements.Ports) != 1 || one.Requirements.Ports[0].Port != 80 {
		t.Errorf("ports %v: with the host's network a container's port is the host's", one.Requirements.Ports)
	}
	if one.Priority != 2_000_001_000 || !one.Ours || one.Namespace != "default" {
		t.Errorf("%+v", one)
	}
	if web := &pods[2]; web.Name != "web-1" || web.Namespace != "shop" || len(web.Labels) != 1 || web.Labels[0] != (facts.Label{Key: "app", Value: "web"}) {
		t.Errorf("%+v", web)
	}
	if pods[3].Ours {
		t.Error("a pod without a scheduler's name is the default scheduler's")
	}
}

func TestReadManifestsRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":  {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {container: []}", `unknown field "spec.container"`},
		"unknown kind":   {"apiVersion: v1\nkind: Service\nmetadata: {name: a}", "creates no pods"},
		"not registered": {"apiVersion: x/v1\nkind: Zed", `no kind "Zed"`},
		"no name":        {"apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c}]}", "has no name"},
		"class":          {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: gold, containers: [{name: c}]}", "write spec.priority"},
		"too many":       {"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a}\nspec: {replicas: 2000000}", "too many"},
		"second":         {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n---\nnonsense: [", "document 2"},
	} {
		if _, err := ReadManifests(strings.NewReader(c.text), "hilbert", nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
