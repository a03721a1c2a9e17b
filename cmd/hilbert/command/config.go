package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/document"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
)

// maxConfigInput bounds what config validate reads, in bytes: a ConfigMap is no larger.
const maxConfigInput = 2 << 20

func newConfig() *cobra.Command {
	config := &cobra.Command{Use: "config", Short: "Check configuration files of hilbertd, and NodeConfigurations"}
	config.AddCommand(newConfigValidate())
	return config
}

func newConfigValidate() *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration file of hilbertd, a ConfigMap that holds one, or a NodeConfiguration, as hilbertd itself would",
		Long: `Read a configuration file as hilbertd does, and tell every mistake with its line, column and field, and the word that was probably meant. The file is a
HilbertConfiguration, for the scheduler, an agent or a watchdog; a ConfigMap, as the chart and deploy/ have them: then each of its entries that ends in .yaml,
.yml or .json is read, and lines count from the beginning of the file; or a NodeConfiguration, whose parameters are checked over an agent's defaults.
FILE may be - for the standard input.

A field that does nothing, because of what another field says, is a warning and no mistake: a NodeConfiguration may bring what a file lacks, and the other way round.

The command asks no cluster: whether a certificate, a kubeconfig or a node that the file names exists is not checked. It ends with 3 if there is a mistake.`,
		Example: `  hilbert config validate hilbertd.yaml
  helm template hilbert deploy/charts/hilbert --show-only templates/config.yaml | hilbert config validate -
  hilbert config validate hilbertd.yaml -o json
  hilbert config validate examples/nodeconfiguration.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.Check("config validate"); err != nil {
				return err
			}
			data, err := readInput(cmd.InOrStdin(), args[0], maxConfigInput)
			if err != nil {
				return exitcode.BadInputf("config validate: %w", err)
			}
			v := validateConfig(args[0], data)
			if err := format.Write(cmd.OutOrStdout(), v); err != nil {
				return err
			}
			if n := len(v.Problems); n > 0 {
				return exitcode.BadInputf("config validate: %s: mistakes: %d", args[0], n)
			}
			return nil
		},
	}
	format.Flag(cmd)
	return cmd
}

// readInput reads a file, or the standard input for "-", if it is not too large.
func readInput(stdin io.Reader, name string, most int64) ([]byte, error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	return document.ReadAtMost(in, name, most)
}

// configVerdict is what is wrong with a file.
type configVerdict struct {
	File  string `json:"file"`
	Valid bool   `json:"valid"`
	// Roles are what a process with this file runs, or which nodes' agents it is for, by the entry of the ConfigMap where there is one.
	Roles    []string        `json:"roles,omitempty"`
	Problems []configProblem `json:"problems,omitempty"`
	// Warnings are fields that do nothing, because of what other fields say.
	Warnings []configProblem `json:"warnings,omitempty"`
}

type configProblem struct {
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// WriteText writes a line for each mistake, in the form that editors jump to.
func (v *configVerdict) WriteText(w io.Writer) error {
	var text strings.Builder
	line := func(p *configProblem, what string) {
		text.WriteString(v.File + ":")
		if p.Line > 0 {
			fmt.Fprintf(&text, "%d:%d:", p.Line, p.Column)
		}
		text.WriteString(" " + what + p.Message + "\n")
	}
	for i := range v.Problems {
		line(&v.Problems[i], "")
	}
	for i := range v.Warnings {
		line(&v.Warnings[i], "warning: ")
	}
	if v.Valid {
		fmt.Fprintf(&text, "%s: valid, for %s\n", v.File, strings.Join(v.Roles, "; "))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func validateConfig(file string, data []byte) *configVerdict {
	v := &configVerdict{File: file}
	if entries, ok := document.ConfigMapEntries(data); !ok {
		v.add("", data, 0, 0)
	} else {
		for _, e := range entries {
			v.add(e.Name+": ", []byte(e.Text), e.Line-1, e.Indent)
		}
		if len(entries) == 0 {
			v.Problems = append(v.Problems, configProblem{Message: "the ConfigMap has no entry that ends in .yaml, .yml or .json"})
		}
	}
	v.Valid = len(v.Problems) == 0
	return v
}

// add checks one configuration, which begins after some lines and columns of the file.
func (v *configVerdict) add(entry string, text []byte, lines, columns int) {
	about, warnings, err := checkConfig(text)
	if err == nil {
		v.Roles = append(v.Roles, entry+about)
		for _, w := range warnings {
			v.Warnings = append(v.Warnings, located(entry, w, lines, columns))
		}
		return
	}
	var mistakes *configfile.Mistakes
	var one *document.Problem
	switch {
	case errors.As(err, &mistakes):
		for _, p := range mistakes.Problems {
			v.Problems = append(v.Problems, located(entry, p, lines, columns))
		}
	case errors.As(err, &one):
		v.Problems = append(v.Problems, located(entry, one, lines, columns))
	default:
		v.Problems = append(v.Problems, configProblem{Message: entry + err.Error()})
	}
}

// checkConfig checks a configuration, and says whom it is for and what of it does nothing.
func checkConfig(text []byte) (about string, warnings []*document.Problem, err error) {
	if configfile.IsNodeConfiguration(text) {
		c, err := configfile.ParseNodeConfiguration(text)
		if err != nil {
			return "", nil, err
		}
		return "agents: " + targets(&c.Spec), configfile.NodeWarnings(text, c), nil
	}
	c, err := configfile.Parse(text)
	if err != nil {
		return "", nil, err
	}
	return roleList(c.Roles), configfile.Warnings(text, c), nil
}

// targets says which nodes a NodeConfiguration targets.
func targets(c *spec.NodeConfiguration) string {
	switch {
	case len(c.NodeNames) > 0:
		return fmt.Sprintf("nodes by name, %d", len(c.NodeNames))
	case c.NodeSelector != nil:
		return "nodes by label"
	}
	return "all nodes"
}

// located is a problem of an entry, with its place in the whole file.
func located(entry string, p *document.Problem, lines, columns int) configProblem {
	return configProblem{p.Line + lines, p.Column + columns, p.Field, entry + p.Message}
}

func roleList(roles []spec.Role) string {
	words := make([]string, len(roles))
	for i, role := range roles {
		words[i] = string(role)
	}
	return strings.Join(words, ", ")
}
