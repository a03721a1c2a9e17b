package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon/daemontest"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/schedule/inspect"
)

const tenantsText = `
apiVersion: scheduling.hilbert.dev/v1alpha1
kind: Queue
metadata: {name: research, uid: q1}
spec: {guaranteed: {cpu: 6}}
---
apiVersion: scheduling.hilbert.dev/v1alpha1
kind: Queue
metadata: {name: vision, uid: q2}
spec: {parent: research, guaranteed: {cpu: 2}, max: {cpu: 4}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {namespace: default, name: train, uid: g1}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {namespace: default, name: tune, uid: g2}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
`

// startTenants starts a cluster with queues, in which one gang runs and another waits for quota.
func startTenants(t *testing.T) *leader {
	t.Helper()
	c := &leader{api: standin.New(t)}
	c.api.Offer("podgroups.scheduling.k8s.io", "v1beta1")
	c.api.Offer("queues.scheduling.hilbert.dev", "v1alpha1")
	for text := range strings.SplitSeq(tenantsText, "---") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		c.api.Set(u)
	}
	c.api.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{spec.LabelQueue: "vision"}}})
	c.api.SetNode(apiNode("n1", "4"))
	c.api.SetNode(apiNode("n2", "4"))
	add := func(unit string, number int, priority int32) {
		p := apiPod(fmt.Sprint(unit, "-", number), "1")
		p.Spec.Priority = &priority
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &unit}
		c.api.SetPod(p)
	}
	for i := range 3 {
		add("train", i, 10)
	}
	for i := range 2 {
		add("tune", i, 5)
	}
	c.hilbertd = daemontest.Start(t, c.api)
	c.awaitQueue(t, "2 pods wait: 2 quota.")
	return c
}

const treeText = `QUEUE       RESOURCE                         USED  BORROWED  GUARANTEED  LIMIT  FAIR  PENDING  UNITS  PODS
(all)       cpu       #######-----........|  3     0         8           -      4     2        1      2
  research  cpu       ##########-------...|  3     0         6           -      4     2        1      2
    vision  cpu       ########|++++--------  3     1         2           4      4     2        1      2
# used  + borrowed  - pending  . free up to the guarantee or the limit  | end of the guarantee

2 pods wait: 2 quota.

#  QUEUE   UNIT          PODS                 PRIORITY  CREATED               STATE
1  vision  default/tune  2 of gang, 2 needed  5         2023-11-14T22:13:20Z  quota: the limit of queue vision leaves no room
`

const tuneText = `default/tune waits: 2 members wait, 2 needed together.
It is in queue research/vision, first in turn.

In its way now:
  quota: it asks for 2 cpu; queue vision has 3 cpu of 4 cpu in use

It would be placed, if it were its turn and any one of these were so:
  queue vision had 1 more cpu
  default/train were gone

MEMBER  STATE  NODE
tune-0  quota  -
tune-1  quota  -
`

const wideText = `QUEUE     RESOURCE                         USED  BORROWED  GUARANTEED  LIMIT  FAIR  PENDING  UNITS  PODS  RUNNING  WEIGHT  ORDER
research  cpu       ##########-------...|  3     0         6           -      4     2        1      2     3        1       Fair
research  pods      ++++++++++++--------   3     0         0           -      5     2        1      2     3        1       Fair
  vision  cpu       ########|++++--------  3     1         2           4      4     2        1      2     3        1       PriorityFIFO
  vision  pods      ++++++++++++--------   3     0         0           -      5     2        1      2     3        1       PriorityFIFO
`

const visionText = `Queue vision, below research, with weight 1; what is directly below it comes in the order PriorityFIFO.

RESOURCE  USED  BORROWED  GUARANTEED  LIMIT  FAIR  PENDING  NOTE
cpu       3     1         2           4      4     2        the limit leaves room for 1 of those pending; queues below their guarantee may take back 1
pods      3     0         0           -      5     2        -

2 pods wait: 2 quota.

Why:
  1 unit has to wait (quota): the limit of queue vision leaves no room

First in turn:
  1. default/tune: hilbert explain unit default/tune says what would help
`

