package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Distribution is how often which values were read. Below 16 each value has a bucket of its own; above, a bucket is at most a sixteenth of its values wide. So the same values always fall
// into the same buckets, whoever counts them, and Distributions can be merged. The zero value has no readings.
type Distribution struct {
	Count, Sum, Most int64
	// Buckets are those with readings, by Index.
	Buckets []Bucket
}

// Bucket is how many readings fell into a bucket.
type Bucket struct {
	Index int
	Count int64
}

const (
	exact      = 16  // values below have buckets of their own
	maxBuckets = 960 // of all int64
)

// bucketOf is the bucket of a value, which is not negative.
func bucketOf(v int64) int {
	if v < exact {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - 5
	return shift*exact + int(v>>shift)
}

// endOf is the highest value of a bucket.
func endOf(index int) int64 {
	if index < exact {
		return int64(index)
	}
	shift := index/exact - 1
	return int64(index%exact+exact+1)<<shift - 1
}

// Add counts a reading. What is negative is none.
func (d *Distribution) Add(v int64) {
	if v < 0 {
		return
	}
	one := Distribution{Count: 1, Sum: v, Most: v, Buckets: []Bucket{{bucketOf(v), 1}}}
	if at := d.find(one.Buckets[0].Index); at >= 0 {
		d.Buckets[at].Count++
		d.Count, d.Sum, d.Most = d.Count+1, plus(d.Sum, v), max(d.Most, v)
		return
	}
	*d = Merge(*d, one)
}

func (d *Distribution) find(index int) int {
	for i := range d.Buckets {
		if d.Buckets[i].Index == index {
			return i
		}
	}
	return -1
}

// plus adds what is not negative. It stays at the greatest number there is, so that the order of additions does not matter.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// times multiplies what is not negative, a count being positive. It stays at the greatest number there is, as plus does.
func times(a, count int64) int64 {
	if a > math.MaxInt64/count {
		return math.MaxInt64
	}
	return a * count
}

// Merge is what was read of both. It keeps neither.
func Merge(a, b Distribution) Distribution {
	out := Distribution{Count: plus(a.Count, b.Count), Sum: plus(a.Sum, b.Sum), Most: max(a.Most, b.Most)}
	if len(a.Buckets)+len(b.Buckets) > 0 {
		out.Buckets = make([]Bucket, 0, len(a.Buckets)+len(b.Buckets))
	}
	for i, j := 0, 0; i < len(a.Buckets) || j < len(b.Buckets); {
		switch {
		case j == len(b.Buckets) || i < len(a.Buckets) && a.Buckets[i].Index < b.Buckets[j].Index:
			out.Buckets = append(out.Buckets, a.Buckets[i])
			i++
		case i == len(a.Buckets) || b.Buckets[j].Index < a.Buckets[i].Index:
			out.Buckets = append(out.Buckets, b.Buckets[j])
			j++
		default:
			out.Buckets = append(out.Buckets, Bucket{a.Buckets[i].Index, plus(a.Buckets[i].Count, b.Buckets[j].Count)})
			i, j = i+1, j+1
		}
	}
	return out
}

// Mean is the mean of the readings; false: there are none.
func (d *Distribution) Mean() (int64, bool) {
	if d.Count == 0 {
		return 0, false
	}
	return d.Sum / d.Count, true
}

// Quantile is what this share of the readings, 0 to 1, is at most: the end of its bucket; false: there are none.
func (d *Distribution) Quantile(share float64) (int64, bool) {
	if d.Count == 0 {
		return 0, false
	}
	want, seen := int64(math.Ceil(share*float64(d.Count))), int64(0)
	for _, b := range d.Buckets {
		if seen += b.Count; seen >= want {
			return min(endOf(b.Index), d.Most), true
		}
	}
	return d.Most, true
}

// wire is how it is sent: buckets as pairs of index and count.
type wire struct {
	Count   int64      `json:"n"`
	Sum     int64      `json:"sum"`
	Most    int64      `json:"most"`
	Buckets [][2]int64 `json:"buckets"`
}

// MarshalJSON implements json.Marshaler.
func (d Distribution) MarshalJSON() ([]byte, error) {
	w := wire{d.Count, d.Sum, d.Most, make([][2]int64, len(d.Buckets))}
	for i, b := range d.Buckets {
		w.Buckets[i] = [2]int64{int64(b.Index), b.Count}
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler. It checks what it reads.
func (d *Distribution) UnmarshalJSON(text []byte) error {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	if len(w.Buckets) > maxBuckets {
		return fmt.Errorf("%d buckets: want at most %d", len(w.Buckets), maxBuckets)
	}
	out := Distribution{Count: w.Count, Sum: w.Sum, Most: w.Most}
	var count int64
	last := int64(-1)
	for _, pair := range w.Buckets {
		if pair[0] <= last || pair[0] >= maxBuckets || pair[1] <= 0 {
			return fmt.Errorf("bucket %d with %d readings after bucket %d: want rising numbers below %d, and readings", pair[0], pair[1], last, maxBuckets)
		}
		last, count = pair[0], plus(count, pair[1])
		out.Buckets = append(out.Buckets, Bucket{int(pair[0]), pair[1]})
	}
	if count != w.Count || w.Sum < 0 || w.Most < 0 || count > 0 && int(last) != bucketOf(w.Most) {
		return errors.New("the readings of the buckets are not as many as the distribution has, or the highest is in none of them")
	}
	*d = out
	return nil
}
