package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

// The words that pods are drawn from.
var (
	levels     = []string{"", "dedicated_cores", "shared_cores", "reclaimed_cores", "system_cores", "gold", "Shared_cores"}
	bandwidths = []string{"", spec.BandwidthIntensive, spec.BandwidthSensitive, "heavy"}
	numas      = []string{"", spec.NUMABound, spec.NUMAExclusive, "both", "Bound", "true"}
	pools      = []string{"", "ads", spec.PoolShare, spec.PoolReclaimed, spec.PoolSystem, "Ads", strings.Repeat("p", 63), strings.Repeat("p", 64), strings.Repeat("ü", 32), "{"}
	jsonKey    = []string{"numa_binding", "numa_exclusive", "cpuset_pool", "NUMA_Binding", "Cpuset_Pool", "rss_overuse_threshold", "", "x", "numa_binding ", "cpu\u017fet_pool"}
	jsonVal    = []string{"true", "false", "True", "", "ads", "system", "reclaimed", "1", "{}", ":", ",", "numa_binding", "ü"}
	wild       = []string{
		"null", "true", "1", `"x"`, "[]", "{", "}", "{}}", "{}x", " ", "{'numa_binding':'true'}", `{numa_binding:"true"}`, `{"numa_binding":true}`,
		`{"numa_binding":"true",}`, `{,"numa_binding":"true"}`, `{"x":1}`, `{"x":null}`, `{"x":{"numa_binding":"true"}}`, `{"numa_\u0062inding":"true"}`,
		`{"numa_binding":"\u0074rue"}`, `{"x":"\"numa_binding\":\"true\""}`, "{\"a\n\":\"b\"}", "{\f}", `{"cpuset_pool":"\u0073ystem"}`, `{"cpuset_pool":["ads"]}`,
		`{"cpuset_pool":null}`, `{"a":"b" "c":"d"}`, `{"a":"b";"c":"d"}`, `{"a"}`, `{"a":}`, "numa_binding=true", `{"a":"b"}{"a":"b"}`, "\ufeff{}",
	}
	spaces = []string{"", "", "", " ", "\t", "\r\n"}
)

// drawObject draws a flat JSON object of strings, some with a key twice.
func drawObject(t *rapid.T) string {
	space := func() string { return rapid.SampledFrom(spaces).Draw(t, "space") }
	var members []string
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		key, value := rapid.SampledFrom(jsonKey).Draw(t, "key"), rapid.SampledFrom(jsonVal).Draw(t, "value")
		members = append(members, space()+`"`+key+`"`+space()+":"+space()+`"`+value+`"`+space())
	}
	return space() + "{" + space() + strings.Join(members, ",") + "}" + space()
}

func drawText(t *rapid.T) string {
	switch rapid.IntRange(0, 3).Draw(t, "text") {
	case 0:
		return rapid.SampledFrom(wild).Draw(t, "wild")
	case 1:
		return ""
	}
	return drawObject(t)
}

// flat tells whether a text is what Katalyst takes, a flat object of strings, and has nothing escaped.
func flat(text string) bool {
	if text == "" {
		return true
	}
	var members map[string]any
	if json.Unmarshal([]byte(text), &members) != nil || members == nil || strings.Contains(text, `\`) {
		return false
	}
	for _, v := range members {
		if _, ok := v.(string); !ok {
			return false
		}
	}
	return true
}

// said is a pod's words; "" stands for none, or for an empty value.
type said struct {
	Level, NUMA, Pool, Bandwidth, KatalystLevel, KatalystCPU, KatalystMemory string
	Empty                                                                    bool
}

func (s said) parts() []part {
	var out []part
	if s.Level != "" || s.Empty {
		out = append(out, label(spec.LabelQoS, s.Level))
	}
	for _, word := range [][2]string{
		{spec.AnnotationNUMA, s.NUMA},
		{spec.AnnotationPool, s.Pool},
		{spec.AnnotationMemoryBandwidth, s.Bandwidth},
		{spec.AnnotationKatalystQoS, s.KatalystLevel},
		{spec.AnnotationKatalystCPU, s.KatalystCPU},
		{spec.AnnotationKatalystMemory, s.KatalystMemory},
	} {
		if word[1] != "" || s.Empty {
			out = append(out, annotation(word[0], word[1]))
		}
	}
	return out
}

// judge holds the door to spec.QoSOf: it takes what is read without an error, and refuses the rest. It is stricter where Katalyst's JSON is
// more than a flat object of strings, and never more lenient. In a namespace that allows nothing it must also have read the same level.
func (s said) judge(t interface{ Fatalf(string, ...any) }, p func(namespace string, parts ...part) error) {
	probe := pod("new", s.parts()...)
	qos, want := spec.QoSOf(probe.Labels, probe.Annotations)
	strict := (s.Pool != "" || flat(s.KatalystCPU)) && (s.NUMA != "" || flat(s.KatalystMemory))
	got := p(both, s.parts()...)
	if got != nil {
		if err := verdict(got, "hilbert"); err != nil && !strings.Contains(got.Error(), "katalyst") {
			t.Fatalf("%+v: %v", s, err)
		}
	}
	switch {
	case want != nil && got == nil:
		t.Fatalf("%+v: taken, but the node refuses it: %v", s, want)
	case want == nil && got != nil && strict:
		t.Fatalf("%+v: refused, but the node understands it: %v", s, got)
	case want != nil:
		if key, _, _ := strings.Cut(want.Error(), ":"); strict && !strings.Contains(got.Error(), key) {
			t.Fatalf("%+v: the node names %s, the door says %v", s, key, got)
		}
		return
	case got != nil:
		return
	}
	free := qos.Level == spec.QoSShared || qos.Level == spec.QoSReclaimed
	if err := p(plain, s.parts()...); (err == nil) != free {
		t.Fatalf("%+v is %s; in a namespace that allows nothing: %v", s, qos.Level, err)
	}
}

// TestSameVerdict: whatever a pod says, the door and the node agree.
func TestSameVerdict(t *testing.T) {
	send := func(namespace string, parts ...part) error {
		return dryCreate(t.Context(), owner, namespace, pod("new", parts...))
	}
	for _, text := range wild {
		said{KatalystLevel: string(spec.QoSDedicated), KatalystMemory: text}.judge(t, send)
		said{KatalystCPU: text}.judge(t, send)
	}
	for _, level := range levels {
		for _, numa := range numas {
			for _, bandwidth := range bandwidths {
				said{Level: level, NUMA: numa, Bandwidth: bandwidth}.judge(t, send)
			}
			for _, pool := range pools {
				said{Level: level, NUMA: numa, Pool: pool}.judge(t, send)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 10 { // pods in each draw; a request is a millisecond
			s := said{
				Level: rapid.SampledFrom(levels).Draw(t, "level"), KatalystLevel: rapid.SampledFrom(levels).Draw(t, "Katalyst's level"),
				KatalystCPU: drawText(t), KatalystMemory: drawText(t), Empty: rapid.Bool().Draw(t, "empty"),
			}
			if rapid.IntRange(0, 2).Draw(t, "ours") == 0 {
				s.NUMA, s.Pool = rapid.SampledFrom(numas).Draw(t, "numa"), rapid.SampledFrom(pools).Draw(t, "pool")
			}
			s.judge(t, send)
		}
	})
}
