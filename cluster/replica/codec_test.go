package replica

import (
	"encoding"
	"reflect"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
)

// Every field of what goes over the wire is written: none is unexported, unless the type writes itself.
func TestAllFieldsAreWritten(t *testing.T) {
	seen := make(map[reflect.Type]bool)
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		if seen[of] {
			return
		}
		seen[of] = true
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			visit(of.Elem())
		case reflect.Map:
			visit(of.Key())
			visit(of.Elem())
		case reflect.Struct:
			if reflect.PointerTo(of).Implements(reflect.TypeFor[encoding.BinaryMarshaler]()) {
				return
			}
			for field := range of.Fields() {
				if !field.IsExported() && field.Name != "_" {
					t.Errorf("%v.%s is not written", of, field.Name)
				}
				visit(field.Type)
			}
		case reflect.Interface, reflect.Func, reflect.Chan:
			t.Errorf("%v cannot be read", of)
		default:
		}
	}
	visit(reflect.TypeFor[Delta]())
	visit(reflect.TypeFor[Pod]())
	if len(seen) < 30 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// A field more, or another type, is another schema.
func TestSchema(t *testing.T) {
	type inner struct{ A int }
	type one struct{ In []inner }
	type other struct{ In []*inner }
	if a, b := Schema(Delta{}, Pod{}), Schema(Delta{}, Pod{}); a != b {
		t.Errorf("%s and %s", a, b)
	}
	seen := map[string]bool{Schema(Delta{}): true, Schema(Pod{}): true, Schema(one{}): true, Schema(other{}): true}
	if len(seen) != 4 {
		t.Errorf("%d of 4 differ", len(seen))
	}
}

// Required tells no terms from an empty list of them: the first asks for nothing, the second matches nothing.
func TestNilAndEmptyStayApart(t *testing.T) {
	codec, err := NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []*facts.Requirements{{}, {Required: []facts.Term{}}} {
		text, err := codec.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got := &facts.Requirements{}
		if err := codec.Decode(text, got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}
