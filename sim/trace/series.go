package trace

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Series is a load over time, at even steps. NaN is not known.
type Series struct {
	Name  string
	Start time.Time
	Step  time.Duration
	Loads []float64
}

// Bounds of a series.
const (
	maxSeries    = 1_000_000
	anonymisedAt = 5 * time.Minute
)

// LoadSeries reads a load from a file, which may be gzipped, and in a tar: see ReadSeries.
func LoadSeries(path string) (*Series, error) { return load("series", path, ReadSeries) }

// ReadSeries reads timestamp and value, in any order. A timestamp is "2006-01-02 15:04:05" or RFC 3339. A file with timestamp_anon (seconds) instead, as
// cluster-trace-v2026-GenAI has them, is summed up over five minutes. One with avg_cpu and no times is a month of a cell of Google's trace of 2019, at steps of five minutes from
// 1 May on. file is for messages.
func ReadSeries(file string, r io.Reader) (*Series, error) {
	t, err := newTable(file, r)
	if err != nil {
		return nil, err
	}
	if slices.Contains(t.columns, cellCPU) && !slices.Contains(t.columns, "value") {
		return readCell(t)
	}
	if !slices.Contains(t.columns, "value") {
		return nil, &Error{file, 1, "value", "it in the header", "other columns"}
	}
	type sample struct {
		at    int64 // seconds
		value float64
	}
	anonymised := slices.Contains(t.columns, "timestamp_anon")
	if !anonymised && !slices.Contains(t.columns, "timestamp") {
		return nil, &Error{file, 1, "timestamp", "it in the header", "other columns"}
	}
	var list []sample
	for t.next() {
		x := sample{value: float64(t.scaled("value", 1e12, 1e3)) / 1e3}
		if anonymised {
			x.at = t.scaled("timestamp_anon", maxSeconds, 1)
		} else {
			x.at = t.instantOf("timestamp")
		}
		list = append(list, x)
	}
	if t.err != nil {
		return nil, t.err
	}
	slices.SortStableFunc(list, func(a, b sample) int { return cmp.Compare(a.at, b.at) })
	step := int64(anonymisedAt / time.Second)
	if !anonymised {
		var gaps []int64
		for i := 1; i < len(list); i++ {
			if gap := list[i].at - list[i-1].at; gap > 0 {
				gaps = append(gaps, gap)
			}
		}
		if len(gaps) == 0 {
			return nil, &Error{File: file, Want: "loads of more than one instant", Got: strconv.Itoa(len(list))}
		}
		slices.Sort(gaps)
		step = gaps[len(gaps)/2]
	}
	if len(list) == 0 || (list[len(list)-1].at-list[0].at)/step >= maxSeries {
		return nil, &Error{File: file, Want: fmt.Sprintf("one to %d steps", maxSeries), Got: "none, or more"}
	}
	s := &Series{Name: filepath.Base(file), Start: time.Unix(list[0].at, 0).UTC(), Step: time.Duration(step) * time.Second}
	s.Loads = make([]float64, (list[len(list)-1].at-list[0].at+step/2)/step+1)
	for i := range s.Loads {
		s.Loads[i] = math.NaN()
	}
	for _, x := range list {
		load := &s.Loads[min(int((x.at-list[0].at+step/2)/step), len(s.Loads)-1)]
		if anonymised && !math.IsNaN(*load) {
			*load += x.value
		} else {
			*load = x.value
		}
	}
	return s, nil
}

// cellCPU is the use of CPU of a whole cell.
const cellCPU = "avg_cpu"

// readCell reads a month of a cell.
func readCell(t *table) (*Series, error) {
	s := &Series{Name: filepath.Base(t.file), Start: time.Date(2019, time.May, 1, 0, 0, 0, 0, time.UTC), Step: anonymisedAt}
	const scale = 1e6
	for t.next() && len(s.Loads) < maxSeries {
		s.Loads = append(s.Loads, float64(t.scaled(cellCPU, 1e12/scale, scale))/scale)
	}
	if t.err == nil && len(s.Loads) == 0 {
		t.err = &Error{File: t.file, Want: "one to " + strconv.Itoa(maxSeries) + " steps", Got: "none"}
	}
	return s, t.err
}

// instantOf reads an instant in seconds.
func (t *table) instantOf(column string) int64 {
	text := t.text(column)
	for _, layout := range []string{time.DateTime, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Unix()
		}
	}
	t.fail(column, "an instant like 2006-01-02 15:04:05 or 2006-01-02T15:04:05Z", quote(text))
	return 0
}
