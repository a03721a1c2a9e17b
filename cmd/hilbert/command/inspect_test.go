package command

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/cmd/hilbertd/daemon/daemontest"
	"hilbert.dev/hilbert/kube/standin"
)

func apiNode(name, cpu string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": apiresource.MustParse(cpu), "memory": apiresource.MustParse("64Gi"), "pods": apiresource.MustParse("110"),
		}},
	}
}

func apiPod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Unix(1_700_000_000, 0)},
		Spec: corev1.PodSpec{SchedulerName: "hilbert", Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse(cpu)}},
		}}},
	}
}

// leader is a hilbertd that leads a stand-in cluster, and how people reach it.
type leader struct {
	api      *standin.Server
	hilbertd *daemontest.Process
}

// startCluster starts a cluster without queues in which one pod fits nowhere.
func startCluster(t *testing.T) *leader {
	t.Helper()
	c := &leader{api: standin.New(t)}
	c.api.SetNode(apiNode("n1", "4"))
	c.api.SetNode(apiNode("n2", "8"))
	c.api.SetPod(apiPod("small", "1"))
	large, first := apiPod("large", "8"), int32(10) // or the small one may take its only place
	large.Spec.Priority = &first
	c.api.SetPod(large)
	huge, last := apiPod("huge", "20"), int32(-1) // it is told what is left when the others have their places
	huge.Spec.Priority = &last
	c.api.SetPod(huge)
	c.hilbertd = daemontest.Start(t, c.api)
	c.awaitQueue(t, "1 pod waits: 1 unschedulable.")
	return c
}

// awaitQueue waits until so much waits.
func (c *leader) awaitQueue(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		out, err := run(t.Context(), t, append([]string{"queue"}, c.hilbertd.Flags()...)...)
		if err == nil && strings.Contains(out, want) {
			return
		}
	}
	out, err := run(t.Context(), t, append([]string{"queue"}, c.hilbertd.Flags()...)...)
	t.Fatalf("the pods are not tried: %v\n%s", err, out)
}

// through are the flags that lead through the API server.
func (c *leader) through() []string {
	c.api.Aggregate(c.hilbertd.Address)
	return []string{"--kubeconfig", c.hilbertd.Kubeconfig}
}

const hugeExplained = `default/huge waits; when it was tried, no node fitted.

0/2 nodes are available: 2 Insufficient cpu.

Nearest:
  n1 lacks 17 cpu (20 asked, 3 free of 4)
  n2 lacks 20 cpu (20 asked, 0 free of 8)

Any one of these would make it fit:
  n1 larger by 17 cpu
`

// The same question gets the same bytes directly, through the API server, and from a file.
func TestInspectLive(t *testing.T) {
	c := startCluster(t)
	snapshot, err := run(t.Context(), t, append([]string{"snapshot"}, c.through()...)...)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(file, []byte(snapshot), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, question := range [][]string{
		{"explain", "pod", "default/huge"},
		{"explain", "pod", "huge", "-o", "json"},
		{"explain", "pod", "default/small"},
		{"explain", "pod", "large"},
		{"queue"},
		{"queue", "-o", "json"},
		{"queue", "--limit", "0"},
	} {
		from, err := run(t.Context(), t, append(question, "--from", file)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range [][]string{c.hilbertd.Flags(), c.through()} {
			if live, err := run(t.Context(), t, append(question, way...)...); err != nil || live != from {
				t.Errorf("%q %q: %v\n%s\nfrom the file:\n%s", question, way, err, live, from)
			}
		}
		if question[0] == "explain" && question[2] == "default/huge" && !strings.HasPrefix(from, hugeExplained) {
			t.Errorf("got\n%s\nwant\n%s", from, hugeExplained)
		}
	}
	if _, err := run(t.Context(), t, append([]string{"explain", "pod", "nobody"}, c.through()...)...); err == nil || !strings.Contains(err.Error(), "knows no pod default/nobody") {
		t.Errorf("a pod that is not there: %v", err)
	}
	c.api.User(daemontest.Token, "ada")
	other := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(other, []byte("stranger"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.api.User("stranger", "bob")
	if _, err := run(t.Context(), t, append([]string{"queue", "--token-file", other}, c.hilbertd.Flags()...)...); err == nil || !strings.Contains(err.Error(), "bob may not list queuereports.visibility.hilbert.dev in the cluster") {
		t.Errorf("a stranger: %v", err)
	}
}

// What a condition says is what explain says.
func TestConditionAndExplainAgree(t *testing.T) {
	c := startCluster(t)
	out, err := run(t.Context(), t, append([]string{"explain", "pod", "huge"}, c.hilbertd.Flags()...)...)
	if err != nil {
		t.Fatal(err)
	}
	message := ""
	for deadline := time.Now().Add(time.Minute); message == "" && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, condition := range c.api.Pod("default", "huge").Status.Conditions {
			message = condition.Message
		}
	}
	first, rest, ok := strings.Cut(message, ". It would fit with ")
	if !ok || !strings.Contains(out, first+".") || !strings.Contains(out, strings.Split(rest, ". ")[0]) {
		t.Errorf("condition: %s\nexplain:\n%s", message, out)
	}
}

func TestInspectRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no pod":         {[]string{"explain", "disk", "n1"}, "hilbert explain pod NAME"},
		"no unit":        {[]string{"explain", "unit", "a/b/c"}, "is no unit"},
		"two queues":     {[]string{"queue", "a", "b"}, "accepts at most 1 arg"},
		"no name":        {[]string{"explain", "pod", "default/"}, "is no pod"},
		"format":         {[]string{"explain", "pod", "a", "-o", "table"}, "write text, json, yaml or jsonpath=TEMPLATE"},
		"no file":        {[]string{"explain", "pod", "a", "--from", "/no/such/file"}, "/no/such/file"},
		"no snapshot":    {[]string{"queue", "--from", podsFile}, "is no snapshot"},
		"both":           {[]string{"queue", "--from", podsFile, "--server", "https://x"}, "none of the others can be"},
		"another host":   {[]string{"queue", "--server", "https://10.0.0.7:10461"}, "your token is sent to no other host"},
		"two places":     {[]string{"explain", "pod", "a/b", "-n", "c"}, "leave one of them out"},
		"queue's place":  {[]string{"explain", "queue", "a/b"}, "a queue has no namespace"},
		"no name at all": {[]string{"explain", "pod"}, "has no name"},
		"deputy":         {[]string{"queue", "--server", "https://localhost:1", "--as", "eve"}, "none of the others can be"},
		"limit":          {[]string{"queue", "--limit", "-1"}, "want 0 to"},
		"no kubeconfig":  {[]string{"snapshot", "--kubeconfig", "/no/such/kubeconfig"}, "/no/such/kubeconfig"},
	} {
		if _, err := run(t.Context(), t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The server speaks TLS only.
func TestPlainHTTPIsRefused(t *testing.T) {
	c := startCluster(t)
	response, err := http.Get("http://" + c.hilbertd.Address + "/livez")
	if err == nil {
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			t.Error("plain HTTP is answered")
		}
	}
	conn, err := tls.Dial("tcp", c.hilbertd.Address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
