package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
)

var seed = flag.Uint64("seed", 1, "of the moments and victims of the crash test")

const (
	// patience is how long nothing may happen before the test gives up. It is no measure of speed.
	patience = 2 * time.Minute
	// batchPods come with batchNodes and one GPU node, and fill 96 % of their cores and 88 % of its GPUs.
	batchPods, batchGPUPods  = 200, 7
	batchNodes, coresPerNode = 25, 8
	// leaderShare is how many of a hundred kills are aimed at the leader; the others at the standby.
	leaderShare = 80
)

// TestCrash is the promise that a crash or a freeze of hilbertd loses no pod and books no node twice.
func TestCrash(t *testing.T) {
	kills, freezes := 20, 5 // with 200 pods each: 5,000
	if testing.Short() {
		kills, freezes = 3, 1
	}
	newRig(t, 0).survive(kills, freezes)
}

// survive adds a batch for each strike, strikes while it is being bound, and audits what has become of all.
func (r *rig) survive(kills, freezes int) {
	t := r.t
	t.Helper()
	strikes := make([]func(context.Context) error, 0, kills+freezes)
	for range kills {
		strikes = append(strikes, r.killOne)
	}
	for range freezes {
		strikes = append(strikes, r.freezeLeader)
	}
	r.random.Shuffle(len(strikes), func(i, j int) { strikes[i], strikes[j] = strikes[j], strikes[i] })
	for i, strike := range strikes {
		if err := r.addBatch(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		// Somewhere in the middle of the batch, with Bindings on their way.
		r.awaitBound(i*batchPods + 1 + r.random.IntN(batchPods-batchPods/10))
		r.partial += r.ledger.partial()
		if err := strike(t.Context()); err != nil {
			t.Fatalf("strike %d: %v", i, err)
		}
	}
	r.awaitBound(len(strikes) * batchPods)
	r.audit(len(strikes) * batchPods)
}

// rig is the control plane, the two hilbertds and the judge.
type rig struct {
	t       *testing.T
	config  *rest.Config
	client  kubernetes.Interface
	random  *rand.Rand
	dir     string
	daemons [2]*hilbertd
	ledger  *ledger
	judge   chan error
	gang    int // members of each gang, 0 for pods that are units of their own
	partial int // gangs that had some of their places, but not all, when somebody was struck
	// leadersHit counts the strikes after which somebody else must have led.
	leadersHit  int
	transitions int32
}

func newRig(t *testing.T, gang int) *rig { return newRigWith(t, gang, false) }

// newRigWith may have the controllers of volumes beside.
func newRigWith(t *testing.T, gang int, volumes bool) *rig {
	return newRigOf(t, rigOptions{gang: gang, volumes: volumes})
}

// rigOptions are what rigs differ in.
type rigOptions struct {
	gang    int
	volumes bool
	// definitions: Hilbert's own kinds, and its policies, are installed before hilbertd starts.
	definitions bool
	// configure is the configuration of the i-th hilbertd; nil: the usual one.
	configure func(i int, kubeconfig string) string
	// kubeconfig reaches an API server that runs already; "": one is started.
	kubeconfig string
}

func newRigOf(t *testing.T, options rigOptions) *rig {
	t.Logf("seed %d", *seed)
	r := &rig{t: t, random: rand.New(rand.NewPCG(*seed, 0)), dir: t.TempDir(), ledger: newLedger(), judge: make(chan error, 1), gang: options.gang}
	kubeconfig := r.connect(options)
	var err error
	if r.client, err = kubernetes.NewForConfig(r.config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.judge <- r.ledger.follow(ctx, r.client) }()
	t.Cleanup(cancel)

	for i := range r.daemons {
		text := fmt.Sprintf(configuration, kubeconfig, leaseSeconds)
		if options.configure != nil {
			text = options.configure(i, kubeconfig)
		}
		if err := os.WriteFile(r.file(i), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.restart(i); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, d := range r.daemons {
			_ = d.kill()
			if t.Failed() {
				text, _ := os.ReadFile(filepath.Join(r.dir, d.name+".log"))
				t.Logf("%s:\n%s", d.name, text[max(0, len(text)-8000):])
			}
		}
	})
	return r
}

// connect starts a control plane unless there is one, and returns the file that says how to reach it.
func (r *rig) connect(options rigOptions) (kubeconfig string) {
	t := r.t
	t.Helper()
	if options.kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", options.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		r.config, config.QPS = config, -1
		return options.kubeconfig
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Controllers: options.volumes, Volumes: options.volumes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if options.definitions {
		if err := errors.Join(plane.InstallDefinitions(t.Context()), plane.InstallPolicies(t.Context(), controlplane.AdminUser)); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig = filepath.Join(r.dir, "kubeconfig")
	if err := plane.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	r.config = plane.AdminConfig()
	return kubeconfig
}

// file is the configuration of the i-th.
func (r *rig) file(i int) string { return filepath.Join(r.dir, fmt.Sprintf("hilbertd-%d.yaml", i)) }

func (r *rig) restart(i int) (err error) {
	r.daemons[i], err = startHilbertd(r.dir, fmt.Sprintf("hilbertd-%d", i), r.file(i))
	return err
}

// awaitLeader waits until the i-th holds the Lease.
func (r *rig) awaitLeader(ctx context.Context, i int) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if now, err := r.leader(ctx); err != nil || now == i {
			return err
		}
	}
	return fmt.Errorf("%s did not lead within %s", r.daemons[i].name, patience)
}

