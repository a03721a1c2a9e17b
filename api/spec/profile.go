package spec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"time"
)

// ProfileKind and ProfilePlural name the ServiceProfile of NodeGroup.
const (
	ProfileKind   = "ServiceProfile"
	ProfilePlural = "serviceprofiles"
)

// The bounds of a ServiceProfile, which the definition in deploy/crds has too.
const (
	MaxIndicators    = 8
	MaxSelectorTerms = 16
	MaxMetricLabels  = 8
	MaxProfileCPUs   = 1024
	MaxProfileShare  = 1000 // percent
	MinProfilePeriod = Duration(5 * time.Second)
	MaxProfilePeriod = Duration(5 * time.Minute)
	// MinTarget and MaxTarget bound a target, in the unit of its indicator.
	MinTarget = 1e-6
	MaxTarget = 1e9
	MinWeight = 0.1
	MaxWeight = 10.0
)

// +kubebuilder:object:generate=true

// ServiceProfile has the targets of a service, and the bounds within which a node's agent may size the pool of its pods to meet them.
type ServiceProfile struct {
	// Selector selects pods of the profile's namespace by their labels. It must name at least one.
	Selector PodSelector `json:"selector"`
	// Indicators are the numbers that are steered to their targets; the worst one counts. At most MaxIndicators.
	Indicators []ProfileIndicator `json:"indicators"`
	// Bounds limit the pool on each node.
	Bounds ProfileBounds `json:"bounds,omitzero"`
	// Period is the time from one decision to the next; empty: DefaultProfilePeriod.
	Period Duration `json:"period,omitempty"`
}

// DefaultProfilePeriod is the period of a ServiceProfile that names none.
const DefaultProfilePeriod = Duration(10 * time.Second)

// +kubebuilder:object:generate=true

// PodSelector selects pods by their labels as a LabelSelector does: all of its terms hold.
type PodSelector struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchExpressions []SelectorTerm    `json:"matchExpressions,omitempty"`
}

// +kubebuilder:object:generate=true

// SelectorTerm is something that must hold of one label.
type SelectorTerm struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"` // In, NotIn, Exists or DoesNotExist
	Values   []string `json:"values,omitempty"`
}

// The values of SelectorTerm.Operator.
const (
	SelectIn           = "In"
	SelectNotIn        = "NotIn"
	SelectExists       = "Exists"
	SelectDoesNotExist = "DoesNotExist"
)

// +kubebuilder:object:generate=true

// ProfileIndicator is one measure of a pod's service, and its target. Less is better. For example {RunDelay, 0.05}: the pod's threads should wait
// at most 50 ms for a CPU in each second that they run.
type ProfileIndicator struct {
	// Type is one of the constants below.
	Type string `json:"type"`
	// Target is in the unit of the indicator.
	Target float64 `json:"target"`
	// Weight is the factor by which the distance from the target (as a ratio) counts; 0 is 1.
	Weight float64 `json:"weight,omitempty"`
	// Metric is what is scraped, of IndicatorMetric only.
	Metric *ProfileMetric `json:"metric,omitempty"`
}

// The values of ProfileIndicator.Type.
const (
	// IndicatorRunDelay: for how long the pod's threads wait for a CPU, in seconds for each second that they run. 0.05 is little.
	IndicatorRunDelay = "RunDelay"
	// IndicatorCPUPressure: the share of time in which some thread of the pod waits for a CPU, 0 to 1.
	IndicatorCPUPressure = "CPUPressure"
	// IndicatorCPI: cycles per instruction of the pod's CPUs. It is known only on nodes that count both.
	IndicatorCPI = "CPI"
	// IndicatorMetric: a number that the pod itself serves, in the text format of Prometheus.
	IndicatorMetric = "Metric"
)

// +kubebuilder:object:generate=true

// ProfileMetric is a number that a pod serves over HTTP.
type ProfileMetric struct {
	// Port and Path are where; an empty path is /metrics.
	Port int    `json:"port"`
	Path string `json:"path,omitempty"`
	// Name is that of a gauge, or with Quantile of a histogram or summary. Labels must be among those of a series for it to count. Of several gauges
	// the greatest counts; several histograms are added up.
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	// Quantile is between 0 and 1, of what a histogram counted since the previous scrape. 0: Name is a gauge.
	Quantile float64 `json:"quantile,omitempty"`
}

// +kubebuilder:object:generate=true

// ProfileBounds bound the pool of a service on a node: in CPUs, and in percent of what the pods of the pool request. 0: no such bound. The
// narrower bound counts.
type ProfileBounds struct {
	MinCPUs    int `json:"minCPUs,omitempty"`
	MaxCPUs    int `json:"maxCPUs,omitempty"`
	MinPercent int `json:"minPercent,omitempty"`
	MaxPercent int `json:"maxPercent,omitempty"`
}

