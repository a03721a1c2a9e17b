package v1alpha1

import (
	"encoding/json"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/deploy/crds"
)

// node is as much of an OpenAPI schema as the comparison needs.
type node struct {
	Properties           map[string]*node
	Items                *node
	AdditionalProperties *node
	Required             []string
	Enum                 []string
	Type                 string
	MaxItems             int
	MaxProperties        int
	MaxLength            int
	Maximum              *int64
	Format               string
}

func definition(t *testing.T) (names map[string]string, columns []string, schema *node, status bool) {
	t.Helper()
	text, err := fs.ReadFile(crds.Files, "customnoderesource.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Metadata struct{ Name string }
		Spec     struct {
			Group, Scope string
			Names        struct {
				Kind, Plural string
				ShortNames   []string
			}
			Versions []struct {
				Name                     string
				Subresources             map[string]any
				AdditionalPrinterColumns []struct {
					Name     string
					Priority int
				}
				Schema struct{ OpenAPIV3Schema *node }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	v := crd.Spec.Versions[0]
	for _, c := range v.AdditionalPrinterColumns {
		if c.Priority == 0 {
			columns = append(columns, c.Name)
		}
	}
	names = map[string]string{
		"name": crd.Metadata.Name, "group": crd.Spec.Group, "scope": crd.Spec.Scope, "kind": crd.Spec.Names.Kind, "plural": crd.Spec.Names.Plural,
		"version": v.Name, "short": strings.Join(crd.Spec.Names.ShortNames, ","),
	}
	_, status = v.Subresources["status"]
	return names, columns, v.Schema.OpenAPIV3Schema, status
}

func TestDefinitionNamesTheTypes(t *testing.T) {
	names, columns, _, status := definition(t)
	want := map[string]string{
		"name": CustomNodeResources + "." + Group, "group": Group, "scope": "Cluster", "kind": spec.NodeKind, "plural": CustomNodeResources,
		"version": Version, "short": "cnr",
	}
	if !maps.Equal(names, want) || !status {
		t.Errorf("got %v, status %v; want %v", names, status, want)
	}
	if got := strings.Join(columns, ","); got != "Mode,Zones,Free CPUs,Dedicated,GPUs,Headroom,Ready,Observed,Age" {
		t.Errorf("columns %s", got)
	}
	if GroupVersion.String() != spec.NodeAPIVersion {
		t.Errorf("version %s, and %s in api/spec", GroupVersion, spec.NodeAPIVersion)
	}
}

// The definition has the fields of the Go types and no others, and bounds every list, map, number and text.
func TestDefinitionHasTheFields(t *testing.T) {
	_, _, s, _ := definition(t)
	delete(s.Properties, "apiVersion")
	delete(s.Properties, "kind")
	s.Properties["metadata"] = nil
	compare(t, "", s, reflect.TypeFor[CustomNodeResource]())
}

func compare(t *testing.T, path string, s *node, typ reflect.Type) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	kind := typ.Kind().String()
	switch {
	case s == nil:
		return
	case typ == reflect.TypeFor[metav1.Time]():
		kind = "string"
	case typ.Kind() == reflect.Struct:
		kind = "object"
		compareFields(t, path, s, typ)
	case typ.Kind() == reflect.Map:
		kind = "object"
		if s.MaxProperties == 0 {
			t.Errorf("%s: a map without a bound", path)
		}
		compare(t, path+"[]", s.AdditionalProperties, typ.Elem())
	case typ.Kind() == reflect.Slice:
		kind = "array"
		if s.MaxItems == 0 {
			t.Errorf("%s: a list without a bound", path)
		}
		compare(t, path+"[]", s.Items, typ.Elem())
	case typ.Kind() == reflect.Int64, typ.Kind() == reflect.Int:
		kind = "integer"
		if s.Maximum == nil && !strings.HasSuffix(path, ".observedGeneration") {
			t.Errorf("%s: a number without a bound", path)
		}
	case typ.Kind() == reflect.Bool:
		kind = "boolean"
	case typ.Kind() == reflect.String:
		if s.MaxLength == 0 && len(s.Enum) == 0 {
			t.Errorf("%s: a text without a bound", path)
		}
	}
	if s.Type != kind {
		t.Errorf("%s: type %q, want %q", path, s.Type, kind)
	}
}

// deepest is where the tree of zones ends.
const deepest = ".status.zones[].children[].children[]"

func compareFields(t *testing.T, path string, s *node, typ reflect.Type) {
	t.Helper()
	have := make(map[string]reflect.Type)
	var always []string
	collect(typ, have, &always)
	if path == deepest {
		delete(have, "children")
	}
	got, want := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(have))
	if !slices.Equal(got, want) {
		t.Errorf("%s: fields %v, want %v", path, got, want)
		return
	}
	// What is always written is required: a reader must not take what was never said for zero.
	for _, name := range always {
		if !slices.Contains(s.Required, name) {
			t.Errorf("%s.%s is always written, but not required", path, name)
		}
	}
	for _, name := range want {
		compare(t, path+"."+name, s.Properties[name], have[name])
	}
}

// collect finds the fields of a type and of what it embeds inline, and those of them that are never left out.
func collect(typ reflect.Type, have map[string]reflect.Type, always *[]string) {
	for field := range typ.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name != "":
			have[name] = field.Type
			if !strings.Contains(options, "omit") {
				*always = append(*always, name)
			}
		case options == "inline" && field.Type != reflect.TypeFor[metav1.TypeMeta]():
			collect(field.Type, have, always)
		}
	}
}

