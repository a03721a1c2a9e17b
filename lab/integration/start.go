package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/lab/bench"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// settings is what outside.go.txt tells of the scheduler that a test has set up.
type settings struct {
	// Number is the scheduler's in its process.
	Number int
	// Profiles are in the order of their names.
	Profiles []profile
	// Extenders counts them.
	Extenders int
}

// profile is one with all its plugins, and the arguments that it gives to some.
type profile struct {
	Name    string
	Plugins config.Plugins
	Args    map[string]json.RawMessage
}

// RunHilbert runs hilbertd for the test that left its scheduler's settings in dir, set up alike as far as that is possible, until ctx ends.
func RunHilbert(ctx context.Context, dir string, out io.Writer) error {
	data, err := os.ReadFile(filepath.Join(dir, "scheduler.json"))
	if err != nil {
		return fmt.Errorf("the test's scheduler: %w", err)
	}
	var s settings
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("the test's scheduler: %w", err)
	}
	c, err := s.configuration()
	if err != nil {
		return fmt.Errorf("the test's scheduler: %w", err)
	}
	c.ClientConnection.Kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := releasedLease(ctx, c); err != nil {
		return err
	}
	return daemon.Run(ctx, c, daemon.Options{OnSynced: func() { _ = bench.Ready(out) }}) // no one has to read it
}

// releasedLease makes the Lease as its last holder would have given it back. Without one, hilbertd takes a pod that a test has put on a node itself for the work of a
// leader that may still write, and waits until that cannot be.
func releasedLease(ctx context.Context, c *spec.Configuration) error {
	config, err := clientcmd.BuildConfigFromFlags("", c.ClientConnection.Kubeconfig)
	if err != nil {
		return fmt.Errorf("the test's kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client for the test's API server: %w", err)
	}
	_, err = client.CoordinationV1().Leases(c.LeaderElection.Namespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: c.LeaderElection.Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new(string)},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("lease for the test's scheduler: %w", err)
	}
	return nil
}

// configuration is a hilbertd that schedules as these settings say. What has no counterpart is an error: a test of it is left out.
func (s *settings) configuration() (*spec.Configuration, error) {
	if s.Extenders > 0 {
		return nil, errors.New("Hilbert calls no extenders")
	}
	if len(s.Profiles) == 0 {
		return nil, errors.New("no profile")
	}
	c := spec.Default()
	// Several schedulers may follow each other, or run at once, on one API server: each leads by itself.
	c.LeaderElection.Name = fmt.Sprintf("hilbert-%d", s.Number)
	c.Server.BindAddress = "127.0.0.1:0"
	c.Scheduling.Events.Scheduled = true
	c.Logging.Level = "debug" // a test that fails has nothing else to go by
	c.SchedulerName = s.Profiles[0].Name
	for i := range s.Profiles {
		p := &s.Profiles[i]
		scores, ratio, err := p.scores()
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", p.Name, err)
		}
		spread, err := p.defaultSpread()
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", p.Name, err)
		}
		if i > 0 && spread != c.Scheduling.DefaultSpread {
			return nil, fmt.Errorf("profile %s: Hilbert has the default spread for all profiles", p.Name)
		}
		c.Scheduling.DefaultSpread = spread
		if i == 0 {
			c.Scheduling.Scores = scores
			if len(ratio) > 0 {
				c.Scheduling.CapacityRatio = ratio
			}
			continue
		}
		c.Scheduling.Profiles = append(c.Scheduling.Profiles, spec.SchedulingProfile{
			Name: fmt.Sprintf("profile-%d", i), SchedulerNames: []string{p.Name}, Scores: scores, CapacityRatio: ratio,
		})
	}
	if err := configfile.Check(c); err != nil {
		return nil, fmt.Errorf("as a configuration of hilbertd: %w", err)
	}
	return c, nil
}

// scoreOf is Hilbert's name for the score of a plugin; that of NodeResourcesFit depends on its strategy.
var scoreOf = map[string]string{
	names.NodeResourcesBalancedAllocation: "BalancedAllocation",
	names.ImageLocality:                   "ImageLocality",
	names.InterPodAffinity:                "InterPodAffinity",
	names.NodeAffinity:                    "NodeAffinity",
	names.PodTopologySpread:               "PodTopologySpread",
	names.TaintToleration:                 "TaintToleration",
	names.VolumeBinding:                   "StorageCapacity",
	names.DynamicResources:                "DynamicResources",
}

// scores weighs Hilbert's scores as the profile weighs its plugins, and nothing else.
func (p *profile) scores() (map[string]int64, []spec.RatioPoint, error) {
	scores := make(map[string]int64)
	for _, name := range rules.ScoreNames() {
		scores[name] = 0
	}
	var ratio []spec.RatioPoint
	for _, plugin := range p.Plugins.Score.Enabled {
		name, known := scoreOf[plugin.Name]
		if plugin.Name == names.NodeResourcesFit {
			var err error
			if name, ratio, err = p.fit(); err != nil {
				return nil, nil, err
			}
			known = true
		}
		if !known {
			return nil, nil, fmt.Errorf("the score of plugin %s has no counterpart", plugin.Name)
		}
		scores[name] = int64(plugin.Weight)
	}
	return scores, ratio, p.knownPlugins()
}

