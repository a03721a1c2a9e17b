package corun

// Step lets a second pass. offered is what each service's requests of that second take on an idle machine, in CPU seconds. It returns the
// busy CPUs of services and of jobs.
func (n *Node) Step(offered []float64) (online, offline float64) {
	slow := n.slowClock() * n.stepMemory(offered)
	lent := n.lentCPUs()
	threads, pace := n.sum.threads, 0.0
	for z := range n.machine.NUMANodes {
		numa := &n.numaNodes[z]
		part := 1 / float64(n.machine.NUMANodes)
		if n.pooled && lent.all > 0 {
			part = lent.numa[z] / lent.all
		}
		n.stepNUMANode(z, lent.numa[z], threads*part, slow, offered)
		online += numa.online
		offline += numa.offline
		pace += numa.jobSpeed * part
		numa.lent, numa.delay = numa.next, 0
	}
	if threads > 0 {
		n.progress += pace
		n.measured.Work += pace * threads
	}
	n.measured.Online += online
	n.measured.Offline += offline
	n.seen.steps++
	return online, offline
}

// lentCPUs are the CPUs of the reclaimed pools over the coming second; changes under way count as long as they have held.
func (n *Node) lentCPUs() (lent struct {
	numa [MaxNUMANodes]float64
	all  float64
},
) {
	if !n.pooled {
		return lent
	}
	for z := range n.machine.NUMANodes {
		numa := &n.numaNodes[z]
		lent.numa[z] = float64(numa.lent)*numa.delay + float64(numa.next)*(1-numa.delay)
		lent.all += lent.numa[z]
	}
	return lent
}

// slowClock is the factor by which busy cores slow each other's clock.
func (n *Node) slowClock() float64 {
	busy := 0.0
	for z := range n.machine.NUMANodes {
		busy += n.numaNodes[z].online + n.numaNodes[z].offline
	}
	return 1 + n.params.Clock*busy/float64(n.machine.CPUs())
}

// stepNUMANode lets a second pass in a NUMA node: lent CPUs belong to the reclaimed pool, and that many threads of jobs want to run.
func (n *Node) stepNUMANode(z int, lent, threads, slow float64, offered []float64) {
	numa, p := &n.numaNodes[z], n.params
	// What was wanted in the last second is what the caches and queues of memory hold in this one.
	memory, cached := contention(numa.bandwidth/n.machine.Bandwidth, p.Bandwidth), 1+p.Cache*cacheLoss(numa.cache, n.machine.Cache)
	slow *= memory
	slowOnline := slow * cached
	work, requests, bandwidth, cache := 0.0, 0.0, 0.0, 0.0
	for i := range n.services {
		s := &n.services[i]
		if s.NUMANode != z {
			continue
		}
		s.offered = max(offered[i], 0)
		work += s.offered
		requests += s.offered * s.perSecond
		bandwidth += s.offered * s.Bandwidth
		cache += s.offered * s.Cache
	}
	n.measured.Offered += work

	all := float64(n.machine.Divisible())
	c := all - lent
	sibling, strangers := 0.0, 0.0 // how busy siblings are with jobs; how likely a thread wakes where a job runs
	if !n.pooled {
		c = numa.fairShare(p, all, threads)
		sibling = min(numa.offline/all, 1)
		strangers = strangerChance(min((numa.online+numa.offline)/all, 1), numa.offline, numa.online)
	}
	delay := numa.serve(p, c, work, slowOnline, sibling)
	slowOnline *= 1 + p.Sibling*min(numa.use+sibling, 1)
	numa.cycles = memory * cached * (1 + p.Sibling*min(numa.use+sibling, 1)) // a slower clock makes cycles longer, not more
	service := 0.0
	if requests > 0 {
		service = work / requests * slowOnline
	}
	wait := queueWait(numa.use, c, p.Search, p.Variability, service)
	numa.waiting = wait.chance * p.Variability * numa.use / (1 - min(numa.use, maxUse))
	if strangers > 0 {
		stranger := tail{strangers, p.WakeDelay + p.Weight*service}
		wait = wait.or(stranger)
		numa.waiting += requests * stranger.chance * stranger.mean
	}
	if work > 0 {
		numa.waiting += min(numa.backlog*requests/work, maxWaiting*c)
	}
	n.measured.Shed += numa.shed
	n.judge(z, slowOnline, delay, wait)
	n.serveJobs(numa, lent, threads, slow/n.throttled[z].pace)
	numa.bandwidth, numa.cache, numa.jobBandwidth = bandwidth, cache, 0
	if n.sum.threads > 0 {
		share := numa.offline / n.sum.threads
		numa.jobBandwidth = n.throttled[z].bandwidth * share
		numa.bandwidth += numa.jobBandwidth
		numa.cache += n.sum.cache * share
	}
	n.seen.add(z, numa)
}

