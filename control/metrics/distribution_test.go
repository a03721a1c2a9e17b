package metrics

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// values are of all sizes.
func values(least int) *rapid.Generator[[]int64] {
	return rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 40), rapid.Int64Range(0, 1<<20), rapid.Int64Range(0, 1<<62)), least, 40)
}

func of(values []int64) (d Distribution) {
	for _, v := range values {
		d.Add(v)
	}
	return d
}

// TestMerging: it does not matter in which order and grouping distributions are merged, nor whether readings were counted together.
func TestMerging(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := values(0).Draw(t, "a"), values(0).Draw(t, "b"), values(0).Draw(t, "c")
		together := of(slices.Concat(a, b, c))
		for name, got := range map[string]Distribution{
			"(a b) c": Merge(Merge(of(a), of(b)), of(c)), "a (b c)": Merge(of(a), Merge(of(b), of(c))), "(c a) b": Merge(Merge(of(c), of(a)), of(b)),
		} {
			if !reflect.DeepEqual(got, together) {
				t.Fatalf("%s: %v, together %v", name, got, together)
			}
		}
		if len(together.Buckets) > maxBuckets {
			t.Fatalf("%d buckets", len(together.Buckets))
		}
	})
}

// TestQuantiles: a quantile is at least the exact one, and at most a sixteenth more.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := values(1).Draw(t, "values")
		share := rapid.Float64Range(0.01, 1).Draw(t, "share")
		d := of(all)
		got, known := d.Quantile(share)
		slices.Sort(all)
		rank := 0
		for float64(rank+1) < share*float64(len(all)) {
			rank++
		}
		if want := all[rank]; !known || got < want || got > want+want/16 {
			t.Fatalf("%v is %d, want %d", share, got, want)
		}
	})
}

func TestNothingHasNoQuantileAndNoMean(t *testing.T) {
	var d Distribution
	if v, known := d.Quantile(0.5); known {
		t.Errorf("quantile %d", v)
	}
	if v, known := d.Mean(); known {
		t.Errorf("mean %d", v)
	}
}

// TestBucketsMeet: each bucket begins where the one before ends.
func TestBucketsMeet(t *testing.T) {
	for i := range maxBuckets - 17 {
		if bucketOf(endOf(i)) != i || bucketOf(endOf(i)+1) != i+1 {
			t.Fatalf("bucket %d ends at %d, which is in bucket %d, and one more in %d", i, endOf(i), bucketOf(endOf(i)), bucketOf(endOf(i)+1))
		}
	}
}

func FuzzDistribution(f *testing.F) {
	f.Add([]byte(`{"n":1,"sum":5,"most":5,"buckets":[[5,1]]}`))
	f.Add([]byte(`{"n":2,"sum":5,"most":5,"buckets":[[5,1]]}`))
	f.Add([]byte(`{"n":1,"sum":-5,"most":5,"buckets":[[5,-1],[3,9223372036854775807]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var d Distribution
		if json.Unmarshal(text, &d) != nil {
			return
		}
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var e Distribution
		if err := json.Unmarshal(again, &e); err != nil || !reflect.DeepEqual(d, e) {
			t.Fatalf("%s is read as %v, and again as %v: %v", text, d, e, err)
		}
		both := Merge(d, e)
		both.Quantile(1)
	})
}

func TestDistributionsAreChecked(t *testing.T) {
	for _, text := range []string{
		`{"n":2,"sum":5,"most":5,"buckets":[[5,1]]}`, `{"n":1,"sum":5,"most":50,"buckets":[[5,1]]}`, `{"n":2,"sum":9,"most":5,"buckets":[[5,1],[4,1]]}`,
		`{"n":0,"sum":5,"most":5,"buckets":[[5,0]]}`, `{"n":1,"sum":-1,"most":5,"buckets":[[5,1]]}`, `{"n":1,"sum":5,"most":5,"buckets":[[960,1]]}`,
	} {
		if err := json.Unmarshal([]byte(text), &Distribution{}); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
