package egress

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/advise"
)

// by is the counter of each of some uplinks.
func by(uplinks map[string]float64) map[string]advise.Sample {
	out := make(map[string]advise.Sample, len(uplinks))
	for name, n := range uplinks {
		out[name] = advise.Known(n)
	}
	return out
}

// A pod is said to send what was counted of it, by each uplink, whatever others do; and nothing is said where that is not known.
func TestSenders(t *testing.T) {
	t.Parallel()
	both := map[string]map[string]float64{"a": {"eth0": 10, "eth1": 3}, "b": {"eth0": 4, "eth1": 0}}
	onlyA := map[string]map[string]float64{"a": both["a"]}
	for _, c := range []struct {
		name   string
		change func(second int, sent map[string]map[string]advise.Sample)
		want   map[string]map[string]float64
	}{
		{name: "both are known", want: both},
		{name: "one is not known at the end", want: onlyA, change: func(second int, sent map[string]map[string]advise.Sample) {
			if second >= 20 {
				sent["b"]["eth1"] = advise.Sample{}
			}
		}},
		{name: "one comes late", want: onlyA, change: func(second int, sent map[string]map[string]advise.Sample) {
			if second < 14 {
				delete(sent, "b")
			}
		}},
		{name: "one's counters began anew", want: onlyA, change: func(second int, sent map[string]map[string]advise.Sample) {
			if second >= 15 {
				sent["b"] = by(map[string]float64{"eth0": 0, "eth1": 0})
			}
		}},
		{name: "an uplink is new", want: map[string]map[string]float64{}, change: func(second int, sent map[string]map[string]advise.Sample) {
			if second < 15 {
				delete(sent["a"], "eth1")
				delete(sent["b"], "eth1")
			}
		}},
		{name: "one has no slot", want: onlyA, change: func(_ int, sent map[string]map[string]advise.Sample) { delete(sent, "b") }},
	} {
		var s Senders
		var got map[string]map[string]float64
		for second := range 23 {
			sent := map[string]map[string]advise.Sample{}
			for cgroup, rates := range both {
				sent[cgroup] = map[string]advise.Sample{}
				for name, n := range rates {
					sent[cgroup][name] = advise.Known(n * float64(second))
				}
			}
			if c.change != nil {
				c.change(second, sent)
			}
			got = s.Step(time.Duration(second)*time.Second, sent)
			if second < 10 && len(got) > 0 {
				t.Errorf("%s: %v after %d s", c.name, got, second)
			}
		}
		if !maps.EqualFunc(got, c.want, maps.Equal[map[string]float64]) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

// A figure is of the last half a minute; a look after a longer time begins anew.
func TestSendersForget(t *testing.T) {
	t.Parallel()
	var s Senders
	sent := func(n float64) map[string]map[string]advise.Sample {
		return map[string]map[string]advise.Sample{"a": by(map[string]float64{"eth0": n})}
	}
	s.Step(0, sent(0))
	if got := s.Step(10*time.Second, sent(100)); got["a"]["eth0"] != 10 {
		t.Errorf("%v", got)
	}
	if got := s.Step(41*time.Second, sent(10_000)); got != nil {
		t.Errorf("%v after half a minute without a look", got)
	}
	if got := s.Step(51*time.Second, sent(10_200)); got["a"]["eth0"] != 20 {
		t.Errorf("%v", got)
	}
}

// Whoever comes and goes, and whosever counters begin anew: nobody is said to send more off the node than he did at his fastest.
func TestSendersNeverSayTooMuch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s Senders
		type one struct{ fastest, sent float64 }
		pods, named := map[string]one{}, 0
		for second := range 60 {
			switch rapid.IntRange(0, 8).Draw(t, "change") {
			case 0:
				pods[fmt.Sprint("p", named)] = one{}
				named++
			case 1:
				delete(pods, fmt.Sprint("p", rapid.IntRange(0, max(named-1, 0)).Draw(t, "goes")))
			}
			readings := map[string]map[string]advise.Sample{}
			for cgroup, p := range pods {
				rate := rapid.Float64Range(0, 1000).Draw(t, "rate")
				p.sent, p.fastest = p.sent+rate, max(p.fastest, rate)
				if rapid.IntRange(0, 50).Draw(t, "anew") == 0 {
					p.sent = 0
				}
				pods[cgroup] = p
				readings[cgroup] = by(map[string]float64{"eth0": p.sent})
				if rapid.IntRange(0, 50).Draw(t, "lost") == 0 {
					readings[cgroup]["eth0"] = advise.Sample{}
				}
			}
			for cgroup, figures := range s.Step(time.Duration(second)*time.Second, readings) {
				if p, is := pods[cgroup]; is && figures["eth0"] > p.fastest+1e-6 {
					t.Fatalf("%s is said to send %v, and sent %v at most", cgroup, figures, p.fastest)
				}
			}
		}
	})
}

