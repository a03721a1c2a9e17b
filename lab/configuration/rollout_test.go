package configuration

import (
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
	"hilbert.dev/hilbert/topology"
)

var nodes = flag.Int("nodes", 60, "nodes with an agent, in this process; a thousand take 4 GiB")

const (
	path = "/apis/node.hilbert.dev/v1alpha1"
	// patience bounds how long a change of all nodes may take, in real time: the controller tells fifty a second.
	patience = 10 * time.Minute
	// firstStep is the share of nodes, in percent, that a change reaches first.
	firstStep = 5
	// step is by how much the clock of the agents is moved on at once: how often they observe.
	step = 5 * time.Second
	// What each node has: memory of a NUMA node, and what its service and its reclaimed pod hold of the node's.
	numaMemory    = 8 << 10 // MiB
	serviceMemory = "9Gi"
)

// What NodeConfigurations say here.
const (
	good   = `{"lending": {"targetUtilization": 70}}`
	mended = `{"lending": {"targetUtilization": 60}}`
	// refused is valid for agents with the default file. In ours the thresholds of eviction are higher, and less may not be kept free.
	refused = `{"memory": {"headroom": {"growthReserve": 0.08}}}`
	// harmful has agents take a node for short of memory that has 44 % available, and evict.
	harmful = `{"memory": {"headroom": {"watermark": 0.2, "growthReserve": 0.6}}, "eviction": {"memory": {"soft": {"share": 0.6}}}}`
)

// cluster is a control plane with a controller and agents.
type cluster struct {
	t      *testing.T
	config *rest.Config
	client kubernetes.Interface
	api    rest.Interface
	names  []string // of nodes
	nodes  int
	clock  *clock.Stepped
	agents *hollow.Agents
	rounds []uint64 // of each agent's laws, up to the last step
	steps  int
	// reports are the CustomNodeResources as last read, touched the nodes that were told something, by its hash.
	reports []v1alpha1.CustomNodeResource
	touched map[string]map[string]bool
}

// TestRollout: a change reaches five of a hundred nodes and then all. One that agents refuse, and one that has them evict, reach the first five, and are taken back from them.
// Each node is written to once for each change that it is told.
func TestRollout(t *testing.T) {
	c := newCluster(t)
	first := c.first()
	c.write(good)
	c.until("the first step", func(o *v1alpha1.NodeConfiguration) bool { return o.Status.Rollout != nil && o.Status.Nodes.Told > 0 })
	c.until("it is in force everywhere", func(o *v1alpha1.NodeConfiguration) bool {
		if o.Status.Rollout != nil && o.Status.Rollout.Step == 0 && c.with(good) > first {
			t.Errorf("%d nodes are told in the first step, want %d", c.with(good), first)
		}
		return o.Status.Stable != nil && o.Status.Rollout == nil && o.Status.Nodes.Applied == c.nodes
	})
	writes := c.nodes
	for _, poison := range []struct{ says, why string }{{refused, "refuse it"}, {harmful, "evictions"}} {
		c.write(poison.says)
		o := c.until("it is taken back", func(o *v1alpha1.NodeConfiguration) bool {
			return o.Status.ObservedGeneration == o.Generation && o.Status.Rollout != nil && o.Status.Rollout.RolledBack && c.with(good) == c.nodes
		})
		touched := len(c.touched[hash(poison.says)])
		if touched == 0 || touched > first {
			t.Errorf("%d nodes were told %s, want 1 to %d", touched, poison.says, first)
		}
		if said := o.Status.Rollout.Message; !strings.Contains(said, poison.why) {
			t.Errorf("it was taken back because %q, which does not say %q", said, poison.why)
		}
		t.Logf("%d of %d nodes were told it; taken back: %s", touched, c.nodes, o.Status.Rollout.Message)
		writes += touched * 2
		c.until("all agents run with what was good", func(*v1alpha1.NodeConfiguration) bool { return c.inForce(good) == c.nodes })
	}
	c.write(mended) // what is mended goes on
	c.until("what is mended is in force everywhere", func(o *v1alpha1.NodeConfiguration) bool {
		return o.Status.Rollout == nil && o.Status.Nodes.Applied == c.nodes && c.inForce(mended) == c.nodes
	})
	writes += c.nodes
	if got := c.writes(); got != writes {
		t.Errorf("nodes were written to %d times, want %d: once for each change that a node is told", got, writes)
	}
	t.Logf("%d writes to %d nodes; %s of the nodes' time", writes, c.nodes, time.Duration(c.steps)*step)
}

// first is how many nodes the first step has.
func (c *cluster) first() int { return max(c.nodes*firstStep/100, 1) }

