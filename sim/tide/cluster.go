package tide

import (
	"math/rand/v2"
	"time"
)

// cluster is slots that replicas and offline jobs fill.
type cluster struct {
	slots  int
	random *rand.Rand
	mean   time.Duration // of a job
	grace  time.Duration // of one that is evicted
	start  time.Duration // of a replica
	online []time.Time   // when each replica is ready, the oldest first
	jobs   []job         // the oldest first

	evictions int
	lost      time.Duration
	done      time.Duration
	podTime   time.Duration
}

// job is an offline job.
type job struct {
	began time.Time
	ends  time.Time
}

// scale makes the replicas this many. New ones take free slots, then those of the youngest jobs, which lose what they have done.
func (c *cluster) scale(replicas int, now time.Time) {
	if n := len(c.online); replicas <= n {
		c.online = c.online[:replicas]
		return
	}
	for len(c.online) < replicas {
		ready := now.Add(c.start)
		if len(c.online)+len(c.jobs) >= c.slots {
			if len(c.jobs) == 0 {
				return
			}
			c.evict(now)
			ready = ready.Add(c.grace)
		}
		c.online = append(c.online, ready)
	}
}

// evict ends the youngest job.
func (c *cluster) evict(now time.Time) {
	last := len(c.jobs) - 1
	c.lost += now.Sub(c.jobs[last].began)
	c.jobs = c.jobs[:last]
	c.evictions++
}

// run lets time pass up to now: jobs end, and others take their slots, up to so many jobs.
func (c *cluster) run(now time.Time, step time.Duration, most int) {
	kept := c.jobs[:0]
	for _, j := range c.jobs {
		if j.ends.After(now) {
			kept = append(kept, j)
		} else {
			c.done += j.ends.Sub(j.began)
		}
	}
	c.jobs = kept
	for len(c.jobs) < min(most, c.slots-len(c.online)) {
		length := time.Duration(c.random.ExpFloat64() * float64(c.mean)).Round(time.Second)
		c.jobs = append(c.jobs, job{now, now.Add(length + time.Second)})
	}
	c.podTime += step * time.Duration(len(c.online))
}

// ready is how many replicas serve.
func (c *cluster) ready(now time.Time) int {
	n := 0
	for _, at := range c.online {
		if !at.After(now) {
			n++
		}
	}
	return n
}
