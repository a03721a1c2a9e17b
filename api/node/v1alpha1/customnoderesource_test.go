package v1alpha1

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/crdtest"
	"hilbert.dev/hilbert/api/spec"
)

func definition(t *testing.T) *crdtest.Definition {
	t.Helper()
	return crdtest.Read(t, "customnoderesource.yaml")
}

func TestDefinitionNamesTheTypes(t *testing.T) {
	d := definition(t)
	if d.Name != CustomNodeResources+"."+Group || d.Group != Group || d.Scope != "Cluster" || d.Kind != spec.NodeKind || d.Plural != CustomNodeResources ||
		d.Version != Version || !slices.Equal(d.ShortNames, []string{"cnr"}) || !d.Status {
		t.Errorf("got %+v", d)
	}
	if got := strings.Join(d.Columns, ","); got != "Mode,NUMA,Free CPUs,Dedicated,GPUs,Headroom,Ready,Observed,Age" {
		t.Errorf("columns %s", got)
	}
	if GroupVersion.String() != spec.NodeAPIVersion {
		t.Errorf("version %s, and %s in api/spec", GroupVersion, spec.NodeAPIVersion)
	}
}

// The definition has the fields of the Go types and no others, and bounds every list, map, number and text.
func TestDefinitionHasTheFields(t *testing.T) {
	definition(t).Compare(t, reflect.TypeFor[CustomNodeResource](), crdtest.Rules{
		Texts: []reflect.Type{reflect.TypeFor[metav1.Time](), reflect.TypeFor[time.Time]()},
		Trees: []reflect.Type{reflect.TypeFor[spec.WrittenParameters]()},
		Ends:  map[string]string{".status.topology[].children[].children[]": "children"},
		Free:  []string{".status.conditions[].observedGeneration"},
	})
}

// The values of the enumerations are the constants.
func TestDefinitionHasTheValues(t *testing.T) {
	s := definition(t).Schema
	status := s.Properties["status"].Properties
	numaNodes := status["topology"].Items.Properties
	numa := numaNodes["children"].Items
	devices := []string{spec.ElementGPU, spec.ElementNIC, spec.ElementDisk}
	isolation := []string{spec.IsolationAccounting, spec.IsolationSoft, spec.IsolationHard}
	hanging := status["devices"].Properties
	for _, c := range []struct{ got, want []string }{
		{status["mode"].Enum, []string{spec.ModeAgent, spec.ModeKubelet}},
		{numaNodes["type"].Enum, append([]string{spec.ElementSocket}, devices...)},
		{numa.Properties["type"].Enum, []string{spec.ElementNUMANode}},
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
	amounts := func() *spec.NUMAAmounts { return &spec.NUMAAmounts{CPUs: 4, CPUSet: "0-3", MemoryMiB: 100} }
	return &CustomNodeResource{
		ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: []metav1.OwnerReference{{Name: "n"}}},
		Status: CustomNodeResourceStatus{
			NodeStatus: spec.NodeStatus{
				Devices: devices(),
				Mode:    spec.ModeAgent, ThreadsPerCore: 2, Pools: []spec.Pool{{Name: spec.PoolShare}},
				Topology: []spec.TopologyElement{{Type: spec.ElementSocket, Name: "0", Children: []spec.TopologyElement{{
					Type: spec.ElementNUMANode, Name: "0", Capacity: amounts(), Allocatable: amounts(),
					Allocations: []spec.NUMAAllocation{{Name: "p"}},
					Children:    []spec.TopologyElement{{Type: spec.ElementNIC, Name: "d", Attributes: map[string]string{"names": "eth0"}}},
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

// fill gives every pointer, list and map below v something of its own, to a depth at which all types have had a turn.
func fill(v reflect.Value, depth int) {
	kind := v.Kind()
	if kind == reflect.Struct {
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth)
			}
		}
	}
	if kind == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	}
	if kind == reflect.Pointer && depth > 0 {
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth-1)
	}
	if kind == reflect.Slice && depth > 0 {
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth-1)
	}
}

// shared returns the path of something that two values of one type share.
func shared(a, b reflect.Value, path string) (found string) {
	kind := a.Kind()
	if kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map {
		if a.IsNil() || b.IsNil() {
			return ""
		}
		if a.Pointer() == b.Pointer() {
			return path
		}
	}
	if kind == reflect.Pointer {
		return shared(a.Elem(), b.Elem(), path)
	}
	if kind == reflect.Slice {
		return shared(a.Index(0), b.Index(0), path+"[]")
	}
	for i := 0; kind == reflect.Struct && i < a.NumField() && found == ""; i++ {
		if f := a.Type().Field(i); f.IsExported() {
			found = shared(a.Field(i), b.Field(i), path+"."+f.Name)
		}
	}
	return found
}

// TestDeepCopySharesNothing fills every field by reflection, so that one that is added and not copied is found.
func TestDeepCopySharesNothing(t *testing.T) {
	original := &CustomNodeResourceList{Items: make([]CustomNodeResource, 1)}
	fill(reflect.ValueOf(&original.Items[0].Status).Elem(), 12)
	original.Items[0].ObjectMeta = full().ObjectMeta
	copied, ok := original.DeepCopyObject().(*CustomNodeResourceList)
	if !ok || !reflect.DeepEqual(original, copied) {
		t.Fatalf("got %+v", copied)
	}
	if path := shared(reflect.ValueOf(original), reflect.ValueOf(copied), ""); path != "" {
		t.Errorf("both have the same %s", path)
	}
	if (*CustomNodeResource)(nil).DeepCopy() != nil {
		t.Error("the copy of nothing is something")
	}
}
