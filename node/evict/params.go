package evict

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// leastStopInterval holds for every configuration: pods that an agent stops itself are under no budget.
const leastStopInterval = 10 * time.Second

// MaxRequests bounds the pods that are asked for at one time, and those that have notice.
const MaxRequests = 16

// Params are the thresholds (marks) and times. docs/concepts/colocation.md has a table of them. Times are multiples of the tick in effect: what is due is done at the first tick after.
type Params struct {
	// DryRun: decisions are made and reported, and none is carried out.
	DryRun bool `json:"dryRun,omitempty"`
	// Off are detectors that are not asked.
	Off Detectors `json:"off,omitempty"`

	Memory      Watermarks   `json:"memory"`
	Pressure    PressureRule `json:"pressure"`
	NUMANode    Watermarks   `json:"numaNode"`
	Overuse     Overuse      `json:"overuse"`
	Suppressed  Suppressed   `json:"suppressed"`
	CPU         CPURule      `json:"cpu"`
	Root        Watermarks   `json:"root"`
	RootInodes  Watermarks   `json:"rootInodes"`
	Images      Watermarks   `json:"images"`
	ImageInodes Watermarks   `json:"imageInodes"`

	// WatermarkFactor: the hard marks of memory are at least this times the kernel's watermark, the soft ones twice that.
	WatermarkFactor float64 `json:"watermarkFactor"`
	// ReleaseAfter is how long a reading must be beyond the mark's clearance for a level to end.
	ReleaseAfter time.Duration `json:"releaseAfter"`
	// BlindFor is how long a pressure outlives its input.
	BlindFor time.Duration `json:"blindFor"`
	// MaxGap is the longest time between two steps in which something counts as having lasted.
	MaxGap time.Duration `json:"maxGap"`

	Escalation Escalation `json:"escalation"`
	Close      Closing    `json:"close"`
}

// Mark is an amount of what is available: the greater of a share of the total and an absolute amount (bytes or inodes). The amount counts as Most of the total
// at the most, if that is not 0: on a machine of 1 GiB, 512 MiB would be half of it.
type Mark struct {
	Share  float64 `json:"share"`
	Amount float64 `json:"amount"`
	Most   float64 `json:"most,omitempty"`
}

// Watermarks: the less is available, the worse. What is below Soft for SoftFor is Soft, below Hard for HardFor Hard; a level ends above its mark
// by the part Clear of it.
type Watermarks struct {
	Soft    Mark          `json:"soft"`
	Hard    Mark          `json:"hard"`
	Clear   float64       `json:"clear"`
	SoftFor time.Duration `json:"softFor"`
	HardFor time.Duration `json:"hardFor"`
}

func (w *Watermarks) holds() (soft, hard time.Duration) { return w.SoftFor, w.HardFor }

// PressureRule is of memory pressure: Soft where the worst online pod's some is at least Some, Hard where its full is at least Full, while
// less than Below is available; a level ends at the part Clear of it.
type PressureRule struct {
	Some    float64       `json:"some"`
	Full    float64       `json:"full"`
	Below   Mark          `json:"below"`
	Clear   float64       `json:"clear"`
	SoftFor time.Duration `json:"softFor"`
	HardFor time.Duration `json:"hardFor"`
}

// Overuse is of a reclaimed pod that holds more memory than its amount by the part Tolerance of it and Slack bytes, for For. It ends at the
// amount and half of both.
type Overuse struct {
	Tolerance float64       `json:"tolerance"`
	Slack     float64       `json:"slack"`
	For       time.Duration `json:"for"`
}

// Suppressed is of reclaimed pods that have had the floor alone for After while one of them starves: it gets less than Share of the CPU that it
// wants, and wants at least Least CPUs. What it wants is what it uses and waits for, up to its amount.
type Suppressed struct {
	Share float64       `json:"share"`
	Least float64       `json:"least"`
	After time.Duration `json:"after"`
	For   time.Duration `json:"for"`
}

