package spec

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestProfilesAreValidated breaks two good profiles in one way at a time; the message must name the field.
func TestProfilesAreValidated(t *testing.T) {
	good := func() *Configuration {
		c := Default()
		c.Scheduling.Profiles = []SchedulingProfile{
			{Name: "batch", SchedulerNames: []string{"hilbert-batch"}, Scores: map[string]int64{"MostAllocated": 1}},
			{Name: "shop", Queues: []string{"shop"}},
		}
		return c
	}
	if err := Validate(good()); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		want  string
		spoil func(p []SchedulingProfile)
	}{
		"no name":                 {`scheduling.profiles[0].name: ""`, func(p []SchedulingProfile) { p[0].Name = "" }},
		"no DNS label":            {`scheduling.profiles[0].name: "Batch"`, func(p []SchedulingProfile) { p[0].Name = "Batch" }},
		"the default's name":      {`scheduling.profiles[0].name: "default" is in the default profile`, func(p []SchedulingProfile) { p[0].Name = DefaultProfile }},
		"name twice":              {`scheduling.profiles[1].name: "batch" is in scheduling.profiles[0].name`, func(p []SchedulingProfile) { p[1].Name = "batch" }},
		"nobody's":                {"scheduling.profiles[1]: no pod would take it", func(p []SchedulingProfile) { p[1].Queues = nil }},
		"scheduler name twice":    {`scheduling.profiles[1].schedulerNames[0]: "hilbert-batch"`, func(p []SchedulingProfile) { p[1].SchedulerNames = []string{"hilbert-batch"} }},
		"the default's scheduler": {`scheduling.profiles[0].schedulerNames[0]: "hilbert" is in schedulerName`, func(p []SchedulingProfile) { p[0].SchedulerNames[0] = "hilbert" }},
		"queue twice":             {`scheduling.profiles[1].queues[0]: "shop"`, func(p []SchedulingProfile) { p[0].Queues = []string{"shop"} }},
		"empty queue":             {"scheduling.profiles[1].queues[0]: it is empty", func(p []SchedulingProfile) { p[1].Queues[0] = "" }},
		"weight below 0":          {"scheduling.profiles[0].scores.MostAllocated", func(p []SchedulingProfile) { p[0].Scores["MostAllocated"] = -1 }},
		"a curve that goes back":  {"scheduling.profiles[1].capacityRatio[1]", func(p []SchedulingProfile) { p[1].CapacityRatio = []RatioPoint{{50, 1}, {50, 2}} }},
	} {
		t.Run(name, func(t *testing.T) {
			c := good()
			x.spoil(c.Scheduling.Profiles)
			if err := Validate(c); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got  %v\nwant %s", err, x.want)
			}
		})
	}
	c := good()
	for len(c.Scheduling.Profiles) <= MaxSchedulingProfiles {
		c.Scheduling.Profiles = append(c.Scheduling.Profiles, SchedulingProfile{})
	}
	if err := Validate(c); err == nil || !strings.Contains(err.Error(), "scheduling.profiles: 17 profiles") {
		t.Errorf("too many profiles: %v", err)
	}
}

func TestProfileNumbers(t *testing.T) {
	s := &Scheduling{Profiles: []SchedulingProfile{
		{Name: "shop", Queues: []string{"shop"}},
		{Name: "batch", SchedulerNames: []string{"hilbert-batch", "volcano"}, Queues: []string{"night"}},
	}}
	if got, want := s.ProfileNumbers(), (map[string]uint8{"hilbert-batch": 2, "volcano": 2}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestProfilesTakeWhatTheyDoNotSet(t *testing.T) {
	s := &Scheduling{
		Scores: map[string]int64{"LeastAllocated": 0, "GPUWorth": 3}, CapacityRatio: DefaultRatio(),
		Profiles: []SchedulingProfile{{Scores: map[string]int64{"GPUWorth": 5}}, {CapacityRatio: []RatioPoint{{1, 2}}}},
	}
	if got, want := s.ScoresOf(&s.Profiles[0]), (map[string]int64{"LeastAllocated": 0, "GPUWorth": 5}); !maps.Equal(got, want) {
		t.Errorf("scores %v, want %v", got, want)
	}
	if s.Scores["GPUWorth"] != 3 {
		t.Error("a profile changed the default one")
	}
	if got := s.RatioOf(&s.Profiles[0]); !slices.Equal(got, s.CapacityRatio) {
		t.Errorf("curve %v, want the default profile's", got)
	}
	if got := s.RatioOf(&s.Profiles[1]); len(got) != 1 {
		t.Errorf("curve %v, want its own", got)
	}
}
