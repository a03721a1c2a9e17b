package wordcount

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/requests/master"
)

// IndexField is the field of a worker's pod that says which part is its own.
const IndexField = "metadata.annotations['" + spec.AnnotationAskIndex + "']"

// Split cuts a text into n parts of whole words.
func Split(text string, n int) []string {
	words := strings.Fields(text)
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.Join(words[i*len(words)/n:(i+1)*len(words)/n], " ")
	}
	return parts
}

// Count is what a worker does: the counts of a part's words, as it leaves them. A termination message holds 4096 bytes, some 300 words.
func Count(part string) (string, error) {
	counts := make(map[string]int)
	for _, word := range strings.Fields(part) {
		counts[strings.ToLower(word)]++
	}
	text, err := json.Marshal(counts)
	return string(text), err
}

// Master counts the words of parts.
type Master struct {
	Client   *master.Client
	Template corev1.PodTemplateSpec
	Parts    int
	// Again counts the parts that were asked for again, since their results were gone.
	Again int
}

// firstAsk has all parts; againAsk with a number those whose results were lost.
const (
	firstAsk = "parts"
	againAsk = "again-"
)

// Run returns the counts of all words. After ctx has ended it can be run again, by another process too.
func (m *Master) Run(ctx context.Context) (map[string]int, error) {
	if _, err := m.Client.Open(ctx, &v1alpha1.ResourceRequestSpec{
		Template: m.Template, Asks: []v1alpha1.ResourceAsk{{Name: firstAsk, Count: int32(m.Parts)}},
	}); err != nil {
		return nil, err
	}
	results := make(map[int32]map[string]int)
	err := m.Client.Watch(ctx, func(r *v1alpha1.ResourceRequest) (done bool, err error) {
		lost, err := m.collect(ctx, r, results)
		if err == nil && len(lost) > 0 {
			err = m.again(ctx, r, lost)
		}
		return len(results) == m.Parts, err
	})
	if err != nil {
		return nil, err
	}
	total := make(map[string]int)
	for _, counts := range results {
		for word, n := range counts {
			total[word] += n
		}
	}
	return total, m.Client.Close(ctx)
}

// collect reads the results that are there, and returns the parts that will have none: their pods are gone, or failed for good.
func (m *Master) collect(ctx context.Context, r *v1alpha1.ResourceRequest, results map[int32]map[string]int) (lost []int32, err error) {
	for i := range r.Status.Allocations {
		a := &r.Status.Allocations[i]
		if results[a.Index] != nil || a.State != "Succeeded" {
			continue
		}
		text, there, err := m.Client.Message(ctx, a)
		if err != nil {
			return nil, err
		}
		counts := make(map[string]int)
		if there && json.Unmarshal([]byte(text), &counts) == nil {
			results[a.Index] = counts
		}
	}
	return lostOf(r, results), nil
}

// lostOf are the parts whose containers have all ended, without a result.
func lostOf(r *v1alpha1.ResourceRequest, results map[int32]map[string]int) []int32 {
	ended, asked := make(map[int32]int), make(map[int32]int)
	for i := range r.Spec.Asks {
		for index := range r.Spec.Asks[i].Count {
			if !slices.Contains(r.Spec.Asks[i].Release, index) {
				asked[index]++
			}
		}
	}
	for i := range r.Status.Allocations {
		if a := &r.Status.Allocations[i]; a.State == "Succeeded" || a.State == "Failed" {
			ended[a.Index]++
		}
	}
	var lost []int32
	for _, index := range slices.Sorted(maps.Keys(asked)) {
		if results[index] == nil && ended[index] == asked[index] {
			lost = append(lost, index)
		}
	}
	return lost
}

// again asks for parts once more: an ask of all parts of which all others are given back at once.
func (m *Master) again(ctx context.Context, r *v1alpha1.ResourceRequest, lost []int32) error {
	ask := v1alpha1.ResourceAsk{Name: fmt.Sprint(againAsk, len(r.Spec.Asks)), Count: int32(m.Parts)}
	for index := range ask.Count {
		if !slices.Contains(lost, index) {
			ask.Release = append(ask.Release, index)
		}
	}
	m.Again += len(lost)
	return m.Client.Ask(ctx, &ask)
}