// CPURule is of online pods that wait for CPU although reclaimed pods have been at the floor for After: the worst pod's pressure is at least
// Pressure for For, and it ends at the part Clear of it.
type CPURule struct {
	Pressure float64       `json:"pressure"`
	Clear    float64       `json:"clear"`
	After    time.Duration `json:"after"`
	For      time.Duration `json:"for"`
}

// Escalation is what is done about a pressure, and when.
type Escalation struct {
	// ReclaimInterval is between two orders to reclaim for one pressure, ReclaimShare what an order takes of a pod at most.
	ReclaimInterval time.Duration `json:"reclaimInterval"`
	ReclaimShare    float64       `json:"reclaimShare"`
	// NoticeAfter is from Soft to the notice, NoticeGrace from there to the request. RequestInterval is between two requests.
	NoticeAfter     time.Duration `json:"noticeAfter"`
	NoticeGrace     time.Duration `json:"noticeGrace"`
	RequestInterval time.Duration `json:"requestInterval"`
	// SettleFor is how long a pod runs until it is chosen like any other; before that the others go first.
	SettleFor time.Duration `json:"settleFor"`
	// UrgentAfter is from Hard to an urgent request, which needs no notice. UrgentInterval is between two of them.
	UrgentAfter    time.Duration `json:"urgentAfter"`
	UrgentInterval time.Duration `json:"urgentInterval"`
	// AnswerWithin is how long an urgent request may be unanswered, RefusedFor how long it may be refused, and UnreachableFor how long the API may be
	// away, until a pod is stopped here.
	AnswerWithin   time.Duration `json:"answerWithin"`
	RefusedFor     time.Duration `json:"refusedFor"`
	UnreachableFor time.Duration `json:"unreachableFor"`
	// StopInterval is between two stops on the node.
	StopInterval time.Duration `json:"stopInterval"`
	// LeaveWithin and StopWithin are how long a pod that is terminating, or was stopped, counts as giving back what it has.
	LeaveWithin time.Duration `json:"leaveWithin"`
	StopWithin  time.Duration `json:"stopWithin"`
	// KeepStopped is how long a pod that was stopped keeps its eviction request: the kubelet would start it again.
	KeepStopped time.Duration `json:"keepStopped"`
	// LeastMemory, LeastDisk (bytes), LeastInodes and LeastCPU are what a pod must give back to be worth it.
	LeastMemory float64 `json:"leastMemory"`
	LeastDisk   float64 `json:"leastDisk"`
	LeastInodes float64 `json:"leastInodes"`
	LeastCPU    float64 `json:"leastCPU"`
}

// Closing is how long a node that evicted takes no reclaimed pods: twice as long as the time before, halved for each Again that passed since it was
// opened, but at least First and at most Most.
type Closing struct {
	First time.Duration `json:"first"`
	Most  time.Duration `json:"most"`
	Again time.Duration `json:"again"`
}

// The most of a small machine that absolute marks count as.
const softMost, belowMost, hardMost = 0.35, 0.4, 0.25

