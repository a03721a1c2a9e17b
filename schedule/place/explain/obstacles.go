package explain

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// obstacleRule says of one filter what its obstacles are and what takes them away. There is one for each filter, at the same index.
type obstacleRule struct {
	filter string
	// each names every single obstacle on a node that the filter refuses.
	each func(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(obstacle))
	// say puts an obstacle in words.
	say func(s *cluster.State, slot cluster.Slot, c *cluster.Class, o *obstacle) string
	// changes are what would take the obstacle away, where it is the node's only one; false if nothing is known to. A rule without says
	// in none why no single change can be named.
	changes []changer
	none    string
	// leaving: pods that leave the node can take the obstacle away.
	leaving bool
}

// changer finds the smallest change of one kind.
type changer func(s *cluster.State, slot cluster.Slot, c *cluster.Class, o *obstacle) (Change, bool)

// obstacle is one thing that keeps a pod off a node. It is cheap to make; words come later.
type obstacle struct {
	rule int
	// Of a resource, in its unit.
	kind           resource.Kind
	asked, missing int64
	small          bool   // the node would not have it if it were empty
	name           string // of what is no kind of the ledger
	// Of the others: which taint, label, expression, port, feature or constraint; what is unset is nil or 0.
	taint      *facts.Taint
	label      *facts.Label
	expression *facts.Requirement
	at         int
	over       int64 // the skew that there would be
}

// whole is the distance of an obstacle without an amount: that of a request of which nothing is free.
const whole = int64(1000)

// distance is how far an obstacle is from none, in thousandths of what is asked; what pods that leave could not mend is farther.
func (o *obstacle) distance() int64 {
	if o.asked == 0 {
		return whole
	}
	if o.small {
		return whole + share(o.missing, o.asked)
	}
	return share(o.missing, o.asked)
}

// share is part of all in thousandths, bounded so that sums of a few cannot overflow.
func share(part, all int64) int64 {
	const most = 1_000_000_000
	if part > math.MaxInt64/whole || all <= 0 {
		return most
	}
	return min(max(part*whole/all, 1), most)
}

var obstacleRules = []obstacleRule{
	{filter: "NodeUnschedulable", each: noDetail, say: sayCordon, changes: []changer{uncordon}},
	{filter: "TaintToleration", each: taints, say: sayTaint, changes: []changer{tolerate}},
	{filter: "NodeAffinity", each: mismatches, say: sayMismatch, changes: []changer{relabel}},
	{filter: "NodeDeclaredFeatures", each: lacksFeatures, say: sayFeature, none: "a feature comes with another kubelet"},
	{filter: "VolumeBinding", each: noDetail, say: sayVolumes, none: "the volumes are elsewhere, or cannot be made here"},
	{filter: "NodePorts", each: takenPorts, say: sayPort, none: "a port is free when its pods have left", leaving: true},
	{filter: "Reservation", each: noDetail, say: sayReservation, none: "the unit that it is kept for comes first"},
	{filter: "NodeResourcesFit", each: shortages, say: sayShortage, changes: []changer{supply}, leaving: true},
	{filter: "VolumeRestrictions", each: noDetail, say: sayDisk, none: "a disk is free when its pods have left", leaving: true},
	{filter: "NodeVolumeLimits", each: noDetail, say: sayAttached, none: "volumes are detached when their pods have left", leaving: true},
	{filter: "GPUFit", each: lacksGPUs, say: sayGPUs, changes: []changer{vacateGPUs, widen, askLess}, leaving: true},
	{filter: "NUMAFit", each: lacksNUMA, say: sayNUMA, changes: []changer{vacateNUMANode}, leaving: true},
	{filter: "NearFit", each: lacksNear, say: sayNear, changes: []changer{vacateGPUs, widen, askLess}, leaving: true},
	{filter: "DynamicResources", each: noDetail, say: sayDevices, none: "devices are free once claims that have them are deallocated, with their pods"},
	{filter: "PodTopologySpread", each: skews, say: saySkew, changes: []changer{loosen}, leaving: true},
	{filter: "InterPodAffinity", each: podAffinityObstacles, say: sayPodAffinity, none: "it takes other pods to come or to leave", leaving: true},
	{filter: "ClaimsChosen", each: noDetail, say: sayChosen, none: "what the claims need is given to other pods, which have it until their claims go"},
}

