package artifacts

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

// all makes the long form: every platform, and the second release without the go command's cache.
var all = flag.Bool("all", false, "every platform, and a build cache of its own for the second release")

// testRelease is a release into a new folder.
func testRelease(t *testing.T) *Release {
	t.Helper()
	r := &Release{
		Root: root, Out: filepath.Join(t.TempDir(), "dist"), Version: "v0.1.0", Commit: strings.Repeat("0123456789", 4), Time: time.Unix(1_767_323_045, 0),
		Platforms: []Platform{{"linux", runtime.GOARCH}}, Registry: "registry.example/hilbert", Downloads: "https://example.com/v0.1.0",
	}
	if *all {
		r.Platforms = Platforms
	}
	return r
}

func makeIt(t *testing.T, r *Release) map[string]string {
	t.Helper()
	if err := r.Make(t.Context(), t.Logf); err != nil {
		t.Fatal(err)
	}
	return digests(t, r.Out)
}

func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		out[e.Name()] = hex.EncodeToString(sum[:])
	}
	return out
}

// TestRelease makes a release twice, from two folders, and holds one of them to what it promises. The steps share it, because it takes a minute.
func TestRelease(t *testing.T) {
	first, second := testRelease(t), testRelease(t)
	keys := t.TempDir()
	first.Key = filepath.Join(keys, "secret")
	if err := MakeKey(first.Key, filepath.Join(keys, "public")); err != nil {
		t.Fatal(err)
	}
	second.Root = elsewhere(t)
	if *all {
		second.Cache = t.TempDir()
	}
	sums := makeIt(t, first)
	again := makeIt(t, second)
	t.Run("twice the same", func(t *testing.T) {
		if _, signed := sums[signatureFile]; !signed {
			t.Error("it is not signed")
		}
		for file, sum := range sums {
			if file != signatureFile && again[file] != sum {
				t.Errorf("%s differs: %s, and %q", file, sum, again[file])
			}
		}
		if len(again) != len(sums)-1 {
			t.Errorf("%v, and %v", sums, again)
		}
	})
	t.Run("programs", func(t *testing.T) { checkPrograms(t, first) })
	t.Run("bills of materials", func(t *testing.T) { checkSBOMs(t, first) })
	t.Run("krew", func(t *testing.T) { checkKrew(t, first, sums) })
	t.Run("checksums", func(t *testing.T) { checkSums(t, first, sums, filepath.Join(keys, "public")) })
	t.Run("image and charts", func(t *testing.T) { checkPush(t, first) })
	t.Run("nothing is written over", func(t *testing.T) {
		if err := first.Make(t.Context(), t.Logf); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("got %v", err)
		}
	})
}

// elsewhere is the tree below another path, as another machine would have it.
func elsewhere(t *testing.T) string {
	t.Helper()
	from, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "another", "place")
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if slices.Contains([]string{".git", "bin", "dist", "lab", "docs", "tools", "bench"}, e.Name()) { // no program of a release is made from these
			continue
		}
		if out, err := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(from, e.Name()), to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return to
}

// unpacked reads a file of a release that is a compressed archive.
func unpacked(t *testing.T, r *Release, file string) map[string]member {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.Out, file))
	if err != nil {
		t.Fatal(err)
	}
	members, err := readTarGz(data)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]member)
	for _, m := range members {
		out[m.name] = m
	}
	return out
}

func checkPrograms(t *testing.T, r *Release) {
	own := Platform{runtime.GOOS, runtime.GOARCH}
	for _, program := range []string{tool, daemon} {
		members := unpacked(t, r, r.fileName(&binary{program: program, platform: own}, ".tar.gz"))
		m := members[program]
		if m.mode != 0o755 || len(members["LICENSE"].data) == 0 {
			t.Errorf("%s: mode %o, with %d files", program, m.mode, len(members))
		}
		if bytes.Contains(m.data, []byte("(devel)")) && !bytes.Contains(m.data, []byte(r.Version)) {
			t.Errorf("%s does not know its version", program)
		}
		if from, _ := filepath.Abs(root); bytes.Contains(m.data, []byte(from+"/")) {
			t.Errorf("%s has paths of this machine", program)
		}
		path := filepath.Join(t.TempDir(), program)
		if err := os.WriteFile(path, m.data, 0o755); err != nil {
			t.Fatal(err)
		}
		build, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range build.Settings {
			if s.Key == "CGO_ENABLED" && s.Value != "0" || s.Key == "-ldflags" && strings.Contains(s.Value, "/") && strings.Contains(s.Value, r.Out) {
				t.Errorf("%s was built with %s=%s", program, s.Key, s.Value)
			}
		}
		out, err := exec.CommandContext(t.Context(), path, "--version").Output()
		want := fmt.Sprintf("%s version %s (commit %s, %s, %s)\n", program, r.Version, r.Commit[:12], runtime.Version(), own)
		if err != nil || string(out) != want {
			t.Errorf("%s --version says %q, %v; want %q", program, out, err, want)
		}
	}
}

