package tide

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/control/forecast"
	"hilbert.dev/hilbert/internal/calendar"
)

var start = time.Date(2026, time.November, 26, 0, 0, 0, 0, time.UTC)

// world is a pool to which decisions happen at once.
type world struct {
	View

	now time.Time
}

// decide decides, and lets it happen.
func (w *world) decide() Decision {
	d := Decide(&w.View, w.now)
	w.Memory = d.Memory
	for _, h := range d.Hands {
		n := &w.Nodes[slices.IndexFunc(w.Nodes, func(n Node) bool { return n.Name == h.Node })]
		n.Side = h.To
		if !h.First {
			n.Since = w.now
		}
	}
	return d
}

func (w *world) node(name string) *Node {
	for i := range w.Nodes {
		if w.Nodes[i].Name == name {
			return &w.Nodes[i]
		}
	}
	w.Nodes = append(w.Nodes, Node{Name: name, Open: true})
	return &w.Nodes[len(w.Nodes)-1]
}

// The transcripts: pool sets what people write, window adds one, node says what is on nodes, at decides at times of the day (2-08:00 is the second day).
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := &world{now: start, View: View{Budget: 100, Pool: Pool{PerHour: 100, Stay: 5 * time.Minute, Hold: 15 * time.Minute, Lead: 15 * time.Minute, Slack: 1}}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			switch d.Cmd {
			case "pool":
				w.set(t, d)
			case "window":
				var name, cron, begins, zone string
				var duration string
				d.MaybeScanArgs(t, "name", &name)
				d.MaybeScanArgs(t, "begins", &begins)
				d.MaybeScanArgs(t, "zone", &zone)
				d.MaybeScanArgs(t, "duration", &duration)
				cron = strings.TrimSpace(d.Input)
				s, err := calendar.Read(cron, begins, zone)
				if err != nil {
					return err.Error() + "\n"
				}
				length, err := time.ParseDuration(duration)
				if err != nil {
					return err.Error() + "\n"
				}
				win := Window{Name: name, Begins: s, Duration: length}
				d.ScanArgs(t, "online", &win.Online)
				w.Windows = append(w.Windows, win)
			case "nodes":
				w.nodes(t, d)
			case "at":
				for _, a := range d.CmdArgs {
					w.clock(t, a.Key)
					w.show(&out)
				}
			default:
				t.Fatalf("%s: no such command", d.Cmd)
			}
			return out.String()
		})
	})
}

func (w *world) set(t *testing.T, d *datadriven.TestData) {
	for name, field := range map[string]*int{
		"online": &w.ReserveOnline, "offline": &w.ReserveOffline, "slack": &w.Slack, "perHour": &w.PerHour, "need": &w.Need, "budget": &w.Budget,
	} {
		d.MaybeScanArgs(t, name, field)
	}
	for name, field := range map[string]*time.Duration{"lead": &w.Lead, "stay": &w.Stay, "hold": &w.Hold} {
		var text string
		d.MaybeScanArgs(t, name, &text)
		if text != "" {
			length, err := time.ParseDuration(text)
			if err != nil {
				t.Fatal(err)
			}
			*field = length
		}
	}
	var expected float64
	if d.HasArg("forecast") {
		d.ScanArgs(t, "forecast", &expected)
		w.Forecast = forecast.Prediction{High: expected, Trusted: expected > 0}
	}
	w.Paused, w.Waits = d.HasArg("paused"), d.HasArg("waits")
}

// nodes reads lines such as: a-d offline pods=2 stuck=1 lost=30 gang=g closed barred=why
func (w *world) nodes(t *testing.T, d *datadriven.TestData) {
	for line := range strings.Lines(d.Input) {
		fields := strings.Fields(line)
		from, to, _ := strings.Cut(fields[0], "-")
		if to == "" {
			to = from
		}
		for c := from[0]; c <= to[0]; c++ {
			n := w.node(string(c))
			for _, f := range fields[1:] {
				key, value, _ := strings.Cut(f, "=")
				number := 0
				if value != "" {
					number, _ = strconv.Atoi(value) // a name is none
				}
				h := n.held(n.of())
				if strings.HasPrefix(key, "other.") {
					h = n.held(n.of().Other())
				}
				switch strings.TrimPrefix(key, "other.") {
				case "online":
					n.Side = Online
				case "offline":
					n.Side = Offline
				case "pods":
					h.Pods = number
				case "stuck":
					h.Stuck = number
				case "lost":
					h.Lost = float64(number)
				case "gang":
					h.Gangs = append(h.Gangs, value)
				case "closed":
					n.Open = false
				case "barred":
					n.Barred = value
				default:
					t.Fatalf("%q: no such thing", f)
				}
			}
		}
	}
}