// knownPlugins refuses plugins that are the test's own, and a profile without preemption: Hilbert has no switch for that.
func (p *profile) knownPlugins() error {
	for _, point := range [][]config.Plugin{
		p.Plugins.PreEnqueue.Enabled, p.Plugins.QueueSort.Enabled, p.Plugins.PreFilter.Enabled, p.Plugins.Filter.Enabled, p.Plugins.PostFilter.Enabled,
		p.Plugins.PreScore.Enabled, p.Plugins.Reserve.Enabled, p.Plugins.Permit.Enabled, p.Plugins.PreBind.Enabled, p.Plugins.Bind.Enabled, p.Plugins.PostBind.Enabled,
	} {
		for _, plugin := range point {
			if !slices.Contains(upstreamPlugins, plugin.Name) && !slices.Contains(idlePlugins, plugin.Name) {
				return fmt.Errorf("plugin %s is the test's own", plugin.Name)
			}
		}
	}
	for what, set := range map[string]config.PluginSet{"filters": p.Plugins.Filter, "preemption": p.Plugins.PostFilter} {
		if len(set.Enabled) == 0 {
			return fmt.Errorf("it has no %s, and Hilbert has no switch for that", what)
		}
	}
	return nil
}

// upstreamPlugins are those of the default profile that act.
var upstreamPlugins = []string{
	names.PrioritySort, names.DefaultBinder, names.DefaultPreemption, names.DynamicResources, names.GangScheduling, names.ImageLocality, names.InterPodAffinity,
	names.NodeAffinity, names.NodeDeclaredFeatures, names.NodeName, names.NodePorts, names.NodeResourcesBalancedAllocation, names.NodeResourcesFit,
	names.NodeUnschedulable, names.NodeVolumeLimits, names.PodTopologySpread, names.SchedulingGates, names.TaintToleration, names.TopologyPlacementGenerator,
	names.VolumeBinding, names.VolumeRestrictions, names.VolumeZone, names.DeferredPodScheduling,
}

// idlePlugins are tests' own that let everything pass, except in subtests that are left out.
var idlePlugins = []string{"token-filter"}

// fit is the score for NodeResourcesFit.
func (p *profile) fit() (string, []spec.RatioPoint, error) {
	var args config.NodeResourcesFitArgs
	if given, found := p.Args[names.NodeResourcesFit]; found {
		if err := json.Unmarshal(given, &args); err != nil {
			return "", nil, fmt.Errorf("arguments of %s: %w", names.NodeResourcesFit, err)
		}
	}
	if args.ScoringStrategy == nil {
		return string(config.LeastAllocated), nil, nil
	}
	switch args.ScoringStrategy.Type {
	case config.LeastAllocated, config.MostAllocated:
		return string(args.ScoringStrategy.Type), nil, nil
	case config.RequestedToCapacityRatio:
		var ratio []spec.RatioPoint
		for _, point := range args.ScoringStrategy.RequestedToCapacityRatio.Shape {
			ratio = append(ratio, spec.RatioPoint{Utilization: int64(point.Utilization), Score: int64(point.Score) * 10}) // upstream counts to 10
		}
		return string(config.RequestedToCapacityRatio), ratio, nil
	}
	return "", nil, fmt.Errorf("scoring strategy %s has no counterpart", args.ScoringStrategy.Type)
}

// defaultSpread is that of the profile, as far as Hilbert has it, once the other arguments are found to be the defaults.
func (p *profile) defaultSpread() (string, error) {
	for _, plugin := range slices.Sorted(maps.Keys(p.Args)) {
		switch plugin {
		case interpodaffinity.Name:
			var args config.InterPodAffinityArgs
			if err := json.Unmarshal(p.Args[plugin], &args); err != nil {
				return "", fmt.Errorf("arguments of %s: %w", plugin, err)
			}
			if args.HardPodAffinityWeight != 1 || args.IgnorePreferredTermsOfExistingPods {
				return "", fmt.Errorf("the arguments of %s have no counterpart", plugin)
			}
		case names.NodeAffinity:
			var args config.NodeAffinityArgs
			if err := json.Unmarshal(p.Args[plugin], &args); err != nil {
				return "", fmt.Errorf("arguments of %s: %w", plugin, err)
			}
			if args.AddedAffinity != nil {
				return "", fmt.Errorf("the arguments of %s have no counterpart", plugin)
			}
		}
	}
	given, found := p.Args[names.PodTopologySpread]
	if !found {
		return spec.Default().Scheduling.DefaultSpread, nil
	}
	var args config.PodTopologySpreadArgs
	if err := json.Unmarshal(given, &args); err != nil {
		return "", fmt.Errorf("arguments of %s: %w", names.PodTopologySpread, err)
	}
	switch {
	case args.DefaultingType != config.ListDefaulting:
		return spec.DefaultSpreadSystem, nil
	case len(args.DefaultConstraints) == 0:
		return spec.DefaultSpreadNone, nil
	}
	return "", errors.New("Hilbert has no list of default constraints of spread")
}
