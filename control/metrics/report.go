package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Bounds of a Report. MaxPods is above what any kubelet runs.
const (
	MaxPods       = 1024
	MaxContainers = 16 // of one pod
	maxWindow     = 10 * time.Minute
	maxName       = 253 // of an object of Kubernetes
)

// Report is what a node's agent has read of its pods since its last report. Times are ages at the moment of sending, so that the clocks of nodes do not matter.
type Report struct {
	Pods podReports `json:"pods"`
}

// podReports are the pods of a report. Reading stops at more than MaxPods: in a few bytes of text for each, a report could make a thousand times as many.
type podReports []PodReport

// UnmarshalJSON implements json.Unmarshaler.
func (p *podReports) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(errors.New("pods: want a list"), err)
	}
	for *p = nil; decoder.More(); {
		if len(*p) == MaxPods {
			return fmt.Errorf("the report has more than %d pods", MaxPods)
		}
		var one PodReport
		if err := decoder.Decode(&one); err != nil {
			return fmt.Errorf("pods[%d]: %w", len(*p), err)
		}
		*p = append(*p, one)
	}
	return nil
}

// PodReport is what was read of one pod.
type PodReport struct {
	spec.PodRef
	// AgeMS is how long ago the last reading was, WindowMS the time between the first and the last one, in milliseconds.
	AgeMS    int64 `json:"ageMS"`
	WindowMS int64 `json:"windowMS"`
	// Values are by the name of the metric. One that is not there is not known. Names that this version does not know are passed over.
	Values map[string]Distribution `json:"values"`
	// Peaks are the most memory that containers held, in bytes, by name. One that is not there is not known.
	Peaks map[string]int64 `json:"peaks,omitempty"`
}

// ReadReport reads a report and checks it.
func ReadReport(text []byte) (*Report, error) {
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	for i := range r.Pods {
		p := &r.Pods[i]
		if p.UID == "" || len(p.UID) > maxName || len(p.Namespace) > maxName || len(p.Name) > maxName {
			return nil, fmt.Errorf("pods[%d]: uid %.64q: want one, and names of at most %d bytes", i, p.UID, maxName)
		}
		if err := checkPeaks(p.Peaks); err != nil {
			return nil, fmt.Errorf("pods[%d]: %w", i, err)
		}
		if p.AgeMS < 0 || p.WindowMS < 0 || p.AgeMS > maxWindow.Milliseconds() || p.WindowMS > maxWindow.Milliseconds() {
			return nil, fmt.Errorf("pods[%d]: age %d ms, window %d ms: want 0 to %d", i, p.AgeMS, p.WindowMS, maxWindow.Milliseconds())
		}
	}
	return r, nil
}

func checkPeaks(peaks map[string]int64) error {
	if len(peaks) > MaxContainers {
		return fmt.Errorf("peaks of %d containers: want at most %d", len(peaks), MaxContainers)
	}
	for name, bytes := range peaks {
		if name == "" || len(name) > maxName || bytes < 0 {
			return fmt.Errorf("peaks: container %.64q, %d bytes: want a name of at most %d bytes, and no negative number", name, bytes, maxName)
		}
	}
	return nil
}

// Collector gathers what is read on a node. The zero value is ready.
type Collector struct {
	pods map[string]*collected
	left LeftOut
}

// LeftOut counts since the start what found no place within a bound: readings of pods beyond MaxPods, readings or peaks of containers beyond MaxContainers of one pod, and answers without a
// forecast because there were Params.MaxProfiles.
type LeftOut struct{ Pods, Containers, Forecasts uint64 }

// LeftOut is what it has left out.
func (c *Collector) LeftOut() LeftOut { return c.left }

type collected struct {
	name        spec.PodRef
	first, last time.Time
	values      [metricCount]Distribution
	peaks       map[string]int64
}

// See counts a reading of a pod, in cores, seconds per second, shares or bytes. What is no number or negative is none.
func (c *Collector) See(pod spec.PodRef, m Metric, value float64, at time.Time) {
	if m.Millionths() {
		value *= Micro
	}
	if !counts(value) {
		return
	}
	if p := c.pod(pod, at); p != nil {
		p.values[m].Add(int64(math.Round(value)))
	}
}

// SeePeak counts the most memory in bytes that a container of a pod held at some time since it was read before. What is no number or negative is none, and so are containers beyond MaxContainers.
func (c *Collector) SeePeak(pod spec.PodRef, container string, bytes float64, at time.Time) {
	if !counts(bytes) {
		return
	}
	p := c.pod(pod, at)
	if p == nil {
		return
	}
	had, known := p.peaks[container]
	if !known && len(p.peaks) >= MaxContainers {
		c.left.Containers++
		return
	}
	if p.peaks == nil {
		p.peaks = make(map[string]int64)
	}
	p.peaks[container] = max(had, int64(math.Round(bytes)))
}

// counts reports whether a reading is one.
func counts(value float64) bool {
	const most = 1 << 60
	return value >= 0 && value <= most
}

// pod is what is collected of a pod that was read now; nil: there are too many.
func (c *Collector) pod(pod spec.PodRef, at time.Time) *collected {
	if c.pods == nil {
		c.pods = make(map[string]*collected)
	}
	p := c.pods[pod.UID]
	if p == nil {
		if len(c.pods) >= MaxPods {
			c.left.Pods++
			return nil
		}
		p = &collected{name: pod, first: at}
		c.pods[pod.UID] = p
	}
	p.last = at
	return p
}

// Take is the report of what was read since the last one; nil: nothing was. What is too old to say anything is left out.
func (c *Collector) Take(now time.Time) *Report {
	r := &Report{}
	for _, p := range c.pods {
		age, window := now.Sub(p.last), p.last.Sub(p.first)
		if age < 0 || age > maxWindow || window < 0 || window > maxWindow {
			continue
		}
		out := PodReport{PodRef: p.name, AgeMS: age.Milliseconds(), WindowMS: window.Milliseconds(), Values: make(map[string]Distribution), Peaks: p.peaks}
		for m := range metricCount {
			if p.values[m].Count > 0 {
				out.Values[m.String()] = p.values[m]
			}
		}
		r.Pods = append(r.Pods, out)
	}
	c.pods = nil
	if len(r.Pods) == 0 {
		return nil
	}
	slices.SortFunc(r.Pods, func(a, b PodReport) int { return strings.Compare(a.UID, b.UID) })
	return r
}