// Defaults are the marks and times that nodes start with. They lie above the kubelet's own defaults.
func Defaults() Params {
	disk := func(soft, hard float64) Watermarks {
		return Watermarks{Soft: Mark{Share: soft}, Hard: Mark{Share: hard}, Clear: 0.1, SoftFor: 30 * time.Second, HardFor: 10 * time.Second}
	}
	return Params{
		Memory: Watermarks{
			Soft: Mark{0.08, 512 * mebibyte, softMost}, Hard: Mark{0.04, 256 * mebibyte, hardMost}, Clear: 0.25, SoftFor: 5 * time.Second, HardFor: 2 * time.Second,
		},
		Pressure: PressureRule{
			Some: 0.2, Full: 0.1, Below: Mark{0.09, 576 * mebibyte, belowMost}, Clear: 0.5, SoftFor: 10 * time.Second, HardFor: 10 * time.Second,
		},
		NUMANode: Watermarks{
			Soft: Mark{0.05, 256 * mebibyte, softMost}, Hard: Mark{0.02, 128 * mebibyte, hardMost}, Clear: 0.25, SoftFor: 10 * time.Second, HardFor: 5 * time.Second,
		},
		Overuse:         Overuse{Tolerance: 0.1, Slack: 32 * mebibyte, For: 30 * time.Second},
		Suppressed:      Suppressed{Share: 0.2, Least: 0.1, After: 2 * time.Minute, For: 30 * time.Second},
		CPU:             CPURule{Pressure: 0.3, Clear: 0.5, After: 30 * time.Second, For: 30 * time.Second},
		Root:            disk(0.15, 0.12),
		RootInodes:      disk(0.10, 0.07),
		Images:          disk(0.20, 0.17),
		ImageInodes:     disk(0.10, 0.07),
		WatermarkFactor: 2,
		ReleaseAfter:    10 * time.Second, BlindFor: 30 * time.Second, MaxGap: 15 * time.Second,
		Escalation: Escalation{
			ReclaimInterval: 10 * time.Second, ReclaimShare: 0.25,
			NoticeAfter: 15 * time.Second, NoticeGrace: 30 * time.Second, RequestInterval: 30 * time.Second, SettleFor: 10 * time.Minute,
			UrgentAfter: 3 * time.Second, UrgentInterval: 5 * time.Second,
			AnswerWithin: 15 * time.Second, RefusedFor: 5 * time.Second, UnreachableFor: 10 * time.Second,
			StopInterval: 10 * time.Second, LeaveWithin: 45 * time.Second, StopWithin: 10 * time.Second, KeepStopped: 10 * time.Minute,
			LeastMemory: 8 * mebibyte, LeastDisk: 8 * mebibyte, LeastInodes: 1000, LeastCPU: 0.01,
		},
		Close: Closing{First: 5 * time.Minute, Most: time.Hour, Again: 30 * time.Minute},
	}
}

// MemoryBound is the longest time from the first reading below the hard mark of memory until this many pods (at least one) were ordered to be
// stopped, if the API server never answers, no other resource is short past its hard mark, and one tick passes between two steps.
func (p *Params) MemoryBound(pods int, tick time.Duration) time.Duration {
	next := max(p.Escalation.StopInterval, p.Escalation.StopWithin)
	first := p.Memory.HardFor + p.Escalation.UrgentAfter + p.Escalation.AnswerWithin
	// Each of the waits ends with the first tick after it: at most a tick late, and the reading may be a tick old.
	return first + tick*4 + time.Duration(max(pods, 1)-1)*(next+tick)
}

// Validate says what of the params cannot be worked with, each by its name in JSON.
func (p *Params) Validate() error {
	var v verdict
	for _, w := range p.watermarks() {
		v.watermarks(w.name, w.rule)
	}
	v.share("pressure.some", p.Pressure.Some)
	v.share("pressure.full", p.Pressure.Full)
	v.share("pressure.clear", p.Pressure.Clear)
	v.mark("pressure.below", p.Pressure.Below)
	v.number("overuse.tolerance", p.Overuse.Tolerance)
	v.number("overuse.slack", p.Overuse.Slack)
	v.share("suppressed.share", p.Suppressed.Share)
	v.number("suppressed.least", p.Suppressed.Least)
	v.share("cpu.pressure", p.CPU.Pressure)
	v.share("cpu.clear", p.CPU.Clear)
	v.number("watermarkFactor", p.WatermarkFactor)
	v.share("escalation.reclaimShare", p.Escalation.ReclaimShare)
	for _, t := range p.times() {
		if t.value < t.least {
			v.add("%s: %v is less than %v", t.name, t.value, t.least)
		}
	}
	for _, n := range []struct {
		name  string
		value float64
	}{
		{"escalation.leastMemory", p.Escalation.LeastMemory},
		{"escalation.leastDisk", p.Escalation.LeastDisk},
		{"escalation.leastInodes", p.Escalation.LeastInodes},
		{"escalation.leastCPU", p.Escalation.LeastCPU},
	} {
		if !(n.value > 0 && n.value < most) {
			v.add("%s: %v is not above 0", n.name, n.value)
		}
	}
	if p.Close.Most < p.Close.First {
		v.add("close.most: %v is less than close.first, %v", p.Close.Most, p.Close.First)
	}
	return errors.Join(v.errs...)
}

