package diff

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	componentresource "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Coverage says how often each constraint was there, and how often it mattered: a fuzz in which it never does proves nothing.
type Coverage struct {
	Judged     int // pods
	Nodes      int // that they were judged on, in sum
	Infeasible int // pods for which no node is feasible
	Choice     int // pods with two feasible nodes or more
	Ties       int // of those, with two best nodes or more
	Unscored   int // pods that upstream would leave pending with an error, because it cannot score
	Contests   Contests
	rows       [len(constraints)]mattered
}

// mattered counts one constraint.
type mattered struct{ used, refused, told int }

// scene is a pod and the cluster that it was judged in.
type scene struct {
	pod *corev1.Pod
	u   *upstream
}

// constraint is something that a pod or a cluster may have, and the plugin that looks at it.
type constraint struct {
	name, plugin string
	used         func(s *scene) bool
}

// constraints are what coverage counts.
var constraints = [...]constraint{
	{"cordoned node", names.NodeUnschedulable, anyNode(func(n *corev1.Node) bool { return n.Spec.Unschedulable })},
	{"taint", names.TaintToleration, anyNode(func(n *corev1.Node) bool { return len(n.Spec.Taints) > 0 })},
	{"taint and toleration", names.TaintToleration, func(s *scene) bool {
		return len(s.pod.Spec.Tolerations) > 0 && anyNode(func(n *corev1.Node) bool { return len(n.Spec.Taints) > 0 })(s)
	}},
	{"node selector", names.NodeAffinity, func(s *scene) bool { return len(s.pod.Spec.NodeSelector) > 0 }},
	{"required node affinity", names.NodeAffinity, func(s *scene) bool { return len(requiredTerms(s.pod)) > 0 }},
	{"  Gt, Lt", names.NodeAffinity, func(s *scene) bool {
		return slices.ContainsFunc(requiredTerms(s.pod), func(t corev1.NodeSelectorTerm) bool {
			return slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
				return e.Operator == corev1.NodeSelectorOpGt || e.Operator == corev1.NodeSelectorOpLt
			})
		})
	}},
	{"  metadata.name", names.NodeAffinity, func(s *scene) bool {
		return slices.ContainsFunc(requiredTerms(s.pod), func(t corev1.NodeSelectorTerm) bool { return len(t.MatchFields) > 0 })
	}},
	{"preferred node affinity", names.NodeAffinity, func(s *scene) bool {
		a := s.pod.Spec.Affinity
		return a != nil && a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
	}},
	{"host port", names.NodePorts, func(s *scene) bool {
		return slices.ContainsFunc(s.pod.Spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort > 0 })
		})
	}},
	{"cpu or memory", names.NodeResourcesFit, asks(corev1.ResourceCPU, corev1.ResourceMemory)},
	{"ephemeral storage", names.NodeResourcesFit, asks(corev1.ResourceEphemeralStorage)},
	{"extended resource", names.NodeResourcesFit, asks(widget)},
	{"huge pages", names.NodeResourcesFit, asks(hugePage)},
	{"init container", names.NodeResourcesFit, func(s *scene) bool { return len(s.pod.Spec.InitContainers) > 0 }},
	{"overhead", names.NodeResourcesFit, func(s *scene) bool { return len(s.pod.Spec.Overhead) > 0 }},
	{"pod-level request", names.NodeResourcesFit, func(s *scene) bool { return componentresource.IsPodLevelRequestsSet(s.pod) }},
	{"best effort", names.NodeResourcesFit, func(s *scene) bool {
		return len(componentresource.PodRequests(s.pod, componentresource.PodResourcesOptions{})) == 0
	}},
	{"balance", names.NodeResourcesBalancedAllocation, func(*scene) bool { return true }},
	{"hard spread", names.PodTopologySpread, spreads(corev1.DoNotSchedule, nil)},
	{"  min domains", names.PodTopologySpread, spreads(corev1.DoNotSchedule, func(c *corev1.TopologySpreadConstraint) bool { return c.MinDomains != nil })},
	{"  honors taints", names.PodTopologySpread, spreads(corev1.DoNotSchedule, func(c *corev1.TopologySpreadConstraint) bool {
		return c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	})},
	{"  ignores affinity", names.PodTopologySpread, spreads(corev1.DoNotSchedule, func(c *corev1.TopologySpreadConstraint) bool {
		return c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore
	})},
	{"  match label keys", names.PodTopologySpread, spreads(corev1.DoNotSchedule, func(c *corev1.TopologySpreadConstraint) bool { return len(c.MatchLabelKeys) > 0 })},
	{"soft spread", names.PodTopologySpread, spreads(corev1.ScheduleAnyway, nil)},
	{"default spread", names.PodTopologySpread, func(s *scene) bool {
		return len(s.pod.Spec.TopologySpreadConstraints) == 0 && (len(s.pod.OwnerReferences) > 0 || len(s.u.stores.services.ListKeys()) > 0)
	}},
	{"required pod affinity", names.InterPodAffinity, func(s *scene) bool { return near(s.pod) != nil }},
	{"required pod anti-affinity", names.InterPodAffinity, func(s *scene) bool { return apart(s.pod) != nil }},
	{"  namespace selector", names.InterPodAffinity, func(s *scene) bool {
		selects := func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }
		return slices.ContainsFunc(near(s.pod), selects) || slices.ContainsFunc(apart(s.pod), selects)
	}},
	{"anti-affinity of others", names.InterPodAffinity, func(s *scene) bool { return anyPod(s, func(p *corev1.Pod) bool { return apart(p) != nil }) }},
	{"preferred pod (anti-)affinity", names.InterPodAffinity, func(s *scene) bool { return prefersPods(s.pod) }},
	{"preferences of others", names.InterPodAffinity, func(s *scene) bool {
		return !prefersPods(s.pod) && anyPod(s, func(p *corev1.Pod) bool { return near(p) != nil || prefersPods(p) })
	}},
	{"image", names.ImageLocality, anyNode(func(n *corev1.Node) bool { return len(n.Status.Images) > 0 })},
	{"declared feature", names.NodeDeclaredFeatures, func(s *scene) bool {
		return s.pod.Spec.HostUsers != nil || s.pod.Spec.Containers[0].RestartPolicyRules != nil || s.pod.Spec.Containers[0].VolumeMounts != nil
	}},
}

