package doctor

import "fmt"

// schedulersName is the Deployment of schedulers in processes of their own, and leaderName the one of what leads them.
const schedulersName, leaderName = "hilbert-scheduler", "hilbertd"

// schedulers judges schedulers in processes of their own. Without them the leader decides alone: that is slower, and no pod is lost; so nothing about them is an error.
func (e *examiner) schedulers(w *Workload) {
	check := "workload " + w.Name
	ready := fmt.Sprintf("%d of %d pods are ready (%s)", w.Ready, w.Wanted, w.Image)
	logs := fmt.Sprintf("kubectl -n %s logs deployment/%s says why; docs/how-to/run-schedulers-apart.md lists the reasons", e.f.Namespace, w.Name)
	var leader *Workload
	for i := range e.f.Workloads {
		if e.f.Workloads[i].Name == leaderName {
			leader = &e.f.Workloads[i]
		}
	}
	switch {
	case leader == nil:
		e.say(Warning, check, "no Deployment hilbertd is there that they could decide for", "install the scheduler, or set schedulers.replicas=0")
	case leader.Image != w.Image:
		e.say(Warning, check, fmt.Sprintf("they run %s and the leader %s: it refuses schedulers of another version, and decides alone", w.Image, leader.Image), "wait until an upgrade is complete, or helm upgrade both to one release")
	case w.Ready < w.Wanted && w.Ready == 0:
		e.say(Warning, check, ready+": the leader decides alone", logs)
	case w.Ready < w.Wanted:
		e.say(Warning, check, ready, logs)
	case w.Updated < w.Wanted:
		e.say(Warning, check, fmt.Sprintf("%d of %d pods are of the new version", w.Updated, w.Wanted), logs)
	default:
		e.say(OK, check, ready, "")
	}
}
