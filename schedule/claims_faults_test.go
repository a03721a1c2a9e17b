package schedule_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// TestClaimsUnderFaults plays schedulers against an API server that loses and refuses writes and tells what happens late, while slices change, claims are deleted, pods
// leave, and the leader changes. No device may ever be in two claims, no pod bound without its devices, and of no gang one member before the claims of all are
// written. Once the faults end, gangs are bound whole or not at all, and, with enough nodes, everybody is, and no device is held for nobody. Pods, and members of a
// gang, may share a claim. SEEDS says how many are played, and SEED which is the first.
func TestClaimsUnderFaults(t *testing.T) {
	seeds, first := envNumber(t, "SEEDS", 60), envNumber(t, "SEED", 1)
	if testing.Short() {
		seeds = min(seeds, 20)
	}
	var sum claimServerCounts
	for i := range seeds {
		a := newClaimServer(t, uint64(first+i))
		if err := a.play(); err != nil {
			t.Fatalf("SEED=%d SEEDS=1: %v\n%s", first+i, err, strings.Join(a.log[max(0, len(a.log)-60):], "\n"))
		}
		sum.add(&a.counts)
	}
	t.Logf("%+v", sum)
	if sum.leaders == 0 || sum.lost == 0 || sum.refused == 0 || sum.givenBack == 0 || sum.deleted == 0 || sum.gangs == 0 {
		t.Errorf("something never happened: %+v", sum)
	}
}

func envNumber(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

type claimServerCounts struct{ leaders, lost, refused, givenBack, deleted, gangs, bound int }

func (c *claimServerCounts) add(other *claimServerCounts) {
	c.leaders, c.lost, c.refused, c.givenBack = c.leaders+other.leaders, c.lost+other.lost, c.refused+other.refused, c.givenBack+other.givenBack
	c.deleted, c.gangs, c.bound = c.deleted+other.deleted, c.gangs+other.gangs, c.bound+other.bound
}

// claimServer is an API server with the controller of claims, and the scheduler that leads.
type claimServer struct {
	*rand.Rand
	t       *testing.T
	s       *schedule.Scheduler
	now     time.Time
	calm    bool // no more faults
	version uint64

	nodes  int
	slices map[string]int // devices of a node's slice
	claims map[string]*storedClaim
	pods   map[string]*storedPod

	unseen  []facts.Event // in the order in which the watch tells them
	flights []bind.Write
	counts  claimServerCounts
	log     []string
}

type storedClaim struct {
	facts.ResourceClaim

	count int
	node  string // of what it has
}

type storedPod struct {
	facts.Pod

	claims []string
}

func newClaimServer(t *testing.T, seed uint64) *claimServer {
	a := &claimServer{
		Rand: rand.New(rand.NewPCG(seed, 0)), t: t, now: time.Unix(1000, 0), slices: make(map[string]int), claims: make(map[string]*storedClaim), pods: make(map[string]*storedPod),
	}
	for range 3 {
		a.addNode(1 + a.IntN(4))
	}
	return a
}

func (a *claimServer) note(format string, args ...any) {
	a.log = append(a.log, fmt.Sprintf(format, args...))
}

func (a *claimServer) tell(e facts.Event) { a.unseen = append(a.unseen, e) }

func (a *claimServer) addNode(devices int) {
	name := fmt.Sprintf("n%d", a.nodes)
	a.nodes++
	a.slices[name] = devices
	a.tell(facts.NodeUpserted{Node: a.node(name)})
	a.tell(facts.DRAUpserted{Object: a.slice(name)})
}

func (a *claimServer) node(name string) *facts.Node {
	return &facts.Node{Name: name, Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: 64_000}, {Name: resource.NamePods, Amount: 110}}}
}

func (a *claimServer) slice(node string) *facts.ResourceSlice {
	return &facts.ResourceSlice{Name: "s-" + node, PoolID: facts.PoolID{Driver: "gpu", Pool: node}, Node: node, Devices: a.slices[node]}
}

