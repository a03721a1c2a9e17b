package spec

import (
	"strings"
	"testing"
)

func TestQoSOf(t *testing.T) {
	shared := QoS{Level: QoSShared, Pool: PoolShare}
	said := QoS{Level: QoSShared, Pool: PoolShare, Said: true}
	type words = map[string]string
	for _, row := range []struct {
		name                string
		labels, annotations words
		want                QoS
		wrong               string // a part of the error
	}{
		{"nothing said", nil, nil, shared, ""},
		{"ours", words{LabelQoS: "dedicated_cores"}, words{AnnotationNUMA: "bound"}, QoS{Level: QoSDedicated, NUMA: NUMABound, Said: true}, ""},
		{"ours wins", words{LabelQoS: "reclaimed_cores"}, words{AnnotationKatalystQoS: "dedicated_cores"}, QoS{Level: QoSReclaimed, Said: true}, ""},
		{"Katalyst's level", nil, words{AnnotationKatalystQoS: "system_cores"}, QoS{Level: QoSSystem, Said: true}, ""},
		{
			"Katalyst's binding", nil,
			words{AnnotationKatalystQoS: "dedicated_cores", AnnotationKatalystMemory: `{"numa_binding":"true","numa_exclusive":"true"}`},
			QoS{Level: QoSDedicated, NUMA: NUMAExclusive, Said: true},
			"",
		},
		{"not bound", nil, words{AnnotationKatalystQoS: "dedicated_cores", AnnotationKatalystMemory: `{"numa_binding":"false"}`}, QoS{Level: QoSDedicated, Said: true}, ""},
		{"Katalyst's pool", nil, words{AnnotationKatalystCPU: `{"cpuset_pool":"ads"}`}, QoS{Level: QoSShared, Pool: "ads"}, ""},
		{"a pool", words{LabelQoS: "shared_cores"}, words{AnnotationPool: "ads"}, QoS{Level: QoSShared, Pool: "ads", Said: true}, ""},
		{"loads the memory", words{LabelQoS: "reclaimed_cores"}, words{AnnotationMemoryBandwidth: "intensive"}, QoS{Level: QoSReclaimed, Said: true, Bandwidth: BandwidthIntensive}, ""},
		{
			"suffers, on cores of its own",
			words{LabelQoS: "dedicated_cores"},
			words{AnnotationMemoryBandwidth: "sensitive"},
			QoS{Level: QoSDedicated, Said: true, Bandwidth: BandwidthSensitive},
			"",
		},
		{"suffers anywhere", nil, words{AnnotationMemoryBandwidth: "sensitive"}, shared, AnnotationMemoryBandwidth + ": only a pod of level"},
		{"a system pod that loads the memory", words{LabelQoS: "system_cores"}, words{AnnotationMemoryBandwidth: "intensive"}, said, "kept off no NUMA node"},
		{"unknown bandwidth", nil, words{AnnotationMemoryBandwidth: "heavy"}, shared, AnnotationMemoryBandwidth + `: "heavy": want intensive or sensitive`},
		{"unknown level", words{LabelQoS: "fast"}, nil, shared, LabelQoS + `: "fast" is no QoS level`},
		{"unknown NUMA", words{LabelQoS: "dedicated_cores"}, words{AnnotationNUMA: "yes"}, said, AnnotationNUMA + `: "yes": want bound or exclusive`},
		{"shared and bound", nil, words{AnnotationNUMA: "bound"}, QoS{Level: QoSShared, NUMA: NUMABound, Pool: PoolShare}, ""},
		{
			"shared and bound, in Katalyst's words", nil,
			words{AnnotationKatalystQoS: "shared_cores", AnnotationKatalystMemory: `{"numa_binding":"true"}`},
			QoS{Level: QoSShared, NUMA: NUMABound, Pool: PoolShare, Said: true},
			"",
		},
		{"bound, and in the pool that it runs in", nil, words{AnnotationNUMA: "bound", AnnotationPool: PoolShare}, QoS{Level: QoSShared, NUMA: NUMABound, Pool: PoolShare}, ""},
		{"shared and alone", nil, words{AnnotationNUMA: "exclusive"}, shared, "a pod of level shared_cores has no NUMA node alone"},
		{"bound, and in a pool", nil, words{AnnotationNUMA: "bound", AnnotationPool: "ads"}, shared, `runs in pool share; leave out "ads"`},
		{"NUMA on reclaimed", words{LabelQoS: "reclaimed_cores"}, words{AnnotationNUMA: "bound"}, said, "only pods of level dedicated_cores or shared_cores"},
		{"a pool on reclaimed", words{LabelQoS: "reclaimed_cores"}, words{AnnotationPool: "ads"}, said, "only pods of level shared_cores"},
		{"a reserved pool", nil, words{AnnotationPool: PoolReclaimed}, shared, "neither reclaimed nor system"},
		{"a long pool", nil, words{AnnotationPool: strings.Repeat("x", MaxPoolName+1)}, shared, "at most 63 bytes"},
		{"no strings", words{LabelQoS: "dedicated_cores"}, words{AnnotationKatalystMemory: `{"numa_binding":true}`}, said, AnnotationKatalystMemory},
		{"no object", nil, words{AnnotationKatalystCPU: `ads`}, shared, AnnotationKatalystCPU},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := QoSOf(row.labels, row.annotations)
			if got != row.want {
				t.Errorf("QoS is %+v, want %+v", got, row.want)
			}
			if (err == nil) != (row.wrong == "") || err != nil && !strings.Contains(err.Error(), row.wrong) {
				t.Errorf("error is %v, want one with %q", err, row.wrong)
			}
		})
	}
}
