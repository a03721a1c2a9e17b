package observe

import (
	"fmt"
	"math"
	"path"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// crowd are threads in cgroups, and what each waited.
type crowd struct {
	kernel  *fakeKernel
	cgroups []Cgroup
	threads [][]int32 // by cgroup
	share   func(id int32) float64
	read    int
}

// newCrowd makes cgroups with so many threads each; share is which share of the time a thread waits.
func newCrowd(sizes []int, share func(id int32) float64) *crowd {
	c := &crowd{kernel: newFakeKernel(), share: share}
	next := int32(1000)
	for i, size := range sizes {
		dir := fmt.Sprintf("c%d", i)
		c.cgroups = append(c.cgroups, Cgroup{ID: dir, Dir: dir, Threads: true})
		c.threads = append(c.threads, nil)
		for range size {
			c.threads[i] = append(c.threads[i], next)
			next++
		}
		c.list(i)
	}
	return c
}

func (c *crowd) list(i int) {
	var text strings.Builder
	for _, id := range c.threads[i] {
		fmt.Fprintln(&text, id)
	}
	dir := path.Join("sys/fs/cgroup", c.cgroups[i].Dir)
	c.kernel.write(path.Join(dir, "cgroup.threads"), text.String())
	c.kernel.write(path.Join(dir, "pids.current"), fmt.Sprintln(len(c.threads[i])))
}

// second lets a second pass and reads.
func (c *crowd) second(r *Reader) *Observation {
	c.read++
	for _, threads := range c.threads {
		for _, id := range threads {
			c.kernel.write(fmt.Sprintf("proc/%d/schedstat", id), fmt.Sprintf("1000000 %d 1\n", int64(c.share(id)*float64(c.read)*1e9)))
		}
	}
	return r.Read(time.Duration(c.read)*time.Second, c.cgroups)
}

// Nodes with 300, 5,000 and 50,000 threads: what each container waits is known and fresh, however many there are, and a read looks at no more than the budget.
func TestManyThreadsAreSampled(t *testing.T) {
	of := func(n, size int) []int {
		sizes := make([]int, n)
		for i := range sizes {
			sizes[i] = size
		}
		return sizes
	}
	for name, c := range map[string]struct {
		sizes []int
		reads int
		fresh time.Duration
	}{
		"300 in one":                {[]int{300}, 20, 5 * time.Second},
		"5,000 in one":              {[]int{5000}, 12, 5 * time.Second},
		"5,000 in fifty":            {of(50, 100), 20, 5 * time.Second},
		"5,000, one has nearly all": {append(of(30, 10), 4700), 20, 5 * time.Second},
		"50,000 in one":             {[]int{50_000}, 12, 5 * time.Second},
		"50,000 in a hundred":       {of(100, 500), 20, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			crowd := newCrowd(c.sizes, func(int32) float64 { return 0.8 })
			r := New(crowd.kernel, Params{})
			defer r.Close()
			var before uint64
			for read := range c.reads {
				o := crowd.second(r)
				if reads := o.Counts.ThreadReads - before; reads > 512 {
					t.Fatalf("read %d looks at %d threads", read, reads)
				}
				before = o.Counts.ThreadReads
				if read < c.reads-2 {
					continue
				}
				for i, use := range o.Cgroups {
					want := 0.8 * float64(c.sizes[i])
					if got, ok := use.CPU.RunDelay.Within(c.fresh); !ok || math.Abs(got-want) > want/100 {
						t.Fatalf("read %d: container %d with %d threads waits %v, want %v", read, i, c.sizes[i], use.CPU.RunDelay, want)
					}
				}
			}
		})
	}
}

// Each thread of a container is as likely to be read, wherever it stands in the list, so that the estimate is that of all threads in the mean: also where only those
// wait that stand beyond what is read.
func TestSamplesAreUnbiased(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(MaxThreads+1, 900).Draw(t, "threads")
		waiting := rapid.IntRange(n/10, n).Draw(t, "waiting")
		last := rapid.Bool().Draw(t, "the last ones wait")
		const turns = 120
		reads := map[int32]int{}
		crowd := newCrowd([]int{n}, func(id int32) float64 {
			at := int(id) - 1000
			if waits := at < waiting; last && at >= n-waiting || !last && waits {
				return 1
			}
			return 0
		})
		r := New(crowd.kernel, Params{SlowEvery: 1, Seed: rapid.Uint64().Draw(t, "seed")})
		defer r.Close()
		sum, known := 0.0, 0
		for range turns {
			o := crowd.second(r)
			if v, ok := o.Cgroups[0].CPU.RunDelay.Get(); ok {
				sum, known = sum+v, known+1
			}
			for _, s := range r.slots {
				for i := range s.threads {
					reads[s.threads[i].id]++
				}
			}
		}
		if known != turns-1 {
			t.Fatalf("%d of %d turns have a value", known, turns)
		}
		// The estimate of one turn has the standard deviation of a hypergeometric share of MaxThreads/2; turns are independent.
		p, sample := float64(waiting)/float64(n), float64(MaxThreads/2)
		deviation := float64(n) * math.Sqrt(p*(1-p)/sample/float64(known))
		if mean := sum / float64(known); math.Abs(mean-float64(waiting)) > 5*deviation+1e-6 {
			t.Fatalf("%d of %d threads wait; the mean of the estimates is %.1f, with a deviation of %.1f", waiting, n, mean, deviation)
		}
		chance := sample / float64(n)
		each := math.Sqrt(turns * chance * (1 - chance))
		for i := range n {
			if got := float64(reads[int32(1000+i)]); math.Abs(got-turns*chance) > 7*each {
				t.Fatalf("thread %d of %d was in %v of %d samples, want about %.0f", i, n, got, turns, turns*chance)
			}
		}
	})
}

// A container that passes the bound, in either direction, has no value that mixes both ways of counting; and one whose threads are all new is not known to wait for
// nothing.
func TestSamplesAcrossTheBound(t *testing.T) {
	crowd := newCrowd([]int{200}, func(int32) float64 { return 0.5 })
	r := New(crowd.kernel, Params{SlowEvery: 1})
	defer r.Close()
	all := append([]int32(nil), crowd.threads[0]...)
	for id := int32(5000); id < 5400; id++ {
		all = append(all, id)
	}
	for step, size := range []int{200, 200, 200, 600, 600, 600, 200, 200, 200, 600, 230, 600, 600} {
		// Those that come have waited before: they may not count as if that was now.
		crowd.threads[0] = all[:size]
		crowd.list(0)
		delay := crowd.second(r).Cgroups[0].CPU.RunDelay
		got, ok := delay.Get()
		if step > 0 && (!ok || got < 0.5*200-1 || got > 0.5*600+1) {
			t.Errorf("step %d, %d threads: %v", step, size, delay)
		}
	}
	// Threads that live for less than a second each.
	for step := range 5 {
		for i := range 200 {
			crowd.threads[0] = append(crowd.threads[0][:i:i], int32(10_000+1000*step+i))
		}
		crowd.list(0)
		if delay := crowd.second(r).Cgroups[0].CPU.RunDelay; step > 0 && delay.State() == Valid {
			t.Errorf("threads that are all new: %v", delay)
		}
	}
}
