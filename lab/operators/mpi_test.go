package operators

import (
	"net"
	"testing"
)

// mpi makes a launcher and workers of an MPIJob, and a PodGroup for them: it takes any name of a scheduler but Volcano's for one that knows the sigs' PodGroups.
var mpi = operator{
	name: "mpi", module: "github.com/kubeflow/mpi-operator", program: "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
	definitions: "manifests/base/kubeflow.org_*.yaml", args: []string{"--gang-scheduling=hilbert", "--lock-namespace=default"},
}

// mpiHealth is where the operator serves its health, and no flag changes that.
const mpiHealth = ":8080"

// rings is an MPIJob of a launcher and four workers: five CPUs and a half. It names another scheduler, which the operator overwrites.
const rings = `apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: rings}
spec:
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: {spec: {containers: [{name: main, image: none, resources: {requests: {cpu: 1500m}}}]}}}
    Worker: {replicas: 4, template: {spec: {schedulerName: another, containers: [{name: main, image: none, resources: {requests: {cpu: "1"}}}]}}}
`

// TestMPI: launcher and workers of an MPIJob are a gang, by the PodGroup that the operator makes: while four of five would fit, none is placed.
func TestMPI(t *testing.T) {
	b := startBed(t)
	l, err := net.Listen("tcp", mpiHealth)
	if err != nil {
		t.Skipf("the MPI operator's health wants a port that is taken: %v", err)
	}
	_ = l.Close()
	b.addNodes("a")
	b.start(&mpi)
	b.create(rings)
	const job = "training.kubeflow.org/job-name"
	b.unscheduled(job, 5)
	b.runHilbertd()
	b.eventually("Hilbert has told why", func() error { return b.waits(5) })
	b.must(b.gang(job, 5, false)())
	b.addNodes("b")
	b.eventually("the gang is placed", b.gang(job, 5, true))
}
