package crash

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/lab/hollow"
)

var (
	failoverNodes = flag.Int("failover.nodes", 0, "nodes of the measurement of failover; 0 leaves it out")
	failoverPods  = flag.Int("failover.pods", 200_000, "pods that run on them")
	failoverTurns = flag.Int("failover.turns", 3, "leaders that are killed, and as many that end in order")
)

// TestFailover measures for how long no pod is bound when the leader is killed, and when it ends in order, in a cluster that is full of other pods. Pods come all the
// time. It asserts that they are bound in the end.
func TestFailover(t *testing.T) {
	if *failoverNodes == 0 {
		t.Skip("it measures, for many minutes: go test ./crash -run TestFailover -args -failover.nodes=20000")
	}
	r := newRig(t, 0)
	begin := time.Now()
	if err := r.fill(t.Context(), *failoverNodes, *failoverPods); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes and %d pods made in %s", *failoverNodes, *failoverPods, time.Since(begin).Round(time.Second))
	for i := range r.daemons {
		r.awaitReady(i)
	}
	for turn := range 2 * *failoverTurns {
		how := []string{"killed", "ended in order"}[turn%2]
		pause, phases := r.failOver(turn, map[string]syscall.Signal{"killed": syscall.SIGKILL, "ended in order": syscall.SIGTERM}[how])
		t.Logf("%s: no Binding for %s\n%s", how, pause.Round(10*time.Millisecond), phases)
	}
}

// fill makes nodes, and pods that have their places already.
func (r *rig) fill(ctx context.Context, nodes, pods int) error {
	shapes := make([]hollow.Shape, nodes)
	for i := range shapes {
		shapes[i] = hollow.Shape{Name: fmt.Sprintf("node-%05d", i), Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}}
	}
	fleet, err := hollow.Run(ctx, r.config, shapes, hollow.Options{Frozen: true})
	if err != nil {
		return err
	}
	fleet.Stop()
	r.ledger.addNodes(shapes)
	var group errgroup.Group
	group.SetLimit(64)
	for i := range pods {
		group.Go(func() error {
			pod := r.newPod(0, batchGPUPods)
			pod.Name, pod.Spec.NodeName = fmt.Sprintf("runs-%06d", i), shapes[i%nodes].Name
			_, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// failOver ends the leader while pods come, waits for its successor, and returns the longest time without a Binding, and when the leader was struck, gave the Lease back, and the successor took it and led, as their logs say.
func (r *rig) failOver(turn int, signal syscall.Signal) (pause time.Duration, phases string) {
	t := r.t
	t.Helper()
	const every, warmUp = 20 * time.Millisecond, 5 * time.Second
	leader, err := r.leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{LabelSelector: "turn=" + fmt.Sprint(turn)})
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan int, 1)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				made <- i
				return
			case <-tick.C:
			}
			pod := r.newPod(0, batchGPUPods)
			pod.Name, pod.Labels = fmt.Sprintf("turn-%d-%05d", turn, i), map[string]string{"turn": fmt.Sprint(turn)}
			if _, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	last, end, struck := time.Now(), time.Now().Add(warmUp), time.Time{}
	timeout := time.After(10 * patience)
	for {
		select {
		case event := <-watch.ResultChan():
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.Spec.NodeName == "" {
				continue
			}
			now := time.Now()
			if !struck.IsZero() {
				pause = max(pause, now.Sub(last))
			}
			last = now
			if now.Before(end) {
				continue
			}
			if !struck.IsZero() {
				return pause, "struck at " + struck.UTC().Format(time.RFC3339Nano) + "\n" + r.phases(leader) + "\n" + r.phases(1-leader)
			}
			if err := r.daemons[leader].signal(signal); err != nil {
				t.Fatal(err)
			}
			struck, end = now, now.Add(warmUp)
			defer func() {
				<-r.daemons[leader].ended
				if err := r.restart(leader); err != nil {
					t.Fatal(err)
				}
				r.awaitReady(leader)
			}()
		case <-timeout:
			t.Fatal("nobody binds any more")
		}
	}
}

var phaseInLog = regexp.MustCompile(`(?m)^.*msg="?(gave the Lease back|holding the Lease|leading|it could not be found out).*$`)

// phases is what a process has said last of taking over.
func (r *rig) phases(i int) string {
	text, err := os.ReadFile(filepath.Join(r.dir, r.daemons[i].name+".log"))
	if err != nil {
		return err.Error()
	}
	lines := phaseInLog.FindAllString(string(text), -1)
	return strings.Join(lines[max(0, len(lines)-3):], "\n")
}

// awaitReady waits until a process knows the cluster, so that it can take over.
func (r *rig) awaitReady(i int) {
	r.t.Helper()
	id, err := r.daemons[i].id()
	if err != nil {
		r.t.Fatal(err)
	}
	holder, err := lease.ParseHolder(id)
	if err != nil {
		r.t.Fatal(err)
	}
	// Its certificate is made by itself: who it is, is of no matter here.
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for end := time.Now().Add(10 * patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", holder.Port))
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
	}
	r.t.Fatalf("%s does not become ready", r.daemons[i].name)
}
