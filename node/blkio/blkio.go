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
	// Devices are those on which io.cost is turned on.
	Devices []Device
	// Ceilings bound what each reclaimed pod reads and writes.
	Ceilings []Ceiling
}

// Device is a disk with io.cost.
type Device struct {
	// Name is the kernel's: "nvme0n1".
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
	p := Params{Dedicated: o.Weights.Dedicated, Shared: o.Weights.Shared, Reclaimed: o.Weights.Reclaimed}
	for _, name := range o.CostDevices {
		p.Devices = append(p.Devices, Device{Name: name})
	}
	for _, c := range o.Ceilings {
		p.Ceilings = append(p.Ceilings, Ceiling{
			Name: c.Device, ReadBytes: c.ReadBytesPerSecond, WriteBytes: c.WriteBytesPerSecond,
			ReadOperations: c.ReadsPerSecond, WriteOperations: c.WritesPerSecond,
		})
	}
	return p
}

// Validate says what of the settings cannot be.
func (p Params) Validate() error {
	var errs []error
	for _, weight := range []int{p.Dedicated, p.Shared, p.Reclaimed} {
		if weight < 1 || weight > maxWeight {
			errs = append(errs, fmt.Errorf("weight %d: want 1 to %d", weight, maxWeight))
		}
	}
	seen := map[string]bool{}
	for _, d := range p.Devices {
		if d.Name == "" || strings.ContainsAny(d.Name, "/ \n") || seen[d.Name] {
			errs = append(errs, fmt.Errorf("device %q: want a disk's name, each once", d.Name))
		}
		seen[d.Name] = true
		errs = append(errs, d.Model.validate(d.Name), d.Quality.validate(d.Name))
	}
	clear(seen)
	for _, c := range p.Ceilings {
		if c.Name == "" || strings.ContainsAny(c.Name, "/ \n") || seen[c.Name] {
			errs = append(errs, fmt.Errorf("ceiling for %q: want a disk's name, each once", c.Name))
		}
		seen[c.Name] = true
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

// desiredKnobs are the knobs of pods and of the cgroups around them, by path; limits are the io.max of each reclaimed pod.
//
// A weight counts only among siblings. So a cgroup between a pod and what is common to all pods weighs as its online pods together, and as one
// reclaimed pod for all of those.
func desiredKnobs(pods []enforce.Pod, limits string, p Params) []enforce.DesiredKnob {
	top := common(pods)
	groups, lends := map[string]int{}, map[string]bool{}
	var out []enforce.DesiredKnob
	for _, pod := range pods {
		weight := p.weight(pod.Level)
		out = append(out, enforce.Desire(pod.Cgroup, enforce.IOWeight, value(weight)))
		if pod.Level == spec.QoSReclaimed && limits != "" {
			out = append(out, enforce.Desire(pod.Cgroup, enforce.IOMax, limits))
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
