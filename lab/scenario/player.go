package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/scenario"
	"hilbert.dev/hilbert/lab/hollow"
)

// player plays one file.
type player struct {
	*Stage
	header   Header
	hilbertd *hilbertd
	paused   bool

	fleets []*hollow.Fleet
	nodes  map[string]*corev1.Node // as they were made, killed ones included
	killed map[string]bool
	sets   []*cast // in the order in which they came
	queues map[string]*facts.Queue
	spaces map[string]facts.Namespace
	kept   map[string]*scenario.AddReservation // by namespace/name

	passed  time.Duration               // of virtual time
	ends    map[types.UID]time.Duration // when pods succeed
	leaves  map[types.UID]time.Duration // when pods that are being deleted are gone
	printer scenario.Printer
}

// cast is the pods of a gang or a set.
type cast struct {
	kind, namespace, name string
	subgroups             int
	template              scenario.Template
	packing               []string
	unit                  facts.Unit
	members               []*member // by number
	foreign               string    // the node to which another scheduler binds them
}

// member is a pod of a set, which is made anew when it goes.
type member struct {
	name, subgroup string
	made           bool // of a foreign set: once, then it stays away
}

func (c *cast) String() string { return c.namespace + "/" + c.name }

func newPlayer(s *Stage, h Header) *player {
	return &player{
		Stage: s, header: h, nodes: make(map[string]*corev1.Node), killed: make(map[string]bool), queues: make(map[string]*facts.Queue),
		spaces: make(map[string]facts.Namespace), kept: make(map[string]*scenario.AddReservation), ends: make(map[types.UID]time.Duration), leaves: make(map[types.UID]time.Duration),
	}
}

// leave ends what the player started, and empties the cluster.
func (p *player) leave(ctx context.Context) error {
	if p.hilbertd != nil {
		p.hilbertd.stop()
	}
	for _, f := range p.fleets {
		f.Stop()
	}
	ctx, cancel := context.WithTimeout(ctx, emptyTimeout)
	defer cancel()
	return p.empty(ctx)
}

// do takes one step, and returns what it prints. wanted is what the rest of its block should.
func (p *player) do(ctx context.Context, step scenario.Step, wanted string) (string, error) {
	switch step := step.(type) {
	case scenario.Run:
		return p.run(ctx, step.For, wanted)
	case scenario.Show:
		v, err := p.look(ctx)
		if err != nil {
			return "", err
		}
		return p.printer.All(p.state(v)), nil
	}
	if !p.paused {
		p.hilbertd.pause()
		p.paused = true
	}
	return "", p.change(ctx, step)
}

// change carries out a command.
func (p *player) change(ctx context.Context, step scenario.Step) error {
	switch step := step.(type) {
	case scenario.Restart:
		return p.restart(ctx)
	case scenario.AddNodes:
		return p.addNodes(ctx, step.Nodes)
	case scenario.SetNode:
		return p.setNode(ctx, step)
	case scenario.SetQueue:
		return p.setQueue(ctx, step.Queue)
	case scenario.SetNamespace:
		p.spaces[step.Namespace.Name] = step.Namespace
		labels := make(map[string]string)
		for _, l := range step.Namespace.Labels {
			labels[l.Key] = l.Value
		}
		return p.label(ctx, step.Namespace.Name, labels)
	case scenario.AddGang:
		return p.addGang(ctx, &step)
	case scenario.AddPods:
		return p.addPods(ctx, &step)
	case scenario.AddReservation:
		return p.reserve(ctx, &step)
	case scenario.Scale:
		return p.scale(ctx, step)
	case scenario.Finish:
		return p.finishSome(ctx, step)
	case scenario.Delete:
		return p.remove(ctx, step)
	}
	return fmt.Errorf("the lab cannot do %T: give the file a sim-only header", step)
}

// restart ends hilbertd as it would end in a rollout, and starts another.
func (p *player) restart(ctx context.Context) (err error) {
	p.hilbertd.stop()
	p.paused = false
	p.hilbertd, err = startHilbertd(ctx, p.config, p.header, p.log)
	return err
}

func (p *player) addNodes(ctx context.Context, nodes []*facts.Node) error {
	shapes := make([]hollow.Shape, len(nodes))
	for i, n := range nodes {
		if p.nodes[n.Name] != nil {
			return fmt.Errorf("there is a node %s already", n.Name)
		}
		shapes[i] = shape(n)
	}
	fleet, err := hollow.Run(ctx, p.config, shapes, hollow.Options{Frozen: true})
	if err != nil {
		return err
	}
	p.fleets = append(p.fleets, fleet)
	for _, n := range nodes {
		if p.nodes[n.Name], err = p.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("read node %s: %w", n.Name, err)
		}
	}
	return nil
}

