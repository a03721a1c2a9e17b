package diff

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// nobody is nominated: pods that wait for victims are on their nodes already, or are not looked at.
type nobody struct{ fwk.PodNominator }

func (nobody) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

// newPreemption is upstream's plugin over the framework. It is not one of the framework's, which would have it evict pods.
func (u *upstream) newPreemption() (*defaultpreemption.DefaultPreemption, error) {
	args := &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100, MinCandidateNodesAbsolute: 100}
	plugin, err := defaultpreemption.New(u.ctx, args, u.framework, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, fmt.Errorf("upstream's preemption: %w", err)
	}
	return plugin, nil
}

// preempt dry-runs preemption on all nodes on which the pod does not fit, as PostFilter does. chosen is nil when nobody's
// leaving would help.
func (u *upstream) preempt(pod *corev1.Pod) (candidates []preemption.Candidate, chosen preemption.Candidate, err error) {
	if err := u.refresh(); err != nil {
		return nil, nil, err
	}
	state := framework.NewCycleState()
	statuses, err := u.statuses(state, pod)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := statuses.NodesForStatusCode(u.state.NodeInfos(), fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return nil, nil, err
	}
	// One candidate more than there are nodes, so that it does not stop early; the first of the nodes need not be random then.
	evaluator := u.preemption.Evaluator
	candidates, _, err = evaluator.DryRunPreemption(u.ctx, state, pod, nodes, u.budgets(), 0, int32(len(nodes))+1)
	if err != nil {
		return nil, nil, fmt.Errorf("upstream's dry run: %w", err)
	}
	return candidates, evaluator.SelectCandidate(u.ctx, candidates), nil
}

// statuses filters once more, and keeps what preemption looks at: whether a refusal is for good.
func (u *upstream) statuses(state fwk.CycleState, pod *corev1.Pod) (*framework.NodeToStatus, error) {
	out := framework.NewDefaultNodeToStatus()
	subset, status, _ := u.framework.RunPreFilterPlugins(u.ctx, state, pod)
	if !status.IsSuccess() {
		out.SetAbsentNodesStatus(status)
		return out, nil
	}
	nodes, err := u.state.NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list upstream's nodes: %w", err)
	}
	for _, node := range nodes {
		if name := node.Node().Name; subset.AllNodes() || subset.NodeNames.Has(name) {
			out.Set(name, u.framework.RunFilterPlugins(u.ctx, state, pod, node))
		}
	}
	return out, nil
}

// mayPreempt reports whether the pod is one that evicts others at all.
func (u *upstream) mayPreempt(pod *corev1.Pod) bool {
	may, _ := u.preemption.PodEligibleToPreemptOthers(u.ctx, pod, nil)
	return may
}

// budgets lists the disruption budgets by name. Upstream takes them in the random order of a map, and which of two budgets is used up
// first depends on it; Hilbert goes by name.
func (u *upstream) budgets() []*policyv1.PodDisruptionBudget {
	return listed[policyv1.PodDisruptionBudget](u.stores.budgets)
}

// waver says what on a node upstream's answer depends on beside the cluster, so that it cannot be compared.
type waver uint8

const (
	// steady: nothing.
	steady waver = iota
	// tied: two possible victims are equally important. Upstream leaves it to its sort who goes first. Whether the node is a candidate
	// does not depend on it.
	tied
	// miscounted: upstream's plugins lose count when pods are taken off the node. The spread constraints' counts leave out terminating
	// pods, but a terminating victim is taken off them (podtopologyspread, updateWithPod). Of two pods with one host port, which only a
	// foreign binder puts on one node, the first to leave takes it along (NodeInfo.RemovePod).
	miscounted
)

// wavers looks at the pods on a node.
func wavers(node fwk.NodeInfo, preemptor *corev1.Pod) waver {
	spreads := slices.ContainsFunc(preemptor.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
	type importance struct {
		priority int32
		started  int64
	}
	seen := make(map[importance]bool)
	asks := len(portsOf(preemptor)) > 0
	ports := make(map[[3]string]bool)
	out := steady
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		for _, key := range portsOf(pod) {
			if asks && ports[key] {
				return miscounted
			}
			ports[key] = true
		}
		if priority(pod) >= priority(preemptor) {
			continue
		}
		if spreads && pod.DeletionTimestamp != nil && pod.Namespace == preemptor.Namespace {
			return miscounted
		}
		i := importance{priority(pod), started(pod)}
		if seen[i] {
			out = tied
		}
		seen[i] = true
	}
	return out
}
