package diff

import (
	"fmt"
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// Plugin says what this comparison does with one of upstream's plugins.
type Plugin struct {
	// Runs: the real plugin runs in the comparison. Otherwise Why says why it need not.
	Runs bool
	Why  string
}

// Plugins is every plugin of upstream's default profile. A test fails when upstream has one that is not here.
var Plugins = map[string]Plugin{
	names.NodeUnschedulable:               {Runs: true},
	names.NodeName:                        {Runs: true},
	names.TaintToleration:                 {Runs: true},
	names.NodeAffinity:                    {Runs: true},
	names.NodePorts:                       {Runs: true},
	names.NodeResourcesFit:                {Runs: true},
	names.PodTopologySpread:               {Runs: true},
	names.InterPodAffinity:                {Runs: true},
	names.NodeResourcesBalancedAllocation: {Runs: true},
	names.ImageLocality:                   {Runs: true},
	names.NodeDeclaredFeatures:            {Runs: true},

	names.PrioritySort:  {Runs: true, Why: "no framework without it; it says who is next, not where"},
	names.DefaultBinder: {Runs: true, Why: "no framework without it; it is never called"},

	names.SchedulingGates:    {Why: "who may be placed at all is the queue's business"},
	names.DefaultPreemption:  {Why: "it runs beside the framework, in some of the histories; see contest"},
	names.VolumeRestrictions: {Why: "it runs in TestVolumes, on worlds of their own"},
	names.NodeVolumeLimits:   {Why: "it runs in TestVolumes, on worlds of their own"},
	names.VolumeBinding:      {Why: "it runs in TestVolumes, on worlds of their own"},
	names.VolumeZone:         {Why: "it runs in TestVolumes, on worlds of their own"},
	names.DynamicResources:   {Why: "it runs in TestDevices, on worlds of their own"},
}

// scoreNames are the plugins that score, in the order in which Opinion keeps them.
var scoreNames = [...]string{
	names.TaintToleration,
	names.NodeAffinity,
	names.NodeResourcesFit,
	names.PodTopologySpread,
	names.InterPodAffinity,
	names.NodeResourcesBalancedAllocation,
	names.ImageLocality,
}

// scoreIndex is the position of a plugin in scoreNames, -1 for none.
func scoreIndex(name string) int {
	for i := range scoreNames {
		if scoreNames[i] == name {
			return i
		}
	}
	return -1
}

// Profile is a row of the comparison: a way to configure both schedulers.
type Profile struct {
	Name string
	// fit is how NodeResourcesFit scores: upstream's name of the strategy, and ours of the score.
	fit config.ScoringStrategyType
	// shape is RequestedToCapacityRatio's.
	shape []point
	// bare: pods without spread constraints get none.
	bare bool
	// weights are in the place of the default ones, by scoreNames.
	weights *[len(scoreNames)]int32
}

// point of a broken line: the score, 0 to 10, at a utilization in percent.
type point struct{ utilization, score int32 }

// Profiles are the rows of the comparison. The first is the default profile.
var Profiles = []Profile{
	{Name: "default", fit: config.LeastAllocated},
	{Name: "most-allocated", fit: config.MostAllocated},
	{Name: "capacity-ratio", fit: config.RequestedToCapacityRatio, shape: []point{{0, 0}, {37, 9}, {70, 10}, {95, 3}}},
	{Name: "no-default-spread", fit: config.LeastAllocated, bare: true},
	{Name: "other-weights", fit: config.LeastAllocated, weights: &[len(scoreNames)]int32{1, 5, 3, 7, 2, 4, 6}},
}

// profileNamed returns the row with the name.
func profileNamed(name string) (*Profile, bool) {
	for i := range Profiles {
		if Profiles[i].Name == name {
			return &Profiles[i], true
		}
	}
	return nil, false
}

// upstream is upstream's default profile without the plugins that the table leaves out, and with what is special about the row.
func (p *Profile) upstream() (*config.KubeSchedulerProfile, error) {
	c, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("upstream's default configuration: %w", err)
	}
	out := &c.Profiles[0]
	out.Plugins.MultiPoint.Enabled = slices.DeleteFunc(out.Plugins.MultiPoint.Enabled, func(e config.Plugin) bool { return !Plugins[e.Name].Runs })
	out.PluginConfig = slices.DeleteFunc(out.PluginConfig, func(e config.PluginConfig) bool { return !Plugins[e.Name].Runs })
	for i := range out.Plugins.MultiPoint.Enabled {
		e := &out.Plugins.MultiPoint.Enabled[i]
		if k := scoreIndex(e.Name); k >= 0 && p.weights != nil {
			e.Weight = p.weights[k]
		}
	}
	for _, e := range out.PluginConfig {
		switch args := e.Args.(type) {
		case *config.NodeResourcesFitArgs:
			if p.fit != args.ScoringStrategy.Type {
				args.ScoringStrategy = p.strategy()
			}
		case *config.PodTopologySpreadArgs:
			if p.bare {
				args.DefaultingType = config.ListDefaulting
			}
		}
	}
	return out, nil
}

func (p *Profile) strategy() *config.ScoringStrategy {
	out := &config.ScoringStrategy{Type: p.fit, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}}
	if p.shape != nil {
		out.RequestedToCapacityRatio = &config.RequestedToCapacityRatioParam{}
	}
	for _, at := range p.shape {
		shape := &out.RequestedToCapacityRatio.Shape
		*shape = append(*shape, config.UtilizationShapePoint{Utilization: at.utilization, Score: at.score})
	}
	return out
}

// ours is the row as Hilbert is configured: scores by name, which our table ties to upstream's plugins. What is Hilbert's own is off.
func (p *Profile) ours(defaults *[len(scoreNames)]int64) (*rules.Profile, []facts.SpreadDefault, error) {
	weights := make(map[string]int64)
	set := func(name, plugin string) {
		k := scoreIndex(plugin)
		switch {
		case k < 0, plugin == names.NodeResourcesFit && name != string(p.fit):
			weights[name] = 0
		case p.weights != nil:
			weights[name] = int64(p.weights[k])
		case plugin == names.NodeResourcesFit:
			weights[name] = defaults[k]
		}
	}
	for i := range rules.LocalScores {
		set(rules.LocalScores[i].Name, rules.LocalScores[i].Plugin)
	}
	for i := range rules.NormalizedScores {
		set(rules.NormalizedScores[i].Name, rules.NormalizedScores[i].Plugin)
	}
	profile, err := rules.NewProfile(weights)
	if err != nil {
		return nil, nil, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	if p.shape != nil {
		var line []spec.RatioPoint
		for _, at := range p.shape {
			line = append(line, spec.RatioPoint{Utilization: int64(at.utilization), Score: int64(at.score) * 10})
		}
		profile.WithRatio(line)
	}
	if p.bare {
		return profile, nil, nil
	}
	return profile, facts.SystemSpreadDefaults, nil
}
