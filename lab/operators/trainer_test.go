package operators

import "testing"

// trainer is Kubeflow's Trainer: it makes a JobSet and a PodGroup of a TrainJob.
var trainer = operator{
	name: "trainer", module: "github.com/kubeflow/trainer/v2", program: "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
	definitions: "manifests/base/crds/trainer.*.yaml", webhooks: "manifests/base/webhook/manifests.yaml",
	config: `apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
certManagement: {enable: false}
webhook: {host: 127.0.0.1, port: WEBHOOKS}
health: {healthProbeBindAddress: "127.0.0.1:HEALTH"}
metrics: {bindAddress: "0"}
`,
}

// epochs is a TrainJob of four nodes, as Trainer calls its pods, in a runtime that wants them all at once: six CPUs.
const epochs = `apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: whole, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 100}}
  mlPolicy: {numNodes: 4, torch: {numProcPerNode: 1}}
  template: {spec: {replicatedJobs: [{name: node, template: {
    metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}},
    spec: {template: {spec: {schedulerName: hilbert, containers: [{name: node, image: none, resources: {requests: {cpu: 1500m}}}]}}}}}]}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: epochs}
spec: {runtimeRef: {name: whole}}
`

// TestTrainer: the pods of a TrainJob are a gang, by the PodGroup that Trainer makes: while two of four would fit, none is placed.
func TestTrainer(t *testing.T) {
	b := startBed(t)
	b.addNodes("a")
	b.start(&jobset) // which makes the pods
	b.start(&trainer)
	b.create(epochs)
	const job = "jobset.sigs.k8s.io/jobset-name"
	b.unscheduled(job, 4)
	b.runHilbertd()
	b.eventually("Hilbert has told why", func() error { return b.waits(4) })
	b.must(b.gang(job, 4, false)())
	b.addNodes("b")
	b.eventually("the gang is placed", b.gang(job, 4, true))
}
