package schedule

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/profiles"
)

// leastLacking is for how many more members there has to be room, at least, before a gang may get the places that it needs; 1 or more. A gang sleeps until so
// much is gained, so the number must never be too high, and what packing by tries has found room for does not give it.
//
// Pods of one class are packed exactly. So each class is counted by itself, as if the others were not there: together no more fit. Topology is left out, for it
// takes places away only. Constraints between pods are another matter: with one pod more in the emptiest zone, any number may go to the others. A gang with such
// pods is tried again for each place that is gained.
//
// Example: a gang needs one large and three small members, and a node has room for the large one, or for three small. Packing finds room for one member. Two more
// small places do for the gang, though it lacks three members by that count. By class it has room for one large and three small, so that it lacks none for certain,
// and the answer is 1.
func leastLacking(decider *profiles.Decider, ask *pack.Ask) int {
	byClass := make(map[*cluster.Class][]*cluster.Pod)
	for _, pod := range ask.Members {
		if rules.UsesDomainFilters(pod.Class) {
			return 1
		}
		byClass[pod.Class] = append(byClass[pod.Class], pod)
	}
	fit := 0
	for _, members := range byClass {
		fit += decider.WouldFit(&pack.Ask{Members: members, Need: 1, Within: ask.Within})
	}
	return max(ask.Need-fit, 1)
}