// count takes in a judgement.
func (c *Coverage) count(u *upstream, pod *corev1.Pod, v *Verdict) {
	c.Judged++
	c.Nodes += len(v.Opinions)
	refused := make(map[string]bool)
	var told [len(scoreNames)]bool
	var first *Opinion
	feasible := 0
	for i := range v.Opinions {
		o := &v.Opinions[i]
		if o.Refusal != "" {
			refused[o.Refusal] = true
			continue
		}
		feasible++
		if first == nil {
			first = o
		}
		for k := range told {
			told[k] = told[k] || o.Scores[k] != first.Scores[k]
		}
	}
	if v.ScoreError != "" {
		c.Unscored++
	}
	if feasible == 0 && len(v.Opinions) > 0 {
		c.Infeasible++
	}
	if feasible > 1 {
		c.Choice++
		if len(v.best()) > 1 {
			c.Ties++
		}
	}
	s := &scene{pod, u}
	for i := range constraints {
		if !constraints[i].used(s) {
			continue
		}
		row := &c.rows[i]
		row.used++
		if refused[constraints[i].plugin] {
			row.refused++
		}
		if k := scoreIndex(constraints[i].plugin); k >= 0 && told[k] {
			row.told++
		}
	}
}

// add takes in what another worker has counted.
func (c *Coverage) add(other *Coverage) {
	c.Judged += other.Judged
	c.Nodes += other.Nodes
	c.Infeasible += other.Infeasible
	c.Choice += other.Choice
	c.Ties += other.Ties
	c.Unscored += other.Unscored
	c.Contests.add(&other.Contests)
	for i := range c.rows {
		c.rows[i].used += other.rows[i].used
		c.rows[i].refused += other.rows[i].refused
		c.rows[i].told += other.rows[i].told
	}
}

// Vacuous lists the constraints that never mattered.
func (c *Coverage) Vacuous() []string {
	var out []string
	for i := range constraints {
		if row := &c.rows[i]; row.refused == 0 && row.told == 0 {
			out = append(out, constraints[i].name)
		}
	}
	return out
}

// WriteTable writes the counts for people.
func (c *Coverage) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "constraint\tpods\tits plugin refused a node\tits scores differed\t\n")
	for i := range constraints {
		row := &c.rows[i]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t\n", constraints[i].name, row.used, row.refused, row.told)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the coverage: %w", err)
	}
	fmt.Fprintf(w, "%d pods were judged on %.1f nodes each; %d of them fit nowhere, %d had a choice, %d a choice between equals; %d upstream cannot score\n",
		c.Judged, float64(c.Nodes)/float64(max(c.Judged, 1)), c.Infeasible, c.Choice, c.Ties, c.Unscored)
	c.Contests.write(w)
	return nil
}

func anyNode(is func(*corev1.Node) bool) func(*scene) bool {
	return func(s *scene) bool {
		for _, n := range s.u.nodes {
			if is(n) {
				return true
			}
		}
		return false
	}
}

func anyPod(s *scene, is func(*corev1.Pod) bool) bool {
	for _, p := range s.u.pods {
		if is(p) {
			return true
		}
	}
	return false
}

func requiredTerms(pod *corev1.Pod) []corev1.NodeSelectorTerm {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

func near(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		return a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func apart(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func prefersPods(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0)
}

func spreads(action corev1.UnsatisfiableConstraintAction, is func(*corev1.TopologySpreadConstraint) bool) func(*scene) bool {
	return func(s *scene) bool {
		for i := range s.pod.Spec.TopologySpreadConstraints {
			c := &s.pod.Spec.TopologySpreadConstraints[i]
			if c.WhenUnsatisfiable == action && (is == nil || is(c)) {
				return true
			}
		}
		return false
	}
}

func asks(resources ...corev1.ResourceName) func(*scene) bool {
	return func(s *scene) bool {
		for i := range s.pod.Spec.Containers {
			for _, name := range resources {
				if q, ok := s.pod.Spec.Containers[i].Resources.Requests[name]; ok && !q.IsZero() {
					return true
				}
			}
		}
		return false
	}
}
