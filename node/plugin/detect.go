package plugin

import (
	"context"
	"math"
	"regexp"
	"slices"

	api "hilbert.dev/hilbert/api/nodeplugin/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/evict"
)

const (
	// MaxFindings bounds what one plugin finds, so that all of them find no more than evict.MaxFindings.
	MaxFindings = evict.MaxFindings / MaxPlugins
	// MaxCandidates bounds the pods that a plugin is told of, and so those that it may name.
	MaxCandidates = 256
	maxMessage    = 512 // bytes
)

var condition = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// Candidate is a pod that a plugin may name.
type Candidate struct {
	Pod      spec.PodRef
	Cgroup   string
	Priority int32
}

// Detect asks what the plugin has found out. It may name none but the candidates.
func (c *Client) Detect(ctx context.Context, candidates []Candidate) ([]evict.Finding, error) {
	request := &api.DetectRequest{}
	for i := range candidates {
		p := &candidates[i]
		request.Pods = append(request.Pods, &api.DetectPod{Pod: podOf(p.Pod), Cgroup: p.Cgroup, Priority: p.Priority})
	}
	answer, err := c.calls.Detect(ctx, request)
	if err != nil {
		return nil, c.failed("detect", err)
	}
	out, err := findings(c.Info.Name, candidates, answer)
	if err != nil {
		return nil, c.failed("detect", err)
	}
	return out, nil
}

// findings reads what a plugin has found, by condition. One that names a pod which it was not told of lies: it would have somebody go who must not.
func findings(name string, told []Candidate, a *api.DetectResponse) (out []evict.Finding, err error) {
	if len(a.GetFindings()) > MaxFindings {
		return nil, lie("%d findings: at most %d", len(a.GetFindings()), MaxFindings)
	}
	for _, f := range a.GetFindings() {
		one := evict.Finding{Plugin: name, Condition: f.GetCondition(), Met: f.GetMet(), Message: clean(f.GetMessage(), maxMessage)}
		if len(one.Condition) > maxName || !condition.MatchString(one.Condition) || slices.ContainsFunc(out, func(o evict.Finding) bool { return o.Condition == one.Condition }) {
			return nil, lie("condition %.63q: want a name in CamelCase, once", one.Condition)
		}
		if one.Candidates, err = named(one.Condition, told, f.GetCandidates()); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func named(condition string, told []Candidate, list []*api.Candidate) (out []evict.Candidate, err error) {
	if len(list) > len(told) {
		return nil, lie("%s: %d pods, and it was told of %d", condition, len(list), len(told))
	}
	for _, c := range list {
		one := evict.Candidate{UID: c.GetUid(), Gain: c.GetGain()}
		switch {
		case !slices.ContainsFunc(told, func(t Candidate) bool { return t.Pod.UID == one.UID }):
			return nil, lie("%s: it names pod %.63q, which is none that may be asked to go", condition, one.UID)
		case slices.ContainsFunc(out, func(o evict.Candidate) bool { return o.UID == one.UID }):
			return nil, lie("%s: it names pod %s twice", condition, one.UID)
		case math.IsNaN(one.Gain) || one.Gain < 0 || one.Gain > 1:
			return nil, lie("%s: pod %s would help by %v: want 0 to 1", condition, one.UID, one.Gain)
		}
		out = append(out, one)
	}
	return out, nil
}
