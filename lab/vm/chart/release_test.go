package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// root is the project's directory.
const root = "../../.."

// release is a release of the tree, in a directory.
type release struct{ version, dir string }

// make builds a release for the guest. Its commit and time only name it.
func makeRelease(t *testing.T, version string) release {
	t.Helper()
	r := release{version, filepath.Join(t.TempDir(), version)}
	at, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	run(t, "go", "-C", filepath.Join(root, "tools", "release"), "run", ".", "make", "-root", at, "-out", r.dir, "-version", version,
		"-commit", strings.Repeat("0", 40), "-time", "1735689600", "-platforms", "linux/amd64")
	return r
}

// file is the path of one of its files.
func (r release) file(name string) string { return filepath.Join(r.dir, name) }

// chart is the path of one of its charts.
func (r release) chart(name string) string {
	return r.file(name + "-" + strings.TrimPrefix(r.version, "v") + ".tgz")
}

// command unpacks the command hilbert, and returns its path.
func (r release) command(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(r.file("hilbert_" + r.version + "_linux_amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if err != nil {
			t.Fatalf("no hilbert in the release's archive: %v", err)
		}
		if filepath.Base(header.Name) != "hilbert" || header.Typeflag != tar.TypeReg {
			continue
		}
		program, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(r.dir, "hilbert")
		if err := os.WriteFile(path, program, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// load brings its image into the store of the guest's containerd.
func (r *rig) load(release release) {
	r.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	file, err := os.Open(release.file("hilbertd_" + release.version + "_oci.tar"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	const path = "/run/image.tar"
	r.must(r.Guest.WriteFile(ctx, path, file, 0o644))
	if said, err := r.Guest.Shell(ctx, "ctr --address /run/containerd/containerd.sock --namespace k8s.io images import --local "+path+" && rm "+path); err != nil {
		r.t.Fatalf("%v: %s", err, said)
	}
	r.t.Logf("%s is in the store after %.0f s", release.version, time.Since(begin).Seconds())
}

// run runs a program of the host, and returns what it said.
func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := try(t.Context(), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(ctx context.Context, argv ...string) (string, error) {
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s%s", strings.Join(argv, " "), err, out.String(), problems.String())
	}
	return out.String(), nil
}

// helm runs helm itself, at the version that the charts are tested with.
func (r *rig) helm(args ...string) {
	r.t.Helper()
	begin := time.Now()
	args = append(args, "--kubeconfig", r.kubeconfig, "--namespace", namespace, "--timeout", "15m")
	if out, err := try(r.t.Context(), append([]string{r.helmProgram}, args...)...); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	r.t.Logf("helm %s: %.0f s", strings.Join(args[:2], " "), time.Since(begin).Seconds())
}
