package spec

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDefaultIsValid(t *testing.T) {
	if err := Validate(Default()); err != nil {
		t.Error(err)
	}
}

// TestZeroIsWritten: a configuration in which any one field, or all fields of a part, are zero is the same when it was written and read again, as /configz writes it.
func TestZeroIsWritten(t *testing.T) {
	var visit func(of reflect.Type, path string, index []int)
	count := 0
	visit = func(of reflect.Type, path string, index []int) {
		for i := range of.NumField() {
			field, index := of.Field(i), append(slices.Clip(index), i)
			path := path + "." + field.Name
			c := Default()
			at := reflect.ValueOf(c).Elem().FieldByIndex(index)
			if at.Kind() == reflect.Pointer && !at.IsNil() {
				at.Elem().SetZero() // a pointer to zero is one, nil is a field that was left out
			} else {
				at.SetZero()
			}
			Complete(c)
			text, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			again := New()
			decoder := json.NewDecoder(bytes.NewReader(text))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(again); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			Complete(again)
			count++
			if !reflect.DeepEqual(c, again) {
				t.Errorf("%s of zero is another configuration once it was written and read (%s.%s)", path, of.Name(), field.Name)
			}
			inner := field.Type
			if inner.Kind() == reflect.Pointer && !at.IsNil() {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				visit(inner, path, index)
			}
		}
	}
	visit(reflect.TypeFor[Configuration](), "Configuration", nil)
	if count < 100 {
		t.Errorf("%d fields were tried", count)
	}
}

// Whatever single number, duration, text or switch a file sets to its zero is zero afterwards, and everything else has its default.
func TestZeroIsZero(t *testing.T) {
	var visit func(of reflect.Type, path []string, index []int)
	count := 0
	visit = func(of reflect.Type, path []string, index []int) {
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			path, index := append(slices.Clip(path), name), append(slices.Clip(index), i)
			if field.Anonymous {
				path = path[:len(path)-1] // its fields stand beside it
			}
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			var zero string
			switch kind := inner.Kind(); {
			case kind == reflect.Struct:
				visit(inner, path, index)
				continue
			case kind == reflect.Slice, kind == reflect.Map:
				continue // a list that is empty is one that was left out
			case inner == reflect.TypeFor[Duration]():
				zero = `"0s"`
			case kind == reflect.String:
				zero = `""`
			case kind == reflect.Bool:
				zero = "false"
			default:
				zero = "0"
			}
			for _, word := range slices.Backward(path) {
				zero = `{"` + word + `":` + zero + "}"
			}
			count++
			c, want := New(), New()
			if err := json.Unmarshal([]byte(zero), c); err != nil {
				t.Fatalf("%s: %v", zero, err)
			}
			at := reflect.ValueOf(want).Elem().FieldByIndex(index)
			if at.Kind() == reflect.Pointer {
				at.Set(reflect.New(inner))
			} else {
				at.SetZero()
			}
			Complete(c)
			Complete(want)
			if got := reflect.Indirect(reflect.ValueOf(c).Elem().FieldByIndex(index)); !got.IsZero() {
				t.Errorf("%s gives %v", zero, got)
			}
			if !reflect.DeepEqual(c, want) {
				t.Errorf("%s changes more than its field", zero)
			}
		}
	}
	visit(reflect.TypeFor[Configuration](), nil, nil)
	if count < 100 {
		t.Errorf("%d fields were tried", count)
	}
}

func TestMaxAheadFollowsMaxInFlight(t *testing.T) {
	for text, want := range map[string]int{`{}`: 128, `{"maxInFlight":7}`: 14, `{"maxInFlight":7,"maxAhead":3}`: 3} {
		c := New()
		if err := json.Unmarshal([]byte(text), &c.Scheduling.Binding); err != nil {
			t.Fatal(err)
		}
		Complete(c)
		if got := c.Scheduling.Binding.MaxAhead; got != want {
			t.Errorf("%s: maxAhead is %d, want %d", text, got, want)
		}
	}
}

