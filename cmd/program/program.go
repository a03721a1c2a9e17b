// Package program runs the command line of hilbert and hilbertd alike: it executes the command, prints its error with what was probably meant, and says which code the
// process ends with.
//
// Data flow: Prepare marks which commands began to run; Run executes, prints "NAME: error" and returns exitcode.Of the error. What fails before a command runs, such as
// an unknown flag, is a mistake in the arguments (exitcode.Usage). For example, "hilbert queue --ouput json" ends with 2 and asks whether --output was meant.
//
// Invariants: the error is printed once, on the error output, with control characters written out; a command that only holds others refuses a word that it does not know,
// instead of printing its help and ending as if all were well.
//
// It holds no command of its own.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/internal/nearest"
)

// Run executes a command, prints its error to stderr, and returns the code to end with.
func Run(ctx context.Context, root *cobra.Command, stderr io.Writer) exitcode.Code {
	began := prepare(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitcode.OK
	}
	if !*began {
		err = exitcode.Mark(exitcode.Usage, fmt.Errorf("%w; see %s --help", err, root.Name()))
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	return exitcode.Of(err)
}

// prepare has every command say when it begins, and every flag that is not known be told with the one that was probably meant.
func prepare(root *cobra.Command) (began *bool) {
	began = new(bool)
	root.SetFlagErrorFunc(flagError)
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if run := c.RunE; run != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				*began = true
				return run(cmd, args)
			}
		}
		if !c.Runnable() && c.HasSubCommands() {
			c.Args = cobra.ArbitraryArgs
			c.RunE = group
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	return began
}

// group is what a command does that only holds others.
func group(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	hint := nearest.Hint(args[0], known)
	if hint == "" {
		hint = "; write " + strings.Join(known, ", ")
	}
	return exitcode.Usagef("unknown command %q for %q%s", args[0], c.CommandPath(), hint)
}

func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var known []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	}
	c.Flags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	if near := nearest.Word(unknown.GetSpecifiedName(), known); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}