// addUnit adds a pod, or a gang of them, with claims that were made for them, or with one that they share.
func (a *claimServer) addUnit(i int) {
	members, unit, shared := 1, "", ""
	if a.IntN(2) == 0 {
		members, unit = 2+a.IntN(3), fmt.Sprintf("g%d", i)
		a.counts.gangs++
		a.tell(facts.UnitUpserted{Unit: a.unit(unit, members)})
	}
	switch a.IntN(4) {
	case 0:
		shared = "shared"
	case 1:
		if unit != "" {
			shared = "shared-" + unit
		}
	}
	for m := range members {
		name := fmt.Sprintf("p%d-%d", i, m)
		p := &storedPod{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: "default", Name: name, Ours: true, Unit: unit, Created: int64(i),
			Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}}},
		}}
		if shared != "" {
			if a.claims[shared] == nil {
				a.addClaim(shared, "")
			}
			p.claims = append(p.claims, shared)
			p.ResourceClaims = append(p.ResourceClaims, facts.ResourceClaimUse{Claim: shared})
		}
		for len(p.claims) == 0 || shared == "" && len(p.claims) == 1 && a.IntN(2) == 0 { // beside what is shared there may be no room for more
			claim := fmt.Sprintf("c-%s-%d", name, len(p.claims))
			a.addClaim(claim, p.UID)
			p.claims = append(p.claims, claim)
			p.ResourceClaims = append(p.ResourceClaims, facts.ResourceClaimUse{Claim: claim, Generated: true})
		}
		a.pods[name] = p
		a.tell(facts.PodUpserted{Pod: p.Pod})
	}
}

func (a *claimServer) unit(name string, members int) *facts.Unit {
	return &facts.Unit{UnitName: facts.UnitName{Namespace: "default", Name: name}, UID: facts.UID(name), MinMember: int32(members)}
}

func (a *claimServer) addClaim(name string, owner facts.UID) {
	c := &storedClaim{count: 1 + a.IntN(2)}
	c.ClaimName, c.UID, c.Pod = facts.ClaimName{Namespace: "default", Name: name}, fmt.Sprintf("%s-%d", name, a.version), owner
	c.Requests = facts.ClaimRequests{Key: strconv.Itoa(c.count), Classes: []facts.ClassUse{{Request: "r", Class: "gpu"}}, Spec: strconv.Itoa(c.count)}
	a.claims[name] = c
	a.changed(c)
}

// changed gives a claim its next version, and tells of it.
func (a *claimServer) changed(c *storedClaim) {
	a.version++
	c.Version = a.version
	if c.Deleting && c.Allocation == nil && len(c.ReservedFor) == 0 {
		delete(a.claims, c.Name)
		a.tell(facts.DRARemoved{Name: c.DRAName()})
		return
	}
	a.tell(facts.DRAUpserted{Object: c.fact()})
}

func (c *storedClaim) fact() *facts.ResourceClaim {
	out := c.ResourceClaim
	out.ReservedFor = slices.Clone(c.ReservedFor)
	return &out
}