// appendObstacles lists all that keeps a pod of the class off the node.
func appendObstacles(list []obstacle, s *cluster.State, slot cluster.Slot, c *cluster.Class) []obstacle {
	for i := range rules.Filters {
		if !rules.Filters[i].Fits(s, slot, c) {
			obstacleRules[i].each(s, slot, c, func(o obstacle) {
				o.rule = i
				list = append(list, o)
			})
		}
	}
	return list
}

func noDetail(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(obstacle)) {
	add(obstacle{})
}

func sayCordon(*cluster.State, cluster.Slot, *cluster.Class, *obstacle) string {
	return "is unschedulable (cordoned)"
}

func sayVolumes(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) string {
	switch c.Volumes.Conflict(s.Node(slot)) {
	case facts.VolumeElsewhere:
		return "does not match the node affinity of a volume that the pod's claims are bound to"
	case facts.VolumeZoneElsewhere:
		return "is in another zone than a volume that the pod's claims are bound to"
	case facts.NoStorageLeft:
		return "has not enough free storage for a volume that must be made"
	case facts.VolumeInUse:
		return "cannot help: another pod uses a claim which one pod alone may use (ReadWriteOncePod)"
	case facts.VolumeMissing:
		return "cannot help: a claim of the pod is bound to a volume that does not exist"
	default:
		return "has no volume that the pod's claims could be bound to, and none can be made for it"
	}
}

func sayDisk(_ *cluster.State, _ cluster.Slot, c *cluster.Class, _ *obstacle) string {
	if c.Volumes != nil && len(c.Volumes.Users) > 0 {
		return "has a pod that uses a claim which one pod alone may use"
	}
	return "has a pod that uses a disk which the pod's spec names"
}

func sayAttached(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) string {
	if missing, full := s.Attachable(slot, c); missing == "" {
		return "can attach no more volumes of " + full
	} else {
		return "has no CSI driver " + missing
	}
}

func sayChosen(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) string {
	if c.Volumes != nil && c.Volumes.ConflictBeside(s.Node(slot), s.ChosenVolumes()) != facts.NoVolumeConflict {
		return "has no volume for the claims beside those of the pods that are placed together"
	}
	if s.ChosenDevices().Nothing() {
		return s.DeviceView(slot).Explain(s.Node(slot), s.ClaimNeeds(slot, c))
	}
	return "has no devices for the claims beside those of the pods that are placed together"
}

func sayDevices(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) string {
	return s.DeviceView(slot).Explain(s.Node(slot), s.ClaimNeeds(slot, c))
}

func sayReservation(*cluster.State, cluster.Slot, *cluster.Class, *obstacle) string {
	return "is reserved for a waiting unit"
}

func uncordon(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) (Change, bool) {
	// Where taints decide which nodes a spread counts, a taint less could change the count.
	ok := !honorsTaints(c) || !slices.ContainsFunc(s.Node(slot).Taints, isCordon)
	return Change{Kind: Uncordon}, ok
}

func isCordon(t facts.Taint) bool { return t.Key == rules.TaintUnschedulable }

func honorsTaints(c *cluster.Class) bool {
	return c.Constraints != nil && slices.ContainsFunc(c.Constraints.Hard, func(s census.Spread) bool { return s.HonorTaints })
}

// taints names the taints that are not tolerated. The one that Kubernetes sets on a cordoned node comes and goes with the cordon, so it is
// no obstacle of its own.
func taints(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(obstacle)) {
	node := s.Node(slot)
	for i := range node.Taints {
		t := &node.Taints[i]
		if t.Effect != facts.PreferNoSchedule && !facts.Tolerated(c.Tolerations, t) && (!node.Unschedulable || !isCordon(*t)) {
			add(obstacle{taint: t})
		}
	}
}

