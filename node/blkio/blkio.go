package blkio

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
)

// Params are the settings.
type Params struct {
	// Dedicated, Shared and Reclaimed are the weights of pods, from 1 to 10,000; the kernel's default is 100.
	Dedicated, Shared, Reclaimed int
	// Pods is the weight of all pods together beside the host's services; 0: it is left alone.
	Pods int
	// Devices are those on which io.cost is turned on.
	Devices []Device
	// Latencies are what disks shall keep for online pods (io.latency).
	Latencies []Latency
	// Ceilings bound what each reclaimed pod reads and writes.
	Ceilings []Ceiling
}

// A disk is named by the kernel's name, by an absolute path that lies on it, or by everyDisk.
const everyDisk = spec.EveryDisk

// Latency is how long requests of online pods may take on a disk on average, in microseconds; 0: any time.
type Latency struct {
	Name   string
	Micros uint64
}

// Device is a disk with io.cost.
type Device struct {
	// Name is the kernel's, "nvme0n1", a path or everyDisk.
	Name string
	// Model is what the disk can do; nil: the kernel guesses.
	Model *Model
	// Quality is when the disk counts as overloaded; nil: the kernel's own settings.
	Quality *Quality
}

// Model is what a disk can do: bytes per second, and operations of 4 KiB per second, in sequence and at random.
type Model struct {
	ReadBytes, ReadSequential, ReadRandom    uint64
	WriteBytes, WriteSequential, WriteRandom uint64
}

// Quality says what completion latencies the disk shall keep, and how far the kernel may speed it up or slow it down for that.
type Quality struct {
	// ReadPercentile of reads, from 0 to 100, shall take no longer than ReadMicros; 0: they may take any time. So with writes.
	ReadPercentile, WritePercentile float64
	ReadMicros, WriteMicros         uint64
	// Least and Most bound the disk's speed, in percent of the model's, from 1 to 10,000.
	Least, Most float64
}

// Ceiling bounds what each reclaimed pod reads and writes on a disk, in bytes and operations per second; 0: no bound.
type Ceiling struct {
	Name                                                   string
	ReadBytes, WriteBytes, ReadOperations, WriteOperations uint64
}

// Defaults are settings that change nothing on any disk: weights alone.
func Defaults() Params {
	lending := spec.Default().Node.Lending
	return ParamsOf(&lending.IO)
}

// ParamsOf are the settings that a node's configuration, with its defaults set, gives.
func ParamsOf(o *spec.LendingIO) Params {
	p := Params{Dedicated: o.Weights.Dedicated, Shared: o.Weights.Shared, Reclaimed: o.Weights.Reclaimed, Pods: o.Weights.Pods}
	for i := range o.Disks {
		d := &o.Disks[i]
		device := Device{Name: d.Device}
		if m := d.Model; m != (spec.IOModel{}) {
			device.Model = &Model{
				ReadBytes: m.ReadBytes, ReadSequential: m.SequentialReads, ReadRandom: m.RandomReads,
				WriteBytes: m.WriteBytes, WriteSequential: m.SequentialWrites, WriteRandom: m.RandomWrites,
			}
		}
		if q := d.Quality; q != (spec.IOQuality{}) {
			device.Quality = &Quality{
				ReadPercentile: q.ReadPercentile, WritePercentile: q.WritePercentile, ReadMicros: micros(q.ReadLatency), WriteMicros: micros(q.WriteLatency),
				Least: q.LeastPercent, Most: q.MostPercent,
			}
		}
		if device.Model != nil || device.Quality != nil {
			p.Devices = append(p.Devices, device)
		}
		if device.Model == nil && device.Quality == nil { // one without a latency still names its disk, which "*" then leaves alone
			p.Latencies = append(p.Latencies, Latency{d.Device, micros(d.Latency)})
		}
	}
	for _, name := range o.CostDevices {
		if !slices.ContainsFunc(p.Devices, func(d Device) bool { return d.Name == name }) {
			p.Devices = append(p.Devices, Device{Name: name})
		}
	}
	for _, c := range o.Ceilings {
		p.Ceilings = append(p.Ceilings, Ceiling{
			Name: c.Device, ReadBytes: c.ReadBytesPerSecond, WriteBytes: c.WriteBytesPerSecond,
			ReadOperations: c.ReadsPerSecond, WriteOperations: c.WritesPerSecond,
		})
	}
	return p
}

func micros(d spec.Duration) uint64 { return uint64(max(d.D().Microseconds(), 0)) }

// Validate says what of the settings cannot be.
func (p Params) Validate() error {
	var errs []error
	for _, weight := range []int{p.Dedicated, p.Shared, p.Reclaimed} {
		if weight < 1 || weight > maxWeight {
			errs = append(errs, fmt.Errorf("weight %d: want 1 to %d", weight, maxWeight))
		}
	}
	if p.Pods < 0 || p.Pods > maxWeight {
		errs = append(errs, fmt.Errorf("weight %d of all pods: want 1 to %d, or 0", p.Pods, maxWeight))
	}
	once := func(what string, names []string) {
		seen := map[string]bool{}
		for _, name := range names {
			if name == "" || !strings.HasPrefix(name, "/") && strings.ContainsAny(name, "/ \n") || seen[name] {
				errs = append(errs, fmt.Errorf("%s %q: want a disk's name, a path on it or %q, each once", what, name, everyDisk))
			}
			seen[name] = true
		}
	}
	once("device", namesOf(p.Devices, func(d Device) string { return d.Name }))
	once("latency of", namesOf(p.Latencies, func(l Latency) string { return l.Name }))
	once("ceiling for", namesOf(p.Ceilings, func(c Ceiling) string { return c.Name }))
	for _, d := range p.Devices {
		errs = append(errs, d.Model.validate(d.Name), d.Quality.validate(d.Name))
	}
	return errors.Join(errs...)
}

