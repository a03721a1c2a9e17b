package policy

import (
	"strings"
	"testing"

	"hilbert.dev/hilbert/api/spec"
)

// deviceWords are the keys by which a pod says how its devices are given.
var deviceWords = []string{spec.AnnotationIsolation, spec.AnnotationNear, spec.AnnotationNUMAPolicy}

// deviceRows has one row for each rule of spec.DeviceWordsOf.
func deviceRows() []request {
	says := func(words ...string) []part {
		var out []part
		for i, word := range words {
			if word != "" {
				out = append(out, annotation(deviceWords[i], word))
			}
		}
		return out
	}
	return []request{
		{"soft", creates(owner, plain, says("soft")...), ""},
		{"hard, below one switch", creates(owner, plain, says("hard", "switch,required")...), ""},
		{"accounting, by a policy", creates(owner, plain, says("accounting", "", "restricted")...), ""},
		{"no such isolation", creates(owner, plain, says("mps")...), `hilbert.dev/gpu-isolation: "mps" is no isolation; want accounting, soft or hard`},
		{"no such place", creates(owner, plain, says("", "rack")...), `hilbert.dev/near: "rack": want switch, numa or socket, and ",required" behind it`},
		{"no such policy", creates(owner, plain, says("", "", "best")...), `hilbert.dev/numa-policy: "best": want none, best-effort, restricted or single-numa-node`},
		{"near by two names", creates(owner, plain, says("", "numa", "restricted")...), "hilbert.dev/numa-policy: hilbert.dev/near says already how close things are"},
	}
}

// TestSameDeviceVerdict: whatever a pod says of its devices, the door takes it exactly when spec.DeviceWordsOf does, and blames the same key.
func TestSameDeviceVerdict(t *testing.T) {
	for _, isolation := range []string{"", "accounting", "soft", "hard", "Soft", "none"} {
		for _, near := range []string{"", "switch", "numa", "socket", "switch,required", "numa,required", "socket,required", "switch,", ",required", "numa,preferred", "required"} {
			for _, policy := range []string{"", "none", "best-effort", "restricted", "single-numa-node", "single"} {
				p := pod("new", annotation(spec.AnnotationIsolation, isolation), annotation(spec.AnnotationNear, near), annotation(spec.AnnotationNUMAPolicy, policy))
				_, want := spec.DeviceWordsOf(p.Annotations)
				got := dryCreate(t.Context(), owner, plain, p)
				if (want == nil) != (got == nil) {
					t.Errorf("%q %q %q: the node says %v, the door %v", isolation, near, policy, want, got)
				} else if want != nil {
					if key, _, _ := strings.Cut(want.Error(), ":"); !strings.Contains(got.Error(), key+":") {
						t.Errorf("%q %q %q: the node names %s, the door says %v", isolation, near, policy, key, got)
					}
				}
			}
		}
	}
}
