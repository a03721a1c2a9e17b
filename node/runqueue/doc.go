// Package runqueue sees in the kernel for whom the threads of some pods wait: who ran on their CPU meanwhile.
//
//	Look(victims, pods) ─▶ programs at sched_switch and sched_wakeup ─▶ nanoseconds by (pod that waited, pod that ran)
//
// A thread of a victim waits from when it is woken, or is taken from its CPU while it could go on, until it runs. Each CPU keeps the last eight turns of pods on it, and when the thread comes
// to run, its waiting is divided among those whose turns it was. At sched_switch the current task is still the one that stops, so its cgroup is known without looking into the kernel's
// structures; a pod is the ancestor of that cgroup at the level of pods. Where a field lies in an event is read from tracefs. No compiler, and no type information of the kernel, is needed.
//
// Invariants: nothing is in the kernel while no pod is a victim, and nothing is pinned: it goes with the process. What is kept of threads, pods and pairs is bounded, and what finds no
// room is counted (Waits.Dropped), or counts as no pod's. A kernel or a right that is missing is an Unsupported, and says which.
//
//	waits, err := probe.Look([]string{"kubepods/pod1"}, []string{"kubepods/pod1", "kubepods/pod2"})
//	waits.Of["kubepods/pod1"]["kubepods/pod2"] // 1.2s: so long threads of pod 1 waited while pod 2 ran
//
// It judges nobody: node/interference does. A thread that waits on one CPU and is moved to another counts as if it had waited there all the time; threads that were asleep when the probe
// began are known from their first turn on.
package runqueue
