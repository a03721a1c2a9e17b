// Package parse turns API objects into facts, the vocabulary of the ledger. It is pure: it knows no client, no clock and no connection, and it never
// fails. What cannot be honoured is named in the result, so that the pod's condition can say it.
//
// A Parser reads each object once and keeps nothing of it:
//
//	v1.Pod                  → facts.Pod, with a pointer to shared facts.Requirements
//	v1.Node                 → facts.Node
//	PodGroup, Queue, …      → facts.Unit, facts.Queue, …
//	CustomNodeResource      → facts.NodeReport
//
// It is made of parsers for what belongs together, each with its own rules for what cannot be read: storage, device claims, workloads, and PodGroups. They share one
// vocabulary; pods, nodes, Queues, Reservations and reports the Parser reads itself.
//
// For example, a container that requests "cpu: 1500m" and "nvidia.com/gpu: 2" becomes Requirements
// with the request {cpu 1500}, in millicores, and a GPU request of two. A pod with a volume that restricts nodes gets an entry in Unsupported, and
// the scheduler holds it.
//
// Pods of one workload are alike, and adding up Quantities costs about twenty times as much as comparing their spelling. So the Parser writes
// every field that Requirements depend on into a byte string (specKey), each with its length, and looks the string up in a memo. Equal
// strings share one Requirements. Three tests guard the memo: it never shows in a result, every field changes the key, and no two fields can be
// swapped unnoticed. Labels, images and device sets are shared in the same way, and strings are interned. Each table is bounded and starts
// afresh when it is full; that costs memory, never correctness.
//
// Fingerprints remember a hash of what was last said of each pod, 16 bytes a pod, so that an update without news is dropped.
//
// What an agent reports (CustomNodeResource) is checked before it is believed: a contradiction makes the report malformed, and a
// malformed report promises nothing. Missing is never read as zero.
//
// A Parser serves one goroutine. It decides nothing, and it is not a validator: the API server has validated the built-in objects.
package parse
