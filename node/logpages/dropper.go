package logpages

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// The bounds of a step and of a list.
const (
	// rangeBytes is how much of a file is dropped at once, and leastBytes the least: a step goes beyond its budget by no more than that.
	rangeBytes, leastBytes = 4 << 20, 64 << 10
	// maxRanges is how many ranges and files a step looks at: there may be long files without any page, and many files.
	maxRanges = 1 << 12
	// maxFolders and maxFiles bound a list: folders of a directory, and files of a folder with all below it. maxDepth is how deep is looked.
	maxFolders, maxFiles, maxDepth = 2048, 128, 6
	// listEvery is how often directories are listed: files that come in between have their turn later.
	listEvery = 30 * time.Second
	// maxProblems bounds what is told of a list: tenants' files may fail in many ways.
	maxProblems = 32
)

// The errors of Tree and File that are no fault: the file or directory went away, or it is none that may be opened.
var (
	ErrGone    = errors.New("it is gone")
	ErrRefused = errors.New("it is no regular file or directory below the directory, or lies behind a link or mount")
)

// Tree is an open directory of the configuration. Paths are relative to it. Any directory may be written by a tenant, so that each path is resolved anew and guarded.
type Tree interface {
	// Entries lists a directory, at most so many.
	Entries(path string, most int) ([]fs.DirEntry, error)
	Open(path string) (File, error)
	Close() error
}

// File is an open log file.
type File interface {
	Size() (int64, error)
	// Data is where data begins at or after an offset: log files may have holes. ok is false where there is none.
	Data(offset int64) (begin int64, ok bool)
	// Cached is how many bytes of a range are in the page cache; not known: the kernel does not tell.
	Cached(offset, length int64) (bytes int64, known bool)
	// Drop has the kernel begin to write dirty pages of a range, and drop clean ones.
	Drop(offset, length int64) error
	Close() error
}

// Open opens a directory of the configuration; Host is one.
type Open func(directory string) (Tree, error)

// Result is what a step did. Bytes is what it did of its budget: pages that were cached, or where the kernel does not tell, the length of the files.
type Result struct {
	Bytes, Files int64
	// Problems are the directories that cannot be worked on, and why, for people.
	Problems []string
}

// Dropper works through log files, a step at a time. It belongs to one caller at a time.
type Dropper struct {
	open        Open
	directories []pattern
	queue       []entry
	listed      time.Duration
	once        bool // it was listed
	problems    []string
}

// entry is a file that has its turn, from an offset on.
type entry struct {
	directory int
	path      string
	offset    int64
}

// New returns a Dropper for directories, which may have wildcards (spec.Node.LogDirectories). It opens nothing before Step.
func New(open Open, directories []string) *Dropper {
	d := &Dropper{open: open}
	for _, directory := range directories {
		d.directories = append(d.directories, newPattern(directory))
	}
	return d
}

// Step drops so many bytes of pages at most, and leastBytes more. keep is what stays at the end of each file. at is the time since some moment.
func (d *Dropper) Step(at time.Duration, budget, keep int64) Result {
	w := work{budget: budget}
	trees := make([]Tree, len(d.directories))
	defer func() {
		for _, t := range trees {
			if t != nil {
				_ = t.Close() // it was only read
			}
		}
	}()
	list := len(d.queue) == 0 && (!d.once || at-d.listed >= listEvery)
	if list {
		d.problems, d.listed, d.once = nil, at, true
	}
	if list || len(d.queue) > 0 {
		d.openAll(trees)
	}
	if list {
		for i, tree := range trees {
			if tree != nil {
				d.queue = append(d.queue, d.list(i, tree)...)
			}
		}
	}
	for len(d.queue) > 0 && !w.over() {
		next := &d.queue[0]
		w.looks++
		done := true
		if tree := trees[next.directory]; tree != nil {
			done = d.drop(tree, next, keep, &w)
		}
		if done {
			d.queue = d.queue[1:]
		}
	}
	if len(d.queue) == 0 {
		d.queue = nil
	}
	w.Problems = slices.Clone(d.problems)
	return w.Result
}

// work is what one Step has done.
type work struct {
	Result
	budget int64 // bytes
	looks  int
}

// over reports whether the Step has done all that it may.
func (w *work) over() bool { return w.looks >= maxRanges || w.Bytes >= w.budget }

// openAll opens the directories. One that cannot be opened is told of, and its files lose their turn.
func (d *Dropper) openAll(trees []Tree) {
	for i := range d.directories {
		tree, err := d.open(d.directories[i].base)
		if err != nil {
			d.problem(d.directories[i].base, err)
			continue
		}
		trees[i] = tree
	}
}

func (d *Dropper) problem(directory string, err error) {
	if text := fmt.Sprintf("%s: %v", directory, err); len(d.problems) < maxProblems && !slices.Contains(d.problems, text) {
		d.problems = append(d.problems, text)
	}
}

// drop works on one file, and reports whether its turn is over.
func (d *Dropper) drop(tree Tree, e *entry, keep int64, w *work) (done bool) {
	file, err := tree.Open(e.path)
	if err != nil {
		if !errors.Is(err, ErrGone) && !errors.Is(err, ErrRefused) {
			d.problem(d.directories[e.directory].base, err)
		}
		return true
	}
	defer func() { _ = file.Close() }()
	size, err := file.Size()
	if err != nil {
		return true
	}
	if e.offset == 0 {
		w.Files++
	}
	end := size - keep
	for e.offset < end {
		if w.over() {
			return false
		}
		w.looks++
		begin, ok := file.Data(e.offset)
		if !ok || begin >= end {
			return true
		}
		length, cost := affordable(file, begin, min(rangeBytes, end-begin), w.budget-w.Bytes)
		e.offset = begin + length
		if cost == 0 {
			continue
		}
		if err := file.Drop(begin, length); err != nil {
			d.problem(d.directories[e.directory].base, err)
			return true
		}
		w.Bytes += cost
	}
	return true
}

// affordable is how much of a range is dropped now, and what of the budget that takes: all of it, or as much as is left, and a little more.
func affordable(file File, begin, length, left int64) (dropped, cost int64) {
	if cost = costOf(file, begin, length); cost <= left {
		return length, cost
	}
	length = min(length, max(left/leastBytes, 1)*leastBytes) // whole pages: the kernel drops no parts
	return length, costOf(file, begin, length)
}

// costOf is what of a range is cached; where the kernel does not tell, all of it.
func costOf(file File, begin, length int64) int64 {
	if cost, known := file.Cached(begin, length); known {
		return cost
	}
	return length
}