const researchText = `Queue research, with weight 1; what is directly below it comes in the order Fair.
Below it, and counted with it: vision.

RESOURCE  USED  BORROWED  GUARANTEED  LIMIT  FAIR  PENDING  NOTE
cpu       3     0         6           -      4     2        guaranteed, and not had yet: 2
pods      3     0         0           -      5     2        -

2 pods wait: 2 quota.

Why:
  1 unit has to wait (quota): the limit of queue vision leaves no room

First in turn:
  1. default/tune, in queue vision: hilbert explain unit default/tune says what would help
`

var spaces = regexp.MustCompile(` +`)

// The same question gets the same bytes directly, through the API server, and from a file.
func TestTenantsLive(t *testing.T) {
	c := startTenants(t)
	snapshot, err := run(t.Context(), t, append([]string{"snapshot"}, c.through()...)...)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(file, []byte(snapshot), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, question := range []struct {
		args []string
		want string
	}{
		{[]string{"queue"}, treeText},
		{[]string{"queue", "vision", "--plain", "--resource", "CPU", "--limit", "0"}, "2 pods wait: 2 quota.\nand 2 more\n"},
		{[]string{"queue", "research", "-o", "json"}, `"queue": "research"`},
		{[]string{"queue", "research", "-o", "wide"}, wideText},
		{[]string{"queue", "-o", "name"}, "queue.scheduling.hilbert.dev/research\nqueue.scheduling.hilbert.dev/vision\n"},
		{[]string{"queue", "-o", "jsonpath={range .queues[*]}{.name}={.pendingPods} {end}"}, "=2 default=0 research=2 vision=2 "},
		{[]string{"explain", "queue", "vision"}, visionText},
		{[]string{"explain", "queue", "research"}, researchText},
		{[]string{"explain", "queue/research", "-o", "yaml"}, "queue: research\n"},
		{[]string{"explain", "unit", "tune"}, tuneText},
		{[]string{"explain", "unit", "default/train"}, "default/train runs: 3 members have places, 3 are needed to start.\n"},
		{[]string{"explain", "unit", "tune", "-o", "json"}, `"gone": "default/train"`},
		{[]string{"explain", "pod", "tune-0"}, "It is a member of unit default/tune: see hilbert explain unit default/tune.\n"},
	} {
		from, err := run(t.Context(), t, append(question.args, "--from", file)...)
		if err != nil || !strings.Contains(spaces.ReplaceAllString(from, " "), spaces.ReplaceAllString(question.want, " ")) {
			t.Errorf("%q: %v\n%s\nwant\n%s", question.args, err, from, question.want)
		}
		for _, way := range [][]string{c.hilbertd.Flags(), c.through()} {
			if live, err := run(t.Context(), t, append(question.args, way...)...); err != nil || live != from {
				t.Errorf("%q %q: %v\n%s\nfrom the file:\n%s", question.args, way, err, live, from)
			}
		}
	}
	for _, question := range []struct {
		args []string
		want string
	}{
		{[]string{"queue", "nobody"}, `knows no queue "nobody"`},
		{[]string{"queue", "--resource", "bananas"}, "they have cpu"},
		{[]string{"explain", "queue", "nobody"}, `knows no queue "nobody"`},
		{[]string{"explain", "unit", "nobody"}, "neither a PodGroup default/nobody nor a pod"},
	} {
		for _, way := range [][]string{{"--from", file}, c.hilbertd.Flags()} {
			if _, err := run(t.Context(), t, append(question.args, way...)...); err == nil || !strings.Contains(err.Error(), question.want) {
				t.Errorf("%q: %v", question.args, err)
			}
		}
	}
	out, err := run(t.Context(), t, "queue", "--from", file, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var v inspect.QueueView
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil || len(v.Queues) != 4 || len(v.Units) != 1 || v.Capacity["cpu"] != 8000 {
		t.Errorf("%v in %s", err, out)
	}
}
