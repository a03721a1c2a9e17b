package trace

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bounds on curves: far above the real files.
const (
	maxUnpacked = 256 << 20 // bytes of a compressed file's contents
	maxCurves   = 100_000
	maxPoints   = 10_000
)

// Curves are how something moved in the course of a day: rows of the same number of points, evenly apart.
type Curves struct {
	// Name says where they came from, for people.
	Name string
	Rows [][]float64
}

// Tides that requests are grouped into, and the points of a day.
const (
	tideGroups = 8
	tidePoints = 288 // of five minutes
)

// LoadTide reads requests of a day from a file, which may be gzipped, and in a tar: see ReadTide.
func LoadTide(path string) (*Curves, error) { return load("tide", path, ReadTide) }

// ReadTide reads measured request rates of a service: timestamp_anon (seconds), value (requests a second), container_ip and request_type, as
// cluster-trace-v2026-GenAI has them. Each row of the result is the shape of a day, with mean 1: the first of the requests that no container is named
// for, the others of groups of containers, dealt in order of appearance. Whatever time the file spans becomes a day. file is for messages.
func ReadTide(file string, r io.Reader) (*Curves, error) {
	t, err := newTable(file, r, "timestamp_anon", "value", "container_ip")
	if err != nil {
		return nil, err
	}
	type sample struct {
		at    int64 // ms
		value float64
		group int
	}
	var samples []sample
	groups := make(map[string]int)
	first, last := int64(math.MaxInt64), int64(0)
	for t.next() {
		s := sample{at: t.scaled("timestamp_anon", maxSeconds, 1000), value: float64(t.scaled("value", 1e9, 1e6)) / 1e6}
		if container := t.text("container_ip"); container != "" {
			n, ok := groups[container]
			if !ok {
				n = 1 + len(groups)%(tideGroups-1)
				groups[strings.Clone(container)] = n
			}
			s.group = n
		}
		first, last = min(first, s.at), max(last, s.at)
		samples = append(samples, s)
	}
	if t.err != nil {
		return nil, t.err
	}
	if last <= first {
		return nil, &Error{File: file, Want: "samples of more than one instant", Got: strconv.Itoa(len(samples))}
	}
	rows := make([][]float64, tideGroups)
	for i := range rows {
		rows[i] = make([]float64, tidePoints)
	}
	for _, s := range samples {
		point := int(float64(s.at-first) / float64(last-first+1) * tidePoints)
		rows[s.group][point] += s.value
	}
	c := &Curves{Name: "requests of " + file}
	for _, row := range rows {
		if smooth(row) {
			c.Rows = append(c.Rows, row)
		}
	}
	return c, nil
}

// smoothing is how many points to either side a curve is averaged over: requests are few, and what is left of them in five minutes is chance.
const smoothing = 2

// smooth averages a curve around the clock and gives it the mean 1; false: it is nothing.
func smooth(row []float64) bool {
	raw, sum := slices.Clone(row), 0.0
	for i := range row {
		row[i] = 0
		for k := -smoothing; k <= smoothing; k++ {
			row[i] += raw[(i+k+len(raw))%len(raw)]
		}
		sum += row[i]
	}
	if sum <= 0 {
		return false
	}
	for i := range row {
		row[i] *= float64(len(row)) / sum
	}
	return true
}

// LoadUse reads the CPU use of machines from a file, which may be gzipped, and in a tar: see ReadUse.
func LoadUse(path string) (*Curves, error) { return load("use", path, ReadUse) }

// ReadUse reads the CPU use of virtual machines in percent, a row each: vm, t0, t1 and so on, as the PlanetLab traces have it. Rows of the result are
// from 0 to 1. file is for messages.
func ReadUse(file string, r io.Reader) (*Curves, error) {
	t, err := newTable(file, r, "vm", "t0")
	if err != nil {
		return nil, err
	}
	points := 0
	for points < maxPoints && slices.Contains(t.columns, "t"+strconv.Itoa(points)) {
		points++
	}
	c := &Curves{Name: "use of " + file}
	for t.next() {
		row := make([]float64, points)
		for i := range row {
			row[i] = float64(t.scaled("t"+strconv.Itoa(i), 100, 100)) / 1e4
		}
		if c.Rows = append(c.Rows, row); len(c.Rows) > maxCurves {
			t.fail("", fmt.Sprintf("at most %d machines", maxCurves), "more")
		}
	}
	if t.err == nil && len(c.Rows) == 0 {
		t.line = 0
		t.fail("", "at least one machine", "only a header")
	}
	if t.err != nil {
		return nil, t.err
	}
	return c, nil
}

// load reads a file, or what is packed in it. what names that for people.
func load[T any](what, path string, read func(file string, r io.Reader) (T, error)) (T, error) {
	var loaded T
	err := withContents(path, func(r io.Reader) (err error) {
		loaded, err = read(path, r)
		return err
	})
	if err != nil {
		return loaded, fmt.Errorf("load the %s: %w", what, err)
	}
	return loaded, nil
}

// withContents reads a file, or what is packed in it: gzip and tar are told by the first bytes, and of an archive the first file is read.
func withContents(path string, read func(io.Reader) error) error {
	return withFile(path, func(r io.Reader) error {
		var head [2]byte
		n, err := io.ReadFull(r, head[:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		whole := io.MultiReader(bytes.NewReader(head[:n]), r)
		if n < 2 || head != [2]byte{0x1f, 0x8b} {
			return read(whole)
		}
		unpacked, err := gzip.NewReader(whole)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(unpacked, maxUnpacked+1))
		if err != nil {
			return err
		}
		if len(text) > maxUnpacked {
			return fmt.Errorf("%s unpacks to more than %d bytes", path, maxUnpacked)
		}
		archive := tar.NewReader(bytes.NewReader(text))
		for {
			header, err := archive.Next()
			if err != nil { // it is no archive, or has no file
				return read(bytes.NewReader(text))
			}
			if header.Typeflag == tar.TypeReg {
				return read(archive)
			}
		}
	})
}
