package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// tallyInterval is how often what was done is written down.
	tallyInterval = 100 * time.Millisecond
	// countStep is how many turns of a loop are one piece of count's work, walkStep how much memory is one of walk's.
	countStep, walkStep = 1 << 16, 1 << 20
	// line is how far apart walk touches memory: a processor fetches no less.
	line = 64
)

// done counts pieces of work of all threads.
type done struct{ pieces atomic.Int64 }

// tally writes the pieces that were done into the file work, as a decimal number, until it is killed.
func (d *done) tally(results string) error {
	out, err := os.OpenFile(filepath.Join(results, "work"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	go func() {
		for range time.Tick(tallyInterval) {
			if _, err := out.WriteAt(fmt.Appendf(nil, "%20d\n", d.pieces.Load()), 0); err != nil {
				panic(err) // a test would read an old number
			}
		}
	}()
	return nil
}

// threads starts n threads, each of which does one piece after the other.
func (d *done) threads(n int, each func(thread int) (piece func())) {
	runtime.GOMAXPROCS(n + 1)
	for i := range n {
		go func() {
			runtime.LockOSThread()
			piece := each(i)
			for {
				piece()
				d.pieces.Add(1)
			}
		}()
	}
}

// count burns CPU.
func (d *done) count(n int) {
	d.threads(n, func(int) func() {
		sum := uint64(1)
		return func() {
			for range countStep {
				sum = sum*6364136223846793005 | 1
			}
		}
	})
}

// wake works and sleeps in turns of a millisecond.
func (d *done) wake(n int) {
	d.threads(n, func(int) func() {
		return func() {
			spend(time.Millisecond)
			sleepUntil(sinceBoot() + time.Millisecond)
		}
	})
}

// walk writes to all of its memory again and again, a mebibyte for each piece.
func (d *done) walk(mebibytes int) {
	held := hold(mebibytes)
	d.threads(1, func(int) func() {
		at := 0
		return func() {
			for i := range walkStep / line {
				held[at+i*line]++
			}
			at = (at + walkStep) % len(held)
		}
	})
}

// storm renames files in one directory: nearly all the time some thread has the directory's lock, and all others wait for it.
func (d *done) storm(n int, dir string) error {
	names := make([][2]string, n)
	for i := range names {
		var err error
		if names[i], err = pair(dir, i, true); err != nil {
			return err
		}
	}
	d.threads(n, func(thread int) func() {
		own := names[thread]
		return func() { own = swap(own) }
	})
	return nil
}
