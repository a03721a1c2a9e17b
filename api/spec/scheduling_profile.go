package spec

import (
	"fmt"
	"maps"
	"regexp"
)

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// DefaultProfile is the name of the profile of pods that no SchedulingProfile names.
const DefaultProfile = "default"

// ScoresOf are the weights that a profile sets: its own over those of the default profile.
func (s *Scheduling) ScoresOf(p *SchedulingProfile) map[string]int64 {
	scores := make(map[string]int64, len(s.Scores)+len(p.Scores))
	maps.Copy(scores, s.Scores)
	maps.Copy(scores, p.Scores)
	return scores
}

// RatioOf is a profile's curve: its own, or that of the default profile.
func (s *Scheduling) RatioOf(p *SchedulingProfile) []RatioPoint {
	if len(p.CapacityRatio) > 0 {
		return p.CapacityRatio
	}
	return s.CapacityRatio
}

// validateSchedulingProfiles holds that no two profiles want the same pod for the same reason: a name in two places would make the order of the list decide.
func validateSchedulingProfiles(c *Configuration, bad report) {
	list := c.Scheduling.Profiles
	if len(list) > MaxSchedulingProfiles {
		bad("scheduling.profiles", "%d profiles; write at most %d, because each has indexes of its own", len(list), MaxSchedulingProfiles)
	}
	profiles := map[string]string{DefaultProfile: "the default profile"}
	schedulers := map[string]string{c.SchedulerName: "schedulerName"}
	queues := make(map[string]string)
	take := func(taken map[string]string, field, value string) {
		if value == "" {
			bad(field, "it is empty; write a name or leave it out")
		} else if first, ok := taken[value]; ok {
			bad(field, "%q is in %s already; name it once", value, first)
		} else {
			taken[value] = field
		}
	}
	for i := range list {
		p := &list[i]
		at := fmt.Sprintf("scheduling.profiles[%d]", i)
		if !dnsLabel.MatchString(p.Name) {
			bad(at+".name", "%q: write a DNS label, such as batch", p.Name)
		} else {
			take(profiles, at+".name", p.Name)
		}
		if len(p.SchedulerNames)+len(p.Queues) == 0 {
			bad(at, "no pod would take it; write schedulerNames or queues")
		}
		for j, name := range p.SchedulerNames {
			take(schedulers, fmt.Sprintf("%s.schedulerNames[%d]", at, j), name)
		}
		for j, name := range p.Queues {
			take(queues, fmt.Sprintf("%s.queues[%d]", at, j), name)
		}
		validateScores(at, p.Scores, p.CapacityRatio, bad)
	}
}

// ProfileNumbers is the profile that each of the further scheduler names chooses: its place in Profiles, from 1; 0 is the default profile.
func (s *Scheduling) ProfileNumbers() map[string]uint8 {
	numbers := make(map[string]uint8)
	for i := range s.Profiles {
		for _, name := range s.Profiles[i].SchedulerNames {
			numbers[name] = uint8(i + 1)
		}
	}
	return numbers
}