// The values of the enumerations are the constants.
func TestDefinitionHasTheValues(t *testing.T) {
	_, _, s, _ := definition(t)
	status := s.Properties["status"].Properties
	zones := status["zones"].Items.Properties
	numa := zones["children"].Items
	devices := []string{spec.ZoneGPU, spec.ZoneNIC, spec.ZoneDisk}
	isolation := []string{spec.IsolationAccounting, spec.IsolationSoft, spec.IsolationHard}
	hanging := status["devices"].Properties
	for _, c := range []struct{ got, want []string }{
		{status["mode"].Enum, []string{spec.ModeAgent, spec.ModeKubelet}},
		{zones["type"].Enum, append([]string{spec.ZoneSocket}, devices...)},
		{numa.Properties["type"].Enum, []string{spec.ZoneNUMA}},
		{numa.Properties["children"].Items.Properties["type"].Enum, devices},
		{numa.Required, []string{"type", "name", "capacity", "allocatable"}},
		{hanging["owner"].Enum, []string{spec.OwnerHilbert, spec.OwnerKubelet, spec.OwnerNone}},
		{hanging["gpus"].Items.Properties["isolation"].Items.Enum, isolation},
		{hanging["allocations"].Items.Properties["isolation"].Enum, isolation},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
	if !slices.Contains(status["mode"].Enum, spec.ModeAgent) || !slices.Contains(s.Properties["status"].Required, "observedAt") {
		t.Error("a report need not say when it is from")
	}
}

func full() *CustomNodeResource {
	amounts := func() *spec.ZoneAmounts { return &spec.ZoneAmounts{CPUs: 4, CPUSet: "0-3", MemoryMiB: 100} }
	return &CustomNodeResource{
		ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: []metav1.OwnerReference{{Name: "n"}}},
		Status: CustomNodeResourceStatus{
			NodeStatus: spec.NodeStatus{
				Devices: devices(),
				Mode:    spec.ModeAgent, ThreadsPerCore: 2, Pools: []spec.Pool{{Name: spec.PoolShare}},
				Zones: []spec.Zone{{Type: spec.ZoneSocket, Name: "0", Children: []spec.Zone{{
					Type: spec.ZoneNUMA, Name: "0", Capacity: amounts(), Allocatable: amounts(),
					Allocations: []spec.ZoneAllocation{{Name: "p"}},
					Children:    []spec.Zone{{Type: spec.ZoneNIC, Name: "d", Attributes: map[string]string{"names": "eth0"}}},
				}}}},
			},
			Conditions: []metav1.Condition{{Type: spec.ConditionAgentReady}},
		},
	}
}

func devices() *spec.Devices {
	place := func() spec.DevicePlace {
		return spec.DevicePlace{Switch: new(0), NUMA: new(1), Socket: new(0)}
	}
	return &spec.Devices{
		Owner: spec.OwnerHilbert, Reason: "r",
		GPUs: []spec.GPU{{
			UUID: "u", Address: "a", Model: "m", MemoryMiB: 1, Multiprocessors: 132, Grain: 8, Clients: 48, Isolation: []string{spec.IsolationSoft},
			Instances: []spec.GPUInstance{{Name: "mig-1", Milli: 143, MemoryMiB: 1}}, DevicePlace: place(), Links: []int{0}, Closed: "c",
		}},
		NICs:        []spec.NIC{{Address: "b", Name: "n", BandwidthMbit: 1, Functions: 2, RDMA: true, DevicePlace: place(), Closed: "c"}},
		Allocations: []spec.DeviceAllocation{{Namespace: "ns", Name: "p", UID: "u", GPUs: "0", NICs: "0:1", Isolation: spec.IsolationSoft, Moved: true}},
	}
}

// What is said of devices comes back as it was, by its names.
func TestDevicesAreRead(t *testing.T) {
	said, err := json.Marshal(spec.NodeStatus{Devices: devices()})
	if err != nil {
		t.Fatal(err)
	}
	var read spec.NodeStatus
	if err := json.Unmarshal(said, &read); err != nil || !reflect.DeepEqual(read.Devices, devices()) {
		t.Errorf("%v: %s is read as %+v", err, said, read.Devices)
	}
	if strings.Contains(string(said), "DevicePlace") || !strings.Contains(string(said), `"switch":0,"numa":1,"socket":0`) {
		t.Errorf("where a device hangs stands elsewhere: %s", said)
	}
}

func TestDeepCopySharesNothing(t *testing.T) {
	original := &CustomNodeResourceList{Items: []CustomNodeResource{*full()}}
	copied, ok := original.DeepCopyObject().(*CustomNodeResourceList)
	if !ok || !reflect.DeepEqual(original, copied) {
		t.Fatalf("got %+v", copied)
	}
	c := &copied.Items[0]
	numa := &c.Status.Zones[0].Children[0]
	c.OwnerReferences[0].Name, c.Status.Pools[0].Name, c.Status.Zones[0].Name, c.Status.Conditions[0].Type = "x", "x", "x", "x"
	numa.Name, numa.Capacity.CPUs, numa.Allocatable.CPUs, numa.Allocations[0].Name = "x", 9, 9, "x"
	numa.Children[0].Attributes["names"] = "x"
	d := c.Status.Devices
	gpu, nic := &d.GPUs[0], &d.NICs[0]
	gpu.UUID, gpu.Isolation[0], gpu.Instances[0].Name, gpu.Links[0], *gpu.Switch, *gpu.NUMA, *gpu.Socket = "x", "x", "x", 9, 9, 9, 9
	nic.Name, *nic.Switch, *nic.NUMA, *nic.Socket, d.Allocations[0].Name, d.Owner = "x", 9, 9, 9, "x", "x"
	if !reflect.DeepEqual(original.Items[0], *full()) {
		t.Errorf("the original changed: %+v", original.Items[0])
	}
	if (*CustomNodeResource)(nil).DeepCopy() != nil {
		t.Error("the copy of nothing is something")
	}
}
