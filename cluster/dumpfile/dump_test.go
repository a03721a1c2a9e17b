package dumpfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/jsonstream"
	"hilbert.dev/hilbert/topology"
)

// TestDumpKeepsEveryField fills every field of the vocabulary with a value of its own and looks for each after a round trip. A field that is
// added to a type and not to the format is lost here.
func TestDumpKeepsEveryField(t *testing.T) {
	f := filler{}
	d := &cluster.Dump{Revision: 7, MaxWaitingClasses: 9, Resources: []string{"cpu", "memory", "ephemeral-storage", "pods", "x"}}
	f.fill(reflect.ValueOf(&d.Defaults).Elem())
	f.fill(reflect.ValueOf(&d.Namespaces).Elem())
	f.fill(reflect.ValueOf(&d.Workloads).Elem())
	f.fill(reflect.ValueOf(&d.Budgets).Elem())
	f.fill(reflect.ValueOf(&d.Queues).Elem())
	f.fill(reflect.ValueOf(&d.Units).Elem())
	f.fill(reflect.ValueOf(&d.Reservations).Elem())
	f.fill(reflect.ValueOf(&d.Placeholders).Elem())
	for i := range d.Placeholders { // as many as are counted; devices of a node
		r := &d.Placeholders[i]
		r.Facts.Count, r.Facts.Template.Finished, r.Facts.Template.Grant = len(r.Places), true, aGrant()
		for at := range r.Places {
			r.Places[at].Grant, r.Facts.Places[at].Grant = aGrant(), aGrant()
		}
	}
	f.fill(reflect.ValueOf(&d.Reports).Elem())
	for _, r := range d.Reports { // two NUMA nodes, the second closed
		numa := &r.Report.NUMANodes.NUMANode
		*numa = [topology.MaxNUMANodes]topology.NUMACapacity{numa[0], numa[1]}
		for i := range r.Report.HeldDevices {
			r.Report.HeldDevices[i].Grant.Instance = topology.MaxInstances
		}
	}
	for _, o := range [...]facts.StorageObject{&facts.Claim{}, &facts.Volume{}, &facts.StorageClass{}, &facts.StorageDriver{}, &facts.StorageCapacity{}, &facts.StorageNode{}, &facts.Attachment{}} {
		f.fill(reflect.ValueOf(o).Elem())
		d.Storage = append(d.Storage, o)
	}
	for _, o := range [...]facts.DRAObject{&facts.ResourceClaim{}, &facts.DeviceClass{}, &facts.ResourceSlice{}, &facts.DeviceTaintRule{}} {
		f.fill(reflect.ValueOf(o).Elem())
		d.DRA = append(d.DRA, o)
	}
	f.fill(reflect.ValueOf(&d.Nodes).Elem())
	f.fill(reflect.ValueOf(&d.Pods).Elem())
	for i := range d.Pods {
		d.Pods[i].Phase, d.Pods[i].Facts.Finished = cluster.Finished, true
		d.Pods[i].Facts.Grant = aGrant()
	}
	for v, i := reflect.ValueOf(d).Elem(), 0; i < v.NumField(); i++ {
		if v.Type().Field(i).IsExported() && v.Field(i).IsZero() {
			t.Errorf("%s is not filled", v.Type().Field(i).Name)
		}
	}
	got := roundTrip(t, d)
	if !reflect.DeepEqual(got, d) {
		t.Errorf("got  %s\nwant %s", written(t, got), written(t, d))
	}
	if string(written(t, got)) != string(written(t, d)) {
		t.Error("the second writing differs from the first")
	}
}

// aGrant is one that a node could give.
func aGrant() topology.Grant {
	return topology.Grant{GPUs: 5, Milli: 300, NUMANodes: topology.NUMAGrant{CPUs: [topology.MaxNUMANodes]uint16{3: 8}, Memory: [topology.MaxNUMANodes]uint32{3: 5}}, Resources: "example.com/fpga=1:2"}
}

