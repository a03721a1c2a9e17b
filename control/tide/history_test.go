package tide

import (
	"encoding/base64"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// needs is what online asks for at a step of five minutes: a tide by day, less at weekends, and some chance.
func needs(i int, r *rand.Rand) int {
	const day = 288
	most := 60.0
	if i/day%7 >= 5 {
		most = 20
	}
	return int(20+most*(1-math.Cos(2*math.Pi*float64(i%day)/day))/2) + r.IntN(4)
}

// A pool whose leader is replaced decides what it would have decided, whenever that happens.
func TestNewLeaderDecidesTheSame(t *testing.T) {
	t.Parallel()
	pool := Pool{ReserveOnline: 5, ReserveOffline: 5, PerHour: 20, Slack: 1, Hold: 15 * time.Minute, Lead: 30 * time.Minute}
	stays, restarts := &world{now: start, View: View{Pool: pool, Budget: 100}}, &world{now: start, View: View{Pool: pool, Budget: 100}}
	for _, w := range []*world{stays, restarts} {
		for i := range 120 {
			w.node(string(rune('a'+i/26)) + string(rune('a'+i%26))).Side = Online
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	one, other := ReadHistory("", pool.Lead, start), ReadHistory("", pool.Lead, start)
	var err error
	text, trusted, largest := "", 0, 0
	for i := range 7 * 288 {
		now := start.Add(time.Duration(i) * forecastStep)
		need := needs(i, random)
		if random.IntN(50) == 0 {
			continue // nothing was known in this step
		}
		if random.IntN(10) == 0 { // another process, which has the status alone
			if text, err = other.Text(); err == nil {
				other = ReadHistory(text, pool.Lead, now)
			}
			largest = max(largest, len(text))
		}
		stays.now, restarts.now, stays.Need, restarts.Need = now, now, need, need
		stays.Forecast, err = one.See(need, pool.Lead, now)
		var second error
		restarts.Forecast, second = other.See(need, pool.Lead, now)
		if err != nil || second != nil || one.Refused() != "" || other.Refused() != "" {
			t.Fatalf("step %d: %v, %v, %q, %q", i, err, second, one.Refused(), other.Refused())
		}
		if a, b := stays.decide(), restarts.decide(); !reflect.DeepEqual(a, b) || stays.Forecast != restarts.Forecast {
			t.Fatalf("step %d: the leader that stays decides\n%+v (%+v)\nand the new one\n%+v (%+v)", i, a, stays.Forecast, b, restarts.Forecast)
		}
		if stays.Forecast.Trusted {
			trusted++
		}
	}
	if trusted < 2*288 || largest > MaxHistory {
		t.Errorf("the forecast was trusted in %d steps, and its text has %d bytes", trusted, largest)
	}
	t.Logf("trusted in %d steps, %d bytes", trusted, largest)
}

// What cannot be trusted is forgotten with a word, and is no need of nothing: the pool goes by what its pods ask for.
func TestHistoryIsRefused(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	h := ReadHistory("", time.Hour, start)
	end := start
	for i := range 5 * 288 {
		end = start.Add(time.Duration(i) * forecastStep)
		if _, err := h.See(needs(i, random), time.Hour, end); err != nil {
			t.Fatal(err)
		}
	}
	good, err := h.Text()
	if err != nil {
		t.Fatal(err)
	}
	if r := ReadHistory(good, time.Hour, end); r.Refused() != "" {
		t.Fatal(r.Refused())
	}
	data, _ := base64.StdEncoding.DecodeString(good)
	data[len(data)/2] ^= 1
	for name, c := range map[string]struct {
		text string
		now  time.Time
		why  string
	}{
		"no base64":  {"}" + good, end, "not base64"},
		"damaged":    {base64.StdEncoding.EncodeToString(data), end, "checksum"},
		"cut short":  {good[:400], end, "checksum"},
		"old":        {good, end.Add(80 * time.Hour), "more than 72h0m0s ago"},
		"the future": {good, end.Add(-time.Hour), "not yet"},
	} {
		r := ReadHistory(c.text, time.Hour, c.now)
		p, err := r.See(50, time.Hour, c.now)
		if err != nil || !strings.Contains(r.Refused(), c.why) || p.Trusted || p.High != 0 || !strings.Contains(p.Reason, c.why) {
			t.Errorf("%s: %q, %+v, %v", name, r.Refused(), p, err)
		}
		text, err := r.Text()
		if again := ReadHistory(text, time.Hour, c.now); err != nil || again.Refused() != "" {
			t.Errorf("%s: what begins anew is refused again: %s", name, again.Refused())
		}
	}
	// Another lead does not forget what is known, and forecasts are of it from then on.
	same, err := ReadHistory(good, 2*time.Hour, end).See(50, 2*time.Hour, end.Add(forecastStep))
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.See(50, 2*time.Hour, end.Add(forecastStep))
	if err != nil || h.Refused() != "" || p.Middle == 0 || p != same {
		t.Errorf("with another lead: %+v, %q, %v; want %+v", p, h.Refused(), err, same)
	}
	if before, err := ReadHistory(good, time.Hour, end).See(50, time.Hour, end.Add(forecastStep)); err != nil || before == p {
		t.Errorf("the lead makes no difference: %+v, %v", before, err)
	}
}
