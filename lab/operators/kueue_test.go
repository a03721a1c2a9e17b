package operators

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kueue admits Jobs, and pods that it gates, when their queue has room for them.
var kueue = operator{
	name: "kueue", module: "sigs.k8s.io/kueue", program: "sigs.k8s.io/kueue/cmd/kueue",
	args:        []string{"--feature-gates=VisibilityOnDemand=false"}, // an API of its own, which only a pod can serve
	definitions: "config/components/crd/bases/*.yaml", webhooks: "config/components/webhook/manifests.yaml",
	config: `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: true}
webhook: {host: 127.0.0.1, port: WEBHOOKS, certDir: CERTIFICATES}
health: {healthProbeBindAddress: "127.0.0.1:HEALTH"}
metrics: {bindAddress: "0"}
integrations: {frameworks: [batch/job, pod]}
`,
	// Without management of its certificate it wants one for its metrics in /etc. So it manages that of its webhooks, and finds it good as it is.
	converted: []string{
		"localqueues.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io", "workloads.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io", "multikueueclusters.kueue.x-k8s.io",
	},
	secret: `apiVersion: v1
kind: Namespace
metadata: {name: kueue-system}
---
apiVersion: v1
kind: Secret
metadata: {name: kueue-webhook-server-cert, namespace: kueue-system}
data: {ca.crt: CERTIFICATE, ca.key: KEY, tls.crt: CERTIFICATE, tls.key: KEY}
`,
}

// quota lets one queue have four CPUs.
const quota = `apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: any, resources: [{name: cpu, nominalQuota: "4"}]}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: team}
`

// job asks for three CPUs in three pods. It wants its name, twice.
const job = `apiVersion: batch/v1
kind: Job
metadata: {name: %[1]s, labels: {kueue.x-k8s.io/queue-name: team}}
spec: {parallelism: 3, completions: 3, suspend: true, template: {metadata: {labels: {name: %[1]s}}, spec: {
  schedulerName: hilbert, restartPolicy: Never, containers: [{name: main, image: none, resources: {requests: {cpu: "1"}}}]}}}
`

// gated is a pod that Kueue gates until there is room.
const gated = `apiVersion: v1
kind: Pod
metadata: {name: gated, labels: {kueue.x-k8s.io/queue-name: team, name: gated}}
spec: {schedulerName: hilbert, containers: [{name: main, image: none, resources: {requests: {cpu: "2"}}}]}
`

// TestKueue: what Kueue admits Hilbert places, and what Kueue holds back it does not place, though the nodes have room: neither pods of Jobs that are suspended nor gated ones.
func TestKueue(t *testing.T) {
	b := startBed(t)
	b.addNodes("a", "b", "c")
	b.start(&kueue)
	b.create(quota)
	b.create(fmt.Sprintf(job, "first"))
	b.unscheduled("name", 3)
	b.runHilbertd()
	b.eventually("the first Job is admitted and placed", func() error { return all(b.bound("name")["first"], 3, true) })
	b.create(fmt.Sprintf(job, "second"))
	b.create(gated)
	b.eventually("the pod is gated", func() error {
		p, err := b.admin.CoreV1().Pods("default").Get(t.Context(), "gated", metav1.GetOptions{})
		if err == nil && len(p.Spec.SchedulingGates) == 0 {
			t.Fatal("Kueue has not gated the pod")
		}
		return err
	})
	// Kueue has looked at both when it has said so.
	b.eventually("Kueue has looked at what waits", func() error {
		list, err := b.dynamic.Resource(workloads).Namespace("default").List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) != 3 {
			err = fmt.Errorf("there are %d workloads", len(list.Items))
		}
		for i := range list.Items {
			if conditions, _, _ := nestedSlice(&list.Items[i]); len(conditions) == 0 {
				err = errors.Join(err, errors.New("one has no condition"))
			}
		}
		return err
	})
	if got := b.bound("name"); len(got["second"]) > 0 || len(got["gated"]) != 1 || got["gated"][0] != "" {
		t.Errorf("beyond the quota: %v", got)
	}
	b.must(b.admin.BatchV1().Jobs("default").Delete(t.Context(), "first", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
	b.eventually("one of those that waited is placed", func() error {
		got := b.bound("name")
		if all(got["second"], 3, true) == nil || all(got["gated"], 1, true) == nil {
			return nil
		}
		return fmt.Errorf("the pods are on %v", got)
	})
}
