package bandwidth

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/rdt"
)

// ErrAbsent says that the machine counts no memory bandwidth.
var ErrAbsent = errors.New("resctrl counts none on this machine")

// Params tune a Reader.
type Params struct {
	// Groups is how many groups are made at most; 0: none, and what is left of them is removed.
	Groups int
	// Turn is how long a pod keeps its group where another is wanted more.
	Turn time.Duration
	// Retry is how long after a refusal it is tried again.
	Retry time.Duration
}

// DefaultParams make no group. A turn is long enough for harm to be told in it.
func DefaultParams() Params { return Params{Turn: 5 * time.Minute, Retry: time.Minute} }

const (
	// prefix begins the name of each group of ours.
	prefix  = "hilbert-pod-"
	monDir  = "mon_groups"
	infoDir = "info/L3_MON"
	counter = "mbm_total_bytes"
	// maxInterval is the longest time that a value may be of: what was long ago is another load.
	maxInterval = time.Minute
	// maxRate is more than any memory gives to one domain, in bytes per second: a counter that says so has jumped.
	maxRate = 1e13
	// spared is the part of the hardware's groups that is left to others: one in so many.
	spared = 2
)

// uidFormat is what a group may be named after: nothing that leads out of a directory.
var uidFormat = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{0,63}$`)

// Use is the memory bandwidth of a pod between the last two readings, in bytes per second, written and read.
type Use struct {
	Total advise.Sample
	// Local is the part of Total that went to the NUMA node of the CPU. Some hardware does not count it.
	Local advise.Sample
	// Domains are the totals by domain of the last-level cache, mostly a socket. Nil: Total is not known.
	Domains map[int]float64
}

// Status is what a Reader does.
type Status struct {
	// Known are the pods whose bandwidth is known now, Unknown those with a group and no value, Waiting those for which there is no group.
	Known, Unknown, Waiting int
	// Groups are those that are made, Limit how many may be.
	Groups, Limit int
	// Why says why nothing, or not all, is counted; nil: it is.
	Why error
}

// Reader keeps a group for each pod that is wanted, as far as there are groups. It is used by one goroutine.
type Reader struct {
	tree     rdt.Tree
	threads  func(cgroup string) ([]int, error)
	params   Params
	groups   map[string]*group // by UID
	hardware int               // how many groups there can be; 0: it is not known
	retry    time.Duration
	last     time.Duration
	others   map[int]bool // threads in monitoring groups that are not ours
	status   Status
}

// group is the group of one pod.
type group struct {
	dir    string // below the tree; empty: it is not made
	since  time.Duration
	at     time.Duration // of counts
	counts map[int]count // of the last reading, by domain; nil: there is none
	use    Use
}

// count is what a domain's counters said.
type count struct{ total, local advise.Sample }

// NewReader returns a Reader of a resctrl file system. threads lists those of a cgroup.
func NewReader(t rdt.Tree, threads func(cgroup string) ([]int, error), p Params) *Reader {
	return &Reader{tree: t, threads: threads, params: p, groups: make(map[string]*group)}
}

// Read reads the counters of pods, the most wanted first. now is monotonic. The groups of pods that are not wanted any more are removed.
func (r *Reader) Read(now time.Duration, wanted []Pod) {
	if now < r.last {
		r.groups = make(map[string]*group)
		r.retry = now
	}
	r.last = now
	r.status = Status{Why: r.look(now), Limit: r.limit()}
	chosen := r.choose(now, wanted)
	for uid := range r.groups {
		if !slices.ContainsFunc(chosen, func(p Pod) bool { return p.UID == uid }) {
			delete(r.groups, uid)
		}
	}
	for i := range chosen {
		r.locate(&chosen[i])
	}
	if err := r.sweep(); err != nil {
		r.status.Why = err
	}
	for i := range chosen {
		r.read(now, &chosen[i])
	}
	r.status.Waiting = len(wanted) - r.status.Known - r.status.Unknown
}

// Of is a pod's bandwidth.
func (r *Reader) Of(uid string) Use {
	if g := r.groups[uid]; g != nil {
		return g.use
	}
	return Use{}
}

// Status is what the Reader does.
func (r *Reader) Status() Status { return r.status }

// Limit says how many groups may be made, in the place of Params.Groups. The next Read removes what is more.
func (r *Reader) Limit(groups int) { r.params.Groups = groups }

// limit is how many groups there may be on this hardware.
func (r *Reader) limit() int { return min(r.params.Groups, r.hardware/spared) }

// Close removes all groups. Their threads go on as they are, counted by nobody.
func (r *Reader) Close() error {
	clear(r.groups)
	r.status = Status{}
	return r.sweep()
}

// Remove removes the groups of any Reader, as Close does.
func Remove(t rdt.Tree) error { return NewReader(t, nil, Params{}).sweep() }

// look finds how many groups there may be. The error says why none.
func (r *Reader) look(now time.Duration) error {
	switch {
	case r.params.Groups == 0 || r.hardware > 0:
		return nil
	case now < r.retry:
		return r.status.Why
	}
	r.retry = now + r.params.Retry
	features, err := r.tree.Read(infoDir + "/mon_features")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	if !slices.Contains(strings.Fields(features), counter) {
		return fmt.Errorf("%w: of %s it counts only %q", ErrAbsent, counter, strings.Join(strings.Fields(features), " "))
	}
	text, err := r.tree.Read(infoDir + "/num_rmids")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("%s/num_rmids: want a number, got %q", infoDir, strings.TrimSpace(text))
	}
	r.hardware, r.retry = int(n), now
	return nil
}

// choose returns the pods that have a group from now on: those that have had one for less than a turn, and then those wanted most.
func (r *Reader) choose(now time.Duration, wanted []Pod) []Pod {
	var keep, others []Pod
	for _, p := range wanted {
		switch g := r.groups[p.UID]; {
		case !uidFormat.MatchString(p.UID) || p.Cgroup == "":
		case g != nil && g.dir != "" && now-g.since < r.params.Turn:
			keep = append(keep, p)
		default:
			others = append(others, p)
		}
	}
	all := append(keep, others...)
	return all[:min(len(all), r.limit())]
}

// locate finds where the group of a pod belongs: a group of package rdt, if these are made, for threads can only be in monitoring groups of the group that they are in. Where it was
// elsewhere, it begins anew.
func (r *Reader) locate(p *Pod) {
	parent := string(rdt.Online)
	if p.Reclaimed {
		parent = string(rdt.Reclaimed)
	}
	if _, err := r.tree.List(path.Join(parent, monDir)); err != nil {
		parent = ""
	}
	dir := path.Join(parent, monDir, prefix+p.UID)
	if g := r.groups[p.UID]; g == nil || g.dir != "" && g.dir != dir {
		r.groups[p.UID] = &group{since: r.last}
	}
	r.groups[p.UID].dir = dir
}

// sweep removes the groups of ours that belong to no pod, and looks which threads somebody else counts: these would lose what we take.
func (r *Reader) sweep() error {
	wanted := make(map[string]bool, len(r.groups))
	for _, g := range r.groups {
		wanted[g.dir] = true
	}
	r.others = make(map[int]bool)
	var errs []error
	for _, file := range made(r.tree) {
		switch {
		case !ours(file):
			threads, err := rdt.Tasks(r.tree, path.Join(file, "tasks"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("read whom the group %s counts: %w", file, err))
			}
			maps.Copy(r.others, threads)
		case !wanted[file]:
			if err := r.tree.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove the group %s: %w", file, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Left are the groups that a Reader has made and not removed; one that runs, or has ended in a hurry.
func Left(t rdt.Tree) []string {
	return slices.DeleteFunc(made(t), func(file string) bool { return !ours(file) })
}

func ours(file string) bool { return strings.HasPrefix(path.Base(file), prefix) }

// made lists the monitoring groups of all control groups in which ours may be.
func made(t rdt.Tree) (files []string) {
	for _, parent := range []string{"", string(rdt.Online), string(rdt.Reclaimed)} {
		dir := path.Join(parent, monDir)
		names, err := t.List(dir)
		if err != nil {
			continue // it is not there, and so nothing of ours is
		}
		for _, name := range names {
			files = append(files, path.Join(dir, name))
		}
	}
	return files
}

// read brings a pod's threads into its group and reads what they have moved.
func (r *Reader) read(now time.Duration, p *Pod) {
	g := r.groups[p.UID]
	err := r.measure(now, p, g)
	if err != nil {
		g.use, g.counts = Use{}, nil
	}
	switch {
	case errors.Is(err, ErrFull), errors.Is(err, errGone):
		delete(r.groups, p.UID) // it has none
		if errors.Is(err, ErrFull) {
			r.status.Why = err
		}
		return
	case err != nil:
		r.status.Why = err
	}
	r.status.Groups++
	if g.use.Total.Known {
		r.status.Known++
	} else {
		r.status.Unknown++
	}
}

var (
	// ErrFull says that all groups are in use, by others or for a moment yet.
	ErrFull = errors.New("the hardware has no group left; others use them")
	// ErrTaken says that a thread is counted or limited by somebody else, from whom it would be taken.
	ErrTaken = errors.New("is in somebody else's group of resctrl")
	errGone  = errors.New("the pod is gone")
)

func (r *Reader) measure(now time.Duration, p *Pod, g *group) error {
	threads, err := r.threads(p.Cgroup)
	if errors.Is(err, fs.ErrNotExist) {
		_ = r.tree.Remove(g.dir) // else the next sweep does
		return errGone
	}
	if err != nil {
		return fmt.Errorf("threads of %s: %w", p.Cgroup, err)
	}
	switch err := r.tree.Mkdir(g.dir); {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EBUSY): // EBUSY: those that are free have not yet left the cache
		return ErrFull
	case err != nil && !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("make the group %s: %w", g.dir, err)
	}
	counted, err := r.assign(g.dir, threads)
	if err != nil {
		return err
	}
	return g.take(r.tree, now, counted)
}

// assign brings the threads into the group that are not yet in it, and reports whether most were. Threads that these make later are in it by themselves; what a runtime starts in the pod is
// not.
func (r *Reader) assign(dir string, threads []int) (most bool, err error) {
	file := path.Join(dir, "tasks")
	has, err := rdt.Tasks(r.tree, file)
	if err != nil {
		return false, fmt.Errorf("read the group's threads: %w", err)
	}
	were, are := 0, 0
	for _, thread := range threads {
		if has[thread] {
			were++
			are++
			continue
		}
		if r.others[thread] {
			return false, fmt.Errorf("%s: thread %d %w", file, thread, ErrTaken)
		}
		switch err := r.tree.Write(file, strconv.Itoa(thread)); {
		case err == nil:
			are++
		case errors.Is(err, syscall.ESRCH): // it has ended
		case errors.Is(err, syscall.EINVAL):
			return false, fmt.Errorf("%s: thread %d %w", file, thread, ErrTaken)
		default:
			return false, fmt.Errorf("%s: thread %d: %w", file, thread, err)
		}
	}
	return were > 0 && 2*were >= are, nil
}

// take reads the counters. counted says that they count what the pod has done since the last reading.
func (g *group) take(t rdt.Tree, now time.Duration, counted bool) error {
	list, err := rdt.Counted(t, g.dir)
	if err != nil {
		return fmt.Errorf("read the group's counters: %w", err)
	}
	was, took := g.counts, now-g.at
	g.counts, g.at, g.use = make(map[int]count, len(list)), now, Use{}
	total, local, domains := advise.Known(0), advise.Known(0), make(map[int]float64, len(list))
	for _, u := range list {
		is := count{u.Total, u.Local}
		before := was[u.Domain]
		g.counts[u.Domain] = is
		all := rate(before.total, is.total, took)
		domains[u.Domain] = all.Value
		total, local = plus(total, all), plus(local, rate(before.local, is.local, took))
	}
	if counted && len(list) > 0 && total.Known {
		g.use = Use{total, local, domains}
	}
	return nil
}

// rate is what a counter has moved in a second.
func rate(was, is advise.Sample, took time.Duration) advise.Sample {
	if !was.Known || !is.Known || is.Value < was.Value || took <= 0 || took > maxInterval {
		return advise.Sample{}
	}
	out := (is.Value - was.Value) / took.Seconds()
	if out > maxRate {
		return advise.Sample{}
	}
	return advise.Known(out)
}

func plus(a, b advise.Sample) advise.Sample {
	if !a.Known || !b.Known {
		return advise.Sample{}
	}
	return advise.Known(a.Value + b.Value)
}
