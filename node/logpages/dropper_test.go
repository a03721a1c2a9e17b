package logpages

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"
)

const mib = 1 << 20

// disk is a directory in memory. Sizes and cached ranges of files are in MiB.
type disk struct {
	files map[string]*log
	stat  bool // the kernel tells what is cached
	open  int  // files that are open
	drops []string
}

// log is a file: which of its MiB are there, and which are cached.
type log struct {
	size         int64
	hole, cached map[int64]bool
}

func newLog(size int64) *log {
	l := &log{size: size, hole: map[int64]bool{}, cached: map[int64]bool{}}
	for i := range size {
		l.cached[i] = true
	}
	return l
}

func (d *disk) Open(string) (Tree, error) { return tree{d}, nil }

type tree struct{ *disk }

func (t tree) Close() error { return nil }

func (t tree) Entries(path string, most int) ([]fs.DirEntry, error) {
	all := fstest.MapFS{}
	for name := range t.files {
		all[name] = &fstest.MapFile{}
	}
	out, err := all.ReadDir(path)
	return out[:min(len(out), most)], err
}

func (t tree) Open(path string) (File, error) {
	l := t.files[path]
	if l == nil {
		return nil, ErrGone
	}
	t.open++
	return &opened{t.disk, l, path}, nil
}

type opened struct {
	*disk
	log  *log
	path string
}

func (o *opened) Close() error         { o.open--; return nil }
func (o *opened) Size() (int64, error) { return o.log.size * mib, nil }

func (o *opened) Data(offset int64) (int64, bool) {
	for ; offset < o.log.size*mib; offset = (offset/mib + 1) * mib {
		if !o.log.hole[offset/mib] {
			return offset, true
		}
	}
	return 0, false
}

func (o *opened) Cached(offset, length int64) (n int64, known bool) {
	for i := offset / mib; i*mib < offset+length; i++ {
		if o.log.cached[i] {
			n += mib
		}
	}
	return n, o.stat
}

func (o *opened) Drop(offset, length int64) error {
	o.drops = append(o.drops, fmt.Sprintf("%s %d+%d", o.path, offset/mib, length/mib))
	for i := offset / mib; i*mib < offset+length; i++ {
		delete(o.log.cached, i)
	}
	return nil
}

// A step ends with its budget, the next goes on where it ended, the end of a file stays, and what is not cached costs nothing.
func TestSteps(t *testing.T) {
	d := &disk{stat: true, files: map[string]*log{"a_a_1/main/0.log": newLog(10), "b_b_2/main/0.log": newLog(6), "b_b_2/main/1.log": newLog(1)}}
	dropper := New(d.Open, []string{"/logs"})
	step := func(at time.Duration, budget int64, want ...string) {
		t.Helper()
		d.drops = nil
		r := dropper.Step(at, budget*mib, mib)
		if !slices.Equal(d.drops, want) || d.open != 0 {
			t.Errorf("at %s %v, want %v; %d files are open", at, d.drops, want, d.open)
		}
		if r.Bytes > budget*mib {
			t.Errorf("%d MiB of %d", r.Bytes/mib, budget)
		}
	}
	step(0, 5, "a_a_1/main/0.log 0+4", "a_a_1/main/0.log 4+1")
	step(time.Second, 5, "a_a_1/main/0.log 5+4", "b_b_2/main/0.log 0+1")
	step(2*time.Second, 5, "b_b_2/main/0.log 1+4")
	d.files["a_a_1/main/0.log"].cached[2] = true
	step(3*time.Second, 5)                       // the list is done, and the next is not due
	step(time.Minute, 5, "a_a_1/main/0.log 0+4") // what is not cached is passed over
}

// Where the kernel does not tell what is cached, a file counts with its length; holes count nothing.
func TestUnknown(t *testing.T) {
	sparse := newLog(1 << 20) // a TiB
	for i := range sparse.size - 4 {
		sparse.hole[i] = true
	}
	d := &disk{files: map[string]*log{"a/0.log": sparse, "b/0.log": newLog(6)}}
	r := New(d.Open, []string{"/logs"}).Step(0, 100*mib, mib)
	if want := []string{"a/0.log 1048572+3", "b/0.log 0+4", "b/0.log 4+1"}; !slices.Equal(d.drops, want) || r.Bytes != 8*mib || r.Files != 2 {
		t.Errorf("%v, %+v, want %v", d.drops, r, want)
	}
}

