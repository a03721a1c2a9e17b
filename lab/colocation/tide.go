package colocation

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"hilbert.dev/hilbert/sim/trace"
)

// Tide is the load of a day, of which the steepest part is played.
type Tide struct {
	// Source says where it comes from, for people; Recorded: it was measured.
	Source   string
	Recorded bool

	rows  [][]float64 // of a day, each with 1 as its most
	start float64     // of the steepest part, in points
}

// tideFile is the recorded tide, below the folder of the traces.
const tideFile = "genai2026/qps.tar.gz"

// FindTide is the recorded tide of a folder of traces. Without the folder, or without that trace in it, it is a made-up one.
func FindTide(folder string, length time.Duration) (*Tide, error) {
	path := filepath.Join(folder, filepath.FromSlash(tideFile))
	if _, err := os.Stat(path); folder == "" || err != nil {
		return SyntheticTide(length), nil
	}
	curves, err := trace.LoadTide(path)
	if err != nil {
		return nil, fmt.Errorf("recorded tide: %w", err)
	}
	return newTide(fmt.Sprintf("the requests of a day, recorded (%s)", tideFile), true, curves.Rows, length), nil
}

// syntheticPoints are the points of a made-up day.
const syntheticPoints = 288

// SyntheticTide is a made-up day: load rises within an hour of the morning to what it has until the evening. Services do so a little earlier or later.
func SyntheticTide(length time.Duration) *Tide {
	var rows [][]float64
	for _, late := range []float64{0, -1, 1, 2} { // points of five minutes
		row := make([]float64, syntheticPoints)
		for i := range row {
			morning := 1 / (1 + math.Exp(-(float64(i)-96-late)/2))
			evening := 1 / (1 + math.Exp(-(float64(i)-264-late)/6))
			row[i] = 0.15 + 0.85*max(morning-evening, 0)
		}
		rows = append(rows, row)
	}
	return newTide("a made-up morning (no recorded tide was found: see HILBERT_TRACES)", false, rows, length)
}

func newTide(source string, recorded bool, rows [][]float64, length time.Duration) *Tide {
	t := &Tide{Source: source, Recorded: recorded}
	for _, row := range rows {
		most := 0.0
		for _, v := range row {
			most = max(most, v)
		}
		if most <= 0 {
			continue
		}
		shape := make([]float64, len(row))
		for i, v := range row {
			shape[i] = v / most
		}
		t.rows = append(t.rows, shape)
	}
	points := float64(len(t.rows[0])) * length.Seconds() / day
	steepest := math.Inf(-1)
	for i := range t.rows[0] {
		rise := 0.0
		for r := range t.rows {
			rise += t.value(r, float64(i)+points) - t.value(r, float64(i))
		}
		if rise > steepest {
			steepest, t.start = rise, float64(i)
		}
	}
	return t
}

// day is in seconds.
const day = 86400

// at is the load of the n-th kind of service so many seconds after the beginning of the steepest part: 1 is its most.
func (t *Tide) at(kind int, second float64) float64 {
	row := kind % len(t.rows)
	return t.value(row, t.start+max(second, 0)*float64(len(t.rows[row]))/day)
}

func (t *Tide) value(row int, point float64) float64 {
	list := t.rows[row]
	i := int(point)
	a, b := list[i%len(list)], list[(i+1)%len(list)]
	return a + (b-a)*(point-float64(i))
}