func (p *player) setNode(ctx context.Context, step scenario.SetNode) error {
	if step.Do == scenario.Revive {
		return p.revive(ctx, step.Name)
	}
	name := step.Name
	v, err := p.look(ctx)
	if err != nil {
		return err
	}
	if name == "" {
		if name, err = p.nodeOf(v, step.Of); err != nil {
			return err
		}
	}
	if p.nodes[name] == nil {
		return fmt.Errorf("there is no node %s", name)
	}
	if step.Do == scenario.Kill {
		return p.kill(ctx, v, name)
	}
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, step.Do == scenario.Cordon)
	_, err = p.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change node %s: %w", name, err)
	}
	return nil
}

// revive brings a node back, or for no name all that are gone.
func (p *player) revive(ctx context.Context, only string) error {
	if only != "" && p.nodes[only] == nil {
		return fmt.Errorf("there is no node %s", only)
	}
	for _, name := range slices.Sorted(maps.Keys(p.killed)) {
		if only != "" && only != name {
			continue
		}
		back := p.nodes[name].DeepCopy()
		back.ResourceVersion, back.UID = "", ""
		if _, err := p.client.CoreV1().Nodes().Create(ctx, back, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("revive node %s: %w", name, err)
		}
		delete(p.killed, name)
	}
	return nil
}

// nodeOf is where the first member of a gang that runs does.
func (p *player) nodeOf(v *view, unit facts.UnitName) (string, error) {
	c := p.set(unit.Namespace, unit.Name)
	if c == nil {
		return "", fmt.Errorf("there is no gang %s", unit)
	}
	for _, m := range c.members {
		if pod := v.pods[c.namespace+"/"+m.name]; runs(pod) {
			return pod.Spec.NodeName, nil
		}
	}
	return "", fmt.Errorf("nothing of gang %s runs", unit)
}

