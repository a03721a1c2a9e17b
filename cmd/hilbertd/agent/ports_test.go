package agent

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/agent"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/topology"
)

// kubeletsBooks is a frame: default/web has nothing, prod/db CPUs 2-3 and 200, and nvidia.com/gpu "GPU-1".
const kubeletsBooks = "00000000510a130a03776562120764656661756c741a030a01630a3a0a026462120470726f641a1e0a036c6f6712170a0e6e7669646961" +
	"2e636f6d2f67707512054750552d311a080a0264621a02020322040203c801"

// What the kubelet's socket says reaches both who wants CPUs and who wants devices; who has none is listed too, and nobody answering is an error.
func TestKubeletsBooks(t *testing.T) {
	dir := t.TempDir()
	if pods, err := kubeletDevices(dir, nil)(t.Context()); err == nil || pods != nil {
		t.Errorf("nobody answers: %v, %v", pods, err)
	}
	frame, err := hex.DecodeString(kubeletsBooks)
	if err != nil {
		t.Fatal(err)
	}
	serveBooks(t, dir, frame)
	given, err := kubeletDevices(dir, nil)(t.Context())
	if want := `[{default web []} {prod db [nvidia.com/gpu "GPU-1"]}]`; err != nil || fmt.Sprint(given) != want {
		t.Errorf("devices: %v, %v; want %s", given, err, want)
	}
	given, err = kubeletDevices(dir, []string{"nvidia.com/hostdev", "nvidia.com/gpu"})(t.Context())
	if want := `[{default web []} {prod db []}]`; err != nil || fmt.Sprint(given) != want {
		t.Errorf("devices but for those that are no GPUs: %v, %v; want %s", given, err, want)
	}
	cpus, err := exclusiveCPUs(dir)(t.Context())
	if err != nil || cpus[node.PodKey{Namespace: "prod", Name: "db"}] != topology.CPUs(2, 3, 200) || !cpus[node.PodKey{Namespace: "default", Name: "web"}].IsEmpty() {
		t.Errorf("CPUs: %v, %v", cpus, err)
	}
}

// Network cards by a name of NVIDIA's sell no GPUs; by a name that nobody knows somebody does.
func TestNetworkCardsSellNoGPUs(t *testing.T) {
	other := spec.Default().Node.Devices.OtherResources
	for name, want := range map[string]topology.Owner{
		"nvidia.com/hostdev": topology.OwnerHilbert, "nvidia.com/gpu": topology.OwnerKubelet, "nvidia.com/GRID_T4-4Q": topology.OwnerKubelet,
	} {
		p := gpu.Defaults()
		e := evidence(agent.Offers{NodeKnown: true, SlicesKnown: true, Offered: map[string]int64{"cpu": 8, name: 2}}, other)
		e.GPUs, e.Ready, e.Quiet = 8, true, p.Settle
		if own := gpu.DecideOwner(&p, &e); own.Owner != want {
			t.Errorf("node.status offers %s: the owner is %v, want %v", name, own, want)
		}
	}
}

// serveBooks answers on the kubelet's socket as gRPC does.
func serveBooks(t *testing.T, directory string, frame []byte) {
	t.Helper()
	writeFile(t, filepath.Join(directory, "pod-resources", "there"), "")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(directory, "pod-resources", "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		if r.URL.Path != "/v1.PodResourcesLister/List" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(frame)
		w.Header().Set("Grpc-Status", "0")
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}