func (w *world) clock(t *testing.T, text string) {
	day, clock, found := strings.Cut(text, "-")
	if !found {
		day, clock = "1", text
	}
	at, err := time.Parse("15:04:05", clock)
	if err != nil {
		at, err = time.Parse("15:04", clock)
	}
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(day)
	if err != nil {
		t.Fatal(err)
	}
	w.now = start.AddDate(0, 0, number-1).Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute + time.Duration(at.Second())*time.Second)
}

func (w *world) show(out *strings.Builder) {
	d := w.decide()
	fmt.Fprintf(out, "%s: %d online, %d offline, wanted %d (%s), %s", w.now.Format("2-15:04"), d.Online, d.Offline, d.Wanted, d.Why,
		[...]string{"satisfied", "changing", "bounded", "short", "paused"}[d.Outcome])
	if d.Message != "" {
		fmt.Fprintf(out, ": %s", d.Message)
	}
	out.WriteByte('\n')
	for _, h := range d.Hands {
		if !h.First {
			fmt.Fprintf(out, "  %s to %s\n", h.Node, h.To)
		}
	}
	leaving := Leaving(&w.View, w.now)
	for i := range w.Nodes {
		if why := leaving[w.Nodes[i].Name]; why != "" {
			fmt.Fprintf(out, "  pods are to leave: %s\n", why)
		}
	}
}

// every begins each so often.
type every time.Duration

func (e every) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(e)).Add(time.Duration(e))
}

// draw is a pool with nodes, some of which share gangs.
func draw(t *rapid.T) *world {
	w := &world{now: start}
	n := rapid.IntRange(1, 24).Draw(t, "nodes")
	w.Pool = Pool{
		ReserveOnline: rapid.IntRange(0, n/2).Draw(t, "reserveOnline"), ReserveOffline: rapid.IntRange(0, n/2).Draw(t, "reserveOffline"),
		Lead: 10 * time.Minute, Stay: 5 * time.Minute, Hold: time.Duration(rapid.IntRange(0, 30).Draw(t, "hold")) * time.Minute,
		Slack: rapid.IntRange(0, 2).Draw(t, "slack"), PerHour: rapid.IntRange(1, 30).Draw(t, "perHour"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "windows") {
		w.Windows = append(w.Windows, Window{"w", every(time.Duration(rapid.IntRange(2, 8).Draw(t, "every")) * time.Hour), time.Hour, rapid.IntRange(1, n).Draw(t, "windowOnline")})
	}
	for i := range n {
		side := Side(rapid.IntRange(0, 2).Draw(t, "side"))
		if i < w.ReserveOnline {
			side = Online
		} else if i < w.ReserveOnline+w.ReserveOffline {
			side = Offline
		}
		w.Nodes = append(w.Nodes, Node{Name: fmt.Sprintf("n%02d", i), Side: side, Open: true})
	}
	return w
}

// stir changes what is on the nodes and what is needed.
func (w *world) stir(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "newNeed") == 0 {
		w.Need = rapid.IntRange(0, len(w.Nodes)).Draw(t, "need")
	}
	w.Budget = rapid.IntRange(0, 10).Draw(t, "budget")
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if rapid.IntRange(0, 4).Draw(t, "changed") != 0 {
			continue
		}
		for _, h := range []*Held{&n.Online, &n.Offline} {
			*h = Held{Pods: rapid.IntRange(0, 3).Draw(t, "pods"), Lost: float64(rapid.IntRange(0, 9).Draw(t, "lost"))}
			if h.Pods > 0 && rapid.IntRange(0, 2).Draw(t, "inGang") == 0 {
				h.Gangs, h.Stuck = []string{fmt.Sprintf("g%d", rapid.IntRange(0, 3).Draw(t, "gang"))}, 1
			}
		}
	}
}

func (w *world) count(s Side) (n int) {
	for i := range w.Nodes {
		if w.Nodes[i].of() == s {
			n++
		}
	}
	return n
}

// past is what a decision found and did.
type past struct {
	at             time.Time
	needed         int
	moved, largest int // nodes, and those of the largest gang
}

// promises holds decisions against what is promised.
type promises struct {
	*world

	t      *rapid.T
	before []past
}

