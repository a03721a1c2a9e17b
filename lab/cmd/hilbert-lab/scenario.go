package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	story "hilbert.dev/hilbert/internal/scenario"
	"hilbert.dev/hilbert/lab/scenario"
)

// maxStory bounds a scenario file, in bytes: it is written by people.
const maxStory = 4 << 20

func newScenarioCommand() *cobra.Command {
	var log string
	command := &cobra.Command{
		Use:   "scenario FILE...",
		Short: "Play scenario files on a real API server, and compare what happens with what they say",
		Long: `Play scenario files (sim/testdata/scenarios/*.scn) on a real API server with hollow nodes and a hilbertd, and print each with what
happened. "hilbert sim --scenario" plays the same files on a virtual clock; both must print the same.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			said := io.Discard
			if log != "" {
				file, err := os.Create(log)
				if err != nil {
					return fmt.Errorf("--log: %w", err)
				}
				defer func() { _ = file.Close() }()
				said = file
			}
			return playStories(command.Context(), command.OutOrStdout(), said, args)
		},
	}
	command.Flags().StringVar(&log, "log", "", "file for the log of hilbertd (default: none)")
	return command
}

// playStories plays one file after the other on one control plane. It goes on after one that went another way.
func playStories(ctx context.Context, out, log io.Writer, paths []string) (err error) {
	stage, err := scenario.NewStage(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close(ctx)) }()
	var wrong error
	for _, path := range paths {
		wrong = errors.Join(wrong, playStory(ctx, out, stage, path))
	}
	return wrong
}

func playStory(ctx context.Context, out io.Writer, stage *scenario.Stage, path string) error {
	text, err := readStory(path)
	if err != nil {
		return fmt.Errorf("read the scenario: %w", err)
	}
	file, err := story.Parse(filepath.Base(path), text)
	if err != nil {
		return err
	}
	header, err := scenario.ReadHeader(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if header.SimOnly != "" {
		fmt.Fprintf(out, "# %s is for the simulator only: %s\n", path, header.SimOnly)
		return nil
	}
	printed, err := stage.Play(ctx, file, header)
	fmt.Fprint(out, file.Format(printed))
	if err != nil {
		return fmt.Errorf("play %s: %w", path, err)
	}
	if why := file.Differs(printed); why != "" {
		return fmt.Errorf("%s went another way: %s", path, why)
	}
	return nil
}

func readStory(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > maxStory {
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxStory)
	}
	text, err := os.ReadFile(path)
	return string(text), err
}
