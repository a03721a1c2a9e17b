package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/lab/controlplane"
)

// ownProcess is set where TestWorkloads runs in a process of its own: one holds one control plane.
const ownProcess = "HILBERT_POLICY_WORKLOADS"

// TestWorkloads applies examples/reclaimed.yaml where controllers make pods of it and count quotas, and looks at what the API server stores.
func TestWorkloads(t *testing.T) {
	if os.Getenv(ownProcess) == "" {
		if testing.Short() {
			t.Skip("a second control plane")
		}
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorkloads$", "-test.v")
		again.Env = append(os.Environ(), ownProcess+"=1")
		if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestWorkloads") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	ctx := t.Context()
	live, err := controlplane.Start(ctx, controlplane.Options{Controllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stopping, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := live.Stop(stopping); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(live.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := live.InstallPolicies(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // until they are in force
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Spec: corev1.ResourceQuotaSpec{
		Hard: resources("=requests.cpu=1 requests.memory=1Gi requests.hilbert.dev/reclaimed-memory=1Ti").Requests,
	}}
	if _, err := client.CoreV1().ResourceQuotas("default").Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, o := range manifests(t, "../../examples/reclaimed.yaml") {
		path := map[string]string{"Deployment": "/apis/apps/v1/namespaces/default/deployments", "Job": "/apis/batch/v1/namespaces/default/jobs"}[o.kind]
		if err := client.Discovery().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(o.body).Do(ctx).Error(); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{
		"main: =cpu=0 bytes=1073741824 millicpu=2k memory=0":                             3, // the Deployment's
		"main: cpu=0 bytes=536870912 millicpu=1k memory=0 / bytes=536870912 millicpu=1k": 4, // the Job's
	}
	err = poll(ctx, patience, func() error {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		got := map[string]int{}
		for i := range pods.Items {
			got[stored(&pods.Items[i])]++
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%v are stored, want %v", got, want)
		}
		used, err := client.CoreV1().ResourceQuotas("default").Get(ctx, "bound", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text := written(&corev1.ResourceRequirements{Requests: used.Status.Used}); text != "requests.cpu=0 requests.hilbert.dev/reclaimed-memory=5368709120 requests.memory=0" {
			return errors.New("of the quota is used " + text)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// manifest is an object of a file, as JSON.
type manifest struct {
	kind string
	body []byte
}

func manifests(t *testing.T, path string) (out []manifest) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		body, err := yaml.ToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, manifest{kind: object(t, body)["kind"].(string), body: body})
	}
	return out
}
