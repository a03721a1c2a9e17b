package trace

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// JobDay is what the pods of a job used in the course of a day, as shares of what it asked for: 1 is all of it. NaN is not known.
type JobDay struct {
	Day         int
	CPU, Memory []float64
}

// Job is a job and the days on which it ran, in order.
type Job struct {
	Name string
	Days []JobDay
}

// maxShare bounds what a job may use of what it asked for, in percent; maxDay the days of a trace.
const (
	maxShare = 1e6
	maxDay   = 10_000
)

// LoadJobs reads the use of jobs from a file, which may be gzipped, and in a tar: see ReadJobs.
func LoadJobs(path string) ([]Job, error) { return load("jobs' use", path, ReadJobs) }

// ReadJobs reads the use of jobs in percent of what they asked for: a row is a job, a day and a resource (job, day, resource, t0, t1, and so on over
// the day), as the extraction of the Google cluster data of 2011 has them. resource is cpu or memory; other resources are left out. An empty field is
// not known. Days without both resources are left out. The jobs come in order of their names. file is for messages.
func ReadJobs(file string, r io.Reader) ([]Job, error) {
	t, err := newTable(file, r, "job", "day", "resource", "t0")
	if err != nil {
		return nil, err
	}
	at := slices.Index(t.columns, "t0")
	points := 0
	for at+points < len(t.columns) && points < maxPoints && t.columns[at+points] == "t"+strconv.Itoa(points) {
		points++
	}
	days := make(map[string]map[int]*JobDay)
	for t.next() {
		name, day, resource := t.name("job"), int(t.whole("day", 0, maxDay)), t.text("resource")
		if resource != "cpu" && resource != "memory" {
			continue
		}
		row := t.shares(at, points)
		of, ok := days[name]
		if !ok {
			of = make(map[int]*JobDay)
			days[name] = of
		}
		d, ok := of[day]
		if !ok {
			d = &JobDay{Day: day}
			of[day] = d
		}
		series := &d.CPU
		if resource == "memory" {
			series = &d.Memory
		}
		if *series != nil {
			t.fail("day", "each job, day and resource once", fmt.Sprintf("%s of day %d again", resource, day))
		}
		*series = row
	}
	if t.err != nil {
		return nil, t.err
	}
	var jobs []Job
	for name, of := range days {
		j := Job{Name: name}
		for _, d := range of {
			if d.CPU != nil && d.Memory != nil {
				j.Days = append(j.Days, *d)
			}
		}
		slices.SortFunc(j.Days, func(a, b JobDay) int { return cmp.Compare(a.Day, b.Day) })
		if len(j.Days) > 0 {
			jobs = append(jobs, j)
		}
	}
	if len(jobs) == 0 {
		return nil, &Error{File: file, Want: "a day of a job with cpu and memory", Got: "none"}
	}
	slices.SortFunc(jobs, func(a, b Job) int { return strings.Compare(a.Name, b.Name) })
	return jobs, nil
}

// shares reads columns in percent, from one on. An empty field is NaN.
func (t *table) shares(from, n int) []float64 {
	row := make([]float64, n)
	for i := range row {
		text := strings.TrimSpace(t.record[from+i])
		if text == "" {
			row[i] = math.NaN()
			continue
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= 0 && x <= maxShare) {
			t.fail(t.columns[from+i], fmt.Sprintf("a number from 0 to %g, or nothing", float64(maxShare)), quote(text))
		}
		row[i] = x / 100
	}
	return row
}
