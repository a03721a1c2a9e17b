package diff

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Opinion is what a scheduler thinks of a node for a pod.
type Opinion struct {
	Node string
	// Refusal is the plugin that refuses the node, empty when it is feasible.
	Refusal string
	// Scores are normalised and not weighted, in the order of scoreNames; Scored says which plugins gave one.
	Scores [len(scoreNames)]int64
	Scored [len(scoreNames)]bool
	// Total is the weighted sum.
	Total int64
}

// Verdict is what a scheduler thinks of all nodes, by name.
type Verdict struct {
	Opinions []Opinion
	// ScoreError: scoring failed, and upstream would leave the pod pending with this error unless just one node is feasible.
	ScoreError string
}

// judge runs a scheduling cycle up to the scores.
func (u *upstream) judge(pod *corev1.Pod, v *Verdict) error {
	if err := u.refresh(); err != nil {
		return err
	}
	v.Opinions, v.ScoreError = v.Opinions[:0], ""
	nodes, err := u.state.NodeInfos().List()
	if err != nil {
		return fmt.Errorf("list upstream's nodes: %w", err)
	}
	if len(nodes) == 0 {
		return nil
	}
	state := framework.NewCycleState()
	feasible, err := u.filter(state, pod, nodes, v)
	if err != nil {
		return err
	}
	if len(feasible) > 0 {
		u.score(state, pod, feasible, v)
	}
	slices.SortFunc(v.Opinions, func(a, b Opinion) int { return cmp.Compare(a.Node, b.Node) })
	return nil
}

// refresh brings the snapshot to the cache's state.
func (u *upstream) refresh() error {
	if u.imagesMoved {
		for _, node := range u.nodes {
			u.cache.UpdateNode(klog.Logger{}, node, node)
		}
		u.imagesMoved = false
	}
	if err := u.cache.UpdateSnapshot(klog.Logger{}, u.state.Snapshot); err != nil {
		return fmt.Errorf("update upstream's snapshot: %w", err)
	}
	return nil
}

// filter appends an opinion on every node and returns those that are feasible.
func (u *upstream) filter(state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, v *Verdict) ([]fwk.NodeInfo, error) {
	subset, status, _ := u.framework.RunPreFilterPlugins(u.ctx, state, pod)
	refusal := ""
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, fmt.Errorf("upstream's PreFilter: %w", status.AsError())
		}
		refusal = cmp.Or(status.Plugin(), "PreFilter")
	}
	feasible := make([]fwk.NodeInfo, 0, len(nodes))
	for _, node := range nodes {
		name := node.Node().Name
		o := Opinion{Node: name, Refusal: refusal}
		switch {
		case refusal != "":
		case !subset.AllNodes() && !subset.NodeNames.Has(name):
			o.Refusal = "PreFilter"
		default:
			status := u.framework.RunFilterPlugins(u.ctx, state, pod, node)
			if status.Code() == fwk.Error {
				return nil, fmt.Errorf("upstream's filters: %w", status.AsError())
			}
			if !status.IsSuccess() {
				o.Refusal = status.Plugin()
			}
		}
		v.Opinions = append(v.Opinions, o)
		if o.Refusal == "" {
			feasible = append(feasible, node)
		}
	}
	return feasible, nil
}

// score fills in the scores of the feasible nodes. Upstream does not score a single feasible node; here it does.
func (u *upstream) score(state fwk.CycleState, pod *corev1.Pod, feasible []fwk.NodeInfo, v *Verdict) {
	if status := u.framework.RunPreScorePlugins(u.ctx, state, pod, feasible); !status.IsSuccess() {
		v.ScoreError = status.Message()
		return
	}
	scores, status := u.framework.RunScorePlugins(u.ctx, state, pod, feasible)
	if !status.IsSuccess() {
		v.ScoreError = status.Message()
		return
	}
	next := 0
	for i := range v.Opinions {
		o := &v.Opinions[i]
		if o.Refusal != "" {
			continue
		}
		for _, s := range scores[next].Scores {
			k := scoreIndex(s.Name)
			o.Scores[k], o.Scored[k] = s.Score/u.weights[k], true
		}
		o.Total = scores[next].TotalScore
		next++
	}
}
