package spec

import "testing"

func TestReclaimedAmounts(t *testing.T) {
	for text, want := range map[string]ReclaimedAmounts{
		"1500m/2048Mi": {MilliCPU: 1500, MemoryMiB: 2048}, "0m/0Mi": {}, "7m/0Mi": {MilliCPU: 7}, "0m/4294967295Mi": {MemoryMiB: 1<<32 - 1},
	} {
		got, err := ParseReclaimed(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1500m", "1500/2048Mi", "1500m/2Gi", "-1m/0Mi", "1m/4294967296Mi", "1m/ 1Mi", "1m/1Mi/", "99999999999999999999m/1Mi"} {
		if got, err := ParseReclaimed(text); err == nil || got != (ReclaimedAmounts{}) {
			t.Errorf("%q: got %+v, %v, want an error", text, got, err)
		}
	}
}
