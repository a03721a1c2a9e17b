package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// cached lets a second pass on an idle 4 GiB node of which clean page cache of a reclaimed pod fills most.
func (l *lender) cached(free, cache, active int) {
	l.now = l.now.Add(time.Second)
	c := l.counters
	l.agent.Ask(time.Minute, func(a *Agent) {
		cgroups := a.node.Pods.Watched(true)
		c.passed += time.Second
		stat, sched := strings.Builder{}, strings.Builder{}
		stat.WriteString("cpu  0 0 0 0 0 0 0 0 0 0\n")
		sched.WriteString("version 17\ntimestamp 1\n")
		for i := range 8 {
			c.ticks[i] += 5
			fmt.Fprintf(&stat, "cpu%d %d 0 0 %d 0 0 0 0 0 0\n", i, c.ticks[i], int(c.passed.Seconds()*100)-c.ticks[i])
			fmt.Fprintf(&sched, "cpu%d 0 0 0 0 0 0 %d 0 1\n", i, c.ticks[i]*1e7)
		}
		c.write("proc/stat", stat.String())
		c.write("proc/schedstat", sched.String())
		c.write("proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nMemAvailable: %d kB\n", 4096<<10, 2*free<<10, 2*(free+cache+active)<<10))
		c.write("sys/devices/system/node/online", "0-1\n")
		for node := range 2 {
			c.write(fmt.Sprintf("sys/devices/system/node/node%d/meminfo", node), fmt.Sprintf(
				"Node %[1]d MemTotal: %[2]d kB\nNode %[1]d MemFree: %[3]d kB\nNode %[1]d FilePages: %[4]d kB\nNode %[1]d AnonPages: 0 kB\nNode %[1]d Slab: 0 kB\nNode %[1]d Inactive(file): %[5]d kB\n",
				node, 2048<<10, free<<10, (cache+active)<<10, cache<<10))
		}
		for _, g := range cgroups {
			file, in := 0, 0
			if strings.Contains(g.Dir, "batch") {
				file, in = (cache+active)<<20, cache<<20
			}
			c.write("sys/fs/cgroup/"+g.Dir+"/memory.current", fmt.Sprintf("%d\n", 2*file+(100<<20)))
			c.write("sys/fs/cgroup/"+g.Dir+"/memory.stat", fmt.Sprintf("anon 104857600\nfile %d\nshmem 0\ninactive_file %d\nactive_file %d\n", 2*file, 2*in, 2*(file-in)))
			c.write("sys/fs/cgroup/"+g.Dir+"/memory.numa_stat", fmt.Sprintf("anon N0=52428800 N1=52428800\nfile N0=%d N1=%d\n", file, file))
			c.write("sys/fs/cgroup/"+g.Dir+"/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
		}
		o := c.reader.Read(c.passed, cgroups)
		a.observer.Put(o, l.now)
		a.observed(l.now)
	})
}

// Clean page cache of a reclaimed pod, within its limit, is memory that is to be had: a node of which it fills two thirds is not short.
func TestCacheOfReclaimedPodsEvictsNobody(t *testing.T) {
	l := newLender(t)
	web := sandbox("web", 2, "qos=shared_cores")
	batch := sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
	batch.Annotations[spec.AnnotationReclaimed] = "1000m/3500Mi"
	l.mustRun(web)
	l.mustRun(batch)
	for range 20 {
		l.cached(1500, 100, 0)
	}
	for i := range 40 {
		l.cached(60, 700, 700) // 2.9 % free, 68 % clean cache; MemAvailable 71 %
		l.agent.Ask(time.Minute, func(a *Agent) {
			if d := &a.eviction.decision; len(d.Pressures)+len(d.Requests) > 0 || d.Stop != nil {
				t.Errorf("%d s: pressures %v, requests %v, stops %v", i+1, d.Pressures, d.Requests, d.Stop)
			}
		})
	}
}
