package agent

import (
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/rdt"
)

// resctrlTree is the kernel's file system with two domains, as far as caches reads and writes it.
type resctrlTree map[string]string

const rootGroup = "" // every other one begins with what it allows

func newResctrl(schemata string) resctrlTree {
	t := resctrlTree{
		"info/L3/cbm_mask": "fffff\n", "info/L3/min_cbm_bits": "1\n", "info/L3/num_closids": "16\n", "info/L3_MON/mon_features": "mbm_total_bytes\n",
		"info/MB/min_bandwidth": "10\n", "info/MB/bandwidth_gran": "10\n", "info/MB/num_closids": "8\n",
	}
	t.group(rootGroup, schemata)
	return t
}

func (t resctrlTree) group(name, schemata string) {
	t[path.Join(name, "schemata")], t[path.Join(name, "tasks")] = schemata, ""
	for domain := range 2 {
		t[t.counter(name, domain)] = "0\n"
	}
}

func (t resctrlTree) counter(group string, domain int) string {
	return path.Join(group, "mon_data", fmt.Sprintf("mon_L3_0%d", domain), "mbm_total_bytes")
}

// move has a group move so many GB in a domain.
func (t resctrlTree) move(group string, domain, gigabytes int) {
	file := t.counter(group, domain)
	was, _ := strconv.Atoi(strings.TrimSpace(t[file]))
	t[file] = strconv.Itoa(was+gigabytes*1e9) + "\n"
}

func missing(name string) error { return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist} }

func (t resctrlTree) Read(name string) (string, error) {
	text, ok := t[name]
	if !ok {
		return "", missing(name)
	}
	return text, nil
}

func (t resctrlTree) Write(name, value string) error {
	if strings.HasSuffix(name, "schemata") {
		for line := range strings.Lines(value) {
			resource, _, _ := strings.Cut(line, ":")
			var rest []string
			for old := range strings.Lines(t[name]) {
				if !strings.HasPrefix(old, resource+":") {
					rest = append(rest, old)
				}
			}
			t[name] = strings.Join(append(rest, line), "")
		}
	}
	return nil
}

func (t resctrlTree) Mkdir(name string) error {
	if _, ok := t[name+"/schemata"]; ok {
		return fs.ErrExist
	}
	t.group(name, t["schemata"])
	return nil
}

func (t resctrlTree) Remove(name string) error {
	if _, ok := t[name+"/schemata"]; !ok {
		return missing(name)
	}
	maps.DeleteFunc(t, func(file, _ string) bool { return strings.HasPrefix(file, name+"/") })
	return nil
}

