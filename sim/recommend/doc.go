// Package recommend is a back-test of recommended requests on recorded use of CPU and memory.
//
//	trace.Job ─▶ play: for each step, the policy's allocation beside what was used ─▶ Score: slack, would-be OOMs, throttled time
//
// The first day of each job is for the policies to learn; every later one is held out: a policy has to say what the pod gets before it sees the use.
// Policies: Hilbert's once a day (as new pods get it), Hilbert's in place, the Vertical Pod Autoscaler with its defaults, the most so far, and what the
// job asked for. Jobs are divided into two halves by a hash of their names: parameters are tuned on one, and the figures are of the other.
//
// Invariants: a policy never sees a sample before it has answered for it. The same trace gives the same figures.
//
// The steps of a trace hide what is shorter, alike for all policies. No Kubernetes and no scheduler is modelled: a pod gets what its policy says.
package recommend
