// Package migrate rewrites Kubernetes manifests that use the labels, annotations, resources and kinds of another scheduler into Hilbert's.
//
// # What it does
//
// Run reads a stream of YAML documents and returns the stream rewritten, with Findings: one for each word of the other system, saying what
// became of it. Comments, the order of fields and everything that no system owns stay as they are.
//
// A Finding has one of six outcomes. Translated: Hilbert has a word that means the same. Kept: the word stays, because its system stays beside
// Hilbert. Lost: Hilbert has nothing that means the same, and the word is gone. Invented: Hilbert needs something that the manifest does not say,
// and a value was chosen. Manual: a person has to do something outside the manifest, such as labelling a Namespace. Unknown: the word belongs to
// one of the systems, and its meaning is not known here, or cannot be had; Run then returns no manifest, so that nothing is dropped in silence.
//
// # How it works
//
// A system (system.go) is a table: which prefixes and API groups are its own, a function for pods, and functions for its kinds. The function for
// pods takes each word that it knows out of the pod's metadata or resources and puts Hilbert's there. What is left with a prefix of a system
// is Unknown. So a word can be forgotten by the author of a table, and never by the user.
//
// Gangs are collected while pods are read, because several systems describe them on pods only; the PodGroups that are missing are appended at the end.
//
// # An example
//
//	metadata:                                        metadata:
//	  labels:                                          labels:
//	    koordinator.sh/qosClass: BE           ▶          hilbert.dev/qos-level: reclaimed_cores
//	spec:                                            spec:
//	  schedulerName: koord-scheduler                   schedulerName: hilbert
//	  containers:                                      containers:
//	  - resources:                                     - resources:
//	      limits: {kubernetes.io/batch-cpu: 1500}          limits: {hilbert.dev/reclaimed-millicpu: "1500"}
//
// # What it is not
//
// It asks no cluster, and does not know which Namespaces, Queues or GPUs there are. It does not migrate what runs: pods keep their scheduler until
// they are created anew. It holds no goroutine, clock or client.
package migrate
