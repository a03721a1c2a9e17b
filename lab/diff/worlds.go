package diff

import (
	"context"
	"sync"
	"sync/atomic"
)

// podsPerWorld is about how many pods are judged in a world of volumes or devices: it decides how many worlds make up a number of pods.
const podsPerWorld = 4

// coverage counts what was judged in some worlds.
type coverage[C any] interface {
	*C
	add(other *C)
}

// playWorlds has the workers play numbered worlds, and adds up what each of them covers. The failure is that of the first world that failed, on any number of workers.
func playWorlds[C any, P coverage[C]](ctx context.Context, workers int, worlds uint64, none func() C, play func(number uint64, seen *C) error) (sum C, failure error) {
	sum = none()
	failed := worlds // the first that failed
	var next atomic.Uint64
	var mutex sync.Mutex
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			seen := none()
			for number := next.Add(1) - 1; number < worlds && ctx.Err() == nil; number = next.Add(1) - 1 {
				err := play(number, &seen)
				mutex.Lock()
				if err != nil && number < failed {
					failed, failure = number, err
				}
				mutex.Unlock()
			}
			mutex.Lock()
			defer mutex.Unlock()
			P(&sum).add(&seen)
		})
	}
	group.Wait()
	return sum, failure
}
