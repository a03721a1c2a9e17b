package agent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestObserveCost measures what the agent costs while it reads the counters of a hundred containers each second, as CPU time of its process.
// It asserts only what the emulation allows: see docs/vm.md for what that makes on a machine.
func TestObserveCost(t *testing.T) {
	if testing.Short() {
		t.Skip("a measurement of minutes: not with -short")
	}
	r := newRig(t)
	const pods, containers, runs, during = 10, 10, 3, 60 * time.Second
	none := r.cost(runs, during)
	for i := range pods {
		p := r.pod(fmt.Sprintf("many-%d", i))
		for n := range containers - 1 {
			c := p.Spec.Containers[0]
			c.Name = fmt.Sprintf("more-%d", n)
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		r.awaitRunning(r.create(p))
	}
	time.Sleep(10 * time.Second)
	many := r.cost(runs, during)
	loop := r.calibrate()
	t.Logf("CPU of the agent in %% of the guest's core, over %s: no pods %.2f, %d containers %.2f; the guest's core does a fixed loop in %s",
		during, none, pods*containers, many, loop)
	if least, most := many[0], 60.0; least > most {
		t.Errorf("the agent takes %.1f %% of an emulated core, want at most %.0f", least, most)
	}
}

// cost is the agent's part of a core in percent, several times, ascending.
func (r *rig) cost(runs int, during time.Duration) (out []float64) {
	r.t.Helper()
	for range runs {
		begin, cpu := time.Now(), r.cpuTime()
		time.Sleep(during)
		out = append(out, 100*(r.cpuTime()-cpu).Seconds()/time.Since(begin).Seconds())
	}
	slices.Sort(out)
	return out
}

// cpuTime is what the agent's process has used so far.
func (r *rig) cpuTime() time.Duration {
	r.t.Helper()
	state, err := r.Guest.Service(agentName).State(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	stat, err := r.Guest.ReadFile(r.t.Context(), fmt.Sprintf("/proc/%d/stat", state.PID))
	if err != nil {
		r.t.Fatal(err)
	}
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	const user, system, hertz = 11, 12, 100 // as they stand after the name
	var ticks int
	for _, field := range []int{user, system} {
		n, err := strconv.Atoi(fields[field])
		if err != nil {
			r.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / hertz
}

// calibrate is how long a fixed piece of work takes in the guest.
func (r *rig) calibrate() time.Duration {
	r.t.Helper()
	begin := time.Now()
	if _, err := r.Guest.Shell(r.t.Context(), "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"); err != nil {
		r.t.Fatal(err)
	}
	return time.Since(begin)
}
