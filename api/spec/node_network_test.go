package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Uplinks are spelled strictly, and each mistake is named by its place.
func TestUplinksOf(t *testing.T) {
	t.Parallel()
	nine := strings.TrimSuffix(strings.Repeat("e%d,", 9), ",")
	for _, c := range []struct {
		text  string
		want  []string
		fault string
	}{
		{"", nil, ""},
		{" ", nil, ""},
		{"eth0", []string{"eth0"}, ""},
		{"eth0, eth1=10000", []string{"eth0", "eth1=10000"}, ""},
		{"bond0.100", []string{"bond0.100"}, ""},
		{"eth0,", nil, `hilbert.dev/uplinks: [1]: ""`},
		{"eth0 eth1", nil, `[0]: "eth0 eth1": write the name of a network interface`},
		{"eth0,eth0=5", nil, `[1]: "eth0": write each interface once`},
		{"eth0=", nil, "whole number from 1"},
		{"eth0=0", nil, "whole number from 1"},
		{"eth0=-1", nil, "whole number from 1"},
		{"eth0=+5", nil, "whole number from 1"},
		{"eth0=010", nil, "whole number from 1"},
		{"eth0=1e3", nil, "whole number from 1"},
		{"eth0=99999999", nil, "whole number from 1"},
		{"../../etc", nil, "write the name of a network interface"},
		{"..", nil, "write the name of a network interface"},
		{"=100", nil, "write the name of a network interface"},
		{"a-name-too-long-for-linux", nil, "write the name of a network interface"},
		{fmt.Sprintf(nine, 1, 2, 3, 4, 5, 6, 7, 8, 9), nil, "9 uplinks; write at most 8"},
	} {
		got, err := UplinksOf(map[string]string{AnnotationUplinks: c.text})
		if !slices.Equal(got, c.want) || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: %q, %v; want %q, %q", c.text, got, err, c.want, c.fault)
		}
	}
}

// What the file says wrongly is named by its field; what is told in its place replaces the list whole.
func TestLendingNetwork(t *testing.T) {
	t.Parallel()
	n := Default().Node
	n.Lending.Network.Uplinks = []string{"eth0", "eth1=x", "eth0=5"}
	n.Lending.Network.LinkMbps = -1
	err := CheckNode(&n)
	for _, want := range []string{"node.lending.network.uplinks[1]: ", "node.lending.network.uplinks[2]: ", "node.lending.network.linkMbps: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	file := Default().Node
	file.Lending.Network.Uplinks = []string{"eth0", "eth1"}
	got, err := WrittenParameters(`{"lending":{"network":{"enabled":true,"uplinks":["eth7=100"],"incoming":true}}}`).On(&file)
	if err != nil || !slices.Equal(got.Lending.Network.Uplinks, []string{"eth7=100"}) || !got.Lending.Network.Enabled || !got.Lending.Network.Incoming {
		t.Errorf("%+v, %v", got.Lending.Network, err)
	}
	if !slices.Equal(file.Lending.Network.Uplinks, []string{"eth0", "eth1"}) {
		t.Errorf("the file has changed: %q", file.Lending.Network.Uplinks)
	}
	if _, err := WrittenParameters(`{"lending":{"network":{"uplinks":["eth7/"]}}}`).On(&file); err == nil || !strings.Contains(err.Error(), "node.lending.network.uplinks[0]") {
		t.Errorf("%v", err)
	}
}

func TestTrafficClassOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": TrafficBestEffort, "best-effort": TrafficBestEffort, "background": TrafficBackground} {
		if got, err := TrafficClassOf(map[string]string{AnnotationTrafficClass: text}); got != want || err != nil {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"voice", "Background", " background"} {
		if got, err := TrafficClassOf(map[string]string{AnnotationTrafficClass: text}); got != TrafficBestEffort || err == nil || !strings.Contains(err.Error(), AnnotationTrafficClass) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
