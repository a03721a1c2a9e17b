package daemon

// goroutines runs each scheduler's work on a goroutine of its own. Of a scheduler at most one piece of work is under way, so that no channel is ever full.
type goroutines []chan struct{}

func newGoroutines(schedulers int) goroutines {
	g := make(goroutines, schedulers)
	for i := range g {
		g[i] = make(chan struct{}, 1)
	}
	return g
}

func (g goroutines) Start(scheduler int, work func()) {
	go func() {
		work()
		g[scheduler] <- struct{}{}
	}()
}

func (g goroutines) Wait(scheduler int) { <-g[scheduler] }