// namedWatermarks is a rule, its name in JSON and the kubelet's signal for the same.
type namedWatermarks struct {
	name, signal string
	rule         *Watermarks
}

func (p *Params) watermarks() []namedWatermarks {
	return []namedWatermarks{
		{"memory", "memory.available", &p.Memory},
		{"root", "nodefs.available", &p.Root},
		{"rootInodes", "nodefs.inodesFree", &p.RootInodes},
		{"images", "imagefs.available", &p.Images},
		{"imageInodes", "imagefs.inodesFree", &p.ImageInodes},
		{"numaNode", "", &p.NUMANode},
	}
}

type namedTime struct {
	name         string
	value, least time.Duration
}

func (p *Params) times() []namedTime {
	l := &p.Escalation
	out := []namedTime{
		{"pressure.softFor", p.Pressure.SoftFor, 0},
		{"pressure.hardFor", p.Pressure.HardFor, 0},
		{"overuse.for", p.Overuse.For, 0},
		{"suppressed.after", p.Suppressed.After, 0},
		{"suppressed.for", p.Suppressed.For, 0},
		{"cpu.after", p.CPU.After, 0},
		{"cpu.for", p.CPU.For, 0},
		{"releaseAfter", p.ReleaseAfter, 0},
		{"blindFor", p.BlindFor, 0},
		{"maxGap", p.MaxGap, time.Second},
		{"escalation.reclaimInterval", l.ReclaimInterval, time.Second},
		{"escalation.noticeAfter", l.NoticeAfter, 0},
		{"escalation.noticeGrace", l.NoticeGrace, 0},
		{"escalation.requestInterval", l.RequestInterval, time.Second},
		{"escalation.settleFor", l.SettleFor, 0},
		{"escalation.urgentAfter", l.UrgentAfter, 0},
		{"escalation.urgentInterval", l.UrgentInterval, time.Second},
		{"escalation.answerWithin", l.AnswerWithin, time.Second},
		{"escalation.refusedFor", l.RefusedFor, 0},
		{"escalation.unreachableFor", l.UnreachableFor, time.Second},
		{"escalation.stopInterval", l.StopInterval, leastStopInterval},
		{"escalation.leaveWithin", l.LeaveWithin, 0},
		{"escalation.stopWithin", l.StopWithin, 0},
		{"escalation.keepStopped", l.KeepStopped, 0},
		{"close.first", p.Close.First, time.Second},
		{"close.again", p.Close.Again, time.Second},
	}
	for _, w := range p.watermarks() {
		out = append(out, namedTime{w.name + ".softFor", w.rule.SoftFor, 0}, namedTime{w.name + ".hardFor", w.rule.HardFor, 0})
	}
	return out
}

// verdict collects what is wrong.
type verdict struct{ errs []error }

func (v *verdict) add(format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf(format, args...))
}

func (v *verdict) number(name string, x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		v.add("%s: %v is no number from 0 on", name, x)
	}
}

func (v *verdict) share(name string, x float64) {
	if !(x > 0 && x <= 1) {
		v.add("%s: %v is not above 0 and at most 1", name, x)
	}
}

func (v *verdict) mark(name string, m Mark) {
	if !(m.Share >= 0 && m.Share < 1) {
		v.add("%s.share: %v is not from 0 to below 1", name, m.Share)
	}
	v.number(name+".amount", m.Amount)
	if !(m.Most >= 0 && m.Most < 1) {
		v.add("%s.most: %v is not from 0 to below 1", name, m.Most)
	}
}

func (v *verdict) watermarks(name string, w *Watermarks) {
	v.mark(name+".soft", w.Soft)
	v.mark(name+".hard", w.Hard)
	v.number(name+".clear", w.Clear)
	if w.Soft.Share < w.Hard.Share || w.Soft.Amount < w.Hard.Amount || w.Soft == w.Hard {
		v.add("%s: the soft mark, %v, is not above the hard one, %v", name, w.Soft, w.Hard)
	}
}