func (t resctrlTree) List(name string) ([]string, error) {
	prefix, found := strings.TrimPrefix(name+"/", "./"), map[string]bool{}
	for file := range t {
		if rest, ok := strings.CutPrefix(file, prefix); ok {
			first, _, _ := strings.Cut(rest, "/")
			found[first] = true
		}
	}
	if len(found) == 0 {
		return nil, missing(name)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// cachesRig ticks caches each ten seconds.
type cachesRig struct {
	*caches
	tree resctrlTree
	at   time.Duration
}

// tick lets ten seconds pass in which the domain 0 moves so many GB/s, of which reclaimed pods move so many.
func (r *cachesRig) tick(all, reclaimed int) []allocate.Note {
	r.at += cachesEvery
	r.tree.move(rootGroup, 0, 10*(all-reclaimed))
	if _, ok := r.tree[string(rdt.Reclaimed)+"/schemata"]; ok {
		r.tree.move(string(rdt.Reclaimed), 0, 10*reclaimed)
	}
	_, notes := r.Tick(r.at, nil)
	return notes
}

// allows is what the kernel allows reclaimed pods of the memory bandwidth.
func (r *cachesRig) allows() string {
	for line := range strings.Lines(r.tree[string(rdt.Reclaimed)+"/schemata"]) {
		if text, ok := strings.CutPrefix(line, "MB:"); ok {
			return strings.TrimSpace(text)
		}
	}
	return "nothing"
}

func followed(schemata string) *cachesRig {
	wanted := spec.Default().Node.Lending.RDT
	wanted.Enabled, wanted.BandwidthPercent, wanted.Feedback.DomainBytesPerSecond = true, 30, 100e9
	tree := newResctrl(schemata)
	return &cachesRig{newCaches(tree, "", wanted, slog.New(slog.DiscardHandler)), tree, 0}
}

const (
	bothSchemata  = "MB:0=100;1=100\nL3:0=fffff;1=fffff\n"
	cacheSchemata = "L3:0=fffff;1=fffff\n"
)

// A full domain lowers what its reclaimed pods may use, and no other's, down to the least, where nothing more is lent. It comes back. What is not known any more leaves what is configured, and
// that is told.
func TestCachesFollow(t *testing.T) {
	t.Parallel()
	r := followed(bothSchemata)
	check := func(at, allows string, full bool, notes []allocate.Note, reason string) {
		t.Helper()
		if got := r.allows(); got != allows || r.MemoryFull() != full {
			t.Errorf("%s: %s, full %t, want %s, %t", at, got, r.MemoryFull(), allows, full)
		}
		if reason == "" && len(notes) > 0 || reason != "" && (len(notes) != 1 || notes[0].Reason != reason) {
			t.Errorf("%s: notes %+v, want %q", at, notes, reason)
		}
	}
	check("the groups are made", "0=30;1=30", false, r.tick(0, 0), "")
	check("they were made just now", "0=30;1=30", false, r.tick(50, 10), "")
	check("it is full", "0=20;1=30", false, r.tick(95, 40), "")
	check("it is still full", "0=10;1=30", true, r.tick(95, 40), "")
	check("between", "0=10;1=30", true, r.tick(85, 40), "")
	for range 6 {
		r.tick(50, 20)
	}
	check("calm for a minute", "0=10;1=30", false, r.notes, "")
	check("and more", "0=20;1=30", false, r.tick(50, 20), "")
	counter := r.tree.counter(string(rdt.Online), 0)
	r.tree[counter] = "Unavailable\n"
	for range 3 {
		check("not known", "0=20;1=30", false, r.tick(50, 20), "")
	}
	check("not known for long", "0=30;1=30", false, r.tick(95, 40), spec.ReasonBandwidthUnread)
	r.tree[counter] = "0\n"
	check("it is back, and no rate yet", "0=30;1=30", false, r.tick(95, 40), spec.ReasonBandwidthUnread)
	check("full", "0=20;1=30", false, r.tick(95, 40), "")

	p := spec.Default().Node.Lending.LendingParameters
	p.RDT = r.wanted
	p.RDT.Feedback.DomainBytesPerSecond = 0
	r.Adjust(&p)
	check("it is not followed any more", "0=30;1=30", false, r.tick(95, 40), "")
	p.RDT.Enabled = false
	r.Adjust(&p)
	check("it is switched off", "nothing", false, r.tick(95, 40), "")
	p.RDT.Enabled = true
	r.Adjust(&p)
	check("and on", "0=30;1=30", false, r.tick(95, 40), "")
}

// Where bandwidth is counted and cannot be limited, nothing more is lent while memory is full.
func TestCachesWithoutLimits(t *testing.T) {
	t.Parallel()
	r := followed(cacheSchemata)
	for i, c := range []struct {
		all, reclaimed int
		full           bool
	}{{0, 0, false}, {50, 20, false}, {95, 40, true}, {80, 40, true}, {70, 40, false}, {95, 2, false}} {
		notes := r.tick(c.all, c.reclaimed)
		if r.MemoryFull() != c.full || len(notes) != 1 || notes[0].Reason != spec.ReasonBandwidthFixed {
			t.Errorf("%d: full %t, %+v", i, r.MemoryFull(), notes)
		}
	}
	var o any = r.caches
	if _, ok := o.(node.MemoryObserver); !ok {
		t.Error("nobody asks it")
	}
}

// A machine without resctrl says so, and holds nothing. Groups of an agent before this one go where they are not wanted.
func TestCachesAbsent(t *testing.T) {
	t.Parallel()
	r := followed(bothSchemata)
	clear(r.tree)
	_, notes := r.Tick(0, nil)
	if len(notes) != 2 || notes[0].Reason != spec.ReasonBandwidthUnread || notes[1].Reason != spec.ReasonRDTFailed || r.MemoryFull() {
		t.Errorf("%+v", notes)
	}
	r = followed(bothSchemata)
	_ = r.tree.Mkdir(string(rdt.Reclaimed))
	r.wanted.Enabled = false
	if notes := r.tick(0, 0); len(notes) > 0 || r.allows() != "nothing" {
		t.Errorf("%+v, left %v", notes, r.tree)
	}
}

// The metrics are by domain, and what is not known is not there.
func TestCachesMetrics(t *testing.T) {
	t.Parallel()
	r := followed(bothSchemata)
	count := func() map[string]int {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(r.caches)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for _, f := range families {
			out[strings.TrimPrefix(f.GetName(), "hilbert_agent_memory_")] = len(f.GetMetric())
		}
		return out
	}
	if got := count(); len(got) > 0 {
		t.Errorf("before the first reading: %v", got)
	}
	r.tick(0, 0)
	if got, want := count(), map[string]int{"throttle_percent": 2, "throttle_state": 10, "growth_held": 1}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r.tick(50, 20)
	r.tick(50, 20)
	if got, want := count(), map[string]int{"domain_bytes_per_second": 4, "throttle_percent": 2, "throttle_state": 10, "growth_held": 1}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
