package numa

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
)

var (
	nodesFlag  = flag.Int("numa.nodes", 50, "hollow nodes")
	podsFlag   = flag.Int("numa.pods", 500, "dedicated pods")
	churnFlag  = flag.Int("numa.churn", 2, "rounds in which a tenth of the pods is replaced")
	steadyFlag = flag.Duration("numa.steady", 0, "for how long the reports of a cluster at rest are counted")
	writeFlag  = flag.Duration("numa.write", time.Second, "the agents' writeInterval")
	freshFlag  = flag.Duration("numa.refresh", time.Minute, "the agents' refreshInterval")
)

func jsonOf(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// With reports that are fresh, and nobody else who binds, every promise is kept.
func TestPromisesAreKept(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	b := newBed(t, *nodesFlag, *writeFlag, *freshFlag)
	b.startAgents(nil)
	b.reported(len(b.names))
	t.Logf("%d agents have reported after %.1f s", len(b.names), time.Since(began).Seconds())
	h := b.hilbertd(spec.DefaultSchedulerName, 15*time.Minute)

	before, began := b.used(h), time.Now()
	b.fill(kinds(*podsFlag, random), b.calm)
	took := time.Since(began)
	t.Logf("%d pods created, bound and running after %.1f s; CPU by pod: %s", *podsFlag, took.Seconds(), b.used(h).minus(before).over(*podsFlag))
	v := b.settle(false)
	t.Logf("all confirmed and agreed after %.1f s more; %d of %d CPUs are held, %.1f %%", time.Since(began).Seconds()-took.Seconds(), v.cpus, v.room,
		100*float64(v.cpus)/float64(v.room))
	b.mustKeep(*podsFlag)
	if v.cpus*10 < v.room*9 {
		t.Errorf("%d of %d CPUs are held: that is no full cluster", v.cpus, v.room)
	}

	for round := range *churnFlag {
		b.replace(*podsFlag/10, random, b.calm)
		v = b.settle(false)
		b.mustKeep(*podsFlag + (round+1)*(*podsFlag/10))
	}
	t.Logf("and %d times a tenth of them replaced; promises: %+v", *churnFlag, b.counts())
	b.tellMetrics(h)

	if !testing.Short() {
		b.storm(h, max(1, 2000/len(b.names)))
	}
	b.steady(h, *steadyFlag)
	b.tellMemory(h)
}

// mustKeep fails unless exactly so many promises were kept, and nothing else has happened to any.
func (b *bed) mustKeep(promises int) {
	b.t.Helper()
	if got, want := b.counts(), (allocate.Counts{Kept: uint64(promises)}); got != want {
		b.t.Errorf("promises: %+v, want %+v", got, want)
	}
}

// waiting says why pods wait, by example.
func (b *bed) waiting() string {
	pods, err := b.client.CoreV1().Pods(namespace).List(b.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=", Limit: 3})
	if err != nil {
		return err.Error()
	}
	text := ""
	for i := range pods.Items {
		text += fmt.Sprintf("\n%s %+v: %s", pods.Items[i].Name, kindOf(&pods.Items[i]), unschedulable(&pods.Items[i]))
	}
	return text
}

// steady counts the reports of a cluster at rest.
func (b *bed) steady(h *process, during time.Duration) {
	b.t.Helper()
	if during == 0 {
		return
	}
	const parts = 5
	for part := range parts {
		before, count := b.used(h), b.reports()
		time.Sleep(during / parts)
		n, hours := b.reports()-count, float64(len(b.names))*(during/parts).Hours()
		b.t.Logf("at rest, part %d: %d reports in %s, %.1f by node and hour; CPU: %.1f %% of a core for the agents, %.1f %% for the control plane, %.1f %% for hilbertd",
			part+1, n, during/parts, float64(n)/hours, percent(b.used(h).minus(before).agents, during/parts), percent(b.used(h).minus(before).plane, during/parts),
			percent(b.used(h).minus(before).hilbertd, during/parts))
	}
}

func percent(part, all time.Duration) float64 { return 100 * part.Seconds() / all.Seconds() }

// tells are the metrics that say what became of decisions.
var tells = regexp.MustCompile(`^hilbert_(plans_rejected|bindings_released|scheduling_attempts|bindings)_total`)

// tellMetrics prints what hilbertd has counted.
func (b *bed) tellMetrics(h *process) {
	b.t.Helper()
	metrics := h.metrics(b.t)
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if metrics[name] != 0 && tells.MatchString(name) {
			b.t.Logf("%s: %s %g", h.name, name, metrics[name])
		}
	}
}

func (b *bed) tellMemory(h *process) {
	b.t.Helper()
	b.t.Logf("peak of memory in MiB: %d agents and this test %d, hilbertd %d, control plane %d", len(b.names), peak(b.t, os.Getpid()),
		peak(b.t, h.cmd.Process.Pid), peak(b.t, b.plane.cmd.Process.Pid))
}