var spdxIdentifier = regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)

// checkSBOMs holds each bill of materials to the fields that SPDX 2.3 requires, and to the program.
func checkSBOMs(t *testing.T, r *Release) {
	files, err := filepath.Glob(filepath.Join(r.Out, "*.spdx.json"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d spdxDocument
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&d); err != nil {
			t.Fatal(err)
		}
		if d.SPDXVersion != "SPDX-2.3" || d.DataLicense != "CC0-1.0" || d.SPDXID != "SPDXRef-DOCUMENT" || d.Name == "" || !strings.HasPrefix(d.DocumentNamespace, "https://") ||
			strings.Contains(d.DocumentNamespace, "#") || len(d.CreationInfo.Creators) == 0 {
			t.Errorf("%s: %+v", file, d.CreationInfo)
		}
		if _, err := time.Parse(time.RFC3339, d.CreationInfo.Created); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		known := map[string]bool{d.SPDXID: true}
		names := make(map[string]bool)
		for _, p := range d.Packages {
			if !spdxIdentifier.MatchString(p.SPDXID) || known[p.SPDXID] || p.Name == "" || p.VersionInfo == "" || p.DownloadLocation == "" || len(p.ExternalRefs) == 0 {
				t.Errorf("%s: %+v", file, p)
			}
			known[p.SPDXID], names[p.Name] = true, true
		}
		described := 0
		for _, rel := range d.Relationships {
			if !known[rel.Element] || !known[rel.Related] {
				t.Errorf("%s: %+v names what is not there", file, rel)
			}
			if rel.Type == "DESCRIBES" {
				described++
			}
		}
		if described != 1 || !names["k8s.io/client-go"] || !names["go"] || len(d.Relationships) != len(d.Packages) {
			t.Errorf("%s: %d packages, %d relationships", file, len(d.Packages), len(d.Relationships))
		}
	}
}

// checkKrew holds the manifest to the rules of krew: the name is the plugin's, each platform's archive is there with this sum, and has what is copied from it.
func checkKrew(t *testing.T, r *Release, sums map[string]string) {
	data, err := os.ReadFile(filepath.Join(r.Out, krewFile))
	if err != nil {
		t.Fatal(err)
	}
	var p krewPlugin
	if err := yaml.UnmarshalStrict(data, &p); err != nil {
		t.Fatal(err)
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name+".yaml" != krewFile || !semantic.MatchString(p.Spec.Version) ||
		p.Spec.ShortDescription == "" || len(p.Spec.ShortDescription) > 50 || strings.HasSuffix(p.Spec.ShortDescription, ".") {
		t.Errorf("%+v", p)
	}
	tools := 0
	for _, platform := range r.Platforms {
		if runsOn(tool, platform) {
			tools++
		}
	}
	if len(p.Spec.Platforms) != tools {
		t.Errorf("%d platforms, of %d", len(p.Spec.Platforms), tools)
	}
	for _, platform := range p.Spec.Platforms {
		file, found := strings.CutPrefix(platform.URI, r.Downloads+"/")
		if !found || sums[file] != platform.SHA256 || platform.Selector.MatchLabels["os"] == "" || platform.Selector.MatchLabels["arch"] == "" {
			t.Errorf("%+v; the file's sum is %s", platform, sums[file])
			continue
		}
		members := unpacked(t, r, file)
		for _, copied := range platform.Files {
			if _, ok := members[copied.From]; !ok {
				t.Errorf("%s has no %s", file, copied.From)
			}
		}
		if platform.Bin != "kubectl-"+p.Metadata.Name {
			t.Errorf("kubectl does not find %s", platform.Bin)
		}
	}
}

func checkSums(t *testing.T, r *Release, sums map[string]string, public string) {
	text, err := os.ReadFile(filepath.Join(r.Out, sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		sum, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		listed[file] = sum
	}
	for file, sum := range sums {
		if file != sumsFile && file != signatureFile && listed[file] != sum {
			t.Errorf("%s: listed is %q, it is %s", file, listed[file], sum)
		}
	}
	var key minisign.PublicKey
	data, err := os.ReadFile(public)
	if err != nil || key.UnmarshalText(data) != nil {
		t.Fatalf("public key: %v", err)
	}
	signature, err := os.ReadFile(filepath.Join(r.Out, signatureFile))
	if err != nil || !minisign.Verify(key, text, signature) {
		t.Errorf("the signature is not by the key: %v", err)
	}
	if minisign.Verify(key, append(text, '\n'), signature) {
		t.Error("the signature holds for other text")
	}
}

// checkPush pushes to a registry on this host, and pulls.
func checkPush(t *testing.T, r *Release) {
	server := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelError))))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://") + "/team"
	if err := Push(t.Context(), r.Out, at, t.Logf); err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(at + "/hilbertd:v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	linux := 0
	for _, p := range r.Platforms {
		if runsOn(daemon, p) {
			linux++
		}
	}
	if len(manifest.Manifests) != linux {
		t.Errorf("images for %d platforms, want %d", len(manifest.Manifests), linux)
	}
	for _, d := range manifest.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != d.Platform.Architecture || config.OS != "linux" || config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/hilbertd" ||
			config.Config.Labels["org.opencontainers.image.version"] != r.Version || !config.Created.Equal(r.Time) {
			t.Errorf("%+v", config)
		}
		files := tar.NewReader(mutate.Extract(image))
		header, err := files.Next()
		if err != nil || header.Name != "hilbertd" || header.Mode != 0o755 || header.Uid != 0 {
			t.Errorf("%+v, %v", header, err)
		}
		if _, err := files.Next(); err != io.EOF { //nolint:errorlint // archive/tar returns it as it is
			t.Errorf("there is more than one program in it: %v", err)
		}
	}
	for _, chart := range charts {
		checkPushedChart(t.Context(), t, at+"/charts/"+chart+":0.1.0", filepath.Join(r.Out, r.chartFile(chart)))
	}
}

