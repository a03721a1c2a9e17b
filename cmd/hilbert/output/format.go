package output

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/internal/nearest"
)

// What --output names in some commands only.
const (
	// Wide is Text with more columns, for answers that have WriteWide.
	Wide = "wide"
	// Name is a line for each object, such as pod/web-0, for answers that have Objects.
	Name = "name"
)

// jsonPath begins the value that asks for the parts of an answer that a template of kubectl's names.
const jsonPath = "jsonpath"

// Answer is what a command prints; its JSON is that of the value itself.
type Answer interface{ WriteText(w io.Writer) error }

// Object is an object of the cluster that an answer is about.
type Object struct{ Group, Kind, Name string }

type (
	wideAnswer   interface{ WriteWide(w io.Writer) error }
	objectAnswer interface{ Objects() []Object }
)

// Format is the flag --output of one command.
type Format struct {
	value string
	words []string
}

// Flag adds --output with its completion. more are the formats that the command's answers have beside text, JSON, YAML and JSONPath.
func (f *Format) Flag(cmd *cobra.Command, more ...string) {
	f.words = append([]string{Text, JSON, YAML}, more...)
	cmd.Flags().StringVarP(&f.value, "output", "o", Text, f.known())
	offers := append(slices.Clone(f.words), jsonPath+"=")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(offers, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)) // the flag is there
}

// known lists the formats as a sentence does.
func (f *Format) known() string {
	return strings.Join(f.words, ", ") + " or " + jsonPath + "=TEMPLATE"
}

// Check refuses a value that is no format of the command, before anything is asked.
func (f *Format) Check(command string) error {
	if slices.Contains(f.words, f.value) {
		return nil
	}
	if name, _, _ := strings.Cut(f.value, "="); name != jsonPath {
		return exitcode.Usagef("%s: --output %q is not known; write %s%s", command, f.value, f.known(), nearest.Hint(f.value, f.words))
	}
	if _, err := f.template(); err != nil {
		return exitcode.Usagef("%s: --output %q: %w; write for example jsonpath='{.queues[*].name}'", command, f.value, err)
	}
	return nil
}

// template reads the template of jsonpath=TEMPLATE. As in kubectl, a field that is not there is empty.
func (f *Format) template() (*printers.JSONPathPrinter, error) {
	_, text, _ := strings.Cut(f.value, "=")
	if text == "" {
		return nil, errors.New("the template is empty")
	}
	p, err := printers.NewJSONPathPrinter(text)
	if err != nil {
		return nil, err
	}
	p.AllowMissingKeys(true)
	return p, nil
}

// Write prints an answer in the format that Check has accepted.
func (f *Format) Write(w io.Writer, a Answer) error {
	switch f.value {
	case Text:
		return a.WriteText(w)
	case JSON:
		return WriteJSON(w, a)
	case YAML:
		return WriteYAML(w, a)
	case Wide:
		if wide, ok := a.(wideAnswer); ok {
			return wide.WriteWide(w)
		}
		return a.WriteText(w)
	case Name:
		if of, ok := a.(objectAnswer); ok {
			return writeNames(w, of.Objects())
		}
		return nil
	}
	return f.writePath(w, a)
}

// writeNames writes what kubectl takes as the name of an object.
func writeNames(w io.Writer, objects []Object) error {
	p := printers.NamePrinter{ShortOutput: true}
	for _, o := range objects {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: o.Group, Version: "v1", Kind: o.Kind}) // the version is not printed
		u.SetName(o.Name)
		if err := p.PrintObj(u, w); err != nil {
			return err
		}
	}
	return nil
}

// writePath prints the parts of the answer's JSON that the template names. Whole numbers stay whole.
func (f *Format) writePath(w io.Writer, a Answer) error {
	template, err := f.template()
	if err != nil {
		return err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	var answer any
	if err := kubejson.Unmarshal(text, &answer); err != nil {
		return err
	}
	if err := template.Execute(w, answer); err != nil {
		return exitcode.Usagef("--output %q: %w", f.value, err)
	}
	return nil
}
