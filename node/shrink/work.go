package shrink

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Outcome says how a request ended.
type Outcome string

// The outcomes. All but Done may have got something.
const (
	Done        Outcome = "Done"        // all that was asked for
	Partial     Outcome = "Partial"     // the kernel found no more
	Late        Outcome = "Late"        // the deadline came first
	Pressed     Outcome = "Pressed"     // online pods felt pressure
	Stopped     Outcome = "Stopped"     // the agent is stopping
	Gone        Outcome = "Gone"        // the cgroup is
	Unsupported Outcome = "Unsupported" // the kernel cannot be asked for this
	Failed      Outcome = "Failed"      // Err says why
)

// Result is what came of a request.
type Result struct {
	Request
	Outcome Outcome
	// Got is how many bytes the kernel says to have taken, at least.
	Got int64
	// Steps is the number of writes, Longest the time of the slowest.
	Steps         int
	Took, Longest time.Duration
	Err           error
}

// fileOnly is what a write of memory.reclaim ends with that takes no anonymous memory.
const fileOnly = " swappiness=0"

func (s *Shrinker) work(ctx context.Context, r Request) Result {
	began := time.Now()
	out := Result{Request: r}
	for step := s.params.Load().Step; out.Outcome == ""; {
		switch {
		case out.Got >= r.Bytes:
			out.Outcome = Done
		case ctx.Err() != nil:
			out.Outcome = Stopped
		case time.Since(began) >= s.params.Load().Deadline.D():
			out.Outcome = Late
		case s.halt():
			out.Outcome = Pressed
		default:
			took := s.step(&out, min(step, r.Bytes-out.Got))
			step = s.next(step, took)
			if out.Outcome == "" && out.Got < r.Bytes {
				rest(ctx, s.params.Load().Rest.D())
			}
		}
	}
	out.Took = time.Since(began)
	return out
}

// step writes once, and says how long that took.
func (s *Shrinker) step(out *Result, bytes int64) time.Duration {
	before, err := s.current(out.Cgroup)
	if err != nil {
		out.fail(err)
		return 0
	}
	request := strconv.FormatInt(bytes, 10)
	if out.FileOnly {
		request += fileOnly
	}
	began := time.Now()
	err = s.kernel.Write(out.Cgroup+"/memory.reclaim", request)
	took := time.Since(began)
	out.Steps++
	out.Longest = max(out.Longest, took)
	switch {
	case err == nil:
		out.Got += bytes
		return took
	case errors.Is(err, syscall.EAGAIN):
		out.Outcome = Partial
	case errors.Is(err, syscall.EINTR): // a signal came; the next write goes on
	case errors.Is(err, syscall.EINVAL) && out.FileOnly:
		out.Outcome, out.Err = Unsupported, err
	default:
		out.fail(err)
	}
	after, readErr := s.current(out.Cgroup)
	if readErr != nil {
		out.fail(readErr)
		return took
	}
	if out.Outcome == Gone { // the cgroup is there, so it is the file that is not
		out.Outcome, out.Err = Unsupported, err
	}
	out.Got += min(max(before-after, 0), bytes) // it may have grown meanwhile: then that is less than was taken
	return took
}

// next is how much the next write asks for.
func (s *Shrinker) next(step int64, took time.Duration) int64 {
	switch {
	case took > s.params.Load().StepTime.D():
		step /= 2
	case took < s.params.Load().StepTime.D()/2:
		step *= 2
	}
	return min(max(step, leastStep), s.params.Load().Step)
}

func (s *Shrinker) current(cgroup string) (int64, error) {
	text, err := s.kernel.Read(cgroup + "/memory.current")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(text), 10, 64)
}

// fail notes an error that ends the request.
func (r *Result) fail(err error) {
	r.Outcome, r.Err = Failed, err
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV) {
		r.Outcome = Gone
	}
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
