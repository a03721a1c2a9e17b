package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/lab/hollow"
)

// ContainersOptions says which masters ask for how many containers, and of whom.
type ContainersOptions struct {
	Nodes int
	// Masters ask for Containers each, by a ResourceRequest in a namespace of their own.
	Masters, Containers int
	// Cases are ways to ask; see ContainerCases.
	Cases []string
	// Rate is how many containers the masters ask for in a second; 0: all masters ask at once.
	Rate int
	// APIServer is StandinAPIServer or RealAPIServer.
	APIServer string
	// Rounds is how often each case is measured.
	Rounds int
	// Dir keeps the logs; "" is a temporary directory, removed unless the run fails.
	Dir string
	// Progress gets a line for each step.
	Progress io.Writer
}

// The ways to ask.
const (
	casePiecemeal = "piecemeal" // containers come as there is room
	caseGang      = "gang"      // all of a master's, or none
	caseLocal     = "local"     // on two nodes that hold a part of them, after a second in their rack
)

// ContainerCases are the ways to ask, in the order in which they are measured.
func ContainerCases() []string { return []string{casePiecemeal, caseGang, caseLocal} }

const (
	// controllerName names the process, the log and the Lease of the role controller.
	controllerName = "hilbert-controller"
	// mostContainers is what one ResourceRequest may ask for, with what was given back.
	mostContainers = 1000
	// containersTimeout bounds a phase: it is no measure of speed.
	containersTimeout = 10 * time.Minute
	// maxMasters bounds the masters, each of which has connections of its own.
	maxMasters = 500
)

func (o *ContainersOptions) validate() error {
	if err := (Options{Nodes: o.Nodes, Pods: o.Masters * o.Containers, Rounds: o.Rounds}).validate(); err != nil {
		return err
	}
	if o.APIServer != StandinAPIServer && o.APIServer != RealAPIServer {
		return fmt.Errorf("--api-server is %q: choose %s or %s", o.APIServer, StandinAPIServer, RealAPIServer)
	}
	if o.Masters < 1 || o.Masters > maxMasters {
		return fmt.Errorf("--masters is %d: give 1 to %d", o.Masters, maxMasters)
	}
	if all := o.Containers + exchanged(o.Containers); o.Containers < 2 || all > mostContainers {
		return fmt.Errorf("--containers is %d: give 2 to %d, for a request has at most %d with those that are given back", o.Containers, mostContainers*2/3, mostContainers)
	}
	if o.Rate < 0 {
		return fmt.Errorf("--rate is %d: give containers per second, or 0 for all at once", o.Rate)
	}
	if len(o.Cases) == 0 {
		return fmt.Errorf("--case is empty: give some of %v", ContainerCases())
	}
	for _, c := range o.Cases {
		if !slices.Contains(ContainerCases(), c) {
			return fmt.Errorf("--case has %q: choose of %v", c, ContainerCases())
		}
	}
	return nil
}

// exchanged is how many of a master's containers are given back and asked for anew.
func exchanged(containers int) int { return containers / 2 }

// Containers measures from what masters ask for to what they are told that they have: the role controller, hilbertd and an API server are a process each.
func Containers(ctx context.Context, o ContainersOptions) (_ *ContainersResult, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	options := Options{Nodes: o.Nodes, Pods: o.Masters * o.Containers, Rounds: o.Rounds, Progress: o.Progress}
	work, err := newWorkload(options)
	if err != nil {
		return nil, err
	}
	dir, finish, err := openLogs(o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = finish(err) }()
	rounds := make(map[string][]ContainersRound)
	for i := range o.Rounds {
		for _, c := range o.Cases {
			h := &harness{options: options, work: work, dir: dir, definitions: true}
			h.progress("round %d of %d: %s", i+1, o.Rounds, c)
			round, err := h.containersRound(ctx, &o, c)
			if err != nil {
				return nil, fmt.Errorf("round %d of %s: %w", i+1, c, err)
			}
			h.progress("  %s", round.Ask)
			if round.Exchange != nil {
				h.progress("  given back and asked for anew: %s", round.Exchange)
			}
			rounds[c] = append(rounds[c], round)
		}
	}
	result := &ContainersResult{Protocol: newContainersProtocol(&o)}
	for _, c := range o.Cases {
		result.Cases = append(result.Cases, newContainersCase(c, rounds[c]))
	}
	return result, nil
}

// containersRound measures once, with processes of its own.
func (h *harness) containersRound(ctx context.Context, o *ContainersOptions, how string) (r ContainersRound, err error) {
	defer h.stop()
	if o.APIServer == StandinAPIServer {
		err = h.startStandin(ctx)
	} else {
		err = h.start(ctx, nil)
	}
	if err != nil {
		return r, err
	}
	scheduler, err := spawn(ctx, h.dir, systemHilbert, systemHilbert, "--kubeconfig="+h.kubeconfig, "--dir="+h.dir)
	if err != nil {
		return r, err
	}
	defer scheduler.stop()
	controller, err := h.startController(ctx)
	if err != nil {
		return r, err
	}
	defer controller.stop()
	if err := errors.Join(h.awaitLeader(ctx, hilbertLease), h.awaitLeader(ctx, controllerName)); err != nil {
		return r, err
	}
	masters, err := h.newMasters(ctx, o, how)
	if err != nil {
		return r, err
	}
	processes := containersProcesses{controller: controller, scheduler: scheduler, server: []*process{h.server}}
	if h.etcd != nil {
		processes.server = append(processes.server, h.etcd)
	}
	if r.Ask, err = h.measureMasters(ctx, o, processes, masters, o.Containers, (*asker).open); err != nil {
		return r, err
	}
	if how != caseGang { // a gang has the members that it began with
		phase, err := h.measureMasters(ctx, o, processes, masters, exchanged(o.Containers), (*asker).exchange)
		if err != nil {
			return r, err
		}
		r.Exchange = &phase
	}
	r.ControllerPeakBytes, err = controller.peak()
	return r, err
}

// startController starts a hilbertd that answers ResourceRequests, and does nothing else.
func (h *harness) startController(ctx context.Context) (*process, error) {
	config := fmt.Sprintf(`apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
roles: [controller]
leaderElection: {namespace: %s, name: %s}
controller: {requests: {enabled: true, podsPerSecond: 10000}}
`, metav1.NamespaceSystem, controllerName)
	file := filepath.Join(h.dir, controllerName+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configuration of the controller: %w", err)
	}
	return spawn(ctx, h.dir, controllerName, systemHilbert, "--kubeconfig="+h.kubeconfig, "--dir="+h.dir, "--config="+file)
}

// newMasters makes the namespaces and the masters.
func (h *harness) newMasters(ctx context.Context, o *ContainersOptions, how string) ([]*asker, error) {
	masters := make([]*asker, o.Masters)
	err := each(ctx, o.Masters, func(ctx context.Context, i int) (err error) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("master-%03d", i)}}
		if _, err := h.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace %s: %w", ns.Name, err)
		}
		masters[i], err = newAsker(h.config, ns.Name, o.Containers, how, h.placesOf(i))
		return err
	})
	return masters, err
}

// placesOf are the nodes and the rack that the i-th master would like best.
func (h *harness) placesOf(i int) places {
	const named = 2
	at := i * named % len(h.work.shapes)
	p := places{rack: h.work.shapes[at].Labels[hollow.LabelRack]}
	for k := range min(named, len(h.work.shapes)-at) {
		p.nodes = append(p.nodes, h.work.shapes[at+k].Name)
	}
	return p
}