// Many files of one folder, or folders deep in one another, keep no other folder from its turn.
func TestBounds(t *testing.T) {
	d := &disk{stat: true, files: map[string]*log{"z/0.log": newLog(2), "y/" + strings.Repeat("d/", 40) + "0.log": newLog(2)}}
	for i := range 3 * maxFiles {
		d.files[fmt.Sprintf("a/%04d.log", i)] = newLog(2)
	}
	r := New(d.Open, []string{"/logs"}).Step(0, 1<<40, mib)
	if r.Files != maxFiles+1 || !slices.Contains(d.drops, "z/0.log 0+1") {
		t.Errorf("%d files: %v", r.Files, d.drops[max(0, len(d.drops)-3):])
	}
	// A file with as many ranges as one likes ends a step, and the next goes on.
	long := newLog(rangeBytes / mib * (maxRanges + 10))
	clear(long.cached)
	d.files = map[string]*log{"a/0.log": long, "b/0.log": newLog(2)}
	dropper := New(d.Open, []string{"/logs"})
	d.drops = nil
	if dropper.Step(0, 1<<40, mib); len(d.drops) > 0 {
		t.Errorf("in one step: %v", d.drops)
	}
	if dropper.Step(time.Second, 1<<40, mib); len(d.drops) != 1 {
		t.Errorf("in two: %v", d.drops)
	}
}

// Patterns take directories of their names, and files below those alone.
func TestPatterns(t *testing.T) {
	d := &disk{stat: true, files: map[string]*log{
		"1/volumes/logs/a.log": newLog(2), "1/volumes/data/b.db": newLog(2), "2/volumes/logs/deep/c.log": newLog(2), "3/other/logs/d.log": newLog(2), "4/e.log": newLog(2),
	}}
	dropper := New(d.Open, []string{"/pods/*/volumes/log?"})
	if dropper.Step(0, 1<<40, mib); !slices.Equal(d.drops, []string{"1/volumes/logs/a.log 0+1", "2/volumes/logs/deep/c.log 0+1"}) {
		t.Errorf("%v", d.drops)
	}
	if got := newPattern("/pods/*/volumes/log?"); got.base != "/pods" || strings.Join(got.names, " ") != "* volumes log?" {
		t.Errorf("%+v", got)
	}
}

// A directory that cannot be opened is told of, and others are worked on.
func TestProblems(t *testing.T) {
	d := &disk{stat: true, files: map[string]*log{"a/0.log": newLog(2)}}
	open := func(directory string) (Tree, error) {
		if directory == "/gone" {
			return nil, errors.New("no such directory")
		}
		return d.Open(directory)
	}
	r := New(open, []string{"/gone", "/logs"}).Step(0, mib, 0)
	if len(d.drops) != 1 || fmt.Sprint(r.Problems) != "[/gone: no such directory]" {
		t.Errorf("%v, %+v", d.drops, r)
	}
}

// failing has files that fail each in its own way.
type failing struct{ tree }

func (f failing) Open(path string) (File, error) { return nil, fmt.Errorf("%s fails", path) }

// Files that fail each in its own way are not each told of: a tenant may have made them.
func TestProblemsAreBounded(t *testing.T) {
	d := &disk{files: map[string]*log{}}
	for i := range maxFiles {
		d.files[fmt.Sprintf("a/%d.log", i)] = newLog(2)
	}
	r := New(func(string) (Tree, error) { return failing{tree{d}}, nil }, []string{"/logs"}).Step(0, mib, 0)
	if len(r.Problems) != maxProblems {
		t.Errorf("%d problems: want %d", len(r.Problems), maxProblems)
	}
}

// Whatever files there are: steps are within their budgets, the ends of files stay, no file is left open, and in some steps everything else is dropped.
func TestAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &disk{stat: rapid.Bool().Draw(t, "stat"), files: map[string]*log{}}
		for i := range rapid.IntRange(0, 8).Draw(t, "files") {
			l := newLog(rapid.Int64Range(0, 30).Draw(t, "size"))
			for j := range l.size {
				if rapid.IntRange(0, 3).Draw(t, "hole") == 0 {
					l.hole[j] = true
					delete(l.cached, j)
				}
			}
			d.files[fmt.Sprintf("%d/%d.log", i%3, i)] = l
		}
		budget, keep := rapid.Int64Range(1, 20).Draw(t, "budget")*mib, rapid.Int64Range(0, 3).Draw(t, "keep")*mib
		dropper := New(d.Open, []string{"/logs"})
		for i := range 120 {
			if r := dropper.Step(time.Duration(i)*time.Second, budget, keep); r.Bytes > budget+leastBytes || d.open != 0 {
				t.Fatalf("%+v of %d; %d files are open", r, budget, d.open)
			}
		}
		for name, l := range d.files {
			for i := range l.size {
				if end := i*mib >= l.size*mib-keep; l.cached[i] != (end && !l.hole[i]) {
					t.Fatalf("%s: MiB %d of %d is cached: %t", name, i, l.size, l.cached[i])
				}
			}
		}
	})
}
