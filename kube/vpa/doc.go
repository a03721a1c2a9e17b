// Package vpa is what recommendations ask of the API server and write to it.
//
//	Reader  reads VerticalPodAutoscalers that name our recommender, their pods, samples of use and our Reservations, and makes a vpa.View of them
//	Writer  writes statuses, checkpoints and Reservations, resizes pods and evicts them
//
// Data flow: cmd/hilbertd's role controller reads a View every minute or so, control/vpa decides, and the Writer writes. A Source has the samples; the one that there is
// asks metrics.k8s.io, as VPA's recommender does.
//
// Invariants: the definition of VerticalPodAutoscalers is the user's: where it is absent there is nothing to do, and that is said once. What could not be read is marked as
// not known and changes nothing. Each write checks the Fence, so that a deposed leader writes nothing; a pod is changed only while it has the UID that was decided about.
//
// The package decides nothing.
package vpa
