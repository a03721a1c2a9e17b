package rdt

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Tree is the resctrl file system: names are below its root. The kernel fills a directory that is made.
type Tree interface {
	Read(name string) (string, error)
	Write(name, value string) error
	Mkdir(name string) error
	Remove(name string) error
	// List names the entries of a directory.
	List(name string) ([]string, error)
}

// ErrAbsent says that there is no resctrl file system: the hardware or the kernel has none, or it is not mounted.
var ErrAbsent = errors.New("no resctrl file system: mount it with mount -t resctrl resctrl /sys/fs/resctrl")

// Cache is the last-level cache.
type Cache struct {
	// Mask are its ways; MinBits is how many of them a group needs at least.
	Mask    uint64
	MinBits int
	// Split: code and data have masks of their own (CDP). Both then get the same.
	Split bool
}

// Bandwidth is the memory bandwidth's unit, a percentage on Intel's processors: what is full, the least, and the steps between.
type Bandwidth struct{ Full, Least, Step uint64 }

// Hardware is what can be set and counted.
type Hardware struct {
	// Cache and Bandwidth are nil where they cannot be set.
	Cache     *Cache
	Bandwidth *Bandwidth
	// Domains are the numbers of the caches, mostly one for each socket; those of the bandwidth are the same, or Bandwidth is nil.
	Domains []int
	// Groups is how many there can be, the default one included.
	Groups int
	// Counters are those that a group has for each domain: "llc_occupancy", "mbm_total_bytes", "mbm_local_bytes".
	Counters []string
}

// maxBandwidth is above what any processor has in its unit. With the mount option mba_MBps the kernel says about 2^32, and means something else.
const maxBandwidth = 1 << 16

// hardware reads the directory info and the default group's schemata.
func hardware(t Tree) (Hardware, error) {
	var h Hardware
	text, err := t.Read("schemata")
	if err != nil {
		return h, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	lines, err := parseSchemata(text)
	if err != nil {
		return h, err
	}
	for _, name := range []string{"L3", "L3CODE"} {
		line, ok := lines[name]
		if !ok {
			continue
		}
		if h.Cache, err = cache(t, "info/"+name); err != nil {
			return h, err
		}
		h.Cache.Split = name != "L3"
		h.Domains = line.domains()
		h.Groups, err = number(t, "info/"+name+"/num_closids")
		if err != nil {
			return h, err
		}
	}
	if line, ok := lines["MB"]; ok {
		if err := h.bandwidth(t, line); err != nil {
			return h, err
		}
	}
	if features, err := t.Read("info/L3_MON/mon_features"); err == nil {
		h.Counters = strings.Fields(features)
	}
	if h.Cache == nil && h.Bandwidth == nil && h.Counters == nil {
		return h, fmt.Errorf("%w: it has neither cache, nor bandwidth, nor counters", ErrAbsent)
	}
	return h, nil
}

func cache(t Tree, dir string) (*Cache, error) {
	text, err := t.Read(dir + "/cbm_mask")
	if err != nil {
		return nil, err
	}
	mask, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
	if err != nil || mask == 0 {
		return nil, fmt.Errorf("%s/cbm_mask: want a mask of cache ways, got %q", dir, text)
	}
	least, err := number(t, dir+"/min_cbm_bits")
	if err != nil {
		return nil, err
	}
	if _, ways := longest(mask); least > ways {
		return nil, fmt.Errorf("%s/min_cbm_bits: %d of mask %x", dir, least, mask)
	}
	return &Cache{Mask: mask, MinBits: max(least, 1)}, nil
}

func (h *Hardware) bandwidth(t Tree, line line) error {
	least, err := number(t, "info/MB/min_bandwidth")
	if err != nil {
		return err
	}
	step, err := number(t, "info/MB/bandwidth_gran")
	if err != nil {
		return err
	}
	groups, err := number(t, "info/MB/num_closids")
	if err != nil {
		return err
	}
	b := &Bandwidth{Least: uint64(max(least, 1)), Step: uint64(max(step, 1))}
	for _, text := range line {
		full, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("schemata: MB: want a number, got %q", text)
		}
		b.Full = max(b.Full, full)
	}
	domains := line.domains()
	if b.Full >= maxBandwidth || b.Full < b.Least || h.Cache != nil && !slices.Equal(domains, h.Domains) {
		return nil // in another unit, or of other domains: it is left alone
	}
	h.Bandwidth, h.Domains = b, domains
	if h.Groups == 0 {
		h.Groups = groups
	}
	h.Groups = min(h.Groups, groups)
	return nil
}

func number(t Tree, name string) (int, error) {
	text, err := t.Read(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s: want a number, got %q", name, strings.TrimSpace(text))
	}
	return int(n), nil
}

// longest finds where the longest contiguous run of bits begins, and its length; the lowest of several.
func longest(mask uint64) (begin, length int) {
	for i := 0; i < 64; {
		n := bits.TrailingZeros64(^(mask >> i))
		if n > length {
			begin, length = i, n
		}
		i += n + 1
	}
	return begin, length
}

