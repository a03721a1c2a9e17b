package diff

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// compareScores compares upstream's scores of the nodes that let a pod in with the score StorageCapacity. A pod that shares a promised claim with another is left
// out, because upstream has forgotten what was promised.
func (m *match) compareScores(state fwk.CycleState, pod *corev1.Pod, fits []string) error {
	if len(fits) == 0 || !m.scored(pod) {
		return nil
	}
	theirs, err := m.u.scores(state, pod, fits)
	if err != nil {
		return err
	}
	record := m.store.Pod(facts.UID(pod.UID))
	for _, name := range fits {
		if m.ambiguous(name) {
			continue
		}
		ours := rules.RawStorage(nil, &m.store.State, m.store.Slot(name), record.Class)
		if ours != theirs[name] {
			return fmt.Errorf("on node %s upstream scores its storage %d, Hilbert %d", name, theirs[name], ours)
		}
		m.seen.scored++
		if ours != 0 {
			m.seen.preferred++
		}
	}
	return nil
}

// chooses compares the node that the index chooses with what the tables say of all nodes, ties included.
func (m *match) chooses(pod *corev1.Pod) error {
	record := m.store.Pod(facts.UID(pod.UID))
	if record.Refusal() != "" {
		return nil
	}
	m.choosing.snapshot.Advance(m.store)
	best := ""
	if slot := m.choosing.placer.Best(record.Class); slot != cluster.NoSlot {
		best = m.choosing.snapshot.Node(slot).Name
	}
	if chosen := m.choosing.choose(record.Class); chosen != best {
		return fmt.Errorf("the index chooses %q, the tables say %q", chosen, best)
	}
	return nil
}

// scored is false where upstream's score ends the process: a claim names its class by the older annotation, or a capacity says nothing but its largest volume.
func (m *match) scored(pod *corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && !m.names(v.PersistentVolumeClaim.ClaimName) {
			return false
		}
	}
	return !slices.ContainsFunc(m.capacities(), func(c *storagev1.CSIStorageCapacity) bool { return c.Capacity == nil && c.MaximumVolumeSize != nil })
}

// names reports whether a claim's spec names its storage class.
func (m *match) names(claim string) bool {
	for _, object := range m.storage {
		if c, ok := object.(*corev1.PersistentVolumeClaim); ok && c.Name == claim {
			return c.Spec.StorageClassName != nil
		}
	}
	return true
}

func (m *match) capacities() (list []*storagev1.CSIStorageCapacity) {
	for _, object := range m.storage {
		if c, ok := object.(*storagev1.CSIStorageCapacity); ok {
			list = append(list, c)
		}
	}
	return list
}

// ambiguous reports whether several capacities of one class are about a node: upstream goes by any.
func (m *match) ambiguous(node string) bool {
	at := slices.IndexFunc(m.nodes, func(n *corev1.Node) bool { return n.Name == node })
	seen := make(map[string]bool)
	for _, c := range m.capacities() {
		selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
		if err != nil || !selector.Matches(labels.Set(m.nodes[at].Labels)) {
			continue
		}
		if seen[c.StorageClassName] {
			return true
		}
		seen[c.StorageClassName] = true
	}
	return false
}
