package evict

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// TestTranscripts runs the stories in testdata/stories. Run with -rewrite to accept new output. Amounts are 1Gi, 20Mi, a number, or ? for not known.
//
//	params [dry-run] [off=NUMAMemory] [networkPerHour=]
//	node [total=] [available=] [min=] [some=] [full=] [cpu=] [swap=]
//	NUMA node 0 [total=] [free=] [file=] [low=]
//	root [total=] [free=] [inodes=] [inodesFree=], images …
//	network [pressed=eth0] [floored]; network ?: not known
//	suppress level=0..3
//	pod NAME [level=shared_cores] [priority=] [started=] [memory=] [rss=] [amount=] [numaNodes=1Gi+?] [cpu=] [delay=] [cpuAmount=] [sent=] [root=] [rootInodes=]
//	    [images=] [imageInodes=] [terminating]
//	gone NAME, answer NAME state=Refused|Pending|none, api down|up
//	tick [s=5] [terse]: so many steps, a second apart; what is new is printed with "+", what is over with "-"; terse: without
//	    orders to reclaim
//	jump s=-100: one step, so long after the last
//	restart: the Memory goes through JSON
//	counts
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := &story{p: Defaults(), m: &State{}, told: map[string]string{}}
		s.p.Escalation.AnswerWithin = spec.Duration(15 * time.Second) // shorter stories
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

type story struct {
	o    Observation
	p    Params
	m    *State
	told map[string]string
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	name := ""
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "params":
		s.p.DryRun = d.HasArg("dry-run")
		if d.HasArg("off") {
			if err := json.Unmarshal([]byte(`["`+word(d, "off")+`"]`), &s.p.Off); err != nil {
				d.Fatalf(t, "%v", err)
			}
		}
		if text := word(d, "networkPerHour"); text != "" {
			s.p.Network.PerHour, _ = strconv.Atoi(text)
		}
	case "network":
		s.o.Network = Network{Known: name != "?", Floored: d.HasArg("floored")}
		if pressed := word(d, "pressed"); pressed != "" {
			s.o.Network.Pressed = []string{pressed}
		}
	case "node":
		n := &s.o.Node
		set(t, d, map[string]*advise.Sample{
			"total": &n.MemoryTotal, "available": &n.MemoryAvailable, "min": &n.MinWatermark, "some": &n.MemorySome, "full": &n.MemoryFull,
			"cpu": &n.CPUPressure, "swap": &n.SwapFree,
		})
	case "numa":
		i, _ := strconv.Atoi(name)
		for len(s.o.NUMANodes) <= i {
			s.o.NUMANodes = append(s.o.NUMANodes, NUMANode{})
		}
		z := &s.o.NUMANodes[i]
		set(t, d, map[string]*advise.Sample{"total": &z.Total, "free": &z.Free, "file": &z.InactiveFile, "low": &z.LowWatermark})
	case "root", "images":
		disk := &s.o.Root
		if d.Cmd == "images" {
			disk = &s.o.Images
		}
		set(t, d, map[string]*advise.Sample{
			"total": &disk.BytesTotal, "free": &disk.Bytes, "inodes": &disk.InodesTotal, "inodesFree": &disk.Inodes,
		})
	case "suppress":
		level, _ := strconv.Atoi(word(d, "level"))
		s.o.Suppression = advise.Suppression(level)
	case "pod":
		s.pod(t, d, name)
	case "gone":
		s.o.Pods = slices.DeleteFunc(s.o.Pods, func(p Pod) bool { return p.Name == name })
	case "answer":
		s.o.API.Answers = slices.DeleteFunc(s.o.API.Answers, func(a Answer) bool { return a.UID == "uid-"+name })
		if state := word(d, "state"); state != "none" {
			s.o.API.Answers = append(s.o.API.Answers, Answer{UID: "uid-" + name, State: AnswerState(state), Since: s.o.At})
		}
	case "api":
		s.o.API.Unreachable, s.o.API.Since = name == "down", s.o.At
	case "tick":
		return s.ticks(d)
	case "jump":
		seconds, _ := strconv.Atoi(word(d, "s"))
		s.o.At += time.Duration(seconds) * time.Second
		return s.tick()
	case "restart":
		text, err := json.Marshal(s.m)
		s.m = &State{}
		if err != nil || json.Unmarshal(text, s.m) != nil {
			d.Fatalf(t, "%v: %s", err, text)
		}
	case "counts":
		text, _ := json.Marshal(&s.m.Counts)
		return string(text) + "\n"
	default:
		d.Fatalf(t, "unknown command")
	}
	return ""
}