// step is one decision.
func (p *promises) step() {
	t, w := p.t, p.world
	on, off := w.count(Online), w.count(Offline)
	gangs, pods := make(map[string][]string), make(map[string]int)
	for i := range w.Nodes {
		n := &w.Nodes[i]
		for _, g := range n.held(n.of()).Gangs {
			gangs[g+n.of().String()] = append(gangs[g+n.of().String()], n.Name)
		}
		pods[n.Name] = n.Online.Pods
	}
	d := w.decide()
	if isOn, isOff := w.count(Online), w.count(Offline); isOn < min(on, w.ReserveOnline) || isOff < min(off, w.ReserveOffline) {
		t.Fatalf("%d online and %d offline became %d and %d; reserves %d and %d", on, off, isOn, isOff, w.ReserveOnline, w.ReserveOffline)
	}
	now, handed, disturbed, toOffline := past{at: w.now, needed: d.Wanted}, make(map[string]bool), 0, false
	for _, h := range d.Hands {
		if h.First {
			continue
		}
		handed[h.Node] = true
		now.moved++
		if h.To == Offline {
			disturbed += pods[h.Node]
			toOffline = true
		}
	}
	if disturbed > w.Budget {
		t.Fatalf("%d pods of online are to move, and the budget is %d", disturbed, w.Budget)
	}
	for g, members := range gangs {
		gone := len(slices.DeleteFunc(slices.Clone(members), func(m string) bool { return !handed[m] }))
		if gone != 0 && gone != len(members) {
			t.Fatalf("of the gang %s on %v %d nodes change hands", g, members, gone)
		}
		now.largest = max(now.largest, len(members))
	}
	p.before = append(p.before, now)
	p.look(toOffline && off >= w.ReserveOffline)
}

// look holds a decision against those before it. gaveBack: nodes went to offline though it had its reserve.
func (p *promises) look(gaveBack bool) {
	sum, largest := 0, 0
	for _, b := range p.before {
		age := p.now.Sub(b.at)
		if age < time.Hour {
			sum, largest = sum+b.moved, max(largest, b.largest)
		}
		if gaveBack && age < p.Hold && b.needed > p.count(Online) {
			p.t.Fatalf("%v ago online should have had %d nodes; now it is left %d", age, b.needed, p.count(Online))
		}
	}
	if most := max(p.PerHour, len(p.Nodes)); sum > most || largest <= 1 && sum > p.PerHour {
		p.t.Fatalf("%d nodes changed hands in an hour; the bound is %d", sum, p.PerHour)
	}
}

// Whatever happens: no decision takes a side below its reserve, gangs go whole, to offline go nodes only whose pods the budget allows to move and only after online has had too many
// for as long as Hold says, and no more change hands in an hour than the bound says, but for one gang that is taken whole.
func TestPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &promises{world: draw(t), t: t}
		for range 30 {
			p.now = p.now.Add(time.Duration(rapid.IntRange(10, 400).Draw(t, "passed")) * time.Second)
			p.stir(t)
			p.step()
		}
	})
}

// When need and pods stay as they are, online comes to what it should have, with at most Slack more, and then nothing changes hands any more.
func TestRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		w.Windows = nil
		w.Need, w.Budget = rapid.IntRange(0, len(w.Nodes)).Draw(t, "need"), 100
		var d Decision
		for range 40 {
			w.now = w.now.Add(62 * time.Minute) // so that the bound of an hour is new in each round
			d = w.decide()
		}
		if len(d.Hands) > 0 || d.Online < d.Wanted || d.Online > d.Wanted+w.Slack && d.Offline >= w.ReserveOffline && d.Online > w.ReserveOnline+w.Slack {
			t.Fatalf("it does not come to rest: %+v", d)
		}
	})
}

// At the lead before a window all its nodes are online's, whatever the bound of an hour is, if nothing else uses that up.
func TestWindowsAreInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "nodes")
		w := &world{now: start, View: View{Budget: 100, Pool: Pool{Lead: 15 * time.Minute, Hold: time.Hour, PerHour: rapid.IntRange(1, 40).Draw(t, "perHour"), ReserveOffline: 1}}}
		begins := start.Add(50 * time.Hour)
		w.Windows = []Window{{"sale", once(begins), time.Hour, rapid.IntRange(1, n-1).Draw(t, "online")}}
		for i := range n {
			w.Nodes = append(w.Nodes, Node{Name: fmt.Sprintf("n%02d", i), Side: Offline, Open: true})
		}
		early := 0
		for w.now.Before(begins.Add(-w.Lead)) {
			w.now = w.now.Add(time.Minute)
			w.decide()
			if left := begins.Add(-w.Lead).Sub(w.now); w.count(Online) > 0 && left > time.Duration(float64(w.Windows[0].Online+2)/float64(w.PerHour)*float64(time.Hour+time.Minute))+2*time.Minute {
				early++
			}
		}
		if got := w.count(Online); got < w.Windows[0].Online {
			t.Fatalf("%d of %d nodes are there", got, w.Windows[0].Online)
		}
		if early > 0 {
			t.Fatalf("nodes changed hands earlier than they had to, in %d rounds", early)
		}
	})
}

type once time.Time

func (o once) Next(after time.Time) time.Time {
	if time.Time(o).After(after) {
		return time.Time(o)
	}
	return time.Time{}
}
