// Package requests answers ResourceRequests: it follows them and their pods, makes and deletes pods as control/request decides, and writes the statuses.
//
//	Watch       follows ResourceRequests, then the pods that carry our label, and keeps of each what is decided from
//	Writer      makes pods of templates (pod.go), deletes them, writes statuses, and an Event where a status gets worse
//	Controller  asks control/request what is due, has a bounded number of writes under way, and tells it what came of each
//
// Data flow: cmd/hilbertd's role controller runs a Controller for as long as it leads. One goroutine decides; the writes have others, and their results come back to it.
//
// Invariants: each write checks the Fence, so that a deposed leader writes nothing; a pod has its request as controller, so that the garbage collector deletes it with the request; pods
// are listed after the requests, so that no pod that a status names is missed; what is deleted is named by its UID, and what was waiting by its version too.
//
// A ResourceRequest gives nobody more than pods of his own would: its pods are admitted as any pod is, by quotas, policies and the levels of pod security.
package requests
