// Package moves carries the steps of moves out: it asks the API server how a move stands, reserves its target, evicts its pod, and gives the target back.
//
//	Client.See      what is known of a move's pod and Reservation: two reads that the API server answers from its store, so that what is absent is absent
//	Client.Reserve  creates the Reservation of a target: a template of the moved pod, pinned to the target, for its controller's pods alone
//	Client.Evict    evicts by the Eviction API, with the pod's UID as a precondition; Client.Ask asks the same as a dry run
//	Client.UseRequests has the eviction asked for by an EvictionRequest, where the API server serves these; Client.Withdraw takes it back
//	Client.See, Reserve and Evict do so for a gang that is moved whole, too: one Reservation of its PodGroup, and all of its pods
//	Client.Left     the moves that a leader before has left
//	Client.History, Remember  who was moved before, in a ConfigMap of the controller's namespace
//
// Data flow: cmd/hilbertd's role controller holds a reschedule.Carrier, shows it what See answers, and calls what it asks for.
//
// Invariants: each write checks the Fence, so that a deposed leader evicts nobody. Everything may be done twice. A pod whose template the policies would refuse is vetoed before anything is
// written. It decides nothing: control/reschedule does.
package moves
