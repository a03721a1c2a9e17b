// Package cluster tests Hilbert's charts and manifests on a real API server.
//
// Data flow: a test starts bin/hilbert-lab, which is an etcd, a kube-apiserver and the workload controllers in one process, and reaches it by its
// kubeconfig. Every manifest is applied there without being stored, and helm's own actions install, upgrade, roll back and uninstall the charts in this
// process.
//
// Invariants: no image is pulled and no node is real, so what the pods would do is not tested here; what is left after an uninstall is compared with what
// was there before, over every kind of object that the API server has. The package has no code but tests.
package cluster
