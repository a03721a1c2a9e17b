package spec

import (
	"strings"
	"testing"
)

func TestConsent(t *testing.T) {
	for _, c := range []struct {
		annotations string
		want        Consent
	}{
		{"", ConsentUnsaid},
		{AnnotationEvict + "=true", ConsentAllowed},
		{AnnotationEvict + "=", ConsentAllowed},
		{AnnotationPreferNoEviction + "=true", ConsentReluctant},
		{AnnotationSafeToEvict + "=true", ConsentAllowed},
		{AnnotationSafeToEvict + "=false", ConsentRefused},
		{AnnotationSafeToEvict + "=no", ConsentRefused},
		{AnnotationDoNotDisrupt + "=true", ConsentRefused},
		{AnnotationDoNotDisrupt + "=maybe", ConsentRefused},
		{AnnotationDoNotDisrupt + "=false", ConsentUnsaid},
		{AnnotationDoNotDisrupt + "=true " + AnnotationEvict + "=true", ConsentRefused},
		{AnnotationSafeToEvict + "=true " + AnnotationPreferNoEviction + "=true", ConsentReluctant},
	} {
		m := make(map[string]string)
		for field := range strings.FieldsSeq(c.annotations) {
			key, value, _ := strings.Cut(field, "=")
			m[key] = value
		}
		if got := ConsentOf(m, true); got != c.want {
			t.Errorf("%q: %v, want %v", c.annotations, got, c.want)
		}
		if got := ConsentOf(m, false); got != ConsentUnreplaced && (got != ConsentRefused || c.want != ConsentRefused) {
			t.Errorf("%q, without a controller: %v", c.annotations, got)
		}
	}
}
