package bind

import (
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// The Binding says what containers ask for of what plugins bring, and of nothing else.
func TestBindingSaysWhatPluginsBring(t *testing.T) {
	containers := []facts.ExtendedContainer{
		{Name: "setup", Ends: true, Requests: []facts.ExtendedRequest{{Resource: "example.com/fpga", Count: 1}}},
		{Name: "main", Requests: []facts.ExtendedRequest{{Resource: "example.com/fpga", Count: 2}, {Resource: "example.com/other", Count: 1}}},
	}
	brought := []resource.Quantity{{Name: "example.com/fpga", Amount: 4}, {Name: "example.com/nobody-asks", Amount: 4}}
	if got, want := resourcesOf(containers, brought), "first:setup/example.com/fpga=1,main/example.com/fpga=2"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if got := resourcesOf(containers, nil) + resourcesOf(nil, brought); got != "" {
		t.Errorf("%s; want nothing", got)
	}
}
