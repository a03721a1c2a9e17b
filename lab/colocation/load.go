package colocation

import (
	"hash/fnv"
	"math"
	"strconv"
	"time"

	"hilbert.dev/hilbert/lab/hollow"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/sim/corun"
)

// What services and jobs are like. See ADR 0009 for where the ranges come from.
const (
	servicesPerNode = 6
	apps            = 8
	serviceCPUs     = 9.5
	serviceGiB      = 28
	workingSet      = 0.65 // of the memory that a service asks for
	// peakShare of what it asks for a service wants at its most.
	peakShare = 0.44
	// mostShare of it is all that it can want: balancers send the rest elsewhere.
	mostShare = 0.65
	noise     = 0.10
	gibi      = 1 << 30
	milli     = 1000
)

// drawn is a number from 0 to 1 that a name and what is asked of it give, always the same.
func drawn(name, what string) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name + "/" + what)) // a hash never fails
	x := h.Sum64()
	x ^= x >> 33 // names that differ in their last letter only would give numbers that are close
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// load is what services want and what jobs are, by their names.
type load struct {
	tide  *Tide
	began time.Time // when the tide begins to rise
	rush  Rush
}

// service is the machine's view of a pod of a service.
func (l *load) service(name string) corun.Service {
	mean := 0.002 * math.Exp(drawn(name, "mean")*math.Log(10))
	return corun.Service{
		Request: serviceCPUs, Mean: mean, Target: mean * math.Log(100) * (1.8 + 1.2*drawn(name, "target")),
		Bandwidth: 0.3 + 1.7*drawn(name, "bandwidth"), Cache: 1 + 2*drawn(name, "cache"), Memory: workingSet * serviceGiB * gibi,
	}
}

// wants is how many CPUs a service's pod wants at a time, on an idle machine.
func (l *load) wants(name string, app int, at time.Time) float64 {
	second := at.Sub(l.began).Seconds()
	v := serviceCPUs * peakShare * (0.85 + 0.3*drawn(name, "level")) * l.tide.at(app, second)
	step := math.Floor(second / noiseSeconds)
	part := second/noiseSeconds - step
	wave := func(i float64) float64 { return 2*drawn(name, strconv.Itoa(int(i))) - 1 }
	v *= 1 + noise*(wave(step)*(1-part)+wave(step+1)*part)
	return min(v*l.rush.factor(second), serviceCPUs*mostShare)
}

// noiseSeconds is how long the noise of a service's load lasts.
const noiseSeconds = 20.0

// factor is what all services want at a second, times what the tide says.
func (r *Rush) factor(second float64) float64 {
	since := second - r.At.Seconds()
	switch {
	case since <= 0, since > r.For.Seconds():
		return 1
	case since < r.Rise.Seconds():
		return 1 + (r.Factor-1)*since/r.Rise.Seconds()
	}
	return r.Factor
}

// jobKind is a size of jobs.
type jobKind struct {
	cpus, gib int
	seconds   float64 // at full speed
}

// gangKind is what the gang's pods are. It stands behind the kinds of jobs.
var gangKind = jobKind{8, 16, 1500}

var jobKinds = []jobKind{{4, 6, 240}, {2, 4, 120}, {8, 16, 420}, {4, 8, 600}, {2, 3, 60}, {6, 12, 300}}

// job is the machine's view of a reclaimed pod.
func (l *load) job(name string, k jobKind) corun.Job {
	bytes := int64(k.gib) * gibi
	return corun.Job{
		MilliCPU: int64(k.cpus) * milli, MemoryBytes: bytes, Demand: float64(k.cpus) * (0.75 + 0.25*drawn(name, "demand")),
		Work: k.seconds * (0.6 + 0.8*drawn(name, "work")), Bandwidth: 0.3 + 1.8*drawn(name, "bandwidth"), Cache: 0.3 + 2.7*drawn(name, "cache"),
		Memory: float64(bytes) * (0.5 + 0.45*drawn(name, "memory")),
	}
}

// model is what the nodes' kernels go by.
func (l *load) model() *hollow.Model {
	return &hollow.Model{
		Machine: machine(), Params: corun.DefaultParams(),
		Service: func(s *runtime.Sandbox) corun.Service { return l.service(s.Name) },
		Wants:   func(s *runtime.Sandbox, at time.Time) float64 { return l.wants(s.Name, appOf(s.Labels), at) },
		Job:     func(s *runtime.Sandbox) corun.Job { return l.job(jobOf(s.Name), kindOf(s.Labels)) },
	}
}

// machine is what each node is. Its agent reserves no core, so that both NUMA nodes have as many to divide.
func machine() corun.Machine {
	m := corun.DefaultMachine()
	m.Reserved = 0
	return m
}

// Labels by which the model knows what a pod is.
const (
	labelApp  = "app"
	labelKind = "lab.hilbert.dev/kind"
)

func appOf(labels map[string]string) int {
	n, _ := strconv.Atoi(labels[labelApp][len("service-"):])
	return n
}

func kindOf(labels map[string]string) jobKind {
	n, _ := strconv.Atoi(labels[labelKind])
	return kind(n)
}

// kind is the n-th kind of jobs, or the gang's.
func kind(n int) jobKind {
	if n < len(jobKinds) {
		return jobKinds[n]
	}
	return gangKind
}

// begin says when the tide begins to rise. Nobody may ask for the load at the same time.
func (l *load) begin(at time.Time) { l.began = at }
