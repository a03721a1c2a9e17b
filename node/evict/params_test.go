package evict

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

func TestDefaults(t *testing.T) {
	p := Defaults()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(&p)
	if err != nil {
		t.Fatal(err)
	}
	var back Params
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(p, back) {
		t.Fatalf("%v: %s became %+v", err, text, back)
	}
	if first, third := p.MemoryBound(1, time.Second), p.MemoryBound(3, time.Second); first != 54*time.Second || third != 76*time.Second {
		t.Errorf("memory should come back within 54 s, and 11 s more for each further pod; it is %v, and %v for three", first, third)
	}
	if err := p.Check(kubeletDefaults()); err != nil {
		t.Errorf("the defaults are not above the kubelet's: %v", err)
	}
}

// kubeletDefaults are those of a kubelet without a configuration.
func kubeletDefaults() []Threshold {
	return []Threshold{
		{Signal: "memory.available", Amount: 100 * mebibyte},
		{Signal: "nodefs.available", Share: 0.10},
		{Signal: "nodefs.inodesFree", Share: 0.05},
		{Signal: "imagefs.available", Share: 0.15},
		{Signal: "imagefs.inodesFree", Share: 0.05},
		{Signal: "pid.available", Share: 0.5},
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name    string
		kubelet Threshold
		want    string // empty: fine
	}{
		{
			"a soft threshold above our hard mark",
			Threshold{Signal: "memory.available", Soft: true, Amount: gibibyte},
			"memory.hard: 4 % or 256Mi is not above the kubelet's soft threshold, 1.0Gi of memory.available: raise the one or lower the other",
		},
		{"the same on a machine where 4 % are more", Threshold{Signal: "memory.available", Amount: gibibyte, Total: 64 * gibibyte}, ""},
		{"and where they are not", Threshold{Signal: "memory.available", Amount: gibibyte, Total: 16 * gibibyte}, "memory.hard: 4 % or 256Mi is not above"},
		{"equal is not above", Threshold{Signal: "nodefs.available", Share: 0.12}, "root.hard: 12 % is not above the kubelet's hard threshold, 12 % of nodefs.available"},
		{"a share of memory", Threshold{Signal: "memory.available", Share: 0.03}, ""},
		{"an amount against a share alone", Threshold{Signal: "imagefs.available", Amount: gibibyte}, "images.hard: 17 % is not above the kubelet's hard threshold, 1.0Gi"},
		{"inodes", Threshold{Signal: "nodefs.inodesFree", Share: 0.2}, "rootInodes.hard: 7 % is not above"},
		{"image inodes", Threshold{Signal: "imagefs.inodesFree", Amount: 5, Total: 10}, "imageInodes.hard: 7 % is not above the kubelet's hard threshold, 5 inodes"},
		{"switched off", Threshold{Signal: "memory.available"}, ""},
		{"none of ours", Threshold{Signal: "allocatableMemory.available", Amount: 1e12}, ""},
	} {
		p := Defaults()
		switch err := p.Check([]Threshold{c.kubelet}); {
		case err == nil && c.want != "":
			t.Errorf("%s: no error", c.name)
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Params){
		"memory.soft: share 0.01": func(p *Params) { p.Memory.Soft.Share = 0.01 },
		"numaNode.soft: share":    func(p *Params) { p.NUMANode.Hard = p.NUMANode.Soft },
		"root.soft.share":         func(p *Params) { p.Root.Soft.Share = 1 },
		"pressure.some":           func(p *Params) { p.Pressure.Some = 0 },
		"escalation.stopInterval": func(p *Params) { p.Escalation.StopInterval = spec.Duration(9 * time.Second) },
		"escalation.reclaimShare": func(p *Params) { p.Escalation.ReclaimShare = 1.1 },
		"close.most":              func(p *Params) { p.Close.Most = spec.Duration(time.Second) },
		"close.again":             func(p *Params) { p.Close.Again = 0 },
		"images.hardFor":          func(p *Params) { p.Images.HardFor = -1 },
		"escalation.leastMemory: 0 is out of range; write 1": func(p *Params) { p.Escalation.LeastMemory = 0 },
	} {
		p := Defaults()
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %q, have %v", want, err)
		}
	}
}
