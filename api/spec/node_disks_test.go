package spec

import (
	"strings"
	"testing"
)

// What is said of disks is checked field by field, and a configuration that arrives changes nothing of the file's.
func TestDisks(t *testing.T) {
	const model = `"model":{"readBytes":1,"sequentialReads":2,"randomReads":3,"writeBytes":4,"sequentialWrites":5,"randomWrites":6}`
	file := Default().Node
	file.Lending.IO.Disks = []IODisk{{Device: "sda", Latency: 1000, Quality: IOQuality{}}}
	for _, c := range []struct{ disks, fault string }{
		{`[]`, ""},
		{`[{"device":"/var/lib/containerd",` + model + `},{"device":"*","latency":"5ms"}]`, ""},
		{`[{"device":"sda",` + model + `,"quality":{"readPercentile":95,"readLatency":"5ms","leastPercent":50,"mostPercent":150}}]`, ""},
		{`[{"device":"sda","model":{"readBytes":1}}]`, "node.lending.io.disks[0].model: write all six numbers"},
		{`[{"device":"sda","quality":{"readPercentile":101,"leastPercent":1,"mostPercent":1}}]`, "node.lending.io.disks[0].quality.readPercentile: 101"},
		{`[{"device":"sda","quality":{"readPercentile":95}}]`, "node.lending.io.disks[0].quality.leastPercent: 0"},
		{`[{"device":"sda","quality":{"leastPercent":2,"mostPercent":1}}]`, "node.lending.io.disks[0].quality.leastPercent: 2"},
		{`[{"device":"sda","latency":"11s"}]`, "node.lending.io.disks[0].latency: 11s"},
		{`[{"device":"sda","latency":"10ns"}]`, "in whole microseconds"},
		{`[{"device":"sda","latency":"5ms",` + model + `}]`, "node.lending.io.disks[0].latency: io.latency and io.cost"},
		{`[{"device":"a b"}]`, `node.lending.io.disks[0]: "a b": write the kernel's name`},
		{`[{"device":"/var/lib/"}]`, `node.lending.io.disks[0]: "/var/lib/"`},
		{`[{"device":"sda"},{"device":"sda"}]`, "node.lending.io.disks[1]"},
	} {
		got, err := WrittenParameters(`{"lending":{"io":{"disks":` + c.disks + `}}}`).On(&file)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", c.disks, err, c.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.disks, err)
		}
		if len(got.Lending.IO.Disks) > 0 && strings.Contains(c.disks, "model") && got.Lending.IO.Disks[0].Latency != 0 {
			t.Errorf("%s: the file's latency shines through", c.disks)
		}
		if d := file.Lending.IO.Disks[0]; d.Device != "sda" || d.Latency != 1000 {
			t.Errorf("%s has changed the file's: %+v", c.disks, d)
		}
	}
	if _, err := WrittenParameters(`{"lending":{"io":{"costDevices":["sda"]}}}`).On(&file); err == nil || !strings.Contains(err.Error(), "disks[0].latency") {
		t.Errorf("io.cost beside io.latency: %v", err)
	}
}
