package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/lab/apart"
)

// outsideRig has, beside two processes of which one leads, schedulers that decide for it.
type outsideRig struct {
	*rig
	addresses  [2]string // for schedulers
	schedulers [2]*hilbertd
}

func newOutsideRig(t *testing.T) *outsideRig {
	o := &outsideRig{}
	files, err := apart.WriteFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range o.addresses {
		if o.addresses[i], err = apart.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	o.rig = newRigOf(t, rigOptions{configure: func(i int, kubeconfig string) string {
		return fmt.Sprintf(configuration, kubeconfig, leaseSeconds) + files.Dispatcher(o.addresses[i])
	}})
	if err := os.WriteFile(filepath.Join(o.dir, "scheduler.yaml"), []byte(files.Scheduler(o.addresses[:]...)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range o.schedulers {
		o.restartScheduler(i)
	}
	t.Cleanup(func() {
		for _, d := range o.schedulers {
			_ = d.kill()
			text, _ := os.ReadFile(filepath.Join(o.dir, d.name+".log"))
			if t.Failed() {
				t.Logf("%s:\n%s", d.name, text[max(0, len(text)-4000):])
			}
		}
	})
	return o
}

func (o *outsideRig) restartScheduler(i int) {
	d, err := startHilbertd(o.dir, fmt.Sprintf("scheduler-%d", i), filepath.Join(o.dir, "scheduler.yaml"))
	if err != nil {
		o.t.Fatal(err)
	}
	o.schedulers[i] = d
}

// joined waits until a scheduler's log says that it decides for a leader, as often as that.
func (o *outsideRig) joined(i, times int) {
	o.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(o.dir, o.schedulers[i].name+".log"))
		if err != nil {
			o.t.Fatal(err)
		}
		if strings.Count(string(text), `msg="deciding for a leader"`) >= times {
			return
		}
	}
	o.t.Fatalf("%s has not joined a leader %d times within %s", o.schedulers[i].name, times, patience)
}

// TestSchedulersElsewhere: schedulers in processes of their own decide for one of two dispatchers. Schedulers and dispatchers are killed while pods are bound. No pod is lost or bound twice, and
// no node is overbooked.
func TestSchedulersElsewhere(t *testing.T) {
	strikes := 12
	if testing.Short() {
		strikes = 4
	}
	o := newOutsideRig(t)
	joins := [2]int{}
	await := func(i int) {
		joins[i]++
		o.joined(i, joins[i])
	}
	await(0)
	await(1)
	struck := 0
	for i := range strikes {
		if err := o.addBatch(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		o.awaitBound(i*batchPods + 1 + o.random.IntN(batchPods-batchPods/10))
		if i%3 < 2 {
			victim := i % 2
			if err := o.schedulers[victim].kill(); err != nil {
				t.Fatal(err)
			}
			o.restartScheduler(victim)
			await(victim)
			struck++
			continue
		}
		leader, err := o.leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := o.daemons[leader].kill(); err != nil {
			t.Fatal(err)
		}
		o.leadersHit++
		if err := o.restart(leader); err != nil {
			t.Fatal(err)
		}
		await(0)
		await(1)
	}
	o.awaitBound(strikes * batchPods)
	o.audit(strikes * batchPods)
	left, decided := 0, 0
	for i := range o.daemons {
		for _, found := range regexp.MustCompile(`msg="a scheduler has left".* decided=(\d+)`).FindAllSubmatch(o.logOf(i), -1) {
			n, err := strconv.Atoi(string(found[1]))
			if err != nil {
				t.Fatal(err)
			}
			left, decided = left+1, decided+n
		}
	}
	t.Logf("%d pods were decided on by schedulers that were killed, of %d", decided, strikes*batchPods)
	if left < struck || decided < struck {
		t.Errorf("%d schedulers were killed and %d have left, which had decided on %d pods: the wrong processes were struck", struck, left, decided)
	}
}

func (o *outsideRig) logOf(i int) []byte {
	text, err := os.ReadFile(filepath.Join(o.dir, o.daemons[i].name+".log"))
	if err != nil {
		o.t.Fatal(err)
	}
	return text
}
