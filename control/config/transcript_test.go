package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
)

// TestTranscripts plays what people do with NodeConfigurations on the model of a cluster, and prints what changes: when, how many nodes were told which parameters, and
// what the conditions say.
//
//	cluster nodes=N            a new cluster; even nodes have the label pool=web, odd ones pool=batch
//	apply NAME / delete NAME   a NodeConfiguration; the spec is below
//	label NODE pool=X          another label
//	silent NODE... / dead NODE...
//	run for=DURATION           ticks of 30 s
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		p := &player{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			p.out.Reset()
			p.play(d)
			return p.out.String()
		})
	})
}

type player struct {
	t     *testing.T
	c     *cluster
	began time.Time
	out   strings.Builder
	said  map[string]string // what was last printed of nodes, and of each object
}

func (p *player) play(d *datadriven.TestData) {
	name := func(i int) string { return d.CmdArgs[i].Key }
	switch d.Cmd {
	case "cluster":
		n := 0
		d.ScanArgs(p.t, "nodes", &n)
		p.c, p.said = newCluster(1, n), make(map[string]string)
		p.began = p.c.now
	case "apply":
		var s spec.NodeConfiguration
		if err := yaml.UnmarshalStrict([]byte(d.Input), &s); err != nil {
			d.Fatalf(p.t, "%v", err)
		}
		p.c.apply(name(0), s)
	case "delete":
		delete(p.c.objects, name(0))
	case "label":
		p.c.nodes[name(0)].Labels = map[string]string{d.CmdArgs[1].Key: d.CmdArgs[1].Vals[0]}
	case "silent":
		p.each(d, func(m *model) { m.silent = true })
	case "dead":
		p.each(d, func(m *model) { m.dead = true })
	case "run":
		span := ""
		d.ScanArgs(p.t, "for", &span)
		length, err := time.ParseDuration(span)
		if err != nil {
			d.Fatalf(p.t, "%v", err)
		}
		for end := p.c.now.Add(length); p.c.now.Before(end); {
			p.c.tick()
			p.changes()
		}
	default:
		d.Fatalf(p.t, "unknown command %s", d.Cmd)
	}
}

func (p *player) each(d *datadriven.TestData, do func(*model)) {
	for _, arg := range d.CmdArgs {
		do(p.c.nodes[arg.Key])
	}
}

// changes prints what is not as it was when it was last printed.
func (p *player) changes() {
	told := make(map[string]int)
	for _, m := range p.c.nodes {
		if m.Wanted != nil {
			told[m.Wanted.Name+" "+string(m.Wanted.Parameters)]++
		}
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(told)) {
		parts = append(parts, strconv.Itoa(told[what])+" by "+what)
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	p.say("nodes told", strings.Join(parts, ", "))
	for _, object := range slices.Sorted(maps.Keys(p.c.objects)) {
		for _, x := range p.c.conditions[object] {
			p.say(object, x.Type, fmt.Sprintf("%t %s: %s", x.True, x.Reason, x.Message))
		}
	}
}

func (p *player) say(about ...string) {
	key, text := strings.Join(about[:len(about)-1], " "), about[len(about)-1]
	if p.said[key] == text {
		return
	}
	p.said[key] = text
	fmt.Fprintf(&p.out, "%7s %s: %s\n", p.c.now.Sub(p.began).Round(time.Second), key, text)
}