// lead makes another scheduler the leader. What the one before has sent may still arrive, before the new one lists.
func (a *claimServer) lead() error {
	for _, w := range a.flights {
		if a.IntN(2) == 0 {
			if _, err := a.write(&w); err != nil {
				return err
			}
		}
	}
	a.flights, a.unseen = nil, nil
	a.note("a new leader")
	a.counts.leaders++
	cfg := spec.Default().Scheduling
	s, err := schedule.New(schedule.Options{Config: cfg, Devices: &script.Devices{}, NoPodEvents: true, Observer: observer{a}})
	if err != nil {
		return err
	}
	a.s = s
	units := make(map[string]int)
	a.s.Apply(facts.DRAUpserted{Object: &facts.DeviceClass{Name: "gpu"}}, a.now)
	for _, name := range slices.Sorted(maps.Keys(a.slices)) {
		a.s.Apply(facts.NodeUpserted{Node: a.node(name)}, a.now)
		if a.slices[name] > 0 {
			a.s.Apply(facts.DRAUpserted{Object: a.slice(name)}, a.now)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.claims)) {
		a.s.Apply(facts.DRAUpserted{Object: a.claims[name].fact()}, a.now)
	}
	for _, p := range a.pods {
		if p.Unit != "" {
			units[p.Unit]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(units)) {
		a.s.Apply(facts.UnitUpserted{Unit: a.unit(name, units[name])}, a.now)
	}
	for _, name := range slices.Sorted(maps.Keys(a.pods)) {
		a.s.Apply(facts.PodUpserted{Pod: a.pods[name].Pod}, a.now)
	}
	return a.s.Verify()
}

// observer notes what the scheduler does.
type observer struct{ a *claimServer }

func (o observer) Placed(pod *cluster.Pod, _ time.Time)                          { o.a.note("placed %s", pod.UID) }
func (o observer) Preempting(*cluster.Pod, []*cluster.Pod, time.Time)            {}
func (o observer) Cleared(*cluster.Pod, time.Time)                               {}
func (o observer) Rejected(reason string, _ time.Time)                           { o.a.note("rejected: %s", reason) }
func (o observer) Unschedulable(*cluster.Pod, []schedule.FilterCount, time.Time) {}
func (o observer) Bound(pod *cluster.Pod, _ time.Time)                           { o.a.note("bound %s", pod.UID) }

func (o observer) Released(pod *cluster.Pod, message string, _ time.Time) {
	o.a.note("released %s: %s", pod.UID, message)
}
func (o observer) MissedWakeup(*cluster.Pod, time.Time) {}

// write does what a write says, or says why not.
func (a *claimServer) write(w *bind.Write) (r bind.Result, err error) {
	r = bind.Result{ID: w.ID, Outcome: bind.Written}
	switch w.Kind {
	case bind.WriteClaim:
		c := a.claims[w.Claim.Claim.Name]
		r.Outcome = a.writeClaim(w, c)
		a.note("%s: %v for %s: %v", w.Claim.Claim.Name, w.Claim, w.Pod, r.Outcome)
		return r, a.check()
	case bind.GiveBackClaim:
		r.Outcome, r.Version = a.giveBack(w)
		a.note("give back %+v: %v", w.GiveBack, r.Outcome)
	case bind.WriteBinding:
		p := a.pods[w.Name]
		switch {
		case p == nil:
			r.Outcome = bind.Gone
		case p.Node != "":
			r.Outcome = bind.Conflict
		default:
			a.note("bind %s to %s", w.Name, w.Node)
			if err := a.mayBind(p, w.Node); err != nil {
				return r, err
			}
			p.Node = w.Node
			a.counts.bound++
			a.tell(facts.PodUpserted{Pod: p.Pod})
		}
	case bind.ReadPod:
		if p := a.pods[w.Name]; p != nil {
			r.Node = p.Node
		} else {
			r.Outcome = bind.Gone
		}
	default: // what is told about pods changes nothing here
	}
	return r, nil
}

func (a *claimServer) writeClaim(w *bind.Write, c *storedClaim) bind.Outcome {
	if c == nil || c.UID != w.Claim.ClaimUID {
		return bind.Gone
	}
	if w.Claim.Protect {
		if c.Deleting {
			return bind.Refused
		}
		c.Protected = true
		a.changed(c)
		return bind.Written
	}
	var devices []facts.AllocatedDevice
	for text := range strings.FieldsSeq(w.Claim.Allocation) {
		pool, device, _ := strings.Cut(text, "/")
		devices = append(devices, facts.AllocatedDevice{DeviceID: facts.DeviceID{Driver: "gpu", Pool: pool, Device: device}})
	}
	same := func() bool {
		return slices.EqualFunc(devices, c.Allocation.Devices, func(a, b facts.AllocatedDevice) bool { return a.DeviceID == b.DeviceID })
	}
	switch {
	case len(devices) > 0 && c.Allocation != nil && !same(): // it cannot be changed
		return bind.Refused
	case len(devices) > 0 && c.Allocation == nil && (c.Deleting || !c.Protected):
		return bind.Refused
	case len(devices) == 0 && c.Allocation == nil:
		return bind.Refused
	case len(devices) > 0 && c.Allocation == nil:
		c.node = devices[0].Pool
		c.Allocation = &facts.ClaimAllocation{Devices: devices, Nodes: script.OnNode(c.node)}
	}
	if !c.ReservedForUID(w.Pod) {
		c.ReservedFor = append(slices.Clone(c.ReservedFor), w.Pod)
	}
	a.changed(c)
	return bind.Written
}

func (a *claimServer) giveBack(w *bind.Write) (bind.Outcome, uint64) {
	g := &w.GiveBack
	c := a.claims[g.Claim.Name]
	if c == nil || c.UID != g.ClaimUID {
		return bind.Gone, 0
	}
	left := slices.DeleteFunc(slices.Clone(c.ReservedFor), func(uid facts.UID) bool { return uid == g.Pod })
	if g.Deallocate && len(left) > 0 {
		return bind.Refused, 0
	}
	if c.ReservedFor = left; g.Deallocate {
		c.Allocation = nil
	}
	a.changed(c)
	a.counts.givenBack++
	return bind.Written, a.version
}

// check: no device is in two claims.
func (a *claimServer) check() error {
	of := make(map[facts.DeviceID]string)
	for _, name := range slices.Sorted(maps.Keys(a.claims)) {
		c := a.claims[name]
		if c.Allocation == nil {
			continue
		}
		for _, d := range c.Allocation.Devices {
			if other := of[d.DeviceID]; other != "" {
				return fmt.Errorf("device %s is in claims %s and %s", d.DeviceID, other, name)
			}
			of[d.DeviceID] = name
		}
	}
	return nil
}

// mayBind: a pod has its devices on its node, and those of its gang that are not bound yet have theirs somewhere.
func (a *claimServer) mayBind(p *storedPod, node string) error {
	for _, member := range a.pods {
		if member != p && (p.Unit == "" || member.Unit != p.Unit || member.Node != "") {
			continue
		}
		for _, name := range member.claims {
			c := a.claims[name]
			switch {
			case c == nil && member != p: // somebody else has deleted it since
			case c == nil || c.Allocation == nil || !c.ReservedForUID(member.UID):
				return fmt.Errorf("pod %s is bound, and claim %s of %s is not written: %+v", p.Name, name, member.Name, c)
			case member == p && c.node != node:
				return fmt.Errorf("pod %s is bound to %s, and claim %s has devices of %s", p.Name, node, name, c.node)
			}
		}
	}
	return nil
}

// happen changes something that is not the scheduler's.
func (a *claimServer) happen() error {
	switch a.IntN(12) {
	case 0:
		return a.lead()
	case 1: // a driver publishes fewer devices, or more
		node := fmt.Sprintf("n%d", a.IntN(a.nodes))
		a.slices[node] = 1 + a.IntN(4)
		a.tell(facts.DRAUpserted{Object: a.slice(node)})
	case 2:
		if names := slices.Sorted(maps.Keys(a.claims)); len(names) > 0 && a.IntN(3) == 0 {
			a.deleteClaim(names[a.IntN(len(names))])
		}
	case 3:
		if names := slices.Sorted(maps.Keys(a.pods)); len(names) > 0 && a.IntN(2) == 0 {
			p := a.pods[names[a.IntN(len(names))]]
			if p.Unit == "" {
				a.deletePod(p)
			}
		}
	}
	return nil
}

// deleteClaim deletes a claim that nobody uses; it comes back under its name. One that is in use is being deleted for ever in the API, so that nobody does that here.
func (a *claimServer) deleteClaim(name string) {
	c := a.claims[name]
	if c.Protected || c.Allocation != nil {
		return
	}
	a.note("delete claim %s", name)
	a.counts.deleted++
	delete(a.claims, name)
	a.version++
	a.tell(facts.DRARemoved{Name: c.DRAName()})
	fresh := *c
	a.version++
	fresh.UID, fresh.Version, fresh.ReservedFor = fmt.Sprintf("%s-%d", name, a.version), a.version, nil
	a.claims[name] = &fresh
	a.tell(facts.DRAUpserted{Object: fresh.fact()})
}

// deletePod deletes a pod. The controllers end its reservations, take back devices that nobody uses, and delete the claims that were made for it.
func (a *claimServer) deletePod(p *storedPod) {
	a.note("delete pod %s", p.Name)
	delete(a.pods, p.Name)
	a.tell(facts.PodRemoved{UID: p.UID})
	for _, name := range p.claims {
		if c := a.claims[name]; c != nil {
			c.Deleting = c.Deleting || c.Pod != ""
			a.unreserve(c, p.UID)
		}
	}
}

func (a *claimServer) unreserve(c *storedClaim, uid facts.UID) {
	c.ReservedFor = slices.DeleteFunc(slices.Clone(c.ReservedFor), func(other facts.UID) bool { return other == uid })
	if len(c.ReservedFor) == 0 {
		c.Allocation = nil
	}
	a.changed(c)
}

// collect is the controller of claims again: what was reserved for a pod after it had gone.
func (a *claimServer) collect() {
	for _, name := range slices.Sorted(maps.Keys(a.claims)) {
		for _, uid := range a.claims[name].ReservedFor {
			if a.pods[string(uid)] == nil {
				a.unreserve(a.claims[name], uid)
				break
			}
		}
	}
}

// turn lets one thing go on: the watch, an answer, or the scheduler.
func (a *claimServer) turn() error {
	a.now = a.now.Add(time.Duration(a.IntN(300)) * time.Millisecond)
	switch k := a.IntN(6); {
	case k < 2 && len(a.unseen) > 0:
		a.s.Apply(a.unseen[0], a.now)
		a.unseen = a.unseen[1:]
	case k < 4 && len(a.flights) > 0:
		at := a.IntN(len(a.flights))
		w := a.flights[at]
		a.flights = slices.Delete(a.flights, at, at+1)
		return a.answer(&w)
	default:
		a.s.Step(a.now, 1+a.IntN(3))
		a.flights = append(a.flights, a.s.Ready(a.now)...)
	}
	return a.s.Verify()
}

// answer does a write, unless there is a fault, and tells the scheduler, unless the answer is lost.
func (a *claimServer) answer(w *bind.Write) error {
	fault := a.IntN(10)
	if a.calm {
		fault = 9
	}
	switch fault {
	case 0: // lost on the way
		a.counts.lost++
		a.s.Finish(bind.Result{ID: w.ID, Outcome: bind.Unknown, Message: "lost"}, a.now)
		return a.s.Verify()
	case 1:
		if w.Kind == bind.WriteClaim || w.Kind == bind.GiveBackClaim || w.Kind == bind.WriteBinding && a.pods[w.Name] != nil && a.pods[w.Name].Unit == "" {
			a.counts.refused++
			a.note("refuse %v of %s", w.Kind, w.Name)
			a.s.Finish(bind.Result{ID: w.ID, Outcome: oneOf(a.Rand, bind.Refused, bind.NotSent), Message: "refused"}, a.now)
			return a.s.Verify()
		}
	}
	r, err := a.write(w)
	if err != nil {
		return err
	}
	if fault == 2 {
		a.counts.lost++
		r = bind.Result{ID: w.ID, Outcome: bind.Unknown, Message: "the answer was lost"}
	}
	a.s.Finish(r, a.now)
	return a.s.Verify()
}

func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// play has faults for a while, then none, then enough nodes for all.
func (a *claimServer) play() error {
	if err := a.lead(); err != nil {
		return err
	}
	for i := range 2 + a.IntN(5) {
		a.addUnit(i)
	}
	for range 250 {
		if a.IntN(8) == 0 {
			if err := a.happen(); err != nil {
				return err
			}
		}
		if err := a.turn(); err != nil {
			return err
		}
		a.collect()
	}
	a.calm = true
	if err := a.rest(); err != nil {
		return err
	}
	whole := make(map[string]map[bool]bool)
	for _, p := range a.pods {
		if p.Unit != "" {
			if whole[p.Unit] == nil {
				whole[p.Unit] = make(map[bool]bool)
			}
			whole[p.Unit][p.Node != ""] = true
		}
	}
	for unit, bound := range whole {
		if len(bound) > 1 {
			return fmt.Errorf("gang %s is bound in part", unit)
		}
	}
	for range 12 {
		a.addNode(8)
	}
	if err := a.rest(); err != nil {
		return err
	}
	return a.settled()
}

// rest lets everything come to an end: no event is unseen, no write unanswered, and half an hour has passed.
func (a *claimServer) rest() error {
	for end := a.now.Add(30 * time.Minute); a.now.Before(end); a.now = a.now.Add(time.Minute) {
		for quiet := 0; quiet < 12; quiet++ {
			if len(a.unseen)+len(a.flights) > 0 {
				quiet = 0
			}
			if err := a.turn(); err != nil {
				return err
			}
			a.collect()
		}
	}
	return nil
}

// settled: all pods are bound, and no device is held for nobody.
func (a *claimServer) settled() error {
	for _, name := range slices.Sorted(maps.Keys(a.pods)) {
		if p := a.pods[name]; p.Node == "" {
			record := a.s.Store().Pod(p.UID)
			return fmt.Errorf("pod %s waits at the end: %s, claims %+v", name, record.Refusal(), a.claims[p.claims[0]])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.claims)) {
		if c := a.claims[name]; c.Allocation != nil && len(c.ReservedFor) == 0 {
			return fmt.Errorf("claim %s has devices for nobody", name)
		}
	}
	return nil
}

// TestPodsWithDevicesShareNoOrder: pods of one size share an order of nodes, but for those whose claims have devices, which some nodes alone can use.
func TestPodsWithDevicesShareNoOrder(t *testing.T) {
	h := newHarness(t)
	for i := range 8 {
		h.s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprintf("n%d", i), Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: 64_000}, {Name: resource.NamePods, Amount: 110}}}}, h.now)
	}
	h.s.Apply(facts.DRAUpserted{Object: &facts.DeviceClass{Name: "gpu"}}, h.now)
	add := func(name string, uses ...facts.ResourceClaimUse) {
		h.s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: "default", Name: name, Ours: true, ResourceClaims: uses,
			Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 100}}},
		}}, h.now)
		h.s.Step(h.now, 100)
		h.bindAll()
	}
	for i := range 200 {
		add(fmt.Sprintf("p%d", i))
	}
	for i := range 8 {
		claim, node := fmt.Sprintf("c%d", i), fmt.Sprintf("n%d", i)
		h.s.Apply(facts.DRAUpserted{Object: &facts.ResourceClaim{
			ClaimName: facts.ClaimName{Namespace: "default", Name: claim}, UID: claim, Protected: true, Requests: facts.ClaimRequests{Key: "1", Spec: "1"},
			Allocation: &facts.ClaimAllocation{Nodes: []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.NotIn, Values: []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"}[:i]}}}}},
		}}, h.now)
		h.log.Reset()
		add("q"+claim, facts.ResourceClaimUse{Claim: claim})
		if got := h.log.String(); strings.Contains(got, "rejected") || !strings.Contains(got, "placed") {
			t.Errorf("the pod whose devices are not on the first %d nodes, up to %s: %s", i, node, got)
		}
	}
}
