package simulation

import "testing"

// TestSimAgain: the line that reproduces a failure is complete.
func TestSimAgain(t *testing.T) {
	f := simFlags{synthetic: "nodes=1,pods=2,classes=3", faults: true, schedulers: 4, seeds: 100, scores: map[string]int64{"B": 2, "A": 1}}
	want := "hilbert sim --synthetic nodes=1,pods=2,classes=3 --schedulers 4 --faults --scores A=1 --scores B=2 --check --seed 17"
	if line := f.again(17); line != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
	f = simFlags{format: formatOpenB, nodes: "n.csv", pods: "p.csv", arrive: 1.3, schedulers: 1}
	want = "hilbert sim --format openb --nodes n.csv --pods p.csv --arrive 1.3 --check --seed 2"
	if line := f.again(2); line != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
}
