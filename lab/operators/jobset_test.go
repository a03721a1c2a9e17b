package operators

import (
	"fmt"
	"slices"
	"testing"
)

// jobset makes Jobs, and Services for them, of a JobSet.
var jobset = operator{
	name: "jobset", module: "sigs.k8s.io/jobset", program: "sigs.k8s.io/jobset",
	definitions: "config/components/crd/bases/*.yaml", webhooks: "config/components/webhook/manifests.yaml",
	config: `apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
webhook: {host: 127.0.0.1, port: WEBHOOKS}
health: {healthProbeBindAddress: "127.0.0.1:HEALTH"}
metrics: {bindAddress: "0"}
`,
}

// training is a JobSet of a leader and four workers, which are a gang: it asks for five CPUs in one.
const training = `apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: training}
spec: {minMember: 5}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: training}
spec:
  replicatedJobs:
  - {name: leader, replicas: 1, template: {spec: {template: &pod {metadata: {labels: {scheduling.x-k8s.io/pod-group: training}}, spec: {
      schedulerName: hilbert, restartPolicy: Never, containers: [{name: main, image: none, resources: {requests: {cpu: "2"}}}]}}}}}
  - {name: workers, replicas: 1, template: {spec: {parallelism: 4, completions: 4, template: *pod}}}
`

// exclusive is a JobSet of two Jobs of three pods each, no two of which may have one rack.
const exclusive = `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: exclusive, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: example.com/rack}}
spec:
  replicatedJobs:
  - {name: work, replicas: 2, template: {spec: {parallelism: 3, completions: 3, template: {spec: {
      schedulerName: hilbert, restartPolicy: Never, containers: [{name: main, image: none, resources: {requests: {cpu: "100m"}}}]}}}}}
`

// TestJobSet: the pods of a JobSet that are a gang come whole or not at all, and Jobs of which each has a rack for itself get it: JobSet adds affinities to their first pods, and the
// others follow to the rack that Hilbert has chosen.
func TestJobSet(t *testing.T) {
	b := startBed(t)
	b.addNodes("a", "a")
	b.start(&jobset)
	b.create(training)
	const owner = "jobset.sigs.k8s.io/jobset-name"
	b.unscheduled(owner, 5)
	b.runHilbertd()
	b.eventually("Hilbert has told why", func() error { return b.waits(5) })
	if err := b.gang(owner, 5, false)(); err != nil {
		t.Error(err)
	}
	b.addNodes("b", "b", "c")
	b.eventually("the gang is placed", b.gang(owner, 5, true))
	b.addNodes("d", "e") // no Job may be where one of another JobSet is either
	b.create(exclusive)
	b.eventually("each Job has a rack of its own", func() error {
		jobs := b.bound("jobset.sigs.k8s.io/job-key")
		var racks []string
		for _, nodes := range jobs {
			if err := all(nodes, 3, true); err != nil {
				continue // one of the gang
			}
			racks = append(racks, nodes[0][:1])
			for _, node := range nodes {
				if node[:1] != nodes[0][:1] {
					t.Fatalf("pods of one Job are on %v", nodes)
				}
			}
		}
		if slices.Sort(racks); len(racks) != 2 || racks[0] == racks[1] {
			return fmt.Errorf("the Jobs are on %v: %v", racks, jobs)
		}
		return nil
	})
}
