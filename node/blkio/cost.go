package blkio

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"hilbert.dev/hilbert/node/enforce"
)

// The files of io.cost at the root of the hierarchy.
const (
	costQuality = "io.cost.qos"
	costModel   = "io.cost.model"
	// kernels is the value of ctrl by which the kernel chooses the numbers of a line.
	kernels = "auto"
)

// rest is how many calls a device is left alone after it refused.
const rest = 60

// Condition is something that does not work as the settings want it.
type Condition struct{ Reason, Message string }

// The reasons.
const (
	// ReasonNoController: the pods' cgroups have no io controller, so there are neither weights nor ceilings.
	ReasonNoController = "NoController"
	// ReasonNoCost: the kernel has no io.cost.
	ReasonNoCost = "NoCost"
	// ReasonNoLatency: the kernel has no io.latency.
	ReasonNoLatency = "NoLatency"
	// ReasonNoDisk: a disk that the settings name is not there.
	ReasonNoDisk = "NoDisk"
	// ReasonRefused: the kernel did not take a setting, or made something else of it.
	ReasonRefused = "Refused"
	// ReasonWeightsIdle: on some disk weights have no effect.
	ReasonWeightsIdle = "WeightsIdle"
)

// Support says which of the files there are. It reads them anew each time.
type Support struct {
	Weights, Ceilings, Latencies, Cost bool
	Conditions                         []Condition
}

// Detect looks at what the kernel has, and whether a cgroup that all pods are below hands it on to them: "kubepods".
func Detect(k enforce.Kernel, pods string) Support {
	var s Support
	text, err := k.Read(pods + "/cgroup.subtree_control")
	hasIO := slices.Contains(strings.Fields(text), "io")
	_, weightErr := k.Read(pods + "/" + enforce.IOWeight)
	_, limitErr := k.Read(pods + "/" + enforce.IOMax)
	_, latencyErr := k.Read(pods + "/" + enforce.IOLatency)
	s.Weights, s.Ceilings, s.Latencies = hasIO && weightErr == nil, hasIO && limitErr == nil, hasIO && latencyErr == nil
	if !hasIO {
		message := "cgroup " + pods + " does not hand the io controller on to the pods"
		if err != nil {
			message += ": " + err.Error()
		}
		s.Conditions = append(s.Conditions, Condition{ReasonNoController, message})
	}
	if _, err := k.Read(costQuality); err != nil {
		s.Conditions = append(s.Conditions, Condition{ReasonNoCost, "the kernel has no " + costQuality + " (CONFIG_BLK_CGROUP_IOCOST): " + err.Error()})
		return s
	}
	s.Cost = true
	return s
}

// Cost keeps io.cost of the devices that the settings name. It belongs to one caller.
type Cost struct {
	kernel  enforce.Kernel
	devices []Device
	ours    map[string]given // by number: the devices that it turned on, or found so and keeps
	resting map[string]int   // calls until a device is tried again
	refused map[string]Condition
}

// given is what a device was given beside being on. It is the kernel's to choose again when the settings do not say it any more.
type given struct{ model, quality bool }

// NewCost returns a Cost of devices. It touches nothing before Tick.
func NewCost(k enforce.Kernel, devices []Device) *Cost {
	return &Cost{kernel: k, devices: devices, ours: map[string]given{}, resting: map[string]int{}, refused: map[string]Condition{}}
}

// Set changes the devices. The next Tick turns io.cost off on those that are no longer among them.
func (c *Cost) Set(devices []Device) {
	c.devices = devices
	clear(c.resting)
	clear(c.refused)
}

// Tick compares the devices with the kernel and writes what differs. It returns what is not as wanted, in order.
func (c *Cost) Tick(disks []Disk) []Condition {
	qualities, err := c.read(costQuality)
	if err != nil {
		if len(c.devices) == 0 {
			return nil
		}
		return []Condition{{ReasonNoCost, err.Error()}}
	}
	models, err := c.read(costModel)
	if err != nil {
		return []Condition{{ReasonNoCost, err.Error()}}
	}
	var out []Condition
	wanted := map[string]bool{}
	for _, device := range c.devices {
		i := slices.IndexFunc(disks, func(d Disk) bool { return d.Name == device.Name })
		if i < 0 {
			out = append(out, Condition{ReasonNoDisk, noDisk(device.Name)})
			continue
		}
		number := disks[i].Number
		wanted[number] = true
		if c.resting[number] > 0 {
			c.resting[number]--
			out = append(out, c.refused[number])
			continue
		}
		delete(c.refused, number)
		if err := c.bring(number, device, qualities[number], models[number]); err != nil {
			c.resting[number], c.refused[number] = rest, Condition{ReasonRefused, device.Name + ": " + err.Error()}
			out = append(out, c.refused[number])
		}
	}
	for _, number := range slices.Sorted(maps.Keys(c.ours)) {
		if wanted[number] {
			continue
		}
		if err := c.off(number); err != nil {
			out = append(out, Condition{ReasonRefused, err.Error()})
		}
		delete(qualities, number)
	}
	return append(out, idle(disks, qualities, c.ours)...)
}