// low are the n lowest bits.
func low(n int) uint64 {
	if n >= 64 {
		return ^uint64(0)
	}
	return 1<<n - 1
}

// Group names one of ours.
type Group string

// The groups, and their directories.
const (
	Online    Group = "hilbert-online"
	Reclaimed Group = "hilbert-reclaimed"
)

// Params are the settings.
type Params struct {
	// CacheShare is how much of the cache reclaimed pods may use, from 0 to 1; Exclusive: online pods do not use that part.
	CacheShare float64
	Exclusive  bool
	// BandwidthShare is how much of the memory bandwidth reclaimed pods may use, from 0 to 1.
	BandwidthShare float64
	// Domains are other BandwidthShares, by number of the domain. Those that the hardware does not have say nothing.
	Domains map[int]float64
}

// Setting is what a group shall have in every domain.
type Setting struct {
	Mask      uint64 // 0: the cache is not set
	Bandwidth uint64 // 0: it is not set
	// Domains are other Bandwidths, by number of the domain.
	Domains map[int]uint64
}

// Plan is what both groups shall have on this hardware. A share that is no number is 0, and then the least that the hardware allows.
func Plan(h Hardware, p Params) map[Group]Setting {
	online, reclaimed := Setting{}, Setting{}
	if h.Cache != nil {
		reclaimed.Mask, online.Mask = h.Cache.divide(share(p.CacheShare), p.Exclusive)
	}
	if h.Bandwidth != nil {
		online.Bandwidth = h.Bandwidth.Full
		reclaimed.Bandwidth = h.Bandwidth.part(share(p.BandwidthShare))
		for _, domain := range h.Domains {
			if other, ok := p.Domains[domain]; ok {
				if reclaimed.Domains == nil {
					reclaimed.Domains = make(map[int]uint64, len(h.Domains))
				}
				reclaimed.Domains[domain] = h.Bandwidth.part(share(other))
			}
		}
	}
	return map[Group]Setting{Online: online, Reclaimed: reclaimed}
}

func share(s float64) float64 {
	if !(s > 0) {
		return 0
	}
	return min(s, 1)
}

// rounding makes 0.7 of 100 be 70.
const rounding = 1e-6

// divide gives the lowest ways to reclaimed pods, and to online ones all, or the others where at least as many as the hardware wants are left.
func (c *Cache) divide(share float64, exclusive bool) (reclaimed, online uint64) {
	begin, ways := longest(c.Mask)
	n := min(max(int(share*float64(ways)+rounding), c.MinBits), ways)
	reclaimed = low(n) << begin
	if exclusive && ways-n >= c.MinBits {
		return reclaimed, low(ways-n) << (begin + n)
	}
	return reclaimed, low(ways) << begin
}

// part is a share in the hardware's steps, rounded down.
func (b *Bandwidth) part(share float64) uint64 {
	return min(max(uint64(share*float64(b.Full)+rounding)/b.Step*b.Step, b.Least), b.Full)
}

// line is a resource's part of a schemata: values by domain.
type line map[int]string

func (l line) domains() []int {
	out := make([]int, 0, len(l))
	for domain := range l {
		out = append(out, domain)
	}
	slices.Sort(out)
	return out
}

// parseSchemata reads lines such as "    L3:0=fffff;1=fffff".
func parseSchemata(text string) (map[string]line, error) {
	out := map[string]line{}
	for row := range strings.Lines(text) {
		row = strings.TrimSpace(row)
		if row == "" {
			continue
		}
		name, rest, ok := strings.Cut(row, ":")
		if !ok {
			return nil, fmt.Errorf("schemata: want RESOURCE:DOMAIN=VALUE;..., got %q", row)
		}
		l := line{}
		for field := range strings.SplitSeq(rest, ";") {
			domain, value, ok := strings.Cut(strings.TrimSpace(field), "=")
			n, err := strconv.ParseUint(strings.TrimSpace(domain), 10, 31)
			if !ok || err != nil {
				return nil, fmt.Errorf("schemata: want DOMAIN=VALUE, got %q", field)
			}
			l[int(n)] = strings.TrimSpace(value)
		}
		out[strings.TrimSpace(name)] = l
	}
	return out, nil
}

// schemata is a setting for every domain, by resource.
func (h Hardware) schemata(s Setting) map[string]line {
	out := map[string]line{}
	set := func(resource, value string) {
		l := line{}
		for _, domain := range h.Domains {
			l[domain] = value
		}
		out[resource] = l
	}
	if h.Cache != nil && s.Mask != 0 {
		mask := strconv.FormatUint(s.Mask, 16)
		if h.Cache.Split {
			set("L3CODE", mask)
			set("L3DATA", mask)
		} else {
			set("L3", mask)
		}
	}
	if h.Bandwidth != nil && s.Bandwidth != 0 {
		set("MB", strconv.FormatUint(s.Bandwidth, 10))
		for domain, other := range s.Domains {
			out["MB"][domain] = strconv.FormatUint(other, 10)
		}
	}
	return out
}

// gone reports whether what was spoken of is not there any more.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
