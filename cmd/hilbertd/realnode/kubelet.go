package realnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/kubelet"
	"hilbert.dev/hilbert/node/storage"
	"hilbert.dev/hilbert/topology"
)

// kubeletConfigFile is the kubelet's configuration below its directory, where kubeadm and most distributions put it.
const kubeletConfigFile = "config.yaml"

// podResources has the socket of the kubelet's PodResources service, below its directory.
const podResources = "pod-resources"

// kubeletDefaults are the hard thresholds of a kubelet that is told none.
var kubeletDefaults = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
}

// Thresholds reads the kubelet's eviction thresholds where node.kubeletThresholds says: it asks the kubelet what it runs with, because flags and drop-ins count beside
// its file, or reads that file alone.
func (r Roots) Thresholds(config *spec.Node, m *topology.Machine) kubelet.ThresholdReader {
	directory := config.KubeletDirectory
	if config.KubeletThresholds == spec.ThresholdsFile {
		return func(context.Context) ([]evict.Threshold, error) { return fileThresholds(directory, m) }
	}
	return func(ctx context.Context) ([]evict.Threshold, error) {
		kubelet := r.kubelet(directory)
		if kubelet == nil {
			return nil, errors.New("the kubelet's eviction thresholds: its address is not known; set NODE_ADDRESS as deploy/agent.yaml does, or node.kubeletThresholds to File")
		}
		said, err := kubelet.Configuration(ctx)
		if err != nil {
			return nil, fmt.Errorf("the kubelet's eviction thresholds: %w", err)
		}
		return thresholds(said, "/configz", m)
	}
}

// fileThresholds are those of the kubelet's file, or its defaults where it has none.
func fileThresholds(directory string, m *topology.Machine) ([]evict.Threshold, error) {
	path := filepath.Join(directory, kubeletConfigFile)
	var config storage.KubeletConfiguration
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, unseen := os.Stat(filepath.Join(directory, CPUManagerState)); unseen != nil { // every kubelet has this file: its directory is not mounted
			return nil, fmt.Errorf("the kubelet's eviction thresholds: %w; mount %s into the agent's pod, or set node.kubeletThresholds to Ask", err, directory)
		}
	case err != nil:
		return nil, fmt.Errorf("the kubelet's eviction thresholds: %w", err)
	default:
		if err := yaml.Unmarshal(data, &config); err != nil {
			return nil, fmt.Errorf("the kubelet's eviction thresholds: %s: %w", path, err)
		}
	}
	return thresholds(&config, path, m)
}

// thresholds are those of a configuration that was read from somewhere. The kubelet's defaults stand where it names no hard ones.
func thresholds(said *storage.KubeletConfiguration, from string, m *topology.Machine) ([]evict.Threshold, error) {
	config, path := *said, from
	if config.Hard == nil {
		config.Hard = kubeletDefaults
	}
	var total float64
	for _, n := range m.NUMA {
		total += float64(n.Memory)
	}
	var out []evict.Threshold
	for soft, thresholds := range map[bool]map[string]string{false: config.Hard, true: config.Soft} {
		for signal, text := range thresholds {
			t, err := parseThreshold(text)
			if err != nil {
				return nil, fmt.Errorf("the kubelet's eviction thresholds: %s: %s: %w", path, signal, err)
			}
			if t.Signal, t.Soft = signal, soft; signal == "memory.available" {
				t.Total = total
			}
			out = append(out, t)
		}
	}
	return out, nil
}

// parseThreshold reads "10%" or "100Mi".
func parseThreshold(text string) (t evict.Threshold, err error) {
	if share, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(share, 64)
		if err != nil || percent < 0 || percent > 100 {
			return t, fmt.Errorf("%q: want a quantity, or a percentage from 0%% to 100%%", text)
		}
		t.Share = percent / 100
		return t, nil
	}
	amount, err := resource.ParseQuantity(text)
	if err != nil {
		return t, fmt.Errorf("%q: want a quantity, or a percentage: %w", text, err)
	}
	t.Amount = amount.AsApproximateFloat64()
	return t, nil
}

// serviceAccount is where a pod has what it is known by, and knows the cluster by.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// StorageReader asks the kubelet at the node's address, if the pod knows that address; otherwise it asks nothing. The kubelet shows a certificate that the
// cluster gave it, or one that it made for itself; either lies in its directory, unless it was given another.
func (r Roots) StorageReader(directory string) kubelet.StorageReader {
	if kubelet := r.kubelet(directory); kubelet != nil {
		return kubelet
	}
	return nil
}

// kubelet is the node's; nil: its address is not known.
func (r Roots) kubelet(directory string) *storage.Kubelet {
	if r.KubeletAddress == "" {
		return nil
	}
	return &storage.Kubelet{
		Address: r.KubeletAddress, Port: r.KubeletPort, Token: filepath.Join(r.ServiceAccount, "token"),
		Certificates: []string{
			filepath.Join(directory, "pki", "kubelet-server-current.pem"), filepath.Join(directory, "pki", "kubelet.crt"),
			filepath.Join(r.ServiceAccount, "ca.crt"),
		},
	}
}

// Disks looks at the file system of the kubelet's directory, by that of a directory in it which the agent sees even where it sees no more. That of images is not
// told apart: where it is another, the kubelet says so.
func Disks(directory string) func() (root, images evict.Disk) {
	return func() (root, images evict.Disk) {
		var info syscall.Statfs_t
		err := syscall.Statfs(filepath.Join(directory, podResources), &info)
		if errors.Is(err, fs.ErrNotExist) {
			err = syscall.Statfs(directory, &info)
		}
		if err != nil || info.Bsize <= 0 {
			return root, images
		}
		size := float64(info.Bsize)
		root.BytesTotal, root.Bytes = advise.Known(float64(info.Blocks)*size), advise.Known(float64(info.Bavail)*size)
		if info.Files > 0 { // some file systems have no fixed number
			root.InodesTotal, root.Inodes = advise.Known(float64(info.Files)), advise.Known(float64(info.Ffree))
		}
		return root, images
	}
}