func (s *story) pod(t *testing.T, d *datadriven.TestData, name string) {
	i := slices.IndexFunc(s.o.Pods, func(p Pod) bool { return p.Name == name })
	if i < 0 {
		i = len(s.o.Pods)
		s.o.Pods = append(s.o.Pods, Pod{PodRef: spec.PodRef{Namespace: "batch", Name: name, UID: "uid-" + name}, Level: spec.QoSReclaimed})
	}
	p := &s.o.Pods[i]
	set(t, d, map[string]*advise.Sample{
		"memory": &p.Memory, "rss": &p.RSS, "amount": &p.MemoryAmount, "cpu": &p.CPU, "delay": &p.RunDelay, "cpuAmount": &p.CPUAmount, "sent": &p.Sent,
		"root": &p.Root.Bytes, "rootInodes": &p.Root.Inodes, "images": &p.Images.Bytes, "imageInodes": &p.Images.Inodes,
	})
	if level := word(d, "level"); level != "" {
		p.Level = spec.QoSLevel(level)
	}
	if priority := word(d, "priority"); priority != "" {
		n, _ := strconv.Atoi(priority)
		p.Priority = int32(n)
	}
	if started := word(d, "started"); started != "" {
		n, _ := strconv.Atoi(started)
		p.Started = time.Duration(n) * time.Second
	}
	if numaNodes := word(d, "numaNodes"); numaNodes != "" {
		p.NUMANodes = nil
		for text := range strings.SplitSeq(numaNodes, "+") {
			p.NUMANodes = append(p.NUMANodes, sample(text))
		}
	}
	p.Terminating = p.Terminating || d.HasArg("terminating")
}

func (s *story) ticks(d *datadriven.TestData) string {
	n := 1
	if text := word(d, "s"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	var b strings.Builder
	for range n {
		s.o.At += time.Second
		for line := range strings.Lines(s.tick()) {
			if !d.HasArg("terse") || !strings.Contains(line, "+ reclaim ") {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// tick makes a step and says what changed.
func (s *story) tick() string {
	d := Step(&s.o, &s.p, s.m)
	now := map[string]string{}
	var b strings.Builder
	for line := range strings.Lines(d.Explain()) {
		line = strings.TrimSuffix(line, "\n")
		key, _, _ := strings.Cut(line, ": ")
		if now[key] = line; s.told[key] != line {
			fmt.Fprintf(&b, "%v + %s\n", s.o.At, line)
		}
	}
	for _, key := range sortedKeys(s.told) {
		order := strings.HasPrefix(key, "reclaim") || strings.HasPrefix(key, "stop") || strings.HasPrefix(key, "would")
		if _, stands := now[key]; !stands && !order {
			fmt.Fprintf(&b, "%v - %s\n", s.o.At, key)
		}
	}
	s.told = now
	return b.String()
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func word(d *datadriven.TestData, key string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key && len(arg.Vals) > 0 {
			return arg.Vals[0]
		}
	}
	return ""
}

// set takes the samples that are named.
func set(t *testing.T, d *datadriven.TestData, names map[string]*advise.Sample) {
	t.Helper()
	for key, s := range names {
		if text := word(d, key); text != "" {
			*s = sample(text)
		}
	}
}

func sample(text string) advise.Sample {
	if text == "?" {
		return advise.Sample{}
	}
	factor := 1.0
	for unit, f := range map[string]float64{"Gi": gibibyte, "Mi": mebibyte} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			text, factor = number, f
		}
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return advise.Known(math.NaN())
	}
	return advise.Known(x * factor)
}
