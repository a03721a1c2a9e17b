package operators

import "testing"

// kuberay makes a head and workers of a RayCluster; with a batch scheduler, also a PodGroup for them.
var kuberay = operator{
	name: "kuberay", module: "github.com/ray-project/kuberay/ray-operator", program: "github.com/ray-project/kuberay/ray-operator",
	definitions: "config/crd/bases/*.yaml",
	config: `apiVersion: config.ray.io/v1alpha1
kind: Configuration
batchScheduler: scheduler-plugins
enableLeaderElection: false
metricsAddr: "0"
reconcileConcurrency: 1
probeAddr: "127.0.0.1:HEALTH"
`,
}

// rayScheduler is what KubeRay writes into its pods, with that batch scheduler, over whatever they say: Hilbert has to answer to this name too.
const rayScheduler = "scheduler-plugins-scheduler"

// tasks is a RayCluster of a head and three workers, which are a gang: five CPUs.
const tasks = `apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: tasks, labels: {ray.io/gang-scheduling-enabled: "true"}}
spec:
  rayVersion: 2.46.0
  headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: head, image: none, resources: {limits: {cpu: "2", memory: 1Gi}}}]}}}
  workerGroupSpecs:
  - {groupName: work, replicas: 3, minReplicas: 3, maxReplicas: 3, rayStartParams: {}, template: {spec: {containers: [
      {name: worker, image: none, resources: {limits: {cpu: "1", memory: 1Gi}}}]}}}
`

// TestKubeRay: head and workers of a RayCluster are a gang, by the PodGroup that KubeRay makes: while three of four would fit, none is placed.
func TestKubeRay(t *testing.T) {
	b := startBed(t)
	b.addNodes("a")
	b.start(&kuberay)
	b.create(tasks)
	const cluster = "ray.io/cluster"
	b.unscheduled(cluster, 4)
	b.runHilbertd(rayScheduler)
	b.eventually("Hilbert has told why", func() error { return b.waits(4) })
	b.must(b.gang(cluster, 4, false)())
	b.addNodes("b")
	b.eventually("the gang is placed", b.gang(cluster, 4, true))
}