// fairShare is how many of the CPUs services can have beside threads of jobs: those that jobs leave, or what the kernel gives to the threads
// that run and wait, by weight.
func (numa *numa) fairShare(p *Params, cpus, threads float64) float64 {
	if threads <= 0 {
		return cpus
	}
	own := numa.online + numa.waiting
	return max(cpus-threads, cpus*own/(own+p.Weight*threads))
}

// maxWaiting bounds the threads that wait, by CPU of the pool: servers have so many workers and no more.
const maxWaiting = 8

// strangerChance is how likely a waking thread finds no idle CPU among the few that the kernel looks at, and one with a job's thread.
func strangerChance(busy, offline, online float64) float64 {
	if offline <= 0 {
		return 0
	}
	b2 := busy * busy
	return b2 * b2 * offline / (offline + online)
}

// serve does what work it can with c CPUs, and returns the mean wait of those who come too late for this second, in seconds. A thread is
// slower the busier siblings are, and siblings are busier the slower it is: use = r·(1+β·(use+sibling)) has the closed form below, where
// sibling is the part of jobs.
func (numa *numa) serve(p *Params, c, work, slow, sibling float64) float64 {
	c = max(c, 1e-3)
	most := c / ((1 + p.Sibling) * slow) // work of an idle machine that a full pool does in a second
	before := numa.backlog
	numa.shed = 0
	all := work + before
	if all < most {
		r := all * slow / c
		numa.use = min(r*(1+p.Sibling*sibling)/(1-p.Sibling*r), 1)
		numa.backlog = 0
	} else {
		numa.use = 1
		numa.backlog = all - most
		if bound := most * p.MaxBacklog; numa.backlog > bound {
			numa.shed = numa.backlog - bound
			numa.backlog = bound
		}
	}
	numa.online = numa.use * c
	return (before + numa.backlog) / 2 / most
}

// judge finds how many requests of each service are late.
func (n *Node) judge(z int, slow, delay float64, wait tail) {
	for i := range n.services {
		s := &n.services[i]
		if s.NUMANode != z || s.offered <= 0 {
			continue
		}
		late := wait.late(s.Mean*slow, s.Target-delay)
		n.measured.Seconds++
		if late > lateShare {
			n.measured.Late++
		}
		requests := s.offered * s.perSecond
		n.window[i].requests += requests
		n.window[i].late += late * requests
	}
}

// serveJobs lets jobs have what CPUs they get: those lent, or what services leave.
func (n *Node) serveJobs(numa *numa, lent, threads, slow float64) {
	room, all := lent, float64(n.machine.Divisible())
	if !n.pooled {
		room = all - numa.online
	}
	numa.offline = max(min(threads, room), 0)
	numa.jobSpeed = 0
	if threads <= 0 || room <= 0 {
		return
	}
	sibling := numa.offline / room
	if !n.pooled {
		sibling = min((numa.offline+numa.online)/all, 1)
	}
	numa.jobSpeed = numa.offline / threads / (slow * (1 + n.params.Sibling*sibling))
}
