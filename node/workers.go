package node

import (
	"context"
	"sync"
)

// maxBeside bounds what runs beside the loop at once: writes of the report and evictions.
const maxBeside = 16

// startWorkers starts what runs beside the loop. beside runs one more thing there; wait waits for all of them after ctx has ended.
func (a *Agent) startWorkers(ctx context.Context) (beside func(func(context.Context)), wait func()) {
	var group sync.WaitGroup
	group.Go(func() { a.fast.run(ctx) })
	group.Go(func() { a.slow.run(ctx) })
	group.Go(func() { a.runUpdates(ctx) })
	group.Go(func() { a.memory.shrinker.Run(ctx) })
	if a.observer.reader != nil {
		group.Go(func() { a.observe(ctx) })
	}
	if a.lends() && a.profiles.scraper != nil {
		group.Go(func() { a.profiles.scraper.Run(ctx, a.profiles.wanted, a.profiles.scraped) })
	}
	slots := make(chan struct{}, maxBeside)
	beside = func(f func(context.Context)) {
		group.Go(func() {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-slots }()
			f(ctx)
		})
	}
	return beside, group.Wait
}

const (
	// maxUpdates bounds the containers that one request to the runtime changes: it creates none meanwhile.
	maxUpdates = 16
	// maxUpdateFailures is how often a container's update is tried, at a tick each. The kernel has the value by then; only a later update of
	// the runtime's own would undo it until the next tick.
	maxUpdateFailures = 5
)

// updateJob is a request to the runtime.
type updateJob struct {
	updater Updater
	updates []Update
}

func (a *Agent) runUpdates(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-a.update:
			failed, err := job.updater.Update(job.updates)
			a.post(func() { a.updated(job, failed, err) })
		}
	}
}

// updateRuntime tells the runtime what it does not know yet of the containers that run, so that what it writes later keeps it.
func (a *Agent) updateRuntime() {
	if a.updating || a.runtime.updater == nil {
		return
	}
	var updates []Update
	for _, id := range sortedKeys(a.containers) {
		c := a.containers[id]
		p, ok := a.placement(c.pod)
		if !ok || !c.exists || c.failures >= maxUpdateFailures || (p.CPUs == c.cpus && (p.Mems.IsEmpty() || p.Mems == c.mems)) {
			continue
		}
		c.asked = p
		updates = append(updates, Update{Container: id, CPUs: p.CPUs, Mems: p.Mems})
		if len(updates) == maxUpdates {
			break
		}
	}
	if len(updates) > 0 {
		a.updating = true
		a.update <- updateJob{a.runtime.updater, updates} // there is room: nothing is under way
	}
}

// updated takes the runtime's answer. It has written to the containers' cgroups, maybe older values than are wanted by now.
func (a *Agent) updated(job updateJob, failed []string, err error) {
	a.updating = false
	bad := make(map[string]bool, len(failed))
	for _, id := range failed {
		bad[id] = true
	}
	var again []string
	for i := range job.updates {
		c := a.containers[job.updates[i].Container]
		switch {
		case c == nil: // it has ended
		case err != nil || bad[c.id]:
			c.failures++
			a.counts.UpdatesFailed++
		default:
			c.cpus, c.mems, c.failures = c.asked.CPUs, c.asked.Mems, 0
			a.counts.Updates++
			again = append(again, c.cgroup)
		}
	}
	if err != nil {
		a.log.Warn("the runtime refuses an update", "err", err)
	}
	a.recheck(again...)
	if err == nil && len(failed) == 0 {
		a.updateRuntime()
	}
}

// recheck has cgroups compared with what is wanted, at once.
func (a *Agent) recheck(cgroups ...string) {
	if len(cgroups) > 0 {
		a.applied = a.fast.ask(knobRequest{recheck: cgroups})
		a.slow.ask(knobRequest{recheck: cgroups})
	}
}
