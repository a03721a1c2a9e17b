package colocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
	"hilbert.dev/hilbert/lab/report"
	"hilbert.dev/hilbert/sim/corun"
)

const (
	// backlogPerNode is how many jobs of each queue wait for each node at any time; two of each at least.
	backlogPerNode = 0.2
	// sampleEvery is the seconds between two samples.
	sampleEvery = 5
	// wholeMinute is in seconds.
	wholeMinute = 60
	// settledAfter is how long after the rush its consequences are counted.
	settledAfter = 5 * time.Minute
	// halfBack and mostBack are the parts of what is given back that the time is told of.
	halfBack, mostBack = 0.5, 0.9
	// someWait is how many threads of a node's services wait where they lack CPUs.
	someWait = 4
)

// morning is the play.
type morning struct {
	*bed

	record  *report.Colocation
	control *control
	second  int // of what counts; negative in the warm-up
	cpus    float64

	created map[string]int   // jobs of each queue so far
	done    map[string]*tale // of each queue

	online, offline, lent float64 // sums over seconds, in CPUs
	missed, of            int
	missedNow, controlNow float64
	evicted               int
	rushes                []rushNode
	gangWaits, gangBound  int
}

// tale is a queue's account.
type tale struct{ started, done, evicted map[string]bool }

// rushNode is what a node lent from the rush on.
type rushNode struct {
	before int
	lent   []int
	waited int // seconds
}

// Play plays a morning. With an error the record is that of what was played until then; nil if nothing was.
func Play(ctx context.Context, o Options) (record *report.Colocation, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	b := &bed{Options: o, clock: clock.NewStepped(time.Now())}
	defer func() {
		cancel()
		b.stop()
		tasks.Wait()
		err = errors.Join(err, plane.Stop(context.WithoutCancel(ctx)))
	}()
	// Until the warm-up begins the tide stands at its beginning: what is before it counts as that.
	b.load = load{tide: o.Tide, began: b.clock.Now().Add(24 * time.Hour), rush: o.Rush}
	o.Progress("starting %d agents on modelled nodes of %d CPUs ...", o.Nodes, len(agentMachine().CPUs))
	if err := b.start(ctx, plane, &tasks); err != nil {
		return nil, err
	}
	m := &morning{bed: b, created: make(map[string]int), done: make(map[string]*tale)}
	if err := m.prepare(ctx); err != nil {
		return nil, err
	}
	if err = m.play(ctx); err == nil && o.inspect != nil {
		err = o.inspect(ctx, b)
	}
	if m.second <= 0 {
		return nil, err
	}
	m.finishRecord(err)
	return m.record, err
}

// prepare has the services on the nodes, what they do not use offered, and the control set up alike.
func (m *morning) prepare(ctx context.Context) error {
	if err := m.createServices(ctx); err != nil {
		return err
	}
	all := m.Nodes*servicesPerNode + 1
	if err := m.until(ctx, "all services have a node", func() (bool, string) {
		n := 0
		m.watch.each(func(_ types.UID, p *seenPod) {
			if p.node != "" {
				n++
			}
		})
		return n == all && !m.agents.Busy(), fmt.Sprintf("%d of %d", n, all)
	}); err != nil {
		return err
	}
	if !m.NoLending {
		if err := m.until(ctx, "all nodes lend", func() (bool, string) {
			n := 0
			for _, name := range m.names {
				if r, _, ok := m.agents.Agent(name).Look(); ok && r.Status.Colocation != nil && r.Status.Colocation.Headroom.MilliCPU > 0 {
					n++
				}
			}
			return n == m.Nodes, fmt.Sprintf("%d of %d", n, m.Nodes)
		}); err != nil {
			return err
		}
	}
	params, machine := corun.DefaultParams(), machine()
	m.control = newControl(&m.load, m.placements(), &params, &machine)
	m.cpus = float64(machine.CPUs() * m.Nodes)
	m.record = &report.Colocation{
		Tide: m.Tide.Source, Recorded: m.Tide.Recorded, Nodes: m.Nodes, CPUs: int(m.cpus), Lending: !m.NoLending,
		AllocatedPercent: percent(serviceCPUs*servicesPerNode*float64(m.Nodes), m.cpus),
	}
	return nil
}