func sayTaint(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, o *obstacle) string {
	return "has the untolerated taint " + taintText(o.taint)
}

func taintText(t *facts.Taint) string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	return text + ":" + t.Effect.String()
}

func tolerate(_ *cluster.State, _ cluster.Slot, c *cluster.Class, o *obstacle) (Change, bool) {
	return Change{Kind: Tolerate, Taint: &Taint{o.taint.Key, o.taint.Value, o.taint.Effect.String()}}, !honorsTaints(c)
}

// mismatches names the labels of the node selector that the node does not have, and what fails in the required term that fails least.
func mismatches(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(obstacle)) {
	node := s.Node(slot)
	for i := range c.NodeSelector {
		if value, ok := node.Labels[c.NodeSelector[i].Key]; !ok || value != c.NodeSelector[i].Value {
			add(obstacle{label: &c.NodeSelector[i]})
		}
	}
	if c.Required == nil {
		return
	}
	var least []*facts.Requirement
	for i := range c.Required {
		t := &c.Required[i]
		if t.Matches(node) {
			return
		}
		if failing := failing(t, node); len(failing) > 0 && (least == nil || len(failing) < len(least)) {
			least = failing
		}
	}
	if least == nil {
		add(obstacle{}) // no term could match any node
	}
	for _, r := range least {
		add(obstacle{expression: r})
	}
}

// failing lists the expressions of a term that do not hold on the node.
func failing(t *facts.Term, n *facts.Node) (list []*facts.Requirement) {
	for i := range t.Expressions {
		if one := (facts.Term{Expressions: t.Expressions[i : i+1]}); !one.Matches(n) {
			list = append(list, &t.Expressions[i])
		}
	}
	for i := range t.Fields {
		if one := (facts.Term{Fields: t.Fields[i : i+1]}); !one.Matches(n) {
			list = append(list, &t.Fields[i])
		}
	}
	return list
}

func sayMismatch(s *cluster.State, slot cluster.Slot, _ *cluster.Class, o *obstacle) string {
	switch {
	case o.label != nil:
		if value, ok := s.Node(slot).Labels[o.label.Key]; ok {
			return fmt.Sprintf("has %s=%s, not %s", o.label.Key, value, o.label.Value)
		}
		return fmt.Sprintf("has no label %s=%s", o.label.Key, o.label.Value)
	case o.expression != nil:
		return "does not match the required node affinity " + o.expression.String()
	}
	return "does not match the required node affinity, which matches no node"
}

// relabel finds one label which, set or taken away, lets the pod's selectors match.
func relabel(s *cluster.State, slot cluster.Slot, c *cluster.Class, o *obstacle) (Change, bool) {
	change := Change{Kind: Relabel}
	switch {
	case o.label != nil:
		change.Label = &Label{Key: o.label.Key, Value: o.label.Value}
	case o.expression != nil:
		change.Label = satisfying(o.expression)
	}
	if change.Label == nil || movesDomains(s, c, change.Label.Key) {
		return change, false
	}
	node := *s.Node(slot)
	node.Labels = maps.Clone(node.Labels)
	change.Label.apply(&node)
	return change, c.Selects(&node)
}

func satisfying(r *facts.Requirement) *Label {
	switch r.Operator {
	case facts.In:
		if len(r.Values) > 0 && r.Key != facts.FieldName {
			return &Label{Key: r.Key, Value: r.Values[0]}
		}
	case facts.Exists:
		return &Label{Key: r.Key, Value: "true"}
	case facts.NotIn, facts.DoesNotExist:
		return &Label{Key: r.Key, Absent: true}
	case facts.Gt, facts.Lt:
		if bound, err := strconv.ParseInt(r.Values[0], 10, 64); err == nil && bound > math.MinInt64 && bound < math.MaxInt64 {
			step := int64(1)
			if r.Operator == facts.Lt {
				step = -1
			}
			return &Label{Key: r.Key, Value: strconv.FormatInt(bound+step, 10)}
		}
	}
	return nil
}

