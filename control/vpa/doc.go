// Package vpa decides what the statuses of VerticalPodAutoscalers say, and what becomes of the pods that they are about.
//
//	VerticalPodAutoscalers, pods, samples of use ─▶ State.Decide ─▶ []Action: Status, Save, Reserve, Release, Resize, Evict
//
// State keeps a recommend.Profile for each container of each VerticalPodAutoscaler, and how far its rollout is. Both are stored by Save actions and come back by
// Restore. Package recommend says what to ask for and which pods change; this package knows the words of VerticalPodAutoscalers, and that the ledger comes first:
//
//	a pod is to grow ─▶ Reserve its growth on its node ─▶ the scheduler says Reserved ─▶ Resize ─▶ the kubelet has done it ─▶ Release
//
// While a place is Reserved nobody else is given the room, and when the pod's new requests arrive in the ledger, the place gives way to them. So a resize never
// takes room that was promised to another pod.
//
// Invariants: no pod grows without a Reserved place on its node for the growth; no pod is changed for a VerticalPodAutoscaler whose updateMode lets another
// updater act; memory never shrinks below its peak plus a margin; what is not known is no sample and changes nothing; a rollout's next state is saved before the
// pods of it are changed. The package reads no cluster, keeps no clock and calls nobody.
package vpa
