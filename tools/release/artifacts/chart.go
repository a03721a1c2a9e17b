package artifacts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// charts are the charts of a release, folders of deploy/charts.
var charts = []string{"hilbert-crds", "hilbert"}

// chartFile is the name of a packaged chart. Charts have versions without a leading v.
func (r *Release) chartFile(name string) string {
	return name + "-" + strings.TrimPrefix(r.Version, "v") + ".tgz"
}

// writeChart writes a chart's package.
func (r *Release) writeChart(name string) error {
	data, err := PackChart(r.Root, name, r.Version, r.Time)
	if err != nil {
		return err
	}
	return r.create(r.chartFile(name), data)
}

// PackChart packs a chart of the tree below root as helm package would, but as of the given time: helm stores the time of packing.
func PackChart(root, name, version string, at time.Time) ([]byte, error) {
	members, err := chartFiles(filepath.Join(root, "deploy", "charts", name), name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.name == name+"/Chart.yaml" })
	if i < 0 {
		return nil, errors.New("no Chart.yaml")
	}
	if members[i].data, err = stampChart(members[i].data, version); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := writeTarGz(&out, members, at); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// stampChart writes the release's version into a Chart.yaml.
func stampChart(text []byte, version string) ([]byte, error) {
	out := string(text)
	for field, value := range map[string]string{"version": strings.TrimPrefix(version, "v"), "appVersion": version} {
		before, rest, found := strings.Cut("\n"+out, "\n"+field+": ")
		_, after, _ := strings.Cut(rest, "\n")
		if !found {
			return nil, fmt.Errorf("Chart.yaml has no line that starts with %q", field+": ")
		}
		out = strings.TrimPrefix(before+"\n"+field+": "+value+"\n"+after, "\n")
	}
	return []byte(out), nil
}

// chartFiles reads the files of a chart. Links are followed: what a chart shares with the plain manifests is a link in the tree, and a file in the package.
// Folders that a link leads to bring Go files along, which are none of the chart's.
func chartFiles(dir, name string) (members []member, err error) {
	var walk func(at, as string) error
	walk = func(at, as string) error {
		entries, err := os.ReadDir(at)
		if err != nil {
			return err
		}
		for _, e := range entries {
			path, named := filepath.Join(at, e.Name()), as+"/"+e.Name()
			info, err := os.Stat(path)
			switch {
			case err != nil:
				return err
			case info.IsDir():
				if err := walk(path, named); err != nil {
					return err
				}
				continue
			case strings.HasSuffix(e.Name(), ".go"):
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			members = append(members, member{named, 0o644, data})
		}
		return nil
	}
	return members, walk(dir, name)
}
