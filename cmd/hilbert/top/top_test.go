package top

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/reporttest"
	"hilbert.dev/hilbert/kube/standin"
)

// views are the answers at noon.
func views(t *testing.T) (nodes *nodesView, pods *podsView) {
	t.Helper()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	nodes, pods = &nodesView{}, &podsView{}
	for _, u := range reporttest.Nodes(t) {
		data, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		var c v1alpha1.CustomNodeResource
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		nodes.Nodes = append(nodes.Nodes, rowOfNode(&c, noon, 15*time.Minute))
		pods.add(&c, "", noon, 15*time.Minute)
	}
	pods.sort()
	return nodes, pods
}

const topNodesText = `
NODE  MODE     READY        OBSERVED   NUMA  CPUS      FREE  OF  MEMORY FREE  OF      DEDICATED  POOLS                         DEVICES       NOTE
n1    agent    yes          30s        0     ####....  8     14  11.8Gi       15.8Gi  2          reclaimed 2, share 8, system 2  GPU 2, NIC 1
                                       1     ########  0     16  0Mi          15.8Gi  1          reclaimed 1, share 1          -             closed, held alone
n2    kubelet  RuntimeLost  30m STALE  0     ######..  1     3   700Mi        700Mi   1          -                             -
n3    -        -            never      -     -         -     -   -            -       0          -                             -             mode "": want agent or kubelet
n4    agent    -            0s         0     ........  4     4   2Gi          2Gi     0          -                             -             NUMA node 0: capacity or allocatable is missing

4 nodes: 8 of 30 CPUs can be promised, 3 pods have CPUs of their own, 1 stale, 2 malformed.
`

const topPodsText = `
NAMESPACE  POD     NODE  NUMA  CPUS  CPUSET    MEMORY  NOTE
default    pinned  n2    0      2     2-3       -       by the kubelet, 30m STALE
ml         train   n1    0      2     3,11      -       MOVED
prod       cache   n1    1      16    16-31     15.8Gi  alone
prod       db      n1    0      4     1-2,9-10  4Gi

4 pods have CPUs of their own, 1 of them elsewhere than promised.
`

// run runs the command as hilbert does.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

var spaces = regexp.MustCompile(` +`)

func squeezed(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(spaces.ReplaceAllString(text, " ")), " \n", "\n")
}

func TestTopText(t *testing.T) {
	nodes, pods := views(t)
	for want, view := range map[string]output.Answer{topNodesText: nodes, topPodsText: pods} {
		var out bytes.Buffer
		if err := view.WriteText(&out); err != nil {
			t.Fatal(err)
		}
		if squeezed(out.String()) != squeezed(want) {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
		if strings.Contains(out.String(), " \n") {
			t.Errorf("blanks at the end of a line:\n%s", out.String())
		}
	}
}

// A pod in several NUMA nodes is one line, with all of its CPUs.
func TestTopPodInSeveralNUMANodes(t *testing.T) {
	_, pods := views(t)
	p := &pods.Pods[3]
	p.hold("1", &spec.NUMAAllocation{CPUs: 4, CPUSet: "11-12,20-21", MemoryMiB: 904, Moved: true})
	if p.CPUs != 8 || p.CPUSet != "1-2,9-12,20-21" || p.MemoryMiB != 5000 || len(p.NUMANodes) != 2 || !p.Moved {
		t.Errorf("got %+v", p)
	}
}

func TestTopLive(t *testing.T) {
	api := standin.New(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"c","cluster":{"server":"` + api.Connection().Host +
		`","insecure-skip-tls-verify":true}}],"contexts":[{"name":"x","context":{"cluster":"c"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	top := func(args ...string) (string, error) {
		return run(t, append(args, "--kubeconfig", file)...)
	}
	if _, err := top("nodes"); err == nil || !strings.Contains(err.Error(), "kubectl apply -f deploy/crds") {
		t.Errorf("without the definition: %v", err)
	}
	api.Offer("customnoderesources.node.hilbert.dev", v1alpha1.Version)
	if out, err := top("nodes", "-o", "json"); err != nil || squeezed(out) != "{\n \"nodes\": []\n}" {
		t.Errorf("nobody: %q, %v", out, err)
	}
	for _, u := range reporttest.Nodes(t) {
		api.Set(u)
	}
	out, err := top("nodes", "n2", "n1", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var nodes nodesView
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&nodes); err != nil || len(nodes.Nodes) != 2 || nodes.Nodes[0].Name != "n2" || !nodes.Nodes[0].Stale ||
		!nodes.Nodes[1].ObservedAt.Equal(new(metav1.Date(2026, 1, 1, 11, 59, 30, 0, time.UTC))) || nodes.Nodes[1].NUMANodes[0].FreeCPUs != 8 {
		t.Errorf("%v in %s", err, out)
	}
	if out, err := top("pods", "-A"); err != nil || !strings.Contains(out, "4 pods have CPUs of their own") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := top("pods", "-n", "prod", "--node", "n1"); err != nil || !strings.Contains(out, "2 pods have") || strings.Contains(out, "train") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := top("gpus"); err != nil || !strings.Contains(out, "No agent reports such GPUs") {
		t.Errorf("%v\n%s", err, out)
	}
	topGPUsLive(t, api, top)
	for want, args := range map[string][]string{
		"--limit -1: want how many":        {"gpus", "--limit", "-1"},
		"no CustomNodeResource n9":         {"nodes", "n9"},
		"--output \"yml\" is not known":    {"nodes", "-o", "yml"},
		"--stale-after 0s: want more than": {"pods", "--stale-after", "0s"},
	} {
		if _, err := top(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := top("nodes"); err == nil || !strings.Contains(err.Error(), "kubeconfig") {
		t.Errorf("no kubeconfig: %v", err)
	}
}

// topGPUsLive asks for two nodes by name, and has them drawn.
func topGPUsLive(t *testing.T, api *standin.Server, top func(...string) (string, error)) {
	t.Helper()
	for _, name := range []string{"g1", "g2"} {
		u := &unstructured.Unstructured{}
		text := `{apiVersion: node.hilbert.dev/v1alpha1, kind: CustomNodeResource, metadata: {name: ` + name + `, uid: ` + name + `},
status: {observedAt: "2026-01-01T12:00:00Z", devices: {owner: hilbert, gpus: [{index: 0, uuid: GPU-0, model: T4, memoryMiB: 15360}]}}}`
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		api.Set(u)
	}
	page := filepath.Join(t.TempDir(), "gpus.html")
	if out, err := top("gpus", "g1", "g2", "--limit", "1", "--report", page); err != nil || !strings.Contains(out, "g1") || !strings.Contains(out, "g2") || strings.Contains(out, "more nodes") {
		t.Errorf("nodes that are named are all drawn: %v\n%s", err, out)
	}
	if html, err := os.ReadFile(page); err != nil || strings.Count(string(html), "network cards of g") != 2 {
		t.Errorf("%v\n%s", err, html)
	}
	if _, err := top("gpus", "--report", filepath.Join(page, "x")); err == nil || !strings.Contains(err.Error(), "write the report") {
		t.Errorf("a page in a file: %v", err)
	}
}