// kill removes a node, and the pods that run there.
func (p *player) kill(ctx context.Context, v *view, name string) error {
	if err := p.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("kill node %s: %w", name, err)
	}
	p.killed[name] = true
	for _, pod := range v.pods {
		if pod.Spec.NodeName == name && !ended(pod) {
			if err := p.deletePod(ctx, pod, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// deletePod deletes exactly this pod, at once or as people do. One that is gone is as good.
func (p *player) deletePod(ctx context.Context, pod *corev1.Pod, atOnce bool) error {
	o := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if atOnce {
		o.GracePeriodSeconds = new(int64)
	}
	err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, o)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (p *player) setQueue(ctx context.Context, f *facts.Queue) error {
	p.queues[f.Name] = f
	q := queueObject(f, p.header)
	old := &v1alpha1.Queue{}
	err := p.Stage.queues.Get().Resource(v1alpha1.Queues).Name(f.Name).Do(ctx).Into(old)
	switch {
	case apierrors.IsNotFound(err):
		err = p.Stage.queues.Post().Resource(v1alpha1.Queues).Body(q).Do(ctx).Error()
	case err == nil:
		q.ResourceVersion = old.ResourceVersion
		err = p.Stage.queues.Put().Resource(v1alpha1.Queues).Name(f.Name).Body(q).Do(ctx).Error()
	}
	if err != nil {
		return fmt.Errorf("configure queue %s: %w", f.Name, err)
	}
	return nil
}

// space makes sure that a namespace is there.
func (p *player) space(ctx context.Context, name string) error {
	if _, known := p.spaces[name]; known {
		return nil
	}
	p.spaces[name] = facts.Namespace{Name: name}
	return p.label(ctx, name, nil)
}

func (p *player) priority(ctx context.Context, t *scenario.Template) error {
	class := priorityObject(t.Priority, t.NeverPreempts)
	if class == nil {
		return nil
	}
	_, err := p.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("priority class %s: %w", class.Name, err)
	}
	return nil
}

func (p *player) set(namespace, name string) *cast {
	for _, c := range p.sets {
		if c.namespace == namespace && c.name == name {
			return c
		}
	}
	return nil
}

// enter adds a set that has no pods yet.
func (p *player) enter(ctx context.Context, c *cast) error {
	if p.set(c.namespace, c.name) != nil {
		return fmt.Errorf("there is a gang or a set %s already", c)
	}
	p.sets = append(p.sets, c)
	return errors.Join(p.space(ctx, c.namespace), p.priority(ctx, &c.template))
}

func (p *player) addGang(ctx context.Context, g *scenario.AddGang) error {
	c := &cast{
		kind: kindGang, namespace: g.Unit.Namespace, name: g.Unit.Name, subgroups: g.Subgroups, template: g.Pod, packing: packing(&g.Unit), unit: g.Unit,
	}
	if err := p.enter(ctx, c); err != nil {
		return err
	}
	_, err := p.client.SchedulingV1beta1().PodGroups(c.namespace).Create(ctx, groupObject(&g.Unit, p.header), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create PodGroup %s: %w", c, err)
	}
	return p.grow(ctx, c, g.Size)
}

func (p *player) addPods(ctx context.Context, s *scenario.AddPods) error {
	c := &cast{kind: kindPods, namespace: s.Namespace, name: s.Name, template: s.Pod, foreign: s.On}
	if err := p.enter(ctx, c); err != nil {
		return err
	}
	return p.grow(ctx, c, s.Count)
}

// reserve creates a Reservation.
func (p *player) reserve(ctx context.Context, step *scenario.AddReservation) error {
	if err := errors.Join(p.space(ctx, step.Namespace), p.priority(ctx, &step.Pod)); err != nil {
		return err
	}
	p.kept[step.Namespace+"/"+step.Name] = step
	err := p.Stage.queues.Post().Namespace(step.Namespace).Resource(v1alpha1.Reservations).Body(reservationObject(step, p.header)).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("create Reservation %s/%s: %w", step.Namespace, step.Name, err)
	}
	return nil
}

// grow makes pods until there are as many.
func (p *player) grow(ctx context.Context, c *cast, size int) error {
	for len(c.members) < size {
		at := len(c.members)
		m := &member{name: fmt.Sprintf("%s-%d", c.name, at)}
		if c.subgroups > 0 {
			m.subgroup = part(at, c.subgroups, size)
		}
		c.members = append(c.members, m)
	}
	v, err := p.look(ctx)
	if err != nil {
		return err
	}
	_, err = p.refill(ctx, c, v)
	return err
}

var errNoSet = errors.New("there is no such gang or set of pods")

func (p *player) scale(ctx context.Context, step scenario.Scale) error {
	c := p.set(step.Namespace, step.Name)
	if c == nil {
		return errNoSet
	}
	if gone := c.members[min(step.Size, len(c.members)):]; len(gone) > 0 {
		c.members = c.members[:step.Size]
		return p.dismiss(ctx, c, gone)
	}
	return p.grow(ctx, c, step.Size)
}

// dismiss deletes pods of a set.
func (p *player) dismiss(ctx context.Context, c *cast, gone []*member) error {
	v, err := p.look(ctx)
	if err != nil {
		return err
	}
	for i := len(gone) - 1; i >= 0; i-- {
		if pod := v.pods[c.namespace+"/"+gone[i].name]; pod != nil {
			if err := p.deletePod(ctx, pod, ended(pod)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *player) finishSome(ctx context.Context, step scenario.Finish) error {
	c := p.set(step.Namespace, step.Name)
	if c == nil {
		return errNoSet
	}
	v, err := p.look(ctx)
	if err != nil {
		return err
	}
	left := step.Count
	if left == 0 {
		left = math.MaxInt
	}
	for _, m := range c.members {
		if pod := v.pods[c.namespace+"/"+m.name]; left > 0 && runs(pod) {
			if err := p.finish(ctx, pod); err != nil {
				return err
			}
			left--
		}
	}
	return nil
}

// finish lets a pod succeed.
func (p *player) finish(ctx context.Context, pod *corev1.Pod) error {
	return p.patchStatus(ctx, pod, corev1.PodStatus{Phase: corev1.PodSucceeded})
}

// patchStatus says of exactly this pod what its node would. One that is gone is as good.
func (p *player) patchStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = p.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("set pod %s/%s to %s: %w", pod.Namespace, pod.Name, status.Phase, err)
	}
	return nil
}

// remove is the command delete.
func (p *player) remove(ctx context.Context, step scenario.Delete) error {
	switch step.Kind {
	case scenario.OfQueue:
		delete(p.queues, step.Name)
		return p.Stage.queues.Delete().Resource(v1alpha1.Queues).Name(step.Name).Do(ctx).Error()
	case scenario.OfReservation:
		delete(p.kept, step.Namespace+"/"+step.Name)
		return p.Stage.queues.Delete().Namespace(step.Namespace).Resource(v1alpha1.Reservations).Name(step.Name).Do(ctx).Error()
	case scenario.OfPod:
		v, err := p.look(ctx)
		if err != nil {
			return err
		}
		pod := v.pods[step.Namespace+"/"+step.Name]
		if pod == nil {
			return fmt.Errorf("there is no pod %s/%s", step.Namespace, step.Name)
		}
		return p.deletePod(ctx, pod, ended(pod))
	}
	c := p.set(step.Namespace, step.Name)
	if c == nil {
		return errNoSet
	}
	if step.Kind != scenario.OfPods {
		if err := p.deleteGroup(ctx, c.namespace, c.name); err != nil {
			return err
		}
	}
	if step.Kind == scenario.OfPodGroup {
		return nil
	}
	for i, other := range p.sets {
		if other == c {
			p.sets = append(p.sets[:i:i], p.sets[i+1:]...)
			break
		}
	}
	return p.dismiss(ctx, c, c.members)
}
