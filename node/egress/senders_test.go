package egress

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/advise"
)

// sum is a counter for each of some pods.
func sums(pods map[string]float64) map[string]advise.Sample {
	out := make(map[string]advise.Sample, len(pods))
	for cgroup, n := range pods {
		out[cgroup] = advise.Known(n)
	}
	return out
}

// What a pod is said to send is what it sends off the node at least: what all pods send to each other counts against each of them.
func TestSenders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		left   float64 // per second
		sent   map[string]float64
		change func(second int, left *advise.Sample, sent map[string]advise.Sample)
		want   map[string]float64
	}{
		{name: "all leaves", left: 14, sent: map[string]float64{"a": 10, "b": 4}, want: map[string]float64{"a": 10, "b": 4}},
		{name: "some stays", left: 11, sent: map[string]float64{"a": 10, "b": 4}, want: map[string]float64{"a": 7, "b": 1}},
		{name: "all stays", sent: map[string]float64{"a": 10, "b": 4}, want: map[string]float64{"a": 0, "b": 0}},
		{name: "headers are not counted at veths", left: 15, sent: map[string]float64{"a": 10, "b": 4}, want: map[string]float64{"a": 10, "b": 4}},
		{name: "one in the host's network", left: 14, sent: map[string]float64{"a": 10, "b": 4}, change: func(_ int, _ *advise.Sample, sent map[string]advise.Sample) {
			sent["b"] = advise.Sample{}
		}},
		{name: "the class is not known", left: 14, sent: map[string]float64{"a": 10, "b": 4}, change: func(_ int, left *advise.Sample, _ map[string]advise.Sample) {
			*left = advise.Sample{}
		}},
		{name: "one comes late", left: 14, sent: map[string]float64{"a": 10, "b": 4}, want: map[string]float64{"a": 10}, change: func(second int, _ *advise.Sample, sent map[string]advise.Sample) {
			if sent["b"] = advise.Known(4 * float64(second-13)); second <= 13 {
				delete(sent, "b")
			}
		}},
		{name: "one goes", left: 10, sent: map[string]float64{"a": 10}, want: map[string]float64{"a": 10}, change: func(second int, left *advise.Sample, sent map[string]advise.Sample) {
			if left.Value += 4 * float64(min(second, 14)); second < 14 {
				sent["b"] = advise.Known(4 * float64(second))
			}
		}},
		{name: "nothing is read any more", left: 14, sent: map[string]float64{"a": 10, "b": 4}, change: func(second int, left *advise.Sample, _ map[string]advise.Sample) {
			left.Known = second < 12
		}},
	} {
		var s Senders
		var got map[string]advise.Sample
		last := 23
		if c.name == "nothing is read any more" {
			last = 45
		}
		for second := range last {
			left, sent := advise.Known(c.left*float64(second)), map[string]advise.Sample{}
			for cgroup, n := range c.sent {
				sent[cgroup] = advise.Known(n * float64(second))
			}
			if c.change != nil {
				c.change(second, &left, sent)
			}
			got = s.Step(time.Duration(second)*time.Second, left, sent)
			if second < 10 && len(got) > 0 {
				t.Errorf("%s: %v after %d s", c.name, got, second)
			}
		}
		if !maps.Equal(got, sums(c.want)) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

// Whoever comes and goes, whatever they send to each other and however much of it is lost on the way: nobody is said to send more off the node than he does.
func TestSendersNeverSayTooMuch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s Senders
		type one struct{ rate, sent float64 }
		pods, left, named := map[string]one{}, 0.0, 0
		for second := range 60 {
			switch rapid.IntRange(0, 12).Draw(t, "change") {
			case 0:
				pods[fmt.Sprint("p", named)] = one{rate: rapid.Float64Range(0, 1000).Draw(t, "rate")}
				named++
			case 1:
				goes := fmt.Sprint("p", rapid.IntRange(0, max(named-1, 0)).Draw(t, "goes"))
				left += pods[goes].rate // which nobody saw it send
				delete(pods, goes)
			}
			readings := map[string]advise.Sample{}
			for cgroup, p := range pods {
				p.sent += p.rate + rapid.SampledFrom([]float64{0, 0, 500}).Draw(t, "within")
				left += p.rate
				pods[cgroup], readings[cgroup] = p, advise.Known(p.sent)
				if rapid.IntRange(0, 50).Draw(t, "lost") == 0 {
					readings[cgroup] = advise.Sample{}
				}
			}
			for cgroup, f := range s.Step(time.Duration(second)*time.Second, advise.Known(left), readings) {
				if p, is := pods[cgroup]; is && (!f.Known || f.Value > p.rate+1e-6) {
					t.Fatalf("%s is said to send %v, and sends %v", cgroup, f, p.rate)
				}
			}
		}
	})
}

// An uplink that is full of what comes in is pressed, and not because of those who send; one that loses what is sent, or is full of it, is.
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
		k := &fake{link: advise.Known(1000), sent: map[string]advise.Sample{}}
		p := params()
		control := NewControl(k, p)
		var s State
		for i := range 30 {
			n := float64(i)
			k.traffic = map[string]Traffic{"a": {
				Received: advise.Known(c.received * n), Sent: advise.Known(c.sent * n), Lost: advise.Known(c.lost * n), Unsent: advise.Known(c.unsent * n), Link: advise.Known(1000),
			}}
			k.counts.Online.Bytes, k.counts.Reclaimed.Bytes = uint64(i)*1000, uint64(i)*7
			k.sent["pod"] = advise.Known(7 * n)
			s, _ = control.Step(time.Duration(i)*time.Second, []string{"pod"})
		}
		if len(s.Pressed) > 0 != c.pressed || len(s.Sending.Pressed) > 0 != c.sending {
			t.Errorf("%s: pressed %v, by what is sent %v", c.name, s.Pressed, s.Sending.Pressed)
		}
		if !s.Sending.Known || !s.Sending.Floored || s.Sending.Pods["pod"] != advise.Known(7) {
			t.Errorf("%s: %+v", c.name, s.Sending)
		}
		k.counts.Online.Bytes = 29 * 1000
		for i := range 60 {
			s, _ = control.Step(time.Duration(30+i)*time.Second, nil)
		}
		if s.Sending.Floored {
			t.Errorf("%s: online pods are quiet, and the ceiling is at the floor: %+v", c.name, s)
		}
		k.traffic = map[string]Traffic{"a": {}}
		if s, _ = control.Step(91*time.Second, nil); s.Sending.Known {
			t.Errorf("%s: nothing is read, and said to be known", c.name)
		}
	}
}
