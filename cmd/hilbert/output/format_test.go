package output

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
)

// farm is an answer of every form.
type farm struct {
	Size    int64    `json:"size"`
	Animals []animal `json:"animals"`
}

type animal struct {
	Name string `json:"name"`
	Legs int    `json:"legs,omitempty"`
}

func (f farm) WriteText(w io.Writer) error { return write(w, "a farm\n") }
func (f farm) WriteWide(w io.Writer) error { return write(w, "a wide farm\n") }
func (f farm) Objects() (list []Object) {
	for _, a := range f.Animals {
		list = append(list, Object{"farm.example", "Animal", a.Name}, Object{Kind: "Pod", Name: a.Name})
	}
	return list
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

func TestFormats(t *testing.T) {
	answer := farm{Size: 8_589_934_592, Animals: []animal{{"cow", 4}, {"eel", 0}}}
	for value, want := range map[string]string{
		"text": "a farm\n",
		"wide": "a wide farm\n",
		"json": "{\n  \"size\": 8589934592,\n  \"animals\": [\n    {\n      \"name\": \"cow\",\n      \"legs\": 4\n    },\n    {\n      \"name\": \"eel\"\n    }\n  ]\n}\n",
		"yaml": "animals:\n- legs: 4\n  name: cow\n- name: eel\nsize: 8589934592\n",
		"name": "animal.farm.example/cow\npod/cow\nanimal.farm.example/eel\npod/eel\n",
		// A large number stays a number, and a field that is not there is empty.
		"jsonpath={.size}":                                       "8589934592",
		"jsonpath={.animals[*].name}":                            "cow eel",
		`jsonpath={range .animals[*]}{.name}={.legs}{"\n"}{end}`: "cow=4\neel=\n",
		`jsonpath={.animals[?(@.legs==4)].name}`:                 "cow",
		"jsonpath={.none.at.all}":                                "",
	} {
		f := flagged(t, value, Wide, Name)
		if err := f.Check("try"); err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		var out bytes.Buffer
		if err := f.Write(&out, answer); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, want %q", value, out.String(), err, want)
		}
	}
}

func flagged(t *testing.T, value string, more ...string) *Format {
	t.Helper()
	f, cmd := &Format{}, &cobra.Command{}
	f.Flag(cmd, more...)
	if err := cmd.Flags().Set("output", value); err != nil {
		t.Fatal(err)
	}
	return f
}

// What a command does not have is refused before anything is asked, with what there is.
func TestFormatsThatAreNone(t *testing.T) {
	for value, want := range map[string]string{
		"wide":               `try: --output "wide" is not known; write text, json, yaml or jsonpath=TEMPLATE`,
		"jsom":               `did you mean "json"?`,
		"":                   "is not known",
		"jsonpath":           "the template is empty",
		"jsonpath=":          "the template is empty",
		"jsonpath={.a":       "unclosed action",
		"go-template={{.a}}": "is not known",
	} {
		err := flagged(t, value).Check("try")
		if err == nil || !strings.Contains(err.Error(), want) || exitcode.Of(err) != exitcode.Usage {
			t.Errorf("%q: %v", value, err)
		}
	}
	f := flagged(t, "jsonpath={.animals[7].name}")
	if err := f.Write(io.Discard, farm{Animals: []animal{{Name: "cow"}}}); err == nil || exitcode.Of(err) != exitcode.Usage || strings.Contains(err.Error(), "map[") {
		t.Errorf("an index that is not there: %v", err)
	}
}