// checkPushedChart compares a chart in a registry with its package.
func checkPushedChart(ctx context.Context, t *testing.T, at, file string) {
	t.Helper()
	reference, err := name.ParseReference(at)
	if err != nil {
		t.Fatal(err)
	}
	chart, err := remote.Image(reference, remote.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := chart.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not %s: %v", at, file, err)
	}
	raw, err := chart.RawConfigFile()
	var meta map[string]any
	if err != nil || json.Unmarshal(raw, &meta) != nil || meta["version"] != "0.1.0" || meta["appVersion"] != "v0.1.0" {
		t.Errorf("%s says %s, %v", at, raw, err)
	}
	manifest, err := chart.Manifest()
	if err != nil || manifest.Config.MediaType != chartConfigType {
		t.Errorf("%+v, %v", manifest, err)
	}
}

// A chart's package has files in place of links, no Go files, and the release's version.
func TestPackChart(t *testing.T) {
	data, err := PackChart(root, "hilbert", "v1.2.3-rc.1", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	members, err := readTarGz(data)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, m := range members {
		found[m.name] = string(m.data)
		if strings.HasSuffix(m.name, ".go") || !strings.HasPrefix(m.name, "hilbert/") {
			t.Errorf("%s is in the chart", m.name)
		}
	}
	rbac, err := os.ReadFile(filepath.Join(root, "deploy", "rbac.yaml"))
	if err != nil || found["hilbert/files/rbac.yaml"] != string(rbac) || found["hilbert/files/policies/binding.yaml"] == "" {
		t.Errorf("what the chart shares with deploy/ is not in it: %v", err)
	}
	if chart := found["hilbert/Chart.yaml"]; !strings.Contains(chart, "\nversion: 1.2.3-rc.1\n") || !strings.Contains(chart, "\nappVersion: v1.2.3-rc.1\n") {
		t.Errorf("Chart.yaml: %s", chart)
	}
}

func TestBadReleases(t *testing.T) {
	for want, spoil := range map[string]func(*Release){
		"semantic":   func(r *Release) { r.Version = "0.1.0" },
		"metadata":   func(r *Release) { r.Version = "v0.1.0+dirty" },
		"(devel)":    func(r *Release) { r.Version = "(devel)" },
		"platforms":  func(r *Release) { r.Platforms = nil },
		"its commit": func(r *Release) { r.Commit = "" },
	} {
		r := testRelease(t)
		spoil(r)
		if err := r.Make(t.Context(), t.Logf); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