// placements is which services run on each node.
func (m *morning) placements() [][]placed {
	out := make([][]placed, len(m.names))
	m.watch.each(func(_ types.UID, p *seenPod) {
		if i := slices.Index(m.names, p.node); i >= 0 && strings.HasPrefix(p.name, "service-") {
			app, _ := strconv.Atoi(strings.Split(p.name, "-")[1])
			out[i] = append(out[i], placed{p.name, app})
		}
	})
	for i := range out {
		slices.SortFunc(out[i], func(a, b placed) int { return cmp.Compare(a.name, b.name) })
	}
	return out
}

func (m *morning) play(ctx context.Context) error {
	warm := int(m.WarmUp / time.Second)
	if err := m.createGang(ctx); err != nil { // before the jobs, which leave no room that is as large
		return err
	}
	m.load.begin(m.clock.Now().Add(m.WarmUp))
	for _, q := range queues {
		m.done[q.name] = &tale{make(map[string]bool), make(map[string]bool), make(map[string]bool)}
	}
	for s := range warm + int(m.Length/time.Second) {
		m.second = s - warm + 1
		if m.second == 1 {
			m.countFromHere()
		}
		if err := m.refill(ctx); err != nil {
			return err
		}
		if err := m.step(ctx); err != nil {
			m.second--
			return err
		}
		if err := m.finish(ctx); err != nil {
			return err
		}
		if err := m.restart(ctx); err != nil {
			return err
		}
		m.look()
	}
	return nil
}

// countFromHere ends the warm-up.
func (m *morning) countFromHere() {
	m.control.forget()
	for _, name := range m.names {
		m.agents.Agent(name).Forget()
	}
	m.online, m.offline, m.lent, m.missed, m.of = 0, 0, 0, 0, 0
	m.began, m.steps, m.slowest = time.Now(), 0, 0
	for _, t := range m.done {
		t.done, t.evicted = make(map[string]bool), make(map[string]bool)
	}
	m.evicted = 0
	m.Progress("the morning begins: %s of it, at %s", m.Length, speedOf(m.Speed))
}

func speedOf(speed float64) string {
	if speed <= 0 {
		return "the speed that this machine can"
	}
	return fmt.Sprintf("%g times the speed", speed)
}

// refill keeps jobs of each queue waiting.
func (m *morning) refill(ctx context.Context) error {
	waiting := make(map[string]int)
	m.watch.each(func(_ types.UID, p *seenPod) {
		if p.offline && !p.gone && !p.ended && p.node == "" && !strings.HasPrefix(p.name, gangName+"-") {
			waiting[p.namespace]++
		}
	})
	backlog := max(2, int(math.Ceil(backlogPerNode*float64(m.Nodes))))
	for _, q := range queues {
		for waiting[q.name] < backlog {
			n := m.created[q.name]
			if err := m.createTry(ctx, try{queue: q.name, job: jobName(q.name, n), kind: n % len(jobKinds)}); err != nil {
				return err
			}
			m.created[q.name]++
			waiting[q.name]++
		}
	}
	return nil
}