// ReasonProfileConflict, on a pod's Event: several ServiceProfiles select the pod, and the oldest one applies.
const ReasonProfileConflict = "ProfileConflict"

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	metricPath = regexp.MustCompile(`^/[-A-Za-z0-9._~/]*$`)
	metricText = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	labelKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`)
)

// The longest names, in bytes.
const (
	maxMetricName = 256
	maxMetricPath = 256
	maxLabelKey   = 317
	maxLabelValue = 63
	maxMetricText = 256
)

// ValidateProfile returns every mistake in the spec of a ServiceProfile, joined; each names the field and the fix.
func ValidateProfile(p *ServiceProfile) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("spec.%s: %s", field, fmt.Sprintf(format, args...)))
	}
	validateSelector(&p.Selector, bad)
	if n := len(p.Indicators); n < 1 || n > MaxIndicators {
		bad("indicators", "there are %d; name 1 to %d", n, MaxIndicators)
	}
	for i := range p.Indicators {
		validateIndicator(&p.Indicators[i], fmt.Sprintf("indicators[%d]", i), bad)
	}
	validateBounds(&p.Bounds, bad)
	if p.Period != 0 && (p.Period < MinProfilePeriod || p.Period > MaxProfilePeriod) {
		bad("period", "%v is not between %v and %v; leave it out for %v", p.Period.D(), MinProfilePeriod.D(), MaxProfilePeriod.D(), DefaultProfilePeriod.D())
	}
	return errors.Join(errs...)
}

func validateSelector(s *PodSelector, bad report) {
	if n := len(s.MatchLabels) + len(s.MatchExpressions); n < 1 || n > MaxSelectorTerms {
		bad("selector", "it has %d terms; name 1 to %d labels, so that it does not select every pod of the namespace", n, MaxSelectorTerms)
	}
	for _, key := range sortedLabels(s.MatchLabels) {
		if value := s.MatchLabels[key]; !isLabel(key, value) {
			bad("selector.matchLabels", "%q: %q is no label", key, value)
		}
	}
	for i, term := range s.MatchExpressions {
		field := fmt.Sprintf("selector.matchExpressions[%d]", i)
		if !isLabel(term.Key, "") {
			bad(field+".key", "%q is no key of a label", term.Key)
		}
		values := len(term.Values)
		switch term.Operator {
		case SelectIn, SelectNotIn:
			if values < 1 || values > MaxSelectorTerms {
				bad(field+".values", "%s needs 1 to %d values, and has %d", term.Operator, MaxSelectorTerms, values)
			}
		case SelectExists, SelectDoesNotExist:
			if values > 0 {
				bad(field+".values", "%s has none; leave them out", term.Operator)
			}
		default:
			bad(field+".operator", "%q is not known; write In, NotIn, Exists or DoesNotExist", term.Operator)
		}
		for _, value := range term.Values {
			if !isLabel("a", value) {
				bad(field+".values", "%q is no value of a label", value)
			}
		}
	}
}

func isLabel(key, value string) bool {
	return len(key) <= maxLabelKey && labelKey.MatchString(key) && len(value) <= maxLabelValue && labelValue.MatchString(value)
}

func validateIndicator(in *ProfileIndicator, field string, bad report) {
	if !slices.Contains([]string{IndicatorRunDelay, IndicatorCPUPressure, IndicatorCPI, IndicatorMetric}, in.Type) {
		bad(field+".type", "%q is not known; write RunDelay, CPUPressure, CPI or Metric", in.Type)
	}
	most := MaxTarget
	if in.Type == IndicatorCPUPressure {
		most = 1
	}
	if !(in.Target >= MinTarget && in.Target <= most) { // NaN is neither
		bad(field+".target", "%v is not between %v and %v", in.Target, MinTarget, most)
	}
	if in.Weight != 0 && !(in.Weight >= MinWeight && in.Weight <= MaxWeight) {
		bad(field+".weight", "%v is not between %v and %v; leave it out for 1", in.Weight, MinWeight, MaxWeight)
	}
	switch {
	case in.Type == IndicatorMetric && in.Metric == nil:
		bad(field+".metric", "it is missing; name its port and name")
	case in.Type != IndicatorMetric && in.Metric != nil:
		bad(field+".metric", "it belongs to the type Metric; leave it out, or write type: Metric")
	case in.Metric != nil:
		validateMetric(in.Metric, field+".metric", bad)
	}
}

func validateMetric(m *ProfileMetric, field string, bad report) {
	if m.Port < 1 || m.Port > math.MaxUint16 {
		bad(field+".port", "%d is no port", m.Port)
	}
	if m.Path != "" && (len(m.Path) > maxMetricPath || !metricPath.MatchString(m.Path)) {
		bad(field+".path", "%q is no path such as /metrics, of at most %d letters, digits and -._~/", m.Path, maxMetricPath)
	}
	if len(m.Name) > maxMetricName || !metricName.MatchString(m.Name) {
		bad(field+".name", "%q is no name of a metric; write for example http_request_duration_seconds", m.Name)
	}
	if m.Quantile != 0 && !(m.Quantile > 0 && m.Quantile < 1) {
		bad(field+".quantile", "%v is not between 0 and 1; write 0.99 for the 99th percentile", m.Quantile)
	}
	if len(m.Labels) > MaxMetricLabels {
		bad(field+".labels", "there are %d; name at most %d", len(m.Labels), MaxMetricLabels)
	}
	for _, key := range sortedLabels(m.Labels) {
		switch {
		case key == "le" || key == "quantile":
			bad(field+".labels", "%s is the metric's own; leave it out", key)
		case len(key) > maxMetricName || !metricText.MatchString(key) || len(m.Labels[key]) > maxMetricText:
			bad(field+".labels", "%q is no label of a metric, with a value of at most %d bytes", key, maxMetricText)
		}
	}
}

func validateBounds(b *ProfileBounds, bad report) {
	for _, x := range []struct {
		field       string
		value, most int
	}{{"minCPUs", b.MinCPUs, MaxProfileCPUs}, {"maxCPUs", b.MaxCPUs, MaxProfileCPUs}, {"minPercent", b.MinPercent, MaxProfileShare}, {"maxPercent", b.MaxPercent, MaxProfileShare}} {
		if x.value < 0 || x.value > x.most {
			bad("bounds."+x.field, "%d is not between 1 and %d; leave it out for no bound", x.value, x.most)
		}
	}
	if b.MaxCPUs != 0 && b.MinCPUs > b.MaxCPUs {
		bad("bounds.minCPUs", "%d is more than bounds.maxCPUs, %d", b.MinCPUs, b.MaxCPUs)
	}
	if b.MaxPercent != 0 && b.MinPercent > b.MaxPercent {
		bad("bounds.minPercent", "%d is more than bounds.maxPercent, %d", b.MinPercent, b.MaxPercent)
	}
}

func sortedLabels(set map[string]string) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// NamedProfile is a ServiceProfile with its name.
type NamedProfile struct {
	Namespace, Name string
	Created         time.Time
	ServiceProfile
}

// Compare orders profiles: the oldest first, and of those as old by name.
func (p *NamedProfile) Compare(o *NamedProfile) int {
	return cmp.Or(p.Created.Compare(o.Created), cmp.Compare(p.Namespace, o.Namespace), cmp.Compare(p.Name, o.Name))
}

// Equal reports whether two profiles say the same.
func (p *NamedProfile) Equal(o *NamedProfile) bool {
	return p.Namespace == o.Namespace && p.Name == o.Name && p.Created.Equal(o.Created) && reflect.DeepEqual(&p.ServiceProfile, &o.ServiceProfile)
}

// String is its namespace and name.
func (p *NamedProfile) String() string { return p.Namespace + "/" + p.Name }

// MatchProfile finds the profile of a pod among those of all namespaces: the oldest that selects it; nil: none does. Others are those that do
// too and are not followed, the oldest first.
func MatchProfile(profiles []NamedProfile, namespace string, labels map[string]string) (best *NamedProfile, others []*NamedProfile) {
	for i := range profiles {
		p := &profiles[i]
		switch {
		case p.Namespace != namespace || !p.Selector.Matches(labels):
		case best == nil:
			best = p
		case p.Compare(best) < 0:
			best, others = p, append(others, best)
		default:
			others = append(others, p)
		}
	}
	slices.SortFunc(others, (*NamedProfile).Compare)
	return best, others
}

// Matches reports whether all terms hold. A selector without terms selects nothing, because a whole namespace is not one
// service.
func (s *PodSelector) Matches(labels map[string]string) bool {
	for key, want := range s.MatchLabels {
		if value, ok := labels[key]; !ok || value != want {
			return false
		}
	}
	for i := range s.MatchExpressions {
		if !s.MatchExpressions[i].holds(labels) {
			return false
		}
	}
	return len(s.MatchLabels)+len(s.MatchExpressions) > 0
}

func (t *SelectorTerm) holds(labels map[string]string) bool {
	value, ok := labels[t.Key]
	switch t.Operator {
	case SelectIn:
		return ok && slices.Contains(t.Values, value)
	case SelectNotIn:
		return !ok || !slices.Contains(t.Values, value)
	case SelectExists:
		return ok
	case SelectDoesNotExist:
		return !ok
	}
	return false
}
