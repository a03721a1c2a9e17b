package rules

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Scope says what a filter looks at, and so when an index must ask it again.
type Scope uint8

const (
	// Static filters look at the node's properties only.
	Static Scope = iota
	// Local filters look at what runs on the node.
	Local
	// Domain filters look at other nodes: at censuses, which are what runs in the node's domains, and at what claims were given elsewhere.
	Domain
)

// Filter is one hard constraint.
type Filter struct {
	Name  string
	Scope Scope
	// Fits reports whether a pod of the class may go to the node.
	Fits func(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool
	// Commits judges a decided placement, grant included, against the newest state. It is never weaker than Fits.
	Commits func(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant *topology.Grant) bool
	// Why adds a phrase for each thing that made Fits say no, as the condition's message counts them.
	Why func(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(phrase string))
}

// Filters is every hard constraint, in the order in which they are asked. The names are upstream's where the meaning is.
var Filters = []Filter{
	ungranted("NodeUnschedulable", Static, fitsUnschedulable, whyUnschedulable),
	ungranted("TaintToleration", Static, fitsTaints, whyTaints),
	ungranted("NodeAffinity", Static, fitsAffinity, whyAffinity),
	ungranted("NodeDeclaredFeatures", Static, fitsFeatures, whyFeatures),
	ungranted("VolumeBinding", Static, fitsVolumes, whyVolumes),
	ungranted("NodePorts", Local, fitsPorts, whyPorts),
	ungranted(reservationFilter, Local, fitsReservation, whyReservation),
	ungranted("NodeResourcesFit", Local, fitsResources, whyResources),
	ungranted("VolumeRestrictions", Local, fitsRestrictions, whyRestrictions),
	ungranted("NodeVolumeLimits", Local, fitsAttached, whyAttached),
	{Name: "GPUFit", Scope: Local, Fits: FitsGPUs, Commits: commitsGPUs, Why: whyGPUs},
	{Name: "NUMAFit", Scope: Local, Fits: fitsNUMA, Commits: commitsNUMA, Why: whyNUMA},
	{Name: "NearFit", Scope: Local, Fits: fitsNear, Commits: commitsNear, Why: whyNear},
	ungranted("DynamicResources", Local, fitsDevices, whyDevices), // the last that looks at one node: it may ask an allocator
	ungranted("PodTopologySpread", Domain, fitsSpread, whySpread),
	ungranted("InterPodAffinity", Domain, fitsPodAffinity, whyPodAffinity),
	{Name: claimsFilter, Scope: Domain, Fits: fitsChosen, Commits: takesClaims, Why: whyChosen},
}

type (
	fitFunc = func(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool
	whyFunc = func(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(phrase string))
)

// ungranted makes a Filter whose commit check needs no grant: it is Fits, asked again.
func ungranted(name string, scope Scope, fits fitFunc, why whyFunc) Filter {
	return Filter{
		Name: name, Scope: scope, Fits: fits, Why: why,
		Commits: func(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *topology.Grant) bool {
			return fits(s, slot, c)
		},
	}
}

// Commits is the cluster.Check of the committer: every filter's commit check against the newest state. It returns the name of the first
// filter that refuses, or the empty string.
func Commits(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant *topology.Grant) string {
	for i := range Filters {
		if !Filters[i].Commits(s, slot, c, grant) {
			return Filters[i].Name
		}
	}
	return ""
}

// Fits reports whether a pod of the class may go to the node, by every filter.
func Fits(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return FitsNode(s, slot, c) && FitsIn(Domain, s, slot, c)
}

// FitsNode reports whether the node itself would take a pod of the class, wherever other pods are. It asks about a pod that is not placed alone, or has a place
// itself: then constraints between pods are judged when the others have their places.
func FitsNode(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return s.Node(slot) != nil && FitsIn(Static, s, slot, c) && FitsIn(Local, s, slot, c)
}

// FitsThrough reports whether a pod of the class may go to the node if it may use what is reserved there.
func FitsThrough(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if s.Node(slot) == nil {
		return false
	}
	for i := range Filters {
		if Filters[i].Name != reservationFilter && !Filters[i].Fits(s, slot, c) {
			return false
		}
	}
	return true
}

// reservationFilter is the name of the filter that keeps nodes free for units that wait.
const reservationFilter = "Reservation"

// FitsIn asks the filters of one scope; a Domain answer holds for every node that is in the same domains.
func FitsIn(scope Scope, s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	for i := range Filters {
		if Filters[i].Scope == scope && !Filters[i].Fits(s, slot, c) {
			return false
		}
	}
	return true
}

// TaintUnschedulable is the taint that stands for spec.unschedulable when a toleration is matched against it.
const TaintUnschedulable = "node.kubernetes.io/unschedulable"

func fitsUnschedulable(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	taint := facts.Taint{Key: TaintUnschedulable, Effect: facts.NoSchedule}
	return !s.Node(slot).Unschedulable || facts.Tolerated(c.Tolerations, &taint)
}

func whyUnschedulable(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(string)) {
	add("node(s) were unschedulable")
}

func fitsTaints(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return facts.Untolerated(s.Node(slot), c.Tolerations) == nil
}

func whyTaints(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	taint := facts.Untolerated(s.Node(slot), c.Tolerations)
	add("node(s) had untolerated taint {" + taint.Key + ": " + taint.Value + "}")
}

func fitsAffinity(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return c.Selects(s.Node(slot))
}

func whyAffinity(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(string)) {
	add("node(s) didn't match Pod's node affinity/selector")
}

func fitsFeatures(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	for _, want := range c.Features {
		if _, ok := slices.BinarySearch(s.Node(slot).Features, want); !ok {
			return false
		}
	}
	return true
}

func whyFeatures(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(string)) {
	add("node(s) didn't match Pod's required features")
}

// fitsVolumes lets a pod onto nodes that have its volumes, or where they can be bound or made. It is upstream's VolumeBinding and VolumeZone.
func fitsVolumes(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return c.Volumes == nil || c.Volumes.Conflict(s.Node(slot)) == facts.NoVolumeConflict
}

func whyVolumes(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	add(c.Volumes.Conflict(s.Node(slot)).String())
}

// fitsRestrictions keeps pods apart that name one disk in their specs, or that use a claim which one pod alone may use. That another pod uses such a claim is
// known to VolumeBinding too, which refuses all nodes but the user's own: there the user could be evicted.
func fitsRestrictions(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	for _, want := range c.Disks {
		if slices.ContainsFunc(s.Disks(slot), want.Conflicts) {
			return false
		}
	}
	return !inUse(s, c)
}

// inUse reports whether a claim of the class has a user that is not lifted.
func inUse(s *cluster.State, c *cluster.Class) bool {
	return c.Volumes != nil && slices.ContainsFunc(c.Volumes.Users, func(u facts.ClaimUser) bool { return !s.Lifted(u.Pod) })
}

func whyRestrictions(s *cluster.State, _ cluster.Slot, c *cluster.Class, add func(string)) {
	if inUse(s, c) {
		add(facts.VolumeInUse.String())
		return
	}
	add("node(s) had no available disk")
}

// fitsAttached lets a pod onto nodes that have the drivers of its volumes, and can attach so many.
func fitsAttached(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	missing, full := s.Attachable(slot, c)
	return missing == "" && full == ""
}

func whyAttached(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	if missing, _ := s.Attachable(slot, c); missing != "" {
		add(missing + " CSI driver is not installed on the node")
		return
	}
	add("node(s) exceed max volume count")
}

// fitsDevices lets a pod onto nodes that can give its ResourceClaims the devices that they ask for, or where the devices that they have can be used. It is upstream's
// DynamicResources.
func fitsDevices(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if c.Claims != nil && len(c.Claims.Shared) > 0 { // another pod may have been given them: that is for fitsChosen to say
		return c.Claims.Suits(s.Node(slot))
	}
	return c.Claims == nil || s.DeviceView(slot).Fits(s.Node(slot), s.ClaimNeeds(slot, c))
}

func whyDevices(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	if !c.Claims.Suits(s.Node(slot)) {
		add("resourceclaim not available on the node")
		return
	}
	add("cannot allocate all claims")
}

// claimsFilter is the name of the filter that has two pods not given the same for their claims.
const claimsFilter = "ClaimsChosen"

// Competes reports whether what the claims of the class are given on one node may be missing on another.
func Competes(c *cluster.Class) bool { return c.Volumes.Competes() || c.Claims.Competes() }

// DependsOnChosen reports whether what was chosen for the claims of other pods may refuse nodes to the class that the orders of an index have as feasible.
func DependsOnChosen(s *cluster.State, c *cluster.Class) bool {
	if c.Claims != nil && len(c.Claims.Shared) > 0 {
		return true
	}
	return c.Volumes.Competes() && !s.ChosenVolumes().Nothing() || c.Claims.Competes() && !s.ChosenDevices().Nothing()
}

// fitsChosen lets a pod onto nodes where there is something left for its claims beside what was chosen for other pods: of the same unit, or of Plans that are not
// answered yet.
func fitsChosen(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if !DependsOnChosen(s, c) {
		return true
	}
	return fitsChosenVolumes(s, slot, c) && (c.Claims == nil || s.DeviceView(slot).FitsBeside(s.Node(slot), s.ClaimNeeds(slot, c), s.ChosenDevices()))
}

func fitsChosenVolumes(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return c.Volumes == nil || c.Volumes.ConflictBeside(s.Node(slot), s.ChosenVolumes()) == facts.NoVolumeConflict
}

// takesClaims is no judgement: the ledger gives the claims what they need in the same transaction, pod by pod, or rejects the Plan.
func takesClaims(*cluster.State, cluster.Slot, *cluster.Class, *topology.Grant) bool { return true }

func whyChosen(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	if !fitsChosenVolumes(s, slot, c) {
		add(c.Volumes.ConflictBeside(s.Node(slot), s.ChosenVolumes()).String())
		return
	}
	add("cannot allocate all claims")
}

// fitsReservation keeps pods off a node that is reserved for a unit. Pods that may use it all the same are let through by opening it.
func fitsReservation(s *cluster.State, slot cluster.Slot, _ *cluster.Class) bool {
	return s.Reservation(slot) == cluster.NoReservation
}

func whyReservation(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(string)) {
	add("node(s) were reserved for a waiting unit")
}

func fitsPorts(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	for _, want := range c.Ports {
		if slices.ContainsFunc(s.Ports(slot), want.Conflicts) {
			return false
		}
	}
	return true
}

func whyPorts(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(string)) {
	add("node(s) didn't have free ports for the requested pod ports")
}

func fitsResources(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	for _, a := range c.Amounts {
		if s.Lacks(slot, c, a) {
			return false
		}
	}
	return true
}

func whyResources(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	for _, a := range c.Amounts {
		if s.Lacks(slot, c, a) && !s.IsReclaimed(a.Kind) && !ImpliedByCPU(s, slot, c, a.Kind) {
			add("Insufficient " + s.KindName(a.Kind))
		}
	}
	whyHeadroom(s, slot, c, add)
}

// ImpliedByCPU reports whether a lack says no more than that of CPU does: what may be promised of it is short where it is short itself.
func ImpliedByCPU(s *cluster.State, slot cluster.Slot, c *cluster.Class, kind resource.Kind) bool {
	return s.KindName(kind) == facts.PromisedCPU && slices.ContainsFunc(c.Amounts, func(a resource.Amount) bool { return a.Kind == resource.CPU && s.Lacks(slot, c, a) })
}

// UsesDomainFilters reports whether the class has filters that look at other nodes.
func UsesDomainFilters(c *cluster.Class) bool {
	return Competes(c) || c.Constraints != nil && len(c.Constraints.Hard)+len(c.Constraints.Affinity)+len(c.Constraints.AntiAffinity)+len(c.Constraints.ExistingAntiAffinity) > 0
}

// FitsWithoutLower reports whether the node could take a pod of the class if all pods of lower priority left, as far as the node itself is
// concerned. It asks the store, not a snapshot.
func FitsWithoutLower(store *cluster.Store, slot cluster.Slot, class *cluster.Class, priority int32) bool {
	s := &store.State
	if s.Node(slot) == nil || !FitsIn(Static, s, slot, class) {
		return false
	}
	trial, some := s.Try(slot, false), false
	defer trial.End()
	for _, pod := range store.PodsOn(slot) {
		if pod.Priority < priority {
			trial.Take(pod)
			some = true
		}
	}
	return some && FitsIn(Local, s, slot, class)
}

// FirstRefusal returns the index of the first filter that refuses the node, -1 when all agree.
func FirstRefusal(s *cluster.State, slot cluster.Slot, c *cluster.Class) int {
	for i := range Filters {
		if !Filters[i].Fits(s, slot, c) {
			return i
		}
	}
	return -1
}
