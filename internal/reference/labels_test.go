package reference_test

import (
	"fmt"
	"strings"
	"testing"

	. "hilbert.dev/hilbert/internal/reference"
)

// kinds are the parts of labels.md: constants of api/spec by the prefix of their names.
var kinds = []struct{ prefix, title, column string }{
	{"Label", "Labels", "label"},
	{"Annotation", "Annotations", "annotation"},
	{"Resource", "Resources", "resource"},
	{"Condition", "Conditions", "condition"},
	{"Reason", "Reasons", "reason"},
}

// TestReferenceLabels holds labels.md: every label, annotation, resource, condition and reason that api/spec names.
func TestReferenceLabels(t *testing.T) {
	source := Read(t, "api/spec")
	var page strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&page, "## %s\n\n", kind.title)
		var alone strings.Builder // constants that are declared alone
		for _, group := range source.Groups {
			var rows strings.Builder
			for _, c := range group.Consts {
				if !strings.HasPrefix(c.Name, kind.prefix) {
					continue
				}
				if c.Doc == "" && len(group.Consts) == 1 {
					c.Doc = group.Doc
				}
				if c.Doc == "" {
					t.Errorf("api/spec: %s has no comment of its own", c.Name)
				}
				rows.WriteString(Row(Code(c.Value), source.Prose(c.Name, c.Doc, nil)))
			}
			switch {
			case rows.Len() == 0:
			case len(group.Consts) == 1:
				alone.WriteString(rows.String())
			default:
				page.WriteString(source.Prose("", group.Doc, nil) + "\n\n" + Table(kind.column, "meaning") + rows.String() + "\n")
			}
		}
		if alone.Len() > 0 {
			page.WriteString("Others.\n\n" + Table(kind.column, "meaning") + alone.String() + "\n")
		}
	}
	Hold(t, "labels.md", "Labels, annotations, resources, conditions and reasons", page.String())
}
