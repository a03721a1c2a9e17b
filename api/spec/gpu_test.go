package spec

import (
	"strings"
	"testing"
)

func TestDeviceWords(t *testing.T) {
	for _, c := range []struct {
		name string
		said [3]string // isolation, near, NUMA policy
		want DeviceWords
		err  string
	}{
		{"nothing", [3]string{}, DeviceWords{}, ""},
		{"isolation", [3]string{IsolationSoft}, DeviceWords{Isolation: IsolationSoft}, ""},
		{"near, preferred", [3]string{"", "switch"}, DeviceWords{Near: NearSwitch}, ""},
		{"near, required", [3]string{"", "numa,required"}, DeviceWords{Near: NearNUMA, Required: true}, ""},
		{"a policy", [3]string{"", "", "single-numa-node"}, DeviceWords{NUMAPolicy: NUMAPolicySingle}, ""},
		{"all at once", [3]string{"hard", "", "none"}, DeviceWords{Isolation: IsolationHard, NUMAPolicy: NUMAPolicyNone}, ""},
		{"unknown isolation", [3]string{"mps"}, DeviceWords{}, `hilbert.dev/gpu-isolation: "mps" is no isolation; want accounting, soft or hard`},
		{"unknown level", [3]string{"", "rack"}, DeviceWords{}, `hilbert.dev/near: "rack": want switch, numa or socket, and ",required" behind it`},
		{"required of nothing", [3]string{"", ",required"}, DeviceWords{}, `hilbert.dev/near: ",required": want`},
		{"a level without its end", [3]string{"", "switch,"}, DeviceWords{}, `hilbert.dev/near: "switch,": want`},
		{"with a space", [3]string{"", "switch, required"}, DeviceWords{}, `hilbert.dev/near: "switch, required": want`},
		{"unknown policy", [3]string{"", "", "best"}, DeviceWords{}, `hilbert.dev/numa-policy: "best": want none, best-effort, restricted or single-numa-node`},
		{"both", [3]string{"", "numa", "restricted"}, DeviceWords{}, "hilbert.dev/numa-policy: hilbert.dev/near says already"},
	} {
		annotations := map[string]string{}
		for i, key := range []string{AnnotationIsolation, AnnotationNear, AnnotationNUMAPolicy} {
			if c.said[i] != "" {
				annotations[key] = c.said[i]
			}
		}
		got, err := DeviceWordsOf(annotations)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %s", c.name, got, err, c.want, c.err)
		}
	}
}