// movesDomains reports whether a label of a node has a say in where the class's constraints allow it.
func movesDomains(s *cluster.State, c *cluster.Class, key string) bool {
	if c.Constraints == nil {
		return false
	}
	if len(c.Constraints.Hard) > 0 {
		return true
	}
	for _, list := range [][]census.ID{c.Constraints.Affinity, c.Constraints.AntiAffinity, c.Constraints.ExistingAntiAffinity} {
		for _, id := range list {
			if s.Counts().Registry().KeyName(s.Counts().Census(id).Key()) == key {
				return true
			}
		}
	}
	return false
}

func lacksFeatures(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(obstacle)) {
	for i, want := range c.Features {
		if _, ok := slices.BinarySearch(s.Node(slot).Features, want); !ok {
			add(obstacle{at: i})
		}
	}
}

func sayFeature(_ *cluster.State, _ cluster.Slot, c *cluster.Class, o *obstacle) string {
	return "does not declare the feature " + c.Features[o.at]
}

func takenPorts(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(obstacle)) {
	for i, want := range c.Ports {
		if slices.ContainsFunc(s.Ports(slot), want.Conflicts) {
			add(obstacle{at: i})
		}
	}
}

func sayPort(_ *cluster.State, _ cluster.Slot, c *cluster.Class, o *obstacle) string {
	p := c.Ports[o.at]
	if p.IP != facts.AnyIP {
		return fmt.Sprintf("has its port %d/%s on %s taken", p.Port, p.Protocol, p.IP)
	}
	return fmt.Sprintf("has its port %d/%s taken", p.Port, p.Protocol)
}

// shortages names the resources of which too little is free, by name: the numbering of kinds follows the order in which they were seen.
func shortages(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(obstacle)) {
	first, short := 0, 0
	for i, a := range c.Amounts {
		if s.Lacks(slot, c, a) && !impliedByHeadroom(s, slot, c, a.Kind) && !rules.ImpliedByCPU(s, slot, c, a.Kind) {
			first = i
			short++
		}
	}
	if short == 1 {
		add(shortage(s, slot, c.Amounts[first]))
		return
	}
	list := slices.Clone(c.Amounts)
	slices.SortFunc(list, func(a, b resource.Amount) int { return cmp.Compare(s.KindName(a.Kind), s.KindName(b.Kind)) })
	for _, a := range list {
		if s.Lacks(slot, c, a) && !impliedByHeadroom(s, slot, c, a.Kind) && !rules.ImpliedByCPU(s, slot, c, a.Kind) {
			add(shortage(s, slot, a))
		}
	}
}

func shortage(s *cluster.State, slot cluster.Slot, a resource.Amount) obstacle {
	return obstacle{kind: a.Kind, asked: a.Value, missing: a.Value - s.Free(slot, a.Kind), small: a.Value > s.Allocatable(slot, a.Kind) && !s.IsReclaimed(a.Kind)}
}

func sayShortage(s *cluster.State, slot cluster.Slot, _ *cluster.Class, o *obstacle) string {
	name := s.KindName(o.kind)
	if s.IsReclaimed(o.kind) {
		return sayHeadroom(s, slot, o)
	}
	if o.kind == resource.Pods {
		return fmt.Sprintf("has room for %d pods and %d are there", s.Allocatable(slot, o.kind), s.Requested(slot, o.kind))
	}
	if name == facts.PromisedCPU {
		return sayPromised(s, slot, o)
	}
	return fmt.Sprintf("lacks %s (%s asked, %s free of %s)", amountOf(name, o.missing), amountText(name, o.asked, up),
		amountText(name, s.Free(slot, o.kind), down), amountText(name, s.Allocatable(slot, o.kind), down))
}

