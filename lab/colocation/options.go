package colocation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Rush is a time in which all services want Factor times as much. It takes them Rise to want that.
type Rush struct {
	At, For, Rise time.Duration
	Factor        float64
}

// Options say what to play.
type Options struct {
	// Nodes that lend; at least nodesPerRack.
	Nodes int
	// Length is how long a morning is played, in whole minutes, after WarmUp, which does not count.
	Length, WarmUp time.Duration
	// Speed is how many seconds are played in a second at most; 0: as many as the machine can.
	Speed float64
	Tide  *Tide
	Rush  Rush
	// NoLending makes it a control run: the agents lend nothing.
	NoLending bool
	// Progress gets a line now and then; nil: nowhere. Log gets what hilbertd and the agents say; nil drops it.
	Progress func(format string, args ...any)
	Log      io.Writer

	// inspect, if set, is called at the end, before anything is stopped.
	inspect func(context.Context, *bed) error
}

// Defaults are the morning that the demo plays: half an hour, ten times as fast.
func Defaults() Options {
	const length = 30 * time.Minute
	return Options{
		Nodes: 20, Length: length, WarmUp: 4 * time.Minute, Speed: 10, Tide: SyntheticTide(length),
		Rush: Rush{At: 20 * time.Minute, For: 3 * time.Minute, Rise: 10 * time.Second, Factor: 1.5},
	}
}

// maxNodes bounds the nodes: each is an agent in this process.
const maxNodes = 500

var errOptions = errors.New("colocation: bad option")

func (o *Options) validate() error {
	switch {
	case o.Nodes < nodesPerRack || o.Nodes > maxNodes:
		return fmt.Errorf("%w: %d nodes, want %d to %d", errOptions, o.Nodes, nodesPerRack, maxNodes)
	case o.Length < time.Minute || o.Length%time.Minute != 0 || o.Length > 24*time.Hour:
		return fmt.Errorf("%w: a length of %s, want whole minutes up to a day", errOptions, o.Length)
	case o.WarmUp < time.Minute || o.WarmUp%time.Minute != 0:
		return fmt.Errorf("%w: a warm-up of %s, want whole minutes", errOptions, o.WarmUp)
	case o.Speed < 0:
		return fmt.Errorf("%w: a speed of %g", errOptions, o.Speed)
	case o.Tide == nil:
		return fmt.Errorf("%w: no tide", errOptions)
	case o.Rush.At < 0 || o.Rush.For < 0 || o.Rush.Rise < 0 || o.Rush.Factor <= 0:
		return fmt.Errorf("%w: a rush at %s for %s, times %g", errOptions, o.Rush.At, o.Rush.For, o.Rush.Factor)
	}
	return nil
}