func hash(parameters string) string { return spec.WrittenParameters(parameters).Hash() }

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, nodes: *nodes, clock: clock.NewStepped(time.Now()), touched: make(map[string]map[string]bool)}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	c.must(err)
	t.Cleanup(func() {
		if err := plane.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c.config = plane.AdminConfig()
	c.config.QPS = -1
	c.client, err = kubernetes.NewForConfig(c.config)
	c.must(err)
	c.api = c.client.Discovery().RESTClient()
	c.must(plane.InstallDefinitions(t.Context()))
	machine, config := c.makeNodes()
	c.must(plane.InstallPolicies(t.Context())) // after the pods: only a Binding may write what a reclaimed one has
	c.startAgents(machine, config)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	c.must(plane.UserKubeconfig(kubeconfig, "system:serviceaccount:hilbert-system:hilbert-controller"))
	c.must(plane.InstallAccess(t.Context(), "../../deploy/00-namespace.yaml", "../../deploy/controller/controller.yaml"))
	c.run(kubeconfig)
	return c
}

// makeNodes makes nodes with a service and a reclaimed pod each.
func (c *cluster) makeNodes() (*topology.Machine, spec.Node) {
	c.t.Helper()
	machine, config := hollow.PairMachine(2, numaMemory), spec.Default().Node
	config.ReservedCores = new(0)
	config.ObserveInterval, config.TickInterval, config.WriteInterval = spec.Duration(step), spec.Duration(6*step), spec.Duration(time.Second)
	config.Lending.RefreshInterval = spec.Duration(12 * step)
	config.Memory.Headroom.GrowthReserve, config.Eviction.Memory.Soft.Share = 0.2, 0.12
	shapes := hollow.AgentShapes(c.nodes, machine, config)
	frozen, err := hollow.Run(c.t.Context(), c.config, shapes, hollow.Options{Frozen: true})
	c.must(err)
	frozen.Stop() // it has nothing more to do
	for i := range shapes {
		c.names = append(c.names, shapes[i].Name)
		c.addPods(shapes[i].Name)
	}
	return machine, config
}

// startAgents starts an agent on each node, and lets time pass until all report how their pods fare.
func (c *cluster) startAgents(machine *topology.Machine, config spec.Node) {
	c.t.Helper()
	var err error
	c.agents, err = hollow.RunAgents(c.t.Context(), c.config, c.names, hollow.AgentOptions{
		Machine: machine, Config: config, Online: 0.5, Clock: c.clock, Configured: true,
		Log: slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	})
	c.must(err)
	c.t.Cleanup(c.agents.Stop)
	c.rounds = make([]uint64, c.nodes)
	end := time.Now().Add(patience)
	for begun := 0; begun < c.nodes && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		c.clock.Advance(step) // an agent whose loop has not begun does not hear of it
		begun = 0
		for i, name := range c.names {
			if c.rounds[i], _ = c.agents.Agent(name).Rounds(); c.rounds[i] > 0 {
				begun++
			}
		}
	}
	for ; ; c.pass() {
		if c.look(); c.healthy() == c.nodes {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%d of %d agents say how they fare after %s", c.healthy(), c.nodes, patience)
		}
	}
}

// addPods binds a service and a reclaimed pod to a node.
func (c *cluster) addPods(node string) {
	c.t.Helper()
	for _, p := range []struct {
		name        string
		labels      map[string]string
		annotations map[string]string
		resources   corev1.ResourceRequirements
	}{
		{"service-", nil, nil, corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse(serviceMemory)},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(serviceMemory)},
		}},
		{"job-", map[string]string{spec.LabelQoS: string(spec.QoSReclaimed)}, map[string]string{spec.AnnotationReclaimed: "500m/256Mi"}, corev1.ResourceRequirements{}},
	} {
		_, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).Create(c.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: p.name + node, Labels: p.labels, Annotations: p.annotations},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "main", Resources: p.resources}}},
		}, metav1.CreateOptions{})
		c.must(err)
	}
}

// pass lets the agents' time go on, and returns when all have done what that asks for.
func (c *cluster) pass() {
	c.t.Helper()
	c.clock.Advance(step)
	c.steps++
	for i, name := range c.names {
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			n, settled := c.agents.Agent(name).Rounds()
			if settled && n > c.rounds[i] {
				c.rounds[i] = n
				break
			}
			if time.Now().After(end) {
				c.t.Fatalf("the agent of %s has not come round", name)
			}
		}
	}
}

// look reads all CustomNodeResources.
func (c *cluster) look() {
	c.t.Helper()
	var list v1alpha1.CustomNodeResourceList
	c.must(c.send(c.t.Context(), "GET", nil, &list, "customnoderesources"))
	c.reports = list.Items
}