// TestValidateNamesTheField breaks one field at a time; the message must name it.
func TestValidateNamesTheField(t *testing.T) {
	for field, spoil := range map[string]func(*Configuration){
		"apiVersion":           func(c *Configuration) { c.APIVersion = "v2" },
		"kind":                 func(c *Configuration) { c.Kind = "Deployment" },
		"roles":                func(c *Configuration) { c.Roles = []Role{RoleBinder} },
		"roles[3]":             func(c *Configuration) { c.Roles = append(c.Roles, "cook") },
		"peers.bindAddress":    func(c *Configuration) { c.Peers.BindAddress = ":7411" },
		"peers.addresses":      func(c *Configuration) { c.Roles = []Role{RoleScheduler} },
		"peers.addresses[0]":   func(c *Configuration) { c.Roles, c.Peers.Addresses = []Role{RoleScheduler}, []string{"leader"} },
		"peers.caFile":         func(c *Configuration) { c.Roles = []Role{RoleScheduler} },
		"peers.schedulerNames": func(c *Configuration) { c.Roles = []Role{RoleDispatcher, RoleBinder} },
		"peers.tokenAudience": func(c *Configuration) {
			c.Roles, c.Peers.TokenUsers = []Role{RoleDispatcher, RoleBinder}, []string{"x"}
		},
		"peers.tokenUsers":                            func(c *Configuration) { c.Roles, c.Peers.TokenAudience = []Role{RoleDispatcher, RoleBinder}, "x" },
		"peers.tokenFile":                             func(c *Configuration) { c.Roles, c.Peers.TokenFile = []Role{RoleDispatcher, RoleBinder}, "x" },
		"peers.serverName":                            func(c *Configuration) { c.Roles, c.Peers.ServerName = []Role{RoleDispatcher, RoleBinder}, "x" },
		"leaderElection.renewDeadline":                func(c *Configuration) { c.LeaderElection.RenewDeadline = 1 },
		"leaderElection.leaseDuration":                func(c *Configuration) { c.LeaderElection.LeaseDuration = c.LeaderElection.RenewDeadline },
		"leaderElection.retryPeriod":                  func(c *Configuration) { c.LeaderElection.RetryPeriod = -1 },
		"server.tlsCertFile":                          func(c *Configuration) { c.Server.TLSPrivateKeyFile = "key.pem" },
		"tracing.endpoint":                            func(c *Configuration) { c.Tracing.Endpoint = "collector:4318" },
		"tracing.samplingRatePerMillion":              func(c *Configuration) { c.Tracing.SamplingRatePerMillion = 1_000_001 },
		"logging.level":                               func(c *Configuration) { c.Logging.Level = "loud" },
		"logging.format":                              func(c *Configuration) { c.Logging.Format = "xml" },
		"scheduling.binding.writeTimeout":             func(c *Configuration) { c.Scheduling.Binding.WriteTimeout = c.LeaderElection.RenewDeadline },
		"scheduling.binding.maxInFlight":              func(c *Configuration) { c.Scheduling.Binding.MaxInFlight = -1 },
		"scheduling.binding.maxAhead":                 func(c *Configuration) { c.Scheduling.Binding.MaxAhead = -1 },
		"scheduling.binding.maxAttempts":              func(c *Configuration) { c.Scheduling.Binding.MaxAttempts = -1 },
		"scheduling.conditions.perSecond":             func(c *Configuration) { c.Scheduling.Conditions.PerSecond = -1 },
		"scheduling.conditions.burst":                 func(c *Configuration) { c.Scheduling.Conditions.Burst = -1 },
		"scheduling.maxClassIndexes":                  func(c *Configuration) { c.Scheduling.MaxClassIndexes = -1 },
		"scheduling.schedulers":                       func(c *Configuration) { c.Scheduling.Schedulers = MaxSchedulers + 1 },
		"scheduling.units.timeout":                    func(c *Configuration) { c.Scheduling.Units.Timeout = -1 },
		"scheduling.units.reserveAfter":               func(c *Configuration) { c.Scheduling.Units.ReserveAfter = -1 },
		"scheduling.units.repairTimeout":              func(c *Configuration) { c.Scheduling.Units.RepairTimeout = -1 },
		"scheduling.units.maxReservations":            func(c *Configuration) { c.Scheduling.Units.MaxReservations = -1 },
		"scheduling.topology.levels":                  func(c *Configuration) { c.Scheduling.Topology.Levels = strings.Split("a b c d e f g h i", " ") },
		"scheduling.topology.levels[1]":               func(c *Configuration) { c.Scheduling.Topology.Levels = []string{"rack", "rack"} },
		"metrics.forecastQuantile":                    func(c *Configuration) { c.Metrics.ForecastQuantile = 1 },
		"rescheduling.mode":                           func(c *Configuration) { c.Rescheduling.Mode = "On" },
		"rescheduling.interval":                       func(c *Configuration) { c.Rescheduling.Interval = 1 },
		"rescheduling.maxMoves":                       func(c *Configuration) { c.Rescheduling.MaxMoves = 0 },
		"rescheduling.maxLoadPercent":                 func(c *Configuration) { c.Rescheduling.MaxLoadPercent = 101 },
		"rescheduling.maxInFlight":                    func(c *Configuration) { c.Rescheduling.MaxInFlight = 257 },
		"rescheduling.maxWorkloadTimeLossPermille":    func(c *Configuration) { c.Rescheduling.MaxWorkloadTimeLossPermille = 0 },
		"rescheduling.maxWorkloadPercent":             func(c *Configuration) { c.Rescheduling.MaxWorkloadPercent = 0 },
		"rescheduling.minAge":                         func(c *Configuration) { c.Rescheduling.MinAge = -1 },
		"rescheduling.podCooldown":                    func(c *Configuration) { c.Rescheduling.PodCooldown = Duration(maxCooldown) + 1 },
		"rescheduling.workloadCooldown":               func(c *Configuration) { c.Rescheduling.WorkloadCooldown = -1 },
		"rescheduling.horizon":                        func(c *Configuration) { c.Rescheduling.Horizon = -1 },
		"rescheduling.evictionRequestTimeout":         func(c *Configuration) { c.Rescheduling.EvictionRequestTimeout = -1 },
		"node.devices.owner":                          func(c *Configuration) { c.Node.Devices.Owner = OwnerNone },
		"scheduling.partitions.when":                  func(c *Configuration) { c.Scheduling.Partitions.When = "Sometimes" },
		"scheduling.partitions.splitAllocatedPercent": func(c *Configuration) { c.Scheduling.Partitions.SplitAllocatedPercent = 101 },
		"scheduling.partitions.mergeAllocatedPercent": func(c *Configuration) { c.Scheduling.Partitions.MergeAllocatedPercent = 91 },
		"scheduling.partitions.splitPodsPerSecond":    func(c *Configuration) { c.Scheduling.Partitions.SplitPodsPerSecond = -1 },
		"scheduling.partitions.mergePodsPerSecond":    func(c *Configuration) { c.Scheduling.Partitions.MergePodsPerSecond = 2001 },
		"scheduling.partitions.splitRejectedPercent":  func(c *Configuration) { c.Scheduling.Partitions.SplitRejectedPercent = -1 },
		"scheduling.partitions.splitAfter":            func(c *Configuration) { c.Scheduling.Partitions.SplitAfter = -1 },
		"scheduling.partitions.mergeAfter":            func(c *Configuration) { c.Scheduling.Partitions.MergeAfter = -1 },
		"node.devices.otherResources[1]": func(c *Configuration) {
			c.Node.Devices.OtherResources = []string{"nvidia.com/hostdev", "nvidia.com/mig-1g.10gb"}
		},
		"node.devices.otherResources[0]": func(c *Configuration) { c.Node.Devices.OtherResources = []string{"rdma/shared"} },
		"node.devices.toolkitConfig":     func(c *Configuration) { c.Node.Devices.ToolkitConfig = "config.toml" },
		"node.devices.interval":          func(c *Configuration) { c.Node.Devices.Interval = Duration(time.Millisecond) },
		"node.memory.oom.order":          func(c *Configuration) { c.Node.Memory.OOM.Order = "Kubelet" },
		"node.eviction.online.mode":      func(c *Configuration) { c.Node.Eviction.Online.Mode = "Evict" },
		"node.eviction.network.perHour":  func(c *Configuration) { c.Node.Eviction.Network.PerHour = -1 },
		"node.eviction.network.least":    func(c *Configuration) { c.Node.Eviction.Network.Least = 0 },
		"node.plugins.directory":         func(c *Configuration) { c.Node.Plugins.Directory = "plugins" },
		"node.plugins.timeout":           func(c *Configuration) { c.Node.Plugins.Timeout = Duration(2 * time.Second) },
		"node.plugins.interval":          func(c *Configuration) { c.Node.Plugins.Interval = 0 },
		"node.plugins.mounts[1]":         func(c *Configuration) { c.Node.Plugins.Mounts = []string{"/opt/fpga", "/opt/../etc"} },
		"scheduling.backoff":             func(c *Configuration) { c.Scheduling.Backoff.Max = 1 },
		"scheduling.scores.LeastAllocated": func(c *Configuration) {
			c.Scheduling.Scores = map[string]int64{"LeastAllocated": -1}
		},
	} {
		c := Default()
		spoil(c)
		if err := Validate(c); err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func TestDurationReadsAndWrites(t *testing.T) {
	var d Duration
	if err := json.Unmarshal([]byte(`"1m30s"`), &d); err != nil || d.D() != 90*time.Second {
		t.Errorf("1m30s reads as %v (%v)", d.D(), err)
	}
	if text, err := json.Marshal(d); err != nil || string(text) != `"1m30s"` {
		t.Errorf("90s writes as %s (%v)", text, err)
	}
	for _, bad := range []string{`15`, `"15"`, `"soon"`, `null1`} {
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("%s was read as a duration", bad)
		}
	}
}