// restart counts what has come to an end, and makes anew who was evicted, as a controller would.
func (m *morning) restart(ctx context.Context) error {
	var list []try
	m.watch.each(func(_ types.UID, p *seenPod) {
		if !p.offline {
			return
		}
		t := m.done[p.namespace]
		if p.node != "" {
			t.started[p.name] = true
		}
		if p.told || !p.ended && !p.gone {
			return
		}
		p.told = true
		if p.ended {
			t.done[p.name] = true
			return
		}
		t.evicted[p.name] = true
		m.evicted++
		kind, _ := strconv.Atoi(p.kind)
		n, _ := strconv.Atoi(p.name[strings.LastIndexByte(p.name, '-')+1:])
		a := try{queue: p.namespace, job: jobOf(p.name), kind: kind, n: n + 1}
		if strings.HasPrefix(p.name, gangName+"-") {
			a.gang = gangName
		}
		list = append(list, a)
	})
	slices.SortFunc(list, func(a, b try) int { return cmp.Compare(a.job, b.job) })
	for _, a := range list {
		if err := m.createTry(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// look takes the figures of the second that has passed.
func (m *morning) look() {
	now := m.clock.Now()
	busy := m.control.step(now)
	var online, offline float64
	lent := 0
	nodes := make([]hollow.Modelled, len(m.names))
	for i, name := range m.names {
		nodes[i] = m.agents.Agent(name).Modelled()
		online, offline, lent = online+nodes[i].Online, offline+nodes[i].Offline, lent+nodes[i].Lent
	}
	m.online, m.offline, m.lent = m.online+online, m.offline+offline, m.lent+float64(lent)
	if m.second%wholeMinute == 0 {
		m.closeMinute()
	}
	m.lookAtGang()
	if m.second <= 0 {
		return
	}
	m.lookAtRush(nodes, lent)
	if m.second%sampleEvery == 0 {
		waiting := 0
		m.watch.each(func(_ types.UID, p *seenPod) {
			if p.offline && !p.gone && !p.ended && p.node == "" {
				waiting++
			}
		})
		m.record.Samples = append(m.record.Samples, report.CoSample{
			At: m.second, Online: percent(online, m.cpus), Offline: percent(offline, m.cpus), Lent: percent(float64(lent), m.cpus), Control: percent(busy, m.cpus),
			Missed: m.missedNow, ControlMs: m.controlNow, Evicted: m.evicted, Waiting: waiting,
		})
	}
}

// closeMinute sees which services missed their target in the minute that has passed.
func (m *morning) closeMinute() {
	missed, of := 0, 0
	for _, name := range m.names {
		a, b := m.agents.Agent(name).CloseWindow()
		missed, of = missed+a, of+b
	}
	m.missed, m.of = m.missed+missed, m.of+of
	m.missedNow, m.controlNow = percent(float64(missed), float64(of)), m.control.closeWindow()
	if minute := m.second / wholeMinute; minute > 0 && minute%5 == 0 {
		m.Progress("  minute %d of %d: services %.0f %%, jobs %.0f %%, lent %.0f %% of all CPUs; %d evictions",
			minute, int(m.Length.Minutes()), percent(m.online, m.cpus*float64(m.second)), percent(m.offline, m.cpus*float64(m.second)),
			percent(m.lent, m.cpus*float64(m.second)), m.evicted)
	}
}

func (m *morning) lookAtGang() {
	if m.gangBound >= gangMembers {
		return
	}
	var nodes []string
	m.watch.each(func(_ types.UID, p *seenPod) {
		if p.node != "" && strings.HasPrefix(p.name, gangName+"-") {
			nodes = append(nodes, p.node)
		}
	})
	m.gangBound, m.gangWaits = len(nodes), m.gangWaits+1
	m.record.Gang = &report.Gang{Members: gangMembers, Bound: len(nodes), Racks: m.rackList(nodes), Waited: m.gangWaits}
}

// lookAtRush keeps what nodes lend from the second before the rush on.
func (m *morning) lookAtRush(nodes []hollow.Modelled, lent int) {
	at := int(m.Rush.At / time.Second)
	end := at + int(m.Rush.For/time.Second)
	switch {
	case m.second == at:
		m.rushes = make([]rushNode, len(nodes))
		for i := range nodes {
			m.rushes[i].before = nodes[i].Lent
		}
		m.record.Rush = report.Rush{At: at, Seconds: end - at, Factor: m.Rush.Factor, Evicted: -m.evicted, LentAt: lent, LentLess: lent}
		m.keepMap(nodes)
	case m.second > at && m.second <= end && m.rushes != nil:
		for i := range nodes {
			m.rushes[i].lent = append(m.rushes[i].lent, nodes[i].Lent)
			if nodes[i].Waiting >= someWait {
				m.rushes[i].waited++
			}
		}
		m.record.Rush.LentLess = min(m.record.Rush.LentLess, lent)
	}
	if m.second == end || m.second == int(m.Length/time.Second) {
		m.keepMap(nodes)
	}
}

// keepMap keeps what each node does now.
func (m *morning) keepMap(nodes []hollow.Modelled) {
	if m.record.Map == nil {
		for _, name := range m.names {
			m.record.Map = append(m.record.Map, report.CoNode{Name: name, Rack: m.racks[name], CPUs: int(m.cpus) / m.Nodes})
		}
	}
	for i := range nodes {
		n := &nodes[i]
		m.record.Map[i].At = append(m.record.Map[i].At, report.CoNodeUse{Second: m.second, Online: round(n.Online), Offline: round(n.Offline), Lent: n.Lent, Jobs: n.Jobs})
	}
}

func goneMeanwhile(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