// count counts among them.
func (c *cluster) count(is func(*v1alpha1.CustomNodeResource) bool) (n int) {
	for i := range c.reports {
		if is(&c.reports[i]) {
			n++
		}
	}
	return n
}

// healthy counts the agents that say how their pods fare.
func (c *cluster) healthy() int {
	return c.count(func(r *v1alpha1.CustomNodeResource) bool { return r.Status.Health != nil })
}

// with counts the nodes that are told something, inForce the agents that say that they run with it.
func (c *cluster) with(parameters string) int {
	return c.count(func(r *v1alpha1.CustomNodeResource) bool {
		return r.Spec.Configuration != nil && r.Spec.Configuration.Hash == hash(parameters)
	})
}

func (c *cluster) inForce(parameters string) int {
	return c.count(func(r *v1alpha1.CustomNodeResource) bool {
		a := r.Status.Configuration
		return a != nil && a.InForce == hash(parameters) && a.Error == ""
	})
}

// writes is how often the specs of CustomNodeResources were written since they were made.
func (c *cluster) writes() (n int) {
	c.t.Helper()
	c.look()
	for i := range c.reports {
		n += int(c.reports[i].Generation) - 1
	}
	return n
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) send(ctx context.Context, verb string, object, answer any, under ...string) error {
	r := c.api.Verb(verb).AbsPath(append([]string{path}, under...)...).SetHeader("Accept", "application/json")
	if object != nil {
		body, err := json.Marshal(object)
		if err != nil {
			return err
		}
		r = r.SetHeader("Content-Type", "application/json").Body(body)
	}
	result := r.Do(ctx)
	if err := result.Error(); err != nil || answer == nil {
		return err
	}
	body, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// run runs the controller until the test ends.
func (c *cluster) run(kubeconfig string) {
	config := spec.Default()
	config.Roles = []spec.Role{spec.RoleController}
	config.ClientConnection.Kubeconfig = kubeconfig
	config.LeaderElection.Namespace, config.LeaderElection.Name = "hilbert-system", "hilbert-controller"
	config.Server.BindAddress = "127.0.0.1:0"
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, config, daemon.Options{Log: slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	}()
	c.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
	})
}

// write makes the NodeConfiguration say something.
func (c *cluster) write(parameters string) {
	c.t.Helper()
	pause := time.Second
	if parameters == harmful { // the controller's time is real, the agents' goes on as fast as the machine can: the step lasts until they have evicted
		pause = patience
	}
	o := &v1alpha1.NodeConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "node.hilbert.dev/v1alpha1", Kind: spec.NodeConfigurationKind},
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: spec.NodeConfiguration{Parameters: spec.WrittenParameters(parameters), Rollout: &spec.ConfigurationRollout{
			Steps: []int{firstStep, 100}, Pause: new(spec.Duration(pause)),
		}},
	}
	var there v1alpha1.NodeConfiguration
	if err := c.send(c.t.Context(), "GET", nil, &there, v1alpha1.NodeConfigurations, "default"); err != nil {
		c.must(c.send(c.t.Context(), "POST", o, nil, v1alpha1.NodeConfigurations))
		return
	}
	there.Spec = o.Spec
	c.must(c.send(c.t.Context(), "PUT", &there, nil, v1alpha1.NodeConfigurations, "default"))
}

// until lets the agents' time go on until the NodeConfiguration, and what it has done, is as wanted. It notes which nodes are told what.
func (c *cluster) until(what string, done func(*v1alpha1.NodeConfiguration) bool) *v1alpha1.NodeConfiguration {
	c.t.Helper()
	began := time.Now()
	var o v1alpha1.NodeConfiguration
	for end := began.Add(patience); time.Now().Before(end); c.pass() {
		c.look() // before the object is read: what it says is newer
		for i := range c.reports {
			if w := c.reports[i].Spec.Configuration; w != nil {
				if c.touched[w.Hash] == nil {
					c.touched[w.Hash] = make(map[string]bool)
				}
				c.touched[w.Hash][c.reports[i].Name] = true
			}
		}
		o = v1alpha1.NodeConfiguration{}
		c.must(c.send(c.t.Context(), "GET", nil, &o, v1alpha1.NodeConfigurations, "default"))
		if done(&o) {
			c.t.Logf("%s after %s", what, time.Since(began).Round(time.Second))
			return &o
		}
	}
	status, _ := json.Marshal(o.Status)
	c.t.Fatalf("%s: not within %s; the NodeConfiguration says %s", what, patience, status)
	return nil
}
