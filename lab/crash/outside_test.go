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
	"hilbert.dev/hilbert/lab/link"
)

// outsideSchedulers decide for one of two dispatchers.
const outsideSchedulers = 3

// outsideRig has, beside two processes of which one leads, schedulers that decide for it, and a link between each two of them that speak.
type outsideRig struct {
	*rig
	plane      *breakable
	api        [2]*link.Link                    // from a dispatcher to the API server
	peers      [outsideSchedulers][2]*link.Link // from a scheduler to a dispatcher
	schedulers [outsideSchedulers]*hilbertd
	began      time.Time
}

func newOutsideRig(t *testing.T) *outsideRig {
	o := &outsideRig{plane: newBreakable(t), began: time.Now()}
	files, err := apart.WriteFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	newLink := func(target string) *link.Link { return link.New(t, "tcp", "127.0.0.1:0", target) }
	var addresses [2]string
	for i := range addresses {
		if addresses[i], err = apart.FreeAddress(); err != nil {
			t.Fatal(err)
		}
		o.api[i] = newLink(o.plane.address())
		for s := range o.peers {
			o.peers[s][i] = newLink(addresses[i])
		}
	}
	o.rig = newRigOf(t, rigOptions{kubeconfig: o.plane.options.Kubeconfig, configure: func(i int, _ string) string {
		through, err := o.plane.through(o.api[i], fmt.Sprintf("hilbertd-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(configuration, through, leaseSeconds) + files.Dispatcher(addresses[i])
	}})
	for s := range o.schedulers {
		text := files.Scheduler(o.peers[s][0].Address(), o.peers[s][1].Address())
		if err := os.WriteFile(o.schedulerFile(s), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := o.restartScheduler(s); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, d := range o.schedulers {
			_ = d.kill()
			if text, _ := os.ReadFile(o.logFile(d)); t.Failed() {
				t.Logf("%s:\n%s", d.name, text[max(0, len(text)-4000):])
			}
		}
	})
	return o
}

func (o *outsideRig) schedulerFile(s int) string {
	return filepath.Join(o.dir, fmt.Sprintf("scheduler-%d.yaml", s))
}

func (o *outsideRig) logFile(d *hilbertd) string { return filepath.Join(o.dir, d.name+".log") }

func (o *outsideRig) restartScheduler(s int) (err error) {
	o.schedulers[s], err = startHilbertd(o.dir, fmt.Sprintf("scheduler-%d", s), o.schedulerFile(s))
	return err
}

// decides reports whether a scheduler's log says last that it decides for a leader.
func (o *outsideRig) decides(s int) (bool, error) {
	text, err := os.ReadFile(o.logFile(o.schedulers[s]))
	if err != nil {
		return false, err
	}
	joined := strings.LastIndex(string(text), `msg="deciding for a leader"`)
	return joined >= 0 && joined > strings.LastIndex(string(text), `msg="no leader gives work`) && joined > strings.LastIndex(string(text), `msg="hilbertd started"`), nil
}

// awaitScheduler waits until some scheduler decides.
func (o *outsideRig) awaitScheduler() {
	o.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for s := range o.schedulers {
			switch deciding, err := o.decides(s); {
			case err != nil:
				o.t.Fatal(err)
			case deciding:
				return
			}
		}
	}
	o.t.Fatalf("no scheduler has found a leader within %s", patience)
}

// TestSchedulersElsewhere: schedulers in processes of their own decide for one of two dispatchers. All of them, the API server and the ways between them fail while pods are bound, by a plan that
// the seed makes. No pod is lost or bound twice, and no node is overbooked.
func TestSchedulersElsewhere(t *testing.T) {
	rounds := 50 // with 200 pods each: 10,000
	if testing.Short() {
		rounds = 6
	}
	o := newOutsideRig(t)
	plan := planTroubles(o.random, rounds)
	struck := map[string]int{}
	for i, turn := range plan {
		o.awaitScheduler()
		if err := o.addBatch(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		o.awaitBound(i*batchPods + turn.after)
		if err := o.play(turn, struck); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	o.awaitBound(rounds * batchPods)
	o.awaitScheduler()
	o.audit(rounds * batchPods)
	for s := range o.schedulers {
		if err := o.schedulers[s].kill(); err != nil { // the dispatchers say what it has decided
			t.Error(err)
		}
	}
	joined, left, decided := o.decided()
	t.Logf("%v; schedulers joined %d times and decided on %d of %d pods", struck, joined, decided, rounds*batchPods)
	if decided < rounds*batchPods/10 {
		t.Errorf("schedulers joined %d times, left %d times and decided on %d pods of %d: too few to have been disturbed", joined, left, decided, rounds*batchPods)
	}
}

var leftInLog = regexp.MustCompile(`msg="a scheduler has left".* decided=(\d+)`)

// decided is how often schedulers have joined and left, and on how many pods those that have left had decided, by the logs of the dispatchers.
func (o *outsideRig) decided() (joined, left, decided int) {
	o.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		joined, left, decided = 0, 0, 0
		for _, d := range o.daemons {
			text, err := os.ReadFile(o.logFile(d))
			if err != nil {
				o.t.Fatal(err)
			}
			joined += strings.Count(string(text), `msg="a scheduler has joined"`)
			for _, found := range leftInLog.FindAllSubmatch(text, -1) {
				n, err := strconv.Atoi(string(found[1]))
				if err != nil {
					o.t.Fatal(err)
				}
				left, decided = left+1, decided+n
			}
		}
		// Dispatchers that were killed have not said what was decided for them.
		if decided > 0 || time.Now().After(end) {
			return joined, left, decided
		}
	}
}