func written(t *testing.T, d *cluster.Dump) []byte {
	t.Helper()
	var b bytes.Buffer
	w := jsonstream.NewWriter(&b)
	Write(w, d)
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func roundTrip(t *testing.T, d *cluster.Dump) *cluster.Dump {
	t.Helper()
	data := written(t, d)
	got, err := Read(json.NewDecoder(bytes.NewReader(data)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return got
}

// filler gives every field a value that no other has, as far as its type allows.
type filler struct{ next int }

func (f *filler) fill(v reflect.Value) {
	f.next++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			f.fill(field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Interface: // what the door encodes
		v.Set(reflect.ValueOf(json.RawMessage(fmt.Sprintf(`{"k":%d}`, f.next))))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{fmt.Sprint("k", f.next): fmt.Sprint("v", f.next)}))
	case reflect.String:
		if v.Type() == reflect.TypeFor[topology.ResourceGrant]() { // it is checked when it is read
			v.SetString(fmt.Sprintf("example.com/r%d=0:1,far:2", f.next))
			return
		}
		v.SetString(fmt.Sprintf("s%04d", f.next)) // in order, as sorted lists are
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(2) // every small set has it
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(int64(1 + f.next%100))
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	default:
		panic(v.Kind().String())
	}
}

// An empty list of required terms matches nothing; none at all matches everything.
func TestDumpTellsNoneFromEmpty(t *testing.T) {
	for _, want := range [][]facts.Term{nil, {}, {{}}} {
		d := &cluster.Dump{Pods: []cluster.PodRecord{{Facts: facts.Pod{UID: "a", Requirements: &facts.Requirements{Required: want}}}}}
		got := roundTrip(t, d).Pods[0].Facts.Requirements.Required
		if (got == nil) != (want == nil) || len(got) != len(want) {
			t.Errorf("%#v came back as %#v", want, got)
		}
	}
}

func TestDumpSharesRequirements(t *testing.T) {
	a, b, c := &facts.Requirements{ScoreCPU: 1}, &facts.Requirements{ScoreCPU: 1}, &facts.Requirements{ScoreCPU: 2}
	d := &cluster.Dump{}
	for i, r := range []*facts.Requirements{a, b, c, a} {
		d.Pods = append(d.Pods, cluster.PodRecord{Facts: facts.Pod{UID: facts.UID(fmt.Sprint(i)), Requirements: r}})
	}
	if n := strings.Count(string(written(t, d)), `"scoreCPU"`); n != 2 {
		t.Errorf("%d requirements are written, want 2", n)
	}
	pods := roundTrip(t, d).Pods
	if pods[0].Facts.Requirements != pods[3].Facts.Requirements || pods[2].Facts.Requirements.ScoreCPU != 2 {
		t.Error("requirements are mixed up")
	}
}

func TestReadDumpIsStrict(t *testing.T) {
	node, requirements := `{"name":"n"}`, `{}`
	whole := func(nodes, requirements, pods string) string {
		return fmt.Sprintf(`{"revision":1,"resources":[],"defaults":[],"namespaces":[],"workloads":[],"budgets":[],"requirements":[%s],"nodes":[%s],"pods":[%s]}`,
			requirements, nodes, pods)
	}
	if err := load(whole(node, requirements, `{"uid":"a","namespace":"x","name":"p","phase":"bound","node":"n","requirements":0}`)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`[]`:                               "found [",
		`{"revision":1}`:                   "missing",
		whole(node, requirements, "")[:90]: "ends too early",
		whole(`{"nam":"n"}`, "", ""):       `unknown field "nam"`,
		strings.Replace(whole("", "", ""), `"defaults":[]`, `"pods":[]`, 1):                                                        "stands twice",
		strings.Replace(whole("", "", ""), `"defaults"`, `"extra"`, 1):                                                             `"extra" is not known`,
		whole(node+","+node, "", ""):                                                                                               "stands twice",
		whole("", "", `{"uid":"a","namespace":"x","name":"p","phase":"pending","requirements":0}`):                                 "no number 0",
		whole("", requirements, `{"uid":"a","namespace":"x","name":"p","phase":"asleep","requirements":0}`):                        `"asleep" is not known`,
		whole("", requirements, `{"uid":"a","namespace":"x","name":"p","phase":"bound","requirements":0}`):                         "its node is",
		whole("", requirements, `{"uid":"a","namespace":"x","name":"p","phase":"pending","requirements":0,"victims":["b"]}`):       "not there",
		whole("", requirements, `{"uid":"","namespace":"x","name":"p","phase":"pending","requirements":0}`):                        "is empty",
		whole("", requirements, `{"uid":"a","namespace":"x","name":"p","phase":"pending","requirements":0,"grant":{"gpus":[16]}}`): "no GPU",
		whole("", `{"required":[{"expressions":[{"key":"a","operator":"Likes"}]}]}`, ""):                                           "known are In, NotIn",
	} {
		if err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func load(text string) error {
	d, err := Read(json.NewDecoder(strings.NewReader(text)))
	if err == nil {
		_, err = cluster.Load(d)
	}
	return err
}

// A ledger with everything that is not just a pod on a node: an assumed pod and its victim, guessed GPUs, an orphan, a finished pod.
func TestLoadKeepsTheLedger(t *testing.T) {
	s := cluster.NewStore()
	gpu := &facts.Requirements{GPU: topology.Request{Milli: 600}}
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", GPU: topology.Shape{GPUs: 2, Shareable: true}}})
	for _, f := range []facts.Pod{
		{UID: "guessed1", Name: "guessed1", Node: "n", Requirements: gpu},
		{UID: "known", Name: "known", Node: "n", Requirements: gpu, Grant: topology.Grant{GPUs: 2, Milli: 600}},
		{UID: "guessed2", Name: "guessed2", Node: "n", Requirements: gpu},
		{UID: "orphan", Name: "orphan", Node: "gone", Requirements: gpu},
		{UID: "done", Name: "done", Node: "n", Requirements: gpu},
		{UID: "mine", Name: "mine", Ours: true, Priority: 5, Requirements: &facts.Requirements{}},
		{UID: "waits", Name: "waits", Ours: true, Requirements: gpu},
	} {
		s.Apply(facts.PodUpserted{Pod: f})
	}
	s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "done", Name: "done", Node: "n", Finished: true, Requirements: gpu}})
	plan := cluster.Plan{Placements: []cluster.Placement{{Pod: "mine", Node: "n"}}, Victims: []facts.UID{"known"}}
	if v := s.Commit(&plan, func(*cluster.State, cluster.Slot, *cluster.Class, *topology.Grant) string { return "" }); !v.Committed {
		t.Fatal(v)
	}
	dump := s.Dump()
	dump.Sort()
	loaded, err := cluster.Load(roundTrip(t, dump))
	if err != nil {
		t.Fatal(err)
	}
	if err := loaded.Verify(); err != nil {
		t.Fatal(err)
	}
	again := loaded.Dump()
	again.Sort()
	again.Revision = dump.Revision
	if string(written(t, again)) != string(written(t, dump)) {
		t.Errorf("got  %s\nwant %s", written(t, again), written(t, dump))
	}
	slot := loaded.Slot("n")
	if *loaded.GPUs(slot) != *s.GPUs(s.Slot("n")) {
		t.Errorf("free GPUs: %v, want %v", loaded.GPUs(slot), s.GPUs(s.Slot("n")))
	}
	mine := loaded.Pod("mine")
	if mine.Phase != cluster.Assumed || !mine.Obliged() || mine.Victims()[0].UID != "known" || !loaded.Pod("known").Claimed() {
		t.Errorf("the assumed pod is %s and waits for %v", mine.Phase, mine.Victims())
	}
	if uids := dump.Named("", "mine"); !slices.Equal(uids, []facts.UID{"mine"}) {
		t.Errorf("named: %v", uids)
	}
}
