package advise

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// What the configuration accepts, the laws can work with: a node's agent must not refuse what the API server and the controller let through. Each number in turn is set to
// its ends, to what lies beyond, and to something between.
func TestConfigurationIsWithinBounds(t *testing.T) {
	values := []float64{-1, 0, 0.04, 0.05, 0.5, 1, 1.5, 10, 101, 1024, 1025, 1e6, 1e10}
	random := rand.New(rand.NewPCG(1, 2))
	tried, accepted := 0, 0
	var each func(v reflect.Value, check func())
	each = func(v reflect.Value, check func()) {
		for _, f := range v.Fields() {
			if f.Kind() == reflect.Struct {
				each(f, check)
				continue
			}
			before := reflect.ValueOf(f.Interface())
			for _, value := range append(values, random.Float64(), random.Float64()*100) {
				switch {
				case f.Type() == reflect.TypeFor[spec.Duration]():
					f.SetInt(int64(value * float64(time.Second)))
				case f.CanInt():
					f.SetInt(int64(value))
				case f.CanFloat():
					f.SetFloat(value)
				}
				check()
			}
			f.Set(before)
		}
	}
	n := spec.Default().Node
	check := func() {
		tried++
		p := ParamsOf(&n)
		refused := p.Validate()
		if spec.CheckNode(&n) == nil {
			accepted++
			if refused != nil {
				t.Errorf("the configuration is accepted, and the law refuses it: %v", refused)
			}
		}
	}
	each(reflect.ValueOf(&n.CPU).Elem(), check)
	if accepted < tried/10 || accepted == tried {
		t.Errorf("%d of %d were accepted", accepted, tried)
	}
}
