// Command e2e-workloads runs upstream's specs of scheduling, of the workload controllers and of storage. It takes minutes to build, because storage links the
// clients of every cloud, so "make e2e-upstream" builds it and the check of a change does not. The flags are those of upstream's e2e.test. Most specs of storage
// need containers that run; lab/suite names those that hollow nodes can serve.
package main

import (
	_ "k8s.io/kubernetes/test/e2e/apps"       // the specs of the workload controllers
	_ "k8s.io/kubernetes/test/e2e/scheduling" // of scheduling
	_ "k8s.io/kubernetes/test/e2e/storage"    // and of storage

	"hilbert.dev/hilbert/lab/e2e"
)

func main() { e2e.Main() }
