package configuration

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	rbacv1 "k8s.io/api/rbac/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/lab/controlplane"
)

var nodes = flag.Int("nodes", 1000, "nodes with an agent; 60 with -short")

const (
	path = "/apis/node.hilbert.dev/v1alpha1"
	// patience bounds how long a change of all nodes may take: the controller tells fifty a second.
	patience = 3 * time.Minute
	// poison is a parameter's value under which these stand-ins report that pods wait.
	poison = 95
	// firstStep is the share of nodes, in percent, that a change reaches first.
	firstStep = 5
)

// cluster is a control plane with a controller and agents.
type cluster struct {
	t      *testing.T
	client kubernetes.Interface
	api    rest.Interface
	nodes  int
	// touched are the nodes that were told the poison.
	touched map[string]bool
}

// TestRollout: a change reaches five of a hundred nodes and then all; one that harms reaches the first five, and is taken back from them.
func TestRollout(t *testing.T) {
	c := newCluster(t)
	c.write(80)
	c.until("80 % is in force everywhere", func(o *v1alpha1.NodeConfiguration) bool {
		return o.Status.Stable != nil && o.Status.Rollout == nil && o.Status.Nodes.Applied == c.nodes
	})
	c.write(poison)
	o := c.until("the poison is taken back", func(o *v1alpha1.NodeConfiguration) bool {
		return o.Status.Rollout != nil && o.Status.Rollout.RolledBack && c.with(80) == c.nodes
	})
	if most := max(c.nodes*firstStep/100, 1); len(c.touched) == 0 || len(c.touched) > most {
		t.Errorf("%d nodes were told the poison, want 1 to %d", len(c.touched), most)
	}
	if said := o.Status.Rollout.Message; !strings.Contains(said, "run delay") {
		t.Errorf("it was taken back because %q, which names no run delay", said)
	}
	t.Logf("%d of %d nodes were told the poison; it was taken back: %s", len(c.touched), c.nodes, o.Status.Rollout.Message)
	c.write(70) // what is mended goes on
	c.until("70 % is in force everywhere", func(o *v1alpha1.NodeConfiguration) bool {
		return o.Status.Rollout == nil && o.Status.Nodes.Applied == c.nodes && c.with(70) == c.nodes
	})
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, nodes: *nodes, touched: make(map[string]bool)}
	if testing.Short() {
		c.nodes = 60
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	c.must(err)
	t.Cleanup(func() {
		if err := plane.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	config := plane.AdminConfig()
	config.QPS = -1
	c.client, err = kubernetes.NewForConfig(config)
	c.must(err)
	c.api = c.client.Discovery().RESTClient()
	c.must(plane.InstallDefinitions(t.Context()))
	c.must(plane.InstallPolicies(t.Context()))
	for i := range c.nodes {
		c.addNode(fmt.Sprintf("n%04d", i))
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	c.must(plane.UserKubeconfig(kubeconfig, "system:serviceaccount:hilbert-system:hilbert-controller"))
	c.permit()
	c.run(kubeconfig)
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// addNode adds a Node, and the report of its agent.
func (c *cluster) addNode(name string) {
	c.t.Helper()
	ctx := c.t.Context()
	_, err := c.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	c.must(err)
	r := &v1alpha1.CustomNodeResource{
		TypeMeta:   metav1.TypeMeta{APIVersion: "node.hilbert.dev/v1alpha1", Kind: "CustomNodeResource"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	var made v1alpha1.CustomNodeResource
	c.must(c.send(ctx, "POST", r, &made, "customnoderesources"))
	c.must(c.report(ctx, &made))
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

// report has an agent do what it is told, and say so.
func (c *cluster) report(ctx context.Context, r *v1alpha1.CustomNodeResource) error {
	now := metav1.Now()
	s := &r.Status
	s.Mode, s.ThreadsPerCore, s.ObservedAt = spec.ModeAgent, 1, now
	s.Conditions = []metav1.Condition{{Type: spec.ConditionAgentReady, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: now}}
	s.Health = &spec.NodeHealth{RunDelay: 10, WindowSeconds: 1}
	if w := r.Spec.Configuration; w == nil {
		s.Configuration = nil
	} else {
		if s.Configuration == nil || s.Configuration.Hash != w.Hash {
			s.Configuration = &spec.AppliedConfiguration{Name: w.Name, Hash: w.Hash, InForce: w.Hash, Since: now.Time}
		}
		if told(r) == poison {
			s.Health.RunDelay = 500
		}
	}
	return c.send(ctx, "PUT", r, nil, "customnoderesources", r.Name, "status")
}

// due: the agent has something to say, of what it is told or, once, of how pods have fared since.
func due(r *v1alpha1.CustomNodeResource, now time.Time) bool {
	wanted, applied := r.Spec.Configuration, r.Status.Configuration
	if wanted == nil || applied == nil || wanted.Hash != applied.Hash {
		return wanted != nil || applied != nil
	}
	const settled = 3 * time.Second // longer than the window and what a timestamp loses
	return r.Status.ObservedAt.Sub(applied.Since) < settled && now.Sub(applied.Since) >= settled
}

// told is the value that an agent was told; 0: none.
func told(r *v1alpha1.CustomNodeResource) int {
	if r.Spec.Configuration == nil {
		return 0
	}
	var p struct {
		Lending struct {
			TargetUtilization int `json:"targetUtilization"`
		} `json:"lending"`
	}
	if json.Unmarshal(r.Spec.Configuration.Parameters, &p) != nil {
		return -1
	}
	return p.Lending.TargetUtilization
}

// permit applies the permissions of deploy/controller.
func (c *cluster) permit() {
	c.t.Helper()
	_, err := c.client.CoreV1().Namespaces().Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hilbert-system"}}, metav1.CreateOptions{})
	c.must(err)
	text, err := os.ReadFile("../../deploy/controller/controller.yaml")
	c.must(err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		c.must(err)
		ctx, create := c.t.Context(), metav1.CreateOptions{}
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			_, err = c.client.RbacV1().ClusterRoles().Create(ctx, o, create)
		case *rbacv1.ClusterRoleBinding:
			o.Subjects = []rbacv1.Subject{account()}
			_, err = c.client.RbacV1().ClusterRoleBindings().Create(ctx, o, create)
		case *rbacv1.Role:
			_, err = c.client.RbacV1().Roles(o.Namespace).Create(ctx, o, create)
		case *rbacv1.RoleBinding:
			o.Subjects = []rbacv1.Subject{account()}
			_, err = c.client.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, create)
		}
		c.must(err)
	}
}

// account is the controller's, as its certificate in the lab names it.
func account() rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:serviceaccount:hilbert-system:hilbert-controller"}
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

// write makes the NodeConfiguration say a value.
func (c *cluster) write(value int) {
	c.t.Helper()
	parameters, err := json.Marshal(map[string]any{"lending": map[string]any{"targetUtilization": value}})
	c.must(err)
	o := &v1alpha1.NodeConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "node.hilbert.dev/v1alpha1", Kind: spec.NodeConfigurationKind},
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: spec.NodeConfiguration{Parameters: parameters, Rollout: &spec.ConfigurationRollout{
			Steps: []int{firstStep, 100}, Pause: new(spec.Duration(2 * time.Second)),
		}},
	}
	var there v1alpha1.NodeConfiguration
	if err := c.send(c.t.Context(), "GET", nil, &there, v1alpha1.NodeConfigurations, "default"); err != nil {
		c.must(c.send(c.t.Context(), "POST", o, nil, v1alpha1.NodeConfigurations))
		return
	}
	there.Spec.Parameters = parameters
	c.must(c.send(c.t.Context(), "PUT", &there, nil, v1alpha1.NodeConfigurations, "default"))
}

// with counts the nodes that are told a value.
func (c *cluster) with(value int) (n int) {
	c.t.Helper()
	var list v1alpha1.CustomNodeResourceList
	c.must(c.send(c.t.Context(), "GET", nil, &list, "customnoderesources"))
	for i := range list.Items {
		if told(&list.Items[i]) == value {
			n++
		}
	}
	return n
}

// until has the agents do what they are told until the NodeConfiguration is as wanted.
func (c *cluster) until(what string, done func(*v1alpha1.NodeConfiguration) bool) *v1alpha1.NodeConfiguration {
	c.t.Helper()
	ctx := c.t.Context()
	var o v1alpha1.NodeConfiguration
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		var list v1alpha1.CustomNodeResourceList
		c.must(c.send(ctx, "GET", nil, &list, "customnoderesources"))
		for i := range list.Items {
			r := &list.Items[i]
			if told(r) == poison {
				c.touched[r.Name] = true
			}
			if due(r, time.Now()) {
				if err := c.report(ctx, r); err != nil {
					c.t.Log(err) // it was told something else meanwhile
				}
			}
		}
		o = v1alpha1.NodeConfiguration{}
		c.must(c.send(ctx, "GET", nil, &o, v1alpha1.NodeConfigurations, "default"))
		if done(&o) {
			return &o
		}
	}
	status, _ := json.Marshal(o.Status)
	c.t.Fatalf("%s: not within %s; the NodeConfiguration says %s", what, patience, status)
	return nil
}
