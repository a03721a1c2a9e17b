package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/api/spec"
)

const (
	largeBlock, smallBlock = 1 << 20, 4 << 10
	// Depths are how many requests are under way at once: as many as keep a disk busy.
	largeDepth, smallDepth = 4, 32
)

// RealDisk is a disk of this machine.
func RealDisk(directory string, inUse bool) (*DiskTrial, error) {
	directory, err := filepath.Abs(directory)
	if err != nil {
		return nil, err
	}
	if behind, err := filepath.EvalSymlinks(directory); err == nil { // else it is not there, as is found out below
		directory = behind
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	return &DiskTrial{
		Directory: directory, InUse: inUse, Mounts: string(mounts), Wait: time.Sleep,
		Free: func() (uint64, error) {
			var s unix.Statfs_t
			if err := unix.Statfs(directory, &s); err != nil {
				return 0, fmt.Errorf("%s: %w", directory, err)
			}
			return s.Bavail * uint64(max(s.Bsize, 0)), nil
		},
		Measure: func(ctx context.Context) (spec.IOModel, error) {
			return measure(ctx, directory, DiskFileBytes, DiskTime)
		},
	}, nil
}

// measure measures a file of some size in a directory, past the page cache. The file has no name while that is done, so that it goes with this process in any case.
func measure(ctx context.Context, directory string, size int64, each time.Duration) (m spec.IOModel, err error) {
	name := filepath.Join(directory, fmt.Sprintf(".hilbert-probe-%d", os.Getpid()))
	fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return m, fmt.Errorf("make the file %s, past the page cache: %w", name, err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := os.Remove(name); err != nil {
		return m, fmt.Errorf("take its name from the file: %w", err)
	}
	trial := &fileTrial{fd: fd, size: size, each: each}
	wrote, err := trial.run(ctx, pattern{block: largeBlock, depth: largeDepth, write: true})
	if err != nil {
		return m, err
	}
	if trial.size = int64(wrote.blocks) * largeBlock; trial.size < largeBlock*largeDepth {
		return m, fmt.Errorf("the disk has written %d bytes in %v: too few to read again", trial.size, each)
	}
	m.WriteBytes = wrote.rate(largeBlock)
	for _, one := range []struct {
		pattern
		to *uint64
	}{
		{pattern{block: smallBlock, depth: smallDepth, write: true}, &m.SequentialWrites},
		{pattern{block: smallBlock, depth: smallDepth, write: true, random: true}, &m.RandomWrites},
		{pattern{block: largeBlock, depth: largeDepth}, &m.ReadBytes},
		{pattern{block: smallBlock, depth: smallDepth}, &m.SequentialReads},
		{pattern{block: smallBlock, depth: smallDepth, random: true}, &m.RandomReads},
	} {
		did, err := trial.run(ctx, one.pattern)
		if err != nil {
			return m, err
		}
		unit := 1
		if one.block == largeBlock {
			unit = largeBlock
		}
		*one.to = did.rate(unit)
	}
	return m, nil
}

// pattern is how a file is used.
type pattern struct {
	block, depth  int
	write, random bool
}

// work is what was done.
type work struct {
	blocks uint64
	took   time.Duration
}

func (w work) rate(unit int) uint64 {
	return uint64(float64(w.blocks) * float64(unit) / max(w.took.Seconds(), 1e-3))
}

// fileTrial is a file that is written and read.
type fileTrial struct {
	fd   int
	size int64
	each time.Duration
}

// run works once through the file, or for as long as one measurement may take.
func (t *fileTrial) run(ctx context.Context, p pattern) (work, error) {
	blocks := t.size / int64(p.block)
	var next, done atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	var wait sync.WaitGroup
	for i := range p.depth {
		wait.Go(func() {
			memory := aligned(p.block)
			random := rand.New(rand.NewPCG(uint64(i), uint64(p.block))) //nolint:gosec // where a disk is read is no secret
			for ctx.Err() == nil && failed.Load() == nil && time.Since(began) < t.each {
				at := next.Add(1) - 1
				if at >= blocks {
					return
				}
				if p.random {
					at = random.Int64N(blocks)
				}
				if err := once(t.fd, memory, at*int64(p.block), p.write); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wait.Wait()
	if p.write {
		if err := unix.Fdatasync(t.fd); err != nil {
			return work{}, fmt.Errorf("sync: %w", err)
		}
	}
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		return work{}, *err
	}
	return work{uint64(max(done.Load(), 0)), took}, ctx.Err()
}

func once(fd int, memory []byte, at int64, write bool) error {
	do, what := unix.Pread, "read"
	if write {
		do, what = unix.Pwrite, "write"
	}
	n, err := do(fd, memory, at)
	if err == nil && n != len(memory) {
		err = fmt.Errorf("%d of %d bytes", n, len(memory))
	}
	if err != nil {
		return fmt.Errorf("%s at %d: %w", what, at, err)
	}
	return nil
}

// aligned is memory that O_DIRECT takes. It is not all zeros, which some disks do not write.
func aligned(size int) []byte {
	memory := make([]byte, size+smallBlock)
	start := smallBlock - int(uintptr(unsafe.Pointer(&memory[0]))%smallBlock) //nolint:gosec // its place counts, and nothing is reached by it
	memory = memory[start : start+size]
	for i := range memory {
		memory[i] = byte(i * 31 >> 3)
	}
	return memory
}
