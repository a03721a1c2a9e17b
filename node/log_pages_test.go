package node

import (
	"sync"
	"testing"
	"time"

	"hilbert.dev/hilbert/node/logpages"
)

// dropper counts the steps that it is asked for. While it is held it does not return.
type dropper struct {
	mu     sync.Mutex
	asked  []int64
	keep   int64
	held   chan struct{}
	result logpages.Result
}

func (d *dropper) Step(_ time.Duration, budget, keep int64) logpages.Result {
	d.mu.Lock()
	d.asked, d.keep = append(d.asked, budget), keep
	held, result := d.held, d.result
	d.mu.Unlock()
	if held != nil {
		<-held
	}
	return result
}

func (d *dropper) steps() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.asked)
}

// Pages of log files are dropped where that is configured and the node is short of free memory, one step at a time, and what does not work is told.
func TestLogPagesAreDropped(t *testing.T) {
	d := &dropper{held: make(chan struct{}), result: logpages.Result{Bytes: 3000, Problems: []string{"/var/log/pods: no such directory"}}}
	r := &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}
	r.seldom, r.logPages = true, d
	r.start()
	r.mustRun(sandbox("web", 2, "qos=shared_cores"))
	r.counters.fixture = map[string]string{"proc/meminfo": "MemTotal: 4194304 kB\nMemFree: 41943 kB\nMemAvailable: 3686400 kB\n"}
	r.run(3)
	if n := d.steps(); n > 0 {
		t.Fatalf("%d steps without a rate", n)
	}
	r.agent.Configure(wanted(`{"memory": {"logs": {"bytesPerSecond": 1048576, "keep": 4096}}}`))
	r.run(5) // the second step waits for the first
	r.eventually("a step", func() bool { return d.steps() == 1 })
	close(d.held)
	for d.steps() < 3 {
		r.run(1)
	}
	d.mu.Lock()
	if d.keep != 4096 || d.asked[2] <= 0 {
		t.Errorf("asked for %v, keep %d", d.asked, d.keep)
	}
	d.mu.Unlock()
	var state State
	r.agent.Ask(time.Minute, func(a *Agent) { state = a.State() })
	if state.LogPages < 3000 || state.Notes[reasonLogPages] != 1 {
		t.Errorf("%d bytes, notes %v", state.LogPages, state.Notes)
	}
	r.counters.fixture["proc/meminfo"] = "MemTotal: 4194304 kB\nMemFree: 3686400 kB\nMemAvailable: 3686400 kB\n"
	r.run(2)
	before := d.steps()
	if r.run(3); d.steps() != before {
		t.Errorf("%d steps where there is enough", d.steps()-before)
	}
}
