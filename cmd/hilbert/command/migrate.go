package command

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/migrate"
	"hilbert.dev/hilbert/cmd/hilbert/output"
)

// maxManifest bounds what is read, in bytes: more is no manifest.
const maxManifest = 64 << 20

// yamlOutput is the form of manifests.
const yamlOutput = "yaml"

// migrateFlags are the flags of hilbert migrate.
type migrateFlags struct {
	file, format, podGroups string
	options                 migrate.Options
	strict                  bool
}

func newMigrate() *cobra.Command {
	f := migrateFlags{}
	cmd := &cobra.Command{
		Use:   "migrate -f FILE",
		Short: "Rewrite manifests for Koordinator, Katalyst, Volcano, Kueue, HAMi, YuniKorn or KAI into Hilbert's words",
		Long: `Read manifests that use the labels, annotations, resources and kinds of Koordinator, Katalyst, Volcano, Kueue, HAMi, YuniKorn or KAI, and write them
with Hilbert's. Comments and the order of fields stay. Each word that was found is listed on the error output with what became of it:

  Translated  Hilbert has a word that means the same
  Kept        the word stays, because its system goes on beside Hilbert (Kueue)
  Manual      do something outside the manifest, such as labelling a Namespace
  Invented    Hilbert needs a value that the manifest does not have, and one was chosen
  Lost        Hilbert has nothing that means the same
  Unknown     the word's meaning is not known, or cannot be had: nothing is written, and the command fails

The command asks no cluster and changes nothing.`,
		Example: `  hilbert migrate -f deployment.yaml > for-hilbert.yaml
  kubectl get deployments -A -o yaml | hilbert migrate -f - -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", "the manifest; - is the standard input")
	flags.StringVarP(&f.format, "output", "o", yamlOutput, "yaml, or json: the manifest as a text, with the findings")
	flags.StringVar(&f.options.SchedulerName, "scheduler-name", spec.DefaultSchedulerName, "Hilbert's name in spec.schedulerName of the pods")
	flags.StringVar(&f.podGroups, "pod-groups", string(migrate.UpstreamPodGroups), "the API group of PodGroups: scheduling.k8s.io, or scheduling.x-k8s.io where the API server has none")
	flags.Int64Var(&f.options.GPUMemoryMiB, "gpu-memory", 0, "the MiB of memory that one of the cluster's GPUs has, for words that share GPUs by memory alone")
	flags.BoolVar(&f.strict, "strict", false, "fail if a meaning is lost or a value invented, too")
	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err)
	}
	return cmd
}

func (f *migrateFlags) run(cmd *cobra.Command) error {
	if f.format != yamlOutput && f.format != output.JSON {
		return exitcode.Usagef("migrate: --output %q is not known; write yaml or json", f.format)
	}
	input, err := f.read(cmd.InOrStdin())
	if err != nil {
		return exitcode.BadInputf("migrate: %w", err)
	}
	f.options.PodGroups = migrate.PodGroupAPI(f.podGroups)
	result, err := migrate.Run(input, f.options)
	if err != nil && !errors.Is(err, migrate.ErrUnknownWords) {
		return exitcode.BadInputf("migrate %s: %w", f.file, err)
	}
	failed := f.verdict(result)
	if failed != nil {
		result.Manifest = nil
	}
	if f.format == output.JSON {
		if err := output.WriteJSON(cmd.OutOrStdout(), migrated{result.Findings, string(result.Manifest)}); err != nil {
			return err
		}
		return failed
	}
	for _, finding := range result.Findings {
		fmt.Fprintln(output.Printable(cmd.ErrOrStderr()), finding)
	}
	if failed == nil {
		_, failed = cmd.OutOrStdout().Write(result.Manifest)
	}
	return failed
}

// migrated is what -o json prints.
type migrated struct {
	Findings []migrate.Finding `json:"findings"`
	Manifest string            `json:"manifest,omitempty"`
}

// verdict is the error that the findings make.
func (f *migrateFlags) verdict(r *migrate.Result) error {
	if n := r.Count(migrate.Unknown); n > 0 {
		return exitcode.Negativef("migrate %s: nothing is written; words that are not known: %d", f.file, n)
	}
	if n := r.Count(migrate.Lost) + r.Count(migrate.Invented); n > 0 && f.strict {
		return exitcode.Negativef("migrate %s: nothing is written (--strict); meanings that are lost or invented: %d", f.file, n)
	}
	return nil
}

func (f *migrateFlags) read(stdin io.Reader) ([]byte, error) {
	in := stdin
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err == nil && len(text) > maxManifest {
		err = exitcode.BadInputf("%s has more than %d MiB; divide it", f.file, maxManifest>>20)
	}
	return text, err
}