// leader waits until one of the two holds the Lease, and returns its index.
func (r *rig) leader(ctx context.Context) (int, error) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		lease, err := r.client.CoordinationV1().Leases("kube-system").Get(ctx, "hilbert", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			continue
		}
		for i, d := range r.daemons {
			id, err := d.id()
			if err != nil {
				return 0, err
			}
			if *lease.Spec.HolderIdentity == id {
				if lease.Spec.LeaseTransitions != nil {
					r.transitions = *lease.Spec.LeaseTransitions
				}
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("nobody led within %s", patience)
}

// killOne kills a process, the leader more often than not, and starts another in its place.
func (r *rig) killOne(ctx context.Context) error {
	i, err := r.leader(ctx)
	if err != nil {
		return err
	}
	if r.random.IntN(100) < leaderShare {
		r.leadersHit++
	} else {
		i = 1 - i
	}
	if err := r.daemons[i].kill(); err != nil {
		return err
	}
	return r.restart(i)
}

// freezeLeader stops the leader for two lease durations, in which the standby must take over, and wakes it amid new work.
func (r *rig) freezeLeader(ctx context.Context) error {
	i, err := r.leader(ctx)
	if err != nil {
		return err
	}
	r.leadersHit++
	if err := r.daemons[i].signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(2 * leaseSeconds * time.Second)
	// On a busy machine the standby may need longer than that; a leader that wakes up as leader would prove nothing.
	if err := r.awaitLeader(ctx, 1-i); err != nil {
		return err
	}
	return r.daemons[i].signal(syscall.SIGCONT)
}

// addBatch adds nodes and the pods that just fit on them.
func (r *rig) addBatch(ctx context.Context, batch int) error {
	node := func(name string, extra corev1.ResourceList, taints ...corev1.Taint) hollow.Shape {
		s := hollow.Shape{Name: fmt.Sprintf("batch-%02d-%s", batch, name), Taints: taints, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(fmt.Sprint(coresPerNode)), corev1.ResourceMemory: resource.MustParse("32Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		}}
		for name, quantity := range extra {
			s.Allocatable[name] = quantity
		}
		return s
	}
	shapes := []hollow.Shape{node("gpu", corev1.ResourceList{
		hollow.ResourceGPU: resource.MustParse("4"), hollow.ResourceGPUMilli: resource.MustParse("4k"),
	}, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule})}
	shapes[0].Labels = map[string]string{hollow.LabelGPUModel: "T4"}
	for i := range batchNodes {
		shapes = append(shapes, node(fmt.Sprintf("%02d", i), nil))
	}
	r.ledger.addNodes(shapes)
	fleet, err := hollow.Run(ctx, r.config, shapes, hollow.Options{Frozen: true})
	if err != nil {
		return err
	}
	fleet.Stop()
	if err := r.addGroups(ctx, batch); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range batchPods {
		group.Go(func() error {
			_, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, r.newPod(batch, i), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// newPod asks for one core; the first of a batch ask for half a GPU as well.
func (r *rig) newPod(batch, i int) *corev1.Pod {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%02d-%03d", batch, i)},
		Spec: corev1.PodSpec{SchedulerName: "hilbert", Containers: []corev1.Container{{
			Name: "main", Image: "image", Resources: corev1.ResourceRequirements{Requests: requests},
		}}},
	}
	if i < batchGPUPods {
		requests[hollow.ResourceGPUMilli] = resource.MustParse("500")
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{hollow.ResourceGPUMilli: resource.MustParse("500")}
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	}
	if r.gang > 0 {
		name := groupName(batch, i/r.gang)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
	return pod
}

// awaitBound returns when that many pods are bound and nothing is wrong.
func (r *rig) awaitBound(want int) {
	r.t.Helper()
	for {
		bound, breaches, grown := r.ledger.count()
		if len(breaches) > 0 {
			r.t.Fatalf("after %d pods:\n%s", bound, strings.Join(breaches, "\n"))
		}
		if bound >= want {
			return
		}
		select {
		case <-grown:
		case err := <-r.judge:
			r.t.Fatalf("the judge stopped: %v", err)
		case <-r.daemons[0].ended:
			r.t.Fatal(r.daemons[0].endedEarly())
		case <-r.daemons[1].ended:
			r.t.Fatal(r.daemons[1].endedEarly())
		case <-time.After(patience):
			r.t.Fatalf("%d of %d pods are bound and nothing has happened for %s\n%s", bound, want, patience, r.pending())
		}
	}
}

// pending says what the API server says of a pod that is not bound.
func (r *rig) pending() string {
	list, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).List(context.Background(), metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil || len(list.Items) == 0 {
		return fmt.Sprintf("(%d pods pending, %v)", len(list.Items), err)
	}
	return fmt.Sprintf("%d pods pending, for example %s: %+v", len(list.Items), list.Items[0].Name, list.Items[0].Status.Conditions)
}

// audit adds everything up once more from a fresh list, and sees that the strikes struck.
func (r *rig) audit(want int) {
	r.t.Helper()
	fresh := newLedger()
	nodes, err := r.client.CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, node := range nodes.Items {
		fresh.addNodes([]hollow.Shape{{Name: node.Name, Allocatable: node.Status.Allocatable}})
	}
	pods, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range pods.Items {
		fresh.see(&pods.Items[i])
	}
	bound, breaches, _ := fresh.count()
	if bound != want || len(pods.Items) != want {
		r.t.Errorf("%d of %d pods are bound, want %d of %d", bound, len(pods.Items), want, want)
	}
	for _, breach := range breaches {
		r.t.Error(breach)
	}
	if _, err := r.leader(r.t.Context()); err != nil {
		r.t.Error(err)
	}
	r.t.Logf("%d pods on %d nodes, %d strikes on a leader, %d changes of leadership", bound, len(nodes.Items), r.leadersHit, r.transitions)
	if int(r.transitions) < r.leadersHit {
		r.t.Errorf("leadership changed %d times after %d strikes on a leader: they hit something else", r.transitions, r.leadersHit)
	}
}