// bring makes a device's settings what they shall be: the model first, so that it is never on with another one.
func (c *Cost) bring(number string, d Device, quality, model settings) error {
	had := c.ours[number]
	wantModel, wantQuality := settings{}, d.Quality.settings()
	if d.Model != nil {
		wantModel = d.Model.settings()
	} else if had.model {
		wantModel["ctrl"] = kernels
	}
	if d.Quality == nil && had.quality {
		wantQuality["ctrl"] = kernels
	}
	if err := c.write(costModel, number, wantModel, model); err != nil {
		return err
	}
	if err := c.write(costQuality, number, wantQuality, quality); err != nil {
		return err
	}
	c.ours[number] = given{d.Model != nil, d.Quality != nil}
	return nil
}

// write writes a device's line unless it is right, and reads it back.
func (c *Cost) write(file, number string, want, has settings) error {
	if has.cover(want) {
		return nil
	}
	line := number + " " + want.String()
	if err := c.kernel.Write(file, line); err != nil {
		return fmt.Errorf("%s: write %q: %w", file, line, err)
	}
	now, err := c.read(file)
	if err != nil {
		return err
	}
	if !now[number].cover(want) {
		return fmt.Errorf("%s: wrote %q, the kernel has %q", file, line, now[number])
	}
	return nil
}

// off turns io.cost off on a device of ours, and leaves the kernel the choice of what it was given. One that is gone needs nothing.
func (c *Cost) off(number string) error {
	had, quality := c.ours[number], settings{"enable": "0"}
	if had.quality {
		quality["ctrl"] = kernels
	}
	err := c.kernel.Write(costQuality, number+" "+quality.String())
	if err == nil && had.model {
		err = c.kernel.Write(costModel, number+" ctrl="+kernels)
	}
	if err != nil && !errors.Is(err, syscall.ENODEV) && !errors.Is(err, syscall.ENXIO) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: turn %s off: %w", costQuality, number, err)
	}
	delete(c.ours, number)
	return nil
}

// Close turns io.cost off on all devices of ours.
func (c *Cost) Close() error {
	var errs []error
	for _, number := range slices.Sorted(maps.Keys(c.ours)) {
		errs = append(errs, c.off(number))
	}
	return errors.Join(errs...)
}

// idle says on which disks weights have no effect.
func idle(disks []Disk, qualities map[string]settings, ours map[string]given) []Condition {
	var names []string
	for _, d := range disks {
		if _, on := ours[d.Number]; !on && qualities[d.Number]["enable"] != "1" && d.Scheduler != "bfq" {
			names = append(names, d.Name)
		}
	}
	if names == nil {
		return nil
	}
	return []Condition{{ReasonWeightsIdle, "weights have no effect on " + strings.Join(names, ", ") + ": neither io.cost nor the scheduler bfq is on"}}
}

// settings are the words of a device's line, by key.
type settings map[string]string

// String is in the order of the keys, but "enable" and "ctrl" come first, as the kernel wants the latter before the numbers.
func (s settings) String() string {
	keys := slices.Sorted(maps.Keys(s))
	slices.SortStableFunc(keys, func(a, b string) int { return first(a) - first(b) })
	words := make([]string, len(keys))
	for i, key := range keys {
		words[i] = key + "=" + s[key]
	}
	return strings.Join(words, " ")
}

func first(key string) int {
	return slices.Index([]string{"enable", "ctrl", "model", key}, key)
}

// cover reports whether the settings have all that is wanted. Numbers are compared as numbers: the kernel writes 95 as 95.00.
func (s settings) cover(want settings) bool {
	for key, value := range want {
		a, errA := strconv.ParseFloat(s[key], 64)
		b, errB := strconv.ParseFloat(value, 64)
		if errA == nil && errB == nil {
			// Two digits behind the point are what it keeps.
			if difference := a - b; difference > 0.005 || difference < -0.005 {
				return false
			}
		} else if s[key] != value {
			return false
		}
	}
	return true
}

func (m *Model) settings() settings {
	s := settings{"ctrl": "user", "model": "linear"}
	for key, value := range map[string]uint64{
		"rbps": m.ReadBytes, "rseqiops": m.ReadSequential, "rrandiops": m.ReadRandom,
		"wbps": m.WriteBytes, "wseqiops": m.WriteSequential, "wrandiops": m.WriteRandom,
	} {
		s[key] = strconv.FormatUint(value, 10)
	}
	return s
}

func (q *Quality) settings() settings {
	s := settings{"enable": "1"}
	if q == nil {
		return s
	}
	s["ctrl"] = "user"
	for key, value := range map[string]float64{"rpct": q.ReadPercentile, "wpct": q.WritePercentile, "min": q.Least, "max": q.Most} {
		s[key] = strconv.FormatFloat(value, 'f', 2, 64)
	}
	for key, value := range map[string]uint64{"rlat": q.ReadMicros, "wlat": q.WriteMicros} {
		if value > 0 {
			s[key] = strconv.FormatUint(value, 10)
		}
	}
	return s
}

// read reads a file's lines by device.
func (c *Cost) read(file string) (map[string]settings, error) {
	text, err := c.kernel.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	out := map[string]settings{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		s := settings{}
		for _, field := range fields[1:] {
			if key, value, ok := strings.Cut(field, "="); ok {
				s[key] = value
			}
		}
		out[fields[0]] = s
	}
	return out, nil
}