// An uplink that is full of what comes in is pressed, and not because of those who send; one that loses what is sent, or is full of it, is. Who sends is told of that uplink alone.
func TestSendingPressed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                         string
		received, sent, lost, unsent float64
		pressed, sending             bool
	}{
		{"calm", 100, 100, 0, 0, false, false},
		{"full of what comes in", 990, 100, 0, 0, true, false},
		{"full of what is sent", 100, 990, 0, 0, true, true},
		{"what comes in is lost", 100, 100, 20, 0, true, false},
		{"what is sent is lost", 100, 100, 20, 20, true, true},
	} {
		k := &fake{set: map[string][]Rates{}, counts: map[string]Counts{}, sent: map[string]map[string]advise.Sample{}}
		control := NewControl(k, params(), false)
		var s State
		for i := range 30 {
			n := float64(i)
			now := idle()
			now.Received.Value, now.Sent.Value, now.Lost.Value, now.Unsent.Value = c.received*n, c.sent*n, c.lost*n, c.unsent*n
			k.traffic = map[string]Traffic{"a": now, "b": idle()}
			k.counts["a"], k.counts["b"] = Counts{Online: Class{Bytes: uint64(i) * 1000}}, Counts{}
			k.sent["here"], k.sent["there"] = by(map[string]float64{"a": 7 * n, "b": 0}), by(map[string]float64{"a": 0, "b": 9 * n})
			s, _ = control.Step(time.Duration(i)*time.Second, []Pod{{Cgroup: "here", Reclaimed: true}, {Cgroup: "there", Reclaimed: true}})
		}
		if len(s.Pressed) > 0 != c.pressed || len(s.Sending.Pressed) > 0 != c.sending {
			t.Errorf("%s: pressed %v, by what is sent %v", c.name, s.Pressed, s.Sending.Pressed)
		}
		there := 9.0
		if c.sending {
			there = 0
		}
		if !s.Sending.Known || s.Sending.Floored != c.sending || s.Sending.Pods["here"] != advise.Known(7) || s.Sending.Pods["there"] != advise.Known(there) {
			t.Errorf("%s: %+v", c.name, s.Sending)
		}
		k.traffic = map[string]Traffic{"a": {}}
		if s, _ = control.Step(91*time.Second, nil); s.Sending.Known {
			t.Errorf("%s: nothing is read, and said to be known", c.name)
		}
	}
}

// Where reclaimed pods have the floor alone by some of the pressed uplinks, these are meant, and what pods send by them.
func TestSendingFloored(t *testing.T) {
	t.Parallel()
	figures := map[string]map[string]float64{"a": {"eth0": 1, "eth1": 20, "eth2": 300}}
	for _, c := range []struct {
		floored map[string]bool
		pressed []string
		sends   float64
	}{
		{nil, nil, 321},
		{map[string]bool{"eth0": false, "eth1": false}, []string{"eth0", "eth1"}, 21},
		{map[string]bool{"eth0": false, "eth1": true}, []string{"eth1"}, 20},
		{map[string]bool{"eth0": true, "eth1": true}, []string{"eth0", "eth1"}, 21},
	} {
		s := Sending{Pressed: slices.Sorted(maps.Keys(c.floored))}
		s.judge(c.floored, figures)
		if !slices.Equal(s.Pressed, c.pressed) || s.Pods["a"] != advise.Known(c.sends) || s.Floored != slices.Contains(slices.Collect(maps.Values(c.floored)), true) {
			t.Errorf("%v: %+v", c.floored, s)
		}
	}
}
