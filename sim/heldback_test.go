package sim

import (
	"fmt"
	"testing"
)

// TestFewDifferentPodsMayWait runs busy clusters in which everything goes wrong and few different pods of a namespace may wait: odd pods, most of which can
// never be placed, pods of many sizes, gangs, queues and constraints between pods. The checker and the ledger's audit judge who is held back after
// every step, a flush that finds a place fails the run, and at rest nobody is held back beside room.
func TestFewDifferentPodsMayWait(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"nodes=12,pods=200,classes=16,minutes=5,odd=40",
		"nodes=12,pods=200,classes=16,minutes=5,load=150,sizes=20,odd=12",
		"nodes=12,pods=200,classes=16,minutes=5,load=150,queues=6,gangs=60",
		"nodes=12,pods=200,classes=8,minutes=5,load=120,constraints=1,gangs=30",
	} {
		t.Run(text, func(t *testing.T) {
			held, placed := 0, 0
			for seed := range seedsToRun(t)/10 + 1 {
				for _, most := range []int{1, 3, 8} {
					w := invent(t, text, seed)
					o := options(seed)
					o.Schedulers, o.CheckEvery, o.Faults, o.Preempt = 1+3*int(seed%2), stepsBetweenChecks(), DefaultFaults(w), seed%3 == 0
					o.Config.MaxWaitingClasses = &most
					s, err := newSimulation(w, o)
					if err != nil {
						t.Fatal(err)
					}
					if err := s.process.start(); err != nil {
						t.Fatal(err)
					}
					r, err := s.run(t.Context())
					if err != nil {
						t.Fatal(fmt.Errorf("seed %d, at most %d: %w", seed, most, err))
					}
					held += s.process.scheduler.Store().Waiting().Held()
					placed += r.Placed
				}
			}
			if held == 0 || placed == 0 {
				t.Errorf("%d pods were held back in the end, %d were placed", held, placed)
			}
		})
	}
}