func (m *Model) validate(device string) error {
	if m != nil && slices.Contains([]uint64{m.ReadBytes, m.ReadSequential, m.ReadRandom, m.WriteBytes, m.WriteSequential, m.WriteRandom}, 0) {
		return fmt.Errorf("device %s: its model needs six numbers above 0", device)
	}
	return nil
}

func (q *Quality) validate(device string) error {
	switch {
	case q == nil:
	case !(q.ReadPercentile >= 0 && q.ReadPercentile <= 100 && q.WritePercentile >= 0 && q.WritePercentile <= 100):
		return fmt.Errorf("device %s: want percentiles from 0 to 100", device)
	case !(q.Least >= 1 && q.Least <= q.Most && q.Most <= 10_000):
		return fmt.Errorf("device %s: want a speed of 1 to 10,000 percent, the least not above the most", device)
	}
	return nil
}

const maxWeight = 10_000

// weight is one pod's.
func (p Params) weight(level spec.QoSLevel) int {
	switch level {
	case spec.QoSDedicated:
		return p.Dedicated
	case spec.QoSReclaimed:
		return p.Reclaimed
	default:
		return p.Shared
	}
}

// perDisk are the lines, one for each disk, of files that have some.
type perDisk struct {
	limits    string // io.max of each reclaimed pod
	latencies string // io.latency of online pods
}

// desiredKnobs are the knobs of pods and of the cgroups around them, by path.
//
// io.latency slows down a cgroup's siblings that have none. So online pods have it, and each cgroup between them and what is common to all pods that has no reclaimed pod.
//
// A weight counts only among siblings. So a cgroup between a pod and what is common to all pods weighs as its online pods together, and as one
// reclaimed pod for all of those.
func desiredKnobs(pods []enforce.Pod, lines perDisk, p Params) []enforce.DesiredKnob {
	top := common(pods)
	groups, lends := map[string]int{}, map[string]bool{}
	var out []enforce.DesiredKnob
	for _, pod := range pods {
		weight := p.weight(pod.Level)
		out = append(out, enforce.Desire(pod.Cgroup, enforce.IOWeight, value(weight)))
		switch reclaimed := pod.Level == spec.QoSReclaimed; {
		case reclaimed && lines.limits != "":
			out = append(out, enforce.Desire(pod.Cgroup, enforce.IOMax, lines.limits))
		case !reclaimed && lines.latencies != "":
			out = append(out, enforce.Desire(pod.Cgroup, enforce.IOLatency, lines.latencies))
		}
		for group := path.Dir(pod.Cgroup); len(group) > len(top) && group != "."; group = path.Dir(group) {
			if pod.Level == spec.QoSReclaimed && lends[group] {
				continue
			}
			lends[group] = lends[group] || pod.Level == spec.QoSReclaimed
			groups[group] += weight
		}
	}
	for group, weight := range groups {
		out = append(out, enforce.Desire(group, enforce.IOWeight, value(weight)))
		if lines.latencies != "" {
			latencies := lines.latencies
			if lends[group] {
				latencies = withoutTargets(latencies)
			}
			out = append(out, enforce.Desire(group, enforce.IOLatency, latencies))
		}
	}
	slices.SortFunc(out, func(a, b enforce.DesiredKnob) int { return strings.Compare(a.Path(), b.Path()) })
	return out
}

func value(weight int) string { return fmt.Sprintf("default %d", min(weight, maxWeight)) }

// common is the deepest cgroup that all pods are below; empty: the root.
func common(pods []enforce.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	top := path.Dir(pods[0].Cgroup)
	for _, pod := range pods[1:] {
		for top != "." && !strings.HasPrefix(pod.Cgroup, top+"/") {
			top = path.Dir(top)
		}
	}
	if top == "." {
		return ""
	}
	return top
}

// withoutTargets has the devices of lines of io.latency, without a bound: a cgroup that gets its first reclaimed pod had one.
func withoutTargets(lines string) string {
	var out []string
	for line := range strings.SplitSeq(lines, "\n") {
		number, _, _ := strings.Cut(line, " ")
		out = append(out, number+" target=0")
	}
	return strings.Join(out, "\n")
}

// latencies are the lines of an online pod's io.latency.
func (p Params) latencies(disks []Disk) []string {
	var lines []string
	for _, l := range p.Latencies {
		if i := slices.IndexFunc(disks, func(d Disk) bool { return d.Name == l.Name }); i >= 0 {
			lines = append(lines, fmt.Sprintf("%s target=%d", disks[i].Number, l.Micros))
		}
	}
	return lines
}

// limits are the lines of a reclaimed pod's io.max.
func (p Params) limits(disks []Disk) []string {
	var lines []string
	for _, c := range p.Ceilings {
		i := slices.IndexFunc(disks, func(d Disk) bool { return d.Name == c.Name })
		if i < 0 {
			continue
		}
		words := []string{disks[i].Number}
		for _, one := range []struct {
			key   string
			value uint64
		}{{"rbps", c.ReadBytes}, {"wbps", c.WriteBytes}, {"riops", c.ReadOperations}, {"wiops", c.WriteOperations}} {
			if one.value > 0 {
				words = append(words, fmt.Sprintf("%s=%d", one.key, one.value))
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}
