package diff

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"hilbert.dev/hilbert/schedule/place/rules"
)

// TestEveryUpstreamPluginIsKnown fails when a new version of upstream has a plugin by default that nobody has thought about here.
func TestEveryUpstreamPluginIsKnown(t *testing.T) {
	c, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	enabled := make(map[string]bool)
	sets := reflect.ValueOf(*c.Profiles[0].Plugins)
	for i := range sets.NumField() {
		list := sets.Field(i).FieldByName("Enabled")
		for j := range list.Len() {
			enabled[list.Index(j).FieldByName("Name").String()] = true
		}
	}
	if len(enabled) < 15 {
		t.Fatalf("only %d plugins are enabled by default: are they listed elsewhere now?", len(enabled))
	}
	for name := range enabled {
		if _, ok := Plugins[name]; !ok {
			t.Errorf("upstream's default profile has %s, which the comparison does not know", name)
		}
	}
	for name, plugin := range Plugins {
		if !enabled[name] {
			t.Errorf("%s is not in upstream's default profile any more", name)
		}
		if !plugin.Runs && plugin.Why == "" {
			t.Errorf("%s is left out without a reason", name)
		}
	}
}

// TestEveryScoreIsCompared: upstream's framework scores with the plugins of scoreNames and no others, in every profile.
func TestEveryScoreIsCompared(t *testing.T) {
	for i := range Profiles {
		u, err := newUpstream(&Profiles[i])
		if err != nil {
			t.Fatal(err)
		}
		scores := u.framework.ListPlugins().Score.Enabled
		for _, s := range scores {
			if k := scoreIndex(s.Name); k < 0 || u.weights[k] != int64(s.Weight) {
				t.Errorf("%s: upstream scores with %s and weight %d; the table has it at %d", Profiles[i].Name, s.Name, s.Weight, k)
			}
		}
		if len(scores) != len(scoreNames) {
			t.Errorf("%s: upstream has %d scores, the table %d", Profiles[i].Name, len(scores), len(scoreNames))
		}
	}
}

// TestEveryFilterIsOurs: each of upstream's filters that run here is one of ours by name, and the other way round.
func TestEveryFilterIsOurs(t *testing.T) {
	u, err := newUpstream(&Profiles[0])
	if err != nil {
		t.Fatal(err)
	}
	theirs, own := make(map[string]bool), make(map[string]bool)
	for _, f := range u.framework.ListPlugins().Filter.Enabled {
		theirs[f.Name] = true
	}
	for _, f := range rules.Filters {
		own[f.Name] = true
	}
	delete(theirs, "NodeName")  // a pod that names its node has its place
	delete(own, "GPUFit")       // Hilbert's own
	delete(own, "Reservation")  // Hilbert's own; nothing is reserved here
	delete(own, "NUMAFit")      // Hilbert's own; no pod asks for NUMA nodes here
	delete(own, "NearFit")      // Hilbert's own; nor for what is near
	delete(own, "ClaimsChosen") // Hilbert's own; one pod comes at a time here
	for _, name := range []string{names.VolumeBinding, names.VolumeRestrictions, names.NodeVolumeLimits} {
		if !own[name] || !slices.Contains(volumePlugins, name) {
			t.Errorf("%s is to be a filter of ours and upstream's beside it where volumes are compared", name)
		}
		delete(own, name)
	}
	if !own[names.DynamicResources] || !slices.Contains(devicePlugins, names.DynamicResources) {
		t.Errorf("%s is to be a filter of ours and upstream's beside it where devices are compared", names.DynamicResources)
	}
	delete(own, names.DynamicResources)
	if !maps.Equal(theirs, own) {
		t.Errorf("upstream filters with %v, Hilbert with %v", slices.Sorted(maps.Keys(theirs)), slices.Sorted(maps.Keys(own)))
	}
}

func TestRegressions(t *testing.T) {
	files, err := filepath.Glob("testdata/regressions/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no regressions: %v", err)
	}
	p := NewPlayer()
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := ParseCase(text)
			if err != nil {
				t.Fatal(err)
			}
			f, err := p.Play(c)
			if err != nil {
				t.Fatal(err)
			}
			if f != nil {
				t.Errorf("the schedulers differ at step %d:\n%s", f.Step, f)
			}
			if !slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Judge != nil }) {
				t.Error("the case judges nothing")
			}
		})
	}
}

// TestFuzz compares the schedulers on as many pods as CASES says, with the seed SEED.
func TestFuzz(t *testing.T) {
	o := Options{Cases: number(t, "CASES", 2000), Seed: uint64(number(t, "SEED", 1)), Progress: t.Output()}
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	for _, f := range report.Failures {
		t.Errorf("history %d: %s", f.Number, f)
	}
	if report.Volumes.Failure != nil {
		t.Error(report.Volumes.Failure)
	}
	if report.Devices.Failure != nil {
		t.Error(report.Devices.Failure)
	}
	if vacuous := report.Coverage.Vacuous(); len(vacuous) > 0 {
		t.Errorf("%v never mattered: nothing is known about them", vacuous)
	}
	if report.Coverage.Judged < o.Cases && len(report.Failures) == 0 {
		t.Errorf("%d pods were judged, %d asked for", report.Coverage.Judged, o.Cases)
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// TestRunIsDeterministic: how many workers share the work does not show in the report.
func TestRunIsDeterministic(t *testing.T) {
	run := func(workers int) Coverage {
		report, err := Run(t.Context(), Options{Cases: 300, Seed: 7, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		return report.Coverage
	}
	if one, three := run(1), run(3); one != three {
		t.Errorf("one worker counts %+v, three count %+v", one, three)
	}
}

func TestRunStopsWhenItIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Cases: 1 << 40}); err == nil {
		t.Error("a cancelled run reports as if it were complete")
	}
}

// TestCasesSurviveBeingWrittenDown: what a case's YAML says is what was played.
func TestCasesSurviveBeingWrittenDown(t *testing.T) {
	for n := range uint64(20) {
		text, err := Generate(3, n).YAML()
		if err != nil {
			t.Fatal(err)
		}
		c, err := ParseCase(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, again) {
			t.Fatalf("history %d reads differently the second time", n)
		}
	}
}

// TestShrinkFindsTheCause gives the player a scheduler of ours that cannot bear a pod with a host port on a cluster with a taint, and
// expects nothing else to be left of the case.
func TestShrinkFindsTheCause(t *testing.T) {
	p := NewPlayer()
	p.object = func(u *upstream, pod *corev1.Pod) []Difference {
		if (&constraints[1]).used(&scene{pod, u}) && slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort == 443 })
		}) {
			return []Difference{{"planted", "a host port and a taint"}}
		}
		return nil
	}
	for n := uint64(0); ; n++ {
		if n == 10_000 {
			t.Fatal("the planted difference was never met")
		}
		f, err := p.Play(Generate(4, n))
		if err != nil {
			t.Fatal(err)
		}
		if f == nil || f.Kind() != "planted" {
			continue
		}
		small := Shrink(p, f).Case
		text, err := small.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if len(small.Steps) != 2 || bytes.Count(text, []byte("\n")) > 40 {
			t.Errorf("this is left:\n%s", text)
		}
		return
	}
}
