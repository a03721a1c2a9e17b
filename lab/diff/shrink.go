package diff

import (
	"encoding/json"
	"maps"
	"slices"
)

// maxWork bounds the steps that one Shrink plays: a minute or so for the longest histories, whose steps cost most.
const maxWork = 400_000

// shrinker makes a failing case smaller while the first difference stays of its kind.
type shrinker struct {
	player *Player
	kind   string
	work   int
	last   *Failure
}

// Shrink returns a failure of the same kind on as small a case as it can find: first without steps, then without parts of their objects.
// What it returns has been replayed from its YAML form.
func Shrink(p *Player, f *Failure) *Failure {
	s := &shrinker{player: p, kind: f.Kind(), last: f}
	c := *f.Case
	c.Steps = slices.Clone(c.Steps[:f.Step+1])
	if text, err := c.YAML(); err != nil {
		return f
	} else if read, err := ParseCase(text); err != nil || !s.fails(read) {
		return f // what makes it fail does not survive being written down
	} else {
		c = *read
	}
	for before := -1; before != len(c.Steps); {
		before = len(c.Steps)
		c = s.plainer(s.fewerSteps(c))
	}
	for before := -1; before != size(&c); {
		before = size(&c)
		c = s.fewerSteps(s.lesserObjects(c))
	}
	s.last.Number = f.Number
	return s.last
}

// fails replays a case and reports whether it still fails in the same way.
func (s *shrinker) fails(c *Case) bool {
	if s.work >= maxWork {
		return false
	}
	s.work += len(c.Steps)
	f, err := s.player.Play(c)
	if err != nil || f == nil || f.Kind() != s.kind {
		return false
	}
	s.last = f
	return true
}

// fewerSteps leaves steps out, many at once at first.
func (s *shrinker) fewerSteps(c Case) Case {
	for chunk := max(len(c.Steps)/2, 1); ; chunk /= 2 {
		for at := len(c.Steps) - chunk; at >= 0; at -= chunk {
			candidate := c
			candidate.Steps = slices.Delete(slices.Clone(c.Steps), at, min(at+chunk, len(c.Steps)))
			if s.fails(&candidate) {
				c = candidate
				c.Steps = c.Steps[:s.last.Step+1]
			}
			at = min(at, len(c.Steps))
		}
		if chunk == 1 {
			return c
		}
	}
}

// plainer tries the default profile, seed and sizes.
func (s *shrinker) plainer(c Case) Case {
	for _, change := range []func(*Case){
		func(c *Case) { c.Profile = Profiles[0].Name },
		func(c *Case) { c.Seed = 1 },
		func(c *Case) { c.Indexes = 16 },
		func(c *Case) { c.Coarse = 64 },
		func(c *Case) { c.Lazy = 0 },
		func(c *Case) { c.Preempts = 0 },
		func(c *Case) { c.Preempts = min(c.Preempts, 1) },
	} {
		candidate := c
		change(&candidate)
		if s.fails(&candidate) {
			c = candidate
		}
	}
	return c
}

// size is how much there is to read of a case. Some fields are written whether they say anything or not, so it is not counted while they
// are left out.
func size(c *Case) int {
	text, err := c.YAML()
	if err != nil {
		return 0
	}
	return len(text)
}

// lesserObjects leaves fields and list entries out of the objects.
func (s *shrinker) lesserObjects(c Case) Case {
	text, err := json.Marshal(c)
	if err != nil {
		return c
	}
	var tree map[string]any
	if json.Unmarshal(text, &tree) != nil {
		return c
	}
	holds := func() bool {
		text, err := json.Marshal(tree)
		if err != nil {
			return false
		}
		candidate := new(Case)
		if json.Unmarshal(text, candidate) != nil || !s.fails(candidate) {
			return false
		}
		c = *candidate
		return true
	}
	steps, _ := tree["steps"].([]any)
	for i := range steps {
		if step, ok := steps[i].(map[string]any); ok {
			for kind := range step {
				prune(step[kind], holds)
			}
		}
	}
	return c
}

// kept are the fields without which an object would be no object that an API server admits.
var kept = []string{
	"name", "namespace", "uid", "metadata", "spec", "containers", "operator", "key", "values", "topologyKey", "whenUnsatisfiable", "maxSkew",
	"weight", "preference", "podAffinityTerm", "effect", "pod", "node", "kind", "containerPort", "nodeSelectorTerms", "nodeName", "image",
}

// prune deletes what it can below a value of a JSON tree while the case goes on failing.
func prune(value any, holds func() bool) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		child := object[key]
		if !slices.Contains(kept, key) {
			delete(object, key)
			if holds() {
				continue
			}
			object[key] = child
		}
		if list, ok := child.([]any); ok {
			pruneList(object, key, list, holds)
			continue
		}
		prune(child, holds)
	}
}

// pruneList leaves at least one entry: without any, the field itself would have gone.
func pruneList(object map[string]any, key string, list []any, holds func() bool) {
	for i := len(list) - 1; i >= 0 && len(list) > 1; i-- {
		shorter := slices.Delete(slices.Clone(list), i, i+1)
		object[key] = shorter
		if holds() {
			list = shorter
			continue
		}
		object[key] = list
	}
	for i := range list {
		prune(list[i], holds)
	}
}
