package document

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

type inner struct {
	Count int            `json:"count,omitempty"`
	Share float64        `json:"share,omitempty"`
	On    *bool          `json:"active,omitempty"`
	Words []string       `json:"words,omitempty"`
	Named map[string]int `json:"named,omitempty"`
	Lists []inner        `json:"lists,omitempty"`
	Any   any            `json:"any,omitempty"`
	Bytes []byte         `json:"bytes,omitempty"`
}

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"# nothing":                       "",
		"count: 3\nnamed: {a.b: 2}":       "",
		"active: yes":                     "", // YAML 1.1, which sigs.k8s.io/yaml reads
		"any: {x: [1, 2]}":                "",
		"count:":                          "",
		"bytes: aGk=":                     "",
		"a: &x {count: 1}":                `line 1, column 1: unknown field "a"`,
		"cuont: 3":                        `line 1, column 1: unknown field "cuont"; did you mean "count"?`,
		"lists:\n- count: 1\n- shar: 0.1": `line 3, column 3: unknown field "lists[1].shar"; did you mean "share"?`,
		"count: 3.5":                      "line 1, column 8: count: want an integer, not 3.5",
		"active: maybe":                   `line 1, column 9: active: want true or false, not the text "maybe"`,
		"words: x":                        `line 1, column 8: words: want a list, not the text "x"`,
		"words: [x, {y: 1}]":              "line 1, column 12: words[1]: want a text, not an object",
		"named: [1]":                      "line 1, column 8: named: want an object, not a list",
		"named: {a: x}":                   `line 1, column 12: named.a: want an integer, not the text "x"`,
		"named: {a: 1, a: 2}":             `line 1, column 15: "named.a" already set in line 1; leave one out`,
		"- 1":                             "line 1, column 1: want an object with fields, not a list",
		"count: 1\n---\ncount: 2":         "line 2, column 1: a second document begins here, and would be passed over; write one document in a file",
	} {
		var got []string
		d, err := Parse([]byte(text))
		if err != nil {
			got = append(got, err.Error())
		} else {
			for _, p := range d.Check(reflect.TypeFor[inner]()) {
				got = append(got, p.Error())
			}
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestPlace(t *testing.T) {
	d, err := Parse([]byte("a:\n  b.c: 1\n  b:\n  - x: 1\n  - y: {z: 2}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string][3]int{
		"a": {1, 1, 1}, "a.b.c": {2, 3, 1}, "a.b[1]": {5, 5, 1}, "a.b[1].y.z": {5, 9, 1}, "a.b[7].y": {3, 3, 0}, "a.q": {1, 1, 0}, "q": {1, 1, 0},
	} {
		line, column, exact := d.Place(field)
		if line != want[0] || column != want[1] || exact != (want[2] == 1) {
			t.Errorf("%s: line %d, column %d, exact %v; want %v", field, line, column, exact, want)
		}
	}
}

// Check refuses nothing that the strict decoder takes.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"count: 3", "lists: [{active: yes}, {words: [a]}]", "cuont: 3", "a: &x 1\nnamed: {q: *x}", "count: 0x1F", "share: .5", "bytes: aGk=", "<<: {count: 1}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse([]byte(text))
		if err != nil {
			return
		}
		problems := d.Check(reflect.TypeFor[inner]())
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Fatalf("%q: %+v", text, p)
			}
			d.Place(p.Field)
		}
		converted, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			return
		}
		var v inner
		if strict, err := json.UnmarshalStrict(converted, &v); err == nil && len(strict) == 0 && len(problems) > 0 {
			t.Fatalf("%q: the decoder takes it, and Check says: %v", text, problems[0])
		}
	})
}

func TestConfigMapEntries(t *testing.T) {
	text := "kind: Secret\n---\nkind: ConfigMap\ndata:\n  a.yaml: |\n\n      x: 1\n  b.txt: none\n  c.json: '{}'\n"
	entries, ok := ConfigMapEntries([]byte(text))
	if !ok || len(entries) != 2 || entries[0].Name != "a.yaml" || entries[0].Line != 6 || entries[0].Indent != 6 || entries[1].Name != "c.json" {
		t.Errorf("%v, %+v", ok, entries)
	}
	if _, ok := ConfigMapEntries([]byte("kind: HilbertConfiguration")); ok {
		t.Error("it is no ConfigMap")
	}
}
