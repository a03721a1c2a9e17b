package node

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
)

// A reclaimed pod and its containers may swap while that is wanted, and as the kubelet made them afterwards, by the agent that set it and by one that finds it. An online pod
// is never touched.
func TestSwap(t *testing.T) {
	r := &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}
	r.seldom = true // else it refuses what it is told
	r.start()
	batch := sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
	batch.Annotations[spec.AnnotationReclaimed] = "1000m/200Mi"
	web := sandbox("web", 2, "qos=shared_cores")
	r.mustRun(web)
	r.mustRun(batch)
	pod, main := batch.Cgroup, batch.Cgroup+"/"+containerID(&batch)
	const none, still = "max\n", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	r.counters.fixture = map[string]string{"proc/meminfo": "MemTotal: 4194304 kB\nMemFree: 3686400 kB\nMemAvailable: 3686400 kB\nSwapTotal: 1048576 kB\nSwapFree: 1048576 kB\n"}
	r.counters.stat = "workingset_refault_anon 0\nworkingset_refault_file 0\nsock 4096\nanon_thp 2097152\n"
	for _, dir := range []string{pod, web.Cgroup} {
		r.counters.fixture["sys/fs/cgroup/"+dir+"/memory.pressure"] = still
		r.kernel.set(dir+"/memory.swap.current", "0\n")
		r.kernel.set(dir+"/"+enforce.SwapMax, none)
		r.kernel.set(dir+"/"+enforce.ZswapMax, none)
	}
	r.kernel.set(main+"/"+enforce.SwapMax, "0\n")
	r.kernel.set(web.Cgroup+"/"+containerID(&web)+"/"+enforce.SwapMax, "0\n")
	r.run(3)
	r.kept(pod+"/"+enforce.SwapMax, none)
	var parts map[MemoryPart]int64
	r.agent.Ask(time.Minute, func(a *Agent) { parts = a.State().MemoryParts })
	for part, want := range map[MemoryPart]int64{{PartSockets, true}: 4096, {PartSockets, false}: 4096, {PartHugeAnon, true}: 2 << 20, {PartHugeAnon, false}: 2 << 20} {
		if parts[part] != want {
			t.Errorf("%+v has %d bytes, want %d", part, parts[part], want)
		}
	}
	r.agent.Configure(wanted(`{"memory": {"swap": {"share": 0.5, "zswapShare": 0.25}}}`))
	r.run(3)
	const step, zswap = "33554432", "52428800"
	r.kept(pod+"/"+enforce.SwapMax, step)
	r.kept(main+"/"+enforce.SwapMax, step)
	r.kept(pod+"/"+enforce.ZswapMax, zswap)
	r.kept(web.Cgroup+"/"+enforce.SwapMax, none)
	r.agent.Configure(wanted(`{"memory": {"swap": {"share": 0.5}}}`))
	r.run(3)
	r.kept(pod+"/"+enforce.SwapMax, step)
	r.kept(pod+"/"+enforce.ZswapMax, "max")
	r.agent.Configure(wanted(`{"memory": {"swap": {"share": 0.5, "zswapShare": 0.25}}}`))
	r.run(3)
	r.kept(pod+"/"+enforce.ZswapMax, zswap)
	r.agent.Configure(wanted(`{}`))
	r.run(12) // the kernel's bound is looked at
	r.kept(pod+"/"+enforce.SwapMax, "max")
	r.kept(pod+"/"+enforce.ZswapMax, "max")
	r.kept(main+"/"+enforce.SwapMax, "0")
}