// sayPromised says how much CPU the node may promise, and why not more.
func sayPromised(s *cluster.State, slot cluster.Slot, o *obstacle) string {
	text := func(v int64, r rounding) string { return amountText(resource.NameCPU, v, r) }
	why := "no report of its agent allows more than its CPUs"
	if r := s.Report(slot); r != nil && r.Overcommit.Percent > 0 {
		why = fmt.Sprintf("its agent finds %d%% of its CPUs safe", r.Overcommit.Percent)
	}
	return fmt.Sprintf("may promise no %s CPU more (%s asked before requests were lowered, %s left of %s; %s)", text(o.missing, up), text(o.asked, up),
		text(s.Free(slot, o.kind), down), text(s.Allocatable(slot, o.kind), down), why)
}

// supply is more of the resource: free on a node that is large enough, else as a larger node.
func supply(s *cluster.State, slot cluster.Slot, _ *cluster.Class, o *obstacle) (Change, bool) {
	change := Change{Kind: Free, Resource: s.KindName(o.kind), Amount: o.missing, cost: o.distance()}
	if o.small {
		change.Kind = Grow
	}
	return change, !s.IsReclaimed(o.kind) || rules.HeadroomRefusal(s, slot) == ""
}

func skews(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(obstacle)) {
	for i := range c.Constraints.Hard {
		if over := rules.SkewWith(s, slot, &c.Constraints.Hard[i]); over > int64(c.Constraints.Hard[i].MaxSkew) {
			add(obstacle{at: i, over: over})
		}
	}
}

func saySkew(_ *cluster.State, _ cluster.Slot, c *cluster.Class, o *obstacle) string {
	spread := &c.Constraints.Hard[o.at]
	if o.over == rules.MissingKey {
		return "has no label " + spread.TopologyKey + ", over which the pod must be spread"
	}
	return fmt.Sprintf("would have a skew of %d over %s (at most %d)", o.over, spread.TopologyKey, spread.MaxSkew)
}

func loosen(_ *cluster.State, _ cluster.Slot, c *cluster.Class, o *obstacle) (Change, bool) {
	spread := &c.Constraints.Hard[o.at]
	change := Change{Kind: Loosen, Spread: &Skew{o.at, spread.TopologyKey, spread.MaxSkew, int32(min(o.over, math.MaxInt32))}, cost: o.over}
	return change, o.over != rules.MissingKey
}

// What an obstacle of InterPodAffinity is.
const (
	affinityUnmet     = iota // the required affinity is not met
	ownAntiAffinity          // the pod's own anti-affinity
	theirAntiAffinity        // that of a pod that is there
)

func podAffinityObstacles(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(obstacle)) {
	if !rules.AffinityMet(s, slot, c.Constraints) {
		add(obstacle{at: affinityUnmet})
	}
	if !rules.NoneNear(s, slot, c.Constraints.AntiAffinity) {
		add(obstacle{at: ownAntiAffinity})
	}
	if !rules.NoneNear(s, slot, c.Constraints.ExistingAntiAffinity) {
		add(obstacle{at: theirAntiAffinity})
	}
}

func sayPodAffinity(s *cluster.State, slot cluster.Slot, c *cluster.Class, o *obstacle) string {
	switch o.at {
	case affinityUnmet:
		return "is not near the pods that the pod affinity asks for"
	case ownAntiAffinity:
		return "is near pods that the pod's anti-affinity keeps away from, by " + crowded(s, slot, c.Constraints.AntiAffinity)
	}
	return "is near pods whose anti-affinity keeps the pod away, by " + crowded(s, slot, c.Constraints.ExistingAntiAffinity)
}

// crowded names the topology keys under which the node's domain has pods of the censuses, sorted.
func crowded(s *cluster.State, slot cluster.Slot, censuses []census.ID) string {
	var keys []string
	for _, id := range censuses {
		if counts := s.Counts().Census(id); counts.Count(counts.Domain(slot)) > 0 {
			keys = append(keys, s.Counts().Registry().KeyName(counts.Key()))
		}
	}
	slices.Sort(keys)
	return fmt.Sprint(slices.Compact(keys))
}
